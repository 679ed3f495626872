"""Where the file is, who may use it, and what is refused in its place."""

import os
import shutil
import sqlite3
import stat
import time
from contextlib import closing
from pathlib import Path

import pytest

from azure_scheduled_events_exporter.errors import ExporterError
from azure_scheduled_events_exporter.journal.access import writable
from azure_scheduled_events_exporter.journal.disk.location import file_path
from support.events.journal_recorder import Open, set_aside


@pytest.mark.parametrize(
    ("path", "file"),
    [
        pytest.param("state", "state/journal.sqlite", id="a folder"),
        pytest.param("state/j.db", "state/j.db", id="a file, by its ending"),
        pytest.param("exists", "exists", id="a file that exists"),
    ],
)
def test_a_folder_or_a_file(path: str, file: str, tmp_path: Path) -> None:
    """--journal.path names a folder, or the file itself."""
    (tmp_path / "exists").touch()
    assert file_path(tmp_path / path) == tmp_path / file


def test_nobody_else_can_read_it(folder: Path, start: Open) -> None:
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


def test_folders_owner(folder: Path, start: Open) -> None:
    """What root creates belongs to the owner of the folder, whose service must use it."""
    nobody = 65534  # its uid and gid on Debian
    folder.mkdir()
    if os.geteuid() == 0:
        os.chown(folder, nobody, nobody)
    start(folder).sees("A")
    assert {path.owner() for path in folder.iterdir()} == {folder.owner()}


def test_power_cuts_are_provided_for(folder: Path, start: Open) -> None:
    """The file is in WAL mode, and every commit waits for the disk."""
    start(folder).sees("A")
    with closing(writable(folder)) as store:
        assert store.connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        full = 2  # SQLite's number for it
        assert store.connection.execute("PRAGMA synchronous").fetchone() == (full,)


def test_another_programs_file(tmp_path: Path, start: Open) -> None:
    """A file that was named by mistake is refused and stays."""
    file = tmp_path / "passwd"
    file.write_text("root:x:0:0\n" * 100)
    with pytest.raises(ExporterError, match=r"passwd cannot be used as --journal\.path"):
        start(file)
    assert [path.name for path in tmp_path.iterdir()] == ["passwd"]


def test_a_damaged_journal_of_any_name(tmp_path: Path, start: Open) -> None:
    """A damaged journal is set aside, and not refused as another program's file: the file of its
    lock, which stays beside it, shows that it was a journal.
    """
    start(tmp_path / "mine.db").journal.close()
    assert (tmp_path / "mine.db.lock").exists()
    (tmp_path / "mine.db").write_text("damage\n" * 100)
    assert start(tmp_path / "mine.db").is_up()
    assert len(set_aside(tmp_path)) == 1


def test_a_log_of_one_header(folder: Path, start: Open) -> None:
    """A write-ahead log of SQLite that has a header and no frame, as a stop after the first sync
    leaves it, costs no time, and the journal is sound.
    """
    before = start(folder)
    before.sees("A", "B")
    file = folder / "journal.sqlite"
    copy = folder.parent / "copy"
    with closing(sqlite3.connect(file)) as connection:
        # The file has everything now. The log lasts until the last connection is closed.
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
    assert set_aside(copy) == [], "it is sound"
