"""The shipped scenarios, each played to its end with simulated time, and the errors of scenario
files.
"""

from pathlib import Path

import pytest

from azure_scheduled_events_exporter.errors import UsageError
from azure_scheduled_events_exporter.simulator import scenario as scenario_module
from azure_scheduled_events_exporter.simulator.catalog import SHIPPED, find, shipped
from azure_scheduled_events_exporter.simulator.faults import (
    Fault,
    FaultPlan,
    FaultWindow,
    active,
    parse_plan,
)
from azure_scheduled_events_exporter.simulator.scenario_file import load, parse
from azure_scheduled_events_exporter.simulator.stage import Playlist, Stage

USUAL = ["announced", "started", "completed"]
STORIES = {
    "cancelled": ["announced", "rescheduled", "cancelled"],
    "degraded-host": ["announced", "cancelled"],
    "single-fault-domain": [
        "announced", "announced",
        "started", "started",
        "completed", "completed",
    ],
    "spot-advice": ["announced", "announced", "withdrawn", "started", "completed"],
    "rollout": [
        "announced", "announced", "started",
        # When an event of the rollout completes, the next one starts.
        "announced", "completed", "started",
        "announced", "completed", "started",
        "announced", "completed", "started",
        "completed", "started",
        "completed",
    ],
}  # fmt: skip
"""What happens in the scenarios that have several events, or one that takes another course."""


@pytest.mark.parametrize("name", SHIPPED)
def test_scenario_plays_to_its_end(name: str) -> None:
    """Every shipped scenario has its story, at the same moments at any speed, and no event is
    left.
    """
    stories = []
    for speed in (1, 1000):
        played = Stage(Playlist(find(name), speed), at=0, seed="seed")
        played.advance(10 * 86400)  # longer than any of them
        stories.append([(round(each.at * speed, 3), each.what.value) for each in played.record])
        assert (played.events, played.next_at) == ((), None)
    as_in_azure, faster = stories
    assert as_in_azure == faster
    assert [what for _, what in as_in_azure] == STORIES.get(name, USUAL)


@pytest.mark.parametrize("name", SHIPPED)
def test_the_first_vm_is_affected_first(name: str) -> None:
    """In every shipped scenario, the first event is one of the first VM, on which people try the
    exporter.
    """
    (scenario,) = find(name)
    assert scenario.vms[0].name == "vmss_0"
    assert scenario.events[0].resources[0] == "vmss_0"


def test_every_file_is_listed() -> None:
    """A scenario file in the package can be named, and has a description of one line."""
    folder = Path(scenario_module.__file__).parent / "scenarios"
    assert sorted(SHIPPED) == sorted(path.stem for path in folder.glob("*.yaml"))
    assert all(each.description and "\n" not in each.description for each in shipped())


def test_own_file_is_found_by_its_path(tmp_path: Path) -> None:
    """A user's scenario is named after its file and needs only a description and a type. All else
    is as usual for the type, in five VMs.
    """
    path = tmp_path / "friday.yaml"
    path.write_text("description: A drill.\nevents: [{type: Preempt}]\n")
    (scenario,) = find(str(path))
    event = scenario.events[0]
    assert scenario.name == "friday"
    duration_unknown = -1
    assert (event.notice, event.started_for, event.duration) == (30, 300, duration_unknown)
    assert event.source == "Platform"
    assert [vm.name for vm in scenario.vms] == ["vmss_0", "vmss_1", "vmss_2", "vmss_3", "vmss_4"]
    assert list(event.resources) == [vm.name for vm in scenario.vms]


# What follows ``events:`` in line 2 of a scenario file, and the error with its line.
BAD = [
    (
        "[{type: Freeze, resources: [b]}]",
        "2: events[0].resources: 'b' is none of this scenario's VMs: vmss_0, vmss_1, vmss_2",
    ),
    (
        "[{type: Freeze, starts: at once, notice: 1m}]",
        "2: events[0].notice: cannot be, since the event starts at once",
    ),
    (
        "[{type: Freeze, starts: never}]",
        "2: events[0].starts: an event that never starts needs cancelled_at",
    ),
    (
        "[{type: Freeze, cancelled_at: 1h}]",
        "2: events[0].cancelled_at: comes after the start: make it earlier",
    ),
    (
        "[{type: Freeze, cancelled_at: 10s}]",
        "2: events[0].cancelled_at: must come after announced_at and rescheduled_at",
    ),
    (
        "[{type: Freeze, rescheduled_at: 1h, new_notice: 1m}]",
        "2: events[0].rescheduled_at: must lie after announced_at",
    ),
    ("[{type: Freeze, rescheduled_at: 1m}]", "2: events[0].rescheduled_at: needs new_notice too"),
    ("[{type: Freeze, new_notice: 1m}]", "2: events[0].new_notice: needs rescheduled_at too"),
    (
        "[{type: SpotRebalanceRecommendation, notice: 1m}]",
        "2: events[0].notice: cannot be, since advice schedules nothing",
    ),
    (
        "[{type: SpotRebalanceRecommendation}]",
        "2: events[0].type: advice needs cancelled_at, after announced_at",
    ),
    ("[{type: Freeze, duration: 9000y}]", "2: events[0].duration: must be at most 1y"),
    ("[{type: Freeze, rescheduled_at: 9000y}]", "2: events[0].rescheduled_at: must be at most 1y"),
    ("[]\nvms: [{name: a}, {name: a}]", "3: vms: 'a' appears twice: every VM needs its own name"),
    ("[]\nvms: [{name: a/b}]", "3: vms[0].name: must be a VM's name: not empty, without '/'"),
    (
        '[]\nvms: [{name: "a\\uD800b"}]',
        "3: vms[0].name: must be a VM's name: not empty, without '/', and of printable",
    ),
]


@pytest.mark.parametrize(("text", "error"), BAD)
def test_bad_file_is_refused_with_its_line(text: str, error: str) -> None:
    """An error in a scenario file is reported in one line with its place."""
    with pytest.raises(UsageError) as refused:
        parse(f"description: x\nevents: {text}", "test.yaml")
    assert str(refused.value).startswith(f"test.yaml:{error}")


def test_unknown_scenario_is_answered_with_the_known_ones(tmp_path: Path) -> None:
    """A misspelled scenario lists those there are; a file that is not there is named."""
    with pytest.raises(
        UsageError,
        match=r"'live' is no scenario: choose from all, live-migration, .* or give the path",
    ):
        find("live")
    with pytest.raises(UsageError, match=r"gone\.yaml: cannot be read: No such file"):
        load(tmp_path / "gone.yaml")


def test_fault_times_follow_the_speed() -> None:
    """A fault holds from its start to just before its end, in compressed time, and without an end
    for ever. Of several faults at one moment, the last one wins.
    """
    plan = parse_plan("throttle@2m+30s")
    assert plan == FaultPlan(Fault.THROTTLE, 120, 30)
    # At speed 60, from 1000 s on: throttled from 1002 s to 1002.5 s, and reset within that.
    windows = (plan.window(1000, 60), FaultWindow(Fault.RESET, 1002.2, 1002.3))
    moments = (1001.9, 1002, 1002.25, 1002.4, 1002.5)
    assert [active(windows, moment) for moment in moments] == [
        None,
        "throttle",
        "reset",
        "throttle",
        None,
    ]
    without_an_end = parse_plan("503").window(0, 1)
    assert active((without_an_end,), 1e9) is Fault.UNAVAILABLE


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("418", "'418' is no fault: choose from throttle, timeout,"),
        ("400@soon", "fault '400@soon': 'soon' is no duration: .*NAME"),
        ("400@1m+", r"fault '400@1m\+': '' is no duration"),
    ],
)
def test_bad_fault_is_refused(text: str, complaint: str) -> None:
    """A fault that is misspelled or mistimed, as after --fault, is refused with what can be
    written.
    """
    with pytest.raises(UsageError, match=complaint):
        parse_plan(text)
