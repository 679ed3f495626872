"""How values are written to the journal: damage of the file and bugs of the exporter are distinguished."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from azure_scheduled_events_exporter.core.lifecycle import Lifecycle
from azure_scheduled_events_exporter.core.pause import ClockSample
from azure_scheduled_events_exporter.errors import CodecError, DamagedTextError, NotUsableError
from azure_scheduled_events_exporter.journal.codec import decode, decode_statistics, encode
from azure_scheduled_events_exporter.journal.schema import MIGRATIONS, SCHEMA_VERSION
from azure_scheduled_events_exporter.journal.store import APPLICATION_ID, Entry, Store
from support.events.journal_recorder import DAY, Open, history


@pytest.mark.parametrize("text", ['{"event":', "dear diary", ""])
def test_damage(text: str) -> None:
    """Text that is not JSON was not written here: the file is damaged."""
    with pytest.raises(DamagedTextError, match="does not hold JSON"):
        decode(Lifecycle, text)


@pytest.mark.parametrize("text", ["{}", "[]", '{"nonsense": 1}', '{"event": 5}'])
def test_a_bug(text: str) -> None:
    """Intact text that does not fit the class is a bug of the exporter, and is reported as one."""
    with pytest.raises(CodecError, match="bug: Lifecycle cannot be read"):
        decode(Lifecycle, text)


@pytest.mark.parametrize("wall", ["NaN", "1e999", "true", '"noon"', "[]", str(1 << 64)])
def test_a_time_that_is_no_number(wall: str) -> None:
    """A time that is not a finite number is refused, before anything calculates with it."""
    with pytest.raises(CodecError, match="stands where float is due"):
        decode(ClockSample, f'{{"wall": {wall}, "monotonic": 1, "since_boot": 2.5}}')


@pytest.mark.parametrize(
    "entry", ['["Freeze", 1]', '["Freeze", "Platform", "self", "started", "1"]', "[1, 1, 1, 1, 1]", "5", "[]"]
)
def test_an_entry_that_is_no_counter(entry: str) -> None:
    """A counter without its four labels, or whose value is no whole number, is refused."""
    with pytest.raises(CodecError, match="statistics cannot be read"):
        decode_statistics(f'{{"transitions": [{entry}]}}')


def test_a_value_that_has_no_form() -> None:
    """A value that JSON cannot hold is a bug of the exporter."""
    with pytest.raises(CodecError, match="bug: object cannot be written"):
        encode(object())


def test_a_bug_costs_no_history(folder: Path, start: Open) -> None:
    """Counters that this version cannot read are left out and kept in the file, which stays in use with its events."""
    before = start(folder)
    before.sees("A", "B")
    before.journal.close()
    with closing(sqlite3.connect(folder / "journal.sqlite")) as connection, connection:
        connection.execute("""INSERT INTO sums VALUES ('statistics', '{"transitions": 5}')""")
    recorder = start(folder)
    assert recorder.is_up()
    assert recorder.known.current.keys() == {"A", "B"}
    assert not list(folder.glob("*set-aside*"))
    recorder.journal.close()
    with closing(sqlite3.connect(folder / "journal.sqlite")) as connection:
        assert connection.execute("SELECT count(*) FROM lives").fetchone() == (2,)
        assert ('{"transitions": 5}',) in connection.execute("SELECT value FROM sums").fetchall()


def test_counters_that_become_unreadable(folder: Path, start: Open) -> None:
    """Counters that another program changes while the journal is in use do not stop the removal of old entries."""
    recorder = start(folder)
    recorder.sees("A", "B")
    with closing(sqlite3.connect(folder / "journal.sqlite")) as connection, connection:
        connection.execute("""INSERT INTO sums VALUES ('statistics', '{"transitions": 5}')""")
    recorder.journal.prune(recorder.after(91 * DAY).now, lambda: True)
    assert recorder.is_up()
    assert recorder.journal.transitions(0) == []
    recorder.journal.close()
    assert start(folder).detected == 2


def test_a_journal_of_the_second_schema(tmp_path: Path, start: Open) -> None:
    """A journal of the version before keeps its events, numbers and sums; open requests of it are withdrawn."""
    source = start(tmp_path / "source")
    source.sees("A")
    source.journal.close()
    with closing(sqlite3.connect(tmp_path / "source" / "journal.sqlite")) as connection:
        (life,) = connection.execute("SELECT event_id, first_seen, ended, life FROM lives").fetchall()
        (told,) = connection.execute("SELECT wall, event_id, event_type, record FROM transitions").fetchall()
    folder = tmp_path / "state"
    folder.mkdir()
    with closing(sqlite3.connect(folder / "journal.sqlite")) as connection, connection:
        connection.executescript(f"{MIGRATIONS[1]} {MIGRATIONS[2]}")
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute("PRAGMA user_version = 2")
        connection.execute("INSERT INTO lives VALUES (?, ?, ?, ?)", life)
        connection.execute(
            "INSERT INTO transitions (seq, wall, event_id, event_type, said, source, scope, transition, approved_by) "
            "VALUES (7, ?, ?, ?, ?, 'Platform', 'self', 'detected', '')",
            told,
        )
        connection.execute("INSERT INTO asks (wall, event_id, who) VALUES (1, 'A', 'ada')")
        connection.execute(
            """INSERT INTO sums VALUES ('tally', '{"transitions": [["Freeze", "", "self", "lost", 3]]}')"""
        )
    recorder = start(folder)
    assert recorder.is_up()
    assert history(folder) == ["A"]
    assert recorder.statistics.transitions["Freeze", "", "self", "lost"] == 3
    assert recorder.detected == 1
    assert [number for number, _ in recorder.journal.transitions(0)] == [7]
    assert recorder.journal.open_requests() == []
    recorder.after(5).sees("A", "B")
    assert [number for number, _ in recorder.journal.transitions(0)] == [7, 8]
    recorder.journal.close()
    with closing(sqlite3.connect(folder / "journal.sqlite")) as connection:
        assert connection.execute("PRAGMA user_version").fetchone() == (SCHEMA_VERSION,)


def test_a_table_without_a_column(tmp_path: Path) -> None:
    """A table that lacks a column that this version writes is damaged: it could take no transition."""
    path = tmp_path / "journal.sqlite"
    with closing(Store(sqlite3.connect(path))) as store:
        store.record(Entry())
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("ALTER TABLE transitions DROP COLUMN notice")
    with closing(sqlite3.connect(path)) as connection, pytest.raises(NotUsableError, match="no column notice"):
        Store(connection)
