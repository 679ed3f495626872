"""The rules for Azure Monitor's managed Prometheus, and what it scrapes.

Azure evaluates a group at most once a minute, so a rule must not miss what came and went between
two evaluations. Its texts cannot query, so an expression adds the names of VMs as labels.
"""

import json
import re
from typing import Any

from azure_scheduled_events_exporter.alerts.groups import groups
from azure_scheduled_events_exporter.alerts.rule import Alert, Group, Recording
from azure_scheduled_events_exporter.alerts.series import (
    EVENT_IMPACT,
    INFO,
    INSTANCE,
    RECORDED_SEEN,
    SEEN,
)
from azure_scheduled_events_exporter.alerts.settings import Settings
from azure_scheduled_events_exporter.alerts.severities import notifies, pages
from azure_scheduled_events_exporter.alerts.vms import MAINTENANCE
from azure_scheduled_events_exporter.times import parse_duration

from .azure_monitor_texts import FOR_AZURE_MONITOR
from .prometheus import annotations
from .scrape import scrape_job
from .texts import OF_TARGETS
from .yaml_text import NOTE, to_yaml

_PAGE = 0  # the numbers of Azure's severities
_TICKET = 2
_SHOWN = 3
_EVALUATION = "1m"
_INTERVAL = "PT1M"
_SCRAPED = re.compile(rf"((?:{SEEN}|{EVENT_IMPACT})(?:{{[^}}]*}})?)((?: offset \w+)?)")
"""A scraped series in a recording. Its groups: the name with matchers, and the offset, if any.

Alerts about events need no such window: they read recordings, or look back over a minute.
"""
_WINDOW = "2m"
"""For how long a scraped series counts: an eviction can begin and end between two evaluations."""


def azure_monitor_rules(settings: Settings) -> str:
    """Return the ARM template with a rule group for each group."""
    template = {
        "$schema": "https://schema.management.azure.com/schemas/2019-04-01/deploymentTemplate.json#",
        "contentVersion": "1.0.0.0",
        "metadata": {"description": f"Rules for azure-scheduled-events-exporter. {NOTE}"},
        "parameters": {
            "workspaceId": _parameter("Resource id of the Azure Monitor workspace."),
            "actionGroupId": _parameter("Resource id of the action group that pages."),
            "ticketActionGroupId": _parameter(
                "The same, for tickets.", defaultValue="[parameters('actionGroupId')]"
            ),
            "location": _parameter(
                "Region of the workspace.", defaultValue="[resourceGroup().location]"
            ),
        },
        "resources": [_group(group, settings) for group in groups(_as_azure_evaluates(settings))],
    }
    return json.dumps(template, indent=2) + "\n"


def ama_metrics_config(settings: Settings) -> str:
    """Return the ConfigMap with which the metrics add-on of AKS scrapes the exporter's pods."""
    job = to_yaml({"scrape_configs": [scrape_job("kubernetes", settings)]})
    name = {"name": "ama-metrics-prometheus-config", "namespace": "kube-system"}
    return to_yaml(
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": name,
            "data": {"prometheus-config": job},
        },
        "For the metrics add-on of AKS; add its job to yours if you have this ConfigMap already.",
    )


def _as_azure_evaluates(settings: Settings) -> Settings:
    """Return the settings with Azure's interval of evaluation, and without Maintenance.

    A rule that reads what it recorded before looks back by a number of evaluations, so the interval
    decides how far. Maintenance only inhibits other alerts, which Azure cannot do.
    """
    disabled = (*settings.items("alerts.disabled"), MAINTENANCE)
    changed = {"evaluation.interval": _EVALUATION, "alerts.disabled": "\n".join(disabled)}
    return Settings({**settings.values, **changed})


def _parameter(description: str, **more: str) -> dict[str, Any]:
    return {"type": "string", **more, "metadata": {"description": description}}


def _group(group: Group, settings: Settings) -> dict[str, Any]:
    return {
        "type": "Microsoft.AlertsManagement/prometheusRuleGroups",
        "apiVersion": "2023-03-01",
        "name": group.name,
        "location": "[parameters('location')]",
        "properties": {
            "enabled": True,
            "interval": _INTERVAL,
            "scopes": ["[parameters('workspaceId')]"],
            "rules": [_rule(rule, settings) for rule in group.rules],
        },
    }


def _rule(rule: Alert | Recording, settings: Settings) -> dict[str, Any]:
    if isinstance(rule, Recording):
        expression = _SCRAPED.sub(
            lambda found: f"last_over_time({found[1]}[{_WINDOW}]{found[2]})", rule.expression
        )
        return {"record": rule.record, "expression": expression}
    severity = _TICKET  # also of a team's own word, which stays in the label
    actions = [_action("ticketActionGroupId")]
    if pages(rule.severity, settings):
        severity = _PAGE
        actions = [_action("actionGroupId")]
    elif not notifies(rule.severity, settings):
        severity = _SHOWN
        actions = []
    holds = {}
    if rule.holds:
        holds["for"] = f"PT{round(parse_duration(rule.holds))}S"
    return {
        "alert": rule.name,
        "expression": _expression(rule, settings),
        **holds,
        "severity": severity,
        "labels": {"severity": rule.severity, **rule.labels},
        "annotations": annotations(rule, settings, FOR_AZURE_MONITOR),
        "resolveConfiguration": {"autoResolved": True, "timeToResolve": "PT5M"},
        "actions": actions,
    }


def _expression(alert: Alert, settings: Settings) -> str:
    """Return the expression with the names of VMs as labels, since texts cannot query."""
    if "{vms}" in alert.summary:
        known = f'{INFO}{{resource_group!=""}}'
        every = f"last_over_time({RECORDED_SEEN}[1h])"
        # First an exporter that knows its resource group, then any one of the last hour.
        return _named(
            alert.expression, "event_id", "vms, resource_group", now=known, before=INFO, every=every
        )
    if any(each in alert.summary for each in OF_TARGETS):
        every = f'last_over_time(up{{job=~"{settings.text("job")}"}}[1h])'
        names = "vm_name, resource_group"
        return _named(
            alert.expression, "job, instance", names, now=INSTANCE, before=INSTANCE, every=every
        )
    return alert.expression


def _named(expression: str, keys: str, names: str, *, now: str, before: str, every: str) -> str:
    """Return the expression with the labels ``names``, from the first vector that has its ``keys``.

    The vectors are ``now``, then ``before`` within the last hour, then ``every``. The last one has
    no names. It has each event or target, so that no alert is lost if nobody knows the names.
    ``topk`` keeps one series of each key, because several exporters may know the same names.

    The expression is multiplied by 1, so that its value stays: an info metric is always 1, and
    ``every`` is made so.
    """
    return (
        f"({expression})\n"
        f"* on ({keys}) group_left ({names})\n"
        f"topk by ({keys}) (1,\n"
        f"  {now}\n"
        f"  or on ({keys}) last_over_time({before}[1h])\n"
        f"  or on ({keys}) {every} * 0 + 1\n"
        ")"
    )


def _action(parameter: str) -> dict[str, str]:
    return {"actionGroupId": f"[parameters('{parameter}')]"}
