"""From a body to a Document: every captured body, every rule of parsing, and bodies that nobody has seen yet."""

import json
import unicodedata
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from azure_scheduled_events_exporter.events import (
    Document,
    InvalidDocumentError,
    ScheduledEvent,
    Scope,
    comparable_name,
    parse_document,
    parse_not_before,
)

PAYLOADS = Path(__file__).parent.parent / "payloads"
MAINTENANCE_PAGE = "msdocs_maintenance_page_2026_iso8601_event_only.json"
ERRORS = sorted(path.name for path in PAYLOADS.glob("error_*"))
NO_DOCUMENTS = {MAINTENANCE_PAGE, "README.md", *ERRORS, *(path.name for path in PAYLOADS.glob("instance_*"))}
SOME_ID = "C7061BAC-AFDC-4513-B24B-AA5F13A16123"


def utc(*parts: int) -> float:
    """Return a date and time in UTC as seconds since the epoch."""
    year, month, day, *time = parts
    hour, minute, second = time or (0, 0, 0)
    return datetime(year, month, day, hour, minute, second, tzinfo=UTC).timestamp()


LIVE_MIGRATION = {
    "event_id": SOME_ID,
    "event_type": "Freeze",
    "source": "Platform",
    "resources": ("WestNO_0", "WestNO_1"),
    "description": "Virtual machine is being paused because of a memory-preserving Live Migration operation.",
    "duration_seconds": 5.0,
}

# What each captured body says, written down by reading it.
CAPTURED: dict[str, Document] = {
    "aks_3719_freeze_started_inc16_dur30.json": Document(
        16,
        (
            ScheduledEvent(
                "465D3B0F-D7F2-4239-AC11-1B9800E73DBC",
                "Freeze",
                "Started",
                "Platform",
                ("spot-node-34525998-vmss_6",),
                None,
                "Host server is undergoing maintenance.",
                30.0,
            ),
        ),
    ),
    "aks_preempt_2024_v2019-08-01.json": Document(
        1,
        (
            ScheduledEvent(
                "51941B56-8080-45AC-81AE-8BDA818F5958",
                "Preempt",
                "Scheduled",
                "Platform",
                ("aks-workloads1-15413341-vmss_3",),
                utc(2024, 3, 16, 19, 52, 9),
            ),
        ),
    ),
    "azsamples_2018_two_reboots_v2017-08-01.json": Document(
        192,
        (
            ScheduledEvent(
                "28512AF7-C957-4500-9BC4-842D6FB531E4",
                "Reboot",
                "Scheduled",
                resources=("sample_4",),
                not_before=utc(2018, 1, 24, 21, 20, 44),
            ),
            ScheduledEvent(
                "A626E37F-793E-44E1-89B5-99AE0B96044C",
                "Reboot",
                "Scheduled",
                resources=("sample_1",),
                not_before=utc(2018, 1, 24, 21, 20, 44),
            ),
        ),
    ),
    "azure-docs_39758_freeze_5min_notice.json": Document(
        279,
        (
            ScheduledEvent(
                "XXX-XXX-XXX-XXX-XXX",
                "Freeze",
                "Scheduled",
                resources=("xxxx",),
                not_before=utc(2019, 9, 26, 15, 15, 21),
            ),
        ),
    ),
    "azure_vm-scheduled-events_2021_1_first.json": Document(1),
    "azure_vm-scheduled-events_2021_2_user_reboot.json": Document(
        2,
        (
            ScheduledEvent(
                "4CAEA225-A741-474D-A72E-428C86FCD853",
                "Reboot",
                "Scheduled",
                "User",
                ("flatcar-vm1",),
                utc(2021, 7, 22, 4, 50, 17),
            ),
        ),
    ),
    "azure_vm-scheduled-events_2021_3_cleared_inc4.json": Document(4),
    "central-logging_2017_underscore_partial_v2017-03-01.json": Document(
        1,
        (
            ScheduledEvent(
                "762D06A2-8289-469B-AB27-4D26C9C745B3",
                "Redeploy",
                "Scheduled",
                resources=("_mysrv",),
                not_before=utc(2017, 4, 17, 18, 40, 6),
            ),
        ),
    ),
    "dgkanatsios_62_aks_availset_reboot_v2017-08-01.json": Document(
        1,
        (
            ScheduledEvent(
                "8A506C35-679A-4F78-9D76-C16DBE65EE6F",
                "Reboot",
                "Scheduled",
                resources=("aks-nodepool1-34166363-1",),
                not_before=utc(2018, 11, 26, 10, 52, 34),
            ),
        ),
    ),
    "doc_zero_incarnation_empty.json": Document(0),
    "eviction-listener_preempt_event_only_weekday_wrong.json": Document(
        1,
        (
            ScheduledEvent(
                "258F9A75-A5C9-41BD-B952-3EF1E36C7467",
                "Preempt",
                "Scheduled",
                "Platform",
                ("eviction-test",),
                utc(2026, 5, 23, 1, 18, 39),
            ),
        ),
    ),
    "gotest_aks_freeze_started_inc208_v2019-08-01.json": Document(
        208,
        (
            ScheduledEvent(
                "D3D9DFEC-1DCA-4B49-97AA-780E02F45DFE",
                "Freeze",
                "Started",
                "Platform",
                ("aks-nodepool1-21922338-vmss_47",),
                None,
                "Host server is undergoing maintenance.",
            ),
        ),
    ),
    "msdocs_livemigration_1_empty.json": Document(1),
    "msdocs_livemigration_2_scheduled.json": Document(
        2,
        (ScheduledEvent(**LIVE_MIGRATION, status="Scheduled", not_before=utc(2022, 4, 11, 22, 26, 58)),),  # type: ignore[arg-type]
    ),
    "msdocs_livemigration_3_started.json": Document(3, (ScheduledEvent(**LIVE_MIGRATION, status="Started"),)),  # type: ignore[arg-type]
    "msdocs_livemigration_4_empty.json": Document(4),
    "msdocs_spot_preempt_v2019-08-01.json": Document(
        1,
        (
            ScheduledEvent(
                "A123BC45-1234-5678-AB90-ABCDEF123456",
                "Preempt",
                "Scheduled",
                "Platform",
                ("myspotvm",),
                utc(2021, 3, 16, 0, 58, 46),
            ),
        ),
    ),
    "sechecker_reboot_inc10_2020.json": Document(
        10,
        (
            ScheduledEvent(
                "CFA22193-3606-45E1-B7EA-976666B6629F",
                "Reboot",
                "Scheduled",
                resources=("VM",),
                not_before=utc(2020, 7, 16, 15, 48, 46),
            ),
        ),
    ),
    "synthetic_webdevops_events.json": Document(
        5,
        (
            ScheduledEvent(
                "102D9444-D2CD-49C7-8624-8643E7171291",
                "Reboot",
                "Scheduled",
                not_before=utc(2019, 9, 19, 18, 29, 47),
            ),
            ScheduledEvent(
                "302D9444-D2CD-49C7-8624-8643E7171291",
                "Reboot",
                "Scheduled",
                resources=("FrontEnd_IN_0", "BackEnd_IN_0"),
                not_before=utc(2019, 9, 19, 18, 29, 47),
            ),
            ScheduledEvent(
                "602D9444-D2CD-49C7-8624-8643E7171293",
                "Reboot",
                "Started",
                resources=("FrontEnd_IN_0", "BackEnd_IN_0"),
            ),
        ),
    ),
}


def body(*entries: object, **top: object) -> bytes:
    """Return a document with these entries of Events."""
    return json.dumps({"DocumentIncarnation": 1, "Events": entries, **top}).encode()


def entry(**fields: object) -> dict[str, object]:
    """Return an ordinary entry of Events, with ``fields`` changed; a field that is ``...`` is left out."""
    usual = {
        "EventId": SOME_ID,
        "EventStatus": "Scheduled",
        "EventType": "Reboot",
        "ResourceType": "VirtualMachine",
        "Resources": ["vm_0"],
        "NotBefore": "Mon, 11 Apr 2022 22:26:58 GMT",
        "Description": "",
        "EventSource": "Platform",
        "DurationInSeconds": -1,
    }
    return {key: value for key, value in {**usual, **fields}.items() if value is not ...}


def only(**fields: object) -> ScheduledEvent:
    """Return what the one event of a document is read as."""
    (event,) = parse_document(body(entry(**fields))).events
    return event


def test_every_captured_body_is_in_the_table() -> None:
    """A captured body that is added is read by a test, too."""
    assert {path.name for path in PAYLOADS.iterdir()} - NO_DOCUMENTS == set(CAPTURED)


@pytest.mark.parametrize("name", CAPTURED)
def test_captured_body(name: str) -> None:
    """Everything that a captured body says is read, and nothing in it is odd."""
    assert parse_document((PAYLOADS / name).read_bytes()) == CAPTURED[name]


@pytest.mark.parametrize("name", [*ERRORS, MAINTENANCE_PAGE])
def test_captured_body_that_is_no_document(name: str) -> None:
    """An error body, and a lone event, are never taken for a document."""
    with pytest.raises(InvalidDocumentError, match=r"no Events|no JSON"):
        parse_document((PAYLOADS / name).read_bytes())


def test_iso_not_before_of_the_maintenance_page() -> None:
    """NotBefore as Microsoft's maintenance page writes it, ISO 8601, is read."""
    page = json.loads((PAYLOADS / MAINTENANCE_PAGE).read_text())
    (event,) = parse_document(body({"EventId": SOME_ID, **page})).events
    assert event == ScheduledEvent(
        SOME_ID, "Freeze", "Scheduled", resources=("myVM",), not_before=utc(2026, 4, 29, 18, 0, 0)
    )


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
        ("Fri, 31 Dec 9999 23:59:59 GMT", utc(9999, 12, 31, 23, 59, 59)),
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
        ("Mon, 11 Apr 2022 22:26:58 +99999999", None),
        ("9" * 100_000, None),
    ],
)
def test_not_before(text: str, expected: float | None) -> None:
    """NotBefore is read in every form that Azure has shown, and is unknown rather than wrong otherwise."""
    assert parse_not_before(text) == expected


@pytest.mark.parametrize("value", ["", "   ", None, ...])
def test_not_before_empty_or_absent(value: object) -> None:
    """An event without a NotBefore stays, its time unknown, and that is nothing to tell."""
    document = parse_document(body(entry(NotBefore=value)))
    assert [event.not_before for event in document.events] == [None]
    assert document.remarks == ()


@pytest.mark.parametrize("value", ["soon", 17, "Mon, 31 Feb 2022 22:26:58 GMT"])
def test_not_before_unreadable(value: object) -> None:
    """An event with an unreadable NotBefore stays, its time unknown, and one line tells of it, naming the event."""
    document = parse_document(body(entry(NotBefore=value)))
    assert [event.not_before for event in document.events] == [None]
    (remark,) = document.remarks
    assert SOME_ID in remark
    assert str(value) in remark


@pytest.mark.parametrize("value", [None, [], ...])
def test_resources_null_or_absent(value: object) -> None:
    """An event without Resources stays, touching nobody."""
    document = parse_document(body(entry(Resources=value)))
    assert [event.resources for event in document.events] == [()]
    assert document.remarks == ()


def test_resources_keep_their_order_and_spelling() -> None:
    """The first of Resources is the leader, so their order stays, and names are shown as Azure wrote them."""
    assert only(Resources=["vm_2", "VM_0", "_vm_1"]).resources == ("vm_2", "VM_0", "_vm_1")


def test_resources_of_a_strange_kind() -> None:
    """An event with unreadable Resources stays; a lone name counts, entries that are no names do not."""
    assert only(Resources="vm_0").resources == ("vm_0",)
    assert only(Resources=[None, "vm_0", {}, ["x"], ""]).resources == ("vm_0",)
    document = parse_document(body(entry(Resources={"a": 1})))
    assert document.events[0].resources == ()
    assert len(document.remarks) == 1


@pytest.mark.parametrize(
    ("value", "expected"),
    [(0, 0), (279, 279), ("279", 279), (" 4 ", 4), (2.0, 2), (-1, -1), ("x", None), (2.5, None), (True, None)],
)
def test_incarnation(value: object, expected: int | None) -> None:
    """DocumentIncarnation is read as a number or as digits; anything else is unknown, and one line tells of it."""
    document = parse_document(body(entry(), DocumentIncarnation=value))
    assert document.incarnation == expected
    assert [event.event_id for event in document.events] == [SOME_ID]
    assert len(document.remarks) == (expected is None)


def test_incarnation_absent() -> None:
    """A document without DocumentIncarnation is a document, its incarnation unknown."""
    document = parse_document(b'{"Events": [{"EventId": "a"}]}')
    assert document.incarnation is None
    assert [event.event_id for event in document.events] == ["A"]


def test_unknown_values_stay() -> None:
    """A type, status, source or resource type that nobody has seen yet is shown as Azure sent it."""
    event = only(EventType="Hibernate", EventStatus="Paused", EventSource="Moon", ResourceType="Cat")
    assert (event.event_type, event.status, event.source) == ("Hibernate", "Paused", "Moon")


def test_known_values_in_another_case() -> None:
    """A documented value counts as that value however it is spelled."""
    event = only(EventType="FREEZE", EventStatus="started", EventSource="user")
    assert (event.event_type, event.status, event.source) == ("Freeze", "Started", "User")


def test_missing_values() -> None:
    """An event of which only the id can be read is an event, and what is missing is told."""
    document = parse_document(body({"EventId": "a"}))
    assert document.events == (ScheduledEvent("A"),)
    assert len(document.remarks) == 2


@pytest.mark.parametrize(
    ("value", "expected"),
    [(-1, None), (0, 0.0), (5, 5.0), ("30", 30.0), (0.5, 0.5), (..., None), (None, None), ("x", None), (True, None)],
)
def test_duration(value: object, expected: float | None) -> None:
    """DurationInSeconds is unknown when -1, absent or unreadable; 0 is a duration."""
    assert only(DurationInSeconds=value).duration_seconds == expected


def test_event_id_has_no_case() -> None:
    """An EventId is shown in upper case, so that two spellings are one event."""
    assert only(EventId=f" {SOME_ID.lower()} ").event_id == SOME_ID


def test_sent_id() -> None:
    """An event can be named to Azure as Azure spelled it, and two spellings make no difference between events."""
    event = only(EventId=f" {SOME_ID.lower()} ")
    assert event.sent_id == SOME_ID.lower()
    assert event == only()
    assert only(EventId=None).sent_id == ""


def test_same_event_id_twice() -> None:
    """Two entries with one EventId are one event with all its VMs, Started if one of them is; one line tells of it."""
    document = parse_document(
        body(
            entry(Resources=["vm_0", "vm_1"]),
            entry(EventId=SOME_ID.lower(), EventStatus="Started", Resources=["VM_0", "vm_2"], NotBefore=""),
        )
    )
    (event,) = document.events
    assert event.status == "Started"
    assert event.resources == ("vm_0", "vm_1", "vm_2")
    assert event.not_before == utc(2022, 4, 11, 22, 26, 58)
    assert len(document.remarks) == 1


def test_same_event_id_twice_keeps_the_leader() -> None:
    """The first VM of Resources stays the first when an event is repeated for a part of its VMs."""
    (event,) = parse_document(body(entry(Resources=["vm_0", "vm_1"]), entry(Resources=["vm_0"]))).events
    assert event.resources == ("vm_0", "vm_1")


@pytest.mark.parametrize("value", [..., None, "", "  ", [], {}, True])
def test_event_without_an_id(value: object) -> None:
    """An event without an EventId is not lost: it has a name of ours, the same in every document and status."""
    first = parse_document(body(entry(EventId=value)))
    later = parse_document(body(entry(), entry(EventId=value, EventStatus="Started", NotBefore="")))
    assert first.events[0].event_id == later.events[1].event_id
    assert first.events[0].event_id.startswith("NO-ID-")
    assert len(first.remarks) == 1


def test_events_without_an_id_are_kept_apart() -> None:
    """Two events without an EventId are two events."""
    document = parse_document(body(entry(EventId=None), entry(EventId=None), entry(EventId=None, EventType="Freeze")))
    assert len({event.event_id for event in document.events}) == 3


@pytest.mark.parametrize("value", [None, 1, "x", [], [[1]], True])
def test_entry_that_is_no_event(value: object) -> None:
    """An entry that is no event is told of, and costs none of the others."""
    document = parse_document(body(value, entry(), value))
    assert [event.event_id for event in document.events] == [SOME_ID]
    assert len(document.unreadable) == 2
    assert "Events[0]" in document.unreadable[0]


def test_further_fields_are_ignored() -> None:
    """Fields that nobody has seen yet change nothing, however strange."""
    plain = parse_document(body(entry()))
    assert parse_document(body(entry(New={"a": [1]}), New=[1])) == plain
    assert parse_document(body(entry())[:-1] + b', "New": ' + b"1" * 5000 + b"}") == plain


@pytest.mark.parametrize("text", [b"", b" ", b"\r\n", b"\xef\xbb\xbf", b"\xef\xbb\xbf \n"])
def test_empty_body(text: bytes) -> None:
    """An empty body is a document without events and without an incarnation."""
    assert parse_document(text) == Document()


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-32"])
def test_encodings(encoding: str) -> None:
    """A document is read in every encoding that JSON has, with or without a byte order mark."""
    text = json.dumps({"DocumentIncarnation": 1, "Events": [entry(Description="für")]}, ensure_ascii=False)
    assert parse_document(text.encode(encoding)).events[0].description == "für"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"<html>", "no JSON: .*; it begins '<html>'"),
        (b'{"Events": [', "no JSON"),
        (b'{"DocumentIncarnation": 1, "Events": []', "no JSON"),
        (b"\xff\xfe\xfa", "no JSON"),
        (b"[]", "a JSON list instead of an object"),
        (b"null", "a JSON NoneType instead of an object"),
        (b"17", "a JSON int instead of an object"),
        (b"{}", "no Events; it begins '{}'"),
        (b'{"DocumentIncarnation": 1}', "no Events"),
        (b'{"events": []}', "no Events"),
        (b'{"Events": null}', "Events is a NoneType, no list"),
        (b'{"Events": {}}', "Events is a dict, no list"),
        (b'{"Events": "x"}', "Events is a str, no list"),
        (b'{"DocumentIncarnation": NaN, "Events": []}', "NaN is no JSON"),
        (b'{"DocumentIncarnation": -Infinity, "Events": []}', "-Infinity is no JSON"),
        (b"[" * 100_000, "JSON nested too deep"),
        (b'{"Events": ' * 100_000, "JSON nested too deep"),
    ],
)
def test_no_document(text: bytes, message: str) -> None:
    """A body that is no document is refused, and the message says in a few words what came instead."""
    with pytest.raises(InvalidDocumentError, match=message) as caught:
        parse_document(text)
    assert len(str(caught.value)) < 250
    assert str(caught.value).isprintable()


@pytest.mark.parametrize("brackets", [(b"[", b"]"), (b'{"a":', b"}"), (b'[{"a":', b"}]")])
def test_depth_at_the_limit(brackets: tuple[bytes, bytes]) -> None:
    """Nesting just as deep as can be read is as harmless as any other."""
    opening, closing = brackets
    limit = 1000 // len(brackets[0].replace(b'"a":', b""))
    for depth in range(limit - 150, limit + 10):
        deep = opening * depth + b"1" + closing * depth
        for text in (b'{"Events": [' + deep + b"]}", b'{"Events": [], "DocumentIncarnation": ' + deep + b"}"):
            try:
                parse_document(text)
            except InvalidDocumentError as error:
                assert "nested too deep" in str(error)  # noqa: PT017 - either outcome is right


def test_texts_that_would_break_what_comes_after() -> None:
    """Lone surrogates and control characters (some steer a terminal) are replaced; line feeds and tabs stay."""
    event = only(EventId="\ud800a", Description="a\x00b\x1bc\x7fd\x9be\nf\tg\rh\x85", Resources=["v\udfffm"])
    assert event.event_id == "?A"
    assert event.description == "a\ufffdb\ufffdc\ufffdd\ufffde\nf\tg\ufffdh\ufffd"
    assert event.resources == ("v?m",)


def test_duplicate_of_a_surrogate_pair() -> None:
    """A character that JSON writes as a pair of surrogates is that character."""
    assert only(Description="\U0001f600").description == "\U0001f600"


@pytest.mark.parametrize(
    ("vm_name", "scope"),
    [
        ("vm_0", Scope.SELF),
        ("VM_0", Scope.SELF),
        ("_vm_0", Scope.SELF),
        ("old", Scope.SELF),  # _old in Resources, as 2017-03-01 writes it
        ("vm", Scope.PEER),
        ("vm_00", Scope.PEER),
        ("vm_0 ", Scope.PEER),
        (None, Scope.UNKNOWN),
        ("", Scope.UNKNOWN),
    ],
)
def test_scope(vm_name: str | None, scope: Scope) -> None:
    """An event is this VM's when its whole name stands in Resources, without regard to case and leading underscores."""
    assert only(Resources=["x", "vm_0", "_OLD"]).scope(vm_name) is scope


def test_scope_without_resources() -> None:
    """An event without Resources is nobody's, but while the VM's name is unknown, so is the scope."""
    assert only(Resources=[]).scope("vm_0") is Scope.PEER
    assert only(Resources=[]).scope(None) is Scope.UNKNOWN


# Any body whatever.

PATIENT = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])  # the machine may be busy

WORDS = st.sampled_from(
    ["", "Scheduled", "Started", "Freeze", "Reboot", "User", "a", "A", SOME_ID, SOME_ID.lower(), "vm_0", "-1", "5"]
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
    SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(NASTY_TEXT, inner, max_size=3), max_leaves=8
)
FIELDS = [
    "EventId",
    "EventStatus",
    "EventType",
    "ResourceType",
    "Resources",
    "NotBefore",
    "Description",
    "EventSource",
    "DurationInSeconds",
]
ENTRIES = st.fixed_dictionaries({}, optional=dict.fromkeys(FIELDS, VALUES)) | VALUES
CONTENTS = st.fixed_dictionaries({"Events": st.lists(ENTRIES, max_size=5)}, optional={"DocumentIncarnation": VALUES})


def encode(content: object) -> bytes:
    """Return ``content`` as JSON, numbers of any length included."""
    return _json(content).encode()


def _json(content: object) -> str:
    """JSON of any value; Python's own encoder refuses whole numbers of over 4300 digits."""
    if isinstance(content, list):
        return "[" + ",".join(map(_json, content)) + "]"
    if isinstance(content, dict):
        return "{" + ",".join(f"{json.dumps(key)}:{_json(value)}" for key, value in content.items()) + "}"
    if isinstance(content, int) and not isinstance(content, bool) and content >= 10**4000:
        high, low = divmod(content, 10**4000)
        return f"{high}{low:04000d}"
    return json.dumps(content)


def check(text: bytes) -> Document | None:
    """Parse ``text`` and see to what holds of every document; None if it is none."""
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
            assert not [c for c in said if unicodedata.category(c) == "Cc" and c not in "\n\t"], repr(said)
        assert event.not_before is None or abs(event.not_before) < 1e12
        assert event.duration_seconds is None or 0 <= event.duration_seconds < 1e18
        assert event.scope("vm_0") in {Scope.SELF, Scope.PEER}
    return document


@given(st.binary())
@example(b"\x00")
@example(b"\xef\xbb\xbf{}")
@example(b"\xff\xfe\x00\x00{")
@PATIENT
def test_any_bytes(text: bytes) -> None:
    """No bytes whatever do more harm than being no document."""
    check(text)


@given(VALUES)
@PATIENT
def test_any_json(content: object) -> None:
    """No JSON whatever does more harm than being no document."""
    check(encode(content))


@given(CONTENTS)
@example({"Events": [{"EventId": 10**4350}, {"EventId": "\ud800"}, {"EventId": "?"}]})
@settings(PATIENT, max_examples=150)
def test_any_document(content: dict[str, Any]) -> None:
    """Whatever the fields of an event hold, every event with an EventId is in the result, and so is every other."""
    document = check(encode(content))
    assert document is not None
    ids = {event.event_id for event in document.events}
    objects = [entry for entry in content["Events"] if isinstance(entry, dict)]
    assert len(document.unreadable) == len(content["Events"]) - len(objects)
    for entry in objects:
        event_id = entry.get("EventId")
        if isinstance(event_id, str) and event_id.isascii() and event_id.isprintable() and event_id.strip():
            assert event_id.strip().upper() in ids
    assert len(ids) <= len(objects)
    assert not objects or ids


BODIES = [(PAYLOADS / name).read_bytes() for name in CAPTURED]


@given(st.data())
@settings(PATIENT, max_examples=150)
def test_damaged_captured_bodies(data: st.DataObject) -> None:
    """A captured body that is cut, or has bytes changed or put in, does no harm, and half of one is no document."""
    original = data.draw(st.sampled_from(BODIES))
    start = data.draw(st.integers(0, len(original)))
    end = data.draw(st.integers(start, min(len(original), start + 10)))
    check(original[:start] + data.draw(st.binary(max_size=10)) + original[end:])
    half = original.strip()[: data.draw(st.integers(1, len(original.strip()) - 1))]
    assert check(half) is None


@given(st.data())
@settings(PATIENT, max_examples=150)
def test_captured_bodies_with_other_values(data: st.DataObject) -> None:
    """A captured body loses none of its events when any other field of them has any other value."""
    name = data.draw(st.sampled_from([name for name, document in CAPTURED.items() if document.events]))
    content = json.loads((PAYLOADS / name).read_text())
    changed = data.draw(st.sampled_from(content["Events"]))
    for field in data.draw(st.sets(st.sampled_from(FIELDS[1:]))):
        changed[field] = data.draw(VALUES)
    content["DocumentIncarnation"] = data.draw(VALUES)
    document = check(encode(content))
    assert document is not None
    assert [event.event_id for event in document.events] == [event.event_id for event in CAPTURED[name].events]


@given(st.text(max_size=60))
@example("Mon, 11 Apr 2022 22:26:58 +" + "9" * 30)
@example("11 Apr 2022 -")
@example(",")
@PATIENT
def test_any_not_before(text: str) -> None:
    """No text whatever is more than an unreadable time."""
    assert isinstance(parse_not_before(text), float | None)


NOT_BEFORE_PIECES = st.sampled_from(
    [*"0123456789:-+.,TZ ", "Mon", "Apr", "2022", "GMT", "EST", "am", "W18", "(", ")", "11", "22:26:58", "\n"]
)


@given(st.lists(NOT_BEFORE_PIECES, max_size=12).map("".join))
@settings(PATIENT, max_examples=300)
def test_any_text_like_a_not_before(text: str) -> None:
    """No text made of what times are made of is more than an unreadable time."""
    assert isinstance(parse_not_before(text), float | None)


@given(st.datetimes(min_value=datetime(1970, 1, 2), max_value=datetime(9998, 12, 31)))  # noqa: DTZ001 - UTC is added
@PATIENT
def test_both_forms_of_a_time_agree(moment: datetime) -> None:
    """RFC 1123 and ISO 8601 of one moment are read as that moment."""
    moment = moment.replace(microsecond=0, tzinfo=UTC)
    rfc_1123 = f"{moment:%a, %d %b} {moment.year:04d} {moment:%H:%M:%S} GMT"
    assert parse_not_before(rfc_1123) == parse_not_before(moment.isoformat()) == moment.timestamp()


@given(st.text())
@PATIENT
def test_comparable_name_is_stable(name: str) -> None:
    """A name that is made comparable is comparable."""
    assert comparable_name(comparable_name(name)) == comparable_name(name) == comparable_name("_" + name)
