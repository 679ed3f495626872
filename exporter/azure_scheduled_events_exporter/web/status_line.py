"""Writes the line that ``systemctl status`` shows, and orders events by importance. Pure.

It contains times, not ages, because it is not updated while nothing changes.
"""

from collections.abc import Iterable

from azure_scheduled_events_exporter.core.document import Scope
from azure_scheduled_events_exporter.core.lifecycle import Lifecycle, State
from azure_scheduled_events_exporter.snapshot.snapshot import Polls, Snapshot
from azure_scheduled_events_exporter.times import iso_time

from .wording import standing, title


def in_order(lives: Iterable[Lifecycle]) -> list[Lifecycle]:
    """Return the events by importance.

    Those that may affect this VM come before those of other VMs. Among each, Started ones come
    first, then the others by NotBefore.
    """
    never = float("inf")
    return sorted(
        lives,
        key=lambda life: (
            life.scope is Scope.PEER,
            life.state is not State.STARTED,
            never if life.event.not_before is None else life.event.not_before,
            life.event_id,
        ),
    )


def is_starting(polls: Polls) -> bool:
    """Return whether the first poll is still under way, within its time limits."""
    return not any(polls.outcomes.values()) and not polls.hanging


def headline(polls: Polls, *, seen: bool) -> str:
    """Return whether IMDS answers; ``seen``: its last answer is valid and not outdated."""
    if seen:
        return "IMDS answers"
    if polls.partial:
        return "IMDS answers, but not all of it can be read"
    if is_starting(polls):
        return "IMDS has not answered yet"
    return "IMDS gives no valid answer"


def outlook(snapshot: Snapshot, *, seen: bool) -> str:
    """Return the number of events, and the most important one."""
    ordered = in_order(snapshot.current.values())
    if not ordered and seen:
        return "no events"
    if not ordered:
        return "it is unknown whether there are events"
    first = _event(ordered[0])
    count = f"1 event: {first}"
    if len(ordered) > 1:
        count = f"{len(ordered)} events: {first}, …"
    if seen:
        return count
    return f"as last known {count}"


def status_line(snapshot: Snapshot) -> str:
    """Return whether IMDS answers, since when and why not, and the most important event."""
    polls = snapshot.polls
    why = ""
    if not polls.up and is_starting(polls):
        why = " (the first answer may take two minutes)"
    elif not polls.up:
        why = f" ({polls.failure})"
        if polls.last_success is not None:
            why = f" since {iso_time(polls.last_success)}{why}"
    line = f"{headline(polls, seen=polls.up)}{why}, {outlook(snapshot, seen=polls.up)}"
    if snapshot.journal.up:
        return line
    return f"{line}; journal in memory only"


def _event(life: Lifecycle) -> str:
    """Return an event in a few words: type, VMs, and when it begins or its status."""
    names = life.event.resources
    hit = names[0] if names else "no VM by name"
    if life.scope is Scope.SELF:
        hit = "this VM"
    others = life.event.resource_count - 1
    if others > 0:
        hit = f"{hit} and {others} more VM{'s' if others > 1 else ''}"
    if life.state is State.SCHEDULED and life.event.not_before is not None:
        return f"{title(life)} of {hit} at {iso_time(life.event.not_before)}"
    return f"{title(life)} of {hit}, {standing(life)}"
