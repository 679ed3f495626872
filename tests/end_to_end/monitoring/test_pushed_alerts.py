"""Exporters and one Alertmanager are a whole paging chain: no Prometheus runs here.

A push resolves three minutes after the end of its event. That is tested in
``tests/trials/monitoring/pushes.py`` and ``tests/unit/alertmanager``.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from azure_scheduled_events_exporter.alerts import resolve
from azure_scheduled_events_exporter.simulator import Scenario, Simulator, VirtualMachine
from support.events.follower import event
from support.monitoring.paging import Alertmanager, Receiver, receivers
from support.programs import Exporter, eventually

VMS = tuple(VirtualMachine(f"vmss_{number}", scale_set="web") for number in range(2))


@pytest.fixture
def team(tmp_path: Path) -> Iterator[tuple[Alertmanager, Receiver]]:
    """The team's Alertmanager and its pager."""
    with (
        Receiver() as receiver,
        Alertmanager(tmp_path / "am", resolve(receivers(receiver.url))) as alertmanager,
    ):
        yield alertmanager, receiver


@pytest.fixture
def simulator() -> Iterator[Simulator]:
    """The VMs, without an event."""
    with Simulator(Scenario("waiting", "", VMS, ())) as simulator:
        yield simulator


def pages(receiver: Receiver) -> list[tuple[str, str, str]]:
    """Return the event, the alert and its state of each notification."""
    bodies = [each.body for each in receiver.webhooks()]
    alerts: list[dict[str, Any]] = [alert for body in bodies for alert in body["alerts"]]
    return [
        (each["labels"]["event_id"], each["labels"]["alertname"], each["status"]) for each in alerts
    ]


def test_one_page(
    tmp_path: Path, team: tuple[Alertmanager, Receiver], simulator: Simulator
) -> None:
    """An event of two VMs is one page, whatever is killed or restarted during it, and the next
    event is the next page; a peer's event is not pushed.
    """
    alertmanager, receiver = team
    # By default, NotBefore is many years ahead, and an event so far ahead has another alert.
    both = event("BOTH", not_before="") | {"Resources": ["vmss_0", "vmss_1"]}

    def start(vm: str, log: str) -> Exporter:
        flags = ("--instance.name", vm, "--poll.interval", "300ms")
        journal = ("--journal.path", str(tmp_path / f"journal-{vm}"))
        pushed = ("--alertmanager.url", alertmanager.url)
        return Exporter(simulator.vm_url(vm), tmp_path / log, *flags, *journal, *pushed)

    with ExitStack() as stack:
        exporters = [stack.enter_context(start(vm.name, f"{vm.name}.log")) for vm in VMS]
        simulator.set_document([both, event("OF-PEER", vm="vmss_9", not_before="")])
        for exporter in exporters:
            exporter.wait_for_line('msg="alert pushed"')
        eventually(lambda: pages(receiver), "the page")
        exporters[0].kill()
        restarted = stack.enter_context(start(VMS[0].name, "restarted.log"))
        restarted.wait_for_line('msg="alert pushed"')
        alertmanager.terminate()
        port = int(alertmanager.url.rpartition(":")[2])
        with Alertmanager(tmp_path / "am", resolve(receivers(receiver.url)), port=port) as again:
            # A post that fails is tried again after up to a minute; the rest is for a busy machine.
            eventually(again.alerts, "the alert is back", 60 + 30)
            simulator.set_document(
                [both, event("NEXT", kind="Redeploy", vm="vmss_1", not_before="")]
            )
            eventually(lambda: len(pages(receiver)) > 1, "the next page")
    prefix = "AzureScheduledEvent"
    assert pages(receiver) == [
        ("BOTH", f"{prefix}Reboot", "firing"),
        ("NEXT", f"{prefix}Redeploy", "firing"),
    ]


def test_an_accepted_push_is_counted_before_the_next_poll(
    team: tuple[Alertmanager, Receiver],
    simulator: Simulator,
    start_exporter: Callable[..., Exporter],
) -> None:
    """What Alertmanager has accepted is counted at once, and not when the next poll ends an hour
    later.
    """
    alertmanager, _ = team
    simulator.set_document([event("COUNTED")])
    flags = (
        "--instance.name",
        "vmss_0",
        "--poll.interval",
        "1h",
        "--alertmanager.url",
        alertmanager.url,
    )
    exporter = start_exporter(simulator.url, *flags)
    exporter.shows(
        "the push", lambda now: now.value("alertmanager_alerts_total", outcome="accepted") == 1
    )
    assert exporter.scrape().value("alertmanager_up") == 1
    assert exporter.scrape().total("polls_total") == 1, "the next poll has not begun"
