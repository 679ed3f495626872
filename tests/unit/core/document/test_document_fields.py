"""What each field of a document is read as: in every form that Azure has shown, in any other, and
left out.
"""

import pytest

from azure_scheduled_events_exporter.core.document import ScheduledEvent
from azure_scheduled_events_exporter.core.document_parser import parse_document
from azure_scheduled_events_exporter.core.not_before import parse_not_before
from support.events.imds_bodies import SOME_ID, body, entry, only, utc


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Mon, 11 Apr 2022 22:26:58 GMT", utc(2022, 4, 11, 22, 26, 58)),
        ("Fri, 11 Apr 2022 22:26:58 GMT", utc(2022, 4, 11, 22, 26, 58)),  # it was a Monday
        ("11 Apr 2022 22:26:58 GMT", utc(2022, 4, 11, 22, 26, 58)),
        ("  Mon, 11 Apr 2022 22:26:58 GMT\n", utc(2022, 4, 11, 22, 26, 58)),
        ("Mon, 11 Apr 2022 22:26:58 +0200", utc(2022, 4, 11, 20, 26, 58)),
        ("2022-04-11T22:26:58Z", utc(2022, 4, 11, 22, 26, 58)),
        ("2022-04-11T22:26:58", utc(2022, 4, 11, 22, 26, 58)),
        ("2022-04-11T22:26:58+02:00", utc(2022, 4, 11, 20, 26, 58)),
        ("2022-04-11T22:26:58.5000000Z", utc(2022, 4, 11, 22, 26, 58) + 0.5),
        ("2022-04-11 22:26:58", utc(2022, 4, 11, 22, 26, 58)),
        ("Thu, 29 Feb 2024 00:00:00 GMT", utc(2024, 2, 29)),
        ("Tue, 31 Dec 2199 23:59:59 GMT", utc(2199, 12, 31, 23, 59, 59)),
        ("", None),
        ("soon", None),
        ("0", None),
        ("Mon, 31 Feb 2022 22:26:58 GMT", None),
        ("Mon, 11 Apr 2022 25:26:58 GMT", None),
        ("Mon, 11 Apr 22 22:26:58 GMT", None),
        ("04/11/2022 22:26:58", None),
        ("1649716018", None),
        ("Mon, 01 Jan 0001 00:00:00 GMT", None),  # .NET's "no time", in both forms
        ("0001-01-01T00:00:00Z", None),
        ("Fri, 31 Dec 9999 23:59:59 GMT", None),  # and its latest time, which rules cannot write
        ("Mon, 11 Apr 2022 22:26:58 +99999999", None),
        ("9" * 100_000, None),
        ("Mon, 11 Apr 2022 12:58:46 AM GMT", None),
        ("Mon, 11 Apr 2022 12:58:46 PM", None),
        ("Mon, 11 Apr 2022 12:58:46 CET", None),
        ("Mon, 11 Apr 2022 12:58:46 GMT+1", None),
        ("Mon, 11 Apr 2022 12:58:46 EST", None),
        ("Mon, 11 Apr 2022 12:58:46 GMT (CET)", None),
        ("2022-04-11", None),
    ],
)
def test_not_before(text: str, expected: float | None) -> None:
    """NotBefore is read in every form that Azure has shown, and is unknown rather than wrong
    otherwise.
    """
    assert parse_not_before(text) == expected


@pytest.mark.parametrize("value", ["", "   ", None, pytest.param(..., id="absent")])
def test_not_before_empty_or_absent(value: object) -> None:
    """An event without a NotBefore is kept with an unknown time, without a remark."""
    document = parse_document(body(entry(NotBefore=value)))
    assert [event.not_before for event in document.events] == [None]
    assert document.remarks == ()


@pytest.mark.parametrize("value", ["soon", 17, "Mon, 31 Feb 2022 22:26:58 GMT"])
def test_not_before_unreadable(value: object) -> None:
    """An event with an unreadable NotBefore is kept with an unknown time, and one remark names the
    event.
    """
    document = parse_document(body(entry(NotBefore=value)))
    assert [event.not_before for event in document.events] == [None]
    (remark,) = document.remarks
    assert SOME_ID in remark
    assert str(value) in remark


@pytest.mark.parametrize("value", [None, [], pytest.param(..., id="absent")])
def test_resources_null_or_absent(value: object) -> None:
    """An event without Resources is kept and affects no VM."""
    document = parse_document(body(entry(Resources=value)))
    assert [event.resources for event in document.events] == [()]
    assert document.remarks == ()


def test_each_vm_of_resources_counts_once() -> None:
    """Two spellings of one VM are one VM, in the place and spelling of the first. They may differ
    in case, and in the underscore that api-version 2017-03-01 puts in front.
    """
    event = only(Resources=["vm_1", "VM_1", "", "_vm_1", "vm_0", "vm_1"])
    assert event.resources == ("vm_1", "vm_0")


def test_resources_of_a_strange_kind() -> None:
    """An event with unreadable Resources stays; a lone name counts, entries that are no names do
    not.
    """
    assert only(Resources="vm_0").resources == ("vm_0",)
    assert only(Resources=[None, "vm_0", {}, ["x"], ""]).resources == ("vm_0",)
    document = parse_document(body(entry(Resources={"a": 1})))
    assert document.events[0].resources == ()
    assert len(document.remarks) == 1


@pytest.mark.parametrize(
    ("value", "expected"),
    [(0, 0), (279, 279), (-1, -1), ("279", None), (2.5, None), (True, None), (10**18, None)],
)
def test_incarnation(value: object, expected: int | None) -> None:
    """DocumentIncarnation is read as a whole number; anything else is unknown, with one remark."""
    document = parse_document(body(entry(), DocumentIncarnation=value))
    assert document.incarnation == expected
    assert [event.event_id for event in document.events] == [SOME_ID]
    remarks = 1 if expected is None else 0
    assert len(document.remarks) == remarks


def test_incarnation_absent() -> None:
    """A document without DocumentIncarnation is a document, its incarnation unknown."""
    document = parse_document(b'{"Events": [{"EventId": "a"}]}')
    assert document.incarnation is None
    assert [event.event_id for event in document.events] == ["A"]


def test_unknown_values_stay() -> None:
    """An undocumented type, status, source or resource type is shown as Azure sent it."""
    event = only(
        EventType="OfTomorrow", EventStatus="Paused", EventSource="Moon", ResourceType="Cat"
    )
    assert (event.event_type, event.status, event.source, event.resource_type) == (
        "OfTomorrow",
        "Paused",
        "Moon",
        "Cat",
    )


def test_known_values_in_another_case() -> None:
    """A documented value is recognized in upper and lower case."""
    event = only(EventType="FREEZE", EventStatus="started", EventSource="user")
    assert (event.event_type, event.status, event.source) == ("Freeze", "Started", "User")


def test_missing_values() -> None:
    """An event of which only the id can be read is kept, and remarks name the missing fields."""
    document = parse_document(body({"EventId": "a"}))
    assert document.events == (ScheduledEvent("A"),)
    assert document.remarks == ("event A: EventType is missing", "event A: EventStatus is missing")


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (-1, None),
        (0, 0.0),
        (5, 5.0),
        ("30", None),
        (0.5, 0.5),
        pytest.param(..., None, id="absent"),
        (None, None),
        ("x", None),
        (True, None),
    ],
)
def test_duration(value: object, expected: float | None) -> None:
    """DurationInSeconds is unknown when -1, absent or unreadable; 0 is a duration."""
    assert only(DurationInSeconds=value).duration_seconds == expected


def test_further_fields_are_ignored() -> None:
    """Undocumented fields change nothing."""
    plain = parse_document(body(entry()))
    assert parse_document(body(entry(New={"a": [1]}), New=[1])) == plain
    # Python converts no text of over 4300 digits to a number.
    huge = b'{"New": ' + b"1" * 5000 + b"," + body(entry()).removeprefix(b"{")
    assert parse_document(huge) == plain
