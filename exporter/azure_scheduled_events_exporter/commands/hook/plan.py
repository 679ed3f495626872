"""Decides what a hook does next: which command runs, until when, and which event may be approved.

Pure: the events, the runs so far and the time are arguments. Must not know how a process is started or stopped.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

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
    """What the user wants. Times in seconds.

    Attributes:
        types: the event types that qualify, in lower case; empty means all.
        kinds: the kinds that qualify.
        lead: how long before NotBefore the preparation starts at the earliest.
        timeout: how long a run may take.
        grace: how long before NotBefore a run is asked to end (SIGTERM).
        approve: never, own or all.
    """

    types: frozenset[str] = frozenset()
    kinds: frozenset[Kind] = frozenset(DEFAULT_KINDS)
    lead: float = 900.0
    timeout: float = 900.0
    grace: float = 5.0
    approve: str = "never"

    def include(self, life: Lifecycle, now: float) -> bool:
        """Return whether an event qualifies."""
        named = not self.types or life.event.event_type.casefold() in self.types
        return life.is_mine and named and kind_of(life, now) in self.kinds


def to_prepare(
    current: Mapping[str, Lifecycle], runs: Sequence[HookRun], rules: Rules, now: float
) -> list[tuple[Lifecycle, RunOutcome | None]]:
    """Return the events to prepare for now; with ``too_late`` those that began before the command could run."""
    chosen: list[tuple[Lifecycle, RunOutcome | None]] = []
    for life in current.values():
        before = [run for run in runs if run.event_id == life.event_id and run.phase == Phase.PREPARE]
        if not rules.include(life, now) or not _may_run_again(before, now):
            continue
        left = seconds_left(life, now)
        if life.state is State.STARTED or (left is not None and left <= 0):
            if not before:
                chosen.append((life, RunOutcome.TOO_LATE))
        elif left is None or left <= rules.lead:
            chosen.append((life, None))
    return chosen


def _may_run_again(before: Sequence[HookRun], now: float) -> bool:
    """Return whether a command that has only failed for an event so far runs for it (again)."""
    if any(run.outcome != RunOutcome.FAILED for run in before):
        return False
    return not before or now >= before[-1].started + (before[-1].duration or 0.0) + AGAIN_SECONDS * len(before)


def to_recover(current: Collection[str], runs: Sequence[HookRun]) -> HookRun | None:
    """Return the last event that was prepared for and is over, if no other is current; None if nothing is to recover.

    Args:
        current: EventIds of the current events.
        runs: of this hook, the oldest first.
    """
    recovered = max((run.started for run in runs if run.phase == Phase.RECOVER), default=0.0)
    open_runs = [run for run in runs if run.phase == Phase.PREPARE and run.started > recovered]
    if any(run.event_id in current or run.outcome is None for run in open_runs):
        return None
    return open_runs[-1] if open_runs else None


def seconds_left(life: Lifecycle, now: float) -> float | None:
    """Return the time to NotBefore; None if no NotBefore is known."""
    return None if life.not_before is None else life.not_before - now


def asked_to_end_at(started: float, not_before: float | None, rules: Rules) -> float:
    """Return when a preparation that began at ``started`` is asked to end (SIGTERM), wall-clock seconds.

    With less notice than twice the grace, half of the time is left to the command.
    """
    end = started + rules.timeout
    if not_before is not None:
        end = min(end, not_before - min(rules.grace, max(0.0, not_before - started) / 2))
    return end


def killed_at(asked: float, not_before: float | None, rules: Rules) -> float:
    """Return when a command that was asked to end at ``asked`` is killed (SIGKILL): at NotBefore at the latest."""
    end = asked + rules.grace
    return end if not_before is None else min(end, max(asked, not_before))


def prepare_outcome(status: int, *, stopped: bool, left: float | None) -> RunOutcome:
    """Return how a preparation ended: with this exit status, and so many seconds before NotBefore."""
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
