"""Targets: what IMDS says of events and of this VM."""

import json
from dataclasses import astuple, replace
from datetime import UTC, datetime, timedelta

from azure_scheduled_events_exporter.core.document import (
    Document,
    ScheduledEvent,
    clean_text,
    parse_document,
)
from azure_scheduled_events_exporter.core.instance import parse_instance
from azure_scheduled_events_exporter.errors import ExporterError, InvalidDocumentError
from azure_scheduled_events_exporter.imds.refusal import refusal
from fuzz.target import Target, files, one_line

END_OF_CALENDAR = 253402300800.0  # a zone may put the last day of the year 9999 behind it


def bodies() -> list[bytes]:
    """Return every captured body that is JSON."""
    return files("payloads", "*.json")


def check_document(body: bytes) -> None:
    """A body is read or refused in one line; what was read is clean, unique, and reads the same when written anew."""
    one_line(str(refusal("IMDS", 400, "Bad Request", body)))
    try:
        document = parse_document(body)
    except InvalidDocumentError as error:
        one_line(str(error))
        return
    for line in (*document.unreadable, *document.remarks):
        assert line == clean_text(line), f"not clean: {line!r}"
    ids = [event.event_id for event in document.events]
    assert all(ids)
    assert len(set(ids)) == len(ids), f"twice in one document: {ids}"
    for event in document.events:
        assert event.event_id == event.event_id.upper()
        _clean(event)
    if all(event.not_before is None or event.not_before < END_OF_CALENDAR for event in document.events):
        merged = tuple(replace(event, is_contradictory=False) for event in document.events)  # written once only
        assert parse_document(_written(document)).events == merged


def _clean(event: ScheduledEvent) -> None:
    for value in (*astuple(event)[:4], *event.resources, event.description, event.resource_type, event.sent_id):
        assert value == clean_text(value), f"not clean: {value!r}"
    assert all(event.resources), "a VM without a name"
    assert event.duration_seconds is None or 0 <= event.duration_seconds < 1e18
    assert event.not_before is None or abs(event.not_before) < 1e12


def _written(document: Document) -> bytes:
    """The document as IMDS would have sent it, without what was odd; NotBefore goes through a number of its own."""
    events = [
        {
            "EventId": event.sent_id or event.event_id,
            "EventType": event.event_type,
            "EventStatus": event.status,
            "EventSource": event.source,
            "Resources": list(event.resources),
            "NotBefore": _time(event.not_before),
            "Description": event.description,
            "DurationInSeconds": event.duration_seconds,
            "ResourceType": event.resource_type,
        }
        for event in document.events
    ]
    return json.dumps({"DocumentIncarnation": document.incarnation, "Events": events}).encode()


def _time(seconds: float | None) -> str:
    return "" if seconds is None else (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=seconds)).isoformat()


def check_identity(body: bytes) -> None:
    """An answer about this VM is read, clean and with a name, or refused in one line."""
    try:
        identity = parse_instance(body)
    except ExporterError as error:
        one_line(str(error))
        return
    assert identity.vm_name
    for value in astuple(identity):
        assert value == clean_text(value), f"not clean: {value!r}"


TARGETS = {
    "document": Target(check_document, bodies),
    "identity": Target(check_identity, lambda: files("payloads", "instance_*.json")),
}
