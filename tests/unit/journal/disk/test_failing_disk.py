"""On a disk that is full, read-only or in the way, and beside other programs that lock the file,
entries wait in memory, in their order, and nobody waits for longer than 2 s.
"""

import logging
import sqlite3
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest

from azure_scheduled_events_exporter.journal.access import writable
from azure_scheduled_events_exporter.journal.content.remembered import Remembered
from azure_scheduled_events_exporter.snapshot.hooks import HookRun
from support.events.journal_recorder import MANY, Open, history, transitions
from support.hosts.small_disk import SmallDisk

WAITS = "journal cannot be written: entries wait in memory until it can be"


def test_full_in_mid_event(disk: SmallDisk, caplog: pytest.LogCaptureFixture) -> None:
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
        for span in recorder.journal.queued_spans(MANY).values()
    )
    assert (newest, next_newest) == ("D", "B"), (
        "spans that wait for the disk can be sent: that of D's beginning, and those of B's end"
    )
    disk.works_again()
    recorder.regains_disk()
    numbers = [(number, record["event_id"]) for number, record in transitions(disk.folder)]
    assert numbers == [(1, "A"), (2, "B"), (3, "C"), (4, "B"), (5, "D")], "4 is the end of B"
    assert [each.message for each in caplog.records] == [WAITS, "journal is on disk again"]
    recorder.journal.close()
    after = disk.begin(disk.folder)
    assert (after.statistics, after.lives) == (recorder.statistics, recorder.lives)
    spans = after.journal.queued_spans(MANY)
    assert len(spans) == after.journal.spans_queued(), "every span on disk can be read"


@pytest.mark.parametrize(
    "trouble", [SmallDisk.fill, partial(SmallDisk.writable, yes=False)], ids=["full", "read-only"]
)
def test_at_the_start(
    trouble: Callable[[SmallDisk], None], disk: SmallDisk, caplog: pytest.LogCaptureFixture
) -> None:
    """A journal on a disk that is full or read-only at the start is read; what comes is added
    later.
    """
    before = disk.begin(disk.folder)
    before.sees("OLD", "OPEN")
    before.after(5).sees("OPEN")
    run = HookRun("run", "script", "OPEN", "Freeze", "prepare", started=before.now.wall)
    with closing(writable(disk.folder)) as store:
        store.hook_runs.put(run)
    before.journal.close()
    trouble(disk)
    recorder = disk.begin(disk.folder)
    assert not recorder.is_up()
    assert recorder.journal.inbox.runs == [run]
    assert len(recorder.journal.queued_spans(MANY)) == before.journal.spans_queued()
    assert (recorder.lives, recorder.statistics) == (before.lives, before.statistics)
    recorder.after(5).sees("OPEN", "NEW")
    assert history(disk.folder) == ["OLD", "OPEN"]
    disk.works_again()
    recorder.regains_disk()
    assert history(disk.folder) == ["NEW", "OLD", "OPEN"]
    assert [each.message for each in caplog.records if each.levelname == "ERROR"] == [WAITS]
    recorder.journal.close()
    after = disk.begin(disk.folder)
    assert (after.lives, after.statistics) == (recorder.lives, recorder.statistics)


def test_another_vms_journal_on_a_full_disk(
    disk: SmallDisk, caplog: pytest.LogCaptureFixture
) -> None:
    """What is known of another VM is forgotten also if the disk has no room for a journal of
    this VM.
    """
    before = disk.begin(disk.folder)
    assert not before.journal.claim("one"), "it was no other VM's"
    before.sees("THEIRS")
    before.journal.close()
    disk.fill()
    recorder = disk.begin(disk.folder)
    assert recorder.journal.claim("two"), "it was another VM's"
    said = "journal belongs to another VM: begun anew, and the file is kept under another name"
    assert [each.message for each in caplog.records].count(said) == 1
    recorder.take(Remembered())  # as the poller does when the journal is another VM's
    recorder.sees("OURS")
    disk.works_again()
    recorder.regains_disk()
    assert history(disk.folder) == ["OURS"]


def test_a_path_that_cannot_be(
    tmp_path: Path, start: Open, caplog: pytest.LogCaptureFixture
) -> None:
    """While a file is where a folder should be, entries wait in memory, and the log has the reason
    in the system's words. When the file is gone, the folder is made and the entries are written.
    """
    (tmp_path / "state").write_text("in the way")
    recorder = start(tmp_path / "state" / "deep" / "journal.sqlite")
    recorder.sees("A")
    assert not recorder.is_up()
    assert (tmp_path / "state").read_text() == "in the way"
    (record,) = (each for each in caplog.records if each.message == WAITS)
    assert record.facts["error"] == "Not a directory"  # type: ignore[attr-defined]
    (tmp_path / "state").unlink()
    recorder.regains_disk()
    assert history(tmp_path / "state" / "deep" / "journal.sqlite") == ["A"]


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


def test_entries_wait_for_a_write_lock(folder: Path, start: Open) -> None:
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
