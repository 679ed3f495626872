"""What an event really did to its VM: a pause that was longer than announced, and connections."""

import json
import os
import signal
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from email.utils import formatdate

import pytest

from azure_scheduled_events_exporter.polling.kernel import NETWORK, tcp_counter
from azure_scheduled_events_exporter.simulator import Simulator
from support.events.imds_bodies import entry
from support.programs import Exporter, eventually, fetch

Start = Callable[..., Exporter]
POLL = ("--poll.interval", "300ms", "--instance.name", "vm_0")
STARTED = entry(EventType="Freeze", EventStatus="Started", NotBefore="", DurationInSeconds=1)


def started(simulator: Simulator, exporter: Exporter) -> None:
    """Let a Freeze of this VM begin that is announced as a second."""
    due = formatdate(time.time() + 900, usegmt=True)
    simulator.set_document([STARTED | {"EventStatus": "Scheduled", "NotBefore": due}])
    exporter.shows("the event", lambda now: now.value("pending", event_type="Freeze", scope="self"))
    simulator.set_document([STARTED])
    exporter.shows("the start", lambda now: now.value("started", event_type="Freeze", scope="self"))


@pytest.mark.parametrize("harmless_below", ["2s", "1h"])
def test_a_pause_longer_than_announced(
    simulator: Simulator, start_exporter: Start, harmless_below: str
) -> None:
    """Announced as 1 s, the VM stands still for 3 s: told, unless the settings call it harmless."""
    exporter = start_exporter(simulator.url, *POLL, "--freeze.harmless-below", harmless_below)
    started(simulator, exporter)
    assert exporter.scrape().value("event_info", kind="harmless") == 1
    os.kill(exporter.process.pid, signal.SIGSTOP)
    stopped = time.monotonic()
    eventually(lambda: time.monotonic() - stopped >= 3, "three seconds")
    os.kill(exporter.process.pid, signal.SIGCONT)
    exporter.shows("the pause", lambda now: (now.value("event_observed_pause_seconds") or 0) > 2)
    simulator.set_document([])
    exporter.shows("the end", lambda now: now.value("event_ended_timestamp_seconds"))
    scrape = exporter.scrape()
    longer = scrape.series("event_paused_longer_seconds", announced="1", vm_name="vm_0")
    assert [value > 2.5 for _, value in longer] == ([True] if harmless_below == "2s" else [])
    [shown] = json.loads(fetch(f"{exporter.url}/api/v1/events").body)["history"]
    assert shown["kind"] == ("announced" if harmless_below == "2s" else "harmless")


def retransmitted() -> int:
    """Return what the kernel has counted."""
    return tcp_counter((NETWORK / "snmp").read_bytes(), b"Tcp", b"RetransSegs") or 0


@contextmanager
def unanswered_connections(count: int) -> Iterator[None]:
    """Try to connect to a socket whose queue is full.

    The kernel drops the first packet and repeats it later.
    """
    with ExitStack() as stack:
        server = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=0))
        for _ in range(count):
            client = stack.enter_context(socket.socket())
            client.settimeout(0)
            client.connect_ex(server.getsockname())
        yield


@pytest.mark.skipif(not NETWORK.exists(), reason="no Linux")
def test_connections_that_stall(simulator: Simulator, start_exporter: Start) -> None:
    """Segments that are sent again while an event is Started are counted for it."""
    exporter = start_exporter(simulator.url, *POLL)
    started(simulator, exporter)
    before = retransmitted()
    with unanswered_connections(20):
        eventually(lambda: retransmitted() - before >= 15, "segments sent again")
        simulator.set_document([])
        exporter.shows("the end", lambda now: now.value("event_ended_timestamp_seconds"))
    scrape = exporter.scrape()
    assert (scrape.value("event_tcp_retransmitted_segments", scope="self") or 0) >= 15
    assert (scrape.value("event_tcp_timeouts", scope="self") or 0) >= 1
    assert (scrape.value("tcp_retransmitted_segments_total", event_type="Freeze") or 0) >= 15
    [shown] = json.loads(fetch(f"{exporter.url}/api/v1/events").body)["history"]
    assert shown["tcp_retransmitted_segments"] >= 15
