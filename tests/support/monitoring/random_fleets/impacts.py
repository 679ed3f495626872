"""What is known of one event and one of its VMs: since when it is due or has started there, and whether that is over.

It reads what exporters show, and knows no rule. A row is what a person would note: this VM, this event, since then.
"""

from dataclasses import dataclass

from support.monitoring.random_fleets.generator import Watcher
from support.monitoring.random_fleets.limits import Limits
from support.monitoring.random_fleets.lives import Life, Shown
from support.monitoring.random_fleets.pages import Truth

SLACK = 60  # seconds that scrapes, and recordings of recordings, may take from a period or add to it
KNOWN_AFTER = 60  # seconds after which the name of a VM is known to those that look it up

_Shows = list[tuple[Watcher, Shown]]


@dataclass
class Impact:
    """One event and one VM.

    Attributes:
        due, started: the first evaluation at which it was due there, or had started, for certain; ``due`` begins anew
            if NotBefore is moved.
        due_perhaps, started_perhaps: the first scrape that may have shown it.
        noted: whether the row is there for certain: it stays while the VM does not answer.
        noted_at, noted_first: when it last was, and when for the first time.
        pod, by_own: of which pod the first row was, and whether its own exporter showed the event then.
        by_others: whether the row may have begun with what other exporters showed, who know one target of the VM only.
        ended: whether the VM has answered without the event for so long that the row is gone.
        listed: whether any exporter has named the VM in Resources so far.
    """

    vm: Watcher
    life: Life
    limits: Limits
    evaluation: int
    due: int | None = None
    started: int | None = None
    due_perhaps: int | None = None
    started_perhaps: int | None = None
    noted: bool = False
    noted_at: int | None = None
    noted_first: int | None = None
    pod: int | None = None
    by_own: bool = False
    by_others: bool = False
    ended: bool = False
    listed: bool = False
    _listed_before: bool = False
    _named_since: int | None = None
    _named_at: int | None = None
    _target_at: int | None = None
    _quiet_since: int | None = None
    _far_since: int | None = None
    _current_at: int = 0
    _own: bool = False
    _ended_pod: int = 0

    @property
    def longest(self) -> float:
        """The longest maintenance."""
        return self.limits.outages[self.life.event_type]

    @property
    def may_have_begun(self) -> bool:
        """Whether the event may have been due on the VM, or have started there."""
        return self.due_perhaps is not None or self.started_perhaps is not None

    def read(self, now: int, shows: _Shows, current: Truth) -> None:
        """Take the scrapes of ``now`` that show the event; ``current``: whether it is, for certain and perhaps."""
        if self.vm.answers(now) and self.vm.named(now):
            self._named_at = now
            self._named_since = now if self._named_since is None else self._named_since
        self._current_at = now if current[1] and shows else self._current_at
        self._own |= any(each is self.vm and self.vm.number in found.resources for each, found in shows)
        lists = [found for _, found in shows if self.vm.number in found.resources]
        self.listed |= bool(lists)
        if (lists or self._listed_before) and self._named_since is not None:
            self._may_begin(now, shows)
        self._listed_before = bool(lists)  # rules look back at one scrape more
        self._note(now, shows, is_current=current[0])
        if now % self.evaluation == 0 and self._named_at == now:
            self._target_at = now
        self._end(now, lists, is_current=current[1])

    def _may_begin(self, now: int, shows: _Shows) -> None:
        if any(found.started for _, found in shows) and self.started_perhaps is None:
            self.started_perhaps = now
        near = [found.started or found.not_before <= now + self.limits.before + SLACK for _, found in shows]
        if any(near) and self.due_perhaps is None:
            self.due_perhaps = now
        if not all(near):
            self.due = None
        self._far_since = None if any(near) else self._far_since or now
        if self._far_since is not None and now - self._far_since > self.limits.after + SLACK:
            self.due_perhaps = None

    def _note(self, now: int, shows: _Shows, *, is_current: bool) -> None:
        """A row begins with what an evaluation sees, goes on with the event, and stays while its VM is away.

        It ends if NotBefore is moved away before the event has started.
        """
        reported = is_current and self._is_reported(now, shows)
        answers = self.vm.answers(now)
        if now % self.evaluation == 0:
            is_own = any(each is self.vm for each, _ in shows)
            self.by_others |= self.pod is None and not is_own and bool(shows) and self.may_have_begun
            if reported and (self.noted or self._has_target(now, is_own=is_own)):
                self._begin(now, shows)
        moved = self.started is None and any(found.not_before > now + self.limits.before for _, found in shows)
        self.noted = self.noted and not moved and (reported or not answers)
        left = now >= self.vm.deleted or self.pod != self.vm.pod(now)  # the target that is known has gone
        if self.life.deletes and left:
            self.noted = False
        if self.noted:
            self.noted_at = now

    def _begin(self, now: int, shows: _Shows) -> None:
        if any(found.started for _, found in shows):
            self.started = now if self.started is None else self.started
        elif all(found.not_before <= now + self.limits.before for _, found in shows):
            self.due = now if self.due is None else self.due
        else:
            return
        if not self.noted:
            self.noted = True
        if self.pod is None:
            self.noted_first = now
            self.by_own = any(each is self.vm for each, _ in shows)
            self.pod = self.vm.pod(now if self.by_own or self._target_at is None else self._target_at)

    def _has_target(self, now: int, *, is_own: bool) -> bool:
        """Return whether rules know which target is the VM's: only if it told its name at an earlier evaluation.

        They record targets at evaluations, and may do that after they look for them.
        """
        known = self._target_at is not None
        return known and (not is_own or self.vm.pod(self._target_at or 0) == self.vm.pod(now))

    def _is_reported(self, now: int, shows: _Shows) -> bool:
        """Return whether the VM's own exporter shows the event, or all others do and know where the VM is."""
        own = next((found for each, found in shows if each is self.vm), None)
        if self.vm.answers(now):
            listed = own is not None and own.confirmed and self.vm.number in own.resources
            return listed and self.vm.sees(now) and self.vm.named(now)
        if self._named_since is None or self._named_at is None or now - self._named_since < KNOWN_AFTER:
            return False
        seeing = [(each, found) for each, found in shows if each.sees(now)]
        known = now - self._named_at < self.limits.memory - SLACK
        return known and bool(seeing) and all(each.named(now) and self.vm.number in f.resources for each, f in seeing)

    def _end(self, now: int, lists: list[Shown], *, is_current: bool) -> None:
        answers = self.vm.answers(now) and self.vm.named(now)
        from_journal = any(not found.confirmed for found in lists)
        left = not lists and self.vm.sees(now) and self._own
        if answers and not from_journal and (left or not is_current):
            self._quiet_since = now if self._quiet_since is None else self._quiet_since
            if not self.ended and now - self._quiet_since >= self.limits.after + SLACK:
                self.ended, self._ended_pod = True, self.vm.pod(self._quiet_since)
        else:
            self._quiet_since = None
            self.ended = self.ended and not (lists and is_current)

    def maintained(self, now: int) -> Truth:
        """Return whether the VM is in maintenance because of the event."""
        certain = (
            self.noted_at is not None
            and now - self.noted_at <= self.limits.after - SLACK
            and self.started is not None
            and self.started_perhaps is not None
            and self.started + self.evaluation <= now <= self.started_perhaps + self.longest - SLACK
        )
        has_ended = self.ended and self._ended_pod == self.vm.pod(now)  # a new target may bring the row back
        return certain, self._may_last(now) and not has_ended

    def _may_last(self, now: int) -> bool:
        if self.life.deletes and now > max(self.vm.deleted, self._current_at) + self.limits.after + SLACK:
            return False
        begun = ((self.started_perhaps, self.started), (self.due_perhaps, self.due))
        return any(
            perhaps is not None and (certain is None or now <= certain + self.longest + SLACK)
            for perhaps, certain in begun
        )
