"""The timeline of a report: transitions, hooks and requests in the order in which they happened.

Pure.
"""

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
from azure_scheduled_events_exporter.times import iso_time
from azure_scheduled_events_exporter.web.wording import OUTCOMES, length

from .model import Line, Quoted, Sources, Table

_STEPS = {
    Transition.STARTED: "Started: the impact is possible from now on.",
    Transition.RETURNED: "It is in the document again after its end.",
}
_APPROVED = {
    Approver.EXPORTER: "Approved by the policy of this exporter.",
    Approver.OPERATOR: "Approved by a person on this VM.",
    Approver.HOOK: "Approved by a hook on this VM.",
    Approver.EXTERNAL: "Approved elsewhere: it starts before NotBefore.",
    Approver.DEADLINE: "NotBefore has come without an approval.",
}

PROVEN_BY_BOOT = "Nobody watched it start: this VM has booted since, so it happened."


@dataclass(frozen=True, slots=True)
class _Step:
    at: float  # Unix seconds
    what: Line


def timeline(sources: Sources) -> Table:
    """Return what happened, the oldest first."""
    life = sources.life
    steps = [
        *_transitions(sources),
        *_runs(sources),
        *_requests(sources),
    ]
    if life.not_before is not None and life.state is not State.ADVISORY:
        steps.append(_Step(life.not_before, (_not_before(life, life.not_before),)))
    begun = int(life.first_seen.wall)  # the journal has the times of transitions in whole seconds
    rows = tuple(
        ((_clock(step.at),), (_after(int(step.at) - begun),), step.what)
        for step in sorted(steps, key=lambda step: step.at)
    )
    return Table(("Time", "After", "What"), rows)


def _not_before(life: Lifecycle, due: float) -> str:
    if life.ended_at is not None and life.ended_at.wall < due:
        return "NotBefore: the event was over before it."
    if life.started_at is not None and life.started_at.wall < due:
        return "NotBefore: the event had started before it."
    return "NotBefore: without an approval, the event starts from now on."


def _clock(seconds: float) -> str:
    return iso_time(seconds).replace("T", " ").removesuffix("Z")


def _after(seconds: float) -> str:
    return "" if seconds < 0 else f"+{length(seconds)}"


def _transitions(sources: Sources) -> Iterator[_Step]:
    life = sources.life
    before = None
    for record in sources.transitions:
        transition = record["transition"]
        if transition == Transition.STARTED and not life.announced:
            continue  # the first line says so
        at = datetime.fromisoformat(str(record["at"])).timestamp()
        text = _text(record, before)
        if transition == Transition.COMPLETED and life.proven_by_boot:
            text = f"No longer in the document. {PROVEN_BY_BOOT}"
        yield _Step(at, (text,))
        before = record.get("not_before")


def _text(record: Record, before: object) -> str:
    """Return a sentence for a transition; ``before``: NotBefore at the transition before it."""
    transition = str(record["transition"])
    match transition:
        case Transition.DETECTED:
            return _first_seen(record)
        case Transition.RESCHEDULED:
            after = record.get("not_before")
            return f"Rescheduled: NotBefore from {_readable(before)} to {_readable(after)}."
        case Transition.APPROVED:
            return _approved(record)
    if transition in _STEPS:
        return _STEPS[Transition(transition)]
    if transition in OUTCOMES:
        name, said = OUTCOMES[Transition(transition)]
        return f"{name.capitalize()}. {said}"
    return transition


def _first_seen(record: Record) -> str:
    state = record.get("state")
    if state == State.STARTED:
        return "First seen: Started already. When it started is not known."
    not_before = record.get("not_before")
    if not not_before:
        return f"First seen: {state}, without a NotBefore."
    return f"First seen: {state}, NotBefore {_readable(not_before)}."


def _approved(record: Record) -> str:
    approver = record.get("approved_by")
    if not approver:
        return "Approved."
    return _APPROVED.get(Approver(str(approver)), "Approved.")


def _readable(moment: object) -> str:
    return str(moment).replace("T", " ").removesuffix("Z") if moment else "unknown"


def _runs(sources: Sources) -> Iterator[_Step]:
    for run in sources.runs:
        if run.duration is None:
            said = f": {run.outcome}" if run.outcome else ""
            yield _Step(run.started, (f"Hook, {run.phase}{said}: ", Quoted(run.command)))
            continue
        yield _Step(run.started, (f"Hook, {run.phase} began: ", Quoted(run.command)))
        yield _Step(
            run.started + run.duration, (f"Hook, {run.phase} ended: {run.outcome or 'unknown'}.",)
        )


def _requests(sources: Sources) -> Iterator[_Step]:
    for asked in sources.asked:
        result = asked.result or "no result yet"
        yield _Step(
            asked.at, (f"The {asked.approver} ", Quoted(asked.who), " asked: ", Quoted(result))
        )
