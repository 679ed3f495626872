"""Decides what has happened to an event that is in the document.

IMDS shows states, never changes, so a change is the difference between the state before and the
state that is shown. The table :data:`PRESENT` is the specification. Pure. Must not decide what it
means that an event is missing (``core.absence``).

Source of the rules: https://learn.microsoft.com/azure/virtual-machines/linux/scheduled-events
"""

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

from .absence import boot_proves
from .document import STATUSES, EventSource, ScheduledEvent, Scope, comparable_name
from .impact import beginning
from .lifecycle import Approval, Approver, Change, Lifecycle, State, Transition
from .measurement import paused
from .observation_context import ObservationContext
from .timestamp import Timestamp

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


def apply_present(
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
    life = as_shown(life, event, context)
    if state_before is not State.STARTED:  # Started stays Started
        life = replace(life, state=shown)
        if shown is State.STARTED:
            life = _begins(before, replace(life, pending_until=last_seen), context)
        elif event.not_before is not None:
            life = replace(life, not_before=event.not_before)
    changes = []
    for transition in PRESENT.get((state_before, shown), ()):
        life_after = _apply(transition, before, life, context)
        if life_after is not None:  # the transition has happened
            life = life_after
            changes.append(Change(transition, life, context.now))
    return life, changes


def _begins(before: Lifecycle | None, life: Lifecycle, context: ObservationContext) -> Lifecycle:
    """Return ``life``, which is shown as Started for the first time, with what was measured.

    ``before`` is the event as it was until now, None for a new one.
    """
    is_beginning_watched = context.watched
    if before is not None and boot_proves(before, context.now, watched=context.watched):
        # The event began before the boot, which was a part of it, so nobody watched its beginning.
        # `paused` then takes only a boot as the first pause.
        is_beginning_watched = False
    life = paused(life, context.pause, is_beginning_watched=is_beginning_watched)
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
            # The event was known before, and `_approved` has found no approval, or the event was
            # advice, which nobody can approve: so it began because NotBefore had come.
            if before is not None and life.approval is None and life.not_before is not None:
                life = replace(life, approval=Approval(Approver.DEADLINE, now))
            return replace(life, started_at=now)
        case _:  # DETECTED
            return life


def _approved(life: Lifecycle, context: ObservationContext) -> Lifecycle | None:
    """Return ``life``, which has just started, with the approval that only its start proves.

    None if its approval is known already, or if it may have started without one.
    """
    now = context.now
    if life.approval is not None:
        return None
    is_early = not life.is_due_at(now.wall)
    # If nobody watched, it may have started early all the same. Then an approval that was sent from
    # here, and whose answer is not known, counts as the cause.
    is_likely_ours = life.request is not None and not context.watched
    if not is_early and not is_likely_ours:
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


def make_current_again(
    ended: Lifecycle, event: ScheduledEvent, context: ObservationContext
) -> tuple[Lifecycle, Change]:
    """Return an ended event that ``event`` shows again: as a current one, and its change Returned.

    What was set only because of the wrong end is removed. The life in the change has ``event`` as
    its newest form. The returned life does not have it yet, so that :func:`apply_present` still
    sees what is new in it.
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
    change = Change(Transition.RETURNED, as_shown(life, event, context), context.now)
    return life, change


def as_shown(life: Lifecycle, event: ScheduledEvent, context: ObservationContext) -> Lifecycle:
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


def _state(event: ScheduledEvent) -> State:
    """Return the state that the document shows."""
    if event.status in STATUSES:
        return State(event.status)
    return State.OTHER
