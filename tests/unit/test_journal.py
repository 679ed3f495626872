"""The journal's file: one writer, trouble with the disk, damage, and what survives all of it."""

import contextlib
import logging
import os
import resource
import sqlite3
import stat
import subprocess
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from azure_scheduled_events_exporter.errors import ExporterError
from azure_scheduled_events_exporter.events import Document, EventStatus, ScheduledEvent
from azure_scheduled_events_exporter.instant import Instant
from azure_scheduled_events_exporter.journal import Journal
from azure_scheduled_events_exporter.journal_file import JournalInUseError, file_path, read_only
from azure_scheduled_events_exporter.lifecycle import Change, Lifecycles, Transition, Vantage, observe
from azure_scheduled_events_exporter.spans import SpanFacts, finished
from azure_scheduled_events_exporter.store import SCHEMA_VERSION, Entry, Restored
from azure_scheduled_events_exporter.tally import Tally, measure

DAY = 86400.0
START = 1_700_000_000.0
VM = "vmss_0"
LOG = logging.getLogger("tests.journal")
Open = Callable[[Path | None], "Recorder"]


@dataclass
class Recorder:
    """What a poller does with a journal: it observes, records, and keeps the whole state in mind."""

    journal: Journal
    now: Instant = field(default_factory=lambda: Instant(START, 1000.0, "boot"))
    known: Lifecycles = field(default_factory=Lifecycles)
    tally: Tally = field(default_factory=Tally)

    def __post_init__(self) -> None:
        self.take(self.journal.restore())

    def take(self, restored: Restored) -> None:
        """Begin with what the journal remembers."""
        self.known, self.tally = restored.lifecycles, restored.tally

    def after(self, seconds: float) -> "Recorder":
        """Let time pass."""
        self.now = Instant(self.now.wall + seconds, self.now.monotonic + seconds, self.now.boot_id)
        return self

    def sees(self, *event_ids: str) -> None:
        """Observe a document with these events, all Scheduled, and journal what is new."""
        events = tuple(
            ScheduledEvent(event_id, "Freeze", EventStatus.SCHEDULED, "Platform", (VM,), self.now.wall + 900)
            if event_id not in self.known.current
            else self.known.current[event_id].event
            for event_id in event_ids
        )
        self.known, changes = observe(self.known, Document(1, events), Vantage(self.now, VM))
        self.tally = self.tally.plus(map(measure, changes))
        spans = [span for change in changes for span in finished(change)]
        self.journal.record(Entry(changes, [change.lifecycle for change in changes], spans), self.tally, self.known)

    def tries_disk(self) -> bool:
        """Try to take the disk again, at once and a minute later; return whether that worked."""
        found = self.journal.try_disk_again(self.now) or self.after(60).journal.try_disk_again(self.now)
        if found is not None:
            self.tally = found.tally
        return found is not None

    def is_up(self) -> bool:
        """Whether transitions are on disk now."""
        return self.journal.state.up

    @property
    def detected(self) -> int:
        """How many events have been counted."""
        return sum(count for (*_, transition), count in self.tally.transitions.items() if transition == "detected")


@pytest.fixture
def start() -> Iterator[Open]:
    """Open journals, 90 days of retention, that are closed with the test; None keeps everything in memory."""
    with contextlib.ExitStack() as stack:

        def open_journal(path: Path | None) -> Recorder:
            journal = Journal(path, 90 * DAY, LOG)
            stack.callback(journal.close)
            return Recorder(journal)

        yield open_journal


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where the journal is to be; not made yet."""
    return tmp_path / "state"


def history(path: Path) -> list[str]:
    """Return the EventIds that the journal at ``path`` holds, sorted."""
    store = read_only(path)
    with closing(store):
        return sorted(life.event_id for life in store.history())


def set_aside(folder: Path) -> list[Path]:
    """Return the journals that were set aside, without their logs."""
    return sorted(path for path in folder.glob("*set-aside*") if not path.name.endswith(("-wal", "-shm")))


class TestFile:
    """Where the journal is and who may read it."""

    def test_survives_a_restart(self, folder: Path, start: Open) -> None:
        """Lives, counters and undelivered spans are there again after a restart."""
        before = start(folder)
        before.sees("A", "B")
        before.after(5).sees("A")
        before.journal.close()
        after = start(folder)
        assert after.known == before.known
        assert after.tally == before.tally
        assert {span.name for span in after.journal.spans(-1)} == {"detected", "scheduled", "scheduled_event"}
        assert after.journal.spans_queued() == 4

    def test_all_is_committed_before_record_returns(self, folder: Path, start: Open) -> None:
        """What was recorded can be read by another process at once, while the exporter runs."""
        start(folder).sees("A")
        assert history(folder) == ["A"]

    def test_nobody_else_can_read_it(self, folder: Path, start: Open) -> None:
        """The folder is the exporter's alone, and so is every file in it, whatever the umask."""
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
        recorder = start(folder)
        assert recorder.journal._disk is not None
        connection = recorder.journal._disk._db
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        assert connection.execute("PRAGMA synchronous").fetchone() == (2,)

    @pytest.mark.parametrize(
        ("given", "file"), [("state", "state/journal.sqlite"), ("state/j.db", "state/j.db"), ("file", "file")]
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

    def test_memory(self, tmp_path: Path, start: Open) -> None:
        """Without a path all works, nothing is on disk and nothing is said to be."""
        recorder = start(None)
        recorder.sees("A")
        assert recorder.journal.restore().tally == recorder.tally
        assert not recorder.is_up()
        assert recorder.journal.state.errors == 0
        assert not recorder.tries_disk()
        assert list(tmp_path.iterdir()) == []

    def test_no_journal_to_read(self, tmp_path: Path) -> None:
        """Who asks for the history of nothing is told where it was looked for, and no file is made."""
        with pytest.raises(ExporterError, match=r"there is no journal at .*journal\.sqlite"):
            read_only(tmp_path)
        assert list(tmp_path.iterdir()) == []

    def test_an_empty_journal_to_read(self, tmp_path: Path) -> None:
        """Who asks for the history of a file that has just been made is told that, and it stays empty."""
        (tmp_path / "journal.sqlite").touch()
        with pytest.raises(ExporterError, match="cannot be read: nothing has been written to it yet"):
            read_only(tmp_path)
        assert (tmp_path / "journal.sqlite").stat().st_size == 0


class TestOneWriter:
    """Two exporters never write one journal."""

    def test_the_second_is_refused(self, folder: Path, start: Open) -> None:
        """The second one is told that, which file, and what to do."""
        start(folder)
        with pytest.raises(JournalInUseError, match=r"another exporter writes .*journal\.sqlite: .*--journal\.path"):
            start(folder)

    def test_refusal_does_no_harm(self, folder: Path, start: Open) -> None:
        """The first one goes on writing after it has turned away a second."""
        first = start(folder)
        with pytest.raises(JournalInUseError):
            start(folder)
        first.sees("A")
        assert first.is_up()
        assert history(folder) == ["A"]

    def test_another_after_the_first(self, folder: Path, start: Open) -> None:
        """The lock goes with the one that holds it, although its file stays."""
        start(folder).journal.close()
        assert start(folder).is_up()


def text_file(path: Path) -> None:
    """A file of somebody else."""
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


def bit_rot(path: Path) -> None:
    """A sound database whose content no longer makes sense."""
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("UPDATE lives SET life = substr(life, 7)")
        connection.commit()


def without_tables(path: Path) -> None:
    """Ours by its marks, but empty of tables."""
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("DROP TABLE transitions")
        connection.commit()


DAMAGES = [text_file, foreign_sqlite, newer_schema, truncated, overwritten, bit_rot, without_tables]


class TestSetAside:
    """A file that cannot be used is kept under another name, and the exporter begins a fresh one."""

    @pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__)
    def test_at_start(
        self, damage: Callable[[Path], None], folder: Path, start: Open, caplog: pytest.LogCaptureFixture
    ) -> None:
        """Whatever is wrong with the file, the exporter runs on a fresh one and says where the old one went."""
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
        assert after.tally == recorder.tally
        assert after.known.current == recorder.known.current

    def test_found_by_a_transition(self, folder: Path, start: Open) -> None:
        """The transition that met the damage is written to the fresh file, with all that was known before."""
        recorder = self.begin(start, folder)
        recorder.after(5).sees("A", "C")
        assert recorder.journal.state.errors == 1
        assert "detected" in {span.name for span in recorder.journal.spans(-1)}
        self.check(recorder, start, folder)

    @pytest.mark.parametrize(
        "meet",
        [
            lambda recorder: recorder.journal.prune(recorder.now),
            lambda recorder: recorder.journal.strike_off([SpanFacts("f" * 32, "f" * 16, "", "x", 0.0, 1.0)]),
        ],
        ids=["prune", "strike_off"],
    )
    def test_found_otherwise(self, meet: Callable[[Recorder], None], folder: Path, start: Open) -> None:
        """Damage that retention or delivery meets makes no counter fall either."""
        recorder = self.begin(start, folder)
        tally = recorder.tally
        meet(recorder)
        if not recorder.is_up():
            assert recorder.tries_disk()
        assert recorder.tally == tally
        recorder.after(5).sees("A", "C")
        self.check(recorder, start, folder)

    def test_reading_spans_never_raises(self, folder: Path, start: Open) -> None:
        """Delivery goes on without what cannot be read."""
        recorder = self.begin(start, folder)
        recorder.journal.spans(10)
        recorder.journal.spans_queued()


class Disk:
    """A small disk that can be filled and made read-only: a tmpfs where one may mount, else the limits of a user."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()
        command = ["mount", "-t", "tmpfs", "-o", "size=512k", "tmpfs", str(folder)]
        self.mounted = subprocess.run(command, check=False, capture_output=True).returncode == 0
        self._limits = resource.getrlimit(resource.RLIMIT_FSIZE)

    def fill(self) -> None:
        """Let no write succeed that needs room."""
        if not self.mounted:
            resource.setrlimit(resource.RLIMIT_FSIZE, (0, self._limits[1]))
            return
        with contextlib.suppress(OSError), (self.folder / "filler").open("wb", buffering=0) as file:
            while True:
                file.write(bytes(512))

    def empty(self) -> None:
        """Make room again."""
        resource.setrlimit(resource.RLIMIT_FSIZE, self._limits)
        (self.folder / "filler").unlink(missing_ok=True)

    def writable(self, *, yes: bool) -> None:
        """Make the disk read-only, or writable again."""
        if self.mounted:
            subprocess.run(["mount", "-o", f"remount,{'rw' if yes else 'ro'}", str(self.folder)], check=True)
        else:
            self.folder.chmod(0o700 if yes else 0o500)

    def remove(self) -> None:
        """Leave nothing mounted."""
        self.empty()
        if self.mounted:
            subprocess.run(["umount", str(self.folder)], check=True)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    """A small disk."""
    made = Disk(tmp_path / "disk")
    yield made
    made.remove()


class TestDiskTrouble:
    """A disk that fails stops nothing; once it is back, it has everything once."""

    def test_full_in_mid_event(
        self, disk: Disk, start: Open, caplog: pytest.LogCaptureFixture, request: pytest.FixtureRequest
    ) -> None:
        """Transitions on a full disk are kept in memory, told as such, and written when there is room."""
        caplog.set_level(logging.INFO)
        recorder = start(disk.folder)
        request.addfinalizer(recorder.journal.close)
        recorder.sees("A", "B")
        disk.fill()
        events = ["A", "B"]
        for number in range(200):  # what is left of the last page is used first
            events.append(f"E{number}")
            recorder.after(1).sees(*events)
            if not recorder.is_up():
                break
        assert not recorder.is_up()
        assert recorder.journal.state.errors == 1
        recorder.after(1).sees(*events, "MEMORY")
        assert not recorder.tries_disk(), "the disk is still full"
        recorder.sees(*events)  # MEMORY is called off
        tally, known = recorder.tally, recorder.known
        disk.empty()
        assert recorder.tries_disk()
        assert recorder.is_up()
        assert recorder.tally == tally
        assert [each.message for each in caplog.records] == [
            "the journal cannot be written: going on in memory until it can",
            "the journal is on disk again",
        ]
        recorder.after(1).sees("A")
        recorder.journal.close()
        after = start(disk.folder)
        request.addfinalizer(after.journal.close)
        assert after.tally == recorder.tally
        assert after.known.current == {"A": known.current["A"]}
        assert len(history(disk.folder)) == len(events) + 1
        after.journal.close()

    def test_spans_of_both_times(self, disk: Disk, start: Open, request: pytest.FixtureRequest) -> None:
        """Spans from before, during and after the trouble all wait for delivery, each once, the newest first."""
        recorder = start(disk.folder)
        request.addfinalizer(recorder.journal.close)
        recorder.sees("BEFORE")
        disk.fill()
        events = ["BEFORE"]
        while recorder.is_up():
            events.append(f"E{len(events)}")
            recorder.after(1).sees(*events)
        disk.empty()
        assert recorder.tries_disk()
        events.append("AFTER")
        recorder.after(1).sees(*events)
        spans = recorder.journal.spans(-1)
        assert [span.attributes["azure.scheduled_event.id"] for span in spans] == events[::-1]
        recorder.journal.close()

    def test_read_only_at_start(
        self, disk: Disk, start: Open, caplog: pytest.LogCaptureFixture, request: pytest.FixtureRequest
    ) -> None:
        """On a read-only disk the exporter runs in memory, and adds to the history once it may write."""
        caplog.set_level(logging.INFO)
        before = start(disk.folder)
        before.sees("OLD")
        before.journal.close()
        disk.writable(yes=False)
        try:
            recorder = start(disk.folder)
            request.addfinalizer(recorder.journal.close)
            assert not recorder.is_up()
            assert recorder.journal.state.errors == 1
            recorder.sees("NEW")
            assert not recorder.tries_disk()
        finally:
            disk.writable(yes=True)
        assert recorder.tries_disk()
        assert recorder.is_up()
        assert recorder.detected == 2
        assert history(disk.folder) == ["NEW", "OLD"]
        assert [each.levelname for each in caplog.records] == ["ERROR", "INFO"], "the trouble is told once"
        recorder.journal.close()

    def test_a_path_that_cannot_be(self, tmp_path: Path, start: Open) -> None:
        """A file where a folder should be costs nothing but the disk; when it is gone, the folder is made."""
        (tmp_path / "state").write_text("in the way")
        recorder = start(tmp_path / "state" / "deep" / "journal.sqlite")
        recorder.sees("A")
        assert not recorder.is_up()
        assert not recorder.tries_disk()
        assert (tmp_path / "state").read_text() == "in the way"
        (tmp_path / "state").unlink()
        assert recorder.tries_disk()
        assert history(tmp_path / "state" / "deep" / "journal.sqlite") == ["A"]

    def test_an_event_that_the_disk_knew(self, folder: Path, start: Open) -> None:
        """An event that the unreadable disk had already is counted once."""
        before = start(folder)
        before.sees("A")
        before.journal.close()
        hidden = folder.rename(folder.with_name("hidden"))
        folder.write_text("in the way")
        recorder = start(folder / "journal.sqlite").after(300)
        recorder.sees("A")
        folder.unlink()
        hidden.rename(folder)
        assert recorder.tries_disk()
        assert recorder.detected == 1
        recorder.journal.close()
        assert start(folder).tally == recorder.tally

    def test_a_damaged_file_found_when_the_disk_is_back(self, folder: Path, start: Open) -> None:
        """A disk that comes back without the past makes no counter fall, and the current events are in it."""
        recorder = start(folder)
        recorder.sees("A", "B")
        recorder.after(1).sees("A")
        recorder.journal._failed(OSError("the disk is gone"))
        bit_rot(folder / "journal.sqlite")
        tally = recorder.tally
        assert recorder.tries_disk()
        assert recorder.tally == tally
        recorder.journal.close()
        after = start(folder)
        assert after.tally == tally
        assert after.known.current == recorder.known.current


class TestRetention:
    """What has ended long ago is forgotten, but stays counted."""

    @pytest.mark.parametrize("on_disk", [True, False], ids=["disk", "memory"])
    def test_counters_stay(self, folder: Path, start: Open, *, on_disk: bool) -> None:
        """After the retention an event is in no history, and still in every counter and histogram."""
        recorder = start(folder if on_disk else None)
        recorder.sees("OLD", "OPEN")
        recorder.after(5).sees("OPEN")
        tally = recorder.tally
        recorder.after(91 * DAY).journal.prune(recorder.now)
        assert recorder.journal.restore().tally == tally
        assert [life.event_id for life in recorder.journal._store.history()] == ["OPEN"]
        if on_disk:
            recorder.journal.close()
            assert start(folder).tally == tally

    def test_nothing_goes_too_early(self, folder: Path, start: Open) -> None:
        """Within the retention all is kept."""
        recorder = start(folder)
        recorder.sees("A")
        recorder.after(5).sees()
        recorder.after(89 * DAY).journal.prune(recorder.now)
        assert history(folder) == ["A"]

    def test_a_disk_that_was_away_for_longer(self, tmp_path: Path, start: Open) -> None:
        """What passed in memory is counted when the disk is back, however long that took."""
        (tmp_path / "state").write_text("in the way")
        recorder = start(tmp_path / "state" / "journal.sqlite")
        recorder.sees("A")
        recorder.after(5).sees()
        tally = recorder.tally
        recorder.after(91 * DAY).journal.prune(recorder.now)
        (tmp_path / "state").unlink()
        assert recorder.tries_disk()
        assert recorder.tally == tally


class TestLoad:
    """A long history."""

    def test_ten_thousand_lives(self, folder: Path, start: Open) -> None:
        """Years of a busy fleet open again, with every life counted."""
        recorder = start(folder)
        recorder.sees("MODEL")
        recorder.after(5).sees()
        (model,) = recorder.journal._store.history()
        lives = [
            replace(model, event=replace(model.event, event_id=f"E{n:05}"), first_seen=Instant(START + n))
            for n in range(10_000)
        ]
        changes = [
            Change(transition, life, recorder.now)
            for life in lives
            for transition in (Transition.DETECTED, Transition.CANCELLED)
        ]
        recorder.tally = recorder.tally.plus(map(measure, changes))
        recorder.journal.record(Entry(changes, lives), recorder.tally, recorder.known)
        recorder.sees("OPEN")
        recorder.journal.close()
        after = start(folder)
        assert after.tally == recorder.tally
        assert after.detected == 10_002
        assert after.known.current == recorder.known.current
        assert len(after.known.ended) == 1000
