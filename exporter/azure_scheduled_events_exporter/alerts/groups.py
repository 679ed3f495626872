"""The groups of rules, and what settings change about every alert."""

from collections.abc import Iterable
from dataclasses import replace
from functools import cache

from azure_scheduled_events_exporter.errors import UsageError, closest
from azure_scheduled_events_exporter.times import format_duration, parse_duration

from .events import event_alerts, event_recordings
from .exporters import exporter_alerts
from .late_events import late_alerts
from .rule import PREFIX, Alert, Group
from .settings import Settings
from .vms import fleet_recordings, vm_alerts, vm_recordings

_NAME = "azure-scheduled-events"
_LONGEST = 60.0
"""Longest time between evaluations, in seconds.

Prometheus drops a recorded value after five minutes without a new one.
"""
_REMEMBERED = 3
"""How many evaluations back a recording that reads its own last value looks for it.

So one evaluation may be missed.
"""


def groups(settings: Settings) -> tuple[Group, ...]:
    """Return all groups.

    An alert that pages reads only recordings of its own group, so it waits for no other group.
    """
    interval = parse_duration(settings.text("evaluation.interval"))

    def every(times: int) -> str:
        return format_duration(max(interval, min(times * interval, _LONGEST)))

    remembered = format_duration(_REMEMBERED * parse_duration(every(3)))
    return (
        Group(
            name=_NAME,
            interval=every(1),
            recordings=event_recordings(settings),
            alerts=_chosen(event_alerts(settings), settings),
        ),
        Group(
            name=f"{_NAME}-vms",
            interval=every(3),
            recordings=vm_recordings(settings, remembered),
            alerts=_chosen(vm_alerts(settings), settings),
        ),
        Group(
            name=f"{_NAME}-life",
            interval=every(6),
            recordings=fleet_recordings(),
            alerts=_chosen(late_alerts(), settings),
        ),
        Group(
            name=f"{_NAME}-exporters",
            interval=every(12),
            recordings=(),
            alerts=_chosen(exporter_alerts(settings), settings),
        ),
    )


def alerts(settings: Settings) -> tuple[Alert, ...]:
    """Return all alerts."""
    return tuple(alert for group in groups(settings) for alert in group.alerts)


def _chosen(every: Iterable[Alert], settings: Settings) -> tuple[Alert, ...]:
    """Return the alerts that are not disabled, with the severities and labels of the settings."""
    disabled = [full_name(name) for name in settings.items("alerts.disabled")]
    severities = {full_name(name): word for name, word in settings.pairs("severities").items()}
    more = settings.pairs("labels.add")
    chosen = []
    for each in every:
        if each.name not in disabled:
            severity = severities.get(each.name, each.severity)
            chosen.append(replace(each, severity=severity, labels={**each.labels, **more}))
    return tuple(chosen)


def full_name(name: str) -> str:
    """Return the name of an alert with its prefix.

    Raises:
        UsageError: there is no such alert.
    """
    full = PREFIX + name.removeprefix(PREFIX)
    names = _names()
    if full in names:
        return full
    hint = f"there are: {', '.join(names)}"
    similar = closest(full, names)
    if similar:
        hint = f"did you mean '{similar}'?"
    raise UsageError(f"'{name}' is no alert; {hint}")


@cache
def _names() -> tuple[str, ...]:
    return tuple(each.name for each in alerts(Settings()))
