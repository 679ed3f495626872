"""What a person reads and confirms before events are approved."""

import sys
from collections.abc import Iterable, Sequence

from azure_scheduled_events_exporter.commands.table import table
from azure_scheduled_events_exporter.core.document import ScheduledEvent
from azure_scheduled_events_exporter.core.event_types import EVENT_FACTS
from azure_scheduled_events_exporter.core.lifecycle import Lifecycle
from azure_scheduled_events_exporter.errors import UsageError, printable
from azure_scheduled_events_exporter.polling.clock import ImdsClock, system_clock
from azure_scheduled_events_exporter.web.rows import CURRENT_COLUMNS, current_row

_NO_NAME = "(none named)"
"""What stands for the VMs of an event without Resources."""


def question(chosen: Sequence[Lifecycle]) -> str:
    """Return the events and, if one waits for an approval, what approving does to which VMs.

    ``chosen``: the events, at least one.
    """
    now = _now(chosen)
    rows = table([CURRENT_COLUMNS, *(current_row(life, now) for life in chosen)])
    events = [life.event for life in chosen if life.is_open_to_approval]
    if not events:
        return rows.rstrip("\n")  # the results, which are printed next, say why
    # Each VM once, in the order of the events.
    affected = dict.fromkeys(name for event in events for name in event.resources)
    text = f"{rows}Approving lets this begin now, for every VM in Resources: {_list(affected)}"
    unlisted = sum(event.unlisted for event in events)
    if unlisted:
        text += f" and {unlisted} more"
    deleted = _deleted(events)
    if not deleted:
        return text
    return f"{text}\nApproving deletes or evicts now, and this cannot be undone: {_list(deleted)}"


def _deleted(events: Iterable[ScheduledEvent]) -> list[str]:
    """Return the VMs that ``events`` delete or evict, each with the type of the event, once."""
    found: dict[str, None] = {}
    for event in events:
        facts = EVENT_FACTS.get(event.event_type)
        if facts is None or not facts.deletes:
            continue
        for name in event.resources or [_NO_NAME]:
            found[f"{name} ({event.event_type})"] = None
        if event.unlisted:
            found[f"{event.unlisted} more ({event.event_type})"] = None
    return list(found)


def _now(lives: Sequence[Lifecycle]) -> float:
    """Return the time now by the clock of IMDS.

    NotBefore is a time by that clock, and the clock of this VM may be wrong. ``first_seen`` of each
    event was recorded by an exporter that corrects its clock to that of IMDS. The latest
    ``first_seen`` has the best correction, so this command takes over that one.
    """
    clock = ImdsClock(system_clock())
    latest = max((life.first_seen for life in lives), key=lambda seen: seen.wall)
    clock.follow(latest)
    return clock().wall


def _list(names: Iterable[str]) -> str:
    """Return names of VMs for people, with commas."""
    return printable(", ".join(names) or _NO_NAME)


def is_confirmed() -> bool:
    """Ask the person at the terminal; return whether the answer is yes.

    Raises:
        UsageError: there is no terminal.
    """
    if not sys.stdin.isatty():
        raise UsageError("approve: standard input is not a terminal: add --yes")
    try:
        return input("Approve? [y/N] ").strip().lower() in {"y", "yes"}
    except EOFError:  # Ctrl-D
        print()
        return False
