"""What must be reported of an event, written from the rules of the design alone and sharing nothing with the exporter.

It knows one event at a time: what each document showed, when, and what else was known then.
"""

from dataclasses import dataclass, field

WATCHED_SECONDS = 60
EARLY_SECONDS = 5
OUTDATED_SECONDS = 600  # a document so long after a boot does not show its event as Scheduled
ENDS_A_BOOT = {"Reboot", "Redeploy", "Preempt", "Terminate"}


@dataclass(frozen=True)
class Shown:
    """An event as a document shows it; times in seconds."""

    status: str
    kind: str
    source: str
    own: bool
    not_before: float | None


@dataclass
class ReportedLife:
    """What has been reported of one event so far."""

    first_seen: float
    shown: Shown
    not_before: float | None = None
    started: bool = False
    by_boot: bool = False
    approved_by: str | None = None
    outcome: str | None = None
    reported: list[str] = field(default_factory=list)


class LifeOracle:
    """Computes from polls which transitions of each event must have been reported."""

    def __init__(self) -> None:
        self.lives: dict[str, ReportedLife] = {}
        self._answer_at: float | None = None  # of this run of the exporter
        self._gap = True
        self._empty: list[float] = []
        self._boot: float | None = None

    def restarts(self, boot: float | None) -> None:
        """The exporter is new; the VM booted then, or not."""
        self._answer_at, self._gap, self._empty = None, True, []
        self._boot = self._boot if boot is None else boot

    def sees(self, at: float, events: dict[str, Shown] | None, *, partly_unreadable: bool) -> None:
        """A poll got a document with these events; None is an empty body."""
        self._gap |= self._answer_at is None or at - self._answer_at > WATCHED_SECONDS
        self._answer_at = at
        current = {name for name, life in self.lives.items() if life.outcome is None}
        self._empty = [*self._empty, at] if events is None and current else []
        if events is None and current and not (len(self._empty) >= 3 and at - self._empty[0] >= 5):
            return
        for name, shown in (events or {}).items():
            self._present(name, shown, at)
        missing = current - set(events or {})
        if partly_unreadable:  # an event that is missing may have left unseen, and may as well be what is unreadable
            self._gap &= bool(missing)
            return
        for name in missing:
            self._absent(self.lives[name], at, watched=not self._gap)
        self._gap = False

    def _present(self, name: str, shown: Shown, at: float) -> None:
        life = self.lives.get(name)
        is_new = life is None
        if life is None:
            life = self.lives[name] = ReportedLife(at, shown, shown.not_before, reported=["detected"])
        elif life.outcome is not None:
            self._return(life)
        life.shown = shown
        if life.started:
            return
        if shown.status == "Started":
            self._start(life, at, without_notice=is_new)
            return
        if shown.not_before is not None and shown.not_before != life.not_before:
            life.reported += ["rescheduled"] if life.not_before is not None else []
            life.not_before = shown.not_before
        if shown.own and shown.source == "User" and life.approved_by is None:
            life.approved_by = "exporter"
            life.reported.append("approved")

    def _return(self, life: ReportedLife) -> None:
        life.reported.append("returned")
        life.outcome = None
        if life.by_boot:  # the boot proved nothing after all
            life.started = life.by_boot = False
            life.approved_by = None if life.approved_by == "deadline" else life.approved_by

    def _start(self, life: ReportedLife, at: float, *, without_notice: bool) -> None:
        if life.approved_by is None and life.not_before is not None and not without_notice:
            early = at < life.not_before - EARLY_SECONDS
            life.approved_by = "external" if early else "deadline"
            life.reported += ["approved"] if early else []
        life.started = True
        life.reported.append("started")

    def _absent(self, life: ReportedLife, at: float, *, watched: bool) -> None:
        if life.started:
            life.outcome = "completed"
        elif watched and life.not_before is not None and at < life.not_before:
            life.outcome = "cancelled"
        elif self._boot_proves(life) and not (
            watched and self._boot is not None and at - self._boot > OUTDATED_SECONDS
        ):
            life.outcome, life.started, life.by_boot = "completed", True, True
            if life.approved_by is None and life.not_before is not None:
                life.approved_by = "deadline"
        else:
            life.outcome = "lost"
        life.reported.append(life.outcome)

    def _boot_proves(self, life: ReportedLife) -> bool:
        if self._boot is None or self._boot <= life.first_seen:
            return False
        if not life.shown.own or life.shown.kind not in ENDS_A_BOOT:
            return False
        due = life.not_before is None or self._boot >= life.not_before - EARLY_SECONDS
        return due or life.approved_by == "exporter"
