"""The record of an event from its first appearance to its end.

Data only: states, transitions, and the immutable record of one event's life. ``core.presence`` and
``core.absence`` decide what a document changes, and ``core.approvals`` what an approval changes.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from .document import ScheduledEvent, Scope
from .impact import Impact, Tcp
from .timestamp import Timestamp

REMEMBERED_ENDS = 500
"""How many ended events are kept in memory, so that an event that returns keeps its history.

``core.bounds`` counts an event with long texts as several.
"""

REMEMBERED_MOVES = 50
"""How many reschedules and returns of one event are remembered for its trace."""

APPROVAL_MARGIN_SECONDS = 5.0
"""An event that starts earlier than this before NotBefore was approved.

Without approval, Azure never starts early.
"""

POSTPONED_SECONDS = 60.0
"""If NotBefore moves by at least this much after an approval, the event needs a new one.

Smaller moves are usual: NotBefore may differ a little in each document.
"""


class State(StrEnum):
    """The state of a current event."""

    SCHEDULED = "Scheduled"
    STARTED = "Started"
    # Advice, since api-version 2024-07-09: nothing is scheduled; neither pending nor started.
    ADVISORY = "Advisory"
    # A status that the documentation does not name; counts as pending.
    OTHER = "other"


class Kind(StrEnum):
    """What an event is for the people who run the VM; ``core.kinds`` decides it."""

    # Advice: nothing is scheduled.
    ADVISORY = "advisory"
    # Announced as no interruption, or as a short Freeze, and nothing that was measured contradicts.
    HARMLESS = "harmless"
    # A user requested it.
    REQUESTED = "requested"
    # A restart that had started when it was first seen: its host failed.
    WITHOUT_NOTICE = "without_notice"
    # NotBefore is more than a day away.
    FAR_AHEAD = "far_ahead"
    # A type that is in no table.
    UNKNOWN_TYPE = "unknown_type"
    # Everything else.
    ANNOUNCED = "announced"


class Transition(StrEnum):
    """What happens to an event.

    ``detected``, ``approved`` and ``started`` happen at most once and in this order, then one of
    the four ends. ``rescheduled`` may happen several times before the start. ``returned`` may
    follow an end, and another end follows it.
    """

    DETECTED = "detected"
    RESCHEDULED = "rescheduled"
    APPROVED = "approved"
    STARTED = "started"
    # The ends; core.absence decides which.
    COMPLETED = "completed"
    CANCELLED = "cancelled"
    LOST = "lost"
    WITHDRAWN = "withdrawn"
    # In a document again after an end.
    RETURNED = "returned"


class Approver(StrEnum):
    """Who approved the event."""

    # The policy of the exporter on this VM.
    EXPORTER = "exporter"
    # A person, with the command ``approve`` on this VM.
    OPERATOR = "operator"
    # The command ``hook`` on this VM.
    HOOK = "hook"
    # Somebody else: another VM, another program on this one, or Azure.
    EXTERNAL = "external"
    # It began at NotBefore or later, and no approval is known. That nobody approved it is certain
    # only if Lifecycle.was_waiting_when_due.
    DEADLINE = "deadline"


@dataclass(frozen=True, slots=True)
class Move:
    """A reschedule or a return of an event.

    Attributes:
        transition: rescheduled or returned.
        at: when this exporter saw it.
        not_before: NotBefore afterwards, seconds since the epoch; None if it is not known.
        previous_not_before: NotBefore until then, likewise.
    """

    transition: Transition
    at: Timestamp
    not_before: float | None = None
    previous_not_before: float | None = None


@dataclass(frozen=True, slots=True)
class Approval:
    """An approval of an event, or the request for one.

    Attributes:
        by: who approves it.
        who: the name of the policy's rule, of the operator or of the hook's script; ``""`` if it is
            not known.
        at: when this exporter learned of the approval; of a request, when it was first sent.
        not_before: the event's NotBefore when the last accepted approval was sent from here; None
            if none was sent from here, or NotBefore was not known.
    """

    by: Approver
    at: Timestamp
    not_before: float | None = None
    who: str = ""


@dataclass(frozen=True, slots=True)
class Lifecycle:
    """One event from its first appearance.

    Attributes:
        event: as the newest document shows it.
        state: its state; a Started event never becomes Scheduled again.
        scope: whether it affects this VM. It does if Resources have ever named this VM by its
            newest known name; they may shrink while the event goes on.
        first_seen: when a document first showed it.
        not_before: the last NotBefore that could be read, seconds since the epoch.
        notice_seconds: the announced notice: from first seen to NotBefore, 0 if it had already
            started; None if no NotBefore was known, for advice, and for what a user requested and
            Azure started at once.
        request: the request for an approval from here whose result is not known; None if there is
            none. It is set before it is sent, and removed by a refusal. If the event starts early
            meanwhile, or while this exporter saw no documents, it counts as accepted.
        approval: who approved it and when, once that is known.
        started_at: when it was first seen Started. If only a boot of this VM proves the start: the
            boot, or NotBefore if that was earlier and no approval had been sent from here.
        pending_until: when a document had last shown it before its start, seconds since the epoch;
            None if no document of this run had.
        proven_by_boot: whether only a boot of this VM shows that it started.
        outcome: how it ended: completed, cancelled, lost or withdrawn; None while it is current.
        ended_at: when its end was seen.
        shown_until: when a document had last shown it before its end, seconds since the epoch; None
            if no document of this run had.
        has_returned: whether it has been in a document again after an end. Histograms leave out
            what follows.
        moves: its last :data:`REMEMBERED_MOVES` reschedules and returns, oldest first.
        vm_name: this VM's name when the event was last observed, so that after a restart it is
            known immediately; None if unknown.
        own_name: ``vm_name`` as Resources spell it, whose case may differ; ``""`` if no document
            has named ``vm_name``. It is kept when Resources shrink, and looked up again if this VM
            gets another name.
        most_resources: the largest number of VMs that a document has shown in Resources.
        observed_pause: seconds of this VM's longest pause while the event was Started, so far; None
            if nobody measured from its start on, as for events of other VMs.
        pauses: how many pauses of 0.1 s or more there were.
        pause_ended: when the end of the longest pause was noticed, as :class:`.pause.Pause` says.
            If the pause was a restart of the VM, it is a moment of another boot than
            ``started_at``.
        impact: what the kernel counted while it was Started, so far; None if nobody read that at
            its start, as for events of other VMs.
        kind: its kind at the last poll; of an ended event, that at its end.
        paused_longer: whether this VM was paused for longer than announced, and than what the
            settings call harmless.
    """

    # What documents say.
    event: ScheduledEvent
    state: State
    scope: Scope
    first_seen: Timestamp
    not_before: float | None = None
    notice_seconds: float | None = None
    # Its approval.
    request: Approval | None = None
    approval: Approval | None = None
    # Its start.
    started_at: Timestamp | None = None
    pending_until: float | None = None
    proven_by_boot: bool = False
    # Its end, and what has moved until then.
    outcome: Transition | None = None
    ended_at: Timestamp | None = None
    shown_until: float | None = None
    has_returned: bool = False
    moves: tuple[Move, ...] = ()
    # The VMs that it names.
    vm_name: str | None = None
    own_name: str = ""
    most_resources: int = 0
    # What was measured while it was Started, and what follows from that.
    observed_pause: float | None = None
    pauses: int = 0
    pause_ended: Timestamp | None = None
    impact: Impact | None = None
    kind: Kind = Kind.ANNOUNCED
    paused_longer: bool = False

    @property
    def event_id(self) -> str:
        """The EventId, upper case."""
        return self.event.event_id

    @property
    def approved_by(self) -> Approver | None:
        """Who approved it, once that is known."""
        return self.approval.by if self.approval else None

    @property
    def approved_at(self) -> Timestamp | None:
        """When it was approved, once that is known."""
        return self.approval.at if self.approval else None

    @property
    def is_mine(self) -> bool:
        """Whether it is an event of this VM."""
        return self.scope is Scope.SELF

    @property
    def tcp(self) -> Tcp | None:
        """What TCP counted while it was Started, so far; None if that is not known."""
        return self.impact.during if self.impact else None

    @property
    def is_pending(self) -> bool:
        """Whether the event is still to start. Advice is neither pending nor started."""
        return self.state in {State.SCHEDULED, State.OTHER}

    def is_due_at(self, wall: float) -> bool:
        """Return whether Azure can have started it by ``wall`` without an approval.

        ``wall``: seconds since the epoch. It can at any time if NotBefore is not known.
        """
        return self.not_before is None or wall >= self.not_before - APPROVAL_MARGIN_SECONDS

    @property
    def was_waiting_when_due(self) -> bool:
        """Whether a document showed it waiting at NotBefore: then nobody had approved it."""
        return self.pending_until is not None and self.is_due_at(self.pending_until)

    @property
    def impact_at(self) -> float | None:
        """When the impact begins or began, seconds since the epoch.

        None if that is unknown, and for advice.
        """
        if self.started_at is not None:
            return self.started_at.wall
        if self.approved_at is not None and not self.is_postponed:
            return self.approved_at.wall  # Azure may start it at once
        if self.is_pending:
            return self.not_before
        return None

    @property
    def announced(self) -> bool:
        """Whether a document showed the event before it started."""
        # An event that was first seen Started has one moment for both.
        return self.started_at != self.first_seen

    @property
    def approved_here(self) -> bool:
        """Whether IMDS accepted an approval by this exporter, an operator or a hook on this VM."""
        return self.approved_by in {Approver.EXPORTER, Approver.OPERATOR, Approver.HOOK}

    @property
    def is_postponed(self) -> bool:
        """Whether NotBefore has moved later since the approval from here was sent.

        It has if it is later by at least :data:`POSTPONED_SECONDS`. Then the approval does not
        count for the new time.
        """
        if self.approval is None or self.approval.not_before is None or self.not_before is None:
            return False
        return self.not_before >= self.approval.not_before + POSTPONED_SECONDS

    @property
    def is_open_to_approval(self) -> bool:
        """Whether the event is waiting, so that an approval would start it."""
        return self.is_pending and (self.approved_by is None or self.is_postponed)

    def with_move(
        self, transition: Transition, at: Timestamp, previous: float | None
    ) -> "Lifecycle":
        """Return the life with one more entry in :attr:`moves`.

        ``previous`` is NotBefore until then; afterwards it is :attr:`not_before`.
        """
        move = Move(transition, at, self.not_before, previous)
        return replace(self, moves=(*self.moves, move)[-REMEMBERED_MOVES:])


def impact_values(life: Lifecycle) -> dict[str, float | None]:
    """Return what was measured of ``life``, by its names in JSON records and spans.

    None for what was not measured.
    """
    values: dict[str, float | None] = {
        "observed_pause_seconds": None,
        "observed_pauses": None,
        "tcp_retransmitted_segments": None,
        "tcp_retransmitted_segments_minute_before": None,
        "tcp_timeouts": None,
        "tcp_timeouts_minute_before": None,
        "clock_step_seconds": None,
    }
    if life.observed_pause is not None:
        values["observed_pause_seconds"] = life.observed_pause
        values["observed_pauses"] = life.pauses
    if life.impact is None:
        return values
    values["clock_step_seconds"] = life.impact.clock_step
    if life.impact.during is not None:
        values["tcp_retransmitted_segments"] = life.impact.during.retransmitted
        values["tcp_timeouts"] = life.impact.during.timeouts
    if life.impact.before is not None:
        values["tcp_retransmitted_segments_minute_before"] = life.impact.before.retransmitted
        values["tcp_timeouts_minute_before"] = life.impact.before.timeouts
    return values


@dataclass(frozen=True, slots=True)
class Change:
    """One transition, with the lifecycle of the event directly after it."""

    transition: Transition
    lifecycle: Lifecycle
    at: Timestamp


@dataclass(frozen=True, slots=True)
class Lifecycles:
    """The known events by EventId: the current ones, and the last ones that ended.

    Attributes:
        current: the current events.
        ended: the last ones that ended, oldest end first.
        seen: when a document of this run last showed each current event, seconds since the epoch.
            A current event that only the journal of an earlier run knows is not in it.
    """

    current: Mapping[str, Lifecycle] = field(default_factory=dict)
    ended: Mapping[str, Lifecycle] = field(default_factory=dict)
    seen: Mapping[str, float] = field(default_factory=dict, compare=False)

    @property
    def shown(self) -> Mapping[str, Lifecycle]:
        """The current events that documents of this run have shown."""
        return {event_id: life for event_id, life in self.current.items() if event_id in self.seen}

    def ended_since(self, since: float, at_most: int, all_since: float) -> tuple[Lifecycle, ...]:
        """Return the events that ended last, oldest end first.

        Args:
            since: seconds since the epoch; no event that ended earlier is returned.
            at_most: how many events are returned at most, 1 or more.
            all_since: seconds since the epoch, later than ``since``. All events that ended after
                this moment are returned, even if they are more than ``at_most``.
        """
        found = [life for life in self.ended.values() if _ended_after(life, since)]
        recent = [life for life in found if _ended_after(life, all_since)]
        count = max(at_most, len(recent))
        return tuple(found[-count:])

    def updated(self, lives: Iterable[Lifecycle]) -> "Lifecycles":
        """Return a copy in which ``lives`` replace the current lives with the same EventIds."""
        changed = {life.event_id: life for life in lives}
        return replace(self, current={**self.current, **changed})


def _ended_after(life: Lifecycle, wall: float) -> bool:
    """Return whether the event has ended, and later than ``wall``, seconds since the epoch."""
    return life.ended_at is not None and life.ended_at.wall > wall
