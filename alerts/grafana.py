"""The alerts as Grafana-managed rules, in the form of its file provisioning (Grafana 10.4.1 and newer).

The recorded series still come from Prometheus: load the Prometheus rules too, or at least their recordings.
grafanalib has only the form of an old HTTP API for rules, so they are built here.
"""

import re
from typing import Any

from .prometheus import annotations, dashboard_url
from .rules import groups
from .rules.descriptions import plain
from .rules.rule import VMS, Alert, Group
from .settings import Settings
from .yaml_text import to_yaml

_LEAST_SECONDS = 10  # Grafana's default min_interval: it evaluates no group more often
_WINDOW = 600  # seconds
_ANY_VALUE = -1e15  # the PromQL has decided already: any value, 0 and negative ones too, is an alert
_LONGEST_UID = 40
_EXPRESSION = "__expr__"


def grafana_rules(settings: Settings) -> str:
    """Return the provisioning file."""
    found = [_group(group, settings) for group in groups(settings) if any(group.alerts())]
    return to_yaml(
        {"apiVersion": 1, "groups": found},
        "Grafana-managed alerts; put it into /etc/grafana/provisioning/alerting/.",
        "Their expressions read series that the recording rules of Prometheus make: load those too.",
    )


def _group(group: Group, settings: Settings) -> dict[str, Any]:
    interval = max(_LEAST_SECONDS, _in_steps(group, settings))
    return {
        "orgId": 1,
        "name": group.name,
        "folder": "Azure Scheduled Events",
        "interval": f"{interval}s",
        "rules": [_rule(alert, settings) for alert in group.alerts()],
    }


def _in_steps(group: Group, settings: Settings) -> int:
    """Return the group's interval, rounded up to Grafana's steps of 10 s."""
    watcher = group.interval == settings.duration("evaluation.watcher-interval")
    name = "evaluation.watcher-interval" if watcher else "evaluation.interval"
    return -(-round(settings.seconds(name)) // _LEAST_SECONDS) * _LEAST_SECONDS


def _rule(alert: Alert, settings: Settings) -> dict[str, Any]:
    texts = {**annotations(alert, settings), "description": plain(alert.description)}
    if VMS in alert.description:  # the VM has to be looked up, which Grafana's templates cannot do
        texts["dashboard_url"] = dashboard_url(alert, settings)
        texts.pop("status_url", None)
    return {
        "uid": _uid(alert),
        "title": alert.name,
        "condition": "C",
        "data": _queries(alert, settings),
        "noDataState": "OK",  # no series is no alert
        # With Error, a Prometheus that does not answer pages for each critical rule; with OK, it resolves pages.
        "execErrState": "KeepLast",
        "for": alert.holds or "0s",
        "annotations": {name: _template(text) for name, text in texts.items() if name != "vms"},
        "labels": {name: _template(text) for name, text in alert.all_labels().items()},
        "isPaused": False,
    }


def _queries(alert: Alert, settings: Settings) -> list[dict[str, Any]]:
    """Return the query, its last values, and a condition per series: one for all would lose their labels."""
    source = settings.text("grafana.datasource")
    asked = {"datasource": {"type": "prometheus", "uid": source}, "instant": True, "range": False}
    decided = {"type": "gt", "params": [_ANY_VALUE]}
    return [
        _query("A", source, {"expr": alert.expression, **asked}),
        _query(
            "B", _EXPRESSION, {"expression": "A", "type": "reduce", "reducer": "last", "settings": {"mode": "dropNN"}}
        ),
        _query("C", _EXPRESSION, {"expression": "B", "type": "threshold", "conditions": [{"evaluator": decided}]}),
    ]


def _query(name: str, source: str, model: dict[str, Any]) -> dict[str, Any]:
    is_expression = source == _EXPRESSION
    kind = {"datasource": {"type": source, "uid": source}} if is_expression else {}
    return {
        "refId": name,
        "relativeTimeRange": {"from": 0 if is_expression else _WINDOW, "to": 0},
        "datasourceUid": source,
        "model": {"refId": name, **kind, **model},
    }


def _template(text: str) -> str:
    """Prometheus' variables as Grafana has them, without the dollar that provisioning takes for its own."""
    text = text.replace("$labels.", ".Labels.")
    return re.sub(r"\$value", '(index .Values "B").Value', text)


def _uid(alert: Alert) -> str:
    return alert.name.replace("AzureScheduledEvent", "azure-scheduled-event-")[:_LONGEST_UID]
