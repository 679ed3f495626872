"""The command ``history``: what the journal holds, for people and as JSON, also while the daemon runs."""

import json
import sys
from pathlib import Path

from .config import Config
from .durations import format_duration
from .errors import UsageError
from .events_command import table
from .instant import Instant, iso_time
from .journal import MEMORY, read_only
from .lifecycle import Lifecycle
from .spans import trace_id

_COLUMNS = ("First seen", "Type", "Source", "Scope", "Notice", "Approved", "Took", "Outcome", "EventId")


def run(config: Config, *, as_json: bool) -> int:
    """Print every event that the journal remembers, the oldest first; return the exit status.

    Raises:
        ExporterError: there is no journal, or it cannot be read.
    """
    if config.journal_path == MEMORY:
        raise UsageError("--journal.path: 'memory' keeps no history: name the journal of the running exporter")
    lives = list(read_only(Path(config.journal_path)).history())
    if as_json:
        sys.stdout.write(json.dumps([_record(life) for life in lives], indent=2) + "\n")
    elif lives:
        sys.stdout.write(table([_COLUMNS, *map(_row, lives)]))
    else:
        print("No event has been seen yet.")
    return 0


def _record(life: Lifecycle) -> dict[str, object]:
    """A life as JSON shows it; times in ISO 8601 (UTC), lengths in seconds, None for unknown or still to come."""
    event = life.event
    return {
        "event_id": life.event_id,
        "event_type": event.event_type,
        "event_source": event.source,
        "scope": str(life.scope),
        "resources": list(event.resources),
        "description": event.description,
        "announced_duration_seconds": event.duration_seconds,
        "first_seen": iso_time(life.first_seen.wall),
        "not_before": iso_time(life.not_before) if life.not_before is not None else None,
        "notice_seconds": life.notice_seconds,
        "approved_by": str(life.approved_by) if life.approved_by else None,
        "approved_after_seconds": _between(life.first_seen, life.approved_at),
        "started": iso_time(life.started_at.wall) if life.started_at else None,
        "ended": iso_time(life.ended_at.wall) if life.ended_at else None,
        "started_seconds": _between(life.started_at, life.ended_at),
        "outcome": str(life.outcome) if life.outcome else None,
        "trace_id": trace_id(life.event_id),
    }


def _row(life: Lifecycle) -> tuple[str, ...]:
    approval = ""
    if life.approved_by:
        after = _between(life.first_seen, life.approved_at)
        approval = f"by {life.approved_by}" + (f" after {_length(after)}" if after is not None else "")
    return (
        iso_time(life.first_seen.wall),
        life.event.event_type,
        life.event.source,
        str(life.scope),
        "unknown" if life.notice_seconds is None else _length(life.notice_seconds),
        approval,
        _length(_between(life.started_at, life.ended_at)),
        str(life.outcome or f"now {life.state}"),
        life.event_id,
    )


def _between(earlier: Instant | None, later: Instant | None) -> float | None:
    return None if earlier is None or later is None else round(later.since(earlier), 3)


def _length(seconds: float | None) -> str:
    """Whole seconds are enough for people."""
    return "" if seconds is None else format_duration(round(seconds))
