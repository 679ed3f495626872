"""What the dashboards show of an event while its exporters are silent, or while several jobs scrape them."""

from pathlib import Path

import pytest

from alerts.rules.boards.events import APPROVED_BY, FIRST_SEEN, STATE
from alerts.rules.series import APPROVED, PLANNED
from support.monitoring.board_stories import (
    EVENT_GROUPS,
    EVERY_GROUP,
    JOB,
    TIMES,
    BoardStory,
    event_info,
    exporter,
    of_event,
    of_vm,
    panel,
    plays,
    waiting,
)


@pytest.mark.parametrize(("not_before", "left"), [("900", {"8m": 420, "14m": 60, "17m": -120}), (None, {"8m": -1})])
def test_next_impact_while_nobody_shows_it(not_before: str | None, left: dict[str, float], tmp_path: Path) -> None:
    """The time to NotBefore goes on while the only VM that showed it is silent; without a NotBefore, it may be now."""
    own = "a:10169"
    series = {
        **exporter(own, "web_0", "Vx20 stale", vm_id="id", subscription_id="s"),
        f'up{{job="{JOB}",instance="{own}"}}': "1x20 0x100",
        **waiting(own, "_x4 Vx16 stale", not_before),
    }
    asked = [panel("fleet", "Next impact in"), panel("vm", "Next impact in", variables=of_vm("web_0", own))]
    shows = {(query, at): {"": value} for query in asked for at, value in left.items()}
    plays(BoardStory(series, shows, EVERY_GROUP), tmp_path)


def test_a_started_event_stays_while_its_vm_is_away(tmp_path: Path) -> None:
    """A reboot takes three quarters of an hour, and nobody else sees it: the boards show it as long as the rules do."""
    own = "a:10169"
    series = {
        **exporter(own, "web_0", "Vx20 stale", vm_id="id", subscription_id="s"),
        f'up{{job="{JOB}",instance="{own}"}}': "1x20 0x200",
        event_info(own, "Started", "web_0"): "_x4 1x16 stale",
        of_event(APPROVED, own): "_x4 0x16 stale",
        of_event("azure_scheduled_events_event_resources", own): "_x4 1x16 stale",
    }
    one = of_vm("web_0", own)
    shows = {
        (panel("fleet", "VMs being hit now"), "45m"): {"": 1.0},
        (f"max({panel('fleet', 'Events now')})", "45m"): {"": 3.0},
        (f"max({panel('fleet', 'VMs that are hit')})", "45m"): {"": 3.0},
        (panel("vm", "What happens to it", variables=one), "45m"): {"": 3.0},
    }
    plays(BoardStory(series, shows, EVERY_GROUP), tmp_path)


def test_a_vm_that_answers_without_the_event_is_spared(tmp_path: Path) -> None:
    """A VM leaves Resources and answers: it is hit no more, also if it then fails by itself, though another one is."""
    a, b = "a:10169", "b:10169"
    series = {
        **exporter(a, "web_0", "Vx60 stale", vm_id="id0", subscription_id="s"),
        **exporter(b, "web_1", "Vx20 stale", vm_id="id1", subscription_id="s"),
        f'up{{job="{JOB}",instance="{a}"}}': "1x60 0x60",
        f'up{{job="{JOB}",instance="{b}"}}': "1x20 0x100",
        **waiting(a, "_x4 Vx16 stale", "1700", "web_0,web_1"),
        **waiting(b, "_x4 Vx16 stale", "1700", "web_0,web_1"),
        event_info(a, "Scheduled", "web_1", "peer"): "_x21 1x39 stale",
        of_event(APPROVED, a, "peer"): "_x21 0x39 stale",
    }
    hit = f"count by (vm_name) ({panel('fleet', 'VMs that are hit')})"
    both, one = {'vm_name="web_0"': 1.0, 'vm_name="web_1"': 1.0}, {'vm_name="web_1"': 1.0}
    shows = {(hit, "4m"): both, **{(hit, at): one for at in ("8m", "14m", "17m", "25m")}}
    plays(BoardStory(series, shows, EVERY_GROUP), tmp_path)


def test_a_vm_in_two_jobs_is_one(tmp_path: Path) -> None:
    """Two jobs scrape the same two exporters: all of the scale set is hit, and two VMs of the event are unwatched."""
    vms = [(job, vm) for job in (JOB, f"{JOB}-2") for vm in ("web_0", "web_1")]
    series: dict[str, str] = {}
    for job, vm in vms:
        own = f"{vm}:10169"
        named = {
            **exporter(own, vm, "Vx40"),
            f'up{{job="{JOB}",instance="{own}"}}': "1x40",
            **waiting(own, "_x4 Vx36", "1700", "web_0,web_1,web_2,web_3"),
            of_event("azure_scheduled_events_event_resources", own): "_x4 4x36",
        }
        series |= {name.replace(f'job="{JOB}"', f'job="{job}"'): values for name, values in named.items()}
    unwatched = panel("fleet", "Events now", "E")
    shows = {
        (panel("fleet", "Share that is affected"), "8m"): {'place="web"': 1.0},
        (f"max({unwatched})", "8m"): {"": 2.0},
    }
    plays(BoardStory(series, shows, EVERY_GROUP), tmp_path)


@pytest.mark.parametrize("named", ["WEB_0", "_web_0", "db_0,Web_0"])
def test_the_board_of_a_vm_compares_names_as_its_exporter(named: str, tmp_path: Path) -> None:
    """Resources may write the name in other letters, or with the underscore of the oldest api-version."""
    own = "a:10169"
    series = {**exporter(own, "web_0", "Vx40"), **waiting(own, "_x4 Vx36", "1700", named)}
    happens = panel("vm", "What happens to it", variables=of_vm("web_0", own))
    plays(BoardStory(series, {(happens, "8m"): {"": 1.0}}, EVERY_GROUP), tmp_path)


def test_the_first_sight_of_an_event_is_kept(tmp_path: Path) -> None:
    """An exporter whose journal was lost sees its event again after a reboot: the notice is that of the first sight."""
    key = 'event_id="E",event_type="Reboot"'
    series = {
        f"{FIRST_SEEN}{{{key}}}": "60x20 stale _x10 900x20 stale",
        f"{PLANNED}{{{key}}}": "660x20 stale",
        f'{STATE}{{{key},event_source="Platform",resources="web_0"}}': "1x20 stale _x10 3x20 stale",
    }
    notice = panel("vm", "Its last events", "B", of_vm("web_0", "a:10169"))
    plays(BoardStory(series, {(notice, "20m"): {'event_id="E"': 600.0}}), tmp_path)


def test_a_punctual_start_with_rare_scrapes_has_no_approver(tmp_path: Path) -> None:
    """The last sample before NotBefore is two minutes old: nobody started the event early."""
    own = "a:10169"
    left = f"azure_scheduled_events_{TIMES[0]}"
    series = {
        **exporter(own, "web_0", "Vx20"),
        event_info(own, "Scheduled", "web_0"): "_ 1 1 1 1 stale",
        event_info(own, "Started", "web_0"): "_ _ _ _ _ 1 1 1 1",
        of_event(APPROVED, own): "_ 0x8",
        of_event(left, own): "_ 470 350 230 110 stale",
    }
    who = f"group by (approved_by) ({APPROVED_BY})"
    settings = {"scrape.interval": "2m"}
    story = BoardStory(series, {(who, "11m"): {'approved_by="nobody"': 1.0}}, EVENT_GROUPS, settings, "2m", "30s")
    plays(story, tmp_path)
