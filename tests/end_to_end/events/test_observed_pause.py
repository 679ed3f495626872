"""The measured pause of a VM, from a stopped process to metrics, trace, log and history."""

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable
from email.utils import formatdate
from pathlib import Path

from azure_scheduled_events_exporter.core.spans import trace_id
from azure_scheduled_events_exporter.simulator import Simulator
from support.events.imds_bodies import entry
from support.monitoring.collector import Collector, ReceivedSpan
from support.programs import COMMAND, Exporter, Scrape, environment, eventually

ID = "602D9444-D2CD-49C7-8624-8643E7171297"
POLL = ("--poll.interval", "300ms")  # the least that four requests a second allow
ANNOUNCED = 5  # seconds that the Freeze is announced to take
STOPPED = 2.0  # seconds that it takes
EXACT = 0.15  # seconds by which a pause may be measured as shorter than it was
BUSY = 10.0  # seconds by which a busy machine may come late
SPANS = ("approval", "detected", "scheduled", "scheduled_event", "started")
Start = Callable[..., Exporter]


def freeze(status: str) -> dict[str, object]:
    """Return a Freeze of this VM that is announced as ANNOUNCED seconds."""
    not_before = formatdate(time.time() + 900, usegmt=True)
    return entry(
        EventId=ID,
        EventStatus=status,
        EventType="Freeze",
        NotBefore=not_before if status == "Scheduled" else "",
        DurationInSeconds=ANNOUNCED,
    )


def scrape_after(exporter: Exporter, transition: str) -> Scrape:
    """Return the metrics once the transition has happened."""

    def look(scrape: Scrape) -> Scrape | None:
        return scrape if scrape.transitions().get(transition) == 1 else None

    scrape = exporter.shows(transition, look)
    assert scrape
    return scrape


def is_stopped(exporter: Exporter) -> bool:
    """Return whether the process is stopped by a signal."""
    stat = Path(f"/proc/{exporter.process.pid}/stat").read_text()
    _pid_and_name, _, fields = stat.rpartition(")")
    state, *_ = fields.split()
    return state == "T"


def stop_for_a_while(exporter: Exporter) -> float:
    """Stop the process as a Freeze does; return for how many seconds it was stopped at least."""
    os.kill(exporter.process.pid, signal.SIGSTOP)
    try:
        eventually(lambda: is_stopped(exporter), "the stop")
        stopped = time.monotonic()
        eventually(lambda: time.monotonic() - stopped >= STOPPED, "the time to pass")
        return time.monotonic() - stopped
    finally:
        os.kill(exporter.process.pid, signal.SIGCONT)


def history(journal: Path) -> list[dict[str, object]]:
    """Return what ``history --json`` prints of the journal."""
    arguments = [COMMAND, "history", "--json", "--journal.path", str(journal)]
    done = subprocess.run(arguments, capture_output=True, check=True, env=environment())
    lives: list[dict[str, object]] = json.loads(done.stdout)
    return lives


def pause_in(scrape: Scrape) -> float:
    """Return the one pause in the histogram of pauses, which was a Freeze's and longer than 1 s."""
    [(labels, pause)] = scrape.series("observed_pause_seconds_sum")
    assert labels == {"event_type": "Freeze"}
    assert scrape.value("observed_pause_seconds_count") == 1
    assert scrape.value("observed_pause_seconds_bucket", le="1.0") == 0
    return pause


def assert_spans_have(spans: dict[str, ReceivedSpan], attribute: str, value: object) -> None:
    """The spans of the impact, and of the whole event, have this value; that of the time before
    does not have the attribute.
    """
    name = f"azure.scheduled_event.{attribute}"
    assert name not in spans["scheduled"].attributes
    assert spans["started"].attributes[name] == value
    assert spans["scheduled_event"].attributes[name] == value


def test_a_stopped_process(simulator: Simulator, start_exporter: Start, tmp_path: Path) -> None:
    """A Freeze stops the exporter for two seconds: histogram, span, log and history say so; after a
    restart too.
    """
    with Collector() as collector:
        journal = tmp_path / "journal"
        flags = (*POLL, "--journal.path", str(journal), "--otlp.endpoint", collector.url)
        exporter = start_exporter(simulator.url, *flags)
        exporter.shows("a poll", lambda now: now.value("up") == 1)
        simulator.set_document([freeze("Scheduled")])
        assert not scrape_after(exporter, "detected").series("observed_pause_seconds_count")
        simulator.set_document([freeze("Started")])
        scrape_after(exporter, "started")
        stopped_for = stop_for_a_while(exporter)
        assert not exporter.scrape().series("observed_pause_seconds_count"), "only at its end"
        simulator.set_document([])
        scrape = scrape_after(exporter, "completed")
        pause = pause_in(scrape)
        assert stopped_for - EXACT <= pause <= stopped_for + BUSY
        labels = {"event_id": ID, "event_type": "Freeze", "scope": "self"}
        assert scrape.value("event_observed_pause_seconds", **labels) == pause
        (line,) = exporter.lines('"event completed"')
        assert f"observed_pause_seconds={pause:g}" in line
        # A write that the stop interrupts counts as a disk that hangs: then the end is on disk a
        # little later.
        eventually(
            lambda: [life["observed_pause_seconds"] for life in history(journal)] == [pause],
            "the history",
        )
        [life] = history(journal)
        segments = life["tcp_retransmitted_segments"]
        assert segments is not None
        assert scrape.value("event_tcp_retransmitted_segments", **labels) == segments
        spans = collector.wait_for(*SPANS, trace_id=trace_id(ID))
        assert_spans_have(spans, "observed_pause_seconds", pause)
        assert_spans_have(spans, "tcp_retransmitted_segments", segments)
        assert spans["started"].attributes["azure.scheduled_event.duration_seconds"] == ANNOUNCED
        exporter.kill()
        restarted = start_exporter(simulator.url, *flags)
        assert pause_in(scrape_after(restarted, "completed")) == pause
