"""The kind of an event, as an exporter shows it when all scrapes have missed the announcement."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from azure_scheduled_events_exporter.simulator import PlannedEvent, Scenario, Simulator, Starts, VirtualMachine, What
from support.programs import Exporter, Scrape, eventually

VMS = (VirtualMachine("vmss_0", scale_set="vmss"),)
AT_ONCE = "rules: [{name: at once, match: {event_type: Reboot}, action: approve}]\n"


@pytest.fixture
def simulator() -> Iterator[Simulator]:
    """Return a simulator of one VM without events."""
    with Simulator(Scenario("quiet", "Nothing happens.", VMS, ()), requests_per_second=1000) as simulator:
        yield simulator


@pytest.fixture
def start(start_exporter: Callable[..., Exporter], simulator: Simulator, tmp_path: Path) -> Callable[[], Exporter]:
    """Return what starts an exporter with a journal, whose policy approves each Reboot at once."""
    policy = tmp_path / "policy.yaml"
    policy.write_text(AT_ONCE)
    flags = ("--poll.interval", "300ms", "--approval.policy", str(policy), "--journal.path", str(tmp_path / "state"))
    return lambda: start_exporter(simulator.url, *flags)


def first_scrape(simulator: Simulator, exporter: Exporter, event: PlannedEvent) -> Scrape:
    """Let the event start; return the metrics then. Nothing scrapes the exporter while the event is Scheduled."""
    exporter.shows("an answer of IMDS", lambda scrape: scrape.value("up"))
    simulator.play(Scenario("reboot", "A VM is rebooted.", VMS, (event,)))
    eventually(lambda: any(each.what is What.STARTED for each in simulator.record), "the event has started")
    return when_started(exporter)


def when_started(exporter: Exporter) -> Scrape:
    """Return the metrics as soon as they show a Started event."""
    exporter.shows("Started", lambda scrape: scrape.series("event_info", event_status="Started"))
    return exporter.scrape()


def kind(scrape: Scrape) -> str:
    """Return the kind of the only event."""
    [(labels, _)] = scrape.series("event_info", event_type="Reboot", scope="self")
    return labels["kind"]


def test_the_policy_approves_an_event_between_two_scrapes(simulator: Simulator, start: Callable[[], Exporter]) -> None:
    """An event that starts because it was approved at once is announced, also after a restart of the exporter."""
    exporter = start()
    scrape = first_scrape(simulator, exporter, PlannedEvent("Reboot", ("vmss_0",), announced_at=0.0))
    assert kind(scrape) == "announced"
    assert scrape.value("event_approved", event_type="Reboot", scope="self") == 1
    exporter.kill()
    scrape = when_started(start())
    assert kind(scrape) == "announced"


def test_an_event_is_first_seen_started(simulator: Simulator, start: Callable[[], Exporter]) -> None:
    """With the same policy, an event that is Started in the first document that has it is of kind without_notice."""
    failure = PlannedEvent("Reboot", ("vmss_0",), announced_at=0.0, starts=Starts.AT_ONCE)
    scrape = first_scrape(simulator, start(), failure)
    assert kind(scrape) == "without_notice"
    assert scrape.value("event_approved", event_type="Reboot", scope="self") == 0
