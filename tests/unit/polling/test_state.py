"""What is known when the journal is read late, and how much of what IMDS sends is known at all.

An event that starts before its NotBefore, as here, has been approved by somebody: "approved" is
counted and journalled before "started".
"""

import logging
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from azure_scheduled_events_exporter.core.bounds import MOST_PEERS
from azure_scheduled_events_exporter.polling.state import JOURNAL_SECONDS
from azure_scheduled_events_exporter.simulator import Simulator, What
from support.events.journal_contents import rows
from support.events.machine import ID, Machine, event
from support.programs import eventually
from support.quiet import QUIET

UNREADABLE: dict[str, object] = {"EventType": "Reboot"}
"""An entry of a document that is no event, as it has no EventId: it could stand for any event, so
no event ends because this document lacks it.
"""


@pytest.fixture
def disk_works(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """While this is not set, no journal can be opened: each attempt is a disk error."""
    works = threading.Event()
    works.set()
    connect = sqlite3.connect

    def connect_on_the_disk(database: str | Path, **more: object) -> sqlite3.Connection:
        if "journal.sqlite" in str(database) and not works.is_set():
            error = sqlite3.OperationalError("disk I/O error")
            error.sqlite_errorcode = sqlite3.SQLITE_IOERR
            raise error
        return connect(database, **more)  # type: ignore[call-overload,no-any-return]

    monkeypatch.setattr(sqlite3, "connect", connect_on_the_disk)
    return works


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    """A VM with a simulator of its own."""
    with ExitStack() as stack, Simulator(QUIET, requests_per_second=1000) as simulator:
        yield Machine(simulator, tmp_path / "state", stack)


def reads_its_journal(machine: Machine, at: float, *events: dict[str, object]) -> None:
    """Poll until the journal is known."""
    assert machine.exporter
    state = machine.exporter.poller.state

    def polls() -> bool:
        machine.polls(at, *events)
        return state.has_journal

    eventually(polls, "the journal")


def test_nothing_is_detected_twice(machine: Machine, disk_works: threading.Event) -> None:
    """An event that the journal knows is shown before the journal is read, and counted once."""
    machine.polls(0, event())
    machine.ends(in_order=True)
    disk_works.clear()
    machine.polls(10, event())
    assert machine.exporter
    snapshot = machine.exporter.poller.snapshot
    assert list(snapshot.current) == [ID]
    assert not snapshot.journal.up
    disk_works.set()
    reads_its_journal(machine, 11, event())
    assert machine.transitions == {"detected": 1}
    machine.polls(12, event(status="Started"))
    assert machine.transitions == {"detected": 1, "approved": 1, "started": 1}
    machine.ends(in_order=True)
    assert [what for _, what in rows(machine.folder)] == ["detected", "approved", "started"]


def test_what_happens_before_the_journal_is_read_is_kept(
    machine: Machine, disk_works: threading.Event
) -> None:
    """Transitions from before the journal was read are in it in their order, after those of earlier
    runs.
    """
    machine.polls(0, event())
    machine.ends(in_order=True)
    disk_works.clear()
    other = {**event(), "EventId": "OTHER"}
    machine.polls(10, event(), other)
    machine.polls(11, event(status="Started"), other)
    machine.polls(12, event(status="Started"))
    disk_works.set()
    reads_its_journal(machine, 13, event(status="Started"))
    machine.ends(in_order=True)
    assert rows(machine.folder) == [
        (ID, "detected"),
        ("OTHER", "detected"),
        (ID, "approved"),
        (ID, "started"),
        ("OTHER", "cancelled"),
    ]


def test_no_approval_is_sent_twice(machine: Machine, disk_works: threading.Event) -> None:
    """An approval that only the journal knows is not sent again while the journal is not read."""
    machine.policy = "documented"
    machine.polls(0, event(EventSource="User"))
    sent = [each for each in machine.imds.record if each.what is What.APPROVED]
    assert len(sent) == 1
    machine.ends(in_order=True)
    disk_works.clear()
    machine.polls(10, event(EventSource="User"))
    disk_works.set()
    reads_its_journal(machine, 11, event(EventSource="User"))
    machine.polls(12, event(EventSource="User"))
    assert [each for each in machine.imds.record if each.what is What.APPROVED] == sent


def test_a_disk_that_fails_delays_no_poll(machine: Machine, disk_works: threading.Event) -> None:
    """While no journal can be opened, the first poll waits for it only briefly, and then shows an
    event.
    """
    disk_works.clear()
    began = time.monotonic()
    machine.polls(0, event())
    rest_of_the_poll = 1
    assert time.monotonic() - began < JOURNAL_SECONDS + rest_of_the_poll
    assert machine.transitions == {"detected": 1}


def test_a_transition_is_logged_once(
    machine: Machine, disk_works: threading.Event, caplog: pytest.LogCaptureFixture
) -> None:
    """A transition that is logged before the journal is read is not logged again after that."""
    machine.polls(0)
    machine.ends(in_order=True)
    caplog.set_level(logging.INFO)
    disk_works.clear()
    machine.polls(10, event())
    disk_works.set()
    reads_its_journal(machine, 11, event())
    messages = [each.message for each in caplog.records]
    assert messages.count("event detected") == 1


def test_a_long_description_is_cut_in_the_log(
    machine: Machine, caplog: pytest.LogCaptureFixture
) -> None:
    """A line of the log has the beginning of a description, and an ellipsis."""
    caplog.set_level(logging.INFO)
    machine.polls(0, event(Description="x" * 200_000))
    [line] = [each for each in caplog.records if each.message == "event detected"]
    assert line.__dict__["facts"]["description"] == "x" * 1000 + "…"


def test_events_are_bounded(machine: Machine) -> None:
    """Of very many events of other VMs, those that are known stay, and those that are left out are
    counted; an event of this VM is known at once.
    """
    peers = [{**event(), "EventId": f"P{n}", "Resources": ["vmss_1"]} for n in range(1500)]
    known_before = peers[:10]
    machine.polls(0, *known_before)
    known_ones_last = reversed(peers)
    machine.polls(1, *known_ones_last, event())
    assert machine.exporter
    snapshot = machine.exporter.poller.snapshot
    assert len(snapshot.current) == MOST_PEERS + 1
    assert ID in snapshot.current
    assert {each["EventId"] for each in known_before} <= snapshot.current.keys()
    assert snapshot.events_dropped == len(peers) - MOST_PEERS
    assert machine.transitions == {"detected": MOST_PEERS + 1}


def test_events_of_partly_unreadable_documents_are_bounded(
    machine: Machine, caplog: pytest.LogCaptureFixture
) -> None:
    """Partly unreadable documents end no event, so the events of each come on top of those before.

    What is left out is counted, and logged once. After a restart, the journal has no more events,
    and none is added.
    """
    documents = 3
    in_each = 600
    for second in range(documents):
        peers = [
            {**event(), "EventId": f"{second}-{n}", "Resources": ["a"]} for n in range(in_each)
        ]
        machine.polls(second, *peers, UNREADABLE)
    assert machine.exporter
    assert len(machine.exporter.poller.snapshot.current) == MOST_PEERS
    dropped = machine.exporter.poller.snapshot.events_dropped
    assert dropped == documents * in_each - MOST_PEERS
    warnings = [each for each in caplog.records if "new ones" in str(each.__dict__.get("facts"))]
    assert len(warnings) == 1
    machine.ends(in_order=True)
    machine.polls(10, *peers, UNREADABLE)
    assert len(machine.exporter.poller.snapshot.current) == MOST_PEERS
