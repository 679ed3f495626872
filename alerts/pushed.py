"""The alerts that exporters push to Alertmanager themselves, as the exporter reads them.

Each is the alert of a rule, from the same table: same name, labels and texts. An event has one of them at most, which
its kind and type select.
"""

import json
from collections.abc import Iterator
from typing import Any

from .events import EVENT_ALERTS
from .groups import alerts
from .prometheus import annotations
from .rule import PREFIX
from .settings import Settings
from .texts import for_push


def pushed_alerts(settings: Settings) -> str:
    """Return them as JSON: for each kind and its types (all, if there are none) the alert, and how long it is held."""
    return json.dumps({"alerts": list(_rows(settings))}, indent=2, sort_keys=True) + "\n"


def _rows(settings: Settings) -> Iterator[dict[str, Any]]:
    rules = {alert.name: alert for alert in alerts(settings)}
    for each in EVENT_ALERTS:
        if (rule := rules.get(PREFIX + each.name)) is None:  # disabled
            continue
        links = annotations(rule, settings)
        texts = {"summary": for_push(each.summary), "description": for_push(each.description)}
        yield {
            "name": rule.name,
            "kind": each.kind,
            "event_types": each.types,
            "hold_seconds": each.hold,
            "labels": {"severity": rule.severity, **rule.labels},
            "annotations": {**links, **texts, "dashboard_url": f"{links['dashboard_url']}?var-vm={{vm}}"},
        }
