"""Measured pauses of this VM: a stopped process, clocks that jump, reboots and restarts."""

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from email.utils import formatdate
from pathlib import Path

import pytest

from azure_scheduled_events_exporter.config import resolve
from azure_scheduled_events_exporter.core.pause import ClockSample
from azure_scheduled_events_exporter.core.spans import trace_id
from azure_scheduled_events_exporter.core.timestamp import Timestamp
from azure_scheduled_events_exporter.journal.files import read_only
from azure_scheduled_events_exporter.polling.clock import SystemClock, system_clock
from azure_scheduled_events_exporter.service.daemon import Exporter as Daemon
from azure_scheduled_events_exporter.simulator import Scenario, Simulator, VirtualMachine
from support.events.guest import LOG, START, Guest
from support.monitoring.collector import Collector
from support.programs import COMMAND, Exporter, Scrape, environment, eventually

QUIET = Scenario("quiet", "Nothing happens.", (VirtualMachine("vm_0"), VirtualMachine("vm_1")), ())
ID = "602D9444-D2CD-49C7-8624-8643E7171297"
POLL = ("--poll.interval", "300ms")  # the least that four requests a second allow
STOPPED = 2.0  # seconds
BUSY = 10.0  # seconds by which a busy machine may come late
Start = Callable[..., Exporter]


def event(kind: str, status: str, *vms: str, event_id: str = ID) -> dict[str, object]:
    """Return an event of this VM, or of ``vms``; it is due soon, and announced as 5 s."""
    return {
        "EventId": event_id,
        "EventStatus": status,
        "EventType": kind,
        "ResourceType": "VirtualMachine",
        "Resources": list(vms or ("vm_0",)),
        "NotBefore": formatdate(time.time() + 900, usegmt=True) if status == "Scheduled" else "",
        "Description": "",
        "EventSource": "Platform",
        "DurationInSeconds": 5,
    }


@pytest.fixture
def imds() -> Iterator[Simulator]:
    """A simulator in which nothing happens by itself."""
    with Simulator(QUIET) as running:
        yield running


def seen(exporter: Exporter, transition: str, times: int = 1) -> Scrape:
    """Return the metrics once the transition has happened so often."""

    def look(scrape: Scrape) -> Scrape | None:
        return scrape if scrape.transitions().get(transition) == times else None

    scrape = exporter.shows(f"{times} {transition}", look)
    assert scrape
    return scrape


def stop_between_polls(imds: Simulator, exporter: Exporter) -> None:
    """Stop the process right behind a poll; one that has begun the next poll meanwhile goes on until behind that."""
    while True:
        polls = exporter.scrape().total("polls_total")
        ended = exporter.shows("the end of a poll", lambda now: max(now.total("polls_total") - polls, 0)) + polls  # noqa: B023 - at once
        os.kill(exporter.process.pid, signal.SIGSTOP)
        eventually(lambda: is_stopped(exporter), "the stop")
        if sum(request.path.endswith("scheduledevents") for request in imds.requests) == ended:
            return
        os.kill(exporter.process.pid, signal.SIGCONT)


def is_stopped(exporter: Exporter) -> bool:
    """Return whether the process is stopped by a signal."""
    return Path(f"/proc/{exporter.process.pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"


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


def test_a_stopped_process(imds: Simulator, start_exporter: Start, tmp_path: Path) -> None:
    """A Freeze stops the exporter for two seconds: histogram, span, log and history say so; after a restart too."""
    with Collector() as collector:
        journal = tmp_path / "journal"
        flags = (*POLL, "--journal.path", str(journal), "--otlp.endpoint", collector.url)
        exporter = start_exporter(imds.url, *flags)
        exporter.shows("a poll", lambda now: now.value("up") == 1)
        imds.set_document([event("Freeze", "Scheduled")])
        assert not seen(exporter, "detected").series("observed_pause_seconds_count")
        imds.set_document([event("Freeze", "Started")])
        seen(exporter, "started")
        record_pause = stop_for_a_while(exporter)
        assert not exporter.scrape().series("observed_pause_seconds_count"), "only at its end"
        imds.set_document([])
        scrape = seen(exporter, "completed")
        assert scrape.value("observed_pause_seconds_count", event_type="Freeze") == 1
        pause = scrape.value("observed_pause_seconds_sum", event_type="Freeze")
        assert pause is not None
        assert record_pause - 0.1 <= pause <= record_pause + BUSY
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
        assert [life["observed_pause_seconds"] for life in history(journal)] == [pause]
        exporter.kill()
        again = seen(start_exporter(imds.url, *flags), "completed")
        assert again.series("observed_pause_seconds_sum") == [({"event_type": "Freeze"}, pause)]
        assert again.series("observed_pause_seconds_count") == [({"event_type": "Freeze"}, 1)]


def test_before_the_start_was_seen(imds: Simulator, start_exporter: Start) -> None:
    """A pause that begins before a poll has seen the event Started is its own too."""
    exporter = start_exporter(imds.url, "--poll.interval", "2s")
    exporter.shows("a poll", lambda now: now.value("up") == 1)
    imds.set_document([event("Freeze", "Scheduled")])
    seen(exporter, "detected")
    # The next poll, up to two seconds later, finds it Started after the pause.
    stop_between_polls(imds, exporter)
    imds.set_document([event("Freeze", "Started")])
    record_pause = stop_for_a_while(exporter)
    seen(exporter, "started")
    imds.set_document([])
    pause = seen(exporter, "completed").total("observed_pause_seconds_sum")
    assert record_pause - 1.0 <= pause <= record_pause + BUSY


def test_an_event_without_a_pause(imds: Simulator, start_exporter: Start) -> None:
    """An event that did not stop this VM is observed as well, with the little by which ticks are always late."""
    exporter = start_exporter(imds.url, *POLL)
    exporter.shows("a poll", lambda now: now.value("up") == 1)
    imds.set_document([event("Freeze", "Started")])
    seen(exporter, "started")
    imds.set_document([])
    scrape = seen(exporter, "completed")
    assert scrape.value("observed_pause_seconds_count", event_type="Freeze") == 1
    assert scrape.total("observed_pause_seconds_sum") < STOPPED, "some milliseconds on a machine that is not busy"


@dataclass
class GuestClock:
    """The machine's clocks, but for a wall clock that was late and is set right."""

    machine: SystemClock = field(default_factory=system_clock)
    set_by: float = 0.0

    def now(self) -> Timestamp:
        """Return this moment."""
        now = self.machine.now()
        return Timestamp(now.wall + self.set_by, now.monotonic, now.boot_id)

    def booted_at(self) -> Timestamp | None:
        """Return when this machine booted."""
        return self.machine.booted_at()

    def reading(self) -> ClockSample:
        """Return what each clock says."""
        read = self.machine.reading()
        return ClockSample(read.wall + self.set_by, read.monotonic, read.since_boot, read.boot_id)


@pytest.mark.parametrize(
    ("vm", "set_by", "pauses"),
    [
        pytest.param("vm_0", 47.5, {"Freeze": 47.5}, id="own"),
        pytest.param("vm_1", 47.5, {}, id="of another VM"),
        pytest.param("vm_0", 7200.0, {"Freeze": 0.0}, id="a clock that was set"),
    ],
)
def test_a_frozen_vm(vm: str, set_by: float, pauses: dict[str, float], imds: Simulator) -> None:
    """A pause in which all clocks of the VM stop is measured once its wall clock is corrected, for its own events."""
    flags = {"imds.endpoint": imds.url, "instance.name": "vm_0", "journal.path": "memory", "poll.interval": "300ms"}
    clock = GuestClock()
    daemon = Daemon(resolve(flags, {}), LOG, clock)

    def happened(transition: str) -> bool:
        counted = daemon.poller.snapshot.statistics.transitions.items()
        return any(count and key[-1] == transition for key, count in counted)

    daemon.start()
    try:
        eventually(lambda: daemon.poller.snapshot.polls.up, "a poll")
        imds.set_document([event("Freeze", "Started", vm)])
        eventually(lambda: happened("started"), "the start")
        told = sum(daemon.poller.snapshot.polls.outcomes.values())
        # Told before the clocks are looked at closely, which the end of the same poll sees to.
        eventually(lambda: sum(daemon.poller.snapshot.polls.outcomes.values()) > told, "the end of that poll")
        clock.set_by = set_by
        imds.set_document([])
        eventually(lambda: happened("completed"), "the end")
    finally:
        daemon.stop()
    found = {kind: histogram.total for (kind,), histogram in daemon.poller.snapshot.statistics.pauses.items()}
    assert found.keys() == pauses.keys()
    for kind, expected in pauses.items():
        assert expected <= found[kind] < expected + BUSY


@pytest.fixture
def guest(imds: Simulator, tmp_path: Path) -> Iterator[Guest]:
    """A VM that has not started its exporter yet."""
    with ExitStack() as stack:
        yield Guest(imds, tmp_path / "state", stack)


def test_two_impacts(guest: Guest) -> None:
    """Two impacts of one event are two pauses, and the event's own is the longer one."""
    guest.polls(event("Freeze", "Scheduled"))
    guest.polls(event("Freeze", "Started"))
    for seconds in (4, 2):
        guest.wall += seconds
        guest.polls(event("Freeze", "Started"))
    guest.polls()
    ((count, pause),) = guest.pauses.values()
    assert count == 1
    assert pause == pytest.approx(4, abs=0.06)
    assert guest.running().poller.snapshot.statistics.pause_counts == {("Freeze",): 2}


class TestReboot:
    """The VM goes down with the exporter."""

    def test_while_started(self, guest: Guest) -> None:
        """The pause of a reboot lasts from the last poll before it to the start of the exporter after it."""
        guest.polls(event("Reboot", "Scheduled"))
        guest.polls(event("Reboot", "Started"))
        guest.dies()
        guest.reboots(85.5)
        guest.polls()
        assert guest.pauses == {"Reboot": (1, 85.5)}
        guest.dies()
        guest.polls()
        assert guest.pauses == {"Reboot": (1, 85.5)}

    def test_in_order_before_the_start_was_seen(self, guest: Guest) -> None:
        """A guest that is shut down in order at NotBefore ends the exporter first, which remembers when."""
        guest.polls(event("Reboot", "Scheduled") | {"NotBefore": formatdate(START, usegmt=True)})
        guest.dies(in_order=True)
        guest.reboots(120)
        guest.polls()
        assert guest.pauses == {"Reboot": (1, 120)}

    def test_the_start_is_seen_afterwards(self, guest: Guest) -> None:
        """An event that is Started when the VM is back has had its reboot; what follows is measured on."""
        guest.polls(event("Redeploy", "Scheduled"))
        guest.dies(in_order=True)
        guest.reboots(300)
        guest.polls(event("Redeploy", "Started"))
        assert guest.pauses == {}
        guest.polls()
        assert guest.pauses == {"Redeploy": (1, 300)}

    def test_all_at_once(self, guest: Guest) -> None:
        """A VM that goes down while the event is Scheduled leaves no heartbeat, so no pause is observed."""
        guest.polls(event("Reboot", "Scheduled"))
        guest.dies()
        guest.reboots(85)
        guest.polls()
        assert guest.pauses == {}

    def test_imds_is_away_afterwards(self, guest: Guest) -> None:
        """A second crash before IMDS can be asked again does not lose the first sign of life."""
        guest.polls(event("Reboot", "Started"), event("Freeze", "Scheduled", event_id="F"))
        guest.polls(event("Reboot", "Started"), event("Freeze", "Started", event_id="F"))
        guest.dies()
        guest.reboots(60)
        guest.fails_to_poll()
        guest.dies(in_order=True)
        guest.reboots(40)
        guest.polls()
        assert guest.pauses == {"Freeze": (1, 100)} | {"Reboot": (1, 100)}

    def test_an_old_sign_is_no_sign(self, guest: Guest) -> None:
        """What an event before has left behind does not count for the next one."""
        guest.polls(event("Freeze", "Scheduled"))
        guest.polls(event("Freeze", "Started"))
        guest.polls()
        guest.polls(event("Reboot", "Scheduled", event_id="R"))
        guest.dies()
        guest.reboots(3600)
        guest.polls()
        assert guest.pauses == {"Freeze": (1, 0)}

    def test_a_sign_counts_once(self, guest: Guest) -> None:
        """A sign of life that a restart has found is gone: a sudden reboot later does not measure from there."""
        guest.polls(event("Reboot", "Scheduled"))
        guest.dies(in_order=True)
        guest.passes(45)
        guest.polls(event("Reboot", "Scheduled"))
        guest.dies()
        guest.reboots(3600)
        guest.polls()
        assert guest.pauses == {}

    def test_a_reboot_of_ones_own_before_the_start(self, guest: Guest) -> None:
        """A reboot by the owner while an event was merely announced is not its pause."""
        guest.polls(event("Freeze", "Scheduled"))
        guest.dies(in_order=True)
        guest.reboots(90)
        guest.polls(event("Freeze", "Scheduled"))
        guest.polls(event("Freeze", "Started"))
        guest.polls()
        assert guest.pauses == {"Freeze": (1, 0)}


class TestRestart:
    """The exporter alone was down, while the VM went on."""

    @pytest.mark.parametrize("in_order", [True, False])
    def test_while_started(self, guest: Guest, in_order: bool) -> None:  # noqa: FBT001 - a parameter of the test
        """The time without an exporter is not a pause of the VM, and earlier measurements stay."""
        guest.polls(event("Freeze", "Scheduled"))
        guest.polls(event("Freeze", "Started"))
        guest.wall += 3  # nobody polls meanwhile, as in a pause
        guest.polls(event("Freeze", "Started"))
        guest.dies(in_order=in_order)
        guest.passes(45)
        guest.polls(event("Freeze", "Started"))
        guest.polls()
        ((count, pause),) = guest.pauses.values()
        assert count == 1
        assert pause == pytest.approx(3, abs=0.06)

    def test_started_meanwhile(self, guest: Guest) -> None:
        """An event that started while no exporter ran is not measured: its pause may have been then."""
        guest.polls(event("Freeze", "Scheduled"))
        guest.dies(in_order=True)
        guest.passes(45)
        guest.polls(event("Freeze", "Started"))
        guest.polls()
        assert guest.pauses == {}

    def test_the_sign_goes_with_the_event(self, guest: Guest) -> None:
        """Signs of life are written while an event is Started, and nothing of them stays behind."""
        guest.polls(event("Freeze", "Scheduled"))
        assert self.sign(guest) is None
        guest.polls(event("Freeze", "Started"))
        assert self.sign(guest) == guest.reading()
        guest.wall += 1
        guest.polls(event("Freeze", "Started"))
        assert self.sign(guest) == guest.reading()
        guest.polls()
        assert self.sign(guest) is None

    def sign(self, guest: Guest) -> ClockSample | None:
        """Return what the journal holds."""
        return read_only(guest.folder).last_heartbeat()
