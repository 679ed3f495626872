"""The shipped scenarios, each played to its end with simulated time, and the errors of scenario files."""

import os
from pathlib import Path

import pytest

from azure_scheduled_events_exporter.core.event_types import EventType
from azure_scheduled_events_exporter.errors import UsageError
from azure_scheduled_events_exporter.simulator import Simulator
from azure_scheduled_events_exporter.simulator import scenario as scenario_module
from azure_scheduled_events_exporter.simulator.faults import Fault, FaultPlan, active, parse_plan
from azure_scheduled_events_exporter.simulator.scenario import SHIPPED, find, load, parse, shipped
from azure_scheduled_events_exporter.simulator.stage import SLOWEST, Playlist, Stage

MINUTE = 60.0

STORIES = {
    "live-migration": [(30, "announced"), (930, "started"), (1530, "completed")],
    "host-maintenance": [(30, "announced"), (930, "started"), (1410, "completed")],
    "user-reboot": [(30, "announced"), (930, "started"), (1110, "completed")],
    "user-redeploy": [(30, "announced"), (630, "started"), (930, "completed")],
    "spot-preempt": [(30, "announced"), (60, "started"), (360, "completed")],
    "terminate": [(30, "announced"), (630, "started"), (930, "completed")],
    "cancelled": [(30, "announced"), (300, "rescheduled"), (720, "cancelled")],
    "host-failure": [(60, "announced"), (60, "started"), (540, "completed")],
    "degraded-host": [(30, "announced"), (2400, "cancelled")],
    "waiting-neighbors": [(30, "announced"), (930, "started"), (1110, "completed")],
    "single-fault-domain": [
        (30, "announced"),
        (120, "announced"),
        (930, "started"),
        (1020, "started"),
        (1530, "completed"),
        (1620, "completed"),
    ],
    "automatic-approval": [(30, "announced"), (30, "started"), (210, "completed")],
    "spot-advice": [
        (30, "announced"),
        (630, "announced"),
        (630, "withdrawn"),
        (660, "started"),
        (960, "completed"),
    ],
    "rollout": sorted(
        (30 + vm * 11 * MINUTE + after, what)
        for vm in range(5)
        for after, what in ((0, "announced"), (900, "started"), (1500, "completed"))
    ),
}


@pytest.mark.parametrize("speed", [1, 1000])
@pytest.mark.parametrize("name", SHIPPED)
def test_scenario_plays_to_its_end(name: str, speed: float) -> None:
    """In every shipped scenario, events happen at their times, at any speed, and none is left at the end."""
    played = Stage(Playlist(find(name), speed), at=0, seed="seed")
    played.advance(10 * 86400)
    assert [(round(each.at * speed, 3), each.what.value) for each in played.record] == STORIES[name]
    assert (played.events, played.next_at) == ((), None)
    assert played.scenario.events[0].resources[0] == played.scenario.vms[0].name == "vmss_0"


def test_every_file_is_listed() -> None:
    """A scenario file in the package is a scenario one can name, and has a description of one line."""
    folder = Path(scenario_module.__file__).parent / "scenarios"
    assert sorted(SHIPPED) == sorted(path.stem for path in folder.glob("*.yaml")) == sorted(STORIES)
    assert all(each.description and "\n" not in each.description for each in shipped())


def test_rollout_goes_through_the_fault_domains_one_after_another() -> None:
    """The rollout touches a VM of the next fault domain only when the one before is done."""
    (rollout,) = find("rollout")
    domains = {vm.name: vm.fault_domain for vm in rollout.vms}
    assert [domains[name] for event in rollout.events for name in event.resources] == ["0", "1", "2", "3", "4"]
    ends = [event.not_before + event.started_for for event in rollout.events]
    assert all(event.not_before > end for event, end in zip(rollout.events[1:], ends, strict=False))


def test_own_file_is_found_by_its_path(tmp_path: Path) -> None:
    """A user's scenario is named after its file and needs only a description and a type."""
    path = tmp_path / "friday.yaml"
    path.write_text("description: A drill.\nevents: [{type: Preempt}]\n")
    (scenario,) = find(str(path))
    event = scenario.events[0]
    assert scenario.name == "friday"
    assert (event.notice, event.started_for, event.duration, event.source) == (30, 300, -1, "Platform")
    assert event.resources == tuple(vm.name for vm in scenario.vms) == tuple(f"vmss_{n}" for n in range(5))


BAD = {
    "events: []": "test.yaml:1: 'description' is missing",
    "description: x\nevnts: []": ("test.yaml:2: evnts: unknown key; known here: description, events, faults, vms"),
    "description: x\nevents: [{type: Frezze}]": (
        f"test.yaml:2: events[0].type: 'Frezze' is none of {', '.join(EventType)}, SpotRebalanceRecommendation"
    ),
    "description: x\nevents: [{type: Freeze, resources: [vmss_9]}]": (
        "test.yaml:2: events[0].resources: 'vmss_9' is none of this scenario's VMs: "
        "vmss_0, vmss_1, vmss_2, vmss_3, vmss_4"
    ),
    "description: x\nvms: [{name: a}, {name: a}]": ("test.yaml:2: vms: 'a' appears twice: every VM needs its own name"),
    "description: x\nvms: [{name: a/b}]": ("test.yaml:2: vms[0].name: must be a VM's name: not empty and without '/'"),
    'description: x\nvms:\n- name: ok\n- name: "a\\uD800b"': (
        "test.yaml:4: vms[1].name: must be a VM's name: half a surrogate pair is no character"
    ),
    "description: x\nevents:\n- type: Freeze\n  starts: at once\n  notice: 1m": (
        "test.yaml:5: events[0].notice: cannot be, since the event starts at once"
    ),
    "description: x\nevents:\n- type: Freeze\n  starts: never": (
        "test.yaml:4: events[0].starts: an event that never starts needs cancelled_at, or it would stay for good"
    ),
    "description: x\nevents:\n- type: Freeze\n  cancelled_at: 1h": (
        "test.yaml:4: events[0].cancelled_at: comes after the start: make it earlier, or write 'starts: never'"
    ),
    "description: x\nevents:\n- type: Freeze\n  cancelled_at: 10s": (
        "test.yaml:4: events[0].cancelled_at: must come after announced_at and rescheduled_at"
    ),
    "description: x\nevents:\n- type: Freeze\n  rescheduled_at: 1h\n  new_notice: 1m": (
        "test.yaml:4: events[0].rescheduled_at: must lie after announced_at and before NotBefore"
    ),
    "description: x\nevents:\n- type: Freeze\n  rescheduled_at: 1m": (
        "test.yaml:3: events[0].type: rescheduled_at and new_notice, the time from then to NotBefore, belong together"
    ),
    "description: x\nevents:\n- type: Freeze\n  new_notice: 1m": (
        "test.yaml:3: events[0].type: rescheduled_at and new_notice, the time from then to NotBefore, belong together"
    ),
    "description: x\nevents:\n- type: Freeze\n  duration: soon": (
        "test.yaml:4: events[0].duration: 'soon' is no duration: write a number and a unit, such as 500ms, 1s, "
        "1m30s or 90d"
    ),
    "description: x\nevents:\n- type: SpotRebalanceRecommendation\n  notice: 1m": (
        "test.yaml:4: events[0].notice: cannot be, since advice schedules nothing"
    ),
    "description: x\nevents:\n- type: SpotRebalanceRecommendation": (
        "test.yaml:3: events[0].type: advice needs cancelled_at, the moment after announced_at at which it leaves"
    ),
    "description: x\nfaults: [{fault: 418}]": (f"test.yaml:2: faults[0].fault: '418' is none of {', '.join(Fault)}"),
}


BAD |= {
    f"description: x\nevents:\n- type: Freeze\n  {key}: 9000y": f"test.yaml:4: events[0].{key}: must be at most 1y"
    for key in (
        *("duration", "announced_at", "notice", "started_for", "approval_delay", "cancelled_at", "rescheduled_at"),
        "new_notice",
    )
}


@pytest.mark.parametrize("text", BAD, ids=range(len(BAD)))
def test_bad_file_is_refused_with_its_line(text: str) -> None:
    """An error in a scenario file is reported in one line with its place."""
    with pytest.raises(UsageError) as refused:
        parse(text, "test.yaml")
    assert str(refused.value) == BAD[text]


def test_longest_times_at_the_lowest_speed(tmp_path: Path) -> None:
    """A scenario with the longest times that are accepted plays at the lowest speed, with a NotBefore far ahead."""
    path = tmp_path / "slow.yaml"
    path.write_text("description: x\nevents:\n- {type: Freeze, announced_at: 1y, notice: 1y}\n")
    played = Stage(Playlist(find(str(path)), SLOWEST), at=1_790_000_000, seed="seed")
    assert played.next_at is not None
    played.advance(played.next_at)
    assert [event["NotBefore"] for event in played.events] == ["Sat, 24 May 4025 14:13:20 GMT"]


def test_file_with_a_name_that_is_not_utf_8(tmp_path: Path) -> None:
    """A scenario plays also if the name of its file is not UTF-8."""
    path = tmp_path / os.fsdecode(b"dr\xefll.yaml")
    path.write_text("description: x\nevents:\n- {type: Freeze, announced_at: 0s}\n")
    with Simulator(path) as simulator:
        assert [each.what.value for each in simulator.record] == ["announced"]


def test_unknown_scenario_is_answered_with_the_known_ones(tmp_path: Path) -> None:
    """A misspelled scenario lists those there are; a file that is not there is named."""
    with pytest.raises(
        UsageError, match=r"'live' is no scenario: choose from all, live-migration, .* or give the path"
    ):
        find("live")
    with pytest.raises(UsageError, match=r"gone\.yaml: cannot be read: No such file"):
        load(tmp_path / "gone.yaml")


def test_fault_times_follow_the_speed() -> None:
    """A fault holds from its start to just before its end, in compressed time; the last of several wins."""
    plan = parse_plan("throttle@2m+30s")
    assert plan == FaultPlan(Fault.THROTTLE, 120, 30)
    windows = (plan.placed(1000, 60), FaultPlan(Fault.RESET, 1002.2, 0.1))
    moments = (1001.9, 1002, 1002.25, 1002.4, 1002.5)
    assert [active(windows, moment) for moment in moments] == [None, "throttle", "reset", "throttle", None]
    assert active((parse_plan("503").placed(0, 1),), 1e9) is Fault.UNAVAILABLE


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("418", "'418' is no fault: choose from throttle, timeout,"),
        ("400@soon", "fault '400@soon': 'soon' is no duration: .*NAME"),
        ("400@1m+", "fault '400@1m.': '' is no duration"),
    ],
)
def test_bad_fault_is_refused(text: str, complaint: str) -> None:
    """A fault that is misspelled or mistimed is refused with its form."""
    with pytest.raises(UsageError, match=complaint):
        parse_plan(text)
