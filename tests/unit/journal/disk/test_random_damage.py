"""A journal with random bytes or values changed: it is used or set aside, and what comes then is on
disk.
"""

import contextlib
import sqlite3
import tempfile
from functools import cache
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from azure_scheduled_events_exporter.core.timestamp import Timestamp
from azure_scheduled_events_exporter.errors import CodecError, DamagedTextError, ExporterError
from azure_scheduled_events_exporter.journal.access import read_only, writable
from azure_scheduled_events_exporter.journal.content.inbox import ApprovalRequest
from azure_scheduled_events_exporter.journal.disk.failures import FAILURES
from azure_scheduled_events_exporter.snapshot.hooks import HookRun
from support.events.journal_recorder import DAY, MANY, Recorder, recorders

VM_ID = "6d2a5d4e-4f4e-4b0c-9d6c-5a8c2d3e4f50"
UNREADABLE = (ExporterError, *FAILURES, CodecError, DamagedTextError)
"""What ``cli`` reports in one line."""


@cache
def sound() -> bytes:
    """The file of a journal with rows in all tables."""
    with tempfile.TemporaryDirectory() as folder, recorders() as start:
        recorder = start(Path(folder))
        recorder.journal.claim(VM_ID)
        for number in range(40):  # each event is current in four documents
            recorder.after(5).sees(*(f"E{each}" for each in range(max(0, number - 3), number + 1)))
        wall = recorder.now.wall
        events = recorder.known.current.values()
        run = HookRun("run", "script", "E1", "Reboot", "prepare", wall, outcome="ok", duration=1.0)
        with contextlib.closing(writable(Path(folder))) as store:
            store.hook_runs.put(run)
            store.requests.add(ApprovalRequest(event, "ada", wall, wall + 60) for event in events)
        recorder.journal.record_heartbeat(Timestamp(wall, 3.0, "boot"))
        # The older half is older than the retention of 90 days: only its sums stay.
        half = recorder.after(90 * DAY - 100).now
        recorder.journal.maintain(half, clock_confirmed=lambda: True)
        recorder.journal.close()
        return (Path(folder) / "journal.sqlite").read_bytes()


def use(recorder: Recorder) -> None:
    """Do all that an exporter does with its journal, an hour after the last entry."""
    journal = recorder.after(3600).journal
    journal.claim(VM_ID)
    journal.maintain(recorder.now, clock_confirmed=lambda: True)
    recorder.sees("NEW")
    assert "NEW" in {
        span.attributes.get("azure.scheduled_event.id")
        for span in journal.queued_spans(MANY).values()
    }
    recorder.regains_disk()


def check(content: bytes) -> None:
    """Nothing raises, at most the file is set aside, and a restart finds the event that came after
    the damage.
    """
    with tempfile.TemporaryDirectory() as folder, recorders() as start:
        path = Path(folder) / "journal.sqlite"
        path.write_bytes(content)
        try:
            with contextlib.closing(read_only(path)) as store:
                list(store.history())
        except UNREADABLE as error:
            assert str(error)  # noqa: PT017 - either outcome is right
        recorder = start(Path(folder))
        use(recorder)
        assert recorder.is_up()
        recorder.journal.close()
        after = start(Path(folder))
        assert after.is_up()
        assert "NEW" in after.known.current


PLACES = st.integers(0, 1 << 20)
CHANGES = st.lists(st.tuples(PLACES, st.binary(min_size=1, max_size=40)), min_size=1, max_size=20)


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(CHANGES)
def test_any_bytes(changes: list[tuple[int, bytes]]) -> None:
    """Bytes anywhere in the file are changed."""
    content = bytearray(sound())
    for place, new in changes:
        start = place % len(content)
        content[start : start + len(new)] = new[: len(content) - start]
    check(bytes(content))


def without_log(content: bytes) -> bytes:
    """Return a database without write-ahead log, which one in memory cannot have: its header says
    so in two bytes.
    """
    return content[:18] + b"\1\1" + content[20:]


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_any_value_in_a_column(data: st.DataObject) -> None:
    """A value in any column of any table is any other value."""
    with contextlib.closing(sqlite3.connect(":memory:")) as connection:
        connection.deserialize(without_log(sound()))
        tables = [
            name
            for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        ]
        for table in data.draw(st.lists(st.sampled_from(tables), min_size=1, max_size=4)):
            columns = [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]
            column = data.draw(st.sampled_from(columns))
            rows = connection.execute(f"SELECT {column} FROM {table}").fetchall()
            (old,) = data.draw(st.sampled_from(rows))
            new = data.draw(
                st.sampled_from(
                    [None, 0, -1, 2.5, 1e308, -1e308, 1 << 62, "", "x", "[]", b"", b"\xff"]
                )
            )
            with contextlib.suppress(sqlite3.IntegrityError):
                connection.execute(
                    f"UPDATE {table} SET {column} = ? WHERE {column} IS ?", (new, old)
                )
        connection.commit()
        check(bytes(connection.serialize()))


@pytest.mark.parametrize(
    ("column", "value"), [("epoch", b"x"), ("last_number", 2.5), ("vm_id", b"x")]
)
def test_state_of_a_wrong_type(column: str, value: object) -> None:
    """Types are checked when a file is read: SQLite evaluates CHECK only on writes."""
    with contextlib.closing(sqlite3.connect(":memory:")) as connection:
        connection.deserialize(without_log(sound()))
        connection.execute(f"UPDATE state SET {column} = ?", (value,))
        connection.commit()
        check(bytes(connection.serialize()))


@pytest.mark.parametrize("text", [b"INDEX lives_ended ON lives", b"TABLE approval_requests ("])
def test_bytes_of_the_schema(text: bytes) -> None:
    """A word of the schema is no UTF-8, and so is SQLite's message about it."""
    assert text in sound()
    damaged = bytearray(text)
    damaged[-3] = 0xFF  # in the last word, and in no keyword
    check(sound().replace(text, bytes(damaged)))
