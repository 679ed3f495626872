"""The trace of an event as a collector sees it: from IMDS through a running exporter, over failures
and restarts.
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from email.utils import formatdate
from pathlib import Path

import pytest

from azure_scheduled_events_exporter.core.spans import span_id, trace_id
from azure_scheduled_events_exporter.simulator import Scenario, Simulator, What, find
from support.events.imds_bodies import entry
from support.monitoring.collector import Collector, ReceivedSpan
from support.programs import Exporter, eventually

Start = Callable[..., Exporter]
WHOLE = ("approval", "detected", "scheduled", "scheduled_event", "started")
POLL = ("--poll.interval", "300ms")
ID = "602D9444-D2CD-49C7-8624-8643E7171297"
TRACE = trace_id(ID)
BUSY = 15.0  # seconds by which a busy machine may see a document late
EARLY = 0.1  # seconds by which the clock of IMDS, as the exporter reads it, may be off
NANOSECONDS = 1e9  # in a second; the times of spans are nanoseconds


@pytest.fixture
def collector() -> Iterator[Collector]:
    """A collector that accepts everything by default."""
    with Collector() as running:
        yield running


@pytest.fixture
def imds() -> Iterator[Simulator]:
    """A simulated IMDS without events until one is placed."""
    with Simulator() as running:
        running.set_document([])
        yield running


def reboot(
    status: str = "Scheduled", *, event_id: str = ID, seconds: float = 900.0
) -> dict[str, object]:
    """Return a Reboot of two VMs, ``seconds`` before its NotBefore."""
    return entry(
        EventId=event_id,
        EventStatus=status,
        Resources=["vmss_0", "vmss_1"],
        NotBefore=formatdate(time.time() + seconds, usegmt=True) if status == "Scheduled" else "",
        Description="Host server is undergoing maintenance.",
    )


def terminate_soon(exporter: Exporter) -> None:
    """End the exporter with SIGTERM, which takes 2 s on a machine that is not busy with tests."""
    began = time.monotonic()
    assert exporter.terminate() == 0
    assert time.monotonic() - began < BUSY


def arrive_soon(collector: Collector, *names: str) -> bool:
    """Return whether exactly the spans ``names`` have been accepted within 10 s."""
    until = time.monotonic() + 10
    eventually(
        lambda: collector.names(TRACE) == sorted(names) or time.monotonic() > until,
        f"spans {names}",
    )
    return collector.names(TRACE) == sorted(names)


@dataclass(frozen=True)
class Migration:
    """A live migration that is over: what the collector has, and what really happened."""

    event_id: str
    exporter: Exporter
    spans: dict[str, ReceivedSpan]
    truth: dict[What, float]  # the time of each step (seconds since 1970), as the simulator has it

    @property
    def root(self) -> ReceivedSpan:
        """The span of the whole event."""
        return self.spans["scheduled_event"]


@pytest.fixture
def migration(collector: Collector, start_exporter: Start, tmp_path: Path) -> Migration:
    """A live migration from its announcement to its end, with an exporter that traces it."""
    vms = find("live-migration")[0].vms
    with Simulator(Scenario("quiet", "Nothing happens.", vms, ())) as simulator:
        journal = ("--journal.path", str(tmp_path / "journal"))
        exporter = start_exporter(simulator.url, *POLL, "--otlp.endpoint", collector.url, *journal)
        exporter.shows("a poll", lambda scrape: scrape.value("up"))
        # Not before the exporter polls: a busy machine starts it slowly.
        simulator.play("live-migration", speed=150)
        eventually(lambda: simulator.record, "announced")
        event_id = simulator.record[0].event_id
        trace = trace_id(event_id)
        collector.wait_for("detected", trace_id=trace)
        assert [each.what for each in simulator.record] == [What.ANNOUNCED], (
            "detected is sent before anything else happens"
        )
        spans = collector.wait_for(*WHOLE, trace_id=trace)
        truth = {each.what: each.at for each in simulator.record}
    return Migration(event_id, exporter, spans, truth)


def test_a_live_migration(migration: Migration) -> None:
    """A live migration is one trace without a hole, with the true times; the log names the trace,
    and all of its spans are counted as exported.
    """
    spans = migration.spans
    root = migration.root
    assert root.parent_id == ""
    assert {span.parent_id for span in spans.values()} == {"", root.span_id}
    assert {name: span.span_id for name, span in spans.items()} == {
        name: span_id(migration.event_id, "vmss_0", name) for name in WHOLE
    }
    assert spans["detected"].start == spans["detected"].end == root.start
    assert spans["scheduled"].start == spans["approval"].start == root.start
    assert spans["scheduled"].end == spans["approval"].end == spans["started"].start
    assert spans["started"].end == root.end
    moments = {
        What.ANNOUNCED: root.start,
        What.STARTED: spans["started"].start,
        What.COMPLETED: root.end,
    }
    for what, nanoseconds in moments.items():
        late = nanoseconds / NANOSECONDS - migration.truth[what]
        assert -EARLY < late < BUSY, what
    exporter = migration.exporter
    lines = exporter.lines("event_id=" + migration.event_id)
    assert len(lines) == 3, "detected, started and completed"
    assert all(f"trace_id={trace_id(migration.event_id)}" in line for line in lines)
    exporter.shows("nothing waits", lambda scrape: scrape.value("spans_queued") == 0)
    scrape = exporter.scrape()
    assert scrape.value("spans_total", outcome="exported") == len(WHOLE)
    assert scrape.value("spans_total", outcome="failed") == 0


def test_the_attributes_of_a_live_migration(migration: Migration) -> None:
    """The span of the whole event has what IMDS said of it, what was measured, and the VM."""
    root = migration.root
    facts = {
        name.removeprefix("azure.scheduled_event."): value
        for name, value in root.attributes.items()
    }
    # What is measured differs from run to run.
    not_before = datetime.fromisoformat(str(facts.pop("not_before"))).timestamp()
    assert not_before == pytest.approx(migration.truth[What.STARTED], abs=1.0), (
        "HTTP's dates have whole seconds"
    )
    notice = not_before - root.start / NANOSECONDS
    assert facts.pop("notice_seconds") == pytest.approx(notice, abs=0.01)
    assert 0 <= facts.pop("observed_pause_seconds") < BUSY, "only other tests hold it up"
    assert 0 <= facts.pop("observed_pauses") < 15, "a few, as other tests hold it up"
    assert abs(facts.pop("clock_step_seconds")) < 1.0
    assert facts.pop("tcp_retransmitted_segments") >= 0
    assert facts.pop("tcp_timeouts") >= 0
    assert facts == {
        "id": migration.event_id,
        "type": "Freeze",
        "resource_type": "VirtualMachine",
        "source": "Platform",
        "description": (
            "Virtual machine is being paused because of a memory-preserving Live Migration"
            " operation."
        ),
        "resources": ["vmss_0", "vmss_1"],
        "resource_count": 2,
        "duration_seconds": 5.0,
        "outcome": "completed",
        "approved_by": "deadline",
    }
    assert root.resource["azure.vm.name"] == "vmss_0"
    assert root.resource["cloud.provider"] == "azure"
    assert root.resource["cloud.region"] == "westeurope"


def test_the_events_of_others(collector: Collector, imds: Simulator, start_exporter: Start) -> None:
    """Another VM's events are not traced by default, while the exporter's own are."""
    exporter = start_exporter(imds.vm_url("vmss_2"), *POLL, "--otlp.endpoint", collector.url)
    imds.set_document([reboot()])
    exporter.shows("the event of others", lambda scrape: scrape.transitions() == {"detected": 1})
    imds.set_document([reboot(), {**reboot(event_id="MINE"), "Resources": ["vmss_2"]}])
    collector.wait_for("detected", trace_id=trace_id("MINE"))
    assert collector.names(TRACE) == []


def test_sigterm_in_mid_event(
    collector: Collector, imds: Simulator, start_exporter: Start, tmp_path: Path
) -> None:
    """After SIGTERM, the spans of an event that goes on are sent as ended at the stop, without an
    outcome. The next start sends them again with the same ids, and with their own ends.
    """
    flags = [*POLL, "--otlp.endpoint", collector.url, "--journal.path", str(tmp_path / "journal")]
    exporter = start_exporter(imds.url, *flags)
    imds.set_document([reboot()])
    collector.wait_for("detected", trace_id=TRACE)
    # "detected" has no length, and is whole from the beginning.
    sent_at_the_stop = ("detected", "scheduled", "scheduled_event")
    # At its end the exporter waits a second for the collector, which a busy machine may exceed:
    # then it is started and stopped again.
    for _ in range(5):
        terminate_soon(exporter)
        if arrive_soon(collector, *sent_at_the_stop):
            break
        exporter = start_exporter(imds.url, *flags)
        exporter.shows("the event", lambda now: now.value("up") == 1 and now.series("event_info"))
    open_spans = collector.wait_for(*sent_at_the_stop, trace_id=TRACE)
    for span in open_spans.values():
        assert "azure.scheduled_event.outcome" not in span.attributes
    imds.set_document([reboot("Started")])
    exporter = start_exporter(imds.url, *flags)
    exporter.shows("started", lambda scrape: "started" in scrape.transitions())
    imds.set_document([])
    eventually(
        lambda: collector.spans(TRACE).get(span_id(ID, "vmss_0", "started")),
        "the phase that came after the restart",
    )
    whole = collector.wait_for(*WHOLE, trace_id=TRACE)
    assert whole["scheduled_event"].attributes["azure.scheduled_event.outcome"] == "completed"
    assert whole["scheduled_event"].start == open_spans["scheduled_event"].start
    assert whole["scheduled_event"].end > open_spans["scheduled_event"].end
    assert whole["scheduled"].end == whole["started"].start, (
        "no hole where the exporter was not running"
    )


def test_a_collector_that_is_away(
    collector: Collector, imds: Simulator, start_exporter: Start, tmp_path: Path
) -> None:
    """A collector that is down for the whole event gets every span once it is back, also after a
    kill.
    """
    collector.stop()
    flags = [*POLL, "--otlp.endpoint", collector.url, "--journal.path", str(tmp_path / "journal")]
    exporter = start_exporter(imds.url, *flags)
    happened_at = {}  # each transition, in seconds since 1970
    for document, transition in (
        ([reboot()], "detected"),
        ([reboot("Started")], "started"),
        ([], "completed"),
    ):
        happened_at[transition] = time.time()
        imds.set_document(document)
        exporter.shows(transition, lambda scrape, what=transition: what in scrape.transitions())  # type: ignore[misc]
    exporter.shows("every span waits", lambda scrape: scrape.value("spans_queued") == len(WHOLE))
    exporter.kill()
    exporter = start_exporter(imds.url, *flags)
    exporter.shows(
        "every span waits again", lambda scrape: scrape.value("spans_queued") == len(WHOLE)
    )
    collector.start()
    spans = collector.wait_for(*WHOLE, trace_id=TRACE)
    exporter.shows("nothing waits", lambda scrape: scrape.value("spans_queued") == 0)
    assert exporter.scrape().value("spans_total", outcome="exported") == len(WHOLE)
    root = spans["scheduled_event"]
    reported = {"detected": root.start, "started": spans["started"].start, "completed": root.end}
    assert spans["started"].start == spans["scheduled"].end
    for transition, nanoseconds in reported.items():
        late = nanoseconds / NANOSECONDS - happened_at[transition]
        assert -EARLY < late < BUSY, transition
