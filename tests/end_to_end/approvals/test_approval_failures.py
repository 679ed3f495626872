"""Approvals that IMDS refuses or does not answer, also if the exporter is killed meanwhile.

A ``Gate`` stands before the simulator. Each approval is treated by the next of its rules, which is
a status to answer with or a ``Way``: with HANG, IMDS never hears of the approval. With LOSE and
LATE, IMDS obeys it, but the exporter gets no answer: the connection ends at once, or stays open.
"""

import itertools
import json
import math
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from azure_scheduled_events_exporter.simulator import (
    PlannedEvent,
    Scenario,
    Simulator,
    VirtualMachine,
    What,
)
from support.events.gate import Gate, Rule, Treatment, Way
from support.programs import PATIENCE, Exporter, Scrape, eventually, fetch
from support.servers.http_peer import Request, Response

VMS = (VirtualMachine("vmss_0", scale_set="vmss"), VirtualMachine("vmss_1", scale_set="vmss"))
FLAGS = ("--poll.interval", "250ms", "--approval.policy", "documented")
SCHEDULED_EVENTS = "/metadata/scheduledevents?api-version=2020-07-01"
IMDS_REQUESTS_A_SECOND = 5
"""What Azure documents as the limit of a VM."""


def reboot(approval_delay: float = 0.0, *, count: int = 1) -> Scenario:
    """Return a scenario that begins with ``count`` restarts of the first VM, requested by a user.

    Each starts ``approval_delay`` seconds after it was approved.
    """
    event = PlannedEvent(
        "Reboot", ("vmss_0",), source="User", announced_at=0.0, approval_delay=approval_delay
    )
    return Scenario("reboot", "A restart.", VMS, (event,) * count)


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    """Return a stack of what is to end with the test."""
    with ExitStack() as stack:
        yield stack


def approvals(scrape: Scrape) -> dict[str, float]:
    """Return the requests to approve by outcome, without those that are 0."""
    counted = {
        labels["outcome"]: value for labels, value in scrape.series("approval_requests_total")
    }
    return {outcome: value for outcome, value in counted.items() if value}


def latencies(scrape: Scrape) -> dict[str, float]:
    """Return how many approvals were counted, by approver."""
    return {
        labels["approved_by"]: value
        for labels, value in scrape.series("approval_latency_seconds_count")
    }


@dataclass(frozen=True)
class Failure:
    """What becomes of the first and second approval, and how the exporter counts these two.

    The third approval is accepted.
    """

    first: Rule
    second: Rule
    counted: dict[str, float]


FAILURES = {
    "400": Failure(400, 400, counted={"rejected": 2}),
    "409": Failure(409, 409, counted={"rejected": 2}),
    "429": Failure(429, 429, counted={"rejected": 2}),
    "500": Failure(500, 500, counted={"error": 2}),
    "timeout": Failure(Way.HANG, Way.HANG, counted={"error": 2}),
    "lost": Failure(Way.LOSE, 409, counted={"error": 1, "rejected": 1}),
}
FIRST_PAUSE = 1.0  # seconds between the first approval and the second
SECOND_PAUSE = 2 * FIRST_PAUSE


def test_failures(stack: ExitStack, start_exporter: Callable[..., Exporter]) -> None:
    """An approval that IMDS did not accept is not reported, and is retried with growing delays
    until it is accepted.
    """
    # All failures happen at the same time, each to an exporter of its own: their pauses add up to
    # half a minute otherwise.
    gates: dict[str, Gate] = {}
    exporters: dict[str, Exporter] = {}
    for name, failure in FAILURES.items():
        simulator = stack.enter_context(Simulator(reboot(approval_delay=3600)))
        gate = Gate(simulator.url, failure.first, failure.second, Way.PASS)
        gates[name] = stack.enter_context(gate)
        timeout = ("--imds.timeout", "3s") if failure.first is Way.HANG else ()
        exporters[name] = start_exporter(gate.url, *FLAGS, *timeout)
    for name, exporter in exporters.items():
        _assert_two_failures_are_no_approval(name, exporter, gates[name])
    for name, exporter in exporters.items():
        _assert_accepted_at_the_third_time(name, exporter, gates[name])
    _assert_audit(exporters["409"], gates["409"])
    assert len(exporters["timeout"].lines('msg="approval without an answer"')) == 2


def _assert_two_failures_are_no_approval(name: str, exporter: Exporter, gate: Gate) -> None:
    """After two approvals that failed, nothing is reported as approved."""
    eventually(lambda: len(gate.posts) >= 2, f"{name}: two approvals")
    scrape = exporter.scrape()
    # On a busy machine, the scrape may come after the third approval, which is accepted.
    if len(gate.posts) == 2:
        assert scrape.total("event_approved") == 0, name
        assert not scrape.transitions(transition="approved"), name
        assert not latencies(scrape), name


def _assert_accepted_at_the_third_time(name: str, exporter: Exporter, gate: Gate) -> None:
    """The third approval is reported, and came after the pauses; polls were never throttled."""
    exporter.shows(f"{name}: approved", lambda scrape: scrape.total("event_approved") == 1)
    requests = {**FAILURES[name].counted, "accepted": 1}
    exporter.shows(f"{name}: its requests", lambda scrape: approvals(scrape) == requests)
    scrape = exporter.scrape()
    assert scrape.transitions(transition="approved") == {"approved": 1}, name
    assert latencies(scrape) == {"exporter": 1}, name
    assert scrape.total("approval_latency_seconds_sum") >= FIRST_PAUSE + SECOND_PAUSE, name
    first, second, third = gate.posts
    assert second.at - first.at >= FIRST_PAUSE, name
    assert third.at - second.at >= SECOND_PAUSE, name
    _assert_a_poll_between_approvals(gate)
    assert gate.most_in_a_second() <= IMDS_REQUESTS_A_SECOND, name
    assert scrape.value("polls_total", outcome="throttled") == 0, name


def _assert_audit(exporter: Exporter, gate: Gate) -> None:
    """The log has who approves, the event and VMs of each request, and the answer of IMDS.

    "not today" is the text of the gate; "user-asked" is a rule of the policy ``documented``.
    """
    (event_id,) = gate.posts[0].event_ids
    said = (
        f"event_id={event_id} event_type=Reboot approved_by=exporter who=user-asked"
        " resources=vmss_0"
    )
    assert len(exporter.lines(f"msg=approving {said}")) == 3, "two are refused, one is accepted"
    refused = exporter.lines('msg="approval refused"')
    assert len(refused) == 2
    assert all(
        f'{said} error="{gate.url} answered 409: not today; the cause is unknown"' in line
        for line in refused
    )
    assert len(exporter.lines(f'msg="approval accepted" {said}')) == 1


def _assert_a_poll_between_approvals(gate: Gate) -> None:
    """Before each further approval, the exporter has read the events again."""
    methods = [arrival.method for arrival in gate.arrivals if "scheduledevents" in arrival.path]
    assert ("POST", "POST") not in itertools.pairwise(methods)


def test_another_approver_was_faster(
    stack: ExitStack, start_exporter: Callable[..., Exporter]
) -> None:
    """A refusal is not counted as one if the event has started, because another approver was
    faster.
    """
    simulator = stack.enter_context(Simulator(reboot()))

    def refuses_after_another(event_ids: Sequence[str]) -> int:
        """Let the other VM approve the event, and refuse the exporter's own approval."""
        body = json.dumps({"StartRequests": [{"EventId": each} for each in event_ids]}).encode()
        url = simulator.vm_url("vmss_1") + SCHEDULED_EVENTS
        answer = fetch(url, "POST", body, Metadata="true")
        assert answer.status == 200
        return 400

    gate = stack.enter_context(Gate(simulator.url, refuses_after_another))
    exporter = start_exporter(gate.url, *FLAGS)
    exporter.shows("too late", lambda scrape: approvals(scrape) == {"too_late": 1})
    assert latencies(exporter.scrape()) == {"external": 1}


def test_one_request_for_each_event(
    stack: ExitStack, start_exporter: Callable[..., Exporter]
) -> None:
    """Each event that is due has a request of its own, so that one that IMDS refuses does not hold
    up the others.
    """
    simulator = stack.enter_context(Simulator(reboot(approval_delay=3600, count=3)))
    refused: list[str] = []

    def refuses_one_event(event_ids: Sequence[str]) -> Treatment:
        """Refuse the event that is approved first, each time it comes; pass on the others."""
        if not refused:
            refused.append(event_ids[0])
        return 400 if refused[0] in event_ids else Way.PASS

    gate = stack.enter_context(Gate(simulator.url, refuses_one_event))
    exporter = start_exporter(gate.url, *FLAGS)
    exporter.shows("the two others", lambda scrape: scrape.total("event_approved") == 2)
    assert all(len(post.event_ids) == 1 for post in gate.posts)
    _assert_a_poll_between_approvals(gate)
    exporter.shows(
        "their answers",
        lambda scrape: scrape.value("approval_requests_total", outcome="accepted") == 2,
    )
    gate.treat(Way.PASS)
    exporter.shows("all", lambda scrape: scrape.total("event_approved") == 3)
    approved = [happening for happening in simulator.record if happening.what is What.APPROVED]
    assert len(approved) == 3


@pytest.mark.parametrize("way", [Way.HANG, Way.LATE])
def test_killed_before_the_answer(
    way: Way, stack: ExitStack, start_exporter: Callable[..., Exporter], tmp_path: Path
) -> None:
    """If the exporter is killed while it waits for the answer, the next start sends the approval
    again if IMDS never got it (HANG), and not if only the answer is missing (LATE).
    """
    simulator = stack.enter_context(Simulator(reboot()))
    gate = stack.enter_context(Gate(simulator.url, way, Way.PASS))
    flags = (*FLAGS, "--imds.timeout", "30s", "--journal.path", str(tmp_path / "state"))
    exporter = start_exporter(gate.url, *flags)
    eventually(lambda: gate.posts, "the approval")
    first_seen = exporter.scrape().total("event_first_seen_timestamp_seconds")
    if way is Way.LATE:
        eventually(
            lambda: any(happening.what is What.STARTED for happening in simulator.record),
            "IMDS has obeyed it",
        )
    exporter.kill()
    again = start_exporter(gate.url, *flags)
    again.shows("started", lambda scrape: scrape.total("started", scope="self") == 1)
    scrape = again.scrape()
    assert len(gate.posts) == (2 if way is Way.HANG else 1), "the second is from the next start"
    assert scrape.transitions() == {"detected": 1, "approved": 1, "started": 1}
    assert latencies(scrape) == {"exporter": 1}
    assert scrape.total("event_approved") == 1
    assert scrape.total("event_first_seen_timestamp_seconds") == first_seen
    assert 0 < scrape.total("approval_latency_seconds_sum") <= time.time() - first_seen
    # An approval whose answer never came is counted by neither process.
    answered: dict[str, float] = {"accepted": 1} if way is Way.HANG else {}
    again.shows("the approvals with an answer", lambda now: approvals(now) == answered)


def test_polls_go_on_without_an_answer(
    stack: ExitStack, start_exporter: Callable[..., Exporter]
) -> None:
    """While IMDS does not answer an approval, a later event is seen; the approval is counted as an
    error when its connection ends without an answer.
    """
    simulator = stack.enter_context(Simulator(reboot(approval_delay=3600)))
    # LATE: the gate passes the approval on, and keeps the answer of IMDS to itself.
    gate = stack.enter_context(Gate(simulator.url, Way.LATE))
    exporter = start_exporter(gate.url, *FLAGS, "--imds.timeout", "50s")
    eventually(lambda: gate.posts, "the approval")
    (event,) = json.loads(fetch(simulator.url + SCHEDULED_EVENTS, Metadata="true").body)["Events"]
    simulator.set_document([event, {**event, "EventId": str(uuid.uuid4()), "EventType": "Preempt"}])
    exporter.shows(
        "the later event",
        lambda scrape: scrape.total("pending", event_type="Preempt", scope="self") == 1,
    )
    assert [arrival.treated for arrival in gate.posts] == [Way.LATE]
    assert not exporter.lines("approval without an answer")
    assert not approvals(exporter.scrape())
    gate.ending.set()  # the gate closes the connection
    exporter.shows("its answer is lost", lambda scrape: approvals(scrape) == {"error": 1})


class Overtaking(Gate):
    """Lets the answer to the first approval overtake a document.

    The exporter asks for the document after it has sent the approval, and gets it after the answer
    to the approval.

    Attributes:
        document_asked: is set once this document has been asked for.
        answered_at: when the first approval was answered, by the monotonic clock; until then
            infinite.
    """

    def __init__(self, target: str) -> None:
        super().__init__(target)
        self.document_asked = threading.Event()
        self.answered_at = math.inf

    def respond(self, request: Request) -> Response | None:
        """Hold the first approval until the document is asked for; answer that one later."""
        if request.method == "POST" and not self.posts:
            response = super().respond(request)
            self.document_asked.wait(PATIENCE)
            self.answered_at = time.monotonic()
            return response
        is_document = request.method == "GET" and "scheduledevents" in request.path
        if is_document and self.posts and self.answered_at == math.inf:
            self.document_asked.set()
            # Long enough for the exporter to read the answer to its approval first. If it is not,
            # the test says nothing.
            time.sleep(0.5)
        return super().respond(request)


def test_a_document_from_before_an_approval(
    stack: ExitStack, start_exporter: Callable[..., Exporter]
) -> None:
    """A document that was asked for before an approval was answered may not show the effect of that
    approval yet: the next approval waits for another document.
    """
    simulator = stack.enter_context(Simulator(reboot(approval_delay=3600, count=2)))
    gate = Overtaking(simulator.url)
    stack.enter_context(gate)
    start_exporter(gate.url, *FLAGS)
    _, second = eventually(lambda: gate.posts[1:] and gate.posts, "the second approval")
    # The gate notes a document when it passes it on. So the first of these is the one that was
    # overtaken, and the second approval has waited for another.
    documents = [
        arrival.at
        for arrival in gate.arrivals
        if "scheduledevents" in arrival.path and gate.answered_at < arrival.at < second.at
    ]
    assert len(documents) >= 2
