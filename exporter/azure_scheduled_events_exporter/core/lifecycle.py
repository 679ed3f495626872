"""The life of an event: what a new document changes about the events that are known.

A pure function, :func:`observe`, and two tables that are the specification. It knows no clock (the moment is
handed in), no network, disk, metric or log, and decides nothing about approvals.

Theory of operation. IMDS shows states, never changes, and it shows no end: a finished event just leaves the
document. So a change is the difference between what was known and what the document says: :data:`PRESENT` for an
event that stands in it, :data:`ABSENT` for one that does not. What absence means depends on what else is known
(:class:`Absence`). Every transition is told once in an event's life and in the order of :class:`Transition`,
only a NotBefore may move again and again. An event that comes back after its end is shown, since it may still
happen, but its life is over: it makes no more transitions.

Source of the rules: https://learn.microsoft.com/azure/virtual-machines/linux/scheduled-events
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from types import MappingProxyType

from .document import Document, EventStatus, ScheduledEvent, Scope
from .event_types import is_reboot
from .pause import Evidence, Pause
from .timestamp import Timestamp

APPROVAL_MARGIN_SECONDS = 5.0
"""A start earlier than this before NotBefore proves an approval: the platform itself never begins early."""

WATCHED_WITHIN_SECONDS = 60.0
"""An event that started stays in the document for minutes, so a shorter gap in polling hides no start."""

REMEMBERED_ENDS = 1000
"""How many ended events are remembered, to know one that comes back."""


class State(StrEnum):
    """Where a current event stands."""

    SCHEDULED = "Scheduled"
    STARTED = "Started"
    OTHER = "other"  # a status that the documentation does not name


class Transition(StrEnum):
    """What happens to an event, in the order in which it may happen."""

    DETECTED = "detected"
    RESCHEDULED = "rescheduled"
    APPROVED = "approved"
    STARTED = "started"
    COMPLETED = "completed"
    CANCELLED = "cancelled"
    LOST = "lost"


class Approver(StrEnum):
    """Who let the event begin; ``deadline`` is nobody: NotBefore came."""

    EXPORTER = "exporter"
    OPERATOR = "operator"
    EXTERNAL = "external"
    DEADLINE = "deadline"


class Absence(StrEnum):
    """What is known about an event that is missing from the document. The first that applies counts."""

    EARLY = "NotBefore is still to come, and no poll was missed"
    REBOOTED = "this VM has booted since the event was first seen, and the event was to do that"
    UNWATCHED = "nobody was polling when it left"
    OVERDUE = "NotBefore has passed or was never known"


PRESENT: Mapping[tuple[State | None, State], tuple[State, tuple[Transition, ...]]] = MappingProxyType(
    {
        (None, State.SCHEDULED): (State.SCHEDULED, (Transition.DETECTED,)),
        (None, State.STARTED): (State.STARTED, (Transition.DETECTED, Transition.STARTED)),  # a host failure
        (None, State.OTHER): (State.OTHER, (Transition.DETECTED,)),
        (State.SCHEDULED, State.SCHEDULED): (
            State.SCHEDULED,
            (Transition.RESCHEDULED,),
        ),  # if NotBefore moved
        (State.SCHEDULED, State.STARTED): (
            State.STARTED,
            (Transition.APPROVED, Transition.STARTED),
        ),  # if early
        (State.SCHEDULED, State.OTHER): (State.OTHER, ()),
        (State.OTHER, State.SCHEDULED): (State.SCHEDULED, (Transition.RESCHEDULED,)),
        (State.OTHER, State.STARTED): (State.STARTED, (Transition.APPROVED, Transition.STARTED)),
        (State.OTHER, State.OTHER): (State.OTHER, ()),
        (State.STARTED, State.SCHEDULED): (State.STARTED, ()),  # an older document, late: nothing un-starts
        (State.STARTED, State.STARTED): (State.STARTED, ()),  # also a second impact of the same event
        (State.STARTED, State.OTHER): (State.STARTED, ()),
    }
)

ABSENT: Mapping[tuple[State, Absence], Transition] = MappingProxyType(
    {
        (State.SCHEDULED, Absence.EARLY): Transition.CANCELLED,
        (State.SCHEDULED, Absence.REBOOTED): Transition.COMPLETED,
        (State.SCHEDULED, Absence.UNWATCHED): Transition.LOST,
        (State.SCHEDULED, Absence.OVERDUE): Transition.LOST,
        (State.OTHER, Absence.EARLY): Transition.LOST,
        (State.OTHER, Absence.REBOOTED): Transition.COMPLETED,
        (State.OTHER, Absence.UNWATCHED): Transition.LOST,
        (State.OTHER, Absence.OVERDUE): Transition.LOST,
        **dict.fromkeys(((State.STARTED, absence) for absence in Absence), Transition.COMPLETED),
    }
)


@dataclass(frozen=True, slots=True)
class Lifecycle:
    """One event from its first appearance.

    Attributes:
        event: as the newest document shows it.
        state: where it stands; never goes back from Started.
        scope: whether it touches this VM, by the newest knowledge of this VM's name.
        first_seen: when a document first showed it.
        not_before: the last NotBefore that could be read, seconds since the epoch.
        notice_seconds: the warning really given: first seen to NotBefore, 0 if it had started by then;
            None if no NotBefore was known.
        asked_by: who asked IMDS from here to let it begin, while the answer is not known: set before the request,
            cleared by a refusal. If the event then starts early, that was the answer.
        approved_by: who let it begin, once that is known; approved_at: when.
        started_at: when it was first seen Started, or when this VM booted if only that proves it.
        proven_by_boot: whether only a boot of this VM shows that it started.
        outcome: how it ended: completed, cancelled or lost; ended_at: when that was seen.
        told: False once it came back after its end and so makes no more transitions.
        vm_name: this VM's name when it was last looked at, so that a restart need not wait for it; None while unknown.
        observed_pause: how many seconds this VM stood still at most while the event was Started, so far; None if
            nobody measured that from its start on, as for events of other VMs.
    """

    event: ScheduledEvent
    state: State
    scope: Scope
    first_seen: Timestamp
    not_before: float | None = None
    notice_seconds: float | None = None
    asked_by: Approver | None = None
    approved_by: Approver | None = None
    approved_at: Timestamp | None = None
    started_at: Timestamp | None = None
    proven_by_boot: bool = False
    outcome: Transition | None = None
    ended_at: Timestamp | None = None
    told: bool = True
    vm_name: str | None = None
    observed_pause: float | None = None

    @property
    def event_id(self) -> str:
        """The EventId, upper case."""
        return self.event.event_id

    @property
    def announced(self) -> bool:
        """Whether a document showed the event before it started."""
        return self.started_at != self.first_seen

    @property
    def approved_here(self) -> bool:
        """Whether IMDS accepted an approval by this exporter or by an operator on this VM."""
        return self.approved_by in {Approver.EXPORTER, Approver.OPERATOR}


@dataclass(frozen=True, slots=True)
class Change:
    """One transition, with the whole life as it stands right after it."""

    transition: Transition
    lifecycle: Lifecycle
    at: Timestamp


@dataclass(frozen=True, slots=True)
class Lifecycles:
    """All that is known about events: the current ones by EventId, and how the last ones ended."""

    current: Mapping[str, Lifecycle] = field(default_factory=dict)
    ended: Mapping[str, Transition] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ObservationContext:
    """From where a document is looked at.

    Attributes:
        now: the moment of the observation.
        vm_name: this VM's name as it stands in Resources; None while not known.
        watched: whether the last document before this one is so recent that no start can have been missed;
            False for the first document of a run.
        booted_at: when this VM last booted; None if that cannot be known.
        pause: the longest one of this VM since the last document; None if nobody measured.
    """

    now: Timestamp
    vm_name: str | None = None
    watched: bool = True
    booted_at: Timestamp | None = None
    pause: Pause | None = None


def observe(
    known: Lifecycles, document: Document, context: ObservationContext
) -> tuple[Lifecycles, tuple[Change, ...]]:
    """Return what is known after ``document``, and the changes that it brought, in the order they count.

    The same document again changes nothing. Nothing raises, whatever the document says.
    """
    known = record_pause(known, context.pause)
    current: dict[str, Lifecycle] = {}
    changes: list[Change] = []
    for event in document.events:
        before = known.current.get(event.event_id)
        if before is None and event.event_id in known.ended:
            before = Lifecycle(event, _state(event), event.scope(context.vm_name), context.now, told=False)
        after, news = _seen(before, event, context)
        current[event.event_id] = after
        changes.extend(news)
    ended = dict(known.ended)
    for event_id, before in known.current.items():
        if event_id in current:
            continue
        if document.unreadable:
            current[event_id] = before
        elif before.told:
            change = _gone(before, context)
            changes.append(change)
            ended[event_id] = change.transition
    for event_id in list(ended)[: max(0, len(ended) - REMEMBERED_ENDS)]:
        del ended[event_id]
    return Lifecycles(current, ended), tuple(changes)


def record_pause(known: Lifecycles, pause: Pause | None) -> Lifecycles:
    """Return what is known after ``pause`` of the events that were Started; ``known`` itself if that is nothing new."""
    started = [life for life in known.current.values() if life.state is State.STARTED] if pause else []
    longer = [(life, _paused(life, pause, begins=False)) for life in started]
    news = [after for before, after in longer if after is not before]
    return _changed(known, news) if news else known


def merge_recovered(known: Lifecycles, found: Lifecycles) -> Lifecycles:
    """Return ``known`` with what ``found`` tells: the record of a journal that ``known`` was merged into meanwhile.

    The journal knows longer, so it wins: when an event was first seen, its approval, how it ended.
    """
    current = {event_id: life for event_id, life in found.current.items() if event_id not in known.ended}
    return Lifecycles({**known.current, **current}, {**known.ended, **found.ended})


def asked(known: Lifecycles, event_ids: Collection[str], approver: Approver) -> Lifecycles:
    """Return what is known once ``approver`` is about to ask IMDS to let these events begin."""
    return _changed(known, [replace(life, asked_by=approver) for life in _open_to_approval(known, event_ids)])


def refused(known: Lifecycles, event_ids: Collection[str]) -> Lifecycles:
    """Return what is known once IMDS has refused to let these events begin: nobody has asked in effect."""
    return _changed(known, [replace(life, asked_by=None) for life in _open_to_approval(known, event_ids)])


def approve(
    known: Lifecycles, event_ids: Collection[str], approver: Approver, now: Timestamp
) -> tuple[Lifecycles, tuple[Change, ...]]:
    """Return what is known once IMDS has accepted an approval of these events; an approval counts once."""
    lives = [
        replace(life, approved_by=approver, approved_at=now, asked_by=None)
        for life in _open_to_approval(known, event_ids)
    ]
    return _changed(known, lives), tuple(Change(Transition.APPROVED, life, now) for life in lives)


def _open_to_approval(known: Lifecycles, event_ids: Collection[str]) -> list[Lifecycle]:
    lives = map(known.current.get, dict.fromkeys(event_id.upper() for event_id in event_ids))
    return [life for life in lives if life and life.told and not life.approved_by and life.state is not State.STARTED]


def _changed(known: Lifecycles, lives: Iterable[Lifecycle]) -> Lifecycles:
    return replace(known, current={**known.current, **{life.event_id: life for life in lives}})


def _state(event: ScheduledEvent) -> State:
    match event.status:
        case EventStatus.SCHEDULED:
            return State.SCHEDULED
        case EventStatus.STARTED:
            return State.STARTED
        case _:
            return State.OTHER


def _seen(
    before: Lifecycle | None, event: ScheduledEvent, context: ObservationContext
) -> tuple[Lifecycle, list[Change]]:
    """An event that stands in the document."""
    state, transitions = PRESENT[before.state if before else None, _state(event)]
    vm_name = context.vm_name or (before.vm_name if before else None)
    scope = event.scope(vm_name)
    if before is None:
        notice = _notice(event, context.now)
        life = Lifecycle(event, state, scope, context.now, notice_seconds=notice, vm_name=vm_name)
    else:
        life = replace(before, event=event, state=state, scope=scope, vm_name=vm_name)
    if event.not_before is not None and state is not State.STARTED:
        life = replace(life, not_before=event.not_before)
    if state is State.STARTED and (before is None or before.state is not State.STARTED):
        life = _paused(life, context.pause, begins=True)
    changes = []
    for transition in transitions if life.told else ():
        happened = _apply(transition, before, life, context.now)
        if happened is not None:
            life = happened
            changes.append(Change(transition, life, context.now))
    return life, changes


def _apply(transition: Transition, before: Lifecycle | None, life: Lifecycle, now: Timestamp) -> Lifecycle | None:
    """Return ``life`` after ``transition``, or None when the facts do not bear it out."""
    match transition:
        case Transition.RESCHEDULED:
            moved = before is not None and before.not_before not in {None, life.not_before}
            return life if moved else None
        case Transition.APPROVED:
            early = life.not_before is not None and now.wall < life.not_before - APPROVAL_MARGIN_SECONDS
            if life.approved_by or not early:
                return None
            return replace(life, approved_by=life.asked_by or Approver.EXTERNAL, approved_at=now, asked_by=None)
        case Transition.STARTED:
            if before is not None and life.approved_by is None and life.not_before is not None:
                life = replace(life, approved_by=Approver.DEADLINE, approved_at=now)
            return replace(life, started_at=now)
        case _:
            return life


def _notice(event: ScheduledEvent, now: Timestamp) -> float | None:
    if _state(event) is State.STARTED:
        return 0.0
    return None if event.not_before is None else max(0.0, event.not_before - now.wall)


def _absence(life: Lifecycle, context: ObservationContext) -> Absence:
    # First of all: an event that leaves before our eyes was there after the last boot, so that was not its doing.
    if context.watched and life.not_before is not None and context.now.wall < life.not_before:
        return Absence.EARLY
    mine = life.scope is Scope.SELF and is_reboot(life.event.event_type)
    if mine and context.booted_at is not None and context.booted_at.is_another_boot_after(life.first_seen):
        return Absence.REBOOTED
    if not context.watched:
        return Absence.UNWATCHED
    return Absence.OVERDUE


def _gone(life: Lifecycle, context: ObservationContext) -> Change:
    """An event that has left the document."""
    absence = _absence(life, context)
    outcome = ABSENT[life.state, absence]
    if outcome is Transition.COMPLETED and life.started_at is None:
        life = _paused(replace(life, started_at=context.booted_at, proven_by_boot=True), context.pause, begins=False)
    after = replace(life, outcome=outcome, ended_at=context.now)
    return Change(outcome, after, context.now)


def _paused(life: Lifecycle, pause: Pause | None, *, begins: bool) -> Lifecycle:
    """Return ``life`` with ``pause`` taken into account; ``life`` itself if that is not longer than what was known.

    A life whose start went unwatched stays unmeasured, for its pause may have been before we looked; only a boot is so
    long that nothing else matters.
    """
    if pause is None or life.scope is not Scope.SELF or not life.told:
        return life
    if life.observed_pause is not None:
        return life if pause.seconds <= life.observed_pause else replace(life, observed_pause=pause.seconds)
    is_known = pause.evidence is Evidence.BOOT or (begins and pause.evidence is Evidence.WHOLE)
    return replace(life, observed_pause=pause.seconds) if is_known else life
