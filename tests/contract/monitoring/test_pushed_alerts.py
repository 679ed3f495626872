"""A pushed alert is the alert of the rules: Alertmanager takes both for one only if all labels are
equal.
"""

from pathlib import Path

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


def test_labels_are_those_of_the_rules(tmp_path: Path) -> None:
    """For each kind and type, as shipped and with settings: the same alert with the same labels, or
    none in both.
    """
    for values in ({}, CHANGED):
        kept = KEPT if values else {}
        settings = resolve(values)
        catalog = pushed_alerts(settings)
        series = []
        alerts = []
        for kind in Kind:
            for event_type in (*EventType, "New"):
                event = ScheduledEvent(
                    f"{kind}-{event_type}", event_type, "Scheduled", resources=("vm",)
                )
                shown = {
                    "event_id": event.event_id,
                    "event_type": event_type,
                    "kind": kind,
                    "scope": "self",
                    **kept,
                }
                life = Lifecycle(event, State.SCHEDULED, Scope.SELF, Timestamp(0.0))
                alert = alert_of(life, kind, None, catalog, kept)
                seen = f"azure_scheduled_events_event_seen_timestamp_seconds{_labels(shown)}"
                series.append({"series": seen, "values": "0 15 30"})
                if alert:
                    alerts.append(dict(alert.labels))
        samples = [
            {"labels": _labels({**each, "__name__": "ALERTS", "alertstate": "firing"}), "value": 1}
            for each in alerts
        ]
        fired = {"expr": 'ALERTS{event_id!=""}', "eval_time": "15s", "exp_samples": samples}
        test = {"interval": "15s", "input_series": series, "promql_expr_test": [fired]}
        rules = yaml.safe_load(GENERATED["prometheus/prometheus-rules.yml"](settings))
        assert play(tmp_path, rules, [test]) == ""


def _labels(labels: dict[str, str]) -> str:
    return "{" + ",".join(f'{key}="{value}"' for key, value in labels.items()) + "}"
