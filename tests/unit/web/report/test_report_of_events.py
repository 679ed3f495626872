"""Reports of what the simulator plays, and of the bodies that operators have published.

The golden files are the reports as somebody reads them: review each difference.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from re import sub
from typing import Any

import pytest

from azure_scheduled_events_exporter.commands.report import chosen, sources_of
from azure_scheduled_events_exporter.core.document_parser import parse_document
from azure_scheduled_events_exporter.core.impact import Impact, Readings, Tcp
from azure_scheduled_events_exporter.core.kinds import SHORT_FREEZE_SECONDS, with_kind
from azure_scheduled_events_exporter.core.lifecycle import Approver, Lifecycle
from azure_scheduled_events_exporter.core.timestamp import Timestamp
from azure_scheduled_events_exporter.journal.access import read_only, writable
from azure_scheduled_events_exporter.journal.content.inbox import ApprovalRequest
from azure_scheduled_events_exporter.simulator import Scenario, Simulator, shipped
from azure_scheduled_events_exporter.snapshot.hooks import HookRun
from azure_scheduled_events_exporter.web.report.content import report
from azure_scheduled_events_exporter.web.report.markdown import markdown
from azure_scheduled_events_exporter.web.report.page import page
from support.events.machine import START, Machine, MachineClock, event
from support.paths import PAYLOADS
from support.programs import eventually

WRITTEN_BY = "Written by a test."
NOTHING: Mapping[str, Any] = {
    "observed_pause": None,
    "pauses": 0,
    "pause_ended": None,
    "impact": None,
}
"""The impact of an event that nobody has measured."""
LINK = "https://traces.example/{}"
Compare = Callable[[str, str], None]
BODIES = [
    path
    for path in sorted(PAYLOADS.glob("*.json"))
    if not path.name.startswith(("error", "inst")) and b'"EventId"' in path.read_bytes()
]
"""The documents that operators have published, as IMDS sent them: not its errors, and not the
instance data. Those of one story differ in a number at the end of their names (:func:`story`).
"""


@pytest.fixture
def make_vm(tmp_path: Path) -> Iterator[Callable[..., Machine]]:
    """Make VMs, ``make_vm("vmss_0", scenario=...)``: each polls a simulator, both by one clock."""
    with ExitStack() as stack:

        def make(name: str = "vmss_0", **choices: object) -> Machine:
            clock = MachineClock()
            simulator = Simulator(seed="golden", clock=lambda: clock.wall, **choices)  # type: ignore[arg-type]
            stack.enter_context(simulator)
            return Machine(simulator, tmp_path, stack, name=name, clock=clock)

        yield make


def seconds_since_start(vm: Machine) -> float:
    """Return how many seconds after START it is by the clock of the VM."""
    return vm.clock.wall - START


def play(vm: Machine) -> None:
    """Poll shortly before and after each thing that happens, and once more after the last one."""
    vm.looks(seconds_since_start(vm) + 1)
    while (due := vm.imds._service.stage.next_at) is not None:
        for seconds in (due - START - 1, due - START + 1):
            if seconds > seconds_since_start(vm):
                vm.looks(seconds)
    vm.looks(seconds_since_start(vm) + 30)


def reports(vm: Machine, measured: Mapping[str, Any] = NOTHING) -> tuple[str, str]:
    """Return the report of the newest event, with this impact, as Markdown and as HTML."""
    vm.ends(in_order=True)
    with closing(read_only(vm.folder)) as store:
        life = with_impact(chosen(store, None), measured)
        content = report(sources_of(store, life, LINK.format("1f0e")))
    return markdown(content, WRITTEN_BY), page(content, WRITTEN_BY)


def with_impact(life: Lifecycle, measured: Mapping[str, Any]) -> Lifecycle:
    """Return the event with this impact: a clock that is set by hand jumps, so measures wrongly."""
    return with_kind(
        replace(life, **measured),
        (life.ended_at or life.first_seen).wall,
        SHORT_FREEZE_SECONDS,
    )


@pytest.mark.parametrize("scenario", shipped(), ids=lambda scenario: scenario.name)
def test_scenarios(scenario: Scenario, make_vm: Callable[..., Machine], golden: Compare) -> None:
    """Each scenario of the simulator has the report that its golden file has."""
    vm = make_vm(scenario=scenario)
    play(vm)
    text, html = reports(vm)
    golden(f"reports/{scenario.name}.md", text)
    if scenario.name == "live-migration":
        golden(f"reports/{scenario.name}.html", html)


def story(path: Path) -> str:
    """Return the name that the parts of a story share: ``x_1_scheduled`` and ``x_2_started`` are
    parts of ``x``.
    """
    return sub(r"_\d_[a-z_]+(_inc\d)?$", "", path.stem)


@pytest.mark.parametrize(
    ("name", "paths"), [(name, list(paths)) for name, paths in groupby(BODIES, story)]
)
def test_published_bodies(
    name: str, paths: list[Path], make_vm: Callable[..., Machine], golden: Compare
) -> None:
    """Each story that was published has the report that its golden file has.

    Its bodies are polled one after the other, by the first VM that they name.
    """
    bodies = [path.read_bytes() for path in paths]
    vms = [vm for body in bodies for event in parse_document(body).events for vm in event.resources]
    first_vm = make_vm(vms[0] if vms else "vm")
    for number, body in enumerate(bodies):
        first_vm.polls(30.0 * number, body=body)
    text, _ = reports(first_vm)
    golden(f"reports/{name}.md", text)


def prepared(life: Lifecycle, at: float) -> HookRun:
    """Return a run of a hook for an event; it takes 1.5 s and succeeds."""
    assert life.not_before is not None
    duration = 1.5
    return HookRun(
        run="1",
        command="drain.sh",
        event_id=life.event_id,
        event_type=life.event.event_type,
        phase="prepare",
        started=at,
        outcome="ok",
        duration=duration,
        seconds_left=life.not_before - (at + duration),
        output="draining 12 connections\n`done`",
    )


def before_a_reboot(seconds: float) -> Timestamp:
    """Return the moment ``seconds`` after START, on a VM that has not booted again."""
    wall = START + seconds
    return Timestamp(wall, wall - MachineClock.booted, "boot-1")


def first_seen(vm: Machine) -> Lifecycle:
    """Return the event that a poll 31 s after the start of the story shows."""
    vm.looks(31)
    assert vm.exporter
    [life] = vm.exporter.poller.snapshot.current.values()
    return life


def is_approved(vm: Machine) -> bool:
    """Poll 34 s after the start of the story; return whether its event is approved."""
    vm.looks(34)
    assert vm.exporter
    current = vm.exporter.poller.snapshot.current
    return all(life.approved_here for life in current.values())


def test_hooks_and_approvals(make_vm: Callable[..., Machine], golden: Compare) -> None:
    """A report says that the exporter approved the event by its policy, and that a hook was ready
    only after the event had started.
    """
    vm = make_vm(scenario="user-reboot")
    vm.policy = "documented"
    life = first_seen(vm)
    with closing(writable(vm.folder)) as store:
        late = replace(prepared(life, START + 31.2), outcome="too_late", exit_status=0)
        store.hook_runs.put(late)
    play(vm)
    text, _ = reports(vm)
    golden("reports/approved-and-prepared.md", text)


def test_measured_impact(make_vm: Callable[..., Machine], golden: Compare) -> None:
    """A report says that a hook approved the event, and has what was measured beside what was
    announced.
    """
    vm = make_vm(scenario="host-maintenance")
    life = first_seen(vm)
    with closing(writable(vm.folder)) as store:
        store.hook_runs.put(prepared(life, START + 31.2))
        vm.looks(33)
        asked = ApprovalRequest(
            life,
            operator="drain.sh",
            created=START + 33,
            expires=START + 63,
            approver=Approver.HOOK,
        )
        store.requests.add([asked])
        eventually(lambda: is_approved(vm), "an approval")
    play(vm)
    readings = Readings(before_a_reboot(0))
    impact = Impact(readings, readings, before=Tcp(3, 0), during=Tcp(412, 19), clock_step=41.1)
    measured = {
        "observed_pause": 41.25,
        "pauses": 2,
        "pause_ended": before_a_reboot(97),
        "impact": impact,
    }
    text, _ = reports(vm, measured)
    golden("reports/paused-longer.md", text)


def test_a_restart(make_vm: Callable[..., Machine], golden: Compare) -> None:
    """A report says when a VM that was moved booted, and how long it was away. If hooks ran, but
    none for this event, it says that too.
    """
    vm = make_vm("db_0")
    waiting = event("Redeploy", Resources=["db_0"])
    started = event("Redeploy", "Started", Resources=["db_0"])
    vm.polls(0, waiting)
    vm.polls(899, waiting)
    vm.polls(901, started)
    vm.polls(905, started)
    assert vm.exporter
    [life] = vm.exporter.poller.snapshot.current.values()
    run_for_another_event = replace(prepared(life, START), run="2", event_id="OTHER")
    with closing(writable(vm.folder)) as store:
        store.hook_runs.put(run_for_another_event)
    vm.ends(boots_at=1200.0)
    vm.polls(1230, started)
    vm.polls(1289, started)
    vm.polls(1290)
    vm.ends(in_order=True)
    # These figures replace what was measured here: the counters of the computer that runs the test,
    # and the jumps of a clock that is set by hand.
    readings = Readings(before_a_reboot(900))
    impact = Impact(readings, readings, before=Tcp(2, 0), during=Tcp(1, 0))
    with closing(read_only(vm.folder)) as store:
        life = with_impact(chosen(store, None), {"pauses": 1, "impact": impact})
        content = report(sources_of(store, life))
    golden("reports/restarted.md", markdown(content, WRITTEN_BY))
