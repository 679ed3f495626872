"""What a snapshot has about hooks: the runs of their commands, and statistics of them."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from azure_scheduled_events_exporter.core.event_types import EventType
from azure_scheduled_events_exporter.core.histogram import Histogram
from azure_scheduled_events_exporter.core.label_limit import label_for

DURATION_BOUNDS: Final = (1.0, 10.0, 60.0, 300.0, 900.0)
"""Upper bounds of the buckets for the duration of a run, in seconds."""

LEFT_BOUNDS: Final = (0.0, 5.0, 30.0, 300.0)
"""Upper bounds of the buckets for the time left, in seconds.

Up to 0: too late; to 5: too little to rely on; to 30: the notice of a Spot VM; more: minutes.
"""


class Phase(StrEnum):
    """The argument of the command: ``prepare`` before an event, ``recover`` after the last one."""

    PREPARE = "prepare"
    RECOVER = "recover"


class RunOutcome(StrEnum):
    """How a run ended."""

    OK = "ok"
    FAILED = "failed"  # with another exit status than 0, or it could not be started
    TIMEOUT = "timeout"  # it was stopped at its deadline
    # The event had begun, or NotBefore was over, before ``prepare`` had succeeded or could run.
    TOO_LATE = "too_late"
    CANCELLED = "cancelled"  # it was stopped, because its event was cancelled


@dataclass(frozen=True, slots=True)
class HookRun:
    """One run of a hook's command. Times in Unix seconds, lengths in seconds.

    Attributes:
        run: a random id.
        command: the command line that was run.
        event_id: the event that it ran for.
        event_type: the type of that event.
        phase: a :class:`Phase`.
        started: when it began.
        outcome: a :class:`RunOutcome`; None while it runs, or if the hook was interrupted.
        duration: how long it took; None if ``outcome`` is, or if the command was not started.
        seconds_left: of ``prepare``: time from its end to NotBefore, negative when late; None
            without NotBefore.
        record: the event as JSON, as it was when the run began.
        output: the last lines that the command has written, printable.
        exit_status: of the command; None while it runs, or if a signal has ended it.
        signal: the name of the signal that has ended it, such as SIGTERM; ``""`` if none has.
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
    output: str = ""
    exit_status: int | None = None
    signal: str = ""


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
    """Return the statistics of ``runs``, without those that have not ended.

    ``core.label_limit`` limits how many event types have series of their own.
    """
    types = {str(event_type) for event_type in EventType}  # label_for() adds to them
    counts: Counter[tuple[str, str, str]] = Counter()
    durations: defaultdict[tuple[str, str], Histogram] = defaultdict(
        lambda: Histogram.empty(DURATION_BOUNDS)
    )
    left: defaultdict[tuple[str], Histogram] = defaultdict(lambda: Histogram.empty(LEFT_BOUNDS))
    for run in runs:
        if run.outcome is None:
            continue
        event_type = label_for(run.event_type, types)
        counts[event_type, run.phase, str(run.outcome)] += 1
        of_phase = (event_type, run.phase)
        of_type = (event_type,)
        if run.duration is not None:
            durations[of_phase] = durations[of_phase].observe(run.duration)
        if run.seconds_left is not None:
            left[of_type] = left[of_type].observe(run.seconds_left)
    return HookStatistics(counts, durations, left)
