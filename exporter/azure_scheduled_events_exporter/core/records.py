"""Converts events, lifecycles and transitions to JSON records for scripts.

Times are in ISO 8601 (UTC), lengths in seconds. What is unknown or still to come is None. A text
that IMDS has not sent is ``""``.
"""

from enum import StrEnum

from azure_scheduled_events_exporter.times import iso_time

from .document import event_values
from .lifecycle import Change, Lifecycle, State, impact_values
from .spans import trace_id
from .timestamp import Timestamp

Record = dict[str, object]


def current_record(life: Lifecycle, now: float) -> Record:
    """Return the record of a current event at ``now``, wall-clock seconds."""
    event = life.event
    status = event.status
    if life.state is State.STARTED:
        status = str(life.state)  # although an outdated document may show it as Scheduled again
    seconds_left = None
    if life.is_pending and event.not_before is not None:
        seconds_left = round(event.not_before - now, 3)
    return {
        **_of_event(life),
        "event_status": status,
        "not_before": _time(event.not_before),  # as shown now: after the start, IMDS shows none
        "seconds_until_not_before": seconds_left,
        "first_seen": iso_time(life.first_seen.wall),
        "approved": life.approved_here,
        "approved_by": _word(life.approved_by),
        **impact_values(life),
    }


def life_record(life: Lifecycle) -> Record:
    """Return the record of an event from its first sight until now, or until its end."""
    return {
        **_of_event(life),
        "state": str(life.state),
        "first_seen": iso_time(life.first_seen.wall),
        "not_before": _time(life.not_before),  # the last one that was shown
        "notice_seconds": life.notice_seconds,
        "approved_by": _word(life.approved_by),
        "approved_after_seconds": seconds_between(life.first_seen, life.approved_at),
        "started": _moment(life.started_at),
        "ended": _moment(life.ended_at),
        "started_seconds": seconds_between(life.started_at, life.ended_at),
        **impact_values(life),
        "outcome": _word(life.outcome),
    }


def change_record(change: Change) -> Record:
    """Return the record of a transition, with the lifecycle directly after it."""
    return {
        "transition": str(change.transition),
        "at": iso_time(change.at.wall),
        **life_record(change.lifecycle),
    }


def seconds_between(earlier: Timestamp | None, later: Timestamp | None) -> float | None:
    """Return the seconds from ``earlier`` to ``later``; None if either is not known."""
    if earlier is None or later is None:
        return None
    return round(later.since(earlier), 3)


def _of_event(life: Lifecycle) -> Record:
    """Return the values that both records of an event have."""
    values: Record = {**event_values(life.event), "resources": list(life.event.resources)}
    return {
        **values,
        "kind": str(life.kind),
        "scope": str(life.scope),
        "mine": life.is_mine,
        "trace_id": trace_id(life.event_id),
    }


def _word(value: StrEnum | None) -> str | None:
    """Return the text of ``value``; None if it is not known."""
    if value is None:
        return None
    return str(value)


def _time(seconds: float | None) -> str | None:
    """Return a time in seconds since the epoch as text; None if it is not known."""
    if seconds is None:
        return None
    return iso_time(seconds)


def _moment(moment: Timestamp | None) -> str | None:
    """Return the wall-clock time of ``moment`` as text; None if it is not known."""
    if moment is None:
        return None
    return iso_time(moment.wall)
