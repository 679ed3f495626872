"""Stories of events and exporters: which alerts the shipped rules raise, when, and when they do
not.

The stories are in ``tests/support/stories``.
"""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
import yaml

from azure_scheduled_events_exporter.alerts import GENERATED, Settings, resolve
from azure_scheduled_events_exporter.alerts.groups import alerts
from azure_scheduled_events_exporter.alerts.rule import PREFIX
from azure_scheduled_events_exporter.alerts.vms import NOT_BACK
from support.stories.events import EVENTS, LATE, LIVES, PAUSES, TEAMS
from support.stories.exporters import EXPORTERS, FLAKY
from support.stories.scale_sets import SCALE_SETS, SLOWLY_EVALUATED, SLOWLY_SCRAPED
from support.stories.story import Story, hit, play, scraped
from support.stories.vms import IMPACTS, VMS
from support.stories.witnesses import WITNESSES


def run(
    folder: Path,
    stories: Sequence[Story],
    values: Mapping[str, str],
    added: Mapping[str, str] | None = None,
) -> str:
    """Run ``stories`` on the rules that ``values`` of a values file make; return what promtool
    complains about.

    What recording rules record gets the labels ``added``.
    """
    content = yaml.safe_load(GENERATED["prometheus/prometheus-rules.yml"](resolve(values)))
    # ExporterDown reads whether NOT_BACK fires.
    checked = {PREFIX + name for story in stories for name in story.alerts} | {NOT_BACK}
    # Alerts that no check needs, and queries of texts, take most of the time: they are left out.
    for group in content["groups"]:
        group["rules"] = [
            rule for rule in group["rules"] if "record" in rule or rule["alert"] in checked
        ]
        for rule in group["rules"]:
            rule.pop("annotations", None)
            if added and "record" in rule:
                rule["labels"] = added
    return play(folder, content, [story.to_test() for story in stories])


PARTS = (LIVES, EVENTS, IMPACTS, SCALE_SETS, LATE, PAUSES, EXPORTERS, WITNESSES, VMS, FLAKY)
ALL = tuple(story for part in PARTS for story in part)


@pytest.mark.parametrize("stories", PARTS, ids=lambda stories: stories[0].name)
def test_stories(stories: Sequence[Story], tmp_path: Path) -> None:
    """The shipped rules raise what the stories say, at these moments."""
    assert run(tmp_path, stories, values={}) == ""


def test_labels_that_an_engine_adds(tmp_path: Path) -> None:
    """The alerts are the same if what rules record has more labels than what is scraped. vmalert's
    -external.label adds such labels.
    """
    assert run(tmp_path, (*IMPACTS, *SCALE_SETS), values={}, added={"cluster": "a"}) == ""


def test_scrapes_every_two_minutes(tmp_path: Path) -> None:
    """If the settings say how far scrapes are apart, one that fails takes no VM away."""
    assert run(tmp_path, SLOWLY_SCRAPED, {"scrape.interval": "2m"}) == ""


def test_evaluations_every_half_minute(tmp_path: Path) -> None:
    """What a VM answered before its event counts no more, however seldom rules are evaluated."""
    assert run(tmp_path, SLOWLY_EVALUATED, {"evaluation.interval": "30s"}) == ""


def test_vm_that_is_not_back_without_its_alert(tmp_path: Path) -> None:
    """If a team disables VmNotBack, ExporterDown fires for a VM that does not come back."""
    story = Story(
        "A VM does not return from its Redeploy.",
        (*scraped("a", "1x20 0x300"), *hit("a", "_x4 1x16 stale", 300, event_type="Redeploy")),
        {"ExporterDown": "20m:0 60m:1"},
    )
    assert run(tmp_path, [story], {"alerts.disabled": "VmNotBack"}) == ""


def test_every_alert_has_its_stories() -> None:
    """Each alert fires in a story. Each also has a moment, in this story or another, at which it
    must not fire.
    """
    # By alert, the checks of all stories: with `5m:1` it fires after 5 minutes, with `5m:0` it does
    # not, and with `never` it does not at any time. Spaces end each check for the search below.
    checks_of = {PREFIX + name: "" for story in ALL for name in story.alerts}
    for story in ALL:
        for name, checks in story.alerts.items():
            checks_of[PREFIX + name] += f" {checks} "
    fire = {name for name, checks in checks_of.items() if re.search(":[1-9]", checks)}
    are_quiet = {name for name, checks in checks_of.items() if ":0 " in checks or "never" in checks}
    every = {alert.name for alert in alerts(Settings())}
    assert fire == every
    assert are_quiet == every


def test_kept_labels(tmp_path: Path) -> None:
    """A label that ``labels.keep`` names, here ``team``, has in an alert the value of the event's
    own VMs, also while these are away. It has that of peers only if no own VM shows the event.
    """
    assert run(tmp_path, TEAMS, {"labels.keep": "team"}) == ""
