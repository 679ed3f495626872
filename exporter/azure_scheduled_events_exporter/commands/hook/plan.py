"""Decides what a hook does next: which command runs, until when, and which event may be approved.

Pure: the events, the runs so far and the time are arguments. Must not know how a process is started or stopped.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from azure_scheduled_events_exporter.core.event_types import EVENT_FACTS
from azure_scheduled_events_exporter.core.kinds import Kind, kind_of
from azure_scheduled_events_exporter.core.lifecycle import Lifecycle, State
from azure_scheduled_events_exporter.journal.hook_runs import HookRun, Phase, RunOutcome

DEFAULT_KINDS = (Kind.ANNOUNCED, Kind.REQUESTED, Kind.UNKNOWN_TYPE)
"""A harmless event needs no preparation, advice has no time, and what came without notice is too late to prepare."""

AGAIN_SECONDS = 5.0
"""A preparation that failed is repeated after so long, after twice as long the next time, and so on."""


@dataclass(frozen=True, slots=True)
class Rules:
    """What the user wants: the options of the command, by their names. Times in seconds.

    Attributes:
        types: in lower case; empty means all.
    """

    types: frozenset[str] = frozenset()
    kinds: frozenset[str] = frozenset(DEFAULT_KINDS)
    lead: float = 900.0
    timeout: float = 900.0
    grace: float = 5.0
    approve: str = "never"
    marks: Path | None = None


def seconds_left(life: Lifecycle, now: float) -> float | None:
    """Return the time to NotBefore; None if no NotBefore is known."""
    return None if life.not_before is None else life.not_before - now


def to_prepare(
    current: Mapping[str, Lifecycle], runs: Sequence[HookRun], rules: Rules, now: float
) -> list[tuple[Lifecycle, bool]]:
    """Return the events to prepare for now, each with whether it is too late: it began before the command could run."""
    chosen: list[tuple[Lifecycle, bool]] = []
    for life in current.values():
        left = seconds_left(life, now)
        is_named = not rules.types or life.event.event_type.casefold() in rules.types
        is_near = left is None or left <= rules.lead
        if life.is_mine and is_named and is_near and kind_of(life, now) in rules.kinds:
            before = [run for run in runs if run.event_id == life.event_id and run.phase == Phase.PREPARE]
            has_begun = life.state is State.STARTED or (left is not None and left <= 0)
            if not before or (not has_begun and _is_to_be_repeated(before, now)):
                chosen.append((life, has_begun))
    return chosen


def _is_to_be_repeated(before: Sequence[HookRun], now: float) -> bool:
    ended = before[-1].started + (before[-1].duration or 0.0)
    return all(run.outcome == RunOutcome.FAILED for run in before) and now >= ended + AGAIN_SECONDS * len(before)


def to_recover(current: Collection[str], runs: Sequence[HookRun]) -> HookRun | None:
    """Return the last preparation if all events that were prepared for are over; None if nothing is to recover.

    Args:
        current: EventIds of the current events.
        runs: of this hook, the oldest first.
    """
    recovered = max((run.started for run in runs if run.phase == Phase.RECOVER), default=0.0)
    prepared = [run for run in runs if run.phase == Phase.PREPARE and run.started > recovered]
    is_over = not any(run.event_id in current or run.outcome is None for run in prepared)
    return prepared[-1] if prepared and is_over else None


def deadlines(started: float, not_before: float | None, rules: Rules) -> tuple[float, float]:
    """Return when a run that began at ``started`` gets SIGTERM, and when SIGKILL, wall-clock seconds.

    With less notice than twice the grace, half of the time is left to the command.
    """
    asked = started + rules.timeout
    if not_before is None:
        return asked, asked + rules.grace
    asked = min(asked, not_before - min(rules.grace, max(0.0, not_before - started) / 2))
    return asked, min(asked + rules.grace, max(asked, not_before))


def outcome_of(status: int, *, stopped: bool, left: float | None) -> RunOutcome:
    """Return how a run ended: with this exit status, and so many seconds before NotBefore."""
    if stopped:
        return RunOutcome.TIMEOUT
    if status != 0:
        return RunOutcome.FAILED
    return RunOutcome.TOO_LATE if left is not None and left < 0 else RunOutcome.OK


def may_approve(life: Lifecycle, rules: Rules, prepared: Collection[str]) -> bool:
    """Return whether to approve an event that this VM has prepared for.

    Never one that deletes the VM, nor one of a type that nobody knows. ``prepared`` has the names of the VMs that have
    prepared, in lower case.
    """
    facts = EVENT_FACTS.get(life.event.event_type)
    if rules.approve == "never" or facts is None or facts.deletes or not life.is_open_to_approval:
        return False
    names = {name.casefold() for name in life.event.resources}
    if rules.approve == "own":
        return len(names) == 1 and life.most_resources <= 1
    return life.most_resources <= len(life.event.resources) and names <= set(prepared)
