"""A pushed alert is the alert of the rules: Alertmanager takes both for one only if all labels are
equal.
"""

from itertools import product
from pathlib import Path

import pytest
import yaml

from azure_scheduled_events_exporter.alertmanager.alert import alert_of
from azure_scheduled_events_exporter.alerts import GENERATED, resolve
from azure_scheduled_events_exporter.alerts.pushed import pushed_alerts
from azure_scheduled_events_exporter.core.document import ScheduledEvent, Scope
from azure_scheduled_events_exporter.core.event_types import EventType
from azure_scheduled_events_exporter.core.lifecycle import Kind, Lifecycle, State
from azure_scheduled_events_exporter.core.timestamp import Timestamp
from support.stories.story import play

# Settings that change a severity, add a label, keep a label of targets, and disable an alert.
CHANGED = {
    "severities.Reboot": "page",
    "labels.add": "owner=web\n",
    "labels.keep": "team\n",
    "alerts.disabled": "UnknownType\n",
}
KEPT = {"team": "blue"}
"""The label of the targets that these settings keep."""


@pytest.mark.parametrize(
    ("values", "kept"), [({}, {}), (CHANGED, KEPT)], ids=["as shipped", "with settings"]
)
def test_labels_are_those_of_the_rules(
    values: dict[str, str], kept: dict[str, str], tmp_path: Path
) -> None:
    """For each kind and type, an exporter pushes the alert that the rules raise, with the same
    labels, or there is none in both.
    """
    settings = resolve(values)
    catalog = pushed_alerts(settings)
    series = []  # what Prometheus scrapes, for promtool
    pushed = []  # the labels of what exporters push, as Prometheus shows a firing alert
    for kind, event_type in product(Kind, (*EventType, "New")):
        event = ScheduledEvent(f"{kind}-{event_type}", event_type, "Scheduled", resources=("vm",))
        life = Lifecycle(event, State.SCHEDULED, Scope.SELF, Timestamp(0.0))
        series.append({"series": _seen(event, kind, kept), "values": "0 15 30"})
        alert = alert_of(life, kind, None, catalog, kept)
        if alert:
            pushed.append({**alert.labels, "__name__": "ALERTS", "alertstate": "firing"})
    samples = [{"labels": _labels(each), "value": 1} for each in pushed]
    # Exactly the alerts that were pushed fire by the rules.
    fired = {"expr": 'ALERTS{event_id!=""}', "eval_time": "15s", "exp_samples": samples}
    test = {"interval": "15s", "input_series": series, "promql_expr_test": [fired]}
    rules = yaml.safe_load(GENERATED["prometheus/prometheus-rules.yml"](settings))
    assert play(tmp_path, rules, [test]) == ""


def _seen(event: ScheduledEvent, kind: Kind, kept: dict[str, str]) -> str:
    """Return the series that says when an exporter saw ``event``, which is its own VM's."""
    labels = {
        "event_id": event.event_id,
        "event_type": event.event_type,
        "kind": kind,
        "scope": "self",
        **kept,
    }
    return f"azure_scheduled_events_event_seen_timestamp_seconds{_labels(labels)}"


def _labels(labels: dict[str, str]) -> str:
    return "{" + ",".join(f'{key}="{value}"' for key, value in labels.items()) + "}"
