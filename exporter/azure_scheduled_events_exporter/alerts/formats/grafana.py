"""The alerts as Grafana-managed rules, for teams that have no Alertmanager.

The PromQL stays as it is; Grafana's templates cannot query, so that its texts name events instead
of VMs.
"""

from collections.abc import Mapping
from typing import Any

from azure_scheduled_events_exporter.alerts.groups import groups
from azure_scheduled_events_exporter.alerts.rule import Alert, Group
from azure_scheduled_events_exporter.alerts.settings import Settings
from azure_scheduled_events_exporter.times import format_duration, parse_duration

from .prometheus import annotations
from .texts import FOR_GRAFANA
from .yaml_text import to_yaml

# Grafana's default min_interval: it evaluates no group more often, and in steps of it.
_LEAST_SECONDS = 10
_WINDOW = 600  # seconds
# The PromQL has decided already: any value, 0 and negative ones too, is an alert.
_ANY_VALUE = -1e15
_LONGEST_UID = 40
_EXPRESSION = "__expr__"
_EXPRESSIONS = {"type": _EXPRESSION, "uid": _EXPRESSION}
"""The data source of what Grafana computes itself."""


def grafana_rules(settings: Settings) -> str:
    """Return the provisioning file."""
    return to_yaml(
        {"apiVersion": 1, "groups": [_group(group, settings) for group in groups(settings)]},
        "Grafana-managed alerts; put it into /etc/grafana/provisioning/alerting/.",
        "Their expressions read series that the recording rules of Prometheus make: load those"
        " too.",
    )


def _group(group: Group, settings: Settings) -> dict[str, Any]:
    steps = -(-round(parse_duration(group.interval)) // _LEAST_SECONDS)
    return {
        "orgId": 1,
        "name": group.name,
        "folder": "Azure Scheduled Events",
        "interval": format_duration(steps * _LEAST_SECONDS),
        "rules": [_rule(alert, settings) for alert in group.alerts],
    }


def _rule(alert: Alert, settings: Settings) -> dict[str, Any]:
    return {
        "uid": alert.name.replace("AzureScheduledEvent", "azure-scheduled-event-")[:_LONGEST_UID],
        "title": alert.name,
        "condition": "C",
        "data": _steps(alert, settings),
        "noDataState": "OK",  # no series is no alert
        # With Error, a Prometheus that does not answer pages for each critical rule; with OK, it
        # resolves pages.
        "execErrState": "KeepLast",
        "for": alert.holds or "0s",
        "annotations": annotations(alert, settings, FOR_GRAFANA),
        "labels": {"severity": alert.severity, **alert.labels},
        "isPaused": False,
    }


def _steps(alert: Alert, settings: Settings) -> list[dict[str, Any]]:
    """Return the query, its last values, and a condition per series.

    One condition for all series would lose their labels.
    """
    source = settings.text("grafana.datasource")
    query = {
        "expr": alert.expression,
        "datasource": {"type": "prometheus", "uid": source},
        "instant": True,
        "range": False,
    }
    last_values = {
        "datasource": _EXPRESSIONS,
        "expression": "A",
        "type": "reduce",
        "reducer": "last",
        "settings": {"mode": "dropNN"},
    }
    condition = {
        "datasource": _EXPRESSIONS,
        "expression": "B",
        "type": "threshold",
        "conditions": [{"evaluator": {"type": "gt", "params": [_ANY_VALUE]}}],
    }
    return [
        _step("A", source, query, window=_WINDOW),
        _step("B", _EXPRESSION, last_values),
        _step("C", _EXPRESSION, condition),
    ]


def _step(name: str, datasource: str, model: Mapping[str, Any], window: int = 0) -> dict[str, Any]:
    return {
        "refId": name,
        "relativeTimeRange": {"from": window, "to": 0},
        "datasourceUid": datasource,
        "model": {"refId": name, **model},
    }
