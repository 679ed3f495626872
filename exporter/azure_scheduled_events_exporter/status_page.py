"""What people and scripts see besides metrics: ``/`` as a page and ``/api/v1/events`` as JSON.

Reads a snapshot. Every text from IMDS is hostile until it is escaped.
"""

import html
import json
from collections.abc import Iterable

from . import __version__
from .durations import format_duration
from .instant import iso_time
from .lifecycle import Lifecycle, State
from .records import current_record
from .snapshot import Snapshot

_STYLE = "body{font:1rem/1.5 system-ui,sans-serif;margin:2rem;max-width:70rem}\
table{border-collapse:collapse}td,th{text-align:left;padding:.2rem 1rem .2rem 0;vertical-align:top}\
.bad{color:#b00020;font-weight:bold}@media(prefers-color-scheme:dark){body{background:#111;color:#eee}\
a{color:#8ab4f8}.bad{color:#ff8a80}}"


def events_json(snapshot: Snapshot, now: float) -> bytes:
    """Return the body of ``/api/v1/events``: what IMDS last said, and whether it can still be asked."""
    polls = snapshot.polls
    return (
        json.dumps(
            {
                "up": polls.up,
                "failure": polls.failure or None,
                "last_success": iso_time(polls.last_success) if polls.last_success is not None else None,
                "vm_name": snapshot.vm_name,
                "document_incarnation": snapshot.incarnation,
                "events": [current_record(life, now) for life in snapshot.current.values()],
            }
        )
        + "\n"
    ).encode()


COLUMNS = ("EventId", "Type", "Status", "Source", "Scope", "NotBefore", "Impact", "Resources", "Description")


def event_row(life: Lifecycle, now: float) -> tuple[str, ...]:
    """Return a current event as a row of :data:`COLUMNS`, for people."""
    record = current_record(life, now)
    left = record["seconds_until_not_before"]
    when = str(record["not_before"] or "unknown")
    if isinstance(left, float):
        when += (
            f" (in {format_duration(round(left))})" if left >= 0 else f" (overdue by {format_duration(round(-left))})"
        )
    elif life.state is State.STARTED:
        when = "has begun"
    seconds = life.event.duration_seconds
    return (
        life.event_id,
        life.event.event_type,
        str(record["event_status"]),
        life.event.source,
        str(life.scope),
        when,
        "unknown" if seconds is None else format_duration(seconds),
        ", ".join(life.event.resources),
        life.event.description,
    )


def page(snapshot: Snapshot, now: float, telemetry_path: str) -> bytes:
    """Return the body of ``/``: is IMDS seen, which VM is this, what is about to happen, and where to look further."""
    polls = snapshot.polls
    if polls.up:
        state = "IMDS answers."
    else:
        last = f"the last answer came at {iso_time(polls.last_success)}" if polls.last_success else "it never answered"
        state = f'<span class="bad">IMDS gives no valid answer: {html.escape(polls.failure)}; {last}.</span>'
    rows = [event_row(life, now) for life in snapshot.current.values()]
    events = _table(rows) if rows else f"<p>{'No events.' if polls.up else 'No events known.'}</p>"
    name = html.escape(snapshot.vm_name or "not known yet")
    links = "".join(
        f'<li><a href="{html.escape(path)}">{text}</a></li>'
        for path, text in (
            (telemetry_path, "Metrics"),
            ("/api/v1/events", "Events as JSON"),
            ("/-/healthy", "Health"),
            ("/-/ready", "Readiness"),
        )
    )
    title = "azure-scheduled-events-exporter"
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
        f'<meta name="viewport" content="width=device-width"><style>{_STYLE}</style></head><body>'
        f"<h1>{title} {html.escape(__version__)}</h1><p>{state} This VM: {name}.</p>"
        f"<h2>Current events</h2>{events}<ul>{links}</ul></body></html>\n"
    ).encode()


def _table(rows: Iterable[tuple[str, ...]]) -> str:
    head = "".join(f"<th>{column}</th>" for column in COLUMNS)
    body = "".join("<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table><tr>{head}</tr>{body}</table>"
