"""The groups of rules, and what settings change about every alert."""

from collections.abc import Iterable
from dataclasses import replace
from functools import cache

from azure_scheduled_events_exporter.errors import UsageError, closest
from azure_scheduled_events_exporter.times import format_duration, parse_duration

from .events import event_alerts, event_recordings, event_seen
from .exporters import exporter_alerts, late_alerts
from .rule import PREFIX, Alert, Group
from .settings import Settings
from .vms import fleet_recordings, vm_alerts, vm_recordings

_NAME = "azure-scheduled-events"


def groups(settings: Settings) -> tuple[Group, ...]:
    """Return all groups. A first page waits for no other group than its own."""
    interval = parse_duration(settings.text("evaluation.interval"))
    fast, slow, rare, minute = (format_duration(times * interval) for times in (1, 3, 6, 12))
    return (
        Group(_NAME, fast, event_recordings(settings), _chosen(event_alerts(settings), settings)),
        Group(
            f"{_NAME}-vms", slow, vm_recordings(settings), _chosen(vm_alerts(settings), settings)
        ),
        Group(
            f"{_NAME}-life",
            rare,
            (event_seen(), *fleet_recordings()),
            _chosen(late_alerts(), settings),
        ),
        Group(f"{_NAME}-exporters", minute, (), _chosen(exporter_alerts(settings), settings)),
    )


def alerts(settings: Settings) -> tuple[Alert, ...]:
    """Return all alerts."""
    return tuple(alert for group in groups(settings) for alert in group.alerts)


def _chosen(every: Iterable[Alert], settings: Settings) -> tuple[Alert, ...]:
    """Return the alerts that are not disabled, with the severities and labels of the settings."""
    disabled = [full_name(name) for name in settings.items("alerts.disabled")]
    severities = {full_name(name): word for name, word in settings.pairs("severities").items()}
    more = settings.pairs("labels.add")
    return tuple(
        replace(
            each, severity=severities.get(each.name, each.severity), labels={**each.labels, **more}
        )
        for each in every
        if each.name not in disabled
    )


def full_name(name: str) -> str:
    """Return the name of an alert with its prefix.

    Raises:
        UsageError: there is no such alert.
    """
    full, names = PREFIX + name.removeprefix(PREFIX), _names()
    if full not in names:
        similar = closest(full, names)
        hint = f"; did you mean '{similar}'?" if similar else f"; there are: {', '.join(names)}"
        raise UsageError(f"'{name}' is no alert{hint}")
    return full


@cache
def _names() -> tuple[str, ...]:
    return tuple(each.name for each in alerts(Settings()))
