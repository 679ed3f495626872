"""Every alert in the stories in which it must fire, and in those in which it must not."""

import re
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from alerts import Settings, resolve
from alerts.prometheus import prometheus_rules
from alerts.rules import groups
from alerts.rules.event_alerts import event_groups
from alerts.rules.rule import PREFIX
from alerts.rules.series import EVENT
from azure_scheduled_events_exporter.times import parse_duration
from support.monitoring.alert_scenarios import (
    ALL,
    DOWN,
    EVERY,
    FREEZE,
    PREEMPT,
    REBOOT,
    REDEPLOY,
    SHORT_FREEZE,
    TERMINATE,
    WITHOUT_NOTICE,
    Exporter,
    Seen,
    Story,
    one,
)
from support.monitoring.board_stories import BoardStory
from support.monitoring.promtool import ALERTING, RULES, promtool
from support.monitoring.stories.blind_exporters import BLIND
from support.monitoring.stories.event_lives import FIRING_LIVES, LIVES
from support.monitoring.stories.events import FIRING_EVENTS
from support.monitoring.stories.expected_alerts import DEGRADED, SCALE_SET_HIT, THROTTLED, ZONE_HIT
from support.monitoring.stories.exporters import EXPORTERS, FIRING_EXPORTERS
from support.monitoring.stories.fleets import DAY
from support.monitoring.stories.hits import ANY_ORDER, HITS
from support.monitoring.stories.maintenance import MAINTAINED
from support.monitoring.stories.not_back import NOT_BACK_STORIES
from support.monitoring.stories.places import FIRING_PLACES, PLACES
from support.monitoring.stories.quiet import QUIET
from support.monitoring.stories.reports import REPORTS, SHOWN_ONCE
from support.monitoring.stories.twins import TWINS
from support.monitoring.together import Together, hold, together

FIRING = (*FIRING_EVENTS, *FIRING_LIVES, *FIRING_PLACES, *FIRING_EXPORTERS)
MISLEADING = (*BLIND, *LIVES, *PLACES, *EXPORTERS, *REPORTS, *SHOWN_ONCE)
"""Stories whose series could make a false page, hide a page, or keep one that is over."""

FIRST = {
    PREEMPT: Seen("Preempt", not_before=200),
    TERMINATE: Seen("Terminate"),
    f"{TERMINATE}Requested": Seen("Terminate", source="User"),
    REDEPLOY: Seen("Redeploy"),
    f"{REDEPLOY}Requested": Seen("Redeploy", source="User"),
    REBOOT: Seen("Reboot"),
    f"{REBOOT}Requested": Seen(source="User"),
    FREEZE: Seen("Freeze"),
    SHORT_FREEZE: Seen("Freeze", duration=5),
    WITHOUT_NOTICE: Seen(not_before=None, started=30),
    "AzureScheduledEventUnknownType": Seen("Teleport"),
    DEGRADED: Seen("Redeploy", not_before=3 * DAY),
}
"""Alerts about an event, each with an event that raises it."""


@pytest.mark.parametrize("story", FIRING, ids=lambda story: story.name)
def test_fires(story: Story, tmp_path: Path) -> None:
    """An alert fires with its whole text in the story it is made for."""
    done = promtool(tmp_path, story)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("stories", together(QUIET), ids=str)
def test_stays_quiet(stories: Together, subtests: pytest.Subtests, tmp_path: Path) -> None:
    """An alert does not fire in a story that only resembles its own."""
    hold(stories, subtests, tmp_path)


@pytest.mark.parametrize("stories", together([*MISLEADING, *TWINS, *HITS]), ids=str)
def test_holds_against_an_adversary(stories: Together, subtests: pytest.Subtests, tmp_path: Path) -> None:
    """Blind exporters, VMs counted twice, changing labels and silent failures neither make nor hide a page."""
    hold(stories, subtests, tmp_path)


@pytest.mark.parametrize(("name", "event"), FIRST.items(), ids=FIRST)
def test_first_firing_needs_no_recording(name: str, event: Seen, tmp_path: Path) -> None:
    """An event raises its alert in the first evaluation, and no other one, when every recording is missing."""
    quiet = {other: (30, 60, 100) for other in ALL if other != name}
    done = _without_recordings(Story(name, one(event), quiet=quiet, steady={name: (30, 100)}), tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr


def test_first_hit_needs_no_recording(tmp_path: Path) -> None:
    """The alerts of places fire in the first evaluation, too, beside the alert of the event that hits two VMs."""
    event = Seen("Redeploy", resources="vmss_0,vmss_1")
    fires = (REDEPLOY, SCALE_SET_HIT, ZONE_HIT)
    fleet = tuple(Exporter(f"vmss_{number}", (event,) * (number < 2)) for number in range(4))
    quiet = {other: (30, 60, 100) for other in ALL if other not in fires}
    done = _without_recordings(
        Story("two of four", fleet, quiet=quiet, steady=dict.fromkeys(fires, (30, 100))), tmp_path
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_event_alert_fires_first_without_recordings() -> None:
    """No alert about an event, of whatever type, is left out of the tests without recordings."""
    assert {alert.name for group in event_groups(Settings()) for alert in group.alerts()} - FIRST.keys() == set()


def _without_recordings(story: Story, folder: Path) -> subprocess.CompletedProcess[str]:
    rules = yaml.safe_load(RULES.read_text())
    for group in rules["groups"]:
        group["rules"] = [rule for rule in group["rules"] if "alert" in rule]
    path = folder / "alerts-only.yml"
    path.write_text(yaml.safe_dump({"groups": [group for group in rules["groups"] if group["rules"]]}))
    return promtool(folder, story, rules=path)


class Rows(Story):
    """A story in which every event is recorded as one row, when it is announced and later."""

    def to_test(self) -> dict[str, object]:
        """Return the test as promtool reads it."""
        rows = [{"labels": f'{{event_id="{each}"}}', "value": 1} for each in sorted(self._events)]
        query = f"count by (event_id) ({EVENT})"
        tests = [{"expr": query, "eval_time": f"{at}s", "exp_samples": rows} for at in (30, 300)]
        return {**super().to_test(), "promql_expr_test": tests}

    @property
    def _events(self) -> frozenset[str]:
        return frozenset(event.event_id for exporter in self.exporters for event in exporter.events)


@pytest.mark.parametrize("events", [1, 2])
def test_reporters_in_two_scale_sets_record_one_row(events: int, tmp_path: Path) -> None:
    """An event is recorded once, although exporters of two scale sets report it. Two events are two rows."""
    shown = tuple(Seen(event_id=f"E{number}") for number in range(events))
    seen_by_peer = tuple(replace(each, scope="peer") for each in shown)
    fleet = (Exporter(events=shown), Exporter("db_0", seen_by_peer, scale_set="db"))
    done = promtool(tmp_path, Rows("rows", fleet, quiet={REBOOT: (20,), DOWN: (300,)}))
    assert done.returncode == 0, done.stdout + done.stderr


def test_evaluations_are_rarer_than_scrapes(tmp_path: Path) -> None:
    """What a single scrape showed between two evaluations, before its VM went down, counts all the same."""
    path, often = tmp_path / "rules.yml", Seen("Redeploy", announced=50, resources="vmss_0,vmss_1")
    path.write_text(prometheus_rules(resolve({"evaluation.interval": "15s"})))
    hit = tuple(Exporter(f"vmss_{number}", (often,), down=((55, 100_000),)) for number in range(2))
    fleet = (*hit, *(Exporter(f"vmss_{number}") for number in range(2, 6)))
    story = Story("rare evaluations", fleet, steady={"AzureScheduledEventScaleSetHit": (60, 600)}, every=15)
    done = promtool(tmp_path, story, rules=path)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("event", "name", "other"),
    [
        (Seen("Redeploy", not_before=330, started=330), REDEPLOY, WITHOUT_NOTICE),
        (Seen("Redeploy", not_before=330, started=330, source="User"), f"{REDEPLOY}Requested", REDEPLOY),
        (Seen("Freeze", not_before=330, started=330, duration=5), SHORT_FREEZE, FREEZE),
    ],
    ids=("announced", "requested", "short"),
)
def test_memory_longer_than_longest(event: Seen, name: str, other: str, tmp_path: Path) -> None:
    """While an event is remembered, so is what is known of it: its announcement, its source and its duration."""
    path = tmp_path / "rules.yml"
    path.write_text(prometheus_rules(resolve({"longest": "5m"})))
    away = one(event, down=((345, 100_000),))
    story = Story("memory", away, quiet={other: tuple(range(0, 1600, 30))}, steady={name: (30, 1260)}, every=30)
    done = promtool(tmp_path, story, rules=path)
    assert done.returncode == 0, done.stdout + done.stderr


def test_short_notice_with_rare_evaluations(tmp_path: Path) -> None:
    """A short notice is seen with scrapes every 15 s and evaluations every minute too."""
    path = tmp_path / "rules.yml"
    path.write_text(prometheus_rules(resolve({"scrape.interval": "15s", "evaluation.watcher-interval": "1m"})))
    short = Exporter(events=(Seen(announced=605, not_before=895, first_seen=595),))
    story = Story("rare evaluations", (short,), steady={"AzureScheduledEventShortNotice": (660, 780)}, every=60)
    done = promtool(tmp_path, story, rules=path)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("scrape", ["5s", "1m", "2m"])
def test_counters_increase_with_rare_scrapes(scrape: str, tmp_path: Path) -> None:
    """Refused approvals, throttled polls and invalid documents raise their alerts with rare scrapes, too."""
    name, target = "azure_scheduled_events", 'job="azure-scheduled-events-exporter",instance="a"'
    count = 3600 // int(parse_duration(scrape))
    series = {
        f'{name}_approval_requests_total{{{target},outcome="rejected"}}': f"0x{count // 2} 1x{count}",
        f'{name}_polls_total{{{target},outcome="throttled"}}': f"0+2x{count}",
        f'{name}_polls_total{{{target},outcome="invalid_document"}}': f"0+1x{count}",
        f"{name}_poll_duration_seconds_count{{{target}}}": f"0+3x{count}",
        f"{name}_up{{{target}}}": f"0x{count}",
    }
    fires = (f"{PREFIX}ApprovalRefused", THROTTLED, f"{PREFIX}DocumentInvalid")
    fired = 'group by (alertname) (count_over_time(ALERTS{alertstate="firing"}[1h]))'
    groups = tuple(f"azure-scheduled-events-{each}" for each in ("blind", "refusals", "throttling", "documents"))
    story = BoardStory(
        series,
        {(fired, "1h"): {f'alertname="{alert}"': 1 for alert in fires}, (fired, "2m"): {}},
        groups,
        {"scrape.interval": scrape},
        step=scrape,
        every="30s",
    )
    done = story.play(tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("stories", together(ANY_ORDER), ids=str)
def test_groups_are_evaluated_in_another_order(stories: Together, subtests: pytest.Subtests, tmp_path: Path) -> None:
    """VMs that go down count all the time, and VMs hit in turn never together: Prometheus gives groups no order."""
    hold(stories, subtests, tmp_path, tuple(reversed(ALERTING)))


def test_no_chain_of_recordings_is_longer_than_two() -> None:
    """A recording reads scraped series, itself, and at most one other level of recordings."""
    recordings = {rule.record: rule.expression for group in groups(Settings()) for rule in group.recordings()}
    reads = {
        name: {other for other in recordings if other != name and re.search(rf"{other}(?![a-z_:])", text)}
        for name, text in recordings.items()
    }

    def depth(name: str) -> int:
        return 1 + max(map(depth, reads[name]), default=0)

    assert {name: depth(name) for name in recordings if depth(name) > 2} == {}


def test_every_alert_has_its_stories() -> None:
    """No alert is shipped without a story in which it fires and one in which it must not."""
    fires = {name for story in (*FIRING, *MISLEADING, *MAINTAINED, *NOT_BACK_STORIES) for name, _ in story.fires}
    quiet = {name for story in (*FIRING, *QUIET, *MISLEADING, *MAINTAINED, *NOT_BACK_STORIES) for name in story.quiet}
    assert set(EVERY) - fires == set()
    assert set(EVERY) - quiet == set()
