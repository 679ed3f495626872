"""Runs of the command that ``hook`` starts for events, and their statistics.

``hook`` writes them beside a running exporter, which counts and shows them. They are kept when events are pruned,
because counters must not fall; a run takes less than 1 KiB. Must not know how a command is run.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from azure_scheduled_events_exporter.core.statistics import Histogram

DURATION_BOUNDS = (1.0, 10.0, 60.0, 300.0, 900.0)
LEFT_BOUNDS = (0.0, 5.0, 30.0, 300.0)
"""Time left: none, too little to rely on, the notice of a Spot VM, that of a Freeze or Reboot."""


class Phase(StrEnum):
    """The argument of the command: before the first event, and after the last one."""

    PREPARE = "prepare"
    RECOVER = "recover"


class RunOutcome(StrEnum):
    """How a run ended."""

    OK = "ok"
    FAILED = "failed"  # with another exit status than 0, or it could not be started
    TIMEOUT = "timeout"  # it was stopped at its deadline
    TOO_LATE = "too_late"  # it succeeded after NotBefore, or the event had begun before it could run


@dataclass(frozen=True, slots=True)
class HookRun:
    """One run of a hook's command. Times in Unix seconds, lengths in seconds.

    Attributes:
        run: a random id.
        command: the hook that it belongs to: its command line.
        phase: prepare or recover.
        outcome: None while it runs.
        seconds_left: of ``prepare``: time from its end to NotBefore, negative when late; None without NotBefore.
        record: the event as JSON when it started.
    """

    run: str
    command: str
    event_id: str
    event_type: str
    phase: str
    started: float
    outcome: str | None = None
    duration: float | None = None
    seconds_left: float | None = None
    record: str = "{}"


@dataclass(frozen=True, slots=True)
class HookStatistics:
    """Counters and histograms of the runs that have ended.

    Attributes:
        runs: by event type, phase and outcome.
        durations: by event type and phase.
        seconds_left: by event type.
    """

    runs: Mapping[tuple[str, str, str], int] = field(default_factory=dict)
    durations: Mapping[tuple[str, str], Histogram] = field(default_factory=dict)
    seconds_left: Mapping[tuple[str], Histogram] = field(default_factory=dict)


def counted(runs: Iterable[HookRun]) -> HookStatistics:
    """Return the statistics of ``runs``; those that still run do not count."""
    counts: dict[tuple[str, str, str], int] = {}
    durations: dict[tuple[str, str], Histogram] = {}
    left: dict[tuple[str], Histogram] = {}
    for run in runs:
        if run.outcome is None:
            continue
        key = (run.event_type, run.phase, run.outcome)
        counts[key] = counts.get(key, 0) + 1
        if run.duration is not None:
            durations[key[:2]] = durations.get(key[:2], Histogram.empty(DURATION_BOUNDS)).observe(run.duration)
        if run.seconds_left is not None:
            left[key[:1]] = left.get(key[:1], Histogram.empty(LEFT_BOUNDS)).observe(run.seconds_left)
    return HookStatistics(counts, durations, left)
