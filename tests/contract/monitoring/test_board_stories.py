"""What the dashboards show in situations that a running fleet seldom is in, as promtool evaluates their queries."""

from pathlib import Path

import pytest

from alerts import resolve
from alerts.rules import groups
from alerts.rules.boards.events import (
    APPROVED_BY,
    FIRST_SEEN,
    LAST_STATE,
    PHASE,
    SECONDS_LEFT,
    STARTED_FOR,
    STATE,
    URGENCY,
    VM_LAST_STATE,
    VM_STATE,
    VMS,
)
from alerts.rules.boards.exporters import BLIND_SECONDS, BLIND_SHARE, EXPORTER_INFO
from alerts.rules.series import APPROVED, EVENT, PLANNED
from azure_scheduled_events_exporter.times import parse_duration
from support.monitoring.board_stories import (
    BOARD,
    EXPORTERS,
    JOB,
    REMEMBERED,
    TIMES,
    BoardStory,
    event_info,
    exporter,
    mark,
    of_event,
    of_vm,
    panel,
    plays,
)

UNKNOWN, MISSING = 3e10, 4e10


def test_a_vm_that_is_gone_is_no_missing_rule(tmp_path: Path) -> None:
    """After an eviction, with another VM left, no exporter is known. Nothing says that the rules are missing."""
    gone, left = of_vm("web_0", "a:10169"), of_vm("db_0", "b:10169")
    sees, trust = panel("vm", "Is its data current?", variables=gone), panel("fleet", "Is the data current?")
    of_web = panel("fleet", "Is the data current?", variables={"$scale_set": "web"})
    story = BoardStory(
        {**exporter("a:10169", "web_0", "Vx40 stale"), **exporter("b:10169", "db_0", "Vx200")},
        {
            (sees, "5m"): {"": 0},
            (sees, "20m"): {"": UNKNOWN},
            (of_web, "5m"): {"": 0},
            (of_web, "20m"): {"": UNKNOWN},
            (trust, "20m"): {"": 0},
            (panel("vm", "Is its data current?", variables=left), "20m"): {"": 0},
        },
        EXPORTERS,
    )
    plays(story, tmp_path)


def test_missing_rules_are_named(tmp_path: Path) -> None:
    """Exporters that are scraped by a Prometheus without the rules are told from those that are not there."""
    one = of_vm("web_0", "a:10169")
    asked = [panel("vm", "Is its data current?", variables=one), panel("fleet", "Is the data current?")]
    plays(BoardStory(exporter("a:10169", "web_0", "Vx40"), {(query, "5m"): {"": MISSING} for query in asked}), tmp_path)


@pytest.mark.parametrize("instance", ["web-0:10169", "[fd00::4]:10169", "10.0.0.4:10169"])
def test_the_address_of_an_exporter_is_no_pattern(instance: str, tmp_path: Path) -> None:
    """The board of a VM reads its own exporter, whatever characters the address has."""
    one = of_vm("web_0", instance)
    sees, happens = (panel("vm", title, variables=one) for title in ("Is its data current?", "What happens to it"))
    series = exporter(instance, "web_0", "Vx80")
    plays(BoardStory(series, {(sees, "10m"): {"": 0}, (happens, "10m"): {"": 0}}, EXPORTERS), tmp_path)


@pytest.mark.parametrize("interval", ["30s", "3m", "5m"])
def test_rare_warnings_do_not_blind_the_boards(interval: str, tmp_path: Path) -> None:
    """However rarely the rules that warn are evaluated, the boards know at any moment that all exporters see."""
    settings = {"evaluation.watcher-interval": interval}
    rarest = max((group.interval for group in groups(resolve(settings)) if group.name in EXPORTERS), key=parse_duration)
    trust = panel("fleet", "Is the data current?")
    sees = panel("vm", "Is its data current?", variables=of_vm("web_0", "a:10169"))
    moments = [f"{minute}m30s" for minute in range(20, 31)]
    story = BoardStory(
        exporter("a:10169", "web_0", "Vx160"),
        {(query, at): {"": 0} for query in (trust, sees) for at in moments},
        EXPORTERS,
        settings,
        every=rarest,
    )
    plays(story, tmp_path)


@pytest.mark.parametrize("interval", ["30s", "5m"])
def test_an_hour_of_blindness_is_an_hour(interval: str) -> None:
    """A sample of the seconds that an exporter was blind stands for the time between two of them."""
    (group,) = (
        each for each in groups(resolve({"evaluation.watcher-interval": interval})) if each.name == EXPORTERS[0]
    )
    seconds = next(rule for rule in group.recordings() if rule.record == BLIND_SECONDS)
    assert seconds.expression.startswith(f"{parse_duration(group.interval):g} * ")


def _vm_state(vm: str, group: str = "production", scale_set: str = "web", name: str = VM_STATE) -> str:
    place = f'scale_set="{scale_set}",resource_group="{group}",location="westeurope",zone="1"'
    return f'{name}{{event_id="E",event_type="Reboot",vm_name="{vm}",fault_domain="0",{place}}}'


def test_an_event_is_one_row_when_its_resources_change(tmp_path: Path) -> None:
    """An event starts for one of two VMs: it does not wait any more, and nothing happens to the other VM."""
    rows, types = panel("fleet", "Events now"), [panel("fleet", "By type", ref) for ref in "AD"]
    hit, spared = (of_vm(vm, f"{vm}:10169") for vm in ("web_0", "web_1"))
    story = BoardStory(
        {
            **exporter("web_0:10169", "web_0", "Vx60 stale"),
            **exporter("web_1:10169", "web_1", "Vx60 stale"),
            event_info("web_0:10169", "Scheduled", "web_0,web_1"): "1x20 stale",
            event_info("web_1:10169", "Scheduled", "web_0,web_1"): "1x20 stale",
            event_info("web_0:10169", "Started", "web_0"): "_x21 1x38 stale",
            of_event(APPROVED, "web_0:10169"): "0x60 stale",
            of_event(APPROVED, "web_1:10169"): "0x20 stale",
            _vm_state("web_0"): "1x20 3x39 stale",
            _vm_state("web_1"): "1x20 stale",
            f'{EVENT}{{event_id="E",event_type="Reboot",resources="web_0,web_1",scale_set="web"}}': "1x120",
            f'{URGENCY}{{event_id="E"}}': "1x120",
            f'{VMS}{{event_id="E",event_type="Reboot"}}': "2x20 1x100",
            f'{BLIND_SHARE}{{job="{JOB}",scale_set="web",resource_group="production"}}': "0x120",
        },
        {
            (f"count({rows})", "4m"): {"": 1},
            (f"count({rows})", "10m"): {"": 1},
            (f"max({rows})", "10m"): {"": 3},
            (f"count({rows})", "20m"): {"": 1},
            (f"max({rows})", "20m"): {"": 3},
            (types[0], "4m"): {'event_type="Reboot"': 1},
            (types[0], "10m"): {},
            (types[1], "10m"): {'event_type="Reboot"': 1},
            (panel("fleet", "VMs about to be hit"), "10m"): {"": 0},
            (panel("fleet", "VMs being hit now"), "10m"): {"": 1},
            (f"count({panel('vm', 'Events now', variables=hit)})", "10m"): {"": 1},
            (panel("vm", "What happens to it", variables=spared), "4m"): {"": 1},
            (panel("vm", "What happens to it", variables=spared), "10m"): {"": 0},
            (panel("vm", "What happens to it", variables=hit), "10m"): {"": 3},
            (panel("vm", "What happens to it", variables=hit), "20m"): {"": 3},
        },
        (f"{BOARD}-events", f"{BOARD}-exporters"),
    )
    plays(story, tmp_path)


def test_a_vm_that_resources_have_no_room_for(tmp_path: Path) -> None:
    """Of an event with more VMs than exporters name, the VM's own exporter tells, also while it is down."""
    named = ",".join(f"web_{number}" for number in range(10))
    one = of_vm("web_33", "a:10169")
    story = BoardStory(
        {
            event_info("b:10169", "Scheduled", named, "peer"): "1x80",
            of_event(APPROVED, "b:10169", "peer"): "0x80",
            _vm_state("web_33", name=VM_LAST_STATE): "1x80",
            f'{EVENT}{{event_id="E",event_type="Reboot",resources="{named}",scale_set="web"}}': "1x80",
        },
        {(panel("vm", "What happens to it", variables=one), at): {"": 1} for at in ("4m", "10m")},
        (f"{BOARD}-events",),
    )
    plays(story, tmp_path)


@pytest.mark.parametrize(
    ("scale_set", "group", "shown"),
    [(".*", ".*", 1), (".*", "data", 1), (".*", "production", 0), ("web", ".*", 0), ("db", "data", 1)],
)
def test_a_resource_group_is_chosen_in_the_past_too(scale_set: str, group: str, shown: int, tmp_path: Path) -> None:
    """The last 30 days have an event if its resource group is chosen, and so has the page while its VM is down."""
    chosen = {"$scale_set": scale_set, "$resource_group": group}
    key = 'event_id="E",event_type="Reboot"'
    series = {
        f"{FIRST_SEEN}{{{key}}}": "60x80 stale",
        f"{PLANNED}{{{key}}}": "960x20 stale",
        f"{SECONDS_LEFT}{{{key}}}": "900-15x20 stale",
        f'{PHASE}{{{key},phase="waiting"}}': "15x20 stale",
        f'{PHASE}{{{key},phase="started"}}': "_x21 15x20 stale",
        f"{STARTED_FOR}{{{key}}}": "_x21 15+15x20 stale",
        f'{APPROVED_BY}{{{key},approved_by="nobody"}}': "_x21 3x20 stale",
        f'{LAST_STATE}{{{key},event_source="Platform",resources="db_0"}}': "1x20 3x60 stale",
        f'{STATE}{{{key},event_source="Platform",resources="db_0"}}': "1x20 3x20 stale",
        f'{EVENT}{{{key},event_source="Platform",resources="db_0",scale_set="db"}}': "1x80 stale",
        _vm_state("db_0", "data", "db"): "1x20 3x20 stale",  # then its exporter is down
        _vm_state("db_0", "data", "db", VM_LAST_STATE): "1x20 3x60 stale",
    }
    panels = {
        ("How they ended", "A"): 1,
        ("Notice given", "A"): 900,
        ("Notice given", "B"): 900,
        ("Approvals", "A"): 1,
        ("How long events stayed Started", "A"): 315,
    }
    asked = {(panel("fleet", title, ref, chosen), "40m"): value for (title, ref), value in panels.items()}
    asked |= {(panel("fleet", "By type", "D", chosen), at): 1 for at in ("8m", "18m")}
    shows = {
        (f"max by (event_type) ({query})", at): {'event_type="Reboot"': value} if shown else {}
        for (query, at), value in asked.items()
    }
    plays(BoardStory(series, shows), tmp_path)


def test_scale_sets_of_the_same_name_are_two(tmp_path: Path) -> None:
    """The share of a scale set counts its own VMs, though another resource group has one of the same name."""
    places = {group: f'scale_set="web",resource_group="{group}",location="westeurope",zone="1"' for group in ("a", "b")}
    known = {
        f'{EXPORTER_INFO}{{job="{JOB}",instance="{group}{number}",vm_name="web_{number}",{place}}}': "1x40"
        for group, place in places.items()
        for number in range(2)
    }
    vms = (("web_0", "a"), ("web_1", "a"), ("web_0", "b"))
    hit = {_vm_state(vm, group, name=VM_LAST_STATE): "1x40" for vm, group in vms}
    current = {f'{EVENT}{{event_id="E",event_type="Reboot",scale_set="web"}}': "1x40"}
    share = {ref: panel("fleet", "Share that is affected", ref) for ref in "AB"}
    shows = {
        (share["A"], "5m"): {'place="web"': 1.0},
        (share["B"], "5m"): {'place="westeurope-1"': 0.75},
    }
    plays(BoardStory({**known, **hit, **current}, shows), tmp_path)


def test_an_approval_counts_once_though_the_approving_vm_goes_down(tmp_path: Path) -> None:
    """The exporter of a VM approves its reboot and is down during it. Its neighbor, which approved none, answers."""
    a, b = "a:10169", "b:10169"
    left, first = (f"azure_scheduled_events_{name}" for name in TIMES)
    series = {
        event_info(a, "Scheduled", "web_0"): "1x59 stale",
        event_info(b, "Scheduled", "web_0", "peer"): "1x59 stale",
        event_info(a, "Started", "web_0"): "_x60 1x5 stale _x47 1x5 stale",
        event_info(b, "Started", "web_0", "peer"): "_x60 1x59 stale",
        of_event(APPROVED, a): "0x35 1x29 stale _x47 1x5 stale",
        of_event(APPROVED, b, "peer"): "0x119 stale",
        of_event(left, a): "900-5x59 stale",
        of_event(left, b, "peer"): "900-5x59 stale",
        of_event(first, b, "peer"): "0x119 stale",
    }
    who = 'event_type="Reboot",approved_by="exporter or operator"'
    now = f"group by (event_type, approved_by) ({APPROVED_BY})"
    shows = {
        **{(now, at): {who: 1.0} for at in ("4m", "5m20s", "7m", "9m50s")},
        (now, "10m30s"): {},
        (panel("fleet", "Approvals", "A"), "20m"): {who: 1.0},
        (panel("fleet", "Approvals", "B"), "20m"): {who: 180.0},
    }
    groups_of = (f"{BOARD}-events", f"{BOARD}-approvals", f"{BOARD}-event-times", "azure-scheduled-events-approvals")
    plays(BoardStory(series, shows, groups_of, step="5s", every="5s"), tmp_path)


@pytest.mark.parametrize("known", [("elsewhere",), ("nobody",), ("nobody", "elsewhere"), ()])
def test_who_approved_may_be_known_late(known: tuple[str, ...], tmp_path: Path) -> None:
    """A start is scraped before its approval, or an early start is forgotten: the event counts once, for who it was."""
    values = {"exporter or operator": 1, "elsewhere": 2, "nobody": 3}
    key = 'event_id="E",event_type="Reboot",approved_by'
    began = {f'{APPROVED_BY}{{{key}="{name}"}}': f"{values[name]}x10 stale" for name in known}
    later = {f'{APPROVED_BY}{{{key}="exporter or operator"}}': "_x12 1x10 stale"}
    rows = {'event_type="Reboot",approved_by="exporter or operator"': 1.0}
    plays(BoardStory({**began, **later}, {(panel("fleet", "Approvals"), "20m"): rows}), tmp_path)


def test_an_event_goes_on_while_the_only_vm_that_sees_it_is_down(tmp_path: Path) -> None:
    """A reboot of seven minutes, for five of which its VM, the only one that sees it, is down: one start, one end."""
    own = "a:10169"
    answers = "Vx125 stale _x59 Vx200"  # every 5 s: announced at 3:00, Started at 10:00, down from 10:30, over at 17:00
    series = {
        **exporter(own, "web_0", answers, vm_id="id", subscription_id="s"),
        f'up{{job="{JOB}",instance="{own}"}}': "1x125 0x60 1x200",
        event_info(own, "Scheduled", "web_0"): "_x36 1x83 stale",
        event_info(own, "Started", "web_0"): "_x120 1x5 stale _x60 1x16 stale",
        of_event(APPROVED, own): "_x36 0x89 stale _x60 0x16 stale",
        of_event(f"azure_scheduled_events_{TIMES[1]}", own): "_x36 0x89 stale _x60 0x16 stale",
    }
    of_vm_a = of_vm("web_0", own)
    lasted = {"fleet": "How long events stayed Started", "vm": "Its last events"}
    by_type = 'event_type="Reboot"'
    shows = {
        **{
            (f"count_over_time(({mark(name)})[25m:1m])", "26m"): {by_type: 1.0}
            for name in ("Detected", "Started", "Ended")
        },
        (panel("fleet", lasted["fleet"], "A"), "27m"): {by_type: 420.0},
        (panel("fleet", lasted["fleet"], "B"), "27m"): {by_type: 420.0},
        (panel("vm", lasted["vm"], "D", of_vm_a), "27m"): {'event_id="E"': 420.0},
    }
    needed = (*REMEMBERED, *(f"{BOARD}-{name}" for name in ("events", "starts", "event-times")))
    plays(BoardStory(series, shows, needed, step="5s", every="5s"), tmp_path)
