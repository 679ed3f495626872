"""Compares a new document with the known events and derives their transitions.

A pure function, :func:`observe`, and a table that is the specification. It uses no clock (the time
is an argument), network, disk, metric or log, and decides nothing about approvals.

Theory of operation. IMDS shows states, never changes. So a change is the difference between what
was known and what the document says: :data:`PRESENT` for an event that is in the document, and the
table of ``core.absence`` for one that is not. :class:`Transition` has the order of an event's
transitions. If an event is in the document again after its end, the end was wrong, and the event
becomes current again.

Source of the rules: https://learn.microsoft.com/azure/virtual-machines/linux/scheduled-events
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

from .absence import boot_proves, end
from .bounds import weight, within_bounds, without_oldest
from .document import STATUSES, Document, EventSource, ScheduledEvent, Scope, comparable_name
from .impact import Counted, beginning
from .kinds import SHORT_FREEZE_SECONDS, with_kind, with_kinds
from .lifecycle import (
    Approval,
    Approver,
    Change,
    Lifecycle,
    Lifecycles,
    State,
    Transition,
)
from .measurement import paused, record_impact, record_pause
from .pause import Pause
from .timestamp import Timestamp

WATCHED_WITHIN_SECONDS = 60.0
"""If two documents are further apart, nobody watched: a start can have been missed in between."""

PRESENT: Mapping[tuple[State | None, State], tuple[Transition, ...]] = MappingProxyType(
    {
        (None, State.SCHEDULED): (Transition.DETECTED,),
        (None, State.STARTED): (Transition.DETECTED, Transition.STARTED),  # a host failure
        (None, State.ADVISORY): (Transition.DETECTED,),
        (None, State.OTHER): (Transition.DETECTED,),
        # Rescheduled if NotBefore has moved, approved if it starts early.
        (State.SCHEDULED, State.SCHEDULED): (Transition.RESCHEDULED,),
        (State.SCHEDULED, State.STARTED): (Transition.APPROVED, Transition.STARTED),
        (State.SCHEDULED, State.OTHER): (Transition.RESCHEDULED,),
        (State.OTHER, State.SCHEDULED): (Transition.RESCHEDULED,),
        (State.OTHER, State.STARTED): (Transition.APPROVED, Transition.STARTED),
        (State.OTHER, State.OTHER): (Transition.RESCHEDULED,),
        (State.ADVISORY, State.STARTED): (Transition.STARTED,),
    }
)
"""What can have happened, by the state before (None for a new event) and the state that is shown.

:func:`_apply` decides of each transition whether it has happened.

A pair without a row is no transition: an event becomes advice, advice becomes Scheduled, or an
event that is Started is shown in any state. It stays Started, whether the document is outdated or
the event has a second impact.
"""


@dataclass(frozen=True, slots=True)
class ObservationContext:
    """What the observation of a document depends on, besides the document.

    Attributes:
        now: the moment of the observation.
        vm_name: this VM's name as Resources spell it; None while unknown.
        watched: whether the previous document is so recent that no start can have been missed;
            False for the first document of a run.
        keeps_unshown: whether events of earlier runs that no document of this run has shown stay
            current, because they may be another VM's.
        pause: the longest pause of this VM since the last document; None if it was not measured.
        counted: what the kernel has counted; None if nobody read it.
        harmless_below: a Freeze announced as shorter than so many seconds is harmless.
    """

    now: Timestamp
    vm_name: str | None = None
    watched: bool = True
    pause: Pause | None = None
    keeps_unshown: bool = False
    counted: Counted | None = None
    harmless_below: float = SHORT_FREEZE_SECONDS


def observe(
    known: Lifecycles, document: Document, context: ObservationContext
) -> tuple[Lifecycles, tuple[Change, ...]]:
    """Return the known events after ``document``, and the changes in the order of counting.

    The same document again changes nothing. Never raises, whatever the content of the document.
    Events for which there is no room are left out (``bounds``).
    """
    document = bounded(known, document, context)
    known = record_pause(known, context.pause)
    known = record_impact(known, context.counted)
    current: dict[str, Lifecycle] = {}
    changes: list[Change] = []
    for event in document.events:
        life, new_changes = _in_document(known, event, context)
        current[event.event_id] = life
        changes.extend(new_changes)
    ended = {event_id: life for event_id, life in known.ended.items() if event_id not in current}
    just_ended = 0  # the sum of the weights of the events that end now
    for event_id, before in known.current.items():
        if event_id in current:
            continue
        if _stays(event_id, known, document, context):
            current[event_id] = before
            continue
        gone = _left_document(before, known.seen.get(event_id), context)
        changes.extend(gone)
        ended[event_id] = _with_kind(gone[-1], context).lifecycle
        just_ended += weight(before.event)
    if just_ended:
        ended = without_oldest(ended, just_ended)
    seen = {event_id: moment for event_id, moment in known.seen.items() if event_id in current}
    seen |= {event.event_id: context.now.wall for event in document.events}
    known = with_kinds(Lifecycles(current, ended, seen), context.now.wall, context.harmless_below)
    return known, tuple(_with_kind(change, context) for change in changes)


def _in_document(
    known: Lifecycles, event: ScheduledEvent, context: ObservationContext
) -> tuple[Lifecycle, list[Change]]:
    """Return the life of an event that is in the document, and its changes."""
    before = known.current.get(event.event_id)
    last_seen = known.seen.get(event.event_id)
    ended = known.ended.get(event.event_id)
    if before is not None or ended is None:
        return _apply_present(before, event, context, last_seen)
    before, returned = _returned(ended, event, context)
    life, changes = _apply_present(before, event, context, last_seen)
    return life, [returned, *changes]


def _left_document(
    before: Lifecycle, last_seen: float | None, context: ObservationContext
) -> list[Change]:
    """Return the changes of an event that has left the document; the last one is its end.

    ``last_seen``: when a document of this run had last shown it; None if none had.
    """
    life = _as_shown(before, before.event, context)  # this VM's name may be known only now
    return end(
        replace(life, shown_until=last_seen),
        context.now,
        # Nobody watched when an event left that was last shown in an earlier run.
        watched=context.watched and last_seen is not None,
        pause=context.pause,
        counted=context.counted,
    )


def bounded(known: Lifecycles, document: Document, context: ObservationContext) -> Document:
    """Return ``document`` without the events that :func:`observe` leaves out."""
    shown = {event.event_id for event in document.events}
    if shown <= known.current.keys() and not document.unreadable:
        return document  # nothing is new, as at nearly every poll
    staying = [
        life
        for event_id, life in known.current.items()
        if event_id not in shown and _stays(event_id, known, document, context)
    ]
    return within_bounds(known, document, staying, context.vm_name)


def _stays(
    event_id: str, known: Lifecycles, document: Document, context: ObservationContext
) -> bool:
    """Return whether a current event stays current although it is not in the document."""
    if document.unreadable:
        return True  # the entry that cannot be read may be this event
    was_shown = event_id in known.seen
    return context.keeps_unshown and not was_shown


def _with_kind(change: Change, context: ObservationContext) -> Change:
    """Return ``change`` with the kind that its event has now."""
    life = with_kind(change.lifecycle, context.now.wall, context.harmless_below)
    return replace(change, lifecycle=life)


def _state(event: ScheduledEvent) -> State:
    """Return the state that the document shows."""
    if event.status in STATUSES:
        return State(event.status)
    return State.OTHER


def _returned(
    ended: Lifecycle, event: ScheduledEvent, context: ObservationContext
) -> tuple[Lifecycle, Change]:
    """Return an ended event as a current one, and that as a change.

    What only the wrong end set is removed.
    """
    life = replace(ended, outcome=None, ended_at=None, shown_until=None, has_returned=True)
    if ended.proven_by_boot:
        life = replace(
            life,
            started_at=None,
            proven_by_boot=False,
            observed_pause=None,
            pauses=0,
            pause_ended=None,
        )
        if ended.approved_by is Approver.DEADLINE:
            life = replace(life, approval=None)
    life = life.with_move(Transition.RETURNED, context.now, life.not_before)
    return life, Change(Transition.RETURNED, _as_shown(life, event, context), context.now)


def _as_shown(life: Lifecycle, event: ScheduledEvent, context: ObservationContext) -> Lifecycle:
    """Return ``life`` with ``event`` as its newest form, and with what that says of this VM.

    The state and NotBefore stay as they are.
    """
    vm_name = context.vm_name or life.vm_name
    event = event.bounded(vm_name)
    own_name = life.own_name
    if not own_name or comparable_name(own_name) != comparable_name(vm_name or ""):
        own_name = event.spelling(vm_name)
    scope = event.scope(vm_name)
    if own_name:  # Resources have named this VM, and may have shrunk since
        scope = Scope.SELF
    return replace(
        life,
        event=event,
        scope=scope,
        vm_name=vm_name,
        own_name=own_name,
        most_resources=max(life.most_resources, event.resource_count),
    )


def _apply_present(
    before: Lifecycle | None,
    event: ScheduledEvent,
    context: ObservationContext,
    last_seen: float | None,
) -> tuple[Lifecycle, list[Change]]:
    """Apply :data:`PRESENT` to an event that is in the document.

    ``before`` is the current event, None for a new one. ``last_seen``: when a document of this run
    had last shown it; None if none had.
    """
    # Nearly every poll ends here: while the body stays the same, so do the objects made from it.
    if before is not None and event is before.event and context.vm_name in {None, before.vm_name}:
        return before, []
    shown = _state(event)
    state_before: State | None = None
    if before is None:
        notice = _notice(event, context.now)
        life = Lifecycle(event, shown, Scope.UNKNOWN, context.now, notice_seconds=notice)
    else:
        state_before = before.state
        life = before
    life = _as_shown(life, event, context)
    if state_before is not State.STARTED:  # Started stays Started
        life = replace(life, state=shown)
        if shown is State.STARTED:
            life = _begins(before, replace(life, pending_until=last_seen), context)
        elif event.not_before is not None:
            life = replace(life, not_before=event.not_before)
    changes = []
    for transition in PRESENT.get((state_before, shown), ()):
        happened = _apply(transition, before, life, context)
        if happened is not None:
            life = happened
            changes.append(Change(transition, life, context.now))
    return life, changes


def _begins(before: Lifecycle | None, life: Lifecycle, context: ObservationContext) -> Lifecycle:
    """Return ``life``, which is shown as Started for the first time, with what was measured.

    ``before`` is the event as it was until now, None for a new one.
    """
    is_measured = context.watched
    if before is not None and boot_proves(before, context.now, watched=context.watched):
        # The boot was a part of it: the pause since the last document is not the whole of it.
        is_measured = False
    life = paused(life, context.pause, begins=is_measured)
    if life.scope is Scope.SELF and context.counted is not None:
        life = replace(life, impact=beginning(context.counted))
    return life


def _apply(
    transition: Transition, before: Lifecycle | None, life: Lifecycle, context: ObservationContext
) -> Lifecycle | None:
    """Return ``life`` after ``transition``, or None if the transition did not happen."""
    now = context.now
    match transition:
        case Transition.RESCHEDULED:
            if before is None or before.not_before is None:
                return None  # there was no NotBefore that could move
            if before.not_before == life.not_before:
                return None
            return life.with_move(transition, now, before.not_before)
        case Transition.APPROVED:
            return _approved(life, context)
        case Transition.STARTED:
            # It was known before, and nobody has approved it as far as is known: so it began
            # because NotBefore had come.
            if before is not None and life.approval is None and life.not_before is not None:
                life = replace(life, approval=Approval(Approver.DEADLINE, now))
            return replace(life, started_at=now)
        case _:  # DETECTED
            return life


def _approved(life: Lifecycle, context: ObservationContext) -> Lifecycle | None:
    """Return ``life``, which has started, with the approval that is only known by that.

    None if its approval is known already, or if it needed none.
    """
    now = context.now
    if life.approval is not None:
        return None
    is_early = not life.is_due_at(now.wall)
    # Nobody watched whether it started early: then an approval that was sent has started it.
    is_sent = life.request is not None and not context.watched
    if not is_early and not is_sent:
        return None
    approval = Approval(Approver.EXTERNAL, now)
    if life.request is not None:
        approval = Approval(life.request.by, now, who=life.request.who)
    return replace(life, approval=approval, request=None)


def _notice(event: ScheduledEvent, now: Timestamp) -> float | None:
    """Return the seconds of notice of an event that is first seen ``now``.

    :attr:`Lifecycle.notice_seconds` says when it is None.
    """
    state = _state(event)
    if state is State.STARTED:
        if event.source == EventSource.USER:
            return None  # Azure has approved it by itself: it never was Scheduled
        return 0.0
    if state is State.ADVISORY or event.not_before is None:
        return None
    return max(0.0, event.not_before - now.wall)
