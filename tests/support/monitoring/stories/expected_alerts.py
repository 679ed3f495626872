"""Alerts as stories expect them: their names, their labels, and the texts of their annotations."""

from azure_scheduled_events_exporter.core.event_types import EventType
from support.monitoring.alert_scenarios import (
    ALL,
    Firing,
)

AGAIN = "azure-scheduled-events-again"
"""Another job that scrapes exporters."""
SCALE_SET_HIT, ZONE_HIT = "AzureScheduledEventScaleSetHit", "AzureScheduledEventZoneHit"
OVERDUE, TOO_LONG, NOT_BACK, NO_EXPORTERS, NEVER_READY, THROTTLED, SHORT_NOTICE, NOT_APPROVED = (
    f"AzureScheduledEvent{each}"
    for each in (
        "Overdue",
        "StartedTooLong",
        "VmNotBack",
        "NoExporters",
        "NeverReady",
        "Throttled",
        "ShortNotice",
        "NotApproved",
    )
)
REQUESTED = "AzureScheduledEventRebootRequested"
DEGRADED = "AzureScheduledEventDegradedHost"


def only(*names: str, until: int = 1230) -> dict[str, tuple[int, ...]]:
    """Return that all alerts but ``names`` stay quiet."""
    return {name: tuple(range(0, until, 30)) for name in ALL if name not in names}


def row(event_type: str, severity: str, **more: str) -> dict[str, str]:
    """Return the labels of an alert about event E1 of vmss_0."""
    return {"event_id": "E1", "event_type": event_type, "severity": severity, **more}


def at(moment: str, left: str = "") -> str:
    """Return the sentence of a description about a NotBefore at ``moment`` (time of day), ``left`` from now."""
    return f"The event starts at 1970-01-01 {moment} UTC{f' (in {left})' * bool(left)}, or earlier if approved."


def watcher(*gone: str, **more: str) -> dict[str, str]:
    """Return the labels of an alert about the exporter of vmss_0."""
    labels = {
        "job": "azure-scheduled-events-exporter",
        "instance": "vmss_0:10169",
        "severity": "warning",
        "component": "exporter",
        **more,
    }
    return {name: value for name, value in labels.items() if name not in gone}


LOST_REBOOT, LOST_REDEPLOY, LOST_TERMINATE, LOST_PREEMPT, LOST_FREEZE = (
    each.facts.loss
    for each in (EventType.REBOOT, EventType.REDEPLOY, EventType.TERMINATE, EventType.PREEMPT, EventType.FREEZE)
)
WHO = "vmss_0 (scale set vmss)"

REBOOT_FIRES = Firing(
    row("Reboot", "critical"),
    "Azure reboots a VM.",
    f"{WHO} will be rebooted. {at('00:15:30', '14m 30s')} {LOST_REBOOT} Event E1.",
)
