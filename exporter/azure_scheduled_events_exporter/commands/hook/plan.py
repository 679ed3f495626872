"""Decides what a hook does next: which run begins, until when it may take, and which event may be approved.

Pure: the events, the runs so far and the time are arguments. Must not know how a process is started
    or stopped.
"""

import json
import uuid
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from azure_scheduled_events_exporter.core.event_types import EVENT_FACTS
from azure_scheduled_events_exporter.core.kinds import Kind
from azure_scheduled_events_exporter.core.lifecycle import Lifecycle, State
from azure_scheduled_events_exporter.core.records import current_record
from azure_scheduled_events_exporter.polling.document_reader import EMPTY_POLLS
from azure_scheduled_events_exporter.snapshot.hooks import HookRun, Phase, RunOutcome

DEFAULT_KINDS = (Kind.ANNOUNCED, Kind.REQUESTED, Kind.UNKNOWN_TYPE)
"""A harmless event needs no preparation, advice has no time, and what came without notice is too late to prepare."""

# after which a failed preparation is repeated; after twice as long the next time, and so on
_AGAIN_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Rules:
    """What the user wants: the command line to run, and the options by their names.

    Times in seconds.
    """

    command: str = ""
    types: frozenset[str] = frozenset()  # in lower case; empty means all
    kinds: frozenset[str] = frozenset(DEFAULT_KINDS)
    lead: float = 900.0
    timeout: float = 900.0
    grace: float = 5.0
    approve: str = "never"
    marks: Path | None = None


def preparations(
    current: Iterable[Lifecycle],
    runs: Collection[HookRun],
    active: Collection[str],
    rules: Rules,
    now: float,
) -> Iterator[HookRun]:
    """Yield the runs with ``prepare`` to begin at ``now``.

    One with an outcome is over: its event began too early.

    A run without an outcome whose id is not in ``active`` was interrupted with its hook: it begins
    again. ``runs`` has all of this hook, the oldest first; what was prepared before a recovery is
    to be prepared again.
    """
    for life in current:
        before = [
            run
            for run in unrecovered(runs)
            if run.event_id == life.event_id and run.phase == Phase.PREPARE
        ]
        last = before[-1] if before else None
        left = None if life.not_before is None else life.not_before - now
        has_begun = life.state is State.STARTED or (left is not None and left <= 0)
        if last is None:
            is_named = not rules.types or life.event.event_type.casefold() in rules.types
            is_near = left is None or left <= rules.lead
            is_due = life.is_mine and is_named and is_near and life.kind in rules.kinds
        elif last.outcome is None:
            is_due = last.run not in active
        else:
            again_at = last.started + (last.duration or 0.0) + _AGAIN_SECONDS * len(before)
            is_due = last.outcome == RunOutcome.FAILED and not has_begun and now >= again_at
        if is_due:
            name = uuid.uuid4().hex if last is None or last.outcome else last.run
            record = json.dumps(
                {**current_record(life, now), "vm_name": life.own_name or life.vm_name}
            )
            run = HookRun(
                name,
                rules.command,
                life.event_id,
                life.event.event_type,
                Phase.PREPARE,
                now,
                record=record,
            )
            yield (
                replace(run, outcome=str(RunOutcome.TOO_LATE), seconds_left=left)
                if has_begun
                else run
            )


def unrecovered(runs: Iterable[HookRun]) -> list[HookRun]:
    """Return the runs after the last recovery that has ended: an event may return after it."""
    since: list[HookRun] = []
    for run in runs:
        since = [] if run.phase == Phase.RECOVER and run.outcome else [*since, run]
    return since


def recovery(
    current: Collection[str], runs: Iterable[HookRun], documents: int, now: float
) -> Iterator[HookRun]:
    """Yield the end of interrupted preparations, then the recovery, if all events that were prepared for are over.

    An interrupted recovery begins again. Call it when no command is running. ``documents`` is how
    many this hook has read as a whole: what an earlier hook prepared for is not over before
    :data:`EMPTY_POLLS`, since a body may be empty by a fault.
    """
    since = unrecovered(runs)
    if not since or documents < EMPTY_POLLS or any(run.event_id in current for run in since):
        return
    unended = [run for run in since if run.outcome is None]
    yield from (
        replace(run, outcome=str(RunOutcome.FAILED))
        for run in unended
        if run.phase == Phase.PREPARE
    )
    last = since[-1]
    name = next((run.run for run in unended if run.phase == Phase.RECOVER), uuid.uuid4().hex)
    record = json.dumps({**json.loads(last.record), "seconds_until_not_before": None})
    yield HookRun(
        name, last.command, last.event_id, last.event_type, Phase.RECOVER, now, record=record
    )


def deadline(started: float, not_before: float | None, rules: Rules) -> float:
    """Return when a run that began at ``started`` is asked to end, wall-clock seconds.

    With less notice than twice the grace, half of the time is left to the command.
    """
    if not_before is None:
        return started + rules.timeout
    return min(
        started + rules.timeout, not_before - min(rules.grace, max(0.0, not_before - started) / 2)
    )


def outcome_of(status: int, *, stopped: bool, left: float | None) -> RunOutcome:
    """Return how a run ended: with this exit status, and so many seconds before NotBefore."""
    if stopped or status != 0:
        return RunOutcome.TIMEOUT if stopped else RunOutcome.FAILED
    return RunOutcome.TOO_LATE if left is not None and left < 0 else RunOutcome.OK


def may_approve(life: Lifecycle, prepared: Collection[str]) -> bool:
    """Return whether to approve an event that the VMs in ``prepared``, names in lower case, have prepared for.

    Never one that deletes the VM, nor one of a type that nobody knows.
    """
    facts, names = (
        EVENT_FACTS.get(life.event.event_type),
        {name.casefold() for name in life.event.resources},
    )
    is_possible = facts is not None and not facts.deletes and life.is_open_to_approval
    return (
        is_possible and life.most_resources <= len(life.event.resources) and names <= set(prepared)
    )
