"""What hooks of this VM did for an event, for the summary, the timeline and a section. Pure.

A hook runs its command before the event (the phase prepare) and after it (recover).
``docs/hook.md`` says when a hook prepares, repeats and recovers.
"""

from collections.abc import Iterable, Mapping

from azure_scheduled_events_exporter.core.document import Scope
from azure_scheduled_events_exporter.core.lifecycle import Kind, Lifecycle
from azure_scheduled_events_exporter.snapshot.hooks import HookRun, Phase, RunOutcome
from azure_scheduled_events_exporter.web.wording import hook_status, length, length_with_tenths

from .answer import Answer
from .model import Line, Output, Quoted, Section, Sources, Table
from .moments import clock_time, utc

_NOT_PREPARED = {
    Kind.WITHOUT_NOTICE: "a hook does not prepare for an event that has started",
    Kind.HARMLESS: "a hook does not prepare for a harmless event unless --kinds names the kind",
    Kind.ADVISORY: "a hook does not prepare for advice unless --kinds names the kind",
    Kind.FAR_AHEAD: "a hook waits until an event is less than a day ahead",
}
_OUTCOMES: Mapping[str, str] = {
    RunOutcome.OK: "ok",
    RunOutcome.FAILED: "failed",
    RunOutcome.TIMEOUT: "stopped at its deadline",
    RunOutcome.TOO_LATE: "too late",
    RunOutcome.CANCELLED: "stopped, because the event was cancelled",
}
_ABOUT_REPEATS = "A hook repeats a failed preparation by itself. Each repetition has a row."


def outcome(run: HookRun, life: Lifecycle) -> str:
    """Return how a run ended, with its exit status or signal, and by how much it was too late."""
    if run.outcome is None:
        return "no end is recorded"
    if run.outcome == RunOutcome.TOO_LATE and run.duration is None:
        return "not run: it was too late"
    if run.outcome == RunOutcome.TOO_LATE and run.exit_status == 0:
        return f"ok, but {length_with_tenths(_lateness(run, life))} too late"
    return f"{_OUTCOMES.get(run.outcome, run.outcome)}{hook_status(run)}"


def _lateness(run: HookRun, life: Lifecycle) -> float:
    """Return by how many seconds a preparation ended after the start, or after NotBefore.

    The earlier of both counts, so the larger lateness: an approved event starts before NotBefore.
    The start is known as the moment when a document showed it, so the preparation may have been
    later than is returned.
    """
    after_not_before = -(run.seconds_left or 0.0)
    after_start = 0.0
    if life.started_at is not None and not life.proven_by_boot:
        ended = run.started + (run.duration or 0.0)
        after_start = ended - life.started_at.wall
    return max(0.0, after_not_before, after_start)


def is_repeated(run: HookRun, runs: Iterable[HookRun]) -> bool:
    """Return whether a preparation failed, and its hook began another one later."""
    if run.phase != Phase.PREPARE or run.outcome != RunOutcome.FAILED:
        return False
    return any(
        other.command == run.command
        and other.phase == Phase.PREPARE
        and other.started > run.started
        for other in runs
    )


def summary(sources: Sources) -> Line:
    """Return for each hook how its last preparation and its recovery ended."""
    if not sources.runs:
        return _none_ran(sources)
    line: list[str | Quoted] = []
    for command in dict.fromkeys(run.command for run in sources.runs):
        if line:
            line.append(". ")
        runs = [run for run in sources.runs if run.command == command]
        line += [Quoted(command), ": ", "; ".join(_phases(runs, sources))]
    return tuple(line)


def _phases(runs: list[HookRun], sources: Sources) -> Iterable[str]:
    """Yield how the last preparation and the recovery of one hook ended."""
    life = sources.life
    prepared = [run for run in runs if run.phase == Phase.PREPARE]
    recovered = [run for run in runs if run.phase == Phase.RECOVER]
    if prepared:
        yield _preparation(prepared, life)
    if recovered:
        yield f"recover {outcome(recovered[-1], life)}"
    elif life.outcome is not None:
        yield "no run of recover is in the journal"


def _preparation(prepared: list[HookRun], life: Lifecycle) -> str:
    """Return how the preparations of one hook ended, and whether this VM was prepared."""
    last = prepared[-1]
    text = f"prepare {outcome(last, life)}"
    if len(prepared) > 1:
        text += f" in run {len(prepared)}, the last one"
        if all(run.outcome == RunOutcome.FAILED for run in prepared):
            text = f"all {len(prepared)} runs of prepare failed"
    if last.outcome == RunOutcome.TOO_LATE:
        return f"{text}: this VM was not prepared in time"
    if last.outcome in {None, RunOutcome.OK, RunOutcome.CANCELLED}:
        return text
    return f"{text}: this VM was not prepared"


def _none_ran(sources: Sources) -> Line:
    return (f"none is recorded for this event: {why_none_ran(sources)}",)


def why_none_ran(sources: Sources) -> str:
    """Return why no hook ran."""
    life = sources.life
    if life.scope is Scope.UNKNOWN:
        return "it is not known whether this VM is one of its VMs"
    if not life.is_mine:
        return "a hook prepares only for events of its own VM"
    reason = _NOT_PREPARED.get(life.kind, "")
    if sources.hooks:  # the journal has runs for other events
        return reason or (
            "one ran for other events, but it was not running, or its options leave this one out"
        )
    reason = reason or "the journal has no run of a hook"
    return f"{reason}; whether one was set up is not recorded"


def answers(sources: Sources) -> Iterable[Answer]:
    """Yield what is not known about the runs."""
    if any(run.outcome is None for run in sources.runs):
        why = "it still runs, or it was interrupted"
        yield Answer("How a run of a hook ended", why=why)
    phases = {run.phase for run in sources.runs}
    is_over = sources.life.outcome is not None
    if is_over and Phase.PREPARE in phases and Phase.RECOVER not in phases:
        why = "no run of it for this event is in the journal"
        hint = ""
        if sources.others:  # other events were current at the same time
            hint = "A hook recovers once, after the last of the events that it prepared for."
        yield Answer("Whether recover ran", why=why, hint=hint)


def section(sources: Sources) -> Section:
    """Return the part of a report about hooks."""
    if not sources.runs:
        notes: list[Line] = [(f"No run is recorded for this event: {why_none_ran(sources)}.",)]
        return Section("Hooks", notes=tuple(notes))
    rows = tuple(_row(run, sources.life) for run in sources.runs)
    heads = ("Phase", "Command", "Began, UTC", "Took", "Left to NotBefore at its end", "Outcome")
    outputs = []
    for number, run in enumerate(sources.runs):
        later = sources.runs[number + 1 :]
        if run.output and not _is_told_later(run, later):
            head = f"Last lines of the {run.phase} that began at {utc(run.started)}"
            outputs.append(Output((head,), run.output))
    notes = []
    if sum(run.phase == Phase.PREPARE for run in sources.runs) > 1:
        notes.append((_ABOUT_REPEATS,))
    if len(outputs) < sum(bool(run.output) for run in sources.runs):
        notes.append(("Runs that wrote the same have their output once, under the last of them.",))
    return Section("Hooks", table=Table(heads, rows), notes=tuple(notes), outputs=tuple(outputs))


def _is_told_later(run: HookRun, later: Iterable[HookRun]) -> bool:
    """Return whether one of the ``later`` runs has the same phase and has written the same."""
    return any(other.phase == run.phase and other.output == run.output for other in later)


def _row(run: HookRun, life: Lifecycle) -> tuple[Line, ...]:
    """Return a run as a row of the table."""
    took = ""
    if run.duration is not None:
        took = length_with_tenths(run.duration)
    return (
        (run.phase,),
        (Quoted(run.command),),
        (clock_time(run.started),),
        (took,),
        (_left(run),),
        (outcome(run, life),),
    )


def _left(run: HookRun) -> str:
    """Return how much time was left to NotBefore when a run ended, in words."""
    seconds = run.seconds_left
    if seconds is None:
        return ""
    if seconds < 0:
        return f"none: {length(-seconds)} after it"
    if run.outcome == RunOutcome.TOO_LATE:
        return "none: it had started"
    return length_with_tenths(seconds)
