"""With a full, read-only or missing disk, the exporter continues in memory, and no transition is lost or repeated."""

import contextlib
import logging
import os
import resource
import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from azure_scheduled_events_exporter.journal.journal import Journal
from azure_scheduled_events_exporter.journal.store import Restored
from support.events.journal_recorder import DAY, LOG, Open, Recorder, bit_rot, history

NOBODY = 65534


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
        """While the disk is full, transitions are kept in memory and reported so; later they are written."""
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
        statistics, known = recorder.statistics, recorder.known
        disk.empty()
        assert recorder.tries_disk()
        assert recorder.is_up()
        assert recorder.statistics == statistics
        assert [each.message for each in caplog.records] == [
            "journal cannot be used, and events are kept in memory until it can",
            "journal is on disk again",
        ]
        recorder.after(1).sees("A")
        recorder.journal.close()
        after = start(disk.folder)
        request.addfinalizer(after.journal.close)
        assert after.statistics == recorder.statistics
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
        spans = [queued.span for queued in recorder.journal.queued_spans(-1)]
        assert [span.attributes["azure.scheduled_event.id"] for span in spans] == events[::-1]
        recorder.journal.close()

    def test_full_when_another_vms_journal_ends(self, disk: Disk, start: Open) -> None:
        """What is known of another VM is forgotten also if the disk has no room for a journal of this VM."""
        before = start(disk.folder)
        assert not before.journal.claim("one")
        before.sees("THEIRS")
        before.journal.close()
        recorder = start(disk.folder)
        disk.fill()
        assert recorder.journal.claim("two")
        assert not recorder.is_up()
        recorder.take(Restored())
        recorder.sees("OURS")
        disk.empty()
        assert recorder.tries_disk()
        assert recorder.detected == 1
        assert history(disk.folder) == ["OURS"]

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
        assert start(folder).statistics == recorder.statistics

    def test_a_read_that_fails_at_the_start(self, folder: Path, start: Open) -> None:
        """A journal that is opened and then cannot be read for a moment stays in its place, with its history."""
        before = start(folder)
        before.sees("A")
        before.journal.close()
        with closing(Journal(folder, 90 * DAY, LOG)) as journal:
            assert journal._storage.disk is not None
            journal._storage.disk.close()
            recorder = Recorder(journal)
            recorder.sees("B")
            assert not recorder.is_up()
            assert recorder.tries_disk()
            assert recorder.detected == 2
            assert history(folder / "journal.sqlite") == ["A", "B"]
        assert [path.name for path in folder.iterdir() if "set-aside" in path.name] == []

    def test_a_damaged_file_found_when_the_disk_is_back(self, folder: Path, start: Open) -> None:
        """A disk that comes back without the past makes no counter fall, and the current events are in it."""
        recorder = start(folder)
        recorder.sees("A", "B")
        recorder.after(1).sees("A")
        recorder.journal._storage._use_memory(OSError("the disk is gone"))
        bit_rot(folder / "journal.sqlite")
        statistics = recorder.statistics
        assert recorder.tries_disk()
        assert recorder.statistics == statistics
        recorder.journal.close()
        after = start(folder)
        assert after.statistics == statistics
        assert after.known.current == recorder.known.current

    def test_a_copy_that_root_writes(self, folder: Path, start: Open) -> None:
        """A copy that takes the place of a linked journal is its folder's owner's, whose service must use it."""
        folder.mkdir()
        if os.geteuid() == 0:
            os.chown(folder, NOBODY, NOBODY)
        recorder = start(folder)
        file = folder / "journal.sqlite"
        (folder / "backup").hardlink_to(file)
        recorder.journal.check_file()
        assert file.stat().st_nlink == 1, "a copy"
        assert (file.owner(), file.stat().st_mode & 0o777) == (folder.owner(), 0o600)
