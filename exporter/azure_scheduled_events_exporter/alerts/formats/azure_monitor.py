"""The rules for Azure Monitor's managed Prometheus, and what it scrapes.

Azure evaluates a group at most once a minute, so a rule must not miss what came and went between
two evaluations. The texts of an alert cannot query, so its expression adds the names of VMs as
labels.
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

# The numbers of Azure's severities.
_PAGE = 0
_TICKET = 2
_SHOWN = 3
# How often Azure evaluates a group: as PromQL and as the template writes it.
_EVALUATION = "1m"
_INTERVAL = "PT1M"
_SCRAPED = re.compile(rf"((?:{SEEN}|{EVENT_IMPACT})(?:{{[^}}]*}})?)((?: offset \w+)?)")
"""A scraped series in a recording. Its groups: the name with matchers, and the offset, if any."""
_WINDOW = "2m"
"""For how long a scraped series of a recording counts after its last sample.

An eviction can begin and end between two evaluations. Alerts need no such window: they read
recordings, or look back over a minute by themselves.
"""


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
    # A ticket unless it pages or only shows: so also if the team has given this alert a word of its
    # own, which stays in the label ``severity``.
    severity = _TICKET
    actions = [_action("ticketActionGroupId")]
    if pages(rule.severity, settings):
        severity = _PAGE
        actions = [_action("actionGroupId")]
    elif not notifies(rule.severity, settings):
        severity = _SHOWN
        actions = []
    pending = {}
    if rule.pending_for:
        pending["for"] = f"PT{round(parse_duration(rule.pending_for))}S"
    return {
        "alert": rule.name,
        "expression": _expression(rule, settings),
        **pending,
        "severity": severity,
        "labels": {"severity": rule.severity, **rule.labels},
        "annotations": annotations(rule, settings, FOR_AZURE_MONITOR),
        "resolveConfiguration": {"autoResolved": True, "timeToResolve": "PT5M"},
        "actions": actions,
    }


def _expression(alert: Alert, settings: Settings) -> str:
    """Return the expression with the names of VMs as labels, since texts cannot query."""
    is_about_event = "{vms}" in alert.summary
    is_about_target = any(placeholder in alert.summary for placeholder in OF_TARGETS)
    if is_about_event:
        return _with_names(
            alert.expression,
            keys="event_id",
            names="vms, resource_group",
            now=f'{INFO}{{resource_group!=""}}',  # exporters that know their resource group
            last_hour=INFO,
            nameless=f"last_over_time({RECORDED_SEEN}[1h])",
        )
    if is_about_target:
        return _with_names(
            alert.expression,
            keys="job, instance",
            names="vm_name, resource_group",
            now=INSTANCE,
            last_hour=INSTANCE,
            nameless=f'last_over_time(up{{job=~"{settings.text("job")}"}}[1h])',
        )
    return alert.expression


def _with_names(
    expression: str, *, keys: str, names: str, now: str, last_hour: str, nameless: str
) -> str:
    """Return ``expression`` with the labels ``names`` of the VMs that it is about.

    Args:
        expression: that of an alert.
        keys: the labels by which it finds its names, separated by commas.
        names: the labels that it gets, separated by commas.
        now: the info metric that has the names, if it is exported now. It is tried first.
        last_hour: the info metric whose last value within the last hour is tried next.
        nameless: a vector that has the keys of each event or target, but no names. It is tried
            last, so that no alert is lost if nobody knows the names.
    """
    # Several exporters may know the same names: topk keeps one series of each key. Multiplication
    # by 1 keeps the value of the expression: an info metric is always 1, and `* 0 + 1` makes the
    # nameless vector 1.
    return (
        f"({expression})\n"
        f"* on ({keys}) group_left ({names})\n"
        f"topk by ({keys}) (1,\n"
        f"  {now}\n"
        f"  or on ({keys}) last_over_time({last_hour}[1h])\n"
        f"  or on ({keys}) {nameless} * 0 + 1\n"
        ")"
    )


def _action(parameter: str) -> dict[str, str]:
    return {"actionGroupId": f"[parameters('{parameter}')]"}
