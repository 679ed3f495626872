"""The alerts that exporters push to Alertmanager themselves, as the exporter reads them.

Each is the alert of a rule in ``rules``: same name, labels and texts. Which of them an event raises is decided in the
exporter (``azure_scheduled_events_exporter.alertmanager``), as the rules' expressions decide it in Prometheus. Only
alerts that announce an event are pushed: each has at most one of them.
"""

import json
from typing import Any

from azure_scheduled_events_exporter.times import parse_duration

from .prometheus import dashboard_url, runbook_url, status_url
from .rules.event_alerts import event_groups
from .rules.fragments import kept, slow_interval
from .rules.life_alerts import life_groups
from .rules.rule import FIRST_VM, PREFIX, VMS, Alert
from .settings import Settings

DEGRADED_HOST = f"{PREFIX}DegradedHost"
_SETTINGS = (
    "memory",
    "longest",
    "scrape.interval",
    "evaluation.interval",
    "degraded-host.notice",
    "freeze.short",
)


def pushed_alerts(settings: Settings) -> str:
    """Return them as JSON: alerts by name, the labels that they keep, and what decides between them in seconds."""
    announcing = (each for group in life_groups(settings) for each in group.alerts() if _announces(each))
    alerts = (*(alert for group in event_groups(settings) for alert in group.alerts()), *announcing)
    content = {
        "labels": kept(settings),
        "seconds": {
            **{name: settings.seconds(name) for name in _SETTINGS},
            "evaluation.slow-interval": parse_duration(slow_interval(settings)),
        },
        "alerts": {alert.name: _alert(alert, settings) for alert in alerts},
    }
    return json.dumps(content, indent=2, sort_keys=True) + "\n"


def _announces(alert: Alert) -> bool:
    return alert.name == DEGRADED_HOST


def _alert(alert: Alert, settings: Settings) -> dict[str, Any]:
    vms = {"vms": VMS} if VMS in alert.description else {}
    status = status_url(alert, settings)
    return {
        "labels": {"severity": alert.severity, **alert.labels},
        "spot_severity": alert.spot_severity or alert.severity,
        "annotations": {
            "summary": alert.summary,
            "description": alert.description,
            **vms,
            "runbook_url": runbook_url(alert, settings),
            "dashboard_url": f"{dashboard_url(alert, settings)}?var-vm={FIRST_VM}",
            **({"status_url": status} if status else {}),
        },
    }
