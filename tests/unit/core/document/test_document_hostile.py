"""Bodies that are no document, and documents made to do harm: refused in a few words, or read
without it.
"""

import pytest

from azure_scheduled_events_exporter.core.document_parser import parse_document
from azure_scheduled_events_exporter.errors import InvalidDocumentError
from support.events.imds_bodies import SOME_ID, body, entry, only


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"<html>", "no JSON: .*; it begins '<html>'"),
        (b'{"Events": [', "no JSON"),
        (b'{"DocumentIncarnation": 1, "Events": []', "no JSON"),
        (b"\xff\xfe\xfa", "no JSON"),
        (b"[]", "the JSON is an array instead of an object"),
        (b"null", "the JSON is null instead of an object"),
        (b"17", "the JSON is a number instead of an object"),
        (b"{}", "no Events; it begins '{}'"),
        (b'{"DocumentIncarnation": 1}', "no Events"),
        (b'{"events": []}', "no Events"),
        (b'{"Events": [], "Events": [{}]}', "the key Events twice"),
        (b'{"Events": null}', "Events is null instead of an array"),
        (
            b'{"Events": [%s{}]}' % (b"{}," * 10_000),
            "Events has 10001 entries, and 10000 are the most that are read",
        ),
        (b'{"Events": {}}', "Events is an object instead of an array"),
        (b'{"Events": "x"}', "Events is a string instead of an array"),
        (b'{"DocumentIncarnation": NaN, "Events": []}', "NaN is no JSON"),
        (b'{"DocumentIncarnation": -Infinity, "Events": []}', "-Infinity is no JSON"),
        (b"[" * 100_000, "JSON nested too deeply"),
        (b'{"Events": ' * 100_000, "JSON nested too deeply"),
    ],
)
def test_no_document(text: bytes, message: str) -> None:
    """A body that is not a document is refused, and the message describes it."""
    with pytest.raises(InvalidDocumentError, match=message) as caught:
        parse_document(text)
    error = str(caught.value)
    assert len(error) < 250, "a line that a person still reads, however long the body is"
    assert error.isprintable()


@pytest.mark.parametrize("value", [None, 1, "x", [], [[1]], True])
def test_entry_that_is_no_event(value: object) -> None:
    """An entry that is not an event is reported, and the others are still read."""
    document = parse_document(body(value, entry(), value))
    assert [event.event_id for event in document.events] == [SOME_ID]
    assert len(document.unreadable) == 2
    assert "Events[0]" in document.unreadable[0]


def test_texts_that_would_break_what_comes_after() -> None:
    """A lone surrogate becomes "?", and a control character, of which some steer a terminal,
    becomes U+FFFD. Line feeds and tabs stay.
    """
    event = only(
        EventId="\ud800A",
        Resources=["v\udfffm"],
        Description="NUL \x00 ESC \x1b DEL \x7f CSI \x9b CR \r NEL \x85 kept: \n \t",
    )
    assert event.event_id == "?A"
    assert event.resources == ("v?m",)
    assert event.description == (
        "NUL \ufffd ESC \ufffd DEL \ufffd CSI \ufffd CR \ufffd NEL \ufffd kept: \n \t"
    )


def test_long_texts_are_cut() -> None:
    """The texts of an event are cut, so that no label is longer than 256 characters; requests to
    Azure carry its whole EventId.
    """
    long = "x" * 100_000
    words = dict.fromkeys(("EventType", "EventStatus", "EventSource", "ResourceType"), long)
    event = only(EventId=long, Resources=[long], **words)
    assert {event.event_type, event.status, event.source, event.resource_type} == {"x" * 128}
    assert event.resources == ("x" * 256,)
    # Of a long EventId, a hash is its label.
    assert len(event.event_id) == 32
    assert event.event_id != only(EventId=f"{long}y").event_id
    assert event.sent_id == long
    # Events, log, journal and spans carry the description.
    assert only(Description="x" * 500_000).description == "x" * 4096


def test_many_unreadable_entries_are_few_lines() -> None:
    """A body full of nonsense is reported by its first entries: all of them would be as long as the
    body.
    """
    unreadable = parse_document(b'{"Events": [%s1]}' % (b"1," * 5_000)).unreadable
    assert len(unreadable) == 100
    assert unreadable[-1] == "Events[99] is no object: '1'"


def test_much_unexpected_content_is_few_lines() -> None:
    """A body with thousands of odd entries makes a hundred remarks, and one that does not change
    with their number.
    """
    # Each makes two remarks: EventType is missing, and EventStatus is missing.
    entries = [{"EventId": str(number)} for number in range(5_000)]
    few = parse_document(body(*entries[:60])).remarks
    many = parse_document(body(*entries)).remarks
    assert len(few) == 100 + 1
    assert len(many) == 100 + 1
    assert few[-1] == many[-1] == "there is more unexpected content than these lines say"
