"""The command ``report`` on the journal of an exporter."""

from pathlib import Path

import pytest

from support.commands import assert_one_line, command
from support.events.journal_recorder import recorders


@pytest.fixture
def journal(tmp_path: Path) -> Path:
    """Return a journal with two events."""
    with recorders() as start:
        recorder = start(tmp_path)
        recorder.sees("A")
        recorder.after(5).sees("A", "B")
    return tmp_path


def test_reports(journal: Path) -> None:
    """An event is named by its id in any case, or is the last one; both forms go to the output."""
    flags = ("--journal.path", str(journal))
    by_id = command("report", "a", *flags, "--trace-link", "https://traces.example/{trace_id}")
    assert by_id.returncode == 0, by_id.stderr
    assert "- **EventId:** `A`\n" in by_id.stdout
    assert "<https://traces.example/" in by_id.stdout
    last = command("report", "--last", "--format", "html", *flags)
    assert last.stdout.startswith("<!doctype html>")
    assert "<dd><bdi>B</bdi></dd>" in last.stdout


def test_mistakes(journal: Path, tmp_path: Path) -> None:
    """A mistake in the command line, an unknown event and a missing journal are one line each."""
    flags = ("--journal.path", str(journal))
    for words, status, said in (
        ((), 2, "report: give one EventId, or --last"),
        (("A", "--last"), 2, "report: give one EventId, or --last"),
        (("C",), 1, "the journal has no event C: 'history' lists its events"),
        (("A", "--trace-link", "https://traces.example/"), 2, "--trace-link: write an address"),
        (("A", "--trace-link", "javascript:{trace_id}"), 2, "--trace-link: write an address"),
    ):
        assert_one_line(command("report", *words, *flags), status, said)
    missing = command("report", "--last", "--journal.path", str(tmp_path / "none"))
    assert_one_line(missing, 1, "there is no journal at")
