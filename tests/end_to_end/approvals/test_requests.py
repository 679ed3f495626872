"""What becomes of an approval that IMDS, its operator or the document disturbs between the request and the start."""

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from email.utils import formatdate
from pathlib import Path

import pytest

from azure_scheduled_events_exporter.simulator import Scenario, Simulator, What
from support.events.approve_command import VMS, approve, nothing_was_sent, queued, stopped
from support.events.gate import Gate, HeldApprovals, HeldPolls, Way
from support.programs import COMMAND, PATIENCE, Exporter, environment, eventually
from trials.clock import WallClock

POLL = ("--poll.interval", "250ms", "--instance.name", "vmss_0")
ID = "602D9444-D2CD-49C7-8624-8643E7171297"
LATER_SECONDS = 20
"""More than an operator waits: the timeout of a request, one poll interval and 15 s."""


@pytest.fixture
def simulator() -> Iterator[Simulator]:
    """Return a simulator whose events are placed by hand."""
    with Simulator(Scenario("quiet", "Nothing happens.", VMS, ())) as simulator:
        yield simulator


def event(minutes: float = 60, **more: object) -> dict[str, object]:
    """Return a Reboot of the first VM that a user has asked for."""
    return {
        "EventId": ID,
        "EventStatus": "Scheduled",
        "EventType": "Reboot",
        "ResourceType": "VirtualMachine",
        "Resources": ["vmss_0"],
        "NotBefore": formatdate(time.time() + 60 * minutes, usegmt=True),
        "Description": "",
        "EventSource": "User",
        "DurationInSeconds": -1,
        **more,
    }


def approvals(simulator: Simulator) -> list[str]:
    """Return the EventIds that IMDS was asked to start, one for each time."""
    return [happening.event_id for happening in simulator.record if happening.what is What.APPROVED]


def test_an_event_that_came_back(simulator: Simulator, state: Path, start_exporter: Callable[..., Exporter]) -> None:
    """An event that was over and is in the document again is approved by its id."""
    exporter = start_exporter(simulator.url, *POLL, "--journal.path", str(state))
    for document, transition in (([event()], "detected"), ([], "cancelled"), ([event()], "returned")):
        simulator.set_document(document)
        exporter.shows(transition, lambda scrape, name=transition: scrape.transitions().get(name) == 1)  # type: ignore[misc] # bound now
    done = approve(simulator.url, state, ID, "--yes")
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, f"{ID}: accepted"), done.stderr
    assert approvals(simulator) == [ID]


def test_a_document_that_is_partly_unreadable(
    simulator: Simulator, state: Path, start_exporter: Callable[..., Exporter]
) -> None:
    """Readable events of a document are approved immediately; an event without EventId is never sent to IMDS."""
    simulator.set_document([event()])  # IMDS knows it
    entries = [event(), {**event(), "EventId": ""}, None]
    simulator.serve_body(json.dumps({"DocumentIncarnation": 7, "Events": entries}).encode())
    with Gate(simulator.url) as gate:
        policy = ("--approval.policy", "documented")
        exporter = start_exporter(gate.url, *POLL, "--journal.path", str(state), *policy)
        exporter.shows("the approval", lambda scrape: scrape.total("event_approved") == 1)
        exporter.kill()
        # IMDS answers five requests a second; those of the exporter count.
        eventually(lambda: time.time() - simulator.requests[-1].at > 1, "a second without requests")
        began = time.monotonic()
        done = approve(gate.url, state / "other", ID, "--yes")
        assert (done.returncode, done.stdout.splitlines()[-1]) == (0, f"{ID}: accepted"), done.stderr
        assert time.monotonic() - began < 15
        assert [list(post.event_ids) for post in gate.posts] == [[ID], [ID]]


def test_not_before_moves_away_after_the_approval(
    simulator: Simulator, state: Path, start_exporter: Callable[..., Exporter]
) -> None:
    """If IMDS accepts an approval and then moves NotBefore further away, the policy approves once more."""
    simulator.set_document([event()])
    exporter = start_exporter(simulator.url, *POLL, "--journal.path", str(state), "--approval.policy", "documented")
    exporter.shows("the approval", lambda scrape: scrape.value("approval_requests_total", outcome="accepted") == 1)
    assert approvals(simulator) == [ID]
    simulator.set_document([event(minutes=120)])
    eventually(lambda: approvals(simulator) == [ID, ID], "the second approval")
    exporter.shows("it accepted", lambda scrape: scrape.value("approval_requests_total", outcome="accepted") == 2)
    assert exporter.scrape().transitions() == {"detected": 1, "approved": 1, "rescheduled": 1}


def test_not_before_moves_away_before_the_answer(
    simulator: Simulator, state: Path, start_exporter: Callable[..., Exporter]
) -> None:
    """If NotBefore moves away while IMDS has not answered the approval yet, the policy approves once more."""
    simulator.set_document([event()])
    with HeldApprovals(simulator.url) as gate:
        flags = ("--approval.policy", "documented", "--imds.timeout", "60s")
        exporter = start_exporter(gate.url, *POLL, "--journal.path", str(state), *flags)
        assert gate.asked.wait(PATIENCE)
        simulator.set_document([event(minutes=120)])
        exporter.shows("its new time", lambda scrape: scrape.transitions().get("rescheduled") == 1)
        gate.answer.set()
        exporter.shows("both accepted", lambda now: now.value("approval_requests_total", outcome="accepted") == 2)
    assert approvals(simulator) == [ID, ID]


def test_not_before_that_moves_in_each_document(
    simulator: Simulator, state: Path, start_exporter: Callable[..., Exporter]
) -> None:
    """An approved event whose NotBefore is a second later in each document is not approved at every poll."""
    simulator.set_document([event()])
    exporter = start_exporter(simulator.url, *POLL, "--journal.path", str(state), "--approval.policy", "documented")
    exporter.shows("the approval", lambda scrape: scrape.value("approval_requests_total", outcome="accepted") == 1)
    for seconds in range(2, 7):
        incarnation = simulator.set_document([event(minutes=60 + seconds / 60)])
        exporter.shows("it", lambda scrape, now=incarnation: scrape.value("document_incarnation") == now)  # type: ignore[misc] # bound now
    polls = exporter.scrape().value("polls_total", outcome="ok") or 0
    exporter.shows("polls", lambda scrape: (scrape.value("polls_total", outcome="ok") or 0) > polls + 2)
    assert approvals(simulator) == [ID]


def test_a_bad_event_of_the_policy(simulator: Simulator, state: Path, start_exporter: Callable[..., Exporter]) -> None:
    """An event that a policy approves and IMDS refuses does not fail an operator's event in the same request."""
    mine, bad = event(EventSource="Platform"), event(EventId="BAD")
    simulator.set_document([mine])
    with HeldPolls(simulator.url, lambda event_ids: 400 if "BAD" in event_ids else Way.PASS) as gate:
        flags = ("--approval.policy", "documented", "--imds.timeout", "60s")
        exporter = start_exporter(gate.url, *POLL, "--journal.path", str(state), *flags)
        exporter.shows("the event", lambda scrape: scrape.total("event_info") == 1)
        command = [COMMAND, "approve", "--imds.endpoint", gate.url, "--journal.path", str(state), ID, "--yes"]
        with gate.held():
            operator = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment())
            eventually(lambda: queued(state) == [ID], "the request")
            simulator.set_document([mine, bad])
        said, _ = operator.communicate(timeout=2 * PATIENCE)
        assert (operator.returncode, said.splitlines()[-1]) == (0, f"{ID}: accepted")
        assert set(gate.posts[0].event_ids) == {ID, "BAD"}
    assert approvals(simulator) == [ID]


@pytest.mark.parametrize("late", [False, True])
def test_approve_that_is_killed(
    late: bool,  # noqa: FBT001 - pytest hands it in by name
    simulator: Simulator,
    state: Path,
    tmp_path: Path,
    start_exporter: Callable[..., Exporter],
) -> None:
    """The request of a killed ``approve`` is sent once and counted as the operator's, or it has expired."""
    simulator.set_document([event()])
    clock = WallClock(tmp_path / "faketime")
    exporter = start_exporter(simulator.url, *POLL, "--journal.path", str(state), **clock.environment)
    exporter.shows("the event", lambda scrape: scrape.total("event_info") == 1)
    command = [COMMAND, "approve", "--imds.endpoint", simulator.url, *POLL[:2], "--imds.timeout", "1s"]
    with stopped(exporter, state):
        operator = subprocess.Popen(
            [*command, "--journal.path", str(state), ID, "--yes"], stdout=subprocess.DEVNULL, env=environment()
        )
        eventually(lambda: queued(state) == [ID], "the request")
        os.kill(operator.pid, signal.SIGKILL)
        operator.wait(PATIENCE)
        clock.set(LATER_SECONDS if late else 0)
    eventually(lambda: queued(state) == [], "a result")
    if late:
        nothing_was_sent(simulator, exporter)
    else:
        exporter.shows("approved", lambda scrape: scrape.total("event_approved") == 1)
        assert exporter.scrape().value("approval_latency_seconds_count", approved_by="operator") == 1
    assert approvals(simulator) == [ID] * (not late)
