"""What a report says of the course of an event: its start, end and approval, and boots of the VM.

Pure. IMDS shows states, so a start or an end lies between two documents. If nobody watched in
between, the answer says so: a record that only follows from others is not told as a fact.

An event is ``announced`` if a document showed it before its start, whichever run of the exporter
read that document. ``pending_until`` is the time of the last such document, if the run that saw the
start has read it. It is None if only an earlier run has read such a document.
"""

from azure_scheduled_events_exporter.core.document import EventSource
from azure_scheduled_events_exporter.core.event_types import EventType
from azure_scheduled_events_exporter.core.lifecycle import (
    Approval,
    Approver,
    Lifecycle,
    State,
    Transition,
)
from azure_scheduled_events_exporter.core.timestamp import Timestamp
from azure_scheduled_events_exporter.web.wording import length, standing

from .answer import Answer
from .model import Line, Quoted
from .moments import utc

EXACT_SECONDS = 5.0
"""If two documents are further apart, a change between them has a range of time, not a moment."""

_BOOT_BEFORE_SECONDS = 3600.0
"""A boot at most so long before an event that had started already may belong to it."""

# "Nobody watched" means that no exporter polled, such as after a reboot.
_UNWATCHED = "nobody watched the start"
_WHEN_STARTED = "When it started"
_WHO_APPROVED = "Who approved it"
_APPROVERS = {
    Approver.EXPORTER: "the policy of this exporter",
    Approver.OPERATOR: "a person on this VM",
    Approver.HOOK: "a hook on this VM, when its script was ready",
}
_ENDS = {
    Transition.COMPLETED: "when a document no longer showed it",
    Transition.CANCELLED: "before NotBefore: Azure cancelled it",
    Transition.LOST: "when a document no longer showed it",
    Transition.WITHDRAWN: "when Azure no longer gave this advice",
}


def boots(life: Lifecycle) -> tuple[float, ...]:
    """Return when this VM booted during one of its events, as far as is recorded.

    Seconds since the epoch, the first boot first. For an event that had started when it was first
    seen, a boot shortly before that is among them.
    """
    if not life.is_mine:
        return ()
    booted: dict[str, float] = {}  # by the id of the boot
    for moment in _moments(life):
        if moment.booted_at is not None:
            booted[moment.booted_at.boot_id] = moment.booted_at.wall
    # The VM was running when it first saw the event, so the boot of that moment came before it.
    before_event = booted.pop(life.first_seen.boot_id, None)
    found = list(booted.values())
    if before_event is not None and not life.announced:
        seconds_before = life.first_seen.wall - before_event
        if seconds_before < _BOOT_BEFORE_SECONDS:
            found.append(before_event)
    return tuple(sorted(found))


def _moments(life: Lifecycle) -> list[Timestamp]:
    """Return the recorded moments of an event; each knows in which boot of the VM it was."""
    moments = [life.first_seen, life.approved_at, life.started_at, life.pause_ended, life.ended_at]
    moments += [move.at for move in life.moves]
    return [moment for moment in moments if moment is not None]


def has_restarted(life: Lifecycle) -> bool:
    """Return whether this VM booted while the event was Started."""
    if life.started_at is None or life.proven_by_boot:
        return False
    later = (life.pause_ended, life.ended_at)
    boot_ids = {moment.boot_id for moment in later if moment is not None and moment.boot_id}
    return bool(boot_ids - {life.started_at.boot_id})


def start(life: Lifecycle) -> Answer:
    """Return when the event started."""
    started_at = life.started_at
    if started_at is None:
        return _without_start(life)
    if life.proven_by_boot:
        booted = "this VM has booted since"
        if boots(life):  # the last one may have been the event's impact
            booted = f"this VM booted at {utc(boots(life)[-1])}"
        what = "the event"
        if life.event.event_type == EventType.PREEMPT:
            what = "the eviction"
        why = f"{_UNWATCHED}; {booted}, so {what} has probably happened"
        return Answer(_WHEN_STARTED, why=why)
    if not life.announced:
        return Answer(_WHEN_STARTED, why=_first_shown_started(life, started_at))
    later = f", {length(started_at.since(life.first_seen))} after it was first seen"
    if life.pending_until is None:
        latest = f"{utc(started_at.wall)} at the latest{later}"
        return Answer(_WHEN_STARTED, (latest,), why=_UNWATCHED)
    return Answer(_WHEN_STARTED, (_between(life.pending_until, started_at.wall) + later,))


def _first_shown_started(life: Lifecycle, seen: Timestamp) -> str:
    """Return why the start is not known: the first document, at ``seen``, showed it Started."""
    why = f"the first document with it, at {utc(seen.wall)}, showed it Started"
    for booted_at in boots(life):
        if booted_at < seen.wall:  # at most one of them; the others are during the event
            why += f"; this VM had booted at {utc(booted_at)}"
    return why


def notice(life: Lifecycle) -> Answer:
    """Return the real notice: the time from first seen to the start."""
    question = "How much notice there was"
    started_at = life.started_at
    if started_at is None or not life.announced or life.proven_by_boot:
        # It has not started, or nobody saw when.
        why_unknown = start(life).why
        if why_unknown:
            return Answer(question, why=why_unknown)
        if life.outcome is None:
            return Answer(question, ("none yet: it has not started",))
        return Answer(question, ("none: it never started",))
    waited = length(started_at.since(life.first_seen))
    if not is_start_watched(life):
        waited = f"at most {waited}"
    return Answer(question, (f"{waited}, from first seen to Started",))


def _between(earlier: float, later: float) -> str:
    """Return when something happened that the document at ``later`` was the first to show."""
    if later - earlier <= EXACT_SECONDS:
        return utc(later)
    return f"between {utc(earlier)} and {utc(later)}"


def _without_start(life: Lifecycle) -> Answer:
    """Return what is known of the start of an event that was not seen Started."""
    if life.outcome is Transition.LOST:
        return Answer("Whether it started", why="it disappeared while nobody watched")
    if life.state is State.ADVISORY:
        return Answer(_WHEN_STARTED, ("never: it is advice, which schedules nothing",))
    if life.outcome is None:
        return Answer(_WHEN_STARTED, ("not yet",))
    return Answer(_WHEN_STARTED, ("never",))


def is_start_watched(life: Lifecycle) -> bool:
    """Return whether documents at most :data:`EXACT_SECONDS` apart show the start."""
    if life.started_at is None or life.pending_until is None or life.proven_by_boot:
        return False
    return life.started_at.wall - life.pending_until <= EXACT_SECONDS


def is_end_watched(life: Lifecycle) -> bool:
    """Return whether documents at most :data:`EXACT_SECONDS` apart show the end."""
    if life.ended_at is None or life.shown_until is None:
        return False
    return life.ended_at.wall - life.shown_until <= EXACT_SECONDS


def end(life: Lifecycle) -> Answer:
    """Return when and how the event ended."""
    question = "When it ended"
    if life.outcome is None or life.ended_at is None:
        return Answer(question, (f"not over: it is {standing(life)}",))
    how = _ENDS[life.outcome]
    if life.shown_until is None:
        why = "nobody watched before that"
        return Answer(question, (f"{utc(life.ended_at.wall)} at the latest, {how}",), why=why)
    return Answer(question, (f"{_between(life.shown_until, life.ended_at.wall)}, {how}",))


def approval(life: Lifecycle) -> Answer:
    """Return who approved the event."""
    given = life.approval
    if given is None:
        return _without_approval(life)
    if given.by is Approver.EXTERNAL:
        return Answer(
            _WHO_APPROVED,
            ("not this exporter: it started before NotBefore",),
            why="IMDS does not name who approves",
            hint=(
                "It may have been another VM, a program on this one, Azure's API or a policy of"
                " Azure."
            ),
        )
    if given.by is Approver.DEADLINE:
        return _at_not_before(life)
    if is_inferred(life):
        why = "the request had no answer, and the event then happened"
        return Answer(_WHO_APPROVED, ("probably ", *_approver(given)), why=why)
    return Answer(_WHO_APPROVED, _approver(given))


def is_inferred(life: Lifecycle) -> bool:
    """Return whether a request from here to approve the event had no answer.

    That IMDS has approved the event then follows only from its start.
    """
    given = life.approval
    if given is None or not life.approved_here:
        return False
    # An approval that IMDS has accepted is recorded with NotBefore as it was then.
    return given.not_before is None and life.not_before is not None


def _approver(given: Approval) -> Line:
    """Return who gave an approval from this VM."""
    text = _APPROVERS[given.by]
    if not given.who:
        return (text,)
    if given.by is Approver.EXPORTER:
        return (f"{text}, rule ", Quoted(given.who))
    return (f"{text}: ", Quoted(given.who))


def _at_not_before(life: Lifecycle) -> Answer:
    """Return who approved an event that started at NotBefore, and that nobody on this VM approved.

    Only a document that showed it waiting at NotBefore proves that nobody else did.
    """
    if life.was_waiting_when_due:
        return Answer(_WHO_APPROVED, ("nobody: it was waiting until NotBefore",))
    why = _UNWATCHED
    if life.pending_until is not None:
        why = f"nobody watched from {utc(life.pending_until)} to NotBefore"
    return Answer(_WHO_APPROVED, ("not this exporter",), why=why)


def _without_approval(life: Lifecycle) -> Answer:
    """Return what is known of the approval of an event for which none is recorded."""
    if life.state is State.ADVISORY:
        return Answer(_WHO_APPROVED, ("nobody: it is advice, and there is nothing to approve",))
    if life.outcome is Transition.LOST:
        return Answer(_WHO_APPROVED, why="it disappeared while nobody watched")
    if life.started_at is None and life.outcome is None:
        return Answer(_WHO_APPROVED, ("nobody yet",))
    if life.started_at is None:
        return Answer(_WHO_APPROVED, ("not this exporter: it never started",))
    if not life.announced:
        hint = ""
        if life.event.source == EventSource.USER:
            hint = "Azure may have approved it by itself, as a user requested it."
        why = "the first document with it showed it Started"
        return Answer(_WHO_APPROVED, why=why, hint=hint)
    why = "without a NotBefore, a start does not show whether it was approved"
    return Answer(_WHO_APPROVED, ("not this exporter",), why=why)
