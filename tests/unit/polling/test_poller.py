"""What each outcome of a poll shows, logs and keeps, against a simulator over HTTP."""

import logging
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from azure_scheduled_events_exporter.errors import Outcome
from azure_scheduled_events_exporter.simulator import Simulator
from azure_scheduled_events_exporter.snapshot.snapshot import Snapshot
from support.events.machine import ID, Machine, event
from support.quiet import QUIET


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    """A VM with a simulator of its own, and one event."""
    with ExitStack() as stack, Simulator(QUIET, requests_per_second=1000) as simulator:
        made = Machine(simulator, tmp_path / "state", stack)
        made.polls(0, event())
        yield made


def snapshot(machine: Machine) -> Snapshot:
    """Return what is published now."""
    assert machine.exporter
    return machine.exporter.poller.snapshot


def messages(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Return what was logged about polls."""
    return [each.message for each in caplog.records if "IMDS" in each.message]


@pytest.mark.parametrize(
    ("fault", "outcome"), [("503", Outcome.HTTP_ERROR), ("throttle", Outcome.THROTTLED)]
)
def test_a_failure_leaves_the_events(
    fault: str, outcome: Outcome, machine: Machine, caplog: pytest.LogCaptureFixture
) -> None:
    """Each poll that fails is counted, and only the first one is logged. The events stay, and
    ``up`` is 0 until a poll succeeds.
    """
    caplog.set_level(logging.INFO)
    machine.imds.inject(fault)
    assert [machine.poll_outcome() for _ in range(2)] == [outcome] * 2
    failed = snapshot(machine)
    assert list(failed.current) == [ID]
    assert not failed.polls.up
    assert failed.polls.failure
    assert failed.polls.outcomes[outcome] == 2
    machine.imds.heal()
    assert machine.poll_outcome() is Outcome.OK
    assert snapshot(machine).polls.up
    assert snapshot(machine).polls.failure == ""
    assert messages(caplog) == ["IMDS poll failed", "IMDS answers again"]


def test_a_partly_unreadable_document(machine: Machine) -> None:
    """What can be read of such a document is shown, nothing ends, and the poll counts as failed."""
    other = {**event(), "EventId": "OTHER"}
    without_an_id: dict[str, object] = {"EventStatus": "Scheduled"}
    machine.polls(1, other, without_an_id)
    partial = snapshot(machine)
    assert sorted(partial.current) == sorted([ID, "OTHER"])
    assert (partial.polls.up, partial.polls.partial) == (False, True)
    assert machine.transitions == {"detected": 2}


def test_an_unchanged_document_publishes_the_same_objects(machine: Machine) -> None:
    """Readers can cache by identity: what has not changed is the same object."""
    before = snapshot(machine)
    machine.poll_outcome()
    after = snapshot(machine)
    assert after is not before
    for name in ("current", "statistics", "ended", "recent", "hooks", "journal"):
        assert getattr(after, name) is getattr(before, name), name


@pytest.mark.parametrize(
    ("moments", "current"),
    [
        pytest.param((1, 6), [ID], id="two polls in 5 s"),
        pytest.param((1, 2, 3), [ID], id="three polls in 2 s"),
        pytest.param((1, 4, 6), [], id="three polls in 5 s"),
    ],
)
def test_an_empty_body(moments: tuple[int, ...], current: list[str], machine: Machine) -> None:
    """While an event is current, an empty body is believed after three polls and 5 s."""
    for moment in moments:
        machine.polls(moment, body=b"")
    assert list(snapshot(machine).current) == current


def test_a_body_that_cannot_be_read(machine: Machine) -> None:
    """A body that is no document is not taken for one without events: the event stays."""
    machine.polls(1, body=b'{"Events": {}}')
    assert list(snapshot(machine).current) == [ID]
    assert snapshot(machine).polls.outcomes[Outcome.INVALID_DOCUMENT] == 1
