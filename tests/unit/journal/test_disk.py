"""With a disk that fails, hangs or is damaged, nothing is lost or repeated, and nobody waits for
longer than 2 s.
"""

import contextlib
import logging
import os
import resource
import sqlite3
import subprocess
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from azure_scheduled_events_exporter.core.lifecycle import Change, Transition
from azure_scheduled_events_exporter.core.records import Record
from azure_scheduled_events_exporter.errors import JournalInUseError
from azure_scheduled_events_exporter.journal.access import read_only, writable
from azure_scheduled_events_exporter.journal.content.remembered import Remembered
from azure_scheduled_events_exporter.journal.disk.location import file_path
from azure_scheduled_events_exporter.journal.disk.lock import writer_lock
from azure_scheduled_events_exporter.snapshot.hooks import HookRun
from support.events.journal_recorder import Open, bit_rot, history, recorders
from support.programs import eventually

WAITS = "journal cannot be written: entries wait in memory until it can be"
SET_ASIDE = "journal cannot be used: set aside, and a new one begun"


def transitions(path: Path) -> list[tuple[int, Record]]:
    """Return the transitions on disk with their numbers."""
    with closing(read_only(path)) as store:
        return store.transitions(0, -1)


class Disk:
    """A small disk that can be filled and made read-only: a tmpfs where one may mount, else the
    limits of a user.
    """

    begin: Open

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()
        command = ["mount", "-t", "tmpfs", "-o", "size=16m", "tmpfs", str(folder)]
        self.mounted = subprocess.run(command, check=False, capture_output=True).returncode == 0
        self._limits = resource.getrlimit(resource.RLIMIT_FSIZE)

    def fill(self) -> None:
        """Let no write succeed that needs room."""
        if not self.mounted:
            resource.setrlimit(resource.RLIMIT_FSIZE, (0, self._limits[1]))
            return
        with contextlib.suppress(OSError), (self.folder / "filler").open("wb", buffering=0) as file:
            while True:
                file.write(bytes(4096))

    def empty(self) -> None:
        """Make room again."""
        resource.setrlimit(resource.RLIMIT_FSIZE, self._limits)
        self.writable(yes=True)
        (self.folder / "filler").unlink(missing_ok=True)

    def writable(self, *, yes: bool) -> None:
        """Make the disk read-only, or writable again."""
        if self.mounted:
            subprocess.run(
                ["mount", "-o", f"remount,{'rw' if yes else 'ro'}", str(self.folder)], check=True
            )
        else:
            self.folder.chmod(0o700 if yes else 0o500)

    def remove(self) -> None:
        """Leave nothing mounted."""
        self.empty()
        if self.mounted:
            subprocess.run(["umount", str(self.folder)], check=True)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    """A small disk, and :attr:`Disk.begin`, which opens journals that are closed before it is
    removed.
    """
    made = Disk(tmp_path / "disk")
    try:
        with recorders() as made.begin:
            yield made
    finally:
        made.remove()


class TestTrouble:
    """Entries wait in memory, in their order."""

    def test_full_in_mid_event(self, disk: Disk, caplog: pytest.LogCaptureFixture) -> None:
        """What a full disk does not take is written when it has room again; the log says so
        once.
        """
        caplog.set_level(logging.INFO)
        recorder = disk.begin(disk.folder)
        recorder.sees("A", "B")
        disk.fill()
        recorder.after(1).sees("A", "B", "C")
        assert not recorder.is_up()
        recorder.after(1).sees("A", "C")  # B has ended
        recorder.after(1).sees("A", "C", "D")
        newest, next_newest, *_ = (
            span.attributes["azure.scheduled_event.id"]
            for span in recorder.journal.queued_spans(256).values()
        )
        assert (newest, next_newest) == ("D", "B"), (
            "spans that wait for the disk can be sent: that of D's beginning, and those of B's end"
        )
        disk.empty()
        recorder.regains_disk()
        numbers = [(number, record["event_id"]) for number, record in transitions(disk.folder)]
        assert numbers == [(1, "A"), (2, "B"), (3, "C"), (4, "B"), (5, "D")], "4 is the end of B"
        assert [each.message for each in caplog.records] == [WAITS, "journal is on disk again"]
        recorder.journal.close()
        after = disk.begin(disk.folder)
        assert (after.statistics, after.lives) == (recorder.statistics, recorder.lives)
        spans = after.journal.queued_spans(256)
        assert len(spans) == after.journal.spans_queued(), "every span on disk can be read"

    def test_second_writer_on_a_full_disk(self, disk: Disk) -> None:
        """A lock that another process holds is named as such, also on a full disk, where no new
        file can be made to see whether the file system grants locks at all.
        """
        file = file_path(disk.folder)
        with closing(writer_lock(file)):
            disk.fill()
            with pytest.raises(JournalInUseError):
                writer_lock(file)

    @pytest.mark.parametrize(
        "trouble", [Disk.fill, partial(Disk.writable, yes=False)], ids=["full", "read-only"]
    )
    def test_at_the_start(
        self, trouble: Callable[[Disk], None], disk: Disk, caplog: pytest.LogCaptureFixture
    ) -> None:
        """A journal on a disk that is full or read-only at the start is read; what comes is added
        later.
        """
        before = disk.begin(disk.folder)
        before.sees("OLD", "OPEN")
        before.after(5).sees("OPEN")
        run = HookRun(
            "run", "script", "OPEN", "Freeze", "prepare", before.now.wall, "ok", 1.0, 60.0
        )
        with closing(writable(disk.folder)) as store:
            store.hook_runs.put(run)
        before.journal.close()
        trouble(disk)
        recorder = disk.begin(disk.folder)
        assert not recorder.is_up()
        assert recorder.journal.inbox.runs == [run]
        assert len(recorder.journal.queued_spans(256)) == before.journal.spans_queued()
        assert (recorder.lives, recorder.statistics) == (before.lives, before.statistics)
        recorder.after(5).sees("OPEN", "NEW")
        assert history(disk.folder) == ["OLD", "OPEN"]
        disk.empty()
        recorder.regains_disk()
        assert history(disk.folder) == ["NEW", "OLD", "OPEN"]
        assert [each.message for each in caplog.records if each.levelname == "ERROR"] == [WAITS]
        recorder.journal.close()
        after = disk.begin(disk.folder)
        assert (after.lives, after.statistics) == (recorder.lives, recorder.statistics)

    def test_another_vms_journal_on_a_full_disk(self, disk: Disk) -> None:
        """What is known of another VM is forgotten also if the disk has no room for a journal of
        this VM.
        """
        before = disk.begin(disk.folder)
        assert not before.journal.claim("one")
        before.sees("THEIRS")
        before.journal.close()
        disk.fill()
        recorder = disk.begin(disk.folder)
        assert recorder.journal.claim("two")
        recorder.take(Remembered())
        recorder.sees("OURS")
        disk.empty()
        recorder.regains_disk()
        assert history(disk.folder) == ["OURS"]

    def test_a_path_that_cannot_be(self, tmp_path: Path, start: Open) -> None:
        """A file where a folder should be costs nothing but the disk; when it is gone, the folder
        is made.
        """
        (tmp_path / "state").write_text("in the way")
        recorder = start(tmp_path / "state" / "deep" / "journal.sqlite")
        recorder.sees("A")
        assert not recorder.is_up()
        assert (tmp_path / "state").read_text() == "in the way"
        (tmp_path / "state").unlink()
        recorder.regains_disk()
        assert history(tmp_path / "state" / "deep" / "journal.sqlite") == ["A"]

    def test_memory_is_bounded(self, disk: Disk) -> None:
        """Of what waits for very long, the oldest transitions are counted only, and all else is
        written.
        """
        recorder = disk.begin(disk.folder)
        recorder.sees("A", "GONE")
        disk.fill()
        recorder.after(1).sees("A")
        life = recorder.known.current["A"]
        for number in range(24):
            lives = [
                replace(
                    life,
                    event=replace(life.event, event_id=f"E{number}-{n}"),
                    outcome=Transition.CANCELLED,
                    ended_at=recorder.now,
                )
                for n in range(200)
            ]
            changes = [
                *(Change(Transition.CANCELLED, each, recorder.now) for each in lives),
                *(Change(Transition.RESCHEDULED, life, recorder.now) for _ in range(200)),
            ]
            recorder.statistics = recorder.statistics.plus(changes)
            recorder.journal.record(
                changes, lives, statistics=recorder.statistics, lifecycles=recorder.known
            )
        assert not recorder.is_up()
        disk.empty()
        last = 3 + 24 * 400  # A and GONE were detected, GONE ended, and 400 transitions 24 times
        eventually(lambda: len(transitions(disk.folder)) > 2, "what was kept")
        first, second, *waited = (number for number, _ in transitions(disk.folder))
        assert (first, second) == (1, 2), "they were on disk before it was full"
        assert waited == list(range(waited[0], last + 1)), "the newest, without a gap"
        assert 1000 < len(waited) < last - 2, "some were dropped, but not most"
        recorder.journal.close()
        after = disk.begin(disk.folder)
        assert after.statistics == recorder.statistics
        assert after.known.current.keys() == {"A"}, "GONE has ended meanwhile"


def corrupted(path: Path) -> None:
    """Change as many bytes as a page has, from the second page on."""
    content = path.read_bytes()
    start, page = 4200, 4096
    path.write_bytes(content[:start] + b"\xff" * page + content[start + page :])


def emptied_of_tables(path: Path) -> None:
    """Remove a table."""
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("DROP TABLE lives")


def of_a_newer_version(path: Path) -> None:
    """Set another version of the schema."""
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA user_version = 2")


def of_another_program(path: Path) -> None:
    """Put another database there."""
    path.unlink(missing_ok=True)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE photographs (taken REAL)")


def of_another_class(path: Path) -> None:
    """Let a life have a field that this version does not know."""
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("""UPDATE lives SET life = '{"nonsense": 1}' WHERE event_id = 'E7'""")


DAMAGES = [
    corrupted,
    bit_rot,
    emptied_of_tables,
    of_a_newer_version,
    of_another_program,
    of_another_class,
]


class TestUnusable:
    """A file that cannot be used is renamed, and a new one begun."""

    @pytest.mark.parametrize("damage", DAMAGES)
    def test_at_the_start(
        self,
        damage: Callable[[Path], None],
        folder: Path,
        start: Open,
        caplog: pytest.LogCaptureFixture,
    ) -> None:
        """Nothing has been read, so the new one begins empty; the old one is kept, and named in the
        log.
        """
        before = start(folder)
        before.sees(*(f"E{number}" for number in range(40)))
        before.journal.close()
        damage(folder / "journal.sqlite")
        recorder = start(folder)
        assert recorder.is_up()
        assert recorder.detected == 0
        recorder.sees("NEW")
        assert history(folder) == ["NEW"]
        (record,) = [each for each in caplog.records if each.levelname == "ERROR"]
        assert record.message == SET_ASIDE
        assert len(list(folder.glob("journal.sqlite.set-aside-*"))) == 1

    def test_only_the_newest_are_kept(self, folder: Path, start: Open) -> None:
        """A disk that damages the journal again and again is not filled; what the user has renamed
        stays.
        """
        folder.mkdir()
        kept = folder / "journal.sqlite.set-aside-for-the-vendor"
        kept.write_text("a file of the user")
        moments = [f"20260101T00000{number}.000000" for number in range(5)]
        for moment in moments:
            for suffix in ("", "-wal", ".documents"):
                (folder / f"journal.sqlite.set-aside-{moment}{suffix}").write_text("old")
        of_another_program(folder / "journal.sqlite")
        start(folder).sees("NEW")
        names = {path.name for path in folder.glob("*set-aside*")} - {kept.name}
        assert kept.exists()
        assert {name for name in names if "20260101" in name} == {
            f"journal.sqlite.set-aside-{moment}{suffix}"
            for moment in moments[3:]
            for suffix in ("", "-wal", ".documents")
        }
        assert len(names) == 2 * 3 + 1, "the one set aside now is a database without other files"

    @pytest.mark.parametrize("damage", ["damaged", "removed", "replaced", "without logs"])
    def test_in_use(self, damage: str, folder: Path, start: Open) -> None:
        """If the file is damaged, removed or replaced while it is in use, the new one has counters,
        current events and ended events of the lost one, and continues its numbers.
        """
        file = folder / "journal.sqlite"
        recorder = start(folder)
        recorder.sees("OLD")
        with (
            closing(sqlite3.connect(file)) as source,
            closing(sqlite3.connect(folder / "copy")) as copy,
        ):
            source.backup(copy)
        recorder.after(5).sees("A")
        if damage == "damaged":
            emptied_of_tables(file)
        elif damage == "removed":
            for path in folder.iterdir():
                path.unlink()
        elif damage == "replaced":
            (folder / "copy").replace(file)
        else:
            for suffix in ("-wal", "-shm"):
                Path(f"{file}{suffix}").unlink()
        recorder.journal.maintain(recorder.now, lambda: False)
        recorder.after(5).sees("A", "B")
        recorder.regains_disk()
        *_, (last, _) = transitions(folder)
        assert last == 4, "1 is the beginning of OLD, 2 and 3 that of A and the end of OLD, 4 is B"
        recorder.journal.close()
        after = start(folder)
        assert (after.statistics, after.lives) == (recorder.statistics, recorder.lives)

    @pytest.mark.parametrize("content", ["'x'", "CAST(x'6AFC' AS TEXT)"])
    def test_one_unreadable_span(self, content: str, folder: Path, start: Open) -> None:
        """A span whose content is damaged holds up no other one."""
        recorder = start(folder)
        recorder.sees("A", "B")
        recorder.after(5).sees()
        count = recorder.journal.spans_queued()
        with closing(sqlite3.connect(folder / "journal.sqlite")) as connection, connection:
            newest = "(SELECT max(rowid) FROM spans)"
            connection.execute(f"UPDATE spans SET span = {content} WHERE rowid = {newest}")  # noqa: S608 - ours
        recorder.journal.maintain(recorder.now, lambda: False)
        eventually(lambda: len(recorder.journal.queued_spans(10)) == count - 1, "the others")
        eventually(lambda: recorder.journal.spans_queued() == count - 1, "it waits no longer")


def test_a_reader_delays_no_write(folder: Path, start: Open) -> None:
    """A program that holds a transaction open for reading, as a stopped one does, delays no
    write.
    """
    recorder = start(folder)
    recorder.sees("A")
    with closing(sqlite3.connect(folder / "journal.sqlite", isolation_level=None)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT * FROM transitions").fetchone()
        recorder.sees("A", "B")
        assert recorder.is_up()
        assert history(folder) == ["A", "B"]


def test_a_write_lock_delays_no_poll(folder: Path, start: Open) -> None:
    """While another program holds the write lock, entries wait; they are written when it is
    released.
    """
    recorder = start(folder)
    with closing(sqlite3.connect(folder / "journal.sqlite", isolation_level=None)) as holder:
        holder.execute("BEGIN IMMEDIATE")
        recorder.sees("A")
        assert not recorder.is_up()
    recorder.regains_disk()
    assert history(folder) == ["A"]


def test_folders_owner(folder: Path, start: Open) -> None:
    """What root creates belongs to the owner of the folder, whose service must use it."""
    nobody = 65534
    folder.mkdir()
    if os.geteuid() == 0:
        os.chown(folder, nobody, nobody)
    start(folder).sees("A")
    assert {path.owner() for path in folder.iterdir()} == {folder.owner()}
