"""Nothing ends the journal's thread: an error while it handles an error is logged, and it tries
again.
"""

import logging
import sqlite3
from pathlib import Path

import pytest

from azure_scheduled_events_exporter.journal.journal import Journal
from support.events.journal_recorder import DAY, LOG, Open, history
from support.programs import eventually


def test_a_file_that_cannot_be_closed(
    folder: Path, start: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A dead disk fails when its files are closed, too; later the journal goes on."""
    connect = sqlite3.connect

    class Stubborn(sqlite3.Connection):
        """A connection that cannot be closed."""

        def close(self) -> None:
            super().close()
            raise sqlite3.OperationalError("disk I/O error")

    monkeypatch.setattr(
        sqlite3, "connect", lambda *names, **more: connect(*names, factory=Stubborn, **more)
    )
    recorder = start(folder)
    recorder.sees("A")
    for path in folder.iterdir():  # the journal notices it, and closes its connection
        path.unlink()
    recorder.after(1).sees("A", "B")
    monkeypatch.undo()
    recorder.regains_disk()
    assert history(folder) == ["A", "B"]


class FailingHandler(logging.Handler):
    """A log on the disk that has failed."""

    def emit(self, record: logging.LogRecord) -> None:
        """Raise an error."""
        raise RuntimeError(f"cannot be written: {record.getMessage()}")


def test_a_log_that_cannot_be_written(tmp_path: Path) -> None:
    """The journal goes on after a failure, also if the log cannot take the line about it."""
    log = logging.getLogger("tests.journal.writer")
    log.addHandler(FailingHandler())
    in_the_way = tmp_path / "state"
    in_the_way.write_text("a file where the folder is to be")
    journal = Journal(in_the_way / "journal.sqlite", 90 * DAY, log)
    try:
        eventually(lambda: journal.state.errors, "a failure")
        # Both are mended: the log, and the place of the journal.
        log.handlers.clear()
        in_the_way.unlink()
        eventually(journal.adopt, "the journal is read")
        journal.record()
        eventually(lambda: journal.state.up, "the journal is on disk")
    finally:
        journal.close()


def test_an_error_that_nothing_expects(
    folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """While each attempt fails with an error of no expected type, the journal is not up, and one
    line of the log has the traceback. Once the attempts succeed, the journal is read and written.
    """

    def connect(*_: object, **__: object) -> None:
        raise RuntimeError("nobody has thought of this")

    monkeypatch.setattr(sqlite3, "connect", connect)
    journal = Journal(folder, 90 * DAY, LOG)
    try:
        eventually(lambda: journal.state.errors > 1, "two attempts")
        assert not journal.state.up
        monkeypatch.undo()
        eventually(journal.adopt, "the journal is read")
        journal.record()
        eventually(lambda: journal.state.up, "the journal is on disk")
    finally:
        journal.close()
    logged = [each for each in caplog.records if each.exc_info]
    assert [each.message for each in logged] == ["internal error in the journal's thread; retrying"]
