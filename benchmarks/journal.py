"""What the journal costs on a disk: transitions one after another."""

import logging
import statistics
import sys
import time
from contextlib import closing
from dataclasses import replace
from pathlib import Path

from azure_scheduled_events_exporter.core.document import Document, EventStatus, ScheduledEvent
from azure_scheduled_events_exporter.core.lifecycle import Change, Lifecycles
from azure_scheduled_events_exporter.core.observation import ObservationContext, observe
from azure_scheduled_events_exporter.core.spans import finished
from azure_scheduled_events_exporter.core.statistics import Statistics
from azure_scheduled_events_exporter.core.timestamp import Timestamp
from azure_scheduled_events_exporter.journal.journal import Journal
from azure_scheduled_events_exporter.journal.store import Entry

VM = "vmss_0"
START = 1_700_000_000.0
RETENTION = 90 * 86400.0


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


def transitions(path: Path, count: int) -> tuple[float, float]:
    """Return median and 99th percentile of the seconds that one of ``count`` transitions takes, with its spans."""
    seconds = []
    with closing(Journal(path, RETENTION, logging.getLogger("benchmark"))) as journal:
        for changes in (each for number in range(count // 3) for each in life(number)):
            spans = [span for change in changes for span in finished(change)]
            entry = Entry(changes, [change.lifecycle for change in changes], spans)
            began = time.perf_counter()
            journal.record(entry, Statistics(), Lifecycles())
            seconds.append(time.perf_counter() - began)
        if not journal.state.up:
            sys.exit("the journal could not be written: these would be figures of memory")
    return statistics.median(seconds), statistics.quantiles(seconds, n=100)[98]
