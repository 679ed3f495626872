"""The command ``history`` on a journal that is not what an exporter wrote."""

import sqlite3
import subprocess
from contextlib import closing
from pathlib import Path

import pytest

from azure_scheduled_events_exporter.recording.file import RecordedDocument
from support.events.journal_recorder import START, bit_rot, recorders
from support.programs import COMMAND, environment


@pytest.fixture
def damaged(tmp_path: Path) -> Path:
    """Return a journal whose events and documents are no JSON."""
    with recorders() as start:
        recorder = start(tmp_path / "state")
        recorder.sees("A")
        recorder.journal.keep_document(RecordedDocument(START, b"{}", {"Date": "now"}))
    path = tmp_path / "state" / "journal.sqlite"
    bit_rot(path)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("UPDATE documents SET headers = substr(headers, 3)")
        connection.commit()
    return path


@pytest.mark.parametrize("flags", [(), ("--json",), ("--documents",), ("--record", "record.json")], ids=" ".join)
def test_damaged(flags: tuple[str, ...], damaged: Path, tmp_path: Path) -> None:
    """A damaged journal is an error of one line."""
    done = subprocess.run(
        [COMMAND, "history", "--journal.path", str(damaged), *flags],
        check=False,
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env=environment(),
        timeout=60,
    )
    assert done.returncode == 1
    [line] = done.stderr.splitlines()
    assert line.startswith("azure-scheduled-events-exporter: cannot read the journal: a row ")
