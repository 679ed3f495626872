"""Converts events, lifecycles and transitions to JSON records for scripts.

Times in ISO 8601 (UTC), lengths in seconds, None for what is unknown or still to come; a text that
IMDS has not sent is ``""``.
"""

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
    if life.state is State.STARTED:  # an outdated document may show it as Scheduled again
        status = str(life.state)
    seconds_left = None
    if life.is_pending and event.not_before is not None:
        seconds_left = round(event.not_before - now, 3)
    return {
        **_of_event(life),
        "event_status": status,
        "not_before": _time(event.not_before),  # as shown now: IMDS empties it at the start
        "seconds_until_not_before": seconds_left,
        "first_seen": iso_time(life.first_seen.wall),
        "approved": life.approved_here,
        "approved_by": str(life.approved_by) if life.approved_by else None,
        **impact_values(life),
    }


def life_record(life: Lifecycle) -> Record:
    """Return the record of an event from first seen to its end, if it has ended.

    None for values that are unknown or still to come. The kind of an ended event is that at its
    end.
    """
    return {
        **_of_event(life),
        "state": str(life.state),
        "first_seen": iso_time(life.first_seen.wall),
        "not_before": _time(life.not_before),  # the last one that was shown
        "notice_seconds": life.notice_seconds,
        "approved_by": str(life.approved_by) if life.approved_by else None,
        "approved_after_seconds": seconds_between(life.first_seen, life.approved_at),
        "started": _moment(life.started_at),
        "ended": _moment(life.ended_at),
        "started_seconds": seconds_between(life.started_at, life.ended_at),
        **impact_values(life),
        "outcome": str(life.outcome) if life.outcome else None,
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
    return None if earlier is None or later is None else round(later.since(earlier), 3)


def _of_event(life: Lifecycle) -> Record:
    """Return what the records of current and of past events share."""
    values: Record = {}
    for name, value in event_values(life.event).items():
        values[name] = list(value) if isinstance(value, tuple) else value
    return {
        **values,
        "kind": str(life.kind),
        "scope": str(life.scope),
        "mine": life.is_mine,
        "trace_id": trace_id(life.event_id),
    }


def _time(seconds: float | None) -> str | None:
    return None if seconds is None else iso_time(seconds)


def _moment(instant: Timestamp | None) -> str | None:
    return None if instant is None else iso_time(instant.wall)
