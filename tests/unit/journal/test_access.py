"""Commands open a journal beside its exporter, or learn why they cannot."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from azure_scheduled_events_exporter.errors import ExporterError
from azure_scheduled_events_exporter.journal.access import read_only, writable
from azure_scheduled_events_exporter.journal.disk.location import file_path
from support.events.journal_recorder import Open, history


@pytest.mark.parametrize("name", ["a b", "100%25", "what?mode=rw", "number#1"])
def test_any_name_can_be_read(name: str, tmp_path: Path, start: Open) -> None:
    """The history can be read in a folder of any name: SQLite opens a file that is only read by a
    URI, in which these characters would mean something.
    """
    start(tmp_path / name).sees("A")
    assert history(tmp_path / name) == ["A"]


def test_no_journal_to_read(tmp_path: Path) -> None:
    """Reading a journal that does not exist is an error with its path, and creates no file."""
    with pytest.raises(ExporterError, match=r"there is no journal at .*journal\.sqlite"):
        read_only(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_an_empty_journal_to_read(tmp_path: Path) -> None:
    """Reading a journal that has just been created is an error that says so, and the file stays
    empty.
    """
    (tmp_path / "journal.sqlite").touch()
    with pytest.raises(ExporterError, match="cannot be read: nothing has been written to it yet"):
        read_only(tmp_path)
    assert (tmp_path / "journal.sqlite").stat().st_size == 0


def test_a_write_that_does_not_end(folder: Path, start: Open) -> None:
    """A command that cannot write because a process hangs in its write says so, and does not
    advise to be root.
    """
    start(folder).sees("A")
    with closing(sqlite3.connect(file_path(folder), isolation_level=None)) as hanging:
        hanging.execute("BEGIN IMMEDIATE")
        with pytest.raises(
            ExporterError, match=r"written: database is locked .*; restart .*, and try again$"
        ) as caught:
            writable(folder)
    assert "as root" not in str(caught.value)
