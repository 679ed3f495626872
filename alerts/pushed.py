"""The alerts that exporters push to Alertmanager themselves, as the exporter reads them.

Each is the alert of a rule in ``rules``: same name, labels and texts. Only alerts that announce an event are pushed:
each event has at most one of them, which its kind and type select.
"""

import json
import re
from collections.abc import Iterator
from typing import Any

from azure_scheduled_events_exporter.core.event_types import EventType
from azure_scheduled_events_exporter.core.kinds import Kind

from .prometheus import dashboard_url, runbook_url, status_url
from .rules.event_alerts import event_groups
from .rules.fragments import kept
from .rules.life_alerts import life_groups
from .rules.rule import FIRST_VM, IMPACT, PREFIX, TIME, VMS, Alert
from .settings import Settings

_PLACEHOLDERS = {VMS: "{vms}", TIME: "{time}", IMPACT: "", FIRST_VM: "{vm}", "{{ $value | humanizeDuration }}": "days"}
_LABEL = re.compile(r"\{\{ \$labels\.([a-z_]+) \}\}")
_RESTARTS = [each.value for each in EventType if each.facts.restarts]


def pushed_alerts(settings: Settings) -> str:
    """Return them as JSON: alerts with the kinds and types that raise them, and the labels that they keep."""
    groups = (*event_groups(settings), *life_groups(settings))
    alerts = {alert.name: alert for group in groups for alert in group.alerts()}
    rows = [
        {"kind": kind, "event_types": types, **_alert(alerts[PREFIX + name], settings)} for kind, types, name in _rows()
    ]
    return json.dumps({"kept_labels": kept(settings), "alerts": rows}, indent=2, sort_keys=True) + "\n"


def _rows() -> Iterator[tuple[str, list[str], str]]:
    for each in EventType:
        yield Kind.ANNOUNCED, [each.value], each.value
        yield Kind.REQUESTED, [each.value], f"{each}Requested" if each.facts.has_requested_alert else each.value
    yield Kind.WITHOUT_NOTICE, _RESTARTS, "WithoutNotice"
    yield Kind.FAR_AHEAD, _RESTARTS, "DegradedHost"
    yield Kind.UNKNOWN_TYPE, [], "UnknownType"


def _alert(alert: Alert, settings: Settings) -> dict[str, Any]:
    status = status_url(alert, settings)
    texts = {
        "summary": alert.summary,
        "description": alert.description,
        "runbook_url": runbook_url(alert, settings),
        "dashboard_url": f"{dashboard_url(alert, settings)}?var-vm={FIRST_VM}",
        **({"status_url": status} if status else {}),
    }
    return {
        "name": alert.name,
        "labels": {"severity": alert.severity, **alert.labels},
        "annotations": {name: _plain(text) for name, text in texts.items()},
        "hold_seconds": settings.seconds("memory"),
    }


def _plain(text: str) -> str:
    for placeholder, plain in _PLACEHOLDERS.items():
        text = text.replace(placeholder, plain)
    return _LABEL.sub(r"{\1}", text)
