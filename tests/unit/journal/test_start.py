"""The journal at a start: it is read in a thread, and nobody waits for a disk that fails."""

import sqlite3
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from azure_scheduled_events_exporter.journal.journal import Journal
from azure_scheduled_events_exporter.journal.thread.shared import WAIT_SECONDS
from support.events.journal_recorder import DAY, LOG, Open, history, set_aside
from support.programs import eventually


@pytest.fixture
def disk_works(
    folder: Path, start: Open, monkeypatch: pytest.MonkeyPatch
) -> Iterator[threading.Event]:
    """A flag that a test sets when the disk is to work: until then, the journal cannot be opened
    (EIO). The journal has the scheduled event A.
    """
    before = start(folder)
    before.sees("A")
    before.journal.close()
    works = threading.Event()
    connect = sqlite3.connect

    def connect_on_a_bad_disk(database: str | Path, **more: object) -> sqlite3.Connection:
        # The journal is opened by a URI with parameters; the file of its lock is none of these.
        if "journal.sqlite?" in str(database) and not works.is_set():
            error = sqlite3.OperationalError("disk I/O error")
            error.sqlite_errorcode = sqlite3.SQLITE_IOERR
            raise error
        return connect(database, **more)  # type: ignore[call-overload,no-any-return]

    monkeypatch.setattr(sqlite3, "connect", connect_on_a_bad_disk)
    yield works
    works.set()


def test_a_disk_that_cannot_be_read_for_a_while(disk_works: threading.Event, folder: Path) -> None:
    """The file is read when the disk works again, and it is not renamed."""
    journal = Journal(folder, 90 * DAY, LOG)
    try:
        assert not journal.wait_until_read(1.0)
        # adopt() takes over what was read from the file; None: it has not been read.
        assert journal.adopt() is None
        assert not journal.state.up
        disk_works.set()
        remembered = eventually(journal.adopt, "the journal")
        assert remembered
        assert list(remembered.lifecycles.current) == ["A"]
        eventually(lambda: journal.state.up, "the journal on disk")
    finally:
        journal.close()
    assert set_aside(folder) == []
    assert history(folder) == ["A"]


def test_entries_are_written_before_the_journal_is_read(
    disk_works: threading.Event, folder: Path
) -> None:
    """While a disk that fails keeps the journal from being read, whoever writes an entry does not
    wait for it. These entries do not replace what the file has.
    """
    journal = Journal(folder, 90 * DAY, LOG)
    try:
        eventually(lambda: journal.state.errors, "the failure")
        began = time.monotonic()
        journal.record_heartbeat(None)
        journal.record()
        # Once the journal has been read, writing an entry may take WAIT_SECONDS.
        assert time.monotonic() - began < WAIT_SECONDS, "it waited for the disk"
        disk_works.set()
        eventually(journal.adopt, "what the file has")
    finally:
        journal.close()
    assert history(folder) == ["A"]
