"""Events, and the documents that IMDS sent, as rows of tables for a terminal.

For the commands ``events``, ``history`` and ``approve``. Pure.
"""

from collections.abc import Iterable
from contextlib import suppress

from azure_scheduled_events_exporter.core.document import ScheduledEvent
from azure_scheduled_events_exporter.core.document_parser import parse_document
from azure_scheduled_events_exporter.core.lifecycle import Approver, Lifecycle, State
from azure_scheduled_events_exporter.core.records import Record, current_record, seconds_between
from azure_scheduled_events_exporter.errors import ExporterError
from azure_scheduled_events_exporter.recording.file import RecordedDocument
from azure_scheduled_events_exporter.snapshot.hooks import HookRun
from azure_scheduled_events_exporter.times import format_duration, iso_time

from .wording import ANY_MOMENT, length_with_tenths

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
    event = life.event
    impact = "unknown"
    if event.duration_seconds is not None:
        impact = format_duration(event.duration_seconds)
    return (
        life.event_id,
        event.event_type,
        str(record["event_status"]),
        event.source,
        str(life.scope),
        _when(life, record),
        impact,
        event.resource_type,
        _names(event),
        event.description,
    )


def _names(event: ScheduledEvent) -> str:
    """Return the VMs of an event, with the number of those whose names were left out."""
    names = ", ".join(event.resources)
    if not event.unlisted:
        return names
    return f"{names} and {event.unlisted} more"


def _when(life: Lifecycle, record: Record) -> str:
    """Return when the event begins; ``record`` is :func:`current_record` of it."""
    not_before = str(record["not_before"] or "unknown")
    seconds_left = record["seconds_until_not_before"]
    if isinstance(seconds_left, float):  # None if it has started, or has no NotBefore
        length = _length(abs(seconds_left))
        if seconds_left >= 0:
            return f"{not_before} (in {length})"
        return f"{not_before} (passed {length} ago: {ANY_MOMENT})"
    if life.state is State.STARTED:
        return "has begun"
    return not_before


def past_row(life: Lifecycle, runs: Iterable[HookRun]) -> tuple[str, ...]:
    """Return an event of the history as a row of :data:`PAST_COLUMNS`.

    ``runs`` are the runs of ``hook`` for this event.
    """
    pause = ""
    if life.observed_pause is not None:
        pause = length_with_tenths(life.observed_pause)
    return (
        iso_time(life.first_seen.wall),
        life.event.event_type,
        life.event.source,
        str(life.scope),
        _length(life.notice_seconds) or "unknown",
        _approved(life),
        _length(seconds_between(life.started_at, life.ended_at)),
        pause,
        ", ".join(f"{run.phase} {run.outcome or 'not ended'}" for run in runs),
        str(life.outcome or f"now {life.state}"),
        life.event_id,
    )


def _approved(life: Lifecycle) -> str:
    """Return who approved an event, and how long after it was first seen."""
    if life.approved_by is None:
        return ""
    if life.approved_by is Approver.DEADLINE:  # it began at NotBefore or later
        if life.was_waiting_when_due:
            return "not approved"
        return "not approved here"  # nobody watched when it was due, so others may have approved it
    after = _length(seconds_between(life.first_seen, life.approved_at))
    if after:
        return f"by {life.approved_by} after {after}"
    return f"by {life.approved_by}"


def document_row(number: int, document: RecordedDocument) -> tuple[str, ...]:
    """Return a document that was kept as a row of :data:`DOCUMENT_COLUMNS`.

    ``number`` is its position in the list.
    """
    incarnation = ""
    events = ""
    with suppress(ExporterError):  # not readable: the column Refused has the reason
        content = parse_document(document.body)
        if content.incarnation is not None:
            incarnation = str(content.incarnation)
        events = ", ".join(f"{each.event_type} {each.status}" for each in content.events) or "none"
    return (
        str(number),
        iso_time(document.time),
        incarnation,
        events,
        str(len(document.body)),
        document.refused[:_LONGEST_REFUSAL],
    )


def _length(seconds: float | None) -> str:
    """Return a duration in whole seconds; ``""`` if it is unknown.

    Fractions are cut off, as on the status page and in reports.
    """
    if seconds is None:
        return ""
    return format_duration(int(seconds))
