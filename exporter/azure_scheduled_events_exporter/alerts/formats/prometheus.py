"""The rules in the forms that Prometheus, vmalert, the Prometheus operator, and exporters that push alerts read."""

import hashlib
import json
import re
from collections.abc import Callable
from typing import Any

from azure_scheduled_events_exporter import __version__
from azure_scheduled_events_exporter.alerts.exporters import NO_EXPORTERS
from azure_scheduled_events_exporter.alerts.groups import alerts, groups
from azure_scheduled_events_exporter.alerts.rule import Alert, Group, Recording
from azure_scheduled_events_exporter.alerts.settings import Settings

from .texts import for_rules
from .yaml_text import to_yaml

_RECORD = re.compile(r"^( *)- record: (\S+)$", re.MULTILINE)
VERSION_ANNOTATION = "rules_version"
"""The annotation of NoExporters that tells ``doctor`` which rules are loaded; settings do not change it."""


def annotations(
    alert: Alert, settings: Settings, form: Callable[[str], str] = for_rules
) -> dict[str, str]:
    """Return the alert's annotations: its texts, as ``form`` writes them for one engine, and links to pages."""
    dashboard = f"{settings.text('dashboards.url')}/azure-scheduled-events-{alert.dashboard}"
    return {
        "summary": form(alert.summary),
        "description": form(alert.description),
        "runbook_url": f"{settings.text('runbooks.url')}/{alert.name}.md",
        **({"dashboard_url": dashboard} if alert.dashboard else {}),
    }


def rules_version() -> str:
    """Return the version of the exporter with a hash of the rules that it ships, such as ``1.2.3+0a1b2c3d``."""
    content = to_yaml([_group(group, Settings()) for group in groups(Settings())])
    return f"{__version__}+{hashlib.sha256(content.encode()).hexdigest()[:8]}"


def prometheus_rules(settings: Settings) -> str:
    """Return the rule file for ``rule_files`` of Prometheus, and for vmalert."""
    text = to_yaml(
        _rule_groups(settings),
        "Rules for azure-scheduled-events-exporter, for Prometheus and vmalert:"
        " docs/how-the-rules-work.md.",
        "`and` and `unless` bind tighter than `or`.",
    )
    return _with_meanings(text, settings)


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
        "The rules for the Prometheus operator; its ruleSelector must match the labels:"
        " labels.metadata.",
    )
    return _with_meanings(text, settings)


def _with_meanings(text: str, settings: Settings) -> str:
    """Return the file with the meaning of each recording above it."""
    meanings = {
        each.record: each.meaning for group in groups(settings) for each in group.recordings
    }
    return _RECORD.sub(lambda found: f"{found[1]}# {meanings[found[2]]}\n{found[0]}", text)


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


def pushed_alerts(settings: Settings) -> str:
    """Return the alerts that exporters push as JSON: for each kind and its types (all, if there are none) the alert.

    An event has one of them at most, the alert of its rule, with the same name, labels and texts.
    """
    rows = [
        {
            "name": each.name,
            "kind": each.events.kind,
            "event_types": each.events.types,
            "hold_seconds": each.events.hold,
            "labels": {"severity": each.severity, **each.labels},
            "annotations": {
                name: f"{text}?var-vm={{vm}}" if name == "dashboard_url" else text
                for name, text in annotations(each, settings, str).items()
            },
        }
        for each in alerts(settings)
        if each.events
    ]
    return json.dumps({"alerts": rows}, indent=2, sort_keys=True) + "\n"
