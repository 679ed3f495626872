"""The rules in the forms that Prometheus, vmalert and the Prometheus operator read."""

import re
from typing import Any

from .rules import groups
from .rules.descriptions import dashboard_parameters, description, vms, with_first_vm
from .rules.rule import FIRST_VM, VMS, Alert, Group, Recording
from .settings import Settings
from .yaml_text import to_yaml


def runbook_url(alert: Alert, settings: Settings) -> str:
    """Return the address of the alert's runbook."""
    return f"{settings.text('runbooks.url')}/{alert.name}.md"


def dashboard_url(alert: Alert, settings: Settings) -> str:
    """Return the address of the alert's dashboard."""
    return f"{settings.text('dashboards.url')}/{alert.dashboard}"


def status_url(alert: Alert, settings: Settings) -> str:
    """Return the address of the status page of the event's first VM, or nothing where no address is known."""
    return re.sub(r"\bVM\b", FIRST_VM, settings.text("status-page.url")) if VMS in alert.description else ""


def annotations(alert: Alert, settings: Settings) -> dict[str, str]:
    """Return the annotations of the alert, for Prometheus and vmalert."""
    memory = settings.with_lasting_memory().duration("memory")
    status = status_url(alert, settings)
    return {
        "summary": alert.summary,
        "description": description(alert, memory),
        **({"vms": vms(alert, memory)} if VMS in alert.description else {}),
        "runbook_url": runbook_url(alert, settings),
        "dashboard_url": dashboard_url(alert, settings) + dashboard_parameters(alert),
        **({"status_url": with_first_vm(status, alert)} if status else {}),
    }


def prometheus_rules(settings: Settings) -> str:
    """Return the rule file for ``rule_files`` of Prometheus."""
    return to_yaml(
        _rule_groups(settings),
        "Recording and alerting rules for azure-scheduled-events-exporter; for Prometheus' rule_files.",
    )


def vmalert_rules(settings: Settings) -> str:
    """Return the rule file for vmalert 1.95 or newer; older versions and Prometheus reject ``eval_alignment``.

    Without it, vmalert evaluates a rule as of the last multiple of its group's interval, so a new event may wait for
    one interval more.
    """
    aligned = {"eval_alignment": False}
    content = {"groups": [{**_group(group, settings), **aligned} for group in groups(settings)]}
    return to_yaml(content, "The rules for vmalert 1.95 or newer; an older one reads Prometheus' file.")


def prometheus_rule_resource(settings: Settings) -> str:
    """Return the same as a PrometheusRule of the Prometheus operator."""
    labels = {"app.kubernetes.io/name": "azure-scheduled-events-exporter", "role": "alert-rules"}
    resource = {
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "PrometheusRule",
        "metadata": {"name": "azure-scheduled-events-exporter", "labels": labels},
        "spec": _rule_groups(settings),
    }
    return to_yaml(resource, "The rules for the Prometheus operator; its ruleSelector must match the labels.")


def _rule_groups(settings: Settings) -> dict[str, Any]:
    return {"groups": [_group(group, settings) for group in groups(settings)]}


def _group(group: Group, settings: Settings) -> dict[str, Any]:
    return {
        "name": group.name,
        "interval": group.interval,
        "rules": [_rule(rule, settings) for rule in group.rules],
    }


def _rule(rule: Alert | Recording, settings: Settings) -> dict[str, Any]:
    if isinstance(rule, Recording):
        labels = {"labels": dict(rule.labels)} if rule.labels else {}
        return {"record": rule.record, "expr": rule.expression, **labels}
    return {
        "alert": rule.name,
        "expr": rule.expression,
        **({"for": rule.holds} if rule.holds else {}),
        "labels": rule.all_labels(),
        "annotations": annotations(rule, settings),
    }
