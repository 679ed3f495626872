"""What running exporters report of an event is what happened to it: over boots, empty bodies, returns and pauses."""

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from email.utils import formatdate
from pathlib import Path

import pytest

from azure_scheduled_events_exporter.core.spans import trace_id
from azure_scheduled_events_exporter.simulator import Scenario, Simulator, VirtualMachine
from support.events.follower import Follower, settled
from support.events.imds_bodies import entry
from support.monitoring.collector import Collector
from support.programs import Exporter, Scrape, eventually

ID = "602D9444-D2CD-49C7-8624-8643E7171297"
VMS = tuple(VirtualMachine(f"vmss_{number}", scale_set="vmss") for number in range(3))
QUIET = Scenario("quiet", "Nothing happens.", VMS, ())
FAST = ("--poll.interval", "250ms")
HOUR = 3600.0
Start = Callable[..., Exporter]


@pytest.fixture
def imds() -> Iterator[Simulator]:
    """A simulator whose events are placed by hand."""
    with Simulator(QUIET, requests_per_second=1000) as running:
        yield running


def event(
    status: str = "Scheduled", kind: str = "Reboot", not_before: float = 0.0, **more: object
) -> dict[str, object]:
    """Return an event of the first VM; ``not_before`` in Unix seconds, else in an hour."""
    due = formatdate(not_before or time.time() + HOUR, usegmt=True)
    shown = {"EventStatus": status, "EventType": kind, "NotBefore": "" if status == "Started" else due}
    return entry(EventId=ID, Resources=["vmss_0"]) | shown | more


def seen(exporter: Exporter, **transitions: int) -> Scrape:
    """Return the metrics once exactly these transitions are counted."""

    def look(scrape: Scrape) -> Scrape | None:
        return scrape if scrape.transitions() == transitions else None

    scrape = exporter.shows(f"{transitions}", look)
    assert scrape
    return scrape


def test_an_event_that_returns(imds: Simulator, start_exporter: Start, tmp_path: Path) -> None:
    """An event in the document again after its end lives on: log, follower, policy, trace, and over a restart."""
    state, asked = tmp_path / "state", event(EventSource="User")
    with ExitStack() as stack:
        collector = stack.enter_context(Collector())
        flags = (*FAST, "--journal.path", str(state), "--otlp.endpoint", collector.url)
        exporter = start_exporter(imds.url, *flags)
        follower = stack.enter_context(Follower(imds.url, state, tmp_path / "follower", "--since", "0"))
        settled(follower)  # it reads the journal from the first transition on
        imds.set_document([asked])
        seen(exporter, detected=1)
        imds.set_document([])
        seen(exporter, detected=1, cancelled=1)
        imds.set_document([asked])
        seen(exporter, detected=1, cancelled=1, returned=1)
        assert exporter.lines("event returned")
        exporter.kill()
        exporter = start_exporter(imds.url, *flags, "--approval.policy", "documented")
        life = {"detected": 1, "cancelled": 1, "returned": 1, "approved": 1}
        seen(exporter, **life)
        assert [each.event_id for each in imds.record] == [ID], "approved by its policy, once"
        imds.set_document([event("Started", EventSource="User")])
        seen(exporter, **life, started=1)
        imds.set_document([])
        seen(exporter, **life, started=1, completed=1)
        follower.wait_for(*((ID, transition) for transition in (*life, "started", "completed")))
        eventually(lambda: "started" in collector.names(trace_id(ID)), "the end of the trace")
        (root,) = [span for span in collector.spans(trace_id(ID)).values() if span.name == "scheduled_event"]
        assert "returned" in [name for name, _ in root.events]
        assert root.attributes["azure.scheduled_event.outcome"] == "completed"
