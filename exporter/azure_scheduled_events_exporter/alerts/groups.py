"""The groups of rules, and what settings change about every alert: severities and labels."""

from collections.abc import Iterable, Mapping, Sequence
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

EVENTS_GROUP = "azure-scheduled-events"
"""The name of the group of alerts about events. The names of all other groups begin with it."""
_LONGEST = 60.0
"""Longest time between evaluations, in seconds.

Prometheus drops a recorded value after five minutes without a new one.
"""
_REMEMBERED = 3
"""For how many evaluations a recording that reads its own last value finds it.

With more than one, an evaluation may be missed.
"""


def groups(settings: Settings) -> tuple[Group, ...]:
    """Return all groups.

    An alert that pages reads only recordings of its own group, so it waits for no other group. The
    most urgent group comes first; less urgent ones are evaluated less often.
    """
    interval = parse_duration(settings.text("evaluation.interval"))

    def every(times: int) -> float:
        """Return that many intervals in seconds, but a minute at most."""
        return min(times * interval, _LONGEST)

    of_vms = every(3)
    # The recordings of VMs read their own last values.
    remembered = format_duration(_REMEMBERED * of_vms)
    return (
        Group(
            name=EVENTS_GROUP,
            interval=format_duration(every(1)),
            recordings=event_recordings(settings),
            alerts=_chosen(event_alerts(settings), settings),
        ),
        Group(
            name=f"{EVENTS_GROUP}-vms",
            interval=format_duration(of_vms),
            recordings=vm_recordings(settings, remembered),
            alerts=_chosen(vm_alerts(settings), settings),
        ),
        Group(
            name=f"{EVENTS_GROUP}-life",
            interval=format_duration(every(6)),
            recordings=fleet_recordings(),
            alerts=_chosen(late_alerts(), settings),
        ),
        Group(
            name=f"{EVENTS_GROUP}-exporters",
            interval=format_duration(every(12)),
            recordings=(),
            alerts=_chosen(exporter_alerts(settings), settings),
        ),
    )


def alerts(settings: Settings) -> tuple[Alert, ...]:
    """Return all alerts."""
    return tuple(alert for group in groups(settings) for alert in group.alerts)


def _chosen(shipped: Iterable[Alert], settings: Settings) -> tuple[Alert, ...]:
    """Return the alerts that are not disabled, with the severities and labels of the settings."""
    disabled = [full_name(name) for name in settings.items("alerts.disabled")]
    severities = _severities(settings)
    more = settings.pairs("labels.add")
    chosen = []
    for each in shipped:
        if each.name not in disabled:
            severity = severities.get(each.name) or word_of(each.severity, settings)
            chosen.append(replace(each, severity=severity, labels={**each.labels, **more}))
    return tuple(chosen)


def _severities(settings: Settings) -> dict[str, str]:
    """Return the words that the settings give to single alerts, by their names with the prefix.

    Raises:
        UsageError: a name is neither that of an alert nor a level.
    """
    found = {}
    for name, word in settings.pairs("severities").items():
        if name in LEVELS:
            continue
        full = _with_prefix(name)
        if full not in _names():
            raise UsageError(f"severities: {_unknown(name, LEVELS)}")
        found[full] = word
    return found


def unrouted(settings: Settings) -> tuple[str, ...]:
    """Return the words of severities that do not page, although they were probably meant to.

    No route to a pager names them, so ``assets`` warns of them. A word is probably meant to page in
    two cases: an alert has it that is critical by default; or it is the name of a level that has
    another word now, and an alert has the name all the same. A word that certainly means tickets is
    left out.
    """
    words = {each.name: each.severity for each in alerts(settings)}
    meant_to_page = _words_of(CRITICAL, words)
    # With ``critical=sev1`` and ``Preempt=critical``, only sev1 pages. The team has perhaps
    # forgotten to write sev1 for Preempt, too.
    for level in LEVELS:
        if level in words.values() and word_of(level, settings) != level:
            meant_to_page.add(level)
    tickets = {word_of(WARNING, settings), word_of(INFO, settings)}
    if settings.items("severities.paging"):
        # Whoever lists the words that page has left those of warnings out on purpose.
        tickets |= _words_of(WARNING, words)
    suspect = meant_to_page - tickets
    return tuple(sorted(word for word in suspect if not pages(word, settings)))


def _words_of(level: str, words: Mapping[str, str]) -> set[str]:
    """Return the words of the alerts whose default level is ``level``.

    ``words`` has the word of each alert by its name, without those that are disabled.
    """
    by_default = (each.name for each in alerts(Settings()) if each.severity == level)
    return {words[name] for name in by_default if name in words}


def full_name(name: str) -> str:
    """Return the name of an alert with its prefix, which ``name`` may have already.

    Raises:
        UsageError: there is no such alert.
    """
    full = _with_prefix(name)
    if full not in _names():
        raise UsageError(_unknown(name))
    return full


def _with_prefix(name: str) -> str:
    return PREFIX + name.removeprefix(PREFIX)


def _unknown(name: str, levels: Sequence[str] = ()) -> str:
    """Return the complaint about ``name``, which is no alert and none of ``levels``."""
    # The hint suggests an alert with its prefix, even if the name was written without it.
    suggestions = {each.removeprefix(PREFIX): each for each in _names()}
    suggestions |= {level: level for level in levels}
    hint = f"there are: {', '.join(suggestions)}"
    similar = closest(name.removeprefix(PREFIX), suggestions)
    if similar:
        hint = f"did you mean '{suggestions[similar]}'?"
    what = "no alert"
    if levels:
        what = f"no alert and no level ({', '.join(levels)})"
    return f"'{name}' is {what}; {hint}"


@cache
def _names() -> tuple[str, ...]:
    """Return the names of all alerts: the default settings disable none.

    The default settings name no alert either, so this does not call itself through ``full_name``.
    """
    return tuple(each.name for each in alerts(Settings()))
