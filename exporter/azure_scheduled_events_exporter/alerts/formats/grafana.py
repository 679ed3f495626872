"""The alerts as Grafana-managed rules, for teams that have no Alertmanager.

The PromQL stays as it is. Grafana's templates cannot query, so a rule whose texts name VMs has a
second query, with the names as labels. Grafana gives a text the labels of every query whose labels
contain those of the alert (``$values``). The names are no labels of the alert itself, so it stays
the same alert if one changes.
"""

import math
from collections.abc import Mapping
from typing import Any

from azure_scheduled_events_exporter.alerts.groups import groups
from azure_scheduled_events_exporter.alerts.rule import Alert, Group
from azure_scheduled_events_exporter.alerts.series import INFO, INSTANCE
from azure_scheduled_events_exporter.alerts.settings import Settings
from azure_scheduled_events_exporter.times import format_duration, parse_duration

from .grafana_texts import FOR_GRAFANA, NAMES
from .prometheus import annotations
from .texts import OF_TARGETS
from .yaml_text import to_yaml

# Grafana's default min_interval: it evaluates no group more often, and in steps of it.
_LEAST_SECONDS = 10
# Grafana requires a time range, in seconds. These queries are instant: only its end counts.
_WINDOW = 600
# The PromQL has decided already: any value, 0 and negative ones too, is an alert.
_ANY_VALUE = -1e15
_LONGEST_UID = 40  # characters, Grafana's limit
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
    steps = math.ceil(round(parse_duration(group.interval)) / _LEAST_SECONDS)
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
        "for": alert.pending_for or "0s",
        "annotations": annotations(alert, settings, FOR_GRAFANA),
        "labels": {"severity": alert.severity, **alert.labels},
        "isPaused": False,
    }


def _steps(alert: Alert, settings: Settings) -> list[dict[str, Any]]:
    """Return the query A, its last values B, and the condition C, which is a threshold.

    A threshold judges each series by itself, and keeps its labels. If texts need the names of VMs,
    their query D and its last values follow.
    """
    source = settings.text("grafana.datasource")
    condition = {
        "datasource": _EXPRESSIONS,
        "expression": "B",
        "type": "threshold",
        "conditions": [{"evaluator": {"type": "gt", "params": [_ANY_VALUE]}}],
    }
    steps = [
        _query("A", source, alert.expression),
        _last_values("B", "A"),
        _step("C", _EXPRESSION, condition),
    ]
    names = _query_of_names(alert)
    if names:
        steps += [_query("D", source, names), _last_values(NAMES, "D")]
    return steps


def _query(name: str, source: str, expression: str) -> dict[str, Any]:
    model = {
        "expr": expression,
        "datasource": {"type": "prometheus", "uid": source},
        "instant": True,
        "range": False,
    }
    return _step(name, source, model, window=_WINDOW)


def _last_values(name: str, query: str) -> dict[str, Any]:
    model = {
        "datasource": _EXPRESSIONS,
        "expression": query,
        "type": "reduce",
        "reducer": "last",
        "settings": {"mode": "dropNN"},
    }
    return _step(name, _EXPRESSION, model)


def _step(name: str, datasource: str, model: Mapping[str, Any], window: int = 0) -> dict[str, Any]:
    return {
        "refId": name,
        "relativeTimeRange": {"from": window, "to": 0},
        "datasourceUid": datasource,
        "model": {"refId": name, **model},
    }


def _query_of_names(alert: Alert) -> str:
    """Return the expression with the names of VMs as labels; "" if the texts need no names.

    Each series of the alert gets the names of one series of an info metric: several exporters may
    show an event, and ``topk`` takes one of them. ``last_over_time`` finds the names also if their
    exporter is down now. The last line gives the query a result in any case: if one query of a rule
    has no data, Grafana treats the whole rule as if it had none.
    """
    is_about_event = "{vms}" in alert.summary
    is_about_target = any(placeholder in alert.summary for placeholder in OF_TARGETS)
    if is_about_event:
        keys = "event_id"
        names = "vms, resources, resource_group, event_status"
        # Exporters that know their resource group come first.
        known = f'{INFO}{{resource_group!=""}} or on (event_id) last_over_time({INFO}[1h])'
    elif is_about_target:
        keys = "job, instance"
        names = "vm_name, resource_group"
        known = f"last_over_time({INSTANCE}[1h])"
    else:
        return ""
    return (
        f"({alert.expression})\n"
        f"* on ({keys}) group_left ({names})\n"
        f"topk by ({keys}) (1, {known})\n"
        "or on () vector(0)"
    )
