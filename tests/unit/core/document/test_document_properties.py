"""Properties of all bodies, times and names."""

import json
import unicodedata
from datetime import UTC, datetime
from typing import Any, TypeGuard

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from azure_scheduled_events_exporter.core.document import Document, Scope
from azure_scheduled_events_exporter.core.document_parser import parse_document
from azure_scheduled_events_exporter.core.not_before import parse_not_before
from azure_scheduled_events_exporter.errors import InvalidDocumentError
from support.events.imds_bodies import CAPTURED, SOME_ID, utc
from support.paths import PAYLOADS

LATEST_NOT_BEFORE = utc(2200, 1, 2)
"""Later years than 2199 are unknown times, and a time zone may add less than a day."""
HUGE_DURATION = 1e18
"""From here on, a number is unreadable as a duration."""
# The machine may be busy.
PATIENT = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])

WORDS = st.sampled_from(
    [
        "",
        "Scheduled",
        "Started",
        "Freeze",
        "Reboot",
        "User",
        "a",
        "A",
        SOME_ID,
        SOME_ID.lower(),
        "vm_0",
        "-1",
        "5",
    ]
)
NASTY_TEXT = st.text(st.characters(codec=None), max_size=20)
SCALARS = st.one_of(
    WORDS,
    NASTY_TEXT,
    st.none(),
    st.booleans(),
    st.integers(),
    st.integers(min_value=10**17, max_value=10**4400),
    st.floats(allow_nan=False, allow_infinity=False),
    st.datetimes().map(lambda moment: moment.strftime("%a, %d %b %Y %H:%M:%S GMT")),
    st.datetimes().map(lambda moment: moment.isoformat()),
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(NASTY_TEXT, inner, max_size=3),
    max_leaves=8,
)
FIELDS_BUT_THE_ID = [
    "EventStatus",
    "EventType",
    "ResourceType",
    "Resources",
    "NotBefore",
    "Description",
    "EventSource",
    "DurationInSeconds",
]
ENTRIES = (
    st.fixed_dictionaries({}, optional=dict.fromkeys(["EventId", *FIELDS_BUT_THE_ID], VALUES))
    | VALUES
)
CONTENTS = st.fixed_dictionaries(
    {"Events": st.lists(ENTRIES, max_size=5)}, optional={"DocumentIncarnation": VALUES}
)


def encode(content: object) -> bytes:
    """Return ``content`` as JSON, numbers of any length included."""
    return _json(content).encode()


def _json(content: object) -> str:
    """JSON of any value; Python's own encoder refuses whole numbers of over 4300 digits."""
    if isinstance(content, list):
        return "[" + ",".join(map(_json, content)) + "]"
    if isinstance(content, dict):
        return (
            "{"
            + ",".join(f"{json.dumps(key)}:{_json(value)}" for key, value in content.items())
            + "}"
        )
    if isinstance(content, int) and not isinstance(content, bool) and content >= 10**4000:
        high, low = divmod(content, 10**4000)
        return f"{high}{low:04000d}"
    return json.dumps(content)


def parsed_and_checked(text: bytes) -> Document | None:
    """Parse ``text``, and assert what holds of every document; return None if it is refused."""
    try:
        document = parse_document(text)
    except InvalidDocumentError as error:
        message = str(error)
        assert message.isprintable(), message
        return None
    ids = [event.event_id for event in document.events]
    assert all(ids)
    assert len(ids) == len(set(ids))
    assert document == parse_document(text)
    for event in document.events:
        assert event.event_id == event.event_id.upper()
        assert all(event.resources)
        for said in (
            event.event_id,
            event.event_type,
            event.status,
            event.source,
            event.description,
            *event.resources,
            *document.remarks,
            *document.unreadable,
        ):
            said.encode()
            assert not [c for c in said if unicodedata.category(c) == "Cc" and c not in "\n\t"], (
                repr(said)
            )
        assert event.not_before is None or 0 <= event.not_before < LATEST_NOT_BEFORE
        assert event.duration_seconds is None or 0 <= event.duration_seconds < HUGE_DURATION
        assert event.scope("vm_0") in {Scope.SELF, Scope.PEER}
    return document


@given(st.binary())
@example(b"\x00")
@example(b"\xef\xbb\xbf{}")
@example(b"\xff\xfe\x00\x00{")
@PATIENT
def test_any_bytes(text: bytes) -> None:
    """Any bytes are either a document or refused."""
    parsed_and_checked(text)


def is_plain(event_id: object) -> TypeGuard[str]:
    """Return whether an EventId is printable ASCII, and not blank."""
    if not isinstance(event_id, str):
        return False
    return event_id.isascii() and event_id.isprintable() and bool(event_id.strip())


@given(CONTENTS)
# The EventId "\ud800" is read as "?", so the last two entries are one event.
@example({"Events": [{"EventId": 10**4350}, {"EventId": "\ud800"}, {"EventId": "?"}]})
@settings(PATIENT)
def test_any_document(content: dict[str, Any]) -> None:
    """Whatever the other fields of an event hold, it is in the result if its EventId is printable
    ASCII, and not blank.
    """
    document = parsed_and_checked(encode(content))
    assert document is not None
    ids = {event.event_id for event in document.events}
    entries = content["Events"]
    objects = [entry for entry in entries if isinstance(entry, dict)]
    not_objects = len(entries) - len(objects)
    assert len(document.unreadable) >= not_objects, "an entry that is no object is unreadable"
    for entry in objects:
        event_id = entry.get("EventId")
        if is_plain(event_id):
            assert event_id.strip().upper() in ids
    assert len(ids) + len(document.unreadable) <= len(entries), "an entry counts at most once"


BODIES = [(PAYLOADS / name).read_bytes() for name in CAPTURED]


@given(st.data())
@settings(PATIENT)
def test_damaged_captured_bodies(data: st.DataObject) -> None:
    """A captured body that has bytes changed, removed or put in does no harm, and one whose end is
    missing is no document.
    """
    original = data.draw(st.sampled_from(BODIES))
    start = data.draw(st.integers(0, len(original)))
    end = data.draw(st.integers(start, min(len(original), start + 10)))
    parsed_and_checked(original[:start] + data.draw(st.binary(max_size=10)) + original[end:])
    whole = original.strip()
    part = whole[: data.draw(st.integers(1, len(whole) - 1))]
    assert parsed_and_checked(part) is None


@given(st.data())
@settings(PATIENT)
def test_captured_bodies_with_other_values(data: st.DataObject) -> None:
    """A captured body loses none of its events when any other field of them has any other value."""
    name = data.draw(
        st.sampled_from([name for name, document in CAPTURED.items() if document.events])
    )
    content = json.loads((PAYLOADS / name).read_text())
    changed = data.draw(st.sampled_from(content["Events"]))
    for field in data.draw(st.sets(st.sampled_from(FIELDS_BUT_THE_ID))):
        changed[field] = data.draw(VALUES)
    content["DocumentIncarnation"] = data.draw(VALUES)
    document = parsed_and_checked(encode(content))
    assert document is not None
    assert [event.event_id for event in document.events] == [
        event.event_id for event in CAPTURED[name].events
    ]


@given(st.datetimes(min_value=datetime(1970, 1, 2), max_value=datetime(2199, 12, 31)))  # noqa: DTZ001 - UTC is added
@PATIENT
def test_both_forms_of_a_time_agree(moment: datetime) -> None:
    """RFC 1123 and ISO 8601 of one moment are read as that moment."""
    moment = moment.replace(microsecond=0, tzinfo=UTC)
    rfc_1123 = f"{moment:%a, %d %b} {moment.year:04d} {moment:%H:%M:%S} GMT"
    assert parse_not_before(rfc_1123) == parse_not_before(moment.isoformat()) == moment.timestamp()
