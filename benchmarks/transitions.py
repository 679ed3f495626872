"""Measures how long the journal takes to write a transition to its disk, without an exporter."""

import logging
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path

from azure_scheduled_events_exporter.core.document_parser import parse_document
from azure_scheduled_events_exporter.core.lifecycle import Change, Lifecycles
from azure_scheduled_events_exporter.core.observation import observe
from azure_scheduled_events_exporter.core.observation_context import ObservationContext
from azure_scheduled_events_exporter.core.spans import SpanFacts, finished
from azure_scheduled_events_exporter.core.timestamp import Timestamp
from azure_scheduled_events_exporter.journal.journal import Journal
from benchmarks.load import event
from support.events.imds_bodies import body

_RETENTION_SECONDS = 90 * 86_400.0
_FIRST_POLL = 1_700_000_000.0  # Unix seconds
_STEPS = 3
"""Of each event: it is detected, started (and so approved, because it starts early), completed."""


def transition_seconds(path: Path, count: int) -> list[float]:
    """Return the seconds that it takes to write each of ``count`` steps, with its spans.

    A step is what one document changes. The journal is a new one at ``path``.
    """
    taken: list[float] = []
    known = Lifecycles()
    logger = logging.getLogger("benchmark")
    with closing(Journal(path, _RETENTION_SECONDS, logger)) as journal:
        journal.wait_until_read(10.0)
        journal.adopt()
        for number in range(count // _STEPS):
            documents = _documents(event(number))
            for seconds, current in documents.items():
                moment = Timestamp(_FIRST_POLL + seconds, seconds, "boot")
                context = ObservationContext(moment, "vm_0")
                document = parse_document(body(*current))
                known, changes = observe(known, document, context)
                taken.append(_record(journal, changes))
        if not journal.state.up:
            sys.exit("the journal could not be written: these would be figures of memory")
    return taken


def _documents(scheduled: Mapping[str, object]) -> dict[float, list[Mapping[str, object]]]:
    """Return the three documents in the life of one event: their events.

    Each is given by the seconds from the first poll to the one that reads it.
    """
    started = {**scheduled, "EventStatus": "Started"}
    return {
        0.0: [scheduled],
        901.0: [started],
        1500.0: [],
    }


def _record(journal: Journal, changes: Sequence[Change]) -> float:
    """Write changes to the journal; return how many seconds that takes."""
    spans: list[SpanFacts] = []
    for change in changes:
        spans += finished(change)
    lives = [change.lifecycle for change in changes]
    began = time.perf_counter()
    journal.record(changes, lives, spans)
    return time.perf_counter() - began
