"""Which alert the command drill raises for a scenario."""

import re
from contextlib import suppress

from azure_scheduled_events_exporter.alerts import resolve
from azure_scheduled_events_exporter.alerts.pushed import pushed_alerts
from azure_scheduled_events_exporter.commands.drill.story import alert_of_story, story_of
from azure_scheduled_events_exporter.errors import UsageError
from azure_scheduled_events_exporter.simulator.catalog import SHIPPED
from support.paths import ROOT


def test_alert_of_each_scenario() -> None:
    """Each scenario raises the alert that the page about the simulator names, with its severity.
    One whose event is harmless raises none, so the drill refuses it.
    """
    page = (ROOT / "docs" / "simulator.md").read_text()
    rows = re.findall(r"(?m)^\| `([a-z-]+)` \| (\w+)[^|]*\| ?(\w*) ?\|$", page)
    documented = {name: (alert, severity) for name, alert, severity in rows}
    catalog = pushed_alerts(resolve({}))
    raised = dict.fromkeys(SHIPPED, ("none", ""))
    for name in SHIPPED:
        with suppress(UsageError):
            labels = alert_of_story(story_of(name), catalog).labels
            raised[name] = (labels["alertname"], labels["severity"])
    assert documented == raised


def test_alert_has_the_severity_of_the_values() -> None:
    """The alert of a drill has the severity that a team has set for it in the values of its
    rules.
    """
    catalog = pushed_alerts(resolve({"severities.Freeze": "page"}))
    freeze = alert_of_story(story_of("host-maintenance"), catalog)
    assert freeze.labels["severity"] == "page"
