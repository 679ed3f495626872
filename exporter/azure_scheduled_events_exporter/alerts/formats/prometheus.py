"""The rules in the forms that Prometheus, vmalert and the Prometheus operator read."""

import hashlib
from typing import Any

from azure_scheduled_events_exporter import __version__
from azure_scheduled_events_exporter.alerts.exporters import NO_EXPORTERS
from azure_scheduled_events_exporter.alerts.groups import groups
from azure_scheduled_events_exporter.alerts.rule import Alert, Group, Recording
from azure_scheduled_events_exporter.alerts.settings import Settings

from .rule_comments import with_comments
from .rule_head import head
from .rule_texts import FOR_RULES
from .texts import Form
from .yaml_text import to_yaml

VERSION_ANNOTATION = "rules_version"
"""The annotation of NoExporters that tells ``doctor`` which rules a Prometheus has loaded.

Settings do not change its value, which is :func:`rules_version`.
"""


def annotations(alert: Alert, settings: Settings, form: Form = FOR_RULES) -> dict[str, str]:
    """Return the alert's annotations: its texts, as ``form`` writes them, and links to pages."""
    return {
        "summary": form.text(alert.summary),
        "description": form.text(alert.text),
        "runbook_url": f"{settings.text('runbooks.url')}/{alert.name}.md",
        "dashboard_url": form.dashboard(alert.dashboard, settings.text("dashboards.url")),
    }


def rules_version() -> str:
    """Return the version of the exporter with a hash of its rules, such as ``1.2.3+0a1b2c3d``.

    The hash is of the rules by default settings, without :data:`VERSION_ANNOTATION`.
    """
    content = to_yaml([_group(group, Settings()) for group in groups(Settings())])
    return f"{__version__}+{hashlib.sha256(content.encode()).hexdigest()[:8]}"


def prometheus_rules(settings: Settings) -> str:
    """Return the rule file for ``rule_files`` of Prometheus, and for vmalert."""
    text = to_yaml(_rule_groups(settings), *head(settings))
    return with_comments(text, groups(settings))


def prometheus_rule_resource(settings: Settings) -> str:
    """Return the same as a PrometheusRule of the Prometheus operator."""
    labels = {
        "app.kubernetes.io/name": "azure-scheduled-events-exporter",
        "role": "alert-rules",
        **settings.pairs("labels.metadata"),
    }
    resource = {
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "PrometheusRule",
        "metadata": {"name": "azure-scheduled-events-exporter", "labels": labels},
        "spec": _rule_groups(settings),
    }
    text = to_yaml(
        resource,
        *head(settings),
        "The rules for the Prometheus operator; its ruleSelector must match the labels:"
        " labels.metadata.",
    )
    return with_comments(text, groups(settings))


def _rule_groups(settings: Settings) -> dict[str, Any]:
    """Return the content of a rule file, with :data:`VERSION_ANNOTATION`."""
    content = [_group(group, settings) for group in groups(settings)]
    for rule in (rule for group in content for rule in group["rules"]):
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
    pending = {}
    if rule.pending_for:
        pending["for"] = rule.pending_for
    return {
        "alert": rule.name,
        "expr": rule.expression,
        **pending,
        "labels": {"severity": rule.severity, **rule.labels},
        "annotations": annotations(rule, settings),
    }
