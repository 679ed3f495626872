"""The alerts as Grafana-managed rules, in the form of its file provisioning (Grafana 10.4.1 and newer).

The recorded series still come from Prometheus: load the Prometheus rules too, or at least their recordings.
grafanalib builds the parts; what it emits for a rule is the form of an old HTTP API, so :func:`_rule` puts it into
the form that a provisioning file has.
"""

import re
from typing import Any

from azure_scheduled_events_exporter.errors import ExporterError

from .prometheus import annotations
from .rules import groups
from .rules.descriptions import plain
from .rules.rule import Alert, Group
from .settings import Settings
from .yaml_text import to_yaml

_LEAST_SECONDS = 10  # Grafana refuses groups that are evaluated more often
_WINDOW = 600  # seconds
_ANY_VALUE = -1e15  # the PromQL has decided already: any value, 0 and negative ones too, is an alert
_LONGEST_UID = 40


def grafana_rules(settings: Settings) -> str:
    """Return the provisioning file.

    Raises:
        ExporterError: grafanalib is not installed.
    """
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
    built = _built(alert, settings)
    inner = built["grafana_alert"]
    rule = {
        "uid": built["uid"],
        "title": inner["title"],
        "condition": inner["condition"],
        "data": [_query(query, settings) for query in inner["data"]],
        "dashboardUid": str(alert.dashboard),
        "noDataState": "OK",  # no series is no alert
        # With Error, a Prometheus that does not answer pages for each critical rule; with OK, it resolves pages.
        "execErrState": "KeepLast",
        "for": built["for"],
        "annotations": built["annotations"],
        "labels": {name: _template(text) for name, text in built["labels"].items()},
        "isPaused": False,
    }
    del rule["dashboardUid"]  # Grafana takes it only together with the number of a panel
    return rule


def _built(alert: Alert, settings: Settings) -> dict[str, Any]:
    try:
        from grafanalib import core  # type: ignore[import-untyped]  # noqa: PLC0415 - only this asset needs it, untyped
    except ImportError:
        raise ExporterError("the rules for Grafana need grafanalib: pip install grafanalib") from None
    reduced = core.AlertExpression(
        refId="B",
        expression="A",
        expressionType=core.EXP_TYPE_REDUCE,
        reduceFunction=core.EXP_REDUCER_FUNC_LAST,
        reduceMode=core.EXP_REDUCER_FUNC_DROP_NN,
    )
    decided = core.AlertExpression(
        refId="C",
        expression="B",
        expressionType=core.EXP_TYPE_CLASSIC,
        conditions=[core.AlertCondition(evaluator=core.GreaterThan(_ANY_VALUE))],
    )
    query = core.Target(
        expr=alert.expression, refId="A", instant=True, datasource=settings.text("grafana.datasource"), intervalFactor=1
    )
    texts = {**annotations(alert, settings), "description": plain(alert.description)}
    texts = {name: _template(text) for name, text in texts.items() if name != "vms"}
    built: dict[str, Any] = core.AlertRulev9(
        title=alert.name,
        uid=_uid(alert),
        triggers=[query, reduced, decided],
        condition="C",
        annotations=texts,
        labels=alert.all_labels(),
        evaluateFor=alert.holds or "0s",
        timeRangeFrom=_WINDOW,
    ).to_json_data()
    return built


def _query(query: dict[str, Any], settings: Settings) -> dict[str, Any]:
    """Grafanalib's query without the keys of other data sources; a condition per series, not one for all."""
    model = query["model"]
    corrected: dict[str, Any] = {"refId": model["refId"]}
    if query["refId"] == "A":
        source = {"type": "prometheus", "uid": settings.text("grafana.datasource")}
        corrected |= {"datasource": source, "expr": model["expr"], "instant": True, "range": False}
        uid, window = settings.text("grafana.datasource"), _WINDOW
    else:
        uid, window = "__expr__", 0
        corrected |= {"datasource": {"type": "__expr__", "uid": uid}, "expression": model["expression"]}
        if query["refId"] == "B":
            corrected |= {"type": "reduce", "reducer": model["reducer"], "settings": {"mode": "dropNN"}}
        else:  # classic conditions would make one alert of all series and lose their labels
            corrected |= {"type": "threshold", "conditions": [{"evaluator": model["conditions"][0]["evaluator"]}]}
    return {
        "refId": query["refId"],
        "relativeTimeRange": {"from": window, "to": 0},
        "datasourceUid": uid,
        "model": corrected,
    }


def _template(text: str) -> str:
    """Prometheus' variables as Grafana has them, without the dollar that provisioning takes for its own."""
    text = text.replace("$labels.", ".Labels.")
    return re.sub(r"\$value", '(index .Values "B").Value', text)


def _uid(alert: Alert) -> str:
    return alert.name.replace("AzureScheduledEvent", "azure-scheduled-event-")[:_LONGEST_UID]
