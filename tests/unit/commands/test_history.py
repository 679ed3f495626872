"""The command ``history`` on a journal that is not what an exporter wrote."""

import os
import pty
import subprocess
from pathlib import Path

import pytest

from azure_scheduled_events_exporter.journal.disk.documents import keep
from azure_scheduled_events_exporter.recording.file import RecordedDocument
from support.commands import assert_one_line, command
from support.events.journal_recorder import START, bit_rot, recorders
from support.programs import COMMAND, environment


@pytest.fixture
def damaged(tmp_path: Path) -> Path:
    """Return a journal whose events are no JSON."""
    with recorders() as start:
        start(tmp_path / "state").sees("A")
    path = tmp_path / "state" / "journal.sqlite"
    bit_rot(path)
    return path


def test_damaged(damaged: Path) -> None:
    """A damaged journal is an error of one line."""
    for flags in ((), ("--json",)):
        done = command("history", "--journal.path", str(damaged), *flags)
        assert_one_line(done, 1, "cannot read the journal: a row does not hold JSON")


@pytest.fixture
def journal(tmp_path: Path) -> Path:
    """Return a journal that has kept one document."""
    return journal_with(b'{"Events": []}', tmp_path / "state")


def journal_with(body: bytes, folder: Path) -> Path:
    """Return the path of a journal in ``folder`` that has kept ``body``."""
    with recorders() as start:
        start(folder)
    path = folder / "journal.sqlite"
    keep(path, RecordedDocument(START, body, {"Date": "now"}))
    return path


def record(journal: Path, target: Path) -> subprocess.CompletedProcess[str]:
    """Run ``history --record``."""
    return command("history", "--journal.path", str(journal), "--record", str(target))


def test_a_recording_replaces_no_file(journal: Path) -> None:
    """``history --record`` writes a new file for this user alone, counts one document as one, and
    replaces no file.
    """
    target = journal.with_name("recording.json")
    assert record(journal, target).stderr.startswith(f"1 document written to {target}.\n")
    assert target.stat().st_mode & 0o777 == 0o600
    for place in (target, journal):
        before = place.read_bytes()
        assert_one_line(
            record(journal, place), 2, f"{place}: exists already: name another file, or remove it\n"
        )
        assert place.read_bytes() == before


def test_a_document_on_a_terminal(tmp_path: Path) -> None:
    """What a document contains cannot control a terminal; a pipe gets it unchanged."""
    body = b'{"Events": [],\n"Description": "\x1b]52;c;Zm9v\x07"}'
    journal_with(body, tmp_path)
    arguments = [COMMAND, "history", "--journal.path", str(tmp_path), "--documents", "1"]
    master, terminal = pty.openpty()
    subprocess.run(arguments, check=True, stdout=terminal, env=environment(), timeout=60)
    os.close(terminal)
    shown = os.read(master, 4096)
    os.close(master)
    # The characters of control are shown as escapes. A terminal ends lines with CR LF, so only the
    # words between spaces and ends of lines are compared.
    assert shown.split() == [b'{"Events":', b"[],", b'"Description":', rb'"\x1b]52;c;Zm9v\x07"}']
    done = subprocess.run(arguments, check=True, capture_output=True, env=environment(), timeout=60)
    assert done.stdout == body + b"\n"


def test_a_recording_to_standard_output(journal: Path) -> None:
    """``history --record /dev/stdout`` still writes to a pipe."""
    arguments = [COMMAND, "history", "--journal.path", str(journal), "--record", "/dev/stdout"]
    done = subprocess.run(
        arguments, check=True, capture_output=True, text=True, env=environment(), timeout=60
    )
    assert '"recording": 1' in done.stdout
