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
"""The errors that ``cli`` reports in one line: a command may end with each of them."""


@cache
def sound_file() -> bytes:
    """Return the file of a journal with rows in all tables."""
    with tempfile.TemporaryDirectory() as folder, recorders() as start:
        recorder = start(Path(folder))
        recorder.journal.claim(VM_ID)
        documents = 40
        seconds_between = 5
        for newest in range(documents):  # each event is current in four documents
            oldest = max(0, newest - 3)
            current = [f"E{number}" for number in range(oldest, newest + 1)]
            recorder.after(seconds_between).sees(*current)
        wall = recorder.now.wall
        events = recorder.known.current.values()
        run = HookRun("run", "script", "E1", "Reboot", "prepare", wall, outcome="ok", duration=1.0)
        with contextlib.closing(writable(Path(folder))) as store:
            store.hook_runs.put(run)
            store.requests.add(ApprovalRequest(event, "ada", wall, wall + 60) for event in events)
        recorder.journal.record_heartbeat(Timestamp(wall, 3.0, "boot"))
        # Half of the entries are then older than the retention of 90 days: only their sums stay.
        half_of_the_time = documents * seconds_between / 2
        recorder.after(90 * DAY - half_of_the_time)
        recorder.journal.maintain(recorder.now, clock_confirmed=lambda: True)
        recorder.journal.close()
        return (Path(folder) / "journal.sqlite").read_bytes()


def use_journal(recorder: Recorder) -> None:
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


def check_exporter_with(content: bytes) -> None:
    """Check an exporter that starts with this file: nothing raises, the journal is on disk (the
    file may be set aside), and a restart finds the event that came after the damage.
    """
    with tempfile.TemporaryDirectory() as folder, recorders() as start:
        path = Path(folder) / "journal.sqlite"
        path.write_bytes(content)
        try:
            with contextlib.closing(read_only(path)) as store:
                list(store.history())
        except UNREADABLE as error:
            assert str(error)  # noqa: PT017 - the file may be read, or refused with a reason
        recorder = start(Path(folder))
        use_journal(recorder)
        assert recorder.is_up()
        recorder.journal.close()
        after = start(Path(folder))
        assert after.is_up()
        assert "NEW" in after.known.current


PLACES = st.integers(0, 1 << 20)
"""Where bytes are changed: a place behind the end of the file counts on from its beginning."""
NEW_BYTES = st.binary(min_size=1, max_size=40)
CHANGES = st.lists(st.tuples(PLACES, NEW_BYTES), min_size=1, max_size=20)
NEW_VALUES = st.sampled_from(
    [None, 0, -1, 2.5, 1e308, -1e308, 1 << 62, "", "x", "[]", b"", b"\xff"]
)


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(CHANGES)
def test_any_bytes(changes: list[tuple[int, bytes]]) -> None:
    """Bytes anywhere in the file are changed, and the exporter goes on."""
    content = bytearray(sound_file())
    for place, new in changes:
        start = place % len(content)
        content[start : start + len(new)] = new[: len(content) - start]
    check_exporter_with(bytes(content))


def without_log(content: bytes) -> bytes:
    """Return a database without write-ahead log, which one in memory cannot have.

    The bytes 18 and 19 of its header are 2 with such a log, and 1 without.
    """
    return content[:18] + b"\1\1" + content[20:]


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_any_value_in_a_column(data: st.DataObject) -> None:
    """Some values, in any columns of any tables, are replaced by values of any type, and the
    exporter goes on.
    """
    with contextlib.closing(sqlite3.connect(":memory:")) as connection:
        connection.deserialize(without_log(sound_file()))
        tables = [
            name
            for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        ]
        for table in data.draw(st.lists(st.sampled_from(tables), min_size=1, max_size=4)):
            columns = [name for _, name, *_ in connection.execute(f"PRAGMA table_info({table})")]
            column = data.draw(st.sampled_from(columns))
            rows = connection.execute(f"SELECT {column} FROM {table}").fetchall()
            (old,) = data.draw(st.sampled_from(rows))
            new = data.draw(NEW_VALUES)
            with contextlib.suppress(sqlite3.IntegrityError):  # the table refuses some values
                connection.execute(
                    f"UPDATE {table} SET {column} = ? WHERE {column} IS ?", (new, old)
                )
        connection.commit()
        check_exporter_with(bytes(connection.serialize()))


@pytest.mark.parametrize(
    ("column", "value"), [("epoch", b"x"), ("last_number", 2.5), ("vm_id", b"x")]
)
def test_state_of_a_wrong_type(column: str, value: object) -> None:
    """An exporter starts with a value of a wrong type in the table ``state``: the value is found
    when the file is read, and does not stop the exporter later.
    """
    with contextlib.closing(sqlite3.connect(":memory:")) as connection:
        connection.deserialize(without_log(sound_file()))
        connection.execute(f"UPDATE state SET {column} = ?", (value,))
        connection.commit()
        check_exporter_with(bytes(connection.serialize()))


@pytest.mark.parametrize("text", [b"INDEX lives_ended ON lives", b"TABLE approval_requests ("])
def test_bytes_of_the_schema(text: bytes) -> None:
    """The exporter goes on if a name in the schema is not UTF-8. SQLite's error message has the
    name, so it cannot be decoded, either.
    """
    assert text in sound_file()
    damaged = bytearray(text)
    damaged[-3] = 0xFF  # in the last word, and in no keyword
    check_exporter_with(sound_file().replace(text, bytes(damaged)))
