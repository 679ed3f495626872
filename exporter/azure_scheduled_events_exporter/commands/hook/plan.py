"""Decides what a hook does next: which run begins, until when it may take, what may be approved.

Pure: the events, the runs so far and the time are arguments. Must not know how a process is started
or stopped, or where runs are stored.
"""

import json
import uuid
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

from azure_scheduled_events_exporter.core.event_types import EVENT_FACTS
from azure_scheduled_events_exporter.core.kinds import Kind
from azure_scheduled_events_exporter.core.lifecycle import Lifecycle, State
from azure_scheduled_events_exporter.core.records import Record, current_record
from azure_scheduled_events_exporter.snapshot.hooks import HookRun, Phase, RunOutcome

DEFAULT_KINDS: Final = (Kind.ANNOUNCED, Kind.REQUESTED, Kind.UNKNOWN_TYPE)
"""A harmless event needs no preparation, one that is far ahead is prepared for when it is near,
advice has no time, and what came without notice is too late to prepare for."""

MOST_AT_ONCE: Final = 10
"""How many commands run at once. Those of the nearest events begin first."""

GONE_DOCUMENTS: Final = 3
"""An event is over for a hook when so many documents in a row have lacked it: one may be wrong."""

_AGAIN_SECONDS = 5.0
"""How long after its end a failed preparation is repeated, times the number of failed ones."""


@dataclass(frozen=True, slots=True)
class Rules:
    """What the user wants.

    Attributes:
        command: the command line to run.
        types: of events, in lower case; empty means all.
        kinds: of events.
        lead: prepare at most so many seconds before NotBefore.
        timeout: the longest time of a run, seconds.
        grace: how many seconds before its end a run is asked to end.
        approves: whether to approve events of this VM alone, after success.
    """

    command: str = ""
    types: frozenset[str] = frozenset()
    kinds: frozenset[str] = frozenset(DEFAULT_KINDS)
    lead: float = 900.0
    timeout: float = 900.0
    grace: float = 5.0
    approves: bool = False


@dataclass(frozen=True, slots=True)
class CurrentEvents:
    """The current events by EventId, and the moment by the clock of IMDS."""

    current: Mapping[str, Lifecycle]
    now: float

    def left(self, life: Lifecycle) -> float | None:
        """Return the seconds until NotBefore; None if there is none."""
        if life.not_before is None:
            return None
        return life.not_before - self.now

    def has_begun(self, life: Lifecycle) -> bool:
        """Return whether it is too late to prepare for the event."""
        left = self.left(life)
        return life.state is State.STARTED or (left is not None and left <= 0)


def preparations(
    events: CurrentEvents, runs: Collection[HookRun], active: Collection[str], rules: Rules
) -> list[HookRun]:
    """Return the runs with ``prepare`` to begin now, at most as many as may run at once.

    One with an outcome is over: its event began too early.

    Args:
        events: all current events.
        runs: those of this hook, the oldest first. What was prepared before a recovery is to be
            prepared again.
        active: the ids of the runs whose command is running. A run without an outcome that is not
            among them was interrupted with its hook: it begins again.
        rules: what the user wants.
    """
    since = unrecovered(runs)
    found = []
    for life in sorted(events.current.values(), key=lambda life: life.not_before or 0.0):
        before = [
            run for run in since if run.event_id == life.event_id and run.phase == Phase.PREPARE
        ]
        if _is_due(life, before, active, events, rules):
            found.append(_preparation(life, before, events, rules))
    too_late = [run for run in found if run.outcome]
    begins = [run for run in found if not run.outcome]
    return [*too_late, *begins[: max(0, MOST_AT_ONCE - len(active))]]


def _is_due(
    life: Lifecycle,
    before: list[HookRun],
    active: Collection[str],
    events: CurrentEvents,
    rules: Rules,
) -> bool:
    """Return whether a preparation begins now; ``before``: those of this event so far."""
    if not before:
        left = events.left(life)
        is_named = not rules.types or life.event.event_type.casefold() in rules.types
        is_near = left is None or left <= rules.lead
        return life.is_mine and is_named and is_near and life.kind in rules.kinds
    last = before[-1]
    if last.outcome is None:
        return last.run not in active
    if events.has_begun(life) or not _may_repeat(last, events.left(life), rules):
        return False
    again_at = last.started + (last.duration or 0.0) + _AGAIN_SECONDS * len(before)
    return events.now >= again_at


def _may_repeat(last: HookRun, left: float | None, rules: Rules) -> bool:
    """Return whether a preparation that has ended so may run again.

    One that was stopped may only if it was by ``timeout``: not within the grace before NotBefore.
    """
    if last.outcome == RunOutcome.TIMEOUT:
        return left is None or left > rules.grace
    return last.outcome == RunOutcome.FAILED


def why_not(life: Lifecycle, events: CurrentEvents, rules: Rules) -> str:
    """Return why nothing is prepared for an event of this VM now; ``""`` if something is."""
    if not life.is_mine:
        return ""
    if rules.types and life.event.event_type.casefold() not in rules.types:
        return "its type is not among --types"
    if life.kind is Kind.WITHOUT_NOTICE and life.kind not in rules.kinds:
        return "it had begun when it was first seen: its kind without_notice is not among --kinds"
    if life.kind not in rules.kinds:
        return f"its kind {life.kind} is not among --kinds"
    left = events.left(life)
    if left is not None and left > rules.lead:
        return "NotBefore is further ahead than --lead: prepare begins then"
    return ""


def _preparation(
    life: Lifecycle, before: list[HookRun], events: CurrentEvents, rules: Rules
) -> HookRun:
    """Return the run that begins, under the id of the one that was interrupted, if there is one."""
    is_interrupted = bool(before) and before[-1].outcome is None
    record = {**current_record(life, events.now), "vm_name": life.own_name or life.vm_name}
    run = HookRun(
        run=before[-1].run if is_interrupted else uuid.uuid4().hex,
        command=rules.command,
        event_id=life.event_id,
        event_type=life.event.event_type,
        phase=Phase.PREPARE,
        started=events.now,
        record=json.dumps(record),
    )
    if events.has_begun(life):
        return replace(run, outcome=str(RunOutcome.TOO_LATE), seconds_left=events.left(life))
    return run


def unrecovered(runs: Iterable[HookRun]) -> list[HookRun]:
    """Return the runs after the last recovery that has ended: an event may return after it."""
    since: list[HookRun] = []
    for run in runs:
        if run.phase == Phase.RECOVER and run.outcome:
            since = []
        else:
            since.append(run)
    return since


def recovery(
    runs: Iterable[HookRun],
    missing: int,
    now: float,
    command: str,
    outcomes: Mapping[str, str],
) -> Iterator[HookRun]:
    """Yield the end of interrupted preparations, then the recovery, if all is over.

    Call it when no command is running. An interrupted recovery begins again.

    Args:
        runs: those of this hook, the oldest first.
        missing: how many documents in a row have shown no event that was prepared for.
        now: this moment, by the clock of IMDS.
        command: the command line that recovers: an earlier hook may have prepared with another.
        outcomes: how events ended, by EventId, of those that this process has seen.
    """
    since = unrecovered(runs)
    if not since or missing < GONE_DOCUMENTS:
        return
    unended = [run for run in since if run.outcome is None]
    for run in unended:
        if run.phase == Phase.PREPARE:
            yield replace(run, outcome=str(RunOutcome.FAILED))
    last = since[-1]
    interrupted = [run.run for run in unended if run.phase == Phase.RECOVER]
    run_id = interrupted[0] if interrupted else uuid.uuid4().hex
    yield HookRun(
        run=run_id,
        command=command,
        event_id=last.event_id,
        event_type=last.event_type,
        phase=Phase.RECOVER,
        started=now,
        record=_record_of_end(last, outcomes.get(last.event_id)),
    )


def _record_of_end(run: HookRun, outcome: str | None) -> str:
    """Return the event of ``run`` as the recovery after it stores it."""
    record = {**record_of(run), "seconds_until_not_before": None, "outcome": outcome}
    return json.dumps(record)


def record_of(run: HookRun) -> Record:
    """Return the event of a run as it was stored; without its values if they cannot be read."""
    try:
        record = json.loads(run.record)
    except ValueError:
        record = None
    if isinstance(record, dict):
        return record
    return {"event_id": run.event_id, "event_type": run.event_type}


def deadline(started: float, not_before: float | None, rules: Rules) -> float:
    """Return when a run that began at ``started`` is asked to end, by the clock of IMDS.

    With less notice than twice the grace, half of the time is left to the command.
    """
    if not_before is None:
        return started + rules.timeout
    grace = min(rules.grace, max(0.0, not_before - started) / 2)
    return min(started + rules.timeout, not_before - grace)


def outcome_of(status: int, *, stopped: bool, left: float | None) -> RunOutcome:
    """Return how a run ended: with this exit status, and so many seconds before NotBefore."""
    if stopped:
        return RunOutcome.TIMEOUT
    if status != 0:
        return RunOutcome.FAILED
    if left is not None and left < 0:
        return RunOutcome.TOO_LATE
    return RunOutcome.OK


def may_approve(life: Lifecycle) -> bool:
    """Return whether a hook may approve an event that it has prepared for.

    Only one that affects this VM alone, whatever earlier documents have shown. Never one that
    deletes the VM, nor one of a type that nobody knows.
    """
    facts = EVENT_FACTS.get(life.event.event_type)
    if facts is None or facts.deletes or not life.is_open_to_approval:
        return False
    return not has_other_vms(life)


def has_other_vms(life: Lifecycle) -> bool:
    """Return whether the event affects other VMs too, or did so in an earlier document."""
    names = {name.casefold() for name in life.event.resources}
    return life.most_resources > 1 or names != {life.own_name.casefold()}
