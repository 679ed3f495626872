"""The command ``history`` on a journal that is not what an exporter wrote."""

import json
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


def test_an_event_that_cannot_be_read(tmp_path: Path) -> None:
    """An event that does not fit this version is left out, with a warning of one line, and the others are printed."""
    with recorders() as start:
        start(tmp_path / "state").sees("A", "B")
    path = tmp_path / "state" / "journal.sqlite"
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("""UPDATE lives SET life = '{"event": 5}' WHERE event_id = 'A'""")
    command = [COMMAND, "history", "--journal.path", str(path), "--json"]
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=environment(), timeout=60)
    assert [event["event_id"] for event in json.loads(done.stdout)] == ["B"]
    [line] = done.stderr.splitlines()
    assert line.startswith("history: at least one event is left out: bug: Lifecycle cannot be read from the journal: ")


@pytest.fixture
def journal(tmp_path: Path) -> Path:
    """Return a journal that has kept one document."""
    with recorders() as start:
        start(tmp_path / "state").journal.keep_document(RecordedDocument(START, b'{"Events": []}', {"Date": "now"}))
    return tmp_path / "state" / "journal.sqlite"


def record(journal: Path, target: Path | str) -> subprocess.CompletedProcess[str]:
    """Run ``history --record`` in the journal's folder."""
    command = [COMMAND, "history", "--journal.path", str(journal), "--record", str(target)]
    return subprocess.run(
        command, check=False, capture_output=True, text=True, cwd=journal.parent, env=environment(), timeout=60
    )


@pytest.mark.parametrize("suffix", ["", "-wal", "-shm", ".lock"])
@pytest.mark.parametrize("linked", [False, True], ids=["itself", "link"])
def test_a_recording_does_not_replace_the_journal(linked: bool, suffix: str, journal: Path) -> None:  # noqa: FBT001
    """``history --record`` refuses the journal's own files, also those that are not there now, and by another name."""
    before = journal.read_bytes()
    target = Path(f"{journal}{suffix}")
    if linked:
        target = journal.with_name("link")
        target.symlink_to(f"{journal}{suffix}")
    done = record(journal, target)
    assert done.returncode == 2, done.stderr
    assert done.stderr.endswith(f"{target}: belongs to the journal: name another file\n")
    assert journal.read_bytes() == before
    assert target.is_symlink() is linked


@pytest.mark.parametrize("content", [b"precious\n", b"\xff\xfe", b"{}"], ids=["text", "bytes", "JSON"])
def test_a_recording_does_not_replace_another_file(content: bytes, journal: Path) -> None:
    """``history --record`` overwrites no file that is not a recording itself."""
    target = journal.with_name("notes")
    target.write_bytes(content)
    done = record(journal, target)
    assert done.returncode == 2, done.stderr
    assert done.stderr.endswith(f"{target}: is there and is no recording: name another file, or remove it\n")
    assert target.read_bytes() == content


def test_a_recording_replaces_an_older_one(journal: Path) -> None:
    """``history --record`` overwrites a recording as a whole, keeps its permissions, and counts one document as one.

    An empty file, as ``mktemp`` makes it, may be there too.
    """
    journal.with_name("recording.json").touch()
    assert record(journal, "recording.json").stderr.startswith("1 document written to recording.json.\n")
    target = journal.with_name("recording.json")
    first = target.read_text()
    target.chmod(0o600)
    assert record(journal, target).returncode == 0
    assert (target.read_text(), target.stat().st_mode & 0o777) == (first, 0o600)
    assert not list(target.parent.glob("*.new"))


def test_a_recording_to_standard_output(journal: Path) -> None:
    """``history --record /dev/stdout`` still writes to a pipe."""
    assert '"recording": 1' in record(journal, "/dev/stdout").stdout
