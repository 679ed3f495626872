"""The journal's file: where it is and who may read it, its one writer, and what it keeps for how
long.
"""

import os
import sqlite3
import stat
from contextlib import closing
from pathlib import Path

import pytest

from azure_scheduled_events_exporter.errors import ExporterError, JournalInUseError
from azure_scheduled_events_exporter.journal.access import read_only, writable
from azure_scheduled_events_exporter.journal.content.inbox import ApprovalRequest
from azure_scheduled_events_exporter.journal.disk.location import file_path
from azure_scheduled_events_exporter.journal.tables.inbox_tables import MOST_REQUESTS
from support.events.journal_recorder import DAY, Open, history


class TestFile:
    """Where the journal is and who may read it."""

    def test_survives_a_restart(self, folder: Path, start: Open) -> None:
        """Lives, counters and undelivered spans are there again after a restart."""
        before = start(folder)
        before.sees("A", "B")
        before.after(5).sees("A")
        before.journal.close()
        after = start(folder)
        assert after.lives == before.lives
        assert after.statistics == before.statistics
        assert {span.name for span in after.journal.queued_spans(256).values()} == {
            "detected",
            "scheduled",
            "scheduled_event",
        }
        assert after.journal.spans_queued() == 4, "the beginnings of A and B, and two for B's end"

    def test_nobody_else_can_read_it(self, folder: Path, start: Open) -> None:
        """Only the exporter can access the folder and its files, with any umask."""
        umask = os.umask(0)
        try:
            start(folder).sees("A")
        finally:
            os.umask(umask)
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()}
        assert {"journal.sqlite", "journal.sqlite-wal"} <= modes.keys()
        assert set(modes.values()) == {0o600}, modes

    def test_power_cuts_are_provided_for(self, folder: Path, start: Open) -> None:
        """The file is in WAL mode, and every commit waits for the disk."""
        start(folder).sees("A")
        with closing(writable(folder)) as store:
            assert store.connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
            full = 2  # SQLite's number for it
            assert store.connection.execute("PRAGMA synchronous").fetchone() == (full,)

    @pytest.mark.parametrize(
        ("given", "file"),
        [("state", "state/journal.sqlite"), ("state/j.db", "state/j.db"), ("file", "file")],
    )
    def test_a_folder_or_a_file(self, given: str, file: str, tmp_path: Path) -> None:
        """--journal.path names a folder, or the file itself."""
        (tmp_path / "file").touch()
        assert file_path(tmp_path / given) == tmp_path / file

    @pytest.mark.parametrize("name", ["a b", "100%25", "what?mode=rw", "number#1"])
    def test_any_name_can_be_read(self, name: str, tmp_path: Path, start: Open) -> None:
        """A folder's name needs no care when the history is read."""
        start(tmp_path / name).sees("A")
        assert history(tmp_path / name) == ["A"]

    def test_another_programs_file(self, tmp_path: Path, start: Open) -> None:
        """A file that was named by mistake is refused and stays; what was a journal under that name
        is set aside.
        """
        file = tmp_path / "passwd"
        file.write_text("root:x:0:0\n" * 100)
        with pytest.raises(ExporterError, match=r"passwd cannot be used as --journal\.path"):
            start(file)
        assert [path.name for path in tmp_path.iterdir()] == ["passwd"]
        start(tmp_path / "mine.db").journal.close()
        (tmp_path / "mine.db").write_text("damage\n" * 100)
        assert start(tmp_path / "mine.db").is_up()

    def test_memory(self, tmp_path: Path, start: Open) -> None:
        """Without a path, everything works in memory, and the journal reports that it is not on
        disk.
        """
        recorder = start(None)
        recorder.sees("A")
        assert recorder.journal.remembered.statistics == recorder.statistics
        assert not recorder.is_up()
        assert recorder.journal.state.errors == 0
        assert list(tmp_path.iterdir()) == []

    def test_no_journal_to_read(self, tmp_path: Path) -> None:
        """Reading a journal that does not exist is an error with its path, and creates no file."""
        with pytest.raises(ExporterError, match=r"there is no journal at .*journal\.sqlite"):
            read_only(tmp_path)
        assert list(tmp_path.iterdir()) == []

    def test_an_empty_journal_to_read(self, tmp_path: Path) -> None:
        """Reading a journal that has just been created is an error that says so, and the file stays
        empty.
        """
        (tmp_path / "journal.sqlite").touch()
        with pytest.raises(
            ExporterError, match="cannot be read: nothing has been written to it yet"
        ):
            read_only(tmp_path)
        assert (tmp_path / "journal.sqlite").stat().st_size == 0


class TestOneWriter:
    """Two exporters never write one journal."""

    def test_the_second_is_refused(self, folder: Path, start: Open) -> None:
        """The second one gets an error with the file and what to do."""
        start(folder)
        with pytest.raises(
            JournalInUseError,
            match=r"another exporter, or 'approve', writes .*journal\.sqlite: .*--journal\.path",
        ):
            start(folder)

    def test_another_after_the_first(self, folder: Path, start: Open) -> None:
        """The lock goes with the one that holds it, although its file stays."""
        start(folder).journal.close()
        assert start(folder).is_up()

    def test_a_write_that_does_not_end(self, folder: Path, start: Open) -> None:
        """A command that cannot write because a process hangs in its write says so, and does not
        advise to be root.
        """
        start(folder).sees("A")
        with closing(sqlite3.connect(file_path(folder), isolation_level=None)) as hanging:
            hanging.execute("BEGIN IMMEDIATE")
            with pytest.raises(
                ExporterError, match=r"written: database is locked .*; restart .*, and try again$"
            ):
                writable(folder)


class TestRetention:
    """What has ended long ago is forgotten, but stays counted."""

    def test_counters_stay(self, folder: Path, start: Open) -> None:
        """After the retention an event is in no history, and still in every counter and
        histogram.
        """
        recorder = start(folder)
        recorder.sees("OLD", "OPEN")
        recorder.after(5).sees("OPEN")
        statistics = recorder.statistics
        recorder.after(91 * DAY).journal.maintain(recorder.now, lambda: True)
        recorder.journal.close()
        assert history(folder) == ["OPEN"]
        assert start(folder).statistics == statistics


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
