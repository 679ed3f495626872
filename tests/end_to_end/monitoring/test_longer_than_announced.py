"""A VM that stood still for longer than Azure had announced: everything that people read says so.

Two Freezes are announced as 5 s. One VM stands still for 12 s, and its twin for 4.
"""

import re
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from email.utils import formatdate
from pathlib import Path
from typing import Any

import pytest

from azure_scheduled_events_exporter.core.spans import trace_id
from azure_scheduled_events_exporter.simulator import Simulator
from dashboards import titles
from support.commands import command
from support.events.imds_bodies import entry
from support.events.standstill import Stop, frozen, stand_still, stopped
from support.monitoring.board_reader import BoardReader, of_vm
from support.monitoring.collector import Collector
from support.monitoring.paging import JOB, Stack
from support.programs import Exporter, eventually

ANNOUNCED = 5
STOOD_STILL = {"vm_0": 12.0, "vm_1": 4.0}
EVENTS = {
    "vm_0": "0C0FFEE0-0000-4000-8000-000000000000",
    "vm_1": "1C0FFEE0-0000-4000-8000-000000000001",
}
EXACT = 0.15  # seconds by which a pause may be measured as shorter than it was
BUSY = 10.0  # seconds by which a busy machine may come late
MINUTE = 60.0
FAST = {
    "scrape.interval": "1s",
    "evaluation.interval": "1s",
    "group.wait": "0s",
    "group.interval": "1s",
}
SPANS = ("approval", "detected", "scheduled", "scheduled_event", "started")


@dataclass(frozen=True)
class Scene:
    """Two VMs with exporters, and what is behind them."""

    imds: Simulator
    exporters: Mapping[str, Exporter]
    journals: Mapping[str, Path]
    chain: Stack
    collector: Collector

    def document(self, status: str) -> None:
        """Show both events with this status."""
        due = formatdate(time.time() + 900, usegmt=True) if status == "Scheduled" else ""
        facts = {"EventType": "Freeze", "EventStatus": status, "NotBefore": due}
        self.imds.set_document(
            [
                entry(EventId=event, Resources=[vm], DurationInSeconds=ANNOUNCED, **facts)
                for vm, event in EVENTS.items()
            ]
        )
        for vm, exporter in self.exporters.items():
            exporter.shows(
                status,
                lambda now, vm=vm: now.series(  # type: ignore[misc]
                    "event_info", event_id=EVENTS[vm], event_status=status
                ),
            )

    def pause(self, vm: str) -> float:
        """Return the pause that the exporter of a VM shows for its event."""
        found = (
            self.exporters[vm]
            .scrape()
            .value("event_observed_pause_seconds", event_id=EVENTS[vm], scope="self")
        )
        return found or 0.0

    def alerts(self, event_id: str) -> dict[str, dict[str, Any]]:
        """Return the alerts about an event that came as a page or a ticket, by path and name."""
        return {
            f"{each.path} {alert['labels']['alertname']}": alert
            for each in self.chain.receiver.webhooks()
            for alert in each.body["alerts"]
            if alert["labels"].get("event_id") == event_id
        }


@pytest.fixture
def scene(
    simulator: Simulator, start_exporter: Callable[..., Exporter], tmp_path: Path
) -> Iterator[Scene]:
    """Two exporters that Prometheus scrapes, and that send spans."""
    journals = {vm: tmp_path / vm for vm in EVENTS}
    with Collector() as collector:
        exporters = {
            vm: start_exporter(
                simulator.vm_url(vm),
                "--journal.path",
                str(journals[vm]),
                "--otlp.endpoint",
                collector.url,
            )
            for vm in EVENTS
        }
        targets = [f"127.0.0.1:{exporter.port}" for exporter in exporters.values()]
        with Stack(tmp_path, FAST, targets) as chain:
            chain.wait_for_targets(len(EVENTS))
            yield Scene(simulator, exporters, journals, chain, collector)


@pytest.mark.parametrize("stop", [stopped, frozen], ids=lambda stop: stop.__name__)
def test_twelve_seconds_instead_of_five(scene: Scene, stop: Stop) -> None:
    """Ticket, report, dashboards and trace say 12 s; a twin whose pause was no longer than
    announced has no ticket.
    """
    scene.document("Scheduled")
    scene.document("Started")
    seconds_by_pid = {
        scene.exporters[vm].process.pid: seconds for vm, seconds in STOOD_STILL.items()
    }
    stand_still(stop, seconds_by_pid)
    long = pause_of(scene, "vm_0")
    short = pause_of(scene, "vm_1")
    assert_ticket(scene, long)
    scene.imds.set_document([])
    for exporter in scene.exporters.values():
        exporter.shows(
            "the end", lambda now: now.value("event_ended_timestamp_seconds", scope="self")
        )
    assert_trace(scene, long)
    assert_report(scene, {"vm_0": long, "vm_1": short})
    assert_boards(scene, {"vm_0": long, "vm_1": short})
    assert scene.alerts(EVENTS["vm_1"]) == {}, "its pause was shorter than announced"


def pause_of(scene: Scene, vm: str) -> float:
    """Return the pause of a VM once its exporter has measured it."""
    least = STOOD_STILL[vm] - EXACT
    pause = eventually(lambda: scene.pause(vm), f"the pause of {vm}", until=lambda it: it >= least)
    assert pause < least + BUSY
    return pause


def assert_ticket(scene: Scene, long: float) -> None:
    """The ticket comes, and names the VM, the pause and the announcement."""
    name = "/tickets AzureScheduledEventPausedLonger"
    alert = eventually(lambda: scene.alerts(EVENTS["vm_0"]).get(name), "the ticket")
    assert alert
    summary = alert["annotations"]["summary"]
    assert summary.startswith("vm_0 ")
    assert f" stood still for {long:.0f} s; Azure had announced {ANNOUNCED} s." in summary


def assert_trace(scene: Scene, long: float) -> None:
    """The spans say both, in seconds."""
    spans = scene.collector.wait_for(*SPANS, trace_id=trace_id(EVENTS["vm_0"]))
    for name in ("started", "scheduled_event"):
        attributes = spans[name].attributes
        assert attributes["azure.scheduled_event.observed_pause_seconds"] == long
        assert attributes["azure.scheduled_event.duration_seconds"] == ANNOUNCED


def assert_report(scene: Scene, pauses: Mapping[str, float]) -> None:
    """The reports have the pause beside the announcement."""
    for vm, pause in pauses.items():
        done = command("report", EVENTS[vm], "--journal.path", str(scene.journals[vm]))
        assert done.returncode == 0, done.stderr
        # A busy machine pauses a VM now and then, too: how many pauses there were is left out.
        row = (
            rf"\| Interruption of the VM \| {ANNOUNCED}s \|  \| paused (once, )?for {pause:.1f}s, "
        )
        assert re.search(row, done.stdout)


def assert_boards(scene: Scene, pauses: Mapping[str, float]) -> None:
    """The dashboards of the VMs show both pauses; the timeline of the fleet leaves out the twin."""
    for vm, pause in pauses.items():
        variables = of_vm(vm, f"127.0.0.1:{scene.exporters[vm].port}")
        board = BoardReader("vm", scene.chain.url, variables)
        wait_for_row(board, pause)
        wait_for_timeline(board, {"Freeze": f"{pause:g}"})
    fleet = BoardReader("fleet", scene.chain.url, {"$job": JOB})
    wait_for_timeline(fleet, {"vm_0": f"{pauses['vm_0']:g}"})


def wait_for_row(board: BoardReader, pause: float) -> None:
    """Wait until the dashboard of a VM has its one event, with both durations."""

    def measured() -> list[tuple[float, float]]:
        rows = board.table(titles.MEASURED)
        return [(float(row["Announced"]), float(row["Paused"])) for row in rows]

    eventually(measured, f"{pause} s", until=lambda rows: rows == [(ANNOUNCED, pause)])


def wait_for_timeline(board: BoardReader, expected: Mapping[str, str]) -> None:
    """Wait until the rows of a timeline end with ``expected``."""

    def newest() -> dict[str, str]:
        # It has a value for each whole minute: the next one is that of now.
        soon = replace(board, at=time.time() + MINUTE)
        return {row: states[-1] for row, states in soon.timeline(titles.TIMELINE).items()}

    eventually(newest, f"{expected}", until=lambda rows: rows == expected)
