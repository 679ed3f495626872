"""A journal that is damaged or not ours: set aside, at the start and while it is in use."""

import logging
import os
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from azure_scheduled_events_exporter.core.lifecycle import Lifecycles
from azure_scheduled_events_exporter.core.spans import SpanFacts
from azure_scheduled_events_exporter.errors import JournalInUseError
from azure_scheduled_events_exporter.journal.schema import SCHEMA_VERSION
from azure_scheduled_events_exporter.journal.store import QueuedSpan
from support.events.journal_recorder import Open, Recorder, bit_rot, history


def set_aside(folder: Path) -> list[Path]:
    """Return the journals that were set aside, without their logs."""
    return sorted(path for path in folder.glob("*set-aside*") if not path.name.endswith(("-wal", "-shm")))


def text_file(path: Path) -> None:
    """A file of another program."""
    path.write_text("dear diary\n" * 100)


def foreign_sqlite(path: Path) -> None:
    """Another program's database."""
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE notes (text)")
        connection.execute("INSERT INTO notes VALUES ('dear diary')")
        connection.commit()


def newer_schema(path: Path) -> None:
    """A journal of a later release."""
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION + 1}")


def truncated(path: Path) -> None:
    """A journal of which only the first half is left."""
    os.truncate(path, path.stat().st_size // 2)


def overwritten(path: Path) -> None:
    """A journal with other bytes in all pages but the first."""
    content = path.read_bytes()
    path.write_bytes(content[:4096] + b"\xa5" * (len(content) - 4096))


def without_tables(path: Path) -> None:
    """Ours by its marks, but empty of tables."""
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("DROP TABLE transitions")
        connection.commit()


def changed(path: Path, statement: str) -> None:
    """Change rows of a journal behind the exporter's back."""
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(statement)
        connection.commit()


def text_for_a_number(path: Path) -> None:
    """A journal that has text where a number of seconds belongs."""
    changed(path, "UPDATE transitions SET notice = 'soon'")


def bytes_for_a_text(path: Path) -> None:
    """A journal in which one changed bit has made a text a BLOB of the same length."""
    changed(path, "UPDATE transitions SET event_type = CAST(event_type AS BLOB)")


def no_utf8(path: Path) -> None:
    """A journal in which changed bits have made a text invalid UTF-8; SQLite's own check finds no fault in it."""
    changed(path, "UPDATE lives SET life = CAST(replace(life, 'vmss', CAST(x'76EDF3F3' AS TEXT)) AS TEXT)")


DAMAGES = [
    *(text_file, foreign_sqlite, newer_schema, truncated, overwritten, bit_rot, without_tables),
    *(text_for_a_number, bytes_for_a_text, no_utf8),
]


class TestSetAside:
    """A file that cannot be used is kept under another name, and the exporter begins a fresh one."""

    @pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__)
    def test_at_start(
        self, damage: Callable[[Path], None], folder: Path, start: Open, caplog: pytest.LogCaptureFixture
    ) -> None:
        """With any damage to the file, the exporter uses a new one and logs the new name of the old one."""
        file = folder / "journal.sqlite"
        if damage in {text_file, foreign_sqlite}:
            folder.mkdir()
        else:
            before = start(folder)
            before.sees("A", "B")
            before.journal.close()
        damage(file)
        content = file.read_bytes()
        recorder = start(folder)
        assert recorder.is_up()
        assert recorder.known == Lifecycles()
        (aside,) = set_aside(folder)
        if damage is not bit_rot:
            assert aside.read_bytes() == content, "a file that is not ours is not to be written"
        (record,) = [each for each in caplog.records if each.levelno >= logging.ERROR]
        assert "set aside" in record.message
        assert record.facts["set_aside"] == aside  # type: ignore[attr-defined]
        recorder.sees("C")
        recorder.journal.close()
        assert start(folder).known.current.keys() == {"C"}
        assert history(folder) == ["C"]

    def test_the_logs_go_along(self, folder: Path, start: Open) -> None:
        """The log of a damaged file that a kill left does not get into the fresh one."""
        before = start(folder)
        before.sees(*(f"E{number}" for number in range(20)))
        before.journal.close()  # folded in
        before = start(folder)
        before.sees("A")
        killed = {path: path.read_bytes() for path in folder.glob("journal.sqlite*")}
        before.journal.close()
        for path, content in killed.items():
            path.write_bytes(content)
        overwritten(folder / "journal.sqlite")
        recorder = start(folder)
        recorder.sees("C")
        assert recorder.journal.restore().lifecycles == recorder.known
        assert len(set_aside(folder)) == 1
        assert history(folder) == ["C"]

    def test_a_field_of_one_event(self, folder: Path, start: Open, caplog: pytest.LogCaptureFixture) -> None:
        """An event that has a changed field name is left out, with an error in the log; all else is used."""
        before = start(folder)
        before.sees("A", "B", "C")
        before.after(5).sees("A", "C")
        before.journal.close()
        changed(
            folder / "journal.sqlite",
            """UPDATE lives SET life = replace(life, '"state":', '"stade":') WHERE event_id IN ('A', 'B')""",
        )
        recorder = start(folder)
        assert recorder.is_up()
        assert recorder.known.current.keys() == {"C"}
        assert recorder.statistics == before.statistics
        assert set_aside(folder) == []
        (record,) = [each for each in caplog.records if each.levelno >= logging.ERROR]
        assert record.message == "an entry in the journal cannot be read: left out"
        assert "stade" in str(record.facts)  # type: ignore[attr-defined]
        recorder.sees("A", "C")
        recorder.journal.close()
        assert start(folder).known.current.keys() == {"A", "C"}

    @pytest.mark.parametrize("content", [b"lock", b"garbage" * 200], ids=["short", "long"])
    def test_a_lock_with_content(self, content: bytes, folder: Path, start: Open) -> None:
        """A lock file with another program's content is set aside; a new one locks, and the journal is used."""
        before = start(folder)
        before.sees("A")
        before.journal.close()
        (folder / "journal.sqlite.lock").write_bytes(content)
        recorder = start(folder)
        assert recorder.is_up()
        assert recorder.known.current.keys() == {"A"}
        assert [path.read_bytes() for path in folder.glob("journal.sqlite.lock.set-aside-*")] == [content]
        with pytest.raises(JournalInUseError):
            start(folder)

    def test_a_lock_that_is_held_and_gets_content(self, folder: Path, start: Open) -> None:
        """A lock that is held stays held if another program writes to its file."""
        recorder = start(folder)
        recorder.sees("A")
        (folder / "journal.sqlite.lock").write_bytes(b"garbage" * 200)
        with pytest.raises(JournalInUseError):
            start(folder)
        recorder.journal.check_file()
        recorder.after(5).sees("A", "B")
        assert recorder.is_up()

    def test_twice_at_once(self, folder: Path, start: Open) -> None:
        """A second file that is set aside in the same second does not replace the first."""
        folder.mkdir()
        for text in ("first", "second", "third"):
            (folder / "journal.sqlite").write_text(text * 1000)
            start(folder).journal.close()
        assert sorted(path.read_text()[:5] for path in set_aside(folder)) == ["first", "secon", "third"]

    def test_a_locked_file_is_not_set_aside(self, folder: Path, start: Open, caplog: pytest.LogCaptureFixture) -> None:
        """A journal that another program holds at the moment is left where it is, and taken once it is free."""
        before = start(folder)
        before.sees("A")
        before.journal.close()
        with closing(sqlite3.connect(folder / "journal.sqlite", isolation_level=None)) as holder:
            holder.execute("PRAGMA locking_mode = EXCLUSIVE")
            holder.execute("BEGIN EXCLUSIVE")
            recorder = start(folder)
            assert not recorder.is_up()
            assert not recorder.tries_disk()
            holder.execute("ROLLBACK")
        assert recorder.tries_disk()
        assert recorder.detected == 1
        assert set_aside(folder) == []
        assert "locked" in str(caplog.records[0].facts)  # type: ignore[attr-defined]


def damage_under(path: Path) -> None:
    """Overwrite a journal that is open: its log is folded in first, so that the pages are read anew."""
    with closing(sqlite3.connect(path)) as connection:
        busy, *_ = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        assert busy == 0
    with path.open("r+b") as file:
        file.seek(4096)
        file.write(b"\xa5" * (path.stat().st_size - 4096))


class TestDamageWhileRunning:
    """Damage that shows only when the journal is used costs no counter and no current event."""

    def begin(self, start: Open, folder: Path) -> Recorder:
        """A journal that has been in use, damaged."""
        recorder = start(folder)
        recorder.sees("A", "B")
        recorder.after(5).sees("A")
        damage_under(folder / "journal.sqlite")
        return recorder

    def check(self, recorder: Recorder, start: Open, folder: Path) -> None:
        """The journal is on disk, and a restart finds all that was known."""
        assert len(set_aside(folder)) == 1
        assert recorder.is_up()
        recorder.journal.close()
        after = start(folder)
        assert after.statistics == recorder.statistics
        assert after.known.current == recorder.known.current

    def test_found_by_a_transition(self, folder: Path, start: Open) -> None:
        """The transition that met the damage is written to the fresh file, with all that was known before."""
        recorder = self.begin(start, folder)
        recorder.after(5).sees("A", "C")
        assert recorder.journal.state.errors == 1
        assert "detected" in {queued.span.name for queued in recorder.journal.queued_spans(-1)}
        self.check(recorder, start, folder)

    def test_ended_events_are_still_known(self, folder: Path, start: Open) -> None:
        """Events that had ended before the damage are known in the fresh file, so that one can return."""
        recorder = start(folder)
        recorder.sees(*(f"E{number}" for number in range(60)))
        recorder.after(5).sees("A")
        damage_under(folder / "journal.sqlite")
        recorder.after(5).sees("A", "B")
        recorder.journal.close()
        after = start(folder)
        assert after.statistics == recorder.statistics
        assert len(after.known.ended) == 60

    @pytest.mark.parametrize(
        "meet",
        [
            lambda recorder: recorder.journal.prune(recorder.now, lambda: True),
            lambda recorder: recorder.journal.remove_spans(
                [QueuedSpan(1, SpanFacts("f" * 32, "f" * 16, "", "x", 0.0, 1.0))]
            ),
        ],
        ids=["prune", "remove_spans"],
    )
    def test_found_otherwise(self, meet: Callable[[Recorder], None], folder: Path, start: Open) -> None:
        """Damage that retention or delivery meets makes no counter fall either."""
        recorder = self.begin(start, folder)
        statistics = recorder.statistics
        meet(recorder)
        if not recorder.is_up():
            assert recorder.tries_disk()
        assert recorder.statistics == statistics
        recorder.after(5).sees("A", "C")
        self.check(recorder, start, folder)

    def test_found_in_an_approval_request(self, folder: Path, start: Open) -> None:
        """A request of a type that nobody wrote is set aside with the file, and polls go on without it."""
        recorder = start(folder)
        recorder.sees("A", "B")
        recorder.after(5).sees("A")
        now = recorder.now.wall
        recorder.journal.request_approval([recorder.known.current["A"]], "me", now, now + 60)
        changed(folder / "journal.sqlite", "UPDATE approval_requests SET created = 'today'")
        assert recorder.journal.open_requests() == []
        self.check(recorder, start, folder)

    def test_found_in_the_operator_of_a_request(self, folder: Path, start: Open) -> None:
        """A request whose operator is no text does not hold up those that come after it."""
        recorder = start(folder)
        recorder.sees("A", "B")
        recorder.after(5).sees("A")
        now, events = recorder.now.wall, [recorder.known.current["A"]]
        recorder.journal.request_approval(events, "me", now, now + 60)
        changed(folder / "journal.sqlite", "UPDATE approval_requests SET operator = CAST(x'6AFC' AS TEXT)")
        assert recorder.journal.open_requests() == []
        recorder.journal.request_approval(events, "you", now, now + 60)
        assert [request.operator for request in recorder.journal.open_requests()] == ["you"]
        self.check(recorder, start, folder)

    @pytest.mark.parametrize("content", ["'x'", "CAST(x'6AFC' AS TEXT)", "x'6AFC'", "1"])
    def test_one_unreadable_span(self, content: str, folder: Path, start: Open) -> None:
        """A span whose content is damaged holds up no other one; it stays in the journal."""
        recorder = start(folder)
        recorder.sees("A", "B")
        recorder.after(5).sees()
        count = recorder.journal.spans_queued()
        newest = "(SELECT max(seq) FROM spans)"
        changed(folder / "journal.sqlite", f"UPDATE spans SET span = {content} WHERE seq = {newest}")  # noqa: S608 - ours
        assert len(recorder.journal.queued_spans(10)) == count - 1
        assert recorder.journal.spans_queued() == count - 1
        with closing(sqlite3.connect(folder / "journal.sqlite")) as connection:
            assert connection.execute("SELECT count(*) FROM spans").fetchone() == (count,)

    def test_reading_spans_never_raises(self, folder: Path, start: Open) -> None:
        """Delivery continues without unreadable spans."""
        recorder = self.begin(start, folder)
        recorder.journal.queued_spans(10)
        recorder.journal.spans_queued()
