"""The journal at a start: it is read in a thread, and renamed only if damage is proven."""

import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from azure_scheduled_events_exporter.core.lifecycle import Change, Transition
from azure_scheduled_events_exporter.core.statistics import Statistics
from azure_scheduled_events_exporter.errors import JournalInUseError
from azure_scheduled_events_exporter.journal.access import writable
from azure_scheduled_events_exporter.journal.content.entries import NewTransition, life_entry
from azure_scheduled_events_exporter.journal.content.remembered import Remembered
from azure_scheduled_events_exporter.journal.disk.lock import writer_lock
from azure_scheduled_events_exporter.journal.journal import Journal
from azure_scheduled_events_exporter.journal.tables.store import LARGEST_BYTES, Store
from azure_scheduled_events_exporter.journal.thread.queue import MOST_BYTES
from azure_scheduled_events_exporter.journal.thread.shared import WAIT_SECONDS
from support.events.journal_recorder import DAY, LOG, Open, history
from support.events.lives import SCHEDULED, Watch, at
from support.programs import eventually

SMB_LOCKS = Path(__file__).parents[2] / "data" / "cases" / "smb-locks.c"


def set_aside(folder: Path) -> list[str]:
    """Return the names of files that were renamed."""
    return [path.name for path in folder.glob("*set-aside*")]


def test_a_log_of_one_header(folder: Path, start: Open) -> None:
    """A log with a header and no frame, which a stop after the first sync leaves, costs nothing."""
    before = start(folder)
    before.sees("A", "B")
    file = folder / "journal.sqlite"
    copy = folder.parent / "copy"
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("PRAGMA wal_checkpoint(FULL)")
        shutil.copytree(folder, copy)
    before.journal.close()
    log = copy / "journal.sqlite-wal"
    header_bytes = 32
    os.truncate(log, header_bytes)
    began = time.monotonic()
    after = start(copy)
    assert time.monotonic() - began < 5, "it is read at once, and not when a deadline has passed"
    assert (after.lives, after.statistics) == (before.lives, before.statistics)
    assert set_aside(copy) == []


@pytest.fixture
def failing_disk(
    folder: Path, start: Open, monkeypatch: pytest.MonkeyPatch
) -> Iterator[threading.Event]:
    """A journal with an event, on a disk whose reads fail with EIO until the event is set."""
    before = start(folder)
    before.sees("A")
    before.journal.close()
    works = threading.Event()
    connect = sqlite3.connect

    def connect_on_a_bad_disk(database: str | Path, **more: object) -> sqlite3.Connection:
        if "journal.sqlite?" in str(database) and not works.is_set():
            error = sqlite3.OperationalError("disk I/O error")
            error.sqlite_errorcode = sqlite3.SQLITE_IOERR
            raise error
        return connect(database, **more)  # type: ignore[call-overload,no-any-return]

    monkeypatch.setattr(sqlite3, "connect", connect_on_a_bad_disk)
    yield works
    works.set()


def test_a_disk_that_cannot_be_read_for_a_while(
    failing_disk: threading.Event, folder: Path
) -> None:
    """The file is read when the disk works again, and it is not renamed."""
    journal = Journal(folder, 90 * DAY, LOG)
    try:
        assert not journal.wait_until_read(1.0)
        assert journal.adopt() is None
        assert not journal.state.up
        failing_disk.set()
        remembered = eventually(journal.adopt, "the journal")
        assert remembered
        assert list(remembered.lifecycles.current) == ["A"]
        eventually(lambda: journal.state.up, "the journal on disk")
    finally:
        journal.close()
    assert set_aside(folder) == []
    assert history(folder) == ["A"]


def test_what_comes_before_it_is_read(failing_disk: threading.Event, folder: Path) -> None:
    """Entries are in the queue until the journal is adopted; nobody waits for a disk that fails."""
    journal = Journal(folder, 90 * DAY, LOG)
    try:
        eventually(lambda: not journal.state.up, "the failure")
        began = time.monotonic()
        journal.record_heartbeat(None)
        journal.record()
        assert time.monotonic() - began < WAIT_SECONDS
        failing_disk.set()
        eventually(journal.adopt, "the journal")
    finally:
        journal.close()
    assert history(folder) == ["A"]


def test_a_pause_of_the_vm_is_no_hanging_disk(folder: Path) -> None:
    """A writer that was stopped together with the one who waits has its two seconds afterwards."""
    code = """
import logging, os, signal, sys, threading, time
from pathlib import Path
from azure_scheduled_events_exporter.journal.journal import Journal
journal = Journal(Path(sys.argv[1]), 86400.0, logging.getLogger())
assert journal.wait_until_read(60) and journal.adopt()
journal.record()
from contextlib import closing
from azure_scheduled_events_exporter.journal.access import writable
with closing(writable(Path(sys.argv[1]))) as store:
    store.connection.execute("BEGIN IMMEDIATE")
    # In steps: one long sleep would run out while the process is stopped.
    def ends() -> None:
        for _ in range(6):
            time.sleep(0.1)
        store.connection.rollback()
    threading.Thread(target=ends).start()
    print("waits", flush=True)
    journal.record()
print("up" if journal.state.up else "down", flush=True)
journal.close()
"""
    with subprocess.Popen(
        [sys.executable, "-c", code, str(folder)], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout
        assert process.stdout.readline() == "waits\n"
        time.sleep(0.3)  # so that it waits for its entry
        # All clocks go on, as on a host that pauses a VM.
        process.send_signal(signal.SIGSTOP)
        time.sleep(WAIT_SECONDS + 1)
        process.send_signal(signal.SIGCONT)
        assert process.stdout.readline() == "up\n"


def test_a_file_system_without_locks(folder: Path, tmp_path: Path) -> None:
    """A file system that grants no locks is reported as such, and not as another exporter."""
    library = tmp_path / "smb-locks.so"
    built = subprocess.run(
        ["cc", "-shared", "-fPIC", "-o", str(library), str(SMB_LOCKS), "-ldl"],
        check=False,
        capture_output=True,
    )
    if built.returncode != 0:
        pytest.skip("needs a C compiler")
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
        env={**os.environ, "LD_PRELOAD": str(library)},
    )
    assert done.stdout.startswith("this file system grants no lock")


def test_a_lock_of_another_process_is_told_apart(folder: Path) -> None:
    """A lock that is held is another exporter's."""
    file = folder / "journal.sqlite"
    with closing(writer_lock(file)), pytest.raises(JournalInUseError):
        writer_lock(file)
    assert [path.name for path in folder.iterdir() if "lock-test" in path.name] == []


def test_a_flood_is_told(folder: Path, start: Open) -> None:
    """A full queue drops its oldest entries, and the journal is not up for a minute."""
    recorder = start(folder)
    recorder.sees("A")
    life = recorder.known.current["A"]
    large = replace(life, event=replace(life.event, description="x" * 4096))
    with closing(writable(folder)) as store:
        store.connection.execute("BEGIN IMMEDIATE")
        entry_bytes = 50 * 4096
        for _ in range(MOST_BYTES // entry_bytes + 1):  # one more than the queue takes
            recorder.journal.record(lives=[large] * 50)
        store.connection.rollback()
    recorder.after(1).sees("A", "B")
    eventually(lambda: history(folder) == ["A", "B"], "what is left on disk")
    assert not recorder.is_up()
    assert recorder.journal.state.errors > 0


def test_the_tables_are_bounded(tmp_path: Path) -> None:
    """When they are too large, the oldest rows go; current events and counters stay."""
    watch = Watch()
    watch.sees(at(0), SCHEDULED)
    (life,) = watch.known.current.values()
    seen = Change(Transition.DETECTED, life, at(0))
    remembered = Remembered(watch.known, Statistics().plus([seen]))
    with closing(Store(sqlite3.connect(tmp_path / "journal.sqlite"), writes=True)) as store:
        store.write([life_entry(life)], remembered)
        for number in range(LARGEST_BYTES // (4 << 20) + 4):  # each writes almost 4 MiB
            transitions = [
                NewTransition(number * 40 + each, float(number), '{"at": "%s"}' % ("x" * 100_000))
                for each in range(1, 41)
            ]
            store.write(transitions, remembered)
        assert (tmp_path / "journal.sqlite").stat().st_size < LARGEST_BYTES * 1.2
        numbers = [seq for (seq,) in store.connection.execute("SELECT seq FROM transitions")]
        first, *_, last = numbers
        assert first > 40, "at least the transitions that were written first have gone"
        assert numbers == list(range(first, last + 1)), "the newest, without a gap"
        assert store.restore().statistics == remembered.statistics
        assert list(store.current()) == [life.event_id]
