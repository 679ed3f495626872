"""Parses the body of an answer into a :class:`Document` of :class:`ScheduledEvent`.

Pure: uses no clock, network, disk or log. No body may crash the parser, and an unreadable entry
must not hide a readable event.

Source of the rules: https://learn.microsoft.com/azure/virtual-machines/linux/scheduled-events
"""

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from azure_scheduled_events_exporter.errors import InvalidDocumentError

from .document import STATUSES, Document, EventSource, ScheduledEvent, comparable_name
from .event_types import EventType
from .not_before import parse_not_before
from .safe_text import clean_text, excerpt

_LONGEST_WORD = 128  # characters of an EventType, EventStatus, EventSource or ResourceType
_LONGEST_NAME = 256  # characters of a VM's name, or of an EventId
_LONGEST_DESCRIPTION = 4096  # characters; it is logged and stored with each transition
_MOST_EVENTS = 10_000
"""The largest number of entries in Events.

The largest body that the client accepts (1 MiB) has room for a third as many real events. But an
entry ``{}`` has 3 bytes there, and takes some 500 bytes of memory.
"""
_MOST_LINES = 100  # about what is unreadable, and as many about what is unexpected
_HUGE = 1e18
"""Numbers from here on count as unknown: they may not fit into the 64 bits of SQLite's integers."""
_LONGEST_NUMBER = 100
"""A whole number with as many digits is not converted: it is far over :data:`_HUGE`."""


def parse_document(body: bytes) -> Document:
    """Parse ``body``, the body of a 200.

    An empty body is a document without events: some nodes never answer anything else when nothing
    is planned.

    Raises:
        InvalidDocumentError: it is not JSON, is nested too deeply, is not an object, has the key
            Events twice, or has no list of Events, or one that is longer than any real one.
    """
    try:
        # As json.loads() decodes bytes, but an invalid byte becomes U+FFFD instead of an error.
        text = body.decode(json.detect_encoding(body), "replace")
        if not text.strip():
            return Document(is_empty_body=True)
        content = json.loads(
            text,
            parse_int=_whole_number,
            parse_constant=_refuse_constant,
            object_pairs_hook=_json_object,
        )
    except RecursionError:
        raise InvalidDocumentError("JSON nested too deeply") from None
    except ValueError as error:
        raise InvalidDocumentError(
            f"no JSON: {excerpt(str(error))}; it begins {_beginning(body)}"
        ) from None
    if not isinstance(content, dict):
        raise InvalidDocumentError(f"the JSON is {_kind(content)} instead of an object")
    return _document(content, _entries(content, body))


def _entries(content: Mapping[str, Any], body: bytes) -> list[Any]:
    """Return Events. Raises InvalidDocumentError: there is no list of them, or it is too long."""
    entries = content.get("Events")
    if not isinstance(entries, list):
        what = "no Events"
        if "Events" in content:
            what = f"Events is {_kind(entries)} instead of an array"
        raise InvalidDocumentError(f"{what}; it begins {_beginning(body)}")
    if len(entries) > _MOST_EVENTS:
        raise InvalidDocumentError(
            f"Events has {len(entries)} entries, and {_MOST_EVENTS} are the most that are read"
        )
    return entries


def _beginning(body: bytes) -> str:
    """Return the beginning of ``body``, for a message."""
    return excerpt(body.decode("utf-8", "replace"))


def _json_object(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """Return the JSON object with these keys and values; of equal keys, the last one counts.

    Raises InvalidDocumentError: it has the key Events twice.
    """
    content = dict(pairs)
    if len(content) < len(pairs):  # a key came twice
        keys = [key for key, _ in pairs]
        if keys.count("Events") > 1:
            raise InvalidDocumentError("it has the key Events twice, and only one can be meant")
    return content


def _document(content: Mapping[str, Any], entries: list[Any]) -> Document:
    """Return the document ``content``, whose Events are ``entries``."""
    by_id: dict[str, list[ScheduledEvent]] = {}  # usually one event of each EventId
    unreadable: list[str] = []
    remarks: list[str] = []
    for position, entry in enumerate(entries):
        if not isinstance(entry, dict):
            unreadable.append(f"Events[{position}] is no object: {excerpt(json.dumps(entry))}")
            continue
        event, oddities = _event(entry)
        if not event.event_id:
            unreadable.append(f"Events[{position}] has no EventId: {excerpt(json.dumps(entry))}")
            continue
        remarks.extend(f"event {event.event_id}: {oddity}" for oddity in oddities)
        by_id.setdefault(event.event_id, []).append(event)
    for event_id, same_id in by_id.items():
        if len(same_id) > 1:
            remarks.append(
                f"event {event_id} appears more than once in one document: if its entries differ,"
                " no policy approves it"
            )
    incarnation = _small_integer(content.get("DocumentIncarnation"))
    if incarnation is None:
        remarks.append(
            f"DocumentIncarnation is {excerpt(json.dumps(content.get('DocumentIncarnation')))}"
        )
    if len(remarks) > _MOST_LINES:
        # It does not say how much more, because a remark that changes is logged again.
        remarks[_MOST_LINES:] = ["there is more unexpected content than these lines say"]
    return Document(
        incarnation=incarnation,
        events=tuple(_merged(same_id) for same_id in by_id.values()),
        unreadable=tuple(unreadable[:_MOST_LINES]),
        remarks=tuple(remarks),
    )


def _kind(value: object) -> str:
    """Return what ``value`` is, in JSON's words."""
    kinds = {
        bool: "a boolean",
        str: "a string",
        list: "an array",
        dict: "an object",
        type(None): "null",
    }
    return kinds.get(type(value), "a number")


def _event(entry: Mapping[str, Any]) -> tuple[ScheduledEvent, list[str]]:
    """Return the event in ``entry``, and what is unexpected in it.

    An entry without an EventId gives an event without one.
    """
    oddities: list[str] = []
    sent_id = clean_text(entry.get("EventId")).strip()
    not_before = None
    not_before_text = clean_text(entry.get("NotBefore"))
    if not_before_text.strip():
        not_before = parse_not_before(not_before_text)
        if not_before is None:
            oddities.append(
                f"NotBefore {excerpt(not_before_text)} is no readable time, taken as unknown"
            )
    resources = entry.get("Resources")
    if resources is not None and not isinstance(resources, list | str):
        oddities.append(f"Resources is {_kind(resources)}, taken as empty")
    event = ScheduledEvent(
        event_id=_bounded_id(sent_id.upper()),
        sent_id=sent_id,
        event_type=_word(entry, "EventType", EventType),
        status=_word(entry, "EventStatus", STATUSES),
        source=_word(entry, "EventSource", EventSource),
        resources=_names(resources),
        not_before=not_before,
        description=clean_text(entry.get("Description"))[:_LONGEST_DESCRIPTION],
        duration_seconds=_duration(entry.get("DurationInSeconds")),
        resource_type=_word(entry, "ResourceType", ()),
    )
    if not event.event_type:
        oddities.append("EventType is missing")
    if not event.status:
        oddities.append("EventStatus is missing")
    return event, oddities


def _merged(same_id: Sequence[ScheduledEvent]) -> ScheduledEvent:
    """Return the entries with one EventId as one event, with the VMs of all.

    The other values are those of the first Started entry, or of the first entry if none is Started.

    If entries differ in more than their VMs, no policy approves the event, and its duration is
    unknown.
    """
    started = (event for event in same_id if event.status == "Started")
    chosen = next(started, same_id[0])
    names = [name for event in same_id for name in event.resources]
    merged = replace(chosen, resources=_each_once(names))
    if all(replace(event, resources=chosen.resources) == chosen for event in same_id):
        return merged
    return replace(merged, duration_seconds=None, is_contradictory=True)


def _word(entry: Mapping[str, Any], key: str, documented: Iterable[str]) -> str:
    """Return the text at ``key``: a documented value in its documented spelling, any other as sent.

    Its length is limited, because it becomes a label, also of counters, which stay when the event
    is gone.
    """
    text = clean_text(entry.get(key)).strip()[:_LONGEST_WORD]
    for value in documented:
        if value.casefold() == text.casefold():
            return str(value)
    return text


def _bounded_id(event_id: str) -> str:
    """Return ``event_id``, or a text with a hash of it if it is too long for a label."""
    if len(event_id) <= _LONGEST_NAME:
        return event_id
    return f"LONG-ID-{hashlib.sha256(event_id.encode()).hexdigest()[:24].upper()}"


def _names(value: object) -> tuple[str, ...]:
    """Return the VMs of Resources; a text instead of an array is the name of one VM."""
    items: Iterable[object] = ()
    if isinstance(value, list):
        items = value
    elif isinstance(value, str):
        items = [value]
    names = map(clean_text, items)
    return _each_once(name[:_LONGEST_NAME] for name in names if name)


def _each_once(names: Iterable[str]) -> tuple[str, ...]:
    """Return each VM in its first spelling, in order: the first one is the leader."""
    found: dict[str, str] = {}
    for name in names:
        found.setdefault(comparable_name(name), name)
    return tuple(found.values())


def _small_integer(value: object) -> int | None:
    """Return a whole number of up to 18 digits; None for anything else."""
    if not isinstance(value, int) or isinstance(value, bool):
        return None
    if abs(value) >= _HUGE:
        return None
    return value


def _duration(value: object) -> float | None:
    """Return DurationInSeconds: 0 means no interruption; None for -1 or non-numbers."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    if not 0 <= value < _HUGE:
        return None
    return float(value)


def _whole_number(digits: str) -> int | str:
    """Return a whole number of JSON; as text if it is very long.

    Python refuses to convert thousands of digits, and one such number must not cost the document.
    """
    if len(digits) < _LONGEST_NUMBER:
        return int(digits)
    return digits


def _refuse_constant(name: str) -> None:
    """Refuse NaN and Infinity, which Python's parser accepts and JSON does not have."""
    raise ValueError(f"{name} is no JSON")
