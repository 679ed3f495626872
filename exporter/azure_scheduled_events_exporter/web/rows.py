"""Events, and the documents that IMDS sent, as rows of tables for a terminal. Pure."""

from collections.abc import Iterable

from azure_scheduled_events_exporter.core.document_parser import parse_document
from azure_scheduled_events_exporter.core.lifecycle import Approver, Lifecycle, State
from azure_scheduled_events_exporter.core.records import current_record, seconds_between
from azure_scheduled_events_exporter.errors import ExporterError
from azure_scheduled_events_exporter.recording.file import RecordedDocument
from azure_scheduled_events_exporter.snapshot.hooks import HookRun
from azure_scheduled_events_exporter.times import format_duration, iso_time

from .wording import ANY_MOMENT, paused

CURRENT_COLUMNS = (
    "EventId",
    "Type",
    "Status",
    "Source",
    "Scope",
    "NotBefore",
    "Impact",
    "ResourceType",
    "Resources",
    "Description",
)
PAST_COLUMNS = (
    "First seen",
    "Type",
    "Source",
    "Scope",
    "Notice",
    "Approved",
    "Took",
    "Paused",
    "Hook",
    "Outcome",
    "EventId",
)
_LONGEST_REFUSAL = 60  # characters of the reason why a document was refused
DOCUMENT_COLUMNS = ("Number", "Came", "Incarnation", "Events", "Bytes", "Refused")


def current_row(life: Lifecycle, now: float) -> tuple[str, ...]:
    """Return a current event as a row of :data:`CURRENT_COLUMNS`."""
    record = current_record(life, now)
    left = record["seconds_until_not_before"]
    when = str(record["not_before"] or "unknown")
    if isinstance(left, float):
        length = _length(abs(left))
        when += f" (in {length})" if left >= 0 else f" (passed {length} ago: {ANY_MOMENT})"
    elif life.state is State.STARTED:
        when = "has begun"
    event = life.event
    seconds = event.duration_seconds
    return (
        life.event_id,
        event.event_type,
        str(record["event_status"]),
        event.source,
        str(life.scope),
        when,
        "unknown" if seconds is None else format_duration(seconds),
        event.resource_type,
        ", ".join(event.resources),
        event.description,
    )


def past_row(life: Lifecycle, runs: Iterable[HookRun]) -> tuple[str, ...]:
    """Return an event of the history as a row of :data:`PAST_COLUMNS`.

    ``runs``: what ``hook`` ran for it.
    """
    return (
        iso_time(life.first_seen.wall),
        life.event.event_type,
        life.event.source,
        str(life.scope),
        _length(life.notice_seconds) or "unknown",
        _approved(life),
        _length(seconds_between(life.started_at, life.ended_at)),
        "" if life.observed_pause is None else paused(life.observed_pause),
        ", ".join(f"{run.phase} {run.outcome or 'not ended'}" for run in runs),
        str(life.outcome or f"now {life.state}"),
        life.event_id,
    )


def _approved(life: Lifecycle) -> str:
    """Return who approved an event, and how long after it was first seen."""
    if life.approved_by is None:
        return ""
    if life.approved_by is Approver.DEADLINE:
        return "not approved" if life.was_waiting_when_due else "not approved here"
    after = _length(seconds_between(life.first_seen, life.approved_at))
    return f"by {life.approved_by} after {after}" if after else f"by {life.approved_by}"


def document_row(number: int, document: RecordedDocument) -> tuple[str, ...]:
    """Return a document that was kept as a row of :data:`DOCUMENT_COLUMNS`."""
    try:
        content = parse_document(document.body)
        incarnation = "" if content.incarnation is None else str(content.incarnation)
        events = ", ".join(f"{each.event_type} {each.status}" for each in content.events) or "none"
    except ExporterError:  # the column Refused has the reason
        incarnation = ""
        events = ""
    return (
        str(number),
        iso_time(document.time),
        incarnation,
        events,
        str(len(document.body)),
        document.refused[:_LONGEST_REFUSAL],
    )


def _length(seconds: float | None) -> str:
    """Return a duration in whole seconds."""
    return "" if seconds is None else format_duration(round(seconds))
