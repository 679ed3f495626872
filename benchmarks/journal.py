"""What the journal costs on a disk: transitions one after another, and the opening of a long journal."""

import logging
import statistics
import sys
import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path

from azure_scheduled_events_exporter.core.document import Document, EventStatus, ScheduledEvent
from azure_scheduled_events_exporter.core.lifecycle import Change, Lifecycles
from azure_scheduled_events_exporter.core.observation import ObservationContext, observe
from azure_scheduled_events_exporter.core.spans import finished
from azure_scheduled_events_exporter.core.statistics import Statistics, measure
from azure_scheduled_events_exporter.core.timestamp import Timestamp
from azure_scheduled_events_exporter.journal.journal import Journal
from azure_scheduled_events_exporter.journal.store import Entry

VM = "vmss_0"
START = 1_700_000_000.0
TRANSITIONS = 2_000
LIVES = 10_000
TOGETHER = 250  # lives in one entry
RETENTION = 90 * 86400.0
LOG = logging.getLogger("benchmark")


def life(number: int) -> list[tuple[Change, ...]]:
    """Return the changes of one event's whole life, by document: detected, started, completed."""
    event = ScheduledEvent(
        event_id=f"C7061BAC-AFDC-4513-B24B-{number:012X}",
        event_type="Freeze",
        status=EventStatus.SCHEDULED,
        source="Platform",
        resources=(VM, "vmss_1"),
        not_before=START + 900,
        description="Virtual machine is being paused because of a memory-preserving Live Migration operation.",
        duration_seconds=5.0,
    )
    steps = ((0.0, (event,)), (901.0, (replace(event, status=EventStatus.STARTED, not_before=None),)), (1500.0, ()))
    known, told = Lifecycles(), []
    for at, events in steps:
        known, changes = observe(known, Document(1, events), ObservationContext(Timestamp(START + at, at, "boot"), VM))
        told.append(changes)
    return told


def entry(changes: Sequence[Change], *, traced: bool = True) -> Entry:
    """Return what a poller writes for ``changes``."""
    spans = [span for change in changes for span in finished(change)] if traced else []
    return Entry(changes, [change.lifecycle for change in changes], spans)


def transitions(folder: Path, count: int = TRANSITIONS) -> tuple[float, float]:
    """Return median and 99th percentile of the seconds that one of ``count`` transitions takes, with its spans."""
    entries = [entry(changes) for number in range(count // 3) for changes in life(number)]
    with closing(Journal(folder / "transitions", RETENTION, LOG)) as journal:
        seconds = []
        for each in entries:
            began = time.perf_counter()
            journal.record(each, Statistics(), Lifecycles())
            seconds.append(time.perf_counter() - began)
        if not journal.state.up:
            sys.exit("the journal could not be written: these would be figures of memory")
    return statistics.median(seconds), statistics.quantiles(seconds, n=100)[98]


def fill(folder: Path, lives: int = LIVES) -> None:
    """Write a journal of ``lives`` events that have ended."""
    statistics = Statistics()
    with closing(Journal(folder / "long", RETENTION, LOG)) as journal:
        for first in range(0, lives, TOGETHER):
            numbers = range(first, first + TOGETHER)
            changes = [change for number in numbers for told in life(number) for change in told]
            statistics = statistics.plus(map(measure, changes))
            journal.record(entry(changes, traced=False), statistics, Lifecycles())


def opening(folder: Path, lives: int = LIVES) -> float:
    """Return the seconds that opening and rebuilding the long journal takes."""
    began = time.perf_counter()
    with closing(Journal(folder / "long", RETENTION, LOG)) as journal:
        restored = journal.restore()
        seconds = time.perf_counter() - began
    counted = sum(restored.statistics.transitions.values())
    if counted != 3 * lives:
        sys.exit(f"{counted} transitions came back instead of {3 * lives}")
    return seconds
