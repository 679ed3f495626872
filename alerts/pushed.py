"""The alerts that exporters push to Alertmanager themselves, as the exporter reads them.

Each is the alert of a rule: same name, labels and texts. An event has one of them at most, which its kind and type
select.
"""

import json
from collections.abc import Iterator
from typing import Any

from .groups import alerts
from .prometheus import links
from .settings import Settings


def pushed_alerts(settings: Settings) -> str:
    """Return them as JSON: for each kind and its types (all, if there are none) the alert, and how long it is held."""
    return json.dumps({"alerts": list(_rows(settings))}, indent=2, sort_keys=True) + "\n"


def _rows(settings: Settings) -> Iterator[dict[str, Any]]:
    for each in alerts(settings):
        if each.events:
            texts = {"summary": each.summary, "description": each.description, **links(each, settings)}
            yield {
                "name": each.name,
                "kind": each.events.kind,
                "event_types": each.events.types,
                "hold_seconds": each.events.hold,
                "labels": {"severity": each.severity, **each.labels},
                "annotations": {**texts, "dashboard_url": f"{texts['dashboard_url']}?var-vm={{vm}}"},
            }
