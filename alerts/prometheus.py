"""The rules in the forms that Prometheus, vmalert and the Prometheus operator read."""

import hashlib
from collections.abc import Callable
from typing import Any

from azure_scheduled_events_exporter import __version__

from .exporters import NO_EXPORTERS
from .groups import groups
from .rule import Alert, Group, Recording
from .settings import Settings
from .texts import for_rules
from .yaml_text import to_yaml

VERSION_ANNOTATION = "rules_version"
"""The annotation of NoExporters that tells ``doctor`` which rules are loaded; settings do not change it."""


def links(alert: Alert, settings: Settings) -> dict[str, str]:
    """Return the annotations with the addresses of the runbook and, if one tells more, of a dashboard."""
    dashboard = {"dashboard_url": f"{settings.text('dashboards.url')}/{alert.dashboard}"} if alert.dashboard else {}
    return {"runbook_url": f"{settings.text('runbooks.url')}/{alert.name}.md", **dashboard}


def annotations(alert: Alert, settings: Settings, form: Callable[[str], str] = for_rules) -> dict[str, str]:
    """Return the annotations of the alert, their texts in the form of one engine."""
    return {"summary": form(alert.summary), "description": form(alert.description), **links(alert, settings)}


def rules_version() -> str:
    """Return the version of the exporter with a hash of the rules that it ships, such as ``1.2.3+0a1b2c3d``."""
    content = to_yaml([_group(group, Settings()) for group in groups(Settings())])
    return f"{__version__}+{hashlib.sha256(content.encode()).hexdigest()[:8]}"


def prometheus_rules(settings: Settings) -> str:
    """Return the rule file for ``rule_files`` of Prometheus, and for vmalert."""
    return to_yaml(_rule_groups(settings), "Rules for azure-scheduled-events-exporter, for Prometheus and vmalert.")


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
    content = [_group(group, settings) for group in groups(settings)]
    for rule in content[-1]["rules"]:
        if rule.get("alert") == NO_EXPORTERS:
            rule["annotations"][VERSION_ANNOTATION] = rules_version()
    return {"groups": content}


def _group(group: Group, settings: Settings) -> dict[str, Any]:
    return {
        "name": group.name,
        "interval": group.interval,
        "rules": [_rule(rule, settings) for rule in group.rules],
    }


def _rule(rule: Alert | Recording, settings: Settings) -> dict[str, Any]:
    if isinstance(rule, Recording):
        return {"record": rule.record, "expr": rule.expression}
    return {
        "alert": rule.name,
        "expr": rule.expression,
        **({"for": rule.holds} if rule.holds else {}),
        "labels": {"severity": rule.severity, **rule.labels},
        "annotations": annotations(rule, settings),
    }
