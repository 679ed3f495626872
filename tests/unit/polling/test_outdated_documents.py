"""An approval whose document has become too old until it is about to be sent."""

import logging
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from azure_scheduled_events_exporter.journal.access import writable
from azure_scheduled_events_exporter.journal.content.inbox import ApprovalRequest
from azure_scheduled_events_exporter.simulator import Simulator
from azure_scheduled_events_exporter.snapshot.approvals import ApprovalOutcome
from support.events.gate import Gate
from support.events.machine import ID, START, Machine, event
from support.programs import eventually
from support.quiet import QUIET
from support.servers.http_peer import Request, Response


class SlowDocuments(Gate):
    """Sends a document ``delay`` seconds after it was asked for, by the clock of the machine."""

    def __init__(self, machine: Machine) -> None:
        super().__init__(machine.imds.url)
        self._machine = machine
        self.delay = 0.0

    def respond(self, request: Request) -> Response | None:
        """Let the time pass after the document is made."""
        response = super().respond(request)
        if "scheduledevents" in request.path and request.method == "GET":
            self._machine.clock.wall += self.delay
        return response


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    """Return a VM whose policy approves what users request."""
    with ExitStack() as stack:
        simulator = stack.enter_context(Simulator(QUIET, requests_per_second=1000))
        yield Machine(simulator, tmp_path / "state", stack, policy="documented")


@pytest.fixture
def imds(machine: Machine) -> Iterator[SlowDocuments]:
    """Return what the VM asks for documents."""
    with SlowDocuments(machine) as gate:
        machine.proxy = gate.url
        yield gate


def approvals_by_outcome(machine: Machine) -> dict[ApprovalOutcome, int]:
    """Return the requests to approve by outcome, without those that are 0."""
    assert machine.exporter
    counts = machine.exporter.poller.snapshot.approval_requests
    return {outcome: count for outcome, count in counts.items() if count}


def poll_until(machine: Machine, outcome: ApprovalOutcome) -> None:
    """Poll until an approval has this outcome; the first poll may not wait for it long enough."""

    def has_outcome() -> bool:
        machine.poll_outcome()
        return outcome in approvals_by_outcome(machine)

    eventually(has_outcome, f"an approval that is {outcome}")


def test_a_policy_decides_again(
    machine: Machine, imds: SlowDocuments, caplog: pytest.LogCaptureFixture
) -> None:
    """An approval is not sent if its document was asked for over 3 s ago. It is logged and counted
    as what it is, and the next document decides again, without a pause.
    """
    caplog.set_level(logging.INFO)
    imds.delay = 3.5
    machine.polls(0, event(EventSource="User"))
    poll_until(machine, ApprovalOutcome.OUTDATED)
    assert imds.posts == []
    assert set(approvals_by_outcome(machine)) == {ApprovalOutcome.OUTDATED}
    unsent = [each for each in caplog.records if each.message == "approval not sent"]
    assert unsent
    imds.delay = 2.5
    poll_until(machine, ApprovalOutcome.ACCEPTED)
    assert len(imds.posts) == 1


def test_a_request_waits(machine: Machine, imds: SlowDocuments) -> None:
    """An operator's request that was not sent, because the document was asked for over 3 s ago,
    waits for the next document.
    """
    machine.policy = "off"
    machine.polls(0, event())
    assert machine.exporter
    life = machine.exporter.poller.snapshot.current[ID]
    with closing(writable(machine.folder)) as store:
        [number] = store.requests.add([ApprovalRequest(life, "ada", START, START + 600)])
        imds.delay = 3.5
        poll_until(machine, ApprovalOutcome.OUTDATED)
        assert store.requests.results([number]) == {}
        imds.delay = 0.0
        poll_until(machine, ApprovalOutcome.ACCEPTED)
        results = eventually(lambda: store.requests.results([number]), "a result")
    assert results == {number: "accepted"}
    assert len(imds.posts) == 1
