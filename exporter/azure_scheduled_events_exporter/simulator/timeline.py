"""One run of a scenario. Pure and immutable; times are arguments, in seconds of the simulator's clock.

Each event has an agenda of future changes, which an approval and the start replace. Must not depend on
requests, api-versions or the network.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum

from .document import WireEvent, not_before_text
from .scenario import PlannedEvent, Scenario, Starts


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

    ``vm`` is the one that approved, else ``""``. ``not_before`` is None once started, and for an event that starts at
    once: it is announced and started at the same moment, and no document ever shows it Scheduled.
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


@dataclass(frozen=True, slots=True)
class Life:
    """One event: its EventStatus (``""`` outside the document), its NotBefore, and its future changes in order."""

    event_id: str
    plan: PlannedEvent
    agenda: tuple[tuple[float, What], ...]
    status: str = ""
    not_before: float | None = None
    approved: bool = False

    def next_step(self, speed: float) -> "Life":
        """Return the life after the first entry of its agenda."""
        (at, what), *rest = self.agenda
        left = replace(self, agenda=tuple(rest))
        match what:
            case What.ANNOUNCED:
                noticed = self.plan.starts is not Starts.AT_ONCE and not self.plan.is_advice
                not_before = at + self.plan.notice / speed if noticed else None
                status = "Advisory" if self.plan.is_advice else "Scheduled"
                return replace(left, status=status, not_before=not_before)
            case What.RESCHEDULED:
                return replace(left, not_before=at + self.plan.new_notice / speed)
            case What.STARTED:
                end = (at + self.plan.started_for / speed, What.COMPLETED)
                return replace(left, status="Started", not_before=None, agenda=(end,))
            case _:
                return replace(left, status="", not_before=None)

    def after_approval(self, at: float, speed: float) -> "Life":
        """Return the life after an approval ``at`` that time: it begins soon, and at NotBefore at the latest."""
        if self.plan.starts is Starts.NEVER or self.not_before is None:
            return replace(self, approved=True)
        start = min(at + self.plan.approval_delay / speed, max(self.not_before, at))
        return replace(self, approved=True, agenda=((start, What.STARTED),))

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


@dataclass(frozen=True, slots=True)
class Timeline:
    """A scenario that began at some moment and runs at ``speed``; ``reached`` is its last change."""

    scenario: Scenario
    lives: tuple[Life, ...]
    began: float
    speed: float
    reached: float

    @property
    def next_at(self) -> float | None:
        """The time of the next change; None if there is none."""
        return min((life.agenda[0][0] for life in self.lives if life.agenda), default=None)

    @property
    def over_at(self) -> float | None:
        """The time at which the scenario is over; None while an event is still to begin or end."""
        if self.next_at is not None:
            return None
        return max(self.reached, self.began + self.scenario.shortest / self.speed)

    def events(self) -> tuple[WireEvent, ...]:
        """Return the current events in the newest form, in the scenario's order."""
        return tuple(life.on_wire() for life in self.lives if life.status)

    def knows(self, event_id: str) -> bool:
        """Return whether ``event_id`` (in upper or lower case) is a current event; only those can be approved."""
        return self._current(event_id) is not None

    def step(self) -> tuple["Timeline", tuple[Happening, ...]]:
        """Apply all changes due at :attr:`next_at`; return the new timeline and what happened."""
        moment = self.next_at
        if moment is None:
            return self, ()
        lives, happenings = [], []
        for before in self.lives:
            life = before
            while life.agenda and life.agenda[0][0] <= moment:
                what = life.agenda[0][1]
                life = life.next_step(self.speed)
                happenings.append(self._happening(life, what, moment))
            lives.append(life)
        return replace(self, lives=tuple(lives), reached=moment), tuple(happenings)

    def approve(self, event_id: str, vm: str, at: float) -> tuple["Timeline", tuple[Happening, ...]]:
        """Return the timeline after IMDS received ``vm``'s approval of ``event_id``; a second one changes nothing."""
        life = self._current(event_id)
        if life is None or life.approved or life.status != "Scheduled":
            return self, ()
        approved = life.after_approval(at, self.speed)
        lives = tuple(approved if each is life else each for each in self.lives)
        return replace(self, lives=lives), (self._happening(life, What.APPROVED, at, vm),)

    def _current(self, event_id: str) -> Life | None:
        wanted = event_id.upper()
        return next((life for life in self.lives if life.status and life.event_id == wanted), None)

    def _happening(self, life: Life, what: What, at: float, vm: str = "") -> Happening:
        plan, name = life.plan, self.scenario.name
        about = (life.event_id, plan.event_type, plan.source, plan.resources)
        return Happening(*about, what, at, vm, name, life.not_before)


def begin(scenario: Scenario, *, at: float, speed: float, event_id: Callable[[int], str]) -> Timeline:
    """Return ``scenario`` at its beginning; ``event_id`` returns the upper-case id of its n-th event."""
    lives = tuple(Life(event_id(index), plan, _agenda(plan, at, speed)) for index, plan in enumerate(scenario.events))
    return Timeline(scenario, lives, at, speed, at)


def _agenda(plan: PlannedEvent, began: float, speed: float) -> tuple[tuple[float, What], ...]:
    """Return the changes in their order: ``scenario`` has checked that their moments are in it too."""
    agenda = [(plan.announced_at, What.ANNOUNCED)]
    if plan.rescheduled_at is not None:
        agenda.append((plan.rescheduled_at, What.RESCHEDULED))
    if plan.cancelled_at is not None:
        agenda.append((plan.cancelled_at, What.WITHDRAWN if plan.is_advice else What.CANCELLED))
    elif plan.starts is not Starts.NEVER:
        at_once = plan.starts is Starts.AT_ONCE
        agenda.append((plan.announced_at if at_once else plan.not_before, What.STARTED))
    return tuple((began + seconds / speed, what) for seconds, what in agenda)
