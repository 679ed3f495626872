"""One process writes a journal, and whoever is refused learns why."""

import os
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from azure_scheduled_events_exporter.errors import JournalInUseError
from azure_scheduled_events_exporter.journal.disk.location import file_path
from azure_scheduled_events_exporter.journal.disk.lock import writer_lock
from azure_scheduled_events_exporter.journal.journal import Journal
from support.events.journal_recorder import DAY, LOG, Open
from support.hosts.failing_disks import without_locks
from support.hosts.small_disk import SmallDisk
from support.programs import eventually


def test_the_second_is_refused(folder: Path, start: Open) -> None:
    """A second exporter gets an error with the file and what to do."""
    start(folder)
    with pytest.raises(
        JournalInUseError,
        match=r"another exporter, or 'approve', writes .*journal\.sqlite: .*--journal\.path",
    ):
        start(folder)


def test_callbacks_are_called_at_the_refusal(folder: Path) -> None:
    """A callback for the refusal is called, both if it is registered before the refusal and
    after it.
    """
    called: list[str] = []
    with closing(writer_lock(folder / "journal.sqlite")):
        journal = Journal(folder, 90 * DAY, LOG)
        try:
            journal.when_refused(lambda: called.append("registered before"))
            eventually(lambda: called, "the refusal")
            journal.when_refused(lambda: called.append("registered after"))
        finally:
            journal.close()
    assert called == ["registered before", "registered after"]


def test_another_after_the_first(folder: Path, start: Open) -> None:
    """The lock goes with the one that holds it, although its file stays."""
    start(folder).journal.close()
    assert start(folder).is_up()


def test_a_lock_that_is_held_is_no_failure_of_the_disk(folder: Path) -> None:
    """Who does not get the lock is told that another exporter holds it. To see whether the file
    system grants locks at all, a file beside the journal is locked; that file does not stay.
    """
    file = folder / "journal.sqlite"
    with closing(writer_lock(file)), pytest.raises(JournalInUseError):
        writer_lock(file)
    assert [path.name for path in folder.iterdir() if "lock-test" in path.name] == []


def test_second_writer_on_a_full_disk(disk: SmallDisk) -> None:
    """Who does not get the lock is told that another exporter holds it, also on a full disk, where
    no new file can be made to see whether the file system grants locks at all.
    """
    file = file_path(disk.folder)
    with closing(writer_lock(file)):
        disk.fill()
        with pytest.raises(JournalInUseError):
            writer_lock(file)


def test_a_file_system_without_locks(folder: Path, tmp_path: Path) -> None:
    """A file system that grants no locks is reported as such, and not as another exporter."""
    environment = without_locks(tmp_path / "smb-locks.so")
    code = """
import sys
from pathlib import Path
from azure_scheduled_events_exporter.journal.disk.lock import writer_lock
try:
    writer_lock(Path(sys.argv[1]))
except OSError as error:
    print(error.strerror)
"""
    done = subprocess.run(
        [sys.executable, "-c", code, str(folder / "journal.sqlite")],
        check=True,
        capture_output=True,
        text=True,
        env={**os.environ, **environment},
    )
    assert done.stdout.startswith("this file system grants no lock")
