"""The lives of the events of one scenario.

Times are arguments, in seconds of the simulator's clock.

Each event has an agenda of future changes, which an approval and the start replace. Must not depend
on requests, api-versions or the network.
"""

from dataclasses import dataclass
from enum import StrEnum

from .document import WireEvent, not_before_text
from .scenario import PlannedEvent, Starts


class What(StrEnum):
    """The kinds of happenings."""

    ANNOUNCED = "announced"
    RESCHEDULED = "rescheduled"
    APPROVED = "approved"
    STARTED = "started"
    COMPLETED = "completed"
    CANCELLED = "cancelled"
    WITHDRAWN = "withdrawn"  # of advice


@dataclass(frozen=True, slots=True)
class Happening:
    """What really happened, and when (``at``, Unix seconds of the simulator's clock).

    ``vm`` is the one that approved, else ``""``. ``not_before`` is None once started, and for an
    event that starts at once: it is announced and started at the same moment, and no document ever
    shows it Scheduled.
    """

    event_id: str
    event_type: str
    event_source: str
    resources: tuple[str, ...]
    what: What
    at: float
    vm: str = ""
    scenario: str = ""
    not_before: float | None = None


@dataclass(slots=True)
class Life:
    """One event: its EventStatus (``""`` outside the document), NotBefore and future changes.

    ``agenda`` has each change with its moment, the next one first.
    """

    event_id: str
    plan: PlannedEvent
    speed: float
    agenda: list[tuple[float, What]]
    status: str = ""
    not_before: float | None = None
    is_approved: bool = False

    def advance(self, now: float) -> list[What]:
        """Apply the entries of the agenda that are due at ``now``; return them."""
        due = []
        while self.agenda and self.agenda[0][0] <= now:
            at, what = self.agenda.pop(0)
            self._apply(at, what)
            due.append(what)
        return due

    def approve(self, at: float) -> bool:
        """Let it begin soon, at NotBefore at the latest; return whether it could be approved.

        An event that never starts is only marked as approved.
        """
        if self.is_approved or self.status != "Scheduled":
            return False
        self.is_approved = True
        if self.plan.starts is not Starts.NEVER and self.not_before is not None:
            start = min(at + self.plan.approval_delay / self.speed, max(self.not_before, at))
            self.agenda = [(start, What.STARTED)]
        return True

    def on_wire(self) -> WireEvent:
        """Return the event as the newest api-version shows it."""
        return {
            "EventId": self.event_id,
            "EventStatus": self.status,
            "EventType": self.plan.event_type,
            "ResourceType": "VirtualMachine",
            "Resources": list(self.plan.resources),
            "NotBefore": not_before_text(self.not_before),
            "Description": self.plan.description,
            "EventSource": self.plan.source,
            "DurationInSeconds": self.plan.duration,
        }

    def _apply(self, at: float, what: What) -> None:
        """Change status and NotBefore as ``what`` does; the start sets the end."""
        notice = None
        if what is What.ANNOUNCED:
            self.status = "Advisory" if self.plan.is_advice else "Scheduled"
            if not self.plan.is_advice and self.plan.starts is not Starts.AT_ONCE:
                notice = self.plan.notice
        elif what is What.RESCHEDULED:
            notice = self.plan.new_notice
        elif what is What.STARTED:
            self.status = "Started"
            self.agenda = [(at + self.plan.started_for / self.speed, What.COMPLETED)]
        else:  # completed, cancelled or withdrawn
            self.status = ""
        self.not_before = None if notice is None else at + notice / self.speed


def agenda_of(plan: PlannedEvent, began: float, speed: float) -> list[tuple[float, What]]:
    """Return the changes of an event in order: ``scenario`` refuses moments in another order."""
    agenda = [(plan.announced_at, What.ANNOUNCED)]
    if plan.rescheduled_at is not None:
        agenda.append((plan.rescheduled_at, What.RESCHEDULED))
    if plan.cancelled_at is not None:
        agenda.append((plan.cancelled_at, What.WITHDRAWN if plan.is_advice else What.CANCELLED))
    elif plan.starts is not Starts.NEVER:
        at_once = plan.starts is Starts.AT_ONCE
        agenda.append((plan.announced_at if at_once else plan.not_before, What.STARTED))
    return [(began + seconds / speed, what) for seconds, what in agenda]
