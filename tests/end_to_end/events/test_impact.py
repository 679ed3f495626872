"""What an event really did to its VM: a pause that was longer than announced, and connections."""

import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from email.utils import formatdate
from pathlib import Path
from typing import NamedTuple

import pytest

from azure_scheduled_events_exporter.core.spans import trace_id
from azure_scheduled_events_exporter.simulator import Simulator
from support.commands import command
from support.events.imds_bodies import entry
from support.events.network import Network, talking, wired
from support.monitoring.collector import Collector, ReceivedSpan
from support.programs import COMMAND, PATIENCE, Exporter, eventually, fetch
from support.quiet import QUIET

Start = Callable[..., Exporter]
POLL = ("--poll.interval", "300ms", "--instance.name", "vm_0")
STARTED = entry(EventType="Freeze", EventStatus="Started", NotBefore="", DurationInSeconds=1)
QUIET_EVENT = "0C0FFEE0-0000-4000-8000-000000000000"
LOSSY_EVENT = "1C0FFEE0-0000-4000-8000-000000000001"
PAUSE_SECONDS = 3.0
CONNECTIONS = 5
LOST_SECONDS = 20.0
LEAST_TIMEOUTS = 4
"""How often the timer of a connection expires at least within LOST_SECONDS: it waits for 0.2 s, and
then each time twice as long, so that six times are expected. Two fewer are a busy machine's.
"""


def start_freeze(simulator: Simulator, exporter: Exporter) -> None:
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
    """A Freeze that is announced as 1 s pauses the VM for 3 s: ``event_paused_longer_seconds``
    shows it, unless ``--freeze.harmless-below`` is longer than the pause.
    """
    exporter = start_exporter(simulator.url, *POLL, "--freeze.harmless-below", harmless_below)
    start_freeze(simulator, exporter)
    assert exporter.scrape().value("event_info", kind="harmless") == 1
    os.kill(exporter.process.pid, signal.SIGSTOP)
    stopped = time.monotonic()
    eventually(lambda: time.monotonic() - stopped >= PAUSE_SECONDS, "the pause is over")
    os.kill(exporter.process.pid, signal.SIGCONT)
    # A poll every 300 ms measures the pause, so that up to some tenths of a second are missing.
    exporter.shows("the pause", lambda now: (now.value("event_observed_pause_seconds") or 0) > 2)
    simulator.set_document([])
    exporter.shows("the end", lambda now: now.value("event_ended_timestamp_seconds"))
    scrape = exporter.scrape()
    longer = scrape.value("event_paused_longer_seconds", announced="1", vm_name="vm_0")
    [shown] = json.loads(fetch(f"{exporter.url}/api/v1/events").body)["history"]
    # It was announced as shorter than either value, so as harmless.
    if harmless_below == "2s":
        assert longer is not None
        assert longer > PAUSE_SECONDS - 0.5, "measured between two polls"
        assert shown["kind"] == "announced"
    else:
        assert longer is None
        assert shown["kind"] == "harmless"


class Retransmissions(NamedTuple):
    """What TCP had to repeat during an event."""

    segments: int  # that were sent again
    timeouts: int  # timers that expired without an answer


NOTHING_REPEATED = Retransmissions(segments=0, timeouts=0)


@dataclass(frozen=True)
class Scene:
    """An exporter on a VM whose network may lose packets; IMDS is on the VM's loopback device."""

    imds: Simulator
    exporter: Exporter
    collector: Collector
    journal: Path

    @contextmanager
    def event(self, event_id: str) -> Iterator[None]:
        """A Freeze of the VM: Started, and over at the end."""
        event = STARTED | {"EventId": event_id}
        due = formatdate(time.time() + 900, usegmt=True)
        self.imds.set_document([event | {"EventStatus": "Scheduled", "NotBefore": due}])
        self._shows("event_info", event_id)
        self.imds.set_document([event])
        self._shows("event_started_timestamp_seconds", event_id)
        yield
        self.imds.set_document([])
        self._shows("event_ended_timestamp_seconds", event_id)

    def _shows(self, name: str, event_id: str) -> None:
        self.exporter.shows(name, lambda now: now.value(name, event_id=event_id))

    def assert_reported(self, event_id: str, expected: Retransmissions) -> None:
        """JSON, span and report have these retransmissions of an event."""
        shown = json.loads(fetch(f"{self.exporter.url}/api/v1/events").body)["history"]
        [life] = [each for each in shown if each["event_id"] == event_id]
        assert life["tcp_retransmitted_segments"] == expected.segments
        assert life["tcp_timeouts"] == expected.timeouts
        span = eventually(lambda: self._span(event_id), "the span of the event")
        assert span
        prefix = "azure.scheduled_event.tcp_"
        assert span.attributes[f"{prefix}retransmitted_segments"] == expected.segments
        assert span.attributes[f"{prefix}timeouts"] == expected.timeouts
        written = command("report", event_id, "--journal.path", str(self.journal)).stdout
        rows = [line.split(" | ") for line in written.splitlines() if line.startswith("| TCP")]
        assert [(name, said.partition(" in ")[0]) for name, _, _, said in rows] == [
            ("| TCP segments sent again", str(expected.segments)),
            ("| TCP retransmission timeouts", str(expected.timeouts)),
        ]

    def in_metrics(self, event_id: str) -> Retransmissions:
        """Return the retransmissions that the metrics have of an event."""
        scrape = self.exporter.scrape()
        segments = scrape.value("event_tcp_retransmitted_segments", event_id=event_id)
        timeouts = scrape.value("event_tcp_timeouts", event_id=event_id)
        return Retransmissions(int(segments or 0), int(timeouts or 0))

    def _span(self, event_id: str) -> ReceivedSpan | None:
        spans = self.collector.spans(trace_id(event_id)).values()
        return next((each for each in spans if each.name == "started"), None)


@pytest.fixture
def wire() -> Iterator[tuple[Network, Network]]:
    """Return two networks; skips where the kernel refuses them."""
    with wired() as networks:
        yield networks


@pytest.fixture
def scene(wire: tuple[Network, Network], tmp_path: Path) -> Iterator[Scene]:
    """An exporter in the first of the two networks, with all that it needs on loopback."""
    journal = tmp_path / "journal"
    here, _there = wire
    with here.inside(), Simulator(QUIET) as simulator, Collector() as collector:
        flags = (*POLL, "--journal.path", str(journal), "--otlp.endpoint", collector.url)
        # Through another program: what starts quickly starts in the network of the tests.
        quickly = ("env", COMMAND)
        log = tmp_path / "exporter.log"
        with Exporter(simulator.url, log, *flags, command=quickly) as exporter:
            yield Scene(simulator, exporter, collector, journal)


def test_connections_that_stall(wire: tuple[Network, Network], scene: Scene) -> None:
    """While an event is Started, packets are lost for 20 s: metrics, span and report say how many
    segments were sent again, and how often a timer expired. Beside a quiet event they say 0.
    """
    here, there = wire
    with talking(here, there, CONNECTIONS) as talk:
        with scene.event(QUIET_EVENT):
            before = talk.sent
            eventually(lambda: talk.sent - before >= 100 * CONNECTIONS, "traffic")
        scene.assert_reported(QUIET_EVENT, NOTHING_REPEATED)
        with scene.event(LOSSY_EVENT), there.without_answers():
            begun = time.monotonic()
            eventually(lambda: time.monotonic() - begun >= LOST_SECONDS, "20 s", PATIENCE)
    repeated = scene.in_metrics(LOSSY_EVENT)
    assert repeated.timeouts >= LEAST_TIMEOUTS * CONNECTIONS
    assert repeated.segments >= LEAST_TIMEOUTS * CONNECTIONS, "each timeout sends a segment again"
    scene.assert_reported(LOSSY_EVENT, repeated)
    scrape = scene.exporter.scrape()
    segments_in_total = scrape.value("tcp_retransmitted_segments_total", event_type="Freeze")
    assert segments_in_total == repeated.segments
    assert scrape.value("tcp_timeouts_total", event_type="Freeze") == repeated.timeouts
