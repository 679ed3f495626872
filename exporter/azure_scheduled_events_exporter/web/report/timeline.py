"""The timeline of a report: what happened and was measured, the oldest first. Pure."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from azure_scheduled_events_exporter.core.lifecycle import (
    Approver,
    Lifecycle,
    State,
    Transition,
)
from azure_scheduled_events_exporter.core.records import Record
from azure_scheduled_events_exporter.web.wording import (
    OUTCOMES,
    hook_status,
    length,
    length_with_tenths,
)

from . import hooks
from .course import boots, is_end_watched, is_inferred, is_start_watched
from .measured import is_pause_a_restart
from .model import Line, Quoted, Sources, Table
from .moments import clock_time

_RETURNED = "It is in the document again after its end."
_APPROVED = {
    Approver.EXPORTER: "Approved by the policy of this exporter.",
    Approver.OPERATOR: "Approved by a person on this VM.",
    Approver.HOOK: "Approved by a hook on this VM.",
    Approver.EXTERNAL: (
        "It started before NotBefore, so somebody must have approved it, but not this exporter."
    ),
}


@dataclass(frozen=True, slots=True)
class _Step:
    """A row of the timeline."""

    at: float  # Unix seconds
    what: Line


def timeline(sources: Sources) -> Table:
    """Return what happened, the oldest first."""
    life = sources.life
    steps = [
        *_requests(sources),  # before what follows from them
        *_transitions(sources),
        *_runs(sources),
        *_of_the_vm(life),
        *_not_before(life),
    ]
    first_seen = int(life.first_seen.wall)
    rows: list[tuple[Line, ...]] = []
    for step in sorted(steps, key=lambda step: step.at):
        # In whole seconds, as the journal has the times of transitions.
        after = _after(int(step.at) - first_seen)
        rows.append(((clock_time(step.at),), (after,), step.what))
    return Table(("Time", "After", "What"), tuple(rows))


def _not_before(life: Lifecycle) -> Iterator[_Step]:
    """Yield NotBefore, unless the event was first seen after it, or started or ended before it."""
    not_before = life.not_before
    if not_before is None or life.state is State.ADVISORY or not_before < life.first_seen.wall:
        return
    for moment in (life.started_at, life.ended_at):
        if moment is not None and moment.wall < not_before:
            return
    yield _Step(not_before, ("NotBefore: without an approval, the event starts from then on.",))


def _of_the_vm(life: Lifecycle) -> Iterator[_Step]:
    """Yield the boots of this VM, and its longest pause."""
    for booted_at in boots(life):
        yield _Step(booted_at, ("This VM booted.",))
    seconds = life.observed_pause
    if life.pause_ended is None or seconds is None or life.pauses == 0:
        return
    pause = "The pause of this VM"
    if life.pauses > 1:
        pause = f"The longest of {life.pauses} pauses of this VM"
    began = f"{pause} began"
    ended = f"{pause} ended"
    if is_pause_a_restart(life):
        began = "The last sign of life before the restart of this VM"
        ended = "The first look of the exporter after the restart"
    yield _Step(life.pause_ended.wall - seconds, (f"{began} (about).",))
    yield _Step(life.pause_ended.wall, (f"{ended}, {length_with_tenths(seconds)} later.",))


def _after(seconds: float) -> str:
    """Return how long after the event was first seen; ``""`` for what was before, as a boot."""
    if seconds < 0:
        return ""
    return f"+{length(seconds)}"


def _transitions(sources: Sources) -> Iterator[_Step]:
    """Yield the transitions that the journal has."""
    life = sources.life
    not_before_until_then = None
    before = 0.0
    for record in sources.transitions:
        transition = record["transition"]
        if transition == Transition.STARTED and not life.announced:
            continue  # the detection has the text "First seen: Started already"
        at = _moment_of(record, sources)
        if int(at) == int(before):
            at = max(at, before)  # a start after the approval from which it follows
        before = at
        yield _Step(at, (_text(record, not_before_until_then, life),))
        not_before_until_then = record.get("not_before")


def _moment_of(record: Record, sources: Sources) -> float:
    """Return when a transition was, in Unix seconds.

    The journal cuts off the fractions of the times of transitions, but not those of requests. An
    approval would come before a request of the same second, from which it follows. So an approval
    gets the time of such a request, if it is by the same approver.
    """
    at = datetime.fromisoformat(str(record["at"])).timestamp()
    if record["transition"] != Transition.APPROVED:
        return at
    by = record.get("approved_by")
    requested = [
        asked.at for asked in sources.asked if asked.approver == by and int(asked.at) == int(at)
    ]
    return min(requested, default=at)


def _text(record: Record, not_before_until_then: object, life: Lifecycle) -> str:
    """Return a sentence for a transition."""
    transition = str(record["transition"])
    match transition:
        case Transition.DETECTED:
            return _first_seen(record)
        case Transition.RESCHEDULED:
            before = _readable(not_before_until_then)
            after = _readable(record.get("not_before"))
            return f"Rescheduled: NotBefore from {before} to {after}."
        case Transition.APPROVED:
            return _approved(record, life)
    return _of_the_life(transition, life)


def _of_the_life(transition: str, life: Lifecycle) -> str:
    """Return a sentence for a transition that needs no more than the event."""
    match transition:
        case Transition.STARTED:
            return _started(life)
        case Transition.COMPLETED:
            return _completed(life)
        case Transition.RETURNED:
            return _RETURNED
    if transition in OUTCOMES:
        name, said = OUTCOMES[Transition(transition)]
        return f"{name.capitalize()}. {said}"
    return transition


def _started(life: Lifecycle) -> str:
    """Return what to say of the start."""
    if is_start_watched(life):
        return "Started: the impact is possible from now on."
    return "Seen Started: the impact may have begun earlier, while nobody watched."


def _completed(life: Lifecycle) -> str:
    """Return what to say of the end of a completed event."""
    if life.proven_by_boot:  # only a boot of this VM shows that the event has started at all
        return "No longer in the document. Nobody watched its start and its end."
    if is_end_watched(life):
        return "No longer in the document: completed."
    return "No longer in the document: completed, now or earlier, while nobody watched."


def _first_seen(record: Record) -> str:
    """Return what the first document showed of the event."""
    state = record.get("state")
    if state == State.STARTED:
        return "First seen: Started already. When it started is not known."
    not_before = record.get("not_before")
    if not not_before:
        return f"First seen: {state}, without a NotBefore."
    return f"First seen: {state}, NotBefore {_readable(not_before)}."


def _approved(record: Record, life: Lifecycle) -> str:
    """Return who has approved the event."""
    if is_inferred(life):
        return "Probably approved: a request from this VM had no answer."
    approver = record.get("approved_by")
    if not approver:
        return "Approved."
    return _APPROVED.get(Approver(str(approver)), "Approved.")


def _readable(moment: object) -> str:
    """Return a moment of a record, which is text in ISO 8601, as the table writes it."""
    if not moment:
        return "unknown"
    return str(moment).replace("T", " ").removesuffix("Z")


def _runs(sources: Sources) -> Iterator[_Step]:
    """Yield the beginning and the end of each run of a hook."""
    for run in sources.runs:
        if hooks.is_repeated(run, sources.runs):
            took = length_with_tenths(run.duration or 0.0)
            failed = f"failed{hook_status(run)} after {took}"
            what = f"Hook, {run.phase} {failed}, and was repeated: "
            yield _Step(run.started, (what, Quoted(run.command)))
            continue
        ended = hooks.outcome(run, sources.life)
        if run.duration is None:
            yield _Step(run.started, (f"Hook, {run.phase} ({ended}): ", Quoted(run.command)))
            continue
        yield _Step(run.started, (f"Hook, {run.phase} began: ", Quoted(run.command)))
        yield _Step(run.started + run.duration, (f"Hook, {run.phase} ended: {ended}.",))


def _requests(sources: Sources) -> Iterator[_Step]:
    """Yield each request to approve the event, with its result."""
    for asked in sources.asked:
        result = asked.result or "no result yet"
        who = (f"The {asked.approver} ", Quoted(asked.who), " asked this exporter to approve it.")
        yield _Step(asked.at, (*who, " Result: ", Quoted(result)))
