"""What running exporters report of an event is what happened to it: over boots, empty bodies, returns and pauses."""

import json
import os
import signal
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from email.utils import formatdate
from pathlib import Path

import pytest

from azure_scheduled_events_exporter.core.spans import trace_id
from azure_scheduled_events_exporter.simulator import Scenario, Simulator, VirtualMachine
from azure_scheduled_events_exporter.simulator.server import steady_clock
from support.events.booting_vm import BootingVm
from support.events.follower import Follower, settled
from support.events.gate import Gate
from support.monitoring.collector import Collector
from support.paths import DATA
from support.programs import COMMAND, Exporter, Program, Scrape, eventually, fetch
from trials.trial import polls_on

ID = "602D9444-D2CD-49C7-8624-8643E7171297"
VMS = tuple(VirtualMachine(f"vmss_{number}", scale_set="vmss") for number in range(3))
QUIET = Scenario("quiet", "Nothing happens.", VMS, ())
FAST = ("--poll.interval", "250ms")
HOUR = 3600.0
OLD_NOT_BEFORE = 3_227_639_218.0  # of the events in the old journals: in 2072
Start = Callable[..., Exporter]


@pytest.fixture
def imds() -> Iterator[Simulator]:
    """A simulator whose events are placed by hand."""
    with Simulator(QUIET, requests_per_second=1000) as running:
        yield running


@pytest.fixture
def vm(tmp_path: Path) -> Iterator[BootingVm]:
    """A VM that boots when the test says so."""
    with ExitStack() as stack:
        yield BootingVm(tmp_path / "vm", stack)


def event(
    status: str = "Scheduled", kind: str = "Reboot", not_before: float = 0.0, **more: object
) -> dict[str, object]:
    """Return an event of the first VM; ``not_before`` in Unix seconds, else in an hour."""
    due = formatdate(not_before or time.time() + HOUR, usegmt=True)
    return {
        "EventId": ID,
        "EventStatus": status,
        "EventType": kind,
        "ResourceType": "VirtualMachine",
        "Resources": ["vmss_0"],
        "NotBefore": "" if status == "Started" else due,
        "Description": "",
        "EventSource": "Platform",
        "DurationInSeconds": -1,
        **more,
    }


def seen(exporter: Exporter, **transitions: int) -> Scrape:
    """Return the metrics once exactly these transitions are counted."""

    def look(scrape: Scrape) -> Scrape | None:
        return scrape if scrape.transitions() == transitions else None

    scrape = exporter.shows(f"{transitions}", look)
    assert scrape
    return scrape


def ended(exporter: Exporter) -> dict[str, float]:
    """Return all transitions once the event has ended in one way or another."""
    ends = {"completed", "cancelled", "lost"}
    exporter.shows("an end", lambda scrape: ends & scrape.transitions().keys())
    return exporter.scrape().transitions()


def stops(exporter: Exporter, seconds: float) -> None:
    """Stop the process for a while, as a Freeze does."""
    os.kill(exporter.process.pid, signal.SIGSTOP)
    until = time.monotonic() + seconds
    try:
        eventually(lambda: time.monotonic() > until, "the time to pass")
    finally:
        os.kill(exporter.process.pid, signal.SIGCONT)


@pytest.mark.parametrize("ahead", [HOUR, 3 * 24 * HOUR])
def test_a_boot_before_not_before(ahead: float, imds: Simulator, vm: BootingVm) -> None:
    """An event called off after its owner's boot, long before NotBefore, is lost: it did not start with that boot."""
    vm.goes_back(2160)
    exporter = vm.starts(imds.url)
    imds.set_document([event(kind="Redeploy", not_before=vm.boot - 2160 + ahead)])
    seen(exporter, detected=1)
    exporter.kill()
    imds.set_document([])
    vm.boots()
    assert ended(vm.starts(imds.url)) == {"detected": 1, "lost": 1}


def test_the_approval_of_ones_own_reboot(imds: Simulator, vm: BootingVm) -> None:
    """A reboot at its NotBefore that only the boot shows is counted with its approval, by the deadline."""
    vm.goes_back(900)
    exporter = vm.starts(imds.url)
    imds.set_document([event(not_before=vm.boot - 5)])
    seen(exporter, detected=1)
    exporter.kill()
    imds.set_document([])
    vm.boots()
    after = vm.starts(imds.url)
    assert ended(after) == {"detected": 1, "completed": 1}
    scrape = after.scrape()
    assert scrape.value("approval_latency_seconds_count", approved_by="deadline") == 1
    assert scrape.value("approval_latency_seconds_sum", approved_by="deadline") == pytest.approx(900, abs=30)


def test_a_moment_of_empty_bodies(imds: Simulator, start_exporter: Start) -> None:
    """Empty bodies for a second end no event, whose start and end are then reported."""
    exporter = start_exporter(imds.url, *FAST)
    imds.set_document([event()])
    seen(exporter, detected=1)
    imds.serve_body(b"")
    asked = len(imds.requests)
    eventually(lambda: len(imds.requests) > asked + 3, "polls that get an empty body")
    imds.set_document([event("Started")])
    scrape = seen(exporter, detected=1, approved=1, started=1)
    assert scrape.value("started", event_type="Reboot", scope="self") == 1
    imds.set_document([])
    seen(exporter, detected=1, approved=1, started=1, completed=1)


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


def test_rare_polls(vm: BootingVm) -> None:
    """An event that left between two polls more than a minute apart is lost, with any poll interval."""
    simulator = Simulator(QUIET)
    other = {**event(), "EventId": ID.replace("602D", "702D")}
    with simulator, Gate(simulator.url) as gate:
        simulator.set_document([event(EventSource="User"), other])

        def a_minute_passes(_: object) -> int:
            simulator.set_document([event("Started", EventSource="User")])
            vm.clock.set(100)
            return 200

        gate.treat(a_minute_passes)
        vm.hides_its_boot()
        exporter = vm.starts(gate.url, "--poll.interval", "2m", "--approval.policy", "documented")
        transitions = ended(exporter)
    assert transitions == {"detected": 2, "approved": 1, "started": 1, "lost": 1}


def test_two_pauses_of_one_event(imds: Simulator, start_exporter: Start) -> None:
    """A second impact while the same event is Started is counted, and the longest pause is that of the event."""
    exporter = start_exporter(imds.url, *FAST)
    imds.set_document([event(kind="Freeze")])
    seen(exporter, detected=1)
    imds.set_document([event("Started", kind="Freeze")])
    seen(exporter, detected=1, approved=1, started=1)
    stops(exporter, 4.0)
    polls_on(exporter, 3)
    stops(exporter, 2.0)
    polls_on(exporter, 3)
    imds.set_document([])
    scrape = seen(exporter, detected=1, approved=1, started=1, completed=1)
    assert scrape.value("observed_pause_seconds_count", event_type="Freeze") == 1
    assert scrape.total("observed_pause_seconds_sum", event_type="Freeze") >= 3.5
    # At least: a busy machine may keep the exporter from running for 0.1 s, which is a pause too.
    assert scrape.total("observed_pauses_total", event_type="Freeze") >= 2


@contextmanager
def simulated(scenario: str, folder: Path) -> Iterator[str]:
    """Run ``simulate`` as people do; yield its address."""
    arguments = [COMMAND, "simulate", "--scenario", scenario, "--web.listen-address", "127.0.0.1:0"]
    with Program(arguments, folder / "simulate.log") as program:
        yield program.wait_for_line(r"vmss_0: .* --imds.endpoint (\S+)\n")[1]


def play(url: str, scenario: str, speed: float) -> None:
    """Begin the scenario anew."""
    assert fetch(f"{url}/simulator/play", "POST", json.dumps({"scenario": scenario, "speed": speed}).encode())


def test_the_second_impact_is_of_the_same_event(start_exporter: Start, tmp_path: Path) -> None:
    """The scenario double-impact has one event, Started once and completed once."""
    with simulated("double-impact", tmp_path) as url:
        exporter = start_exporter(url, *FAST)
        exporter.shows("a poll", lambda scrape: scrape.value("up") == 1)
        play(url, "double-impact", 200)
        seen(exporter, detected=1, started=1, completed=1)
        record = json.loads(fetch(f"{url}/simulator/record").body)["record"]
        assert [each["what"] for each in record] == ["announced", "started", "impact", "completed"]
        assert len({each["event_id"] for each in record}) == 1


def test_each_vm_of_a_single_fault_domain_sees_its_own(start_exporter: Start, tmp_path: Path) -> None:
    """GPU VMs of a scale set with one fault domain report events of their own VM, and none of another."""
    with simulated("single-fault-domain", tmp_path) as url:
        exporters = [start_exporter(f"{url}{vm}", *FAST) for vm in ("", "/vm/vmss_1")]
        play(url, "single-fault-domain", 50)
        for exporter in exporters:
            exporter.shows("its own event", lambda scrape: scrape.total("pending", scope="self") == 1)
            polls_on(exporter, 2)
            assert exporter.scrape().total("pending", scope="peer") == 0


def test_no_interruption(imds: Simulator, start_exporter: Start) -> None:
    """The status page says that an event with DurationInSeconds 0 interrupts nothing, and of another that it pauses."""
    exporter = start_exporter(imds.url, *FAST)
    said = {0: "Azure announces no interruption", 5: "Pauses this VM"}
    for seconds, sentence in said.items():
        imds.set_document([event(kind="Freeze", DurationInSeconds=seconds)])
        page = eventually(
            lambda: text if sentence in (text := fetch(f"{exporter.url}/").body.decode()) else "",  # noqa: B023 - called now
            sentence,
        )
        assert [each for each in said.values() if each in page] == [sentence]


def test_resource_type(imds: Simulator, start_exporter: Start, tmp_path: Path) -> None:
    """ResourceType is in the log, in ``events --follow``, in the JSON of current events and in spans, in no label."""
    state = tmp_path / "state"
    with Collector() as collector:
        exporter = start_exporter(imds.url, *FAST, "--journal.path", str(state), "--otlp.endpoint", collector.url)
        with Follower(imds.url, state, tmp_path / "follower") as follower:
            settled(follower)
            imds.set_document([event(ResourceType="VirtualMachineScaleSet")])
            seen(exporter, detected=1)
            (line,) = exporter.lines("event detected")
            assert "resource_type=VirtualMachineScaleSet" in line
            (current,) = json.loads(fetch(f"{exporter.url}/api/v1/events").body)["events"]
            assert current["resource_type"] == "VirtualMachineScaleSet"
            follower.wait_for((ID, "detected"))
            assert follower.printed[0]["resource_type"] == "VirtualMachineScaleSet"
        span = collector.wait_for("detected", trace_id=trace_id(ID))["detected"]
        assert span.attributes["azure.scheduled_event.resource_type"] == "VirtualMachineScaleSet"
        assert b"VirtualMachineScaleSet" not in fetch(f"{exporter.url}/metrics").body


def test_a_fleet_counts_an_approval_once(start_exporter: Start) -> None:
    """Of one approved Reboot a group of three VMs counts one approval, one notice and one phase."""
    with Simulator(QUIET) as simulator:
        fleet = [start_exporter(simulator.vm_url(each.name), *FAST, "--approval.policy", "documented") for each in VMS]
        for exporter in fleet:
            exporter.shows("a poll", lambda scrape: scrape.value("up") == 1)
        simulator.set_document([event(EventSource="User", not_before=time.time() + 900)])
        for exporter in fleet:
            exporter.shows("detected", lambda scrape: scrape.transitions().get("detected") == 1)
        seen(fleet[0], detected=1, approved=1)
        simulator.set_document([event("Started", EventSource="User")])
        scrapes = [seen(exporter, detected=1, approved=1, started=1) for exporter in fleet]
    approvals = [
        labels["approved_by"] for s in scrapes for labels, n in s.series("approval_latency_seconds_count") if n
    ]
    assert approvals == ["exporter"]
    assert sum(scrape.total("notice_seconds_count") for scrape in scrapes) == 1
    assert sum(scrape.total("notice_seconds_sum") for scrape in scrapes) == pytest.approx(898, abs=10)
    assert sum(scrape.total("phase_duration_seconds_count", phase="scheduled") for scrape in scrapes) == 1


@pytest.mark.parametrize("fault", ["throttle", "500"])
def test_patience_with_the_first_answer(fault: str, start_exporter: Start) -> None:
    """A late first answer is waited for also after a 429 or 500."""
    slow = Simulator(QUIET, first_answer_delay=5.0)
    with Simulator(QUIET, faults=[fault]) as refusing, slow as enabling, Gate(refusing.url) as gate:
        exporter = start_exporter(gate.url, "--imds.timeout", "3s", "--instance.name", "vmss_0")
        exporter.shows("a refusal", lambda scrape: scrape.total("polls_total"))
        gate.target = enabling.url
        scrape = exporter.shows("an answer", lambda now: now if now.value("up") == 1 else None)
        assert scrape
        assert scrape.total("polls_total", outcome="timeout") == 0


def test_patience_after_a_day(vm: BootingVm) -> None:
    """After a day without an answer Azure may have disabled the service, so a late answer is waited for again."""
    clock, ahead = steady_clock(), [0.0]
    with Simulator(QUIET, first_answer_delay=5.0, clock=lambda: clock() + ahead[0]) as simulator:
        # The first poll takes 5 s, so the second one begins 3 s after it.
        flags = ("--imds.timeout", "3s", "--poll.interval", "8s", "--instance.name", "vmss_0")
        exporter = vm.starts(simulator.url, *flags)
        os.kill(exporter.process.pid, signal.SIGSTOP)  # between two polls
        vm.clock.set(86_500)
        ahead[0] = 86_500.0
        os.kill(exporter.process.pid, signal.SIGCONT)
        polls_on(exporter, 1)
        scrape = exporter.scrape()
        assert scrape.value("up") == 1
        assert scrape.total("polls_total", outcome="timeout") == 0


def test_a_status_that_nobody_knows(imds: Simulator, start_exporter: Start) -> None:
    """An event with an undocumented status is pending, not started, and lost when it leaves."""
    exporter = start_exporter(imds.url, *FAST)
    imds.set_document([event("Deferred")])
    scrape = seen(exporter, detected=1)
    assert scrape.total("pending", event_type="Reboot", scope="self") == 1
    assert scrape.total("started") == 0
    imds.set_document([])
    seen(exporter, detected=1, lost=1)


def test_every_reschedule_is_in_the_trace(imds: Simulator, start_exporter: Start) -> None:
    """Each move of NotBefore is an event of the root span, with NotBefore before and after it."""
    times = [round(time.time()) + HOUR * number for number in (1, 2, 3)]
    with Collector() as collector:
        exporter = start_exporter(imds.url, *FAST, "--otlp.endpoint", collector.url)
        for number, not_before in enumerate(times):
            imds.set_document([event(not_before=not_before)])
            seen(exporter, detected=1, **({"rescheduled": number} if number else {}))
        imds.set_document([])
        eventually(lambda: "scheduled_event" in collector.names(trace_id(ID)), "the root span")
        (root,) = [span for span in collector.spans(trace_id(ID)).values() if span.name == "scheduled_event"]
    iso = [time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(each)) for each in times]
    moves = [(name, facts.values()) for name, facts in root.events]
    assert [name for name, _ in moves] == ["rescheduled", "rescheduled"]
    assert [set(values) for _, values in moves] == [set(iso[:2]), set(iso[1:])]


@pytest.mark.parametrize("schema", [1, 2])
def test_an_old_journal(schema: int, imds: Simulator, start_exporter: Start, tmp_path: Path) -> None:
    """A journal of an old schema opens: its counters go on, its histograms leave out other VMs, its events live on."""
    state = tmp_path / "journal.sqlite"
    with closing(sqlite3.connect(state)) as connection:
        connection.executescript((DATA / "journals" / f"schema-{schema}-group.sql").read_text())
    waiting = event(kind="Redeploy", not_before=OLD_NOT_BEFORE, EventId="40000000-0000-4000-8000-000000000004")
    cancelled = event(kind="Freeze", not_before=OLD_NOT_BEFORE, EventId="30000000-0000-4000-8000-000000000003")
    flags = (*FAST, "--journal.path", str(state), "--journal.retention", "36500d")
    imds.set_document([waiting])
    exporter = start_exporter(imds.url, *flags)
    before = {"detected": 4, "approved": 2, "started": 2, "completed": 2}
    scrape = exporter.shows("a poll", lambda now: now if now.value("up") == 1 else None)
    assert scrape
    assert scrape.transitions() == {**before, "cancelled": 1}
    notices = {labels["event_type"]: count for labels, count in scrape.series("notice_seconds_count")}
    assert notices == {"Reboot": 1, "Freeze": 1, "Redeploy": 1}, "the Freeze of another VM is left out"
    approvals = [(labels["approved_by"], count) for labels, count in scrape.series("approval_latency_seconds_count")]
    assert approvals == [("exporter", 1)]
    assert scrape.total("phase_duration_seconds_count", phase="started") == 1
    imds.set_document([])
    seen(exporter, **before, cancelled=2)
    imds.set_document([cancelled])
    seen(exporter, **before, cancelled=2, returned=1)
    exporter.kill()
    scrape = seen(start_exporter(imds.url, *flags), **before, cancelled=2, returned=1)
    assert scrape.value("journal_errors_total") == 0
    assert scrape.total("notice_seconds_count") == 3
