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
from support.monitoring.collector import Collector
from support.programs import COMMAND, Exporter, Scrape, environment, eventually

ID = "602D9444-D2CD-49C7-8624-8643E7171297"
POLL = ("--poll.interval", "300ms")  # the least that four requests a second allow
STOPPED = 2.0  # seconds
EXACT = 0.15  # seconds by which a pause may be measured as shorter than it was
BUSY = 10.0  # seconds by which a busy machine may come late
Start = Callable[..., Exporter]


def event(kind: str, status: str, *vms: str, event_id: str = ID) -> dict[str, object]:
    """Return an event of this VM, or of ``vms``; it is due soon, and announced as 5 s."""
    return entry(
        EventId=event_id,
        EventStatus=status,
        EventType=kind,
        Resources=list(vms or ("vm_0",)),
        NotBefore=formatdate(time.time() + 900, usegmt=True) if status == "Scheduled" else "",
        DurationInSeconds=5,
    )


def seen(exporter: Exporter, transition: str, times: int = 1) -> Scrape:
    """Return the metrics once the transition has happened so often."""

    def look(scrape: Scrape) -> Scrape | None:
        return scrape if scrape.transitions().get(transition) == times else None

    scrape = exporter.shows(f"{times} {transition}", look)
    assert scrape
    return scrape


def is_stopped(exporter: Exporter) -> bool:
    """Return whether the process is stopped by a signal."""
    return (
        Path(f"/proc/{exporter.process.pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"
    )


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


def test_a_stopped_process(simulator: Simulator, start_exporter: Start, tmp_path: Path) -> None:
    """A Freeze stops the exporter for two seconds: histogram, span, log and history say so; after a
    restart too.
    """
    with Collector() as collector:
        journal = tmp_path / "journal"
        flags = (*POLL, "--journal.path", str(journal), "--otlp.endpoint", collector.url)
        exporter = start_exporter(simulator.url, *flags)
        exporter.shows("a poll", lambda now: now.value("up") == 1)
        simulator.set_document([event("Freeze", "Scheduled")])
        assert not seen(exporter, "detected").series("observed_pause_seconds_count")
        simulator.set_document([event("Freeze", "Started")])
        seen(exporter, "started")
        stopped_for = stop_for_a_while(exporter)
        assert not exporter.scrape().series("observed_pause_seconds_count"), "only at its end"
        simulator.set_document([])
        scrape = seen(exporter, "completed")
        assert scrape.value("observed_pause_seconds_count", event_type="Freeze") == 1
        pause = scrape.value("observed_pause_seconds_sum", event_type="Freeze")
        assert pause is not None
        assert stopped_for - EXACT <= pause <= stopped_for + BUSY
        assert scrape.value("observed_pause_seconds_bucket", event_type="Freeze", le="1.0") == 0
        names = ("approval", "detected", "scheduled", "scheduled_event", "started")
        spans = collector.wait_for(*names, trace_id=trace_id(ID))
        assert "azure.scheduled_event.observed_pause_seconds" not in spans["scheduled"].attributes
        for name in ("started", "scheduled_event"):
            attributes = spans[name].attributes
            assert attributes["azure.scheduled_event.observed_pause_seconds"] == pause
            assert attributes["azure.scheduled_event.duration_seconds"] == 5
        (line,) = exporter.lines('"event completed"')
        assert f"observed_pause_seconds={pause:g}" in line
        # A write that the stop interrupts counts as a disk that hangs: then the end is on disk a
        # little later.
        eventually(
            lambda: [life["observed_pause_seconds"] for life in history(journal)] == [pause],
            "the history",
        )
        tcp = history(journal)[0]["tcp_retransmitted_segments"]
        assert tcp is not None
        assert attributes["azure.scheduled_event.tcp_retransmitted_segments"] == tcp
        labels = {"event_id": ID, "event_type": "Freeze", "scope": "self"}
        assert scrape.value("event_tcp_retransmitted_segments", **labels) == tcp
        assert scrape.value("event_observed_pause_seconds", **labels) == pause
        exporter.kill()
        again = seen(start_exporter(simulator.url, *flags), "completed")
        assert again.series("observed_pause_seconds_sum") == [({"event_type": "Freeze"}, pause)]
        assert again.series("observed_pause_seconds_count") == [({"event_type": "Freeze"}, 1)]
