"""What ``approve`` says of its requests if the disk of the journal fails for a moment."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from azure_scheduled_events_exporter.commands.approve.requests import (
    Asker,
    Ended,
    report,
    request_approvals,
)
from azure_scheduled_events_exporter.commands.interruption import uninterrupted
from azure_scheduled_events_exporter.config.resolution import resolve
from azure_scheduled_events_exporter.core.lifecycle import Approver
from azure_scheduled_events_exporter.journal.tables.store import Store
from support.events.lives import SCHEDULED, Watch, at
from support.programs import NOBODY

CONFIG = resolve({"imds.endpoint": f"http://{NOBODY}"}, {})
DISK_ERROR = "disk I/O error"


class FailingDisk(sqlite3.Connection):
    """A connection whose first read that begins with ``failing`` fails, as on a bad disk."""

    failing = ""

    def execute(self, sql: str, *values: object) -> sqlite3.Cursor:
        """Execute, or fail."""
        if self.failing and sql.startswith(self.failing):
            self.failing = ""
            raise sqlite3.OperationalError(DISK_ERROR)
        return super().execute(sql, *values)  # type: ignore[arg-type] # as the caller gave them


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[FailingDisk]:
    """Return a connection to a file without tables."""
    file = tmp_path / "journal.sqlite"
    with closing(sqlite3.connect(file, factory=FailingDisk)) as disk:
        yield disk


def ask(store: Store) -> Ended:
    """Request the approval of an event; return how that ended."""
    watch = Watch()
    watch.sees(at(0), SCHEDULED)
    with uninterrupted():  # afterwards, the signals that the command ignores are heard again
        return request_approvals(store, [watch.life], Asker("ada", Approver.OPERATOR), CONFIG)


def test_the_disk_fails_while_the_result_is_awaited(
    disk: FailingDisk, capsys: pytest.CaptureFixture[str]
) -> None:
    """A request that is withdrawn because the journal failed was certainly not sent, and the error
    names the journal, not IMDS.
    """
    store = Store(disk, writes=True)
    disk.failing = "SELECT number, result"
    ended = ask(store)
    assert report(ended, CONFIG) == 1
    said = capsys.readouterr()
    assert said.out.endswith(": withdrawn before it was sent\n")
    assert said.err == f"approve: the journal failed, so the request was withdrawn: {DISK_ERROR}\n"


def test_the_disk_fails_after_the_result(disk: FailingDisk) -> None:
    """What IMDS has accepted is reported as accepted, although the event cannot be read."""
    store = Store(disk, writes=True)
    # An exporter that has sent each request as soon as it is queued.
    disk.execute(
        "CREATE TRIGGER accepts AFTER INSERT ON approval_requests BEGIN UPDATE approval_requests"
        " SET result = 'accepted' WHERE number = new.number; END"
    )
    disk.failing = "SELECT life FROM lives"
    ended = ask(store)
    assert not disk.failing, "the disk has failed"
    assert list(ended.results.values()) == ["accepted"]
    assert ended.exit_status == 0
