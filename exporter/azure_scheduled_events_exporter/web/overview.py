"""The state at a glance: whether IMDS answers, how many events there are, which matters most.

For the status page and for ``status_line``. Pure.
"""

from collections.abc import Iterable

from azure_scheduled_events_exporter.core.document import Scope
from azure_scheduled_events_exporter.core.lifecycle import Lifecycle, State
from azure_scheduled_events_exporter.snapshot.snapshot import Polls, Snapshot
from azure_scheduled_events_exporter.times import iso_time

from .wording import standing, title


def in_order(lives: Iterable[Lifecycle]) -> list[Lifecycle]:
    """Return the events by importance, the most important one first.

    Those that may affect this VM come before those of other VMs only. In both groups, Started ones
    come first, then the others by NotBefore.
    """
    return sorted(lives, key=_rank)


def _rank(life: Lifecycle) -> tuple[bool, bool, float, str]:
    """Return what events are sorted by. False comes before True."""
    not_before = life.event.not_before
    if not_before is None:
        not_before = float("inf")  # last
    is_of_others = life.scope is Scope.PEER
    is_waiting = life.state is not State.STARTED
    return is_of_others, is_waiting, not_before, life.event_id


def is_starting(polls: Polls) -> bool:
    """Return whether the first poll is still under way, within its time limits."""
    return not any(polls.outcomes.values()) and not polls.hanging


def headline(polls: Polls, *, is_fresh: bool) -> str:
    """Return whether IMDS answers, in words.

    ``is_fresh`` says whether its last answer is valid and not outdated.
    """
    if is_fresh:
        return "IMDS answers"
    if polls.partial:
        return "IMDS answers, but not all of it can be read"
    if is_starting(polls):
        return "IMDS has not answered yet"
    return "IMDS gives no valid answer"


def outlook(snapshot: Snapshot, *, is_fresh: bool) -> str:
    """Return the number of events and the most important one, in words.

    ``is_fresh`` says whether the last answer of IMDS is valid and not outdated.
    """
    ordered = in_order(snapshot.current.values())
    if not ordered and is_fresh:
        return "no events"
    if not ordered:
        return "it is unknown whether there are events"
    first = _event(ordered[0])
    count = f"1 event: {first}"
    if len(ordered) > 1:
        count = f"{len(ordered)} events: {first}, …"
    if is_fresh:
        return count
    return f"as last known {count}"


def _event(life: Lifecycle) -> str:
    """Return an event in a few words: type, VMs, and when it begins or its status."""
    vms = "no VM by name"
    if life.scope is Scope.SELF:
        vms = "this VM"
    elif life.event.resources:
        vms = life.event.resources[0]
    others = life.event.resource_count - 1
    if others == 1:
        vms += " and 1 more VM"
    elif others > 1:
        vms += f" and {others} more VMs"
    if life.state is State.SCHEDULED and life.event.not_before is not None:
        return f"{title(life)} of {vms} at {iso_time(life.event.not_before)}"
    return f"{title(life)} of {vms}, {standing(life)}"
