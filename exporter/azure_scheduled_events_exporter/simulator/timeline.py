"""The life of an event of a scenario: what it is now, and the changes that are to come.

An approval brings the start forward, and the start sets the end. Times are arguments, in seconds of
the simulator's clock. Must not depend on requests, api-versions or the network.
"""

from dataclasses import dataclass
from enum import StrEnum

from .document import WireEvent, not_before_text
from .scenario import PlannedEvent, Starts


class What(StrEnum):
    """What can happen to an event."""

    ANNOUNCED = "announced"
    RESCHEDULED = "rescheduled"
    APPROVED = "approved"  # never on an agenda: a client does it
    STARTED = "started"
    COMPLETED = "completed"
    CANCELLED = "cancelled"
    WITHDRAWN = "withdrawn"  # an event of type ``document.ADVICE`` leaves the document


@dataclass(frozen=True, slots=True)
class Happening:
    """One thing that happened to an event: the truth with which reports can be compared.

    Attributes:
        at: when it happened, in Unix seconds of the simulator's clock.
        vm: the VM that approved, or ``""`` if it is no approval.
        scenario: the name of the scenario, or ``""`` for an event that was placed by hand.
        not_before: NotBefore of an event that is Scheduled now; otherwise None. An event that
            starts at once is announced and started at the same moment, so it is never Scheduled.
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
class Change:
    """A change of an event that is to come, and its moment."""

    at: float
    what: What


@dataclass(slots=True)
class Life:
    """One event from before its announcement to its end.

    Attributes:
        speed: how many times faster than written the ``plan`` is played.
        agenda: the changes to come, the next one first.
        status: EventStatus; ``""`` while the event is not in the document.
    """

    event_id: str
    plan: PlannedEvent
    speed: float
    agenda: list[Change]
    status: str = ""
    not_before: float | None = None
    is_approved: bool = False

    def advance(self, now: float) -> list[What]:
        """Apply the changes that are due at ``now``; return what happened, in order."""
        happened = []
        while self.agenda and self.agenda[0].at <= now:
            change = self.agenda.pop(0)
            self._apply(change)
            happened.append(change.what)
        return happened

    def approve(self, at: float) -> bool:
        """Let the event start soon, at NotBefore at the latest; return whether that was possible.

        Only a Scheduled event that was not approved before can be approved. Its start replaces the
        agenda, so it is not rescheduled or cancelled any more. The agenda of an event that never
        starts stays as it is.
        """
        if self.is_approved or self.status != "Scheduled":
            return False
        self.is_approved = True
        # Every Scheduled event here has NotBefore: without notice, an event is Started at once.
        if self.plan.starts is not Starts.NEVER and self.not_before is not None:
            after_delay = at + self.plan.approval_delay / self.speed
            start = min(after_delay, self.not_before)
            # Should NotBefore have passed, it starts at the approval: no change is in the past.
            self.agenda = [Change(max(start, at), What.STARTED)]
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

    def _apply(self, change: Change) -> None:
        """Set status and NotBefore as after ``change``; the start puts the end on the agenda."""
        notice = None  # seconds of scenario time from now to NotBefore; None: there is none
        if change.what is What.ANNOUNCED and self.plan.is_advice:
            self.status = "Advisory"
        elif change.what is What.ANNOUNCED:
            self.status = "Scheduled"
            if self.plan.starts is not Starts.AT_ONCE:
                notice = self.plan.notice
        elif change.what is What.RESCHEDULED:
            notice = self.plan.new_notice
        elif change.what is What.STARTED:
            self.status = "Started"
            ends = change.at + self.plan.started_for / self.speed
            self.agenda = [Change(ends, What.COMPLETED)]
        else:  # completed, cancelled or withdrawn
            self.status = ""
        self.not_before = None
        if notice is not None:
            self.not_before = change.at + notice / self.speed


def agenda_of(plan: PlannedEvent, began: float, speed: float) -> list[Change]:
    """Return what will happen to an event that nobody approves, up to its start, next one first.

    ``began`` is when the scenario began. The order is that of time, because ``scenario_file``
    refuses an event that is, for example, cancelled before it is rescheduled.
    """
    agenda: list[Change] = []

    def add(seconds: float, what: What) -> None:
        agenda.append(Change(began + seconds / speed, what))

    add(plan.announced_at, What.ANNOUNCED)
    if plan.rescheduled_at is not None:
        add(plan.rescheduled_at, What.RESCHEDULED)
    if plan.cancelled_at is not None and plan.is_advice:
        add(plan.cancelled_at, What.WITHDRAWN)
    elif plan.cancelled_at is not None:
        add(plan.cancelled_at, What.CANCELLED)
    elif plan.starts is Starts.AT_ONCE:
        add(plan.announced_at, What.STARTED)
    elif plan.starts is Starts.NOT_BEFORE:
        add(plan.not_before, What.STARTED)
    return agenda
