"""What becomes of an approval that IMDS, its operator or the document disturbs between the request and the start."""

import time
from collections.abc import Callable, Iterator
from email.utils import formatdate
from pathlib import Path

import pytest

from azure_scheduled_events_exporter.simulator import Scenario, Simulator, What
from support.events.approve_command import VMS
from support.events.imds_bodies import entry
from support.programs import Exporter, eventually

POLL = ("--poll.interval", "250ms", "--instance.name", "vmss_0")
ID = "602D9444-D2CD-49C7-8624-8643E7171297"


@pytest.fixture
def simulator() -> Iterator[Simulator]:
    """Return a simulator whose events are placed by hand."""
    with Simulator(Scenario("quiet", "Nothing happens.", VMS, ())) as simulator:
        yield simulator


def event(minutes: float = 60, **more: object) -> dict[str, object]:
    """Return a Reboot of the first VM that a user has asked for."""
    due = formatdate(time.time() + 60 * minutes, usegmt=True)
    return entry(EventId=ID, Resources=["vmss_0"], NotBefore=due, EventSource="User") | more


def approvals(simulator: Simulator) -> list[str]:
    """Return the EventIds that IMDS was asked to start, one for each time."""
    return [happening.event_id for happening in simulator.record if happening.what is What.APPROVED]


def test_not_before_moves_away_after_the_approval(
    simulator: Simulator, state: Path, start_exporter: Callable[..., Exporter]
) -> None:
    """The policy approves once more when NotBefore moves away, and not when it is a second later in each document."""
    simulator.set_document([event()])
    exporter = start_exporter(simulator.url, *POLL, "--journal.path", str(state), "--approval.policy", "documented")
    exporter.shows("the approval", lambda scrape: scrape.value("approval_requests_total", outcome="accepted") == 1)
    for seconds in range(2, 7):
        incarnation = simulator.set_document([event(minutes=60 + seconds / 60)])
        exporter.shows("it", lambda scrape, now=incarnation: scrape.value("document_incarnation") == now)  # type: ignore[misc] # bound now
    polls = exporter.scrape().value("polls_total", outcome="ok") or 0
    exporter.shows("polls", lambda scrape: (scrape.value("polls_total", outcome="ok") or 0) > polls + 2)
    assert approvals(simulator) == [ID]
    simulator.set_document([event(minutes=120)])
    eventually(lambda: approvals(simulator) == [ID, ID], "the second approval")
    exporter.shows("it accepted", lambda scrape: scrape.value("approval_requests_total", outcome="accepted") == 2)
    assert exporter.scrape().transitions()["approved"] == 1
