"""Decides how an event that is missing from the document has ended.

IMDS shows no end: a finished event leaves the document. What that means depends on what else is
known (:class:`Absence`), and the table :data:`ABSENT` is the specification. Pure. Must not decide
whether a missing event has ended at all: ``core.observation`` does, and calls :func:`end`. For an
event that is in the document, see ``core.presence``.

Source of the rules: https://learn.microsoft.com/azure/virtual-machines/linux/scheduled-events
"""

from collections.abc import Mapping
from dataclasses import replace
from enum import StrEnum
from types import MappingProxyType

from .document import Scope
from .event_types import takes_vm_down
from .impact import Counted
from .lifecycle import Approval, Approver, Change, Lifecycle, State, Transition
from .measurement import paused
from .pause import Pause
from .timestamp import Timestamp

OUTDATED_AFTER_BOOT_SECONDS = 600.0
"""For how long after a boot a document may still show the event that caused it as Scheduled."""


class Absence(StrEnum):
    """Why an event may be missing from the document. The first case that applies is used."""

    REBOOTED = "this VM has booted since, and the event can have done that"
    EARLY = "NotBefore is still to come, and somebody was watching"
    UNSEEN = (
        "it may have happened unseen: nobody was watching, or NotBefore has passed or was never"
        " known"
    )


ABSENT: Mapping[tuple[State, Absence], Transition] = MappingProxyType(
    {
        (State.SCHEDULED, Absence.REBOOTED): Transition.COMPLETED,
        (State.SCHEDULED, Absence.EARLY): Transition.CANCELLED,
        (State.SCHEDULED, Absence.UNSEEN): Transition.LOST,
        # A status that Azure does not document may have meant anything: that it had started, or
        # that it was called off.
        (State.OTHER, Absence.REBOOTED): Transition.COMPLETED,
        (State.OTHER, Absence.EARLY): Transition.LOST,
        (State.OTHER, Absence.UNSEEN): Transition.LOST,
        (State.ADVISORY, Absence.REBOOTED): Transition.WITHDRAWN,
        (State.ADVISORY, Absence.EARLY): Transition.WITHDRAWN,
        (State.ADVISORY, Absence.UNSEEN): Transition.WITHDRAWN,
        (State.STARTED, Absence.REBOOTED): Transition.COMPLETED,
        (State.STARTED, Absence.EARLY): Transition.COMPLETED,
        (State.STARTED, Absence.UNSEEN): Transition.COMPLETED,
    }
)
"""How an event has ended, by its state before and by why it may be missing from the document."""


def end(
    life: Lifecycle,
    now: Timestamp,
    *,
    watched: bool,
    pause: Pause | None,
    counted: Counted | None,
) -> list[Change]:
    """Apply :data:`ABSENT` to an event that is missing from the document.

    Args:
        life: the event as it was last shown.
        now: the moment of the observation.
        watched: whether the previous document was one of this run, recent, and showed the event.
        pause: the longest pause of this VM since that document; None if it was not measured.
        counted: what the kernel has counted; None if nobody read it.

    Returns:
        The changes; the last one is the end.
    """
    outcome = ABSENT[life.state, _absence(life, now, watched=watched)]
    changes: list[Change] = []
    booted_at = now.booted_at
    # Completed, but never shown as Started: only the boot of the case REBOOTED proves it.
    if outcome is Transition.COMPLETED and life.started_at is None and booted_at is not None:
        life, changes = _started_by(booted_at, life, pause, now)
    if life.impact is not None and counted is not None:
        impact = life.impact.until(counted.now, even_if_recent=True)
        life = replace(life, impact=impact)
    life = replace(life, outcome=outcome, ended_at=now)
    changes.append(Change(outcome, life, now))
    return changes


def _absence(life: Lifecycle, now: Timestamp, *, watched: bool) -> Absence:
    """Return the first case that applies to an event that is missing from the document."""
    if boot_proves(life, now, watched=watched):
        return Absence.REBOOTED
    if watched and life.not_before is not None and now.wall < life.not_before:
        return Absence.EARLY
    return Absence.UNSEEN


def boot_proves(life: Lifecycle, now: Timestamp, *, watched: bool) -> bool:
    """Return whether the last boot of this VM proves that the event happened.

    It does if the VM booted after the event was first seen, and the event can have begun by then:
    at NotBefore, or by an approval from here.

    ``watched``: whether the documents until ``now`` have shown the event.
    """
    booted_at = now.booted_at
    if booted_at is None or life.scope is not Scope.SELF:
        return False
    if not takes_vm_down(life.event.event_type):
        return False
    if not booted_at.is_another_boot_after(life.first_seen):
        return False
    if watched and now.since(booted_at) > OUTDATED_AFTER_BOOT_SECONDS:
        return False  # documents have shown it Scheduled until now, so the boot was not its doing
    return life.is_due_at(booted_at.wall) or _was_sent_before(life, booted_at)


def _was_sent_before(life: Lifecycle, booted_at: Timestamp) -> bool:
    """Return whether an approval was sent from here before that boot, answered or not."""
    sent = []
    if life.request is not None:
        sent.append(life.request)
    if life.approval is not None and life.approved_here:
        sent.append(life.approval)
    return any(booted_at.is_another_boot_after(approval.at) for approval in sent)


def _started_by(
    booted_at: Timestamp, life: Lifecycle, pause: Pause | None, now: Timestamp
) -> tuple[Lifecycle, list[Change]]:
    """Return an event whose start only the boot at ``booted_at`` proves, with start and approval.

    It started at the boot; but without an approval from here, it started at NotBefore if that lies
    between the first sight and the boot: the VM may have been away for long.

    The change is the approval, if the boot is the first sign that IMDS accepted it.
    """
    life = replace(life, started_at=booted_at, proven_by_boot=True)
    # The event began before the boot, when nobody watched: `paused` then takes only a boot.
    life = paused(life, pause, is_beginning_watched=False)
    if life.approval is not None:  # from here: only a start shows an approval by somebody else
        return life, []
    if life.request is not None and _was_sent_before(life, booted_at):
        life = replace(life, approval=life.request, request=None)
        return life, [Change(Transition.APPROVED, life, now)]
    if life.not_before is None:
        return life, []
    began = booted_at
    if life.first_seen.wall < life.not_before < booted_at.wall:
        began = Timestamp(life.not_before)
    return replace(life, started_at=began, approval=Approval(Approver.DEADLINE, began)), []
