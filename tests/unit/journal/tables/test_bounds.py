"""The tables are bounded, and so are the requests that wait in them."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from azure_scheduled_events_exporter.core.lifecycle import Change, Transition
from azure_scheduled_events_exporter.core.statistics import Statistics
from azure_scheduled_events_exporter.errors import ExporterError
from azure_scheduled_events_exporter.journal.access import writable
from azure_scheduled_events_exporter.journal.content.entries import NewTransition, life_entry
from azure_scheduled_events_exporter.journal.content.inbox import ApprovalRequest
from azure_scheduled_events_exporter.journal.content.remembered import Remembered
from azure_scheduled_events_exporter.journal.tables.inbox_tables import MOST_REQUESTS
from azure_scheduled_events_exporter.journal.tables.removal import LARGEST_BYTES
from azure_scheduled_events_exporter.journal.tables.store import Store
from support.events.journal_recorder import Open
from support.events.lives import SCHEDULED, Watch, at


def test_the_tables_are_bounded(tmp_path: Path) -> None:
    """When they are too large, the oldest rows go; current events and counters stay."""
    watch = Watch()
    watch.sees(at(0), SCHEDULED)
    (life,) = watch.known.current.values()
    seen = Change(Transition.DETECTED, life, at(0))
    remembered = Remembered(watch.known, Statistics().plus([seen]))
    with closing(Store(sqlite3.connect(tmp_path / "journal.sqlite"), writes=True)) as store:
        store.write([life_entry(life)], remembered)
        at_once = 40
        record_bytes = 100_000
        record = '{"at": "%s"}' % ("x" * record_bytes)
        as_many_as_fit = LARGEST_BYTES // (at_once * record_bytes)
        for number in range(as_many_as_fit + 2):
            transitions = [
                NewTransition(number * at_once + each, float(number), record)
                for each in range(1, at_once + 1)
            ]
            store.write(transitions, remembered)
        size = (tmp_path / "journal.sqlite").stat().st_size
        assert size < LARGEST_BYTES * 1.2, "rows go after the write that made it too large"
        numbers = [seq for (seq,) in store.connection.execute("SELECT seq FROM transitions")]
        first, *_, last = numbers
        assert first > at_once, "at least the transitions that were written first have gone"
        assert numbers == list(range(first, last + 1)), "the newest, without a gap"
        assert store.restore().statistics == remembered.statistics
        assert list(store.current()) == [life.event_id]


def test_requests_are_bounded(folder: Path, start: Open) -> None:
    """Whoever asks for one approval too many gets an error, and none of theirs is queued."""
    recorder = start(folder)
    recorder.sees("A")
    [life] = recorder.known.current.values()
    request = ApprovalRequest(life, "ada", recorder.now.wall, recorder.now.wall + 60)
    with closing(writable(folder)) as store:
        numbers = store.requests.add([request] * (MOST_REQUESTS - 1))
        with pytest.raises(ExporterError, match=f"{MOST_REQUESTS - 1} requests .* wait in the"):
            store.requests.add([request] * 2)
        assert len(store.requests.open()) == MOST_REQUESTS - 1
        store.requests.withdraw(numbers[:1], "withdrawn")
        store.requests.add([request] * 2)
