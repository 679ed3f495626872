"""Every alert in the stories in which it must fire, and in those in which it must not."""

import re
from pathlib import Path

import pytest
import yaml

from alerts import Settings, resolve
from alerts.prometheus import prometheus_rules
from alerts.rules import groups
from support.monitoring.alert_scenarios import (
    ALL,
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
from support.monitoring.promtool import ALERTING, RULES, promtool
from support.monitoring.stories.blind_exporters import BLIND
from support.monitoring.stories.event_lives import FIRING_LIVES, LIVES
from support.monitoring.stories.events import FIRING_EVENTS
from support.monitoring.stories.exporters import EXPORTERS, FIRING_EXPORTERS
from support.monitoring.stories.hits import ANY_ORDER, HITS
from support.monitoring.stories.maintenance import MAINTAINED
from support.monitoring.stories.places import FIRING_PLACES, PLACES
from support.monitoring.stories.quiet import QUIET
from support.monitoring.stories.reports import REPORTS, SHOWN_ONCE
from support.monitoring.stories.twins import TWINS

FIRING = (*FIRING_EVENTS, *FIRING_LIVES, *FIRING_PLACES, *FIRING_EXPORTERS)
MISLEADING = (*BLIND, *LIVES, *PLACES, *EXPORTERS, *REPORTS, *SHOWN_ONCE)
"""Stories whose series could make a false page, hide a page, or keep one that is over."""


@pytest.mark.parametrize("story", FIRING, ids=lambda story: story.name)
def test_fires(story: Story, tmp_path: Path) -> None:
    """An alert fires with its whole text in the story it is made for."""
    done = promtool(tmp_path, story)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("story", QUIET, ids=lambda story: story.name)
def test_stays_quiet(story: Story, tmp_path: Path) -> None:
    """An alert does not fire in a story that only resembles its own."""
    done = promtool(tmp_path, story)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("story", [*MISLEADING, *TWINS, *HITS], ids=lambda story: story.name)
def test_holds_against_an_adversary(story: Story, tmp_path: Path) -> None:
    """Blind exporters, VMs counted twice, changing labels and silent failures neither make nor hide a page."""
    done = promtool(tmp_path, story)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("event", "name"),
    [
        (Seen("Preempt", not_before=200), PREEMPT),
        (Seen("Terminate"), TERMINATE),
        (Seen("Redeploy"), REDEPLOY),
        (Seen("Reboot"), REBOOT),
        (Seen("Freeze"), FREEZE),
        (Seen("Freeze", duration=5), SHORT_FREEZE),
        (Seen(not_before=None, started=30), WITHOUT_NOTICE),
        (Seen(source="User"), f"{REBOOT}Requested"),
        (Seen("Redeploy", not_before=3 * 86_400), "AzureScheduledEventDegradedHost"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_first_firing_needs_no_recording(event: Seen, name: str, tmp_path: Path) -> None:
    """An event raises its alert in the first evaluation, and no other one, when every recording is missing."""
    rules = yaml.safe_load(RULES.read_text())
    for group in rules["groups"]:
        group["rules"] = [rule for rule in group["rules"] if "alert" in rule]
    path = tmp_path / "alerts-only.yml"
    path.write_text(yaml.safe_dump({"groups": [group for group in rules["groups"] if group["rules"]]}))
    quiet = {other: (30, 60, 100) for other in ALL if other != name}
    done = promtool(tmp_path, Story(name, one(event), quiet=quiet, steady={name: (30, 100)}), rules=path)
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


@pytest.mark.parametrize("story", ANY_ORDER, ids=lambda story: story.name)
def test_groups_are_evaluated_in_another_order(story: Story, tmp_path: Path) -> None:
    """VMs that go down count all the time, and VMs hit in turn never together: Prometheus gives groups no order."""
    done = promtool(tmp_path, story, names=tuple(reversed(ALERTING)))
    assert done.returncode == 0, done.stdout + done.stderr


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
    fires = {name for story in (*FIRING, *MISLEADING, *MAINTAINED) for name, _ in story.fires}
    quiet = {name for story in (*FIRING, *QUIET, *MISLEADING, *MAINTAINED) for name in story.quiet}
    assert set(EVERY) - fires == set()
    assert set(EVERY) - quiet == set()
