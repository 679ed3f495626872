"""Parses the body of an answer into a :class:`Document` of :class:`ScheduledEvent`.

Pure: uses no clock, network, disk or log. No body may crash the parser, and an unreadable entry
must not hide a readable event.

Source of the rules: https://learn.microsoft.com/azure/virtual-machines/linux/scheduled-events
"""

import email.utils
import hashlib
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from azure_scheduled_events_exporter.errors import InvalidDocumentError

from .document import STATUSES, Document, EventSource, ScheduledEvent, comparable_name
from .event_types import EventType

_EARLIEST_YEAR = 1970
_LONGEST_WORD = 128  # characters of an EventType, EventStatus, EventSource or ResourceType
_LONGEST_NAME = 256  # characters of a VM's name, or of an EventId
_LONGEST_DESCRIPTION = 4096
"""Ended events are kept in memory; each transition is logged and stored with the description."""
_MOST_EVENTS = 10_000
"""The largest body that the client accepts (1 MiB) has room for a third as many real events.

Without a limit, an entry ``{}`` of 3 bytes would take some 500 bytes of memory.
"""
_MOST_LINES = 100  # about what is unreadable, or unexpected
_HUGE = 1e18
"""Numbers from here on count as unknown: they may not fit into the 64 bits of SQLite's integers."""


def parse_document(body: bytes) -> Document:
    """Parse ``body``, the body of a 200.

    An empty body is a document without events: some nodes never answer anything else when nothing
    is planned.

    Raises:
        InvalidDocumentError: it is not JSON, is nested too deeply, is not an object, or has the key
            Events twice, no list of Events, or one that is longer than any real one.
    """
    try:
        # As json.loads() decodes bytes, but without an error for a byte that is invalid there.
        text = body.decode(json.detect_encoding(body), "replace").removeprefix("\ufeff")
        if not text.strip():
            return Document(is_empty_body=True)
        content = json.loads(
            text,
            parse_int=_number,
            parse_constant=_refuse_constant,
            object_pairs_hook=_object,
        )
    except RecursionError:
        raise InvalidDocumentError("JSON nested too deeply") from None
    except ValueError as error:
        raise InvalidDocumentError(
            f"no JSON: {_excerpt(str(error))}; it begins {_excerpt(body)}"
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
        raise InvalidDocumentError(f"{what}; it begins {_excerpt(body)}")
    if len(entries) > _MOST_EVENTS:
        raise InvalidDocumentError(
            f"Events has {len(entries)} entries, and {_MOST_EVENTS} are the most that are read"
        )
    return entries


def _object(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """Return an object of JSON; of equal keys, the last one counts.

    Raises InvalidDocumentError: it has the key Events twice.
    """
    content = dict(pairs)
    if len(content) < len(pairs) and [name for name, _ in pairs].count("Events") > 1:
        raise InvalidDocumentError("it has the key Events twice, and only one can be meant")
    return content


_RFC_1123 = re.compile(
    r"([a-z]+, )?\d{1,2} [a-z]{3} \d{4} \d{2}:\d{2}:\d{2}( (gmt|utc|[+-]\d{4}))?$",
    re.ASCII | re.IGNORECASE,
)
_ISO_8601 = re.compile(r"\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}:\d{2}", re.ASCII)
"""The beginning; fromisoformat() checks what follows."""


def parse_not_before(text: str) -> float | None:
    """Return NotBefore as seconds since the epoch, or None when ``text`` is no readable time.

    RFC 1123 in every captured body (the weekday is sometimes wrong and not looked at), ISO 8601 in
    Microsoft's mock server and on one documentation page; without a zone it is UTC. Any other form
    is unknown rather than wrong: ``email.utils`` ignores "PM" and most names of zones.
    """
    text = text.strip()
    if _RFC_1123.match(text):
        return _seconds(text, email.utils.parsedate_to_datetime)
    if _ISO_8601.match(text):
        return _seconds(text, datetime.fromisoformat)
    return None


def _seconds(text: str, read: Callable[[str], datetime]) -> float | None:
    """Return the time that ``read`` makes of ``text``, None if it cannot be a time of IMDS."""
    try:
        moment = read(text)
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=UTC)
        seconds = moment.timestamp()
    except (ValueError, TypeError, OverflowError, IndexError):
        return None
    # .NET's "no time" is of the year 0001, of which email.utils makes 2001.
    is_written_year = f"{moment.year:04d}" in text
    if moment.year < _EARLIEST_YEAR or not is_written_year:
        return None
    if seconds < 0:  # a zone has put it before the epoch
        return None
    return seconds


def _document(content: Mapping[str, Any], entries: list[Any]) -> Document:
    """Return the document ``content``, whose Events are ``entries``."""
    events: dict[str, list[ScheduledEvent]] = {}
    unreadable: list[str] = []
    remarks: list[str] = []
    for position, entry in enumerate(entries):
        if not isinstance(entry, dict):
            unreadable.append(f"Events[{position}] is no object: {_excerpt(json.dumps(entry))}")
            continue
        event, oddities = _event(entry)
        if not event.event_id:
            unreadable.append(f"Events[{position}] has no EventId: {_excerpt(json.dumps(entry))}")
            continue
        remarks.extend(f"event {event.event_id}: {oddity}" for oddity in oddities)
        events.setdefault(event.event_id, []).append(event)
    for event_id, same in events.items():
        if len(same) > 1:
            remarks.append(
                f"event {event_id} appears more than once in one document: if its entries differ,"
                " no policy approves it"
            )
    incarnation = _whole(content.get("DocumentIncarnation"))
    if incarnation is None:
        remarks.append(
            f"DocumentIncarnation is {_excerpt(json.dumps(content.get('DocumentIncarnation')))}"
        )
    merged = tuple(_merged(same) for same in events.values())
    if len(remarks) > _MOST_LINES:  # no number of them: a remark that changes is logged again
        remarks[_MOST_LINES:] = ["there is more unexpected content than these lines say"]
    return Document(incarnation, merged, tuple(unreadable[:_MOST_LINES]), tuple(remarks))


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
    not_before_text = clean_text(entry.get("NotBefore"))
    not_before = parse_not_before(not_before_text) if not_before_text.strip() else None
    if not_before is None and not_before_text.strip():
        oddities.append(
            f"NotBefore {_excerpt(not_before_text)} is no readable time, taken as unknown"
        )
    resources = entry.get("Resources")
    sent_id = clean_text(entry.get("EventId")).strip()
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


def _merged(same: Sequence[ScheduledEvent]) -> ScheduledEvent:
    """Return the entries with one EventId as one event, with the VMs of all.

    The other values are those of a Started entry, else of the first.

    If entries differ in more than their VMs, no policy approves the event, and its duration is
    unknown.
    """
    first = min(same, key=lambda event: event.status != "Started")
    merged = replace(
        first, resources=_each_once([name for event in same for name in event.resources])
    )
    if all(replace(event, resources=first.resources) == first for event in same):
        return merged
    return replace(merged, duration_seconds=None, is_contradictory=True)


def _word(entry: Mapping[str, Any], key: str, known: Iterable[str]) -> str:
    """Return the text at ``key`` in its documented spelling, any other as sent.

    Its length is limited, because it becomes a label, also of counters, which stay when the event
    is gone.
    """
    text = clean_text(entry.get(key)).strip()[:_LONGEST_WORD]
    return next((str(member) for member in known if member.casefold() == text.casefold()), text)


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
    return _each_once(name[:_LONGEST_NAME] for name in map(clean_text, items) if name)


def _each_once(names: Iterable[str]) -> tuple[str, ...]:
    """Return each VM in its first spelling, in order: the first one is the leader."""
    found: dict[str, str] = {}
    for name in names:
        found.setdefault(comparable_name(name), name)
    return tuple(found.values())


# Control characters would end an exposition or a log line early, or steer a terminal (U+009B begins
# a sequence); line feeds and tabs are escaped there.
_CONTROLS = {
    code: "\ufffd" for code in (*range(0x20), *range(0x7F, 0xA0)) if chr(code) not in "\n\t"
}


def clean_text(value: object) -> str:
    """Return text that any exposition, log or database accepts.

    It has no lone surrogates, and no control characters but line feeds and tabs. A number becomes
    text, any other value ``""``.
    """
    if isinstance(value, str):
        clean = value.encode("utf-8", "replace").decode().translate(_CONTROLS)
        return value if clean == value else clean  # a copy would take as much memory again
    if isinstance(value, int | float) and not isinstance(value, bool):
        return repr(value)
    return ""


def _whole(value: object) -> int | None:
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
    return float(value) if 0 <= value < _HUGE else None


def _number(digits: str) -> int | str:
    """Return a whole number; as text if it is so long that Python refuses to convert it.

    Such a number must not cost the document.
    """
    return int(digits) if len(digits) < 100 else digits  # noqa: PLR2004 - any length far over _HUGE's


def _refuse_constant(name: str) -> None:
    """Refuse NaN and Infinity, which Python's parser accepts and JSON does not have."""
    raise ValueError(f"{name} is no JSON")


def _excerpt(material: str | bytes, length: int = 60) -> str:
    """Return the beginning of text from outside, printable and in quotes."""
    text = material.decode("utf-8", "replace") if isinstance(material, bytes) else material
    return ascii(text if len(text) <= length else text[: length - 3] + "...")
