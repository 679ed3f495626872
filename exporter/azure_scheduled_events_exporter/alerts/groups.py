"""The groups of rules, and what settings change about every alert."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cache

from azure_scheduled_events_exporter.errors import UsageError, closest
from azure_scheduled_events_exporter.times import format_duration, parse_duration

from .event_recordings import event_recordings
from .events import event_alerts
from .exporters import exporter_alerts
from .late_events import late_alerts
from .rule import PREFIX, Alert, Group
from .settings import Settings
from .severities import CRITICAL, INFO, LEVELS, WARNING, pages, word_of
from .vm_recordings import fleet_recordings, vm_recordings
from .vms import vm_alerts

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
        """Return that many intervals as a duration, but a minute at most."""
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
    severities = _severities(settings)
    more = settings.pairs("labels.add")
    chosen = []
    for each in every:
        if each.name not in disabled:
            severity = severities.get(each.name) or word_of(each.severity, settings)
            chosen.append(replace(each, severity=severity, labels={**each.labels, **more}))
    return tuple(chosen)


def _severities(settings: Settings) -> dict[str, str]:
    """Return the words of single alerts, by their names.

    Raises:
        UsageError: a name is neither that of an alert nor a level.
    """
    found = {}
    for name, word in settings.pairs("severities").items():
        if name in LEVELS:
            continue
        if PREFIX + name.removeprefix(PREFIX) not in _names():
            raise UsageError(f"severities: {_unknown(name, LEVELS)}")
        found[full_name(name)] = word
    return found


def unrouted(settings: Settings) -> tuple[str, ...]:
    """Return the severities whose alerts make tickets, although they were probably meant to page.

    These are the words that alerts of the level critical have got, unless they are clearly those
    of tickets; and the name of a level that has another word now.
    """
    tickets = {word_of(level, settings) for level in (WARNING, INFO)}
    now = {each.name: each.severity for each in alerts(settings)}
    if settings.items("severities.paging"):
        tickets |= {now[each.name] for each in _of_level(WARNING) if each.name in now}
    critical = {now[each.name] for each in _of_level(CRITICAL) if each.name in now}
    renamed = {level for level in LEVELS if word_of(level, settings) != level}
    suspect = critical | (renamed & {*now.values()})
    return tuple(sorted(word for word in suspect - tickets if not pages(word, settings)))


def _of_level(level: str) -> Iterator[Alert]:
    return (each for each in alerts(Settings()) if each.severity == level)


def full_name(name: str) -> str:
    """Return the name of an alert with its prefix.

    Raises:
        UsageError: there is no such alert.
    """
    full = PREFIX + name.removeprefix(PREFIX)
    if full not in _names():
        raise UsageError(_unknown(name))
    return full


def _unknown(name: str, levels: Sequence[str] = ()) -> str:
    """Return the complaint about ``name``, which is no alert and none of ``levels``."""
    short = {each.removeprefix(PREFIX): each for each in _names()}
    known = {**short, **dict.fromkeys(levels)}
    hint = f"there are: {', '.join(known)}"
    similar = closest(name.removeprefix(PREFIX), known)
    if similar:
        hint = f"did you mean '{known[similar] or similar}'?"
    level = f" and no level ({', '.join(levels)})" if levels else ""
    return f"'{name}' is no alert{level}; {hint}"


@cache
def _names() -> tuple[str, ...]:
    return tuple(each.name for each in alerts(Settings()))
