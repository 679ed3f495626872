"""Writes the line that ``systemctl status`` shows. Pure.

It contains times, not ages, because it is not updated while nothing changes.
"""

from azure_scheduled_events_exporter.core.document import Scope
from azure_scheduled_events_exporter.core.lifecycle import Lifecycle, State
from azure_scheduled_events_exporter.polling.snapshot import Snapshot
from azure_scheduled_events_exporter.times import iso_time

from .importance import in_order
from .wording import standing, title


def status_line(snapshot: Snapshot) -> str:
    """Return whether IMDS answers, and the most important event."""
    polls, count = snapshot.polls, len(snapshot.current)
    said = "no events"
    if count:
        first = in_order(snapshot.current.values())[0]
        said = f"{count} event{'s' if count > 1 else ''}: {_event(first)}{', …' if count > 1 else ''}"
    if polls.up:
        line = f"IMDS answers, {said}"
    elif not any(polls.outcomes.values()) and not polls.hanging:
        line = "waiting for the first answer of IMDS, which may take two minutes"
    elif polls.partial:
        line = f"IMDS answers, but not all of it can be read ({polls.failure})"
    else:
        since = f"since {iso_time(polls.last_success)}" if polls.last_success is not None else "so far"
        line = f"no valid answer of IMDS {since} ({polls.failure})"
    if not polls.up and count:
        line = f"{line}; known from before: {said}"
    return line if snapshot.journal.up else f"{line}; journal in memory only"


def _event(life: Lifecycle) -> str:
    names = life.event.resources
    hit = "this VM" if life.scope is Scope.SELF else names[0] if names else "no VM by name"
    if len(names) > 1:
        hit = f"{hit} and {life.event.resource_count - 1} more VM{'s' if len(names) > 2 else ''}"  # noqa: PLR2004 - one is named
    if life.state is State.SCHEDULED and life.event.not_before is not None:
        return f"{title(life)} of {hit} at {iso_time(life.event.not_before)}"
    return f"{title(life)} of {hit}, {standing(life)}"
