"""The simulator over real sockets: what a client meets, byte for byte where it matters."""

import http.client
import json
import re
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import pytest

from azure_scheduled_events_exporter.simulator import Happening, Simulator, What

PATIENCE = 10.0  # seconds that a busy machine may take
EVENTS = "/metadata/scheduledevents?api-version=2020-07-01"
BODY = b'{"DocumentIncarnation":1,"Events":[]}'


class Answer(NamedTuple):
    """What the simulator answers."""

    status: int
    body: bytes


@contextmanager
def connection(url: str) -> Iterator[http.client.HTTPConnection]:
    """A connection to the simulator."""
    host = urlsplit(url)
    opened = http.client.HTTPConnection(host.hostname or "", host.port, timeout=PATIENCE)
    try:
        yield opened
    finally:
        opened.close()


def ask(url: str, path: str = EVENTS, method: str = "GET", body: bytes | None = None) -> Answer:
    """Send one request with the right header; by default, a poll."""
    with connection(url) as opened:
        opened.request(method, urlsplit(url).path + path, body, {"Metadata": "true"})
        answer = opened.getresponse()
        return Answer(answer.status, answer.read())


def control(url: str, path: str, body: object = None) -> Any:
    """Use a control endpoint, by POST when there is a body, with tabs as some tools write them;
    return its JSON.
    """
    data = None if body is None else json.dumps(body, indent="\t").encode()
    method = "GET" if data is None else "POST"
    return json.loads(ask(url, f"/simulator/{path}", method, data).body)


def request_over_socket(simulator: Simulator) -> socket.socket:
    """Send a poll over a bare socket; return the socket, at which the answer comes."""
    where = urlsplit(simulator.url)
    opened = socket.create_connection((where.hostname or "", where.port or 0), PATIENCE)
    opened.sendall(f"GET {EVENTS} HTTP/1.1\r\nHost: imds\r\nMetadata: true\r\n\r\n".encode())
    return opened


def wait_for(condition: Callable[[], bool]) -> None:
    """Wait until a condition holds."""
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.01)


@pytest.mark.parametrize("status", [403, 421, 502])
def test_guest_proxy_agent(status: int) -> None:
    """The agent answers on connections that were made while it is on, without a body, and closes
    them. A connection from before is not redirected: it still reaches the metadata service.
    """
    with Simulator("live-migration", speed=1) as running, connection(running.url) as before:
        assert_answers(before, 200)
        running.inject(f"agent-{status}")
        assert_answers(before, 200)
        with connection(running.url) as after:
            after.request("GET", EVENTS, headers={"Metadata": "true"})
            answer = after.getresponse()
            assert (answer.status, answer.read(), answer.will_close) == (status, b"", True)
            headers = {name.lower() for name in answer.headers}
            assert headers == {"connection", "content-length", "date"}
        running.heal()
        assert ask(running.url).status == 200


def test_guest_proxy_agent_changes_its_mode() -> None:
    """The agent is switched on in the mode Audit, which lets all requests pass, and then changed to
    the mode Enforce, here ``agent-403``. It refuses requests on connections that were made since it
    is on; a connection from before does not lead through the agent in any mode.
    """
    with (
        Simulator("live-migration", speed=1) as running,
        connection(running.url) as before,
        connection(running.url) as since,
    ):
        # Each of the two connects with its first request.
        assert_answers(before, 200)
        running.inject("agent-audit")
        assert_answers(since, 200)
        running.inject("agent-403")
        assert_answers(before, 200)
        assert_answers(since, 403)


def assert_answers(opened: http.client.HTTPConnection, status: int) -> None:
    """The next request over this connection gets ``status``; only a 200 has a body."""
    opened.request("GET", EVENTS, headers={"Metadata": "true"})
    answer = opened.getresponse()
    assert (answer.status, bool(answer.read())) == (status, status == 200)


def test_unsigned_requests() -> None:
    """Once the agent's key is in use, the metadata service refuses what bypasses the agent."""
    with Simulator("live-migration", speed=1) as running, connection(running.url) as before:
        assert_answers(before, 200)
        running.inject("agent-401")
        before.request("GET", EVENTS, headers={"Metadata": "true"})
        assert before.getresponse().status == 401


def test_playing_ends_a_document_placed_by_hand() -> None:
    """Another scenario replaces the events that were placed by hand."""
    with Simulator("live-migration", speed=1) as running:
        running.set_document([{"EventId": "BY-HAND", "EventType": "Reboot"}])
        control(running.url, "play", {"scenario": "host-failure", "speed": 1000})
        assert b"BY-HAND" not in ask(running.url).body


def test_scenario_runs_and_is_recorded() -> None:
    """A scenario plays by itself in compressed real time, is reported as it happens, and recorded
    with its times.
    """
    reported: list[Happening] = []
    speed = 5000
    with Simulator("live-migration", speed=speed, seed=7) as running:
        running.report(reported.append)
        began = running.now()
        wait_for(lambda: len(reported) == 3)
        assert tuple(reported) == running.record
        assert [each.what for each in reported] == [What.ANNOUNCED, What.STARTED, What.COMPLETED]
        announced, started, completed = (each.at for each in reported)
        notice_seconds = 900
        started_seconds = 600
        assert started - announced == pytest.approx(notice_seconds / speed, abs=0.001)
        assert completed - started == pytest.approx(started_seconds / speed, abs=0.001)
        assert began - 1 < announced < began + 1
        # The incarnation begins with 1, and each of the three steps has changed the events.
        assert json.loads(ask(running.url).body) == {"DocumentIncarnation": 4, "Events": []}


def test_document_placed_by_hand_and_exact_bytes(simulator: Simulator) -> None:
    """A test can place events, which raises the incarnation by one, or serve any bytes at all."""
    placed = {"EventId": "A", "EventType": "Meteor", "DurationInSeconds": 5}
    assert simulator.set_document([placed]) == 2
    # This api-version has no DurationInSeconds.
    older = EVENTS.replace("2020-07-01", "2017-08-01")
    expected = {"DocumentIncarnation": 2, "Events": [{"EventId": "A", "EventType": "Meteor"}]}
    assert json.loads(ask(simulator.url, older).body) == expected
    simulator.serve_body(b"\x00not JSON\xff")
    assert ask(simulator.url) == (200, b"\x00not JSON\xff")
    # Neither the bytes nor the placed events any more: the document of the scenario.
    simulator.serve_body(None)
    assert simulator.set_document(None) == 3
    assert json.loads(ask(simulator.url).body) == {"DocumentIncarnation": 3, "Events": []}


def test_reset_connection(simulator: Simulator) -> None:
    """A reset connection ends with RST and not with an orderly end."""
    simulator.inject("reset")
    with request_over_socket(simulator) as opened, pytest.raises(ConnectionResetError):
        opened.recv(1)


def test_bodies_that_are_sent_badly(simulator: Simulator) -> None:
    """Half a body is shorter than announced, a huge one is a document of 8 MiB, a dripping one
    comes in pieces.
    """
    simulator.inject("half-body")
    with pytest.raises(http.client.IncompleteRead) as cut:
        ask(simulator.url)
    assert cut.value.partial == BODY[: len(BODY) // 2]

    simulator.inject("huge-body")
    body = ask(simulator.url).body
    assert len(body) == 8 * 1024 * 1024
    assert json.loads(body) == json.loads(BODY)

    simulator.inject("slow-drip")
    with request_over_socket(simulator) as opened:
        pieces = [opened.recv(100) for _ in range(4)]
        assert b"".join(pieces).startswith(b"HTTP")
        # Bytes come one by one, but a busy reader finds several.
        assert all(len(piece) < 10 for piece in pieces)


def test_timeout_never_answers_and_ends_with_the_client(simulator: Simulator) -> None:
    """A request that times out gets nothing; others are served meanwhile, and the thread ends with
    the client.
    """
    simulator.inject("timeout")
    with request_over_socket(simulator) as opened:
        wait_for(lambda: len(simulator.requests) == 1)
        opened.settimeout(0.3)
        with pytest.raises(TimeoutError):
            opened.recv(1)
        threads_while_it_waits = threading.active_count()
        simulator.heal()
        assert ask(simulator.url) == (200, BODY)
    wait_for(lambda: threading.active_count() < threads_while_it_waits)


def test_control_over_http(simulator: Simulator) -> None:
    """Below the path /simulator/, a client plays a scenario, injects a fault, heals it and reads
    the record. These paths work whatever fault is injected.
    """
    scenarios = control(simulator.url, "scenarios")
    assert scenarios["playing"] == "quiet"
    assert {"name": "quiet", "description": "Nothing happens."} in scenarios["scenarios"]
    assert control(simulator.url, "fault", {"fault": "reset", "seconds": 600}) == {
        "fault": "reset",
        "seconds": 600,
    }
    with pytest.raises(ConnectionError):
        ask(simulator.url)
    assert control(simulator.url, "heal", {}) == {"fault": None}
    assert ask(simulator.url) == (200, BODY)
    order = {"scenario": ["host-failure", "spot-preempt"], "speed": 5000}
    assert control(simulator.url, "play", order) == {"playing": order["scenario"], "speed": 5000}
    wait_for(lambda: len(simulator.record) == 3 + 3)  # steps of both scenarios
    record = control(simulator.url, "record")["record"]
    assert [each["what"] for each in record] == ["announced", "started", "completed"] * 2
    first, *_ = record
    assert first["event_type"] == "Reboot"
    assert first["at"] == simulator.record[0].at


@pytest.mark.parametrize(
    ("path", "body", "complaint"),
    [
        (
            "play",
            {"scenario": "/etc/passwd"},
            "scenario: '/etc/passwd' is none of all, live-migration, .*, quiet",
        ),
        (
            "play",
            {"scenario": "rollout", "speed": 1e-9},
            "speed 1e-09 cannot be used: it must be at least 0.001",
        ),
        ("play", {"scenario": []}, "there is no scenario to play"),
        (
            "play",
            {"scenario": "rollout", "sped": 1},
            "sped: unknown key; known here: loop, scenario, speed",
        ),
        ("fault", {"fault": "418"}, "'418' is none of throttle"),
        ("heal", [], "body:1: must be a mapping of keys to values"),
        ("record", {}, "use GET for /simulator/record"),
        ("nothing", {}, "not found; there are /simulator/record,"),
    ],
)
def test_control_refuses_nonsense(
    simulator: Simulator, path: str, body: object, complaint: str
) -> None:
    """An invalid control request gets an error and changes nothing."""
    assert re.search(complaint, control(simulator.url, path, body)["error"])
    assert ask(simulator.url) == (200, BODY)
