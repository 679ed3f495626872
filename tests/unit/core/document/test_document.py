"""From a body to a Document: every captured body, which entries are one event, and whose event it
is.
"""

import json

import pytest

from azure_scheduled_events_exporter.core.document import Document, ScheduledEvent, Scope
from azure_scheduled_events_exporter.core.document_parser import parse_document
from azure_scheduled_events_exporter.errors import InvalidDocumentError
from support.events.imds_bodies import CAPTURED, SOME_ID, body, entry, only, utc
from support.paths import PAYLOADS

MAINTENANCE_PAGE = "msdocs_maintenance_page_2026_iso8601_event_only.json"
ERRORS = sorted(path.name for path in PAYLOADS.glob("error_*"))
NO_DOCUMENTS = {
    MAINTENANCE_PAGE,
    "README.md",
    *ERRORS,
    *(path.name for path in PAYLOADS.glob("instance_*")),
}


def test_every_captured_body_is_in_the_table() -> None:
    """A captured body that is added is read by a test, too."""
    assert {path.name for path in PAYLOADS.iterdir()} - NO_DOCUMENTS == set(CAPTURED)


@pytest.mark.parametrize("name", CAPTURED)
def test_captured_body(name: str) -> None:
    """All fields of a captured body are read, and none causes a remark."""
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
        SOME_ID,
        "Freeze",
        "Scheduled",
        resources=("myVM",),
        not_before=utc(2026, 4, 29, 18, 0, 0),
        resource_type="VirtualMachine",
    )


@pytest.mark.parametrize("text", [b"", b" ", b"\r\n", b"\xef\xbb\xbf", b"\xef\xbb\xbf \n"])
def test_empty_body(text: bytes) -> None:
    """An empty body is a document without events and without an incarnation."""
    assert parse_document(text) == Document(is_empty_body=True)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-32"])
def test_encodings(encoding: str) -> None:
    """A document is read in every encoding that JSON has, with or without a byte order mark."""
    text = json.dumps(
        {"DocumentIncarnation": 1, "Events": [entry(Description="für")]}, ensure_ascii=False
    )
    assert parse_document(text.encode(encoding)).events[0].description == "für"


def test_sent_id() -> None:
    """``sent_id`` is the EventId as Azure spelled it, for requests to Azure. Events that differ in
    that spelling alone are equal.
    """
    event = only(EventId=f" {SOME_ID.lower()} ")
    assert event.sent_id == SOME_ID.lower()
    in_upper_case = only(EventId=SOME_ID)
    assert event == in_upper_case


def test_same_event_id_twice() -> None:
    """Two entries with one EventId are one event with all its VMs, Started if one of them is; one
    remark reports it.
    """
    started = entry(
        EventId=SOME_ID.lower(), EventStatus="Started", Resources=["VM_0", "vm_2"], NotBefore=""
    )
    document = parse_document(body(entry(Resources=["vm_0", "vm_1"]), started))
    (event,) = document.events
    assert event.status == "Started"
    assert event.resources == ("vm_0", "vm_1", "vm_2")
    assert len(document.remarks) == 1


LATER = {"NotBefore": "Mon, 11 Apr 2022 23:26:58 GMT"}


@pytest.mark.parametrize(
    "differing",
    [{"DurationInSeconds": -1}, {"DurationInSeconds": 0}, LATER, {"EventType": "Redeploy"}],
)
def test_same_event_id_twice_in_contradiction(differing: dict[str, object]) -> None:
    """Entries with one EventId that differ contradict each other, whichever is first, and the
    impact is unknown.
    """
    entries = [entry(DurationInSeconds=600), entry(**{"DurationInSeconds": 600, **differing})]
    for both in (entries, entries[::-1]):
        (event,) = parse_document(body(*both)).events
        assert (event.is_contradictory, event.duration_seconds) == (True, None)


def test_same_event_id_twice_keeps_the_leader() -> None:
    """The first VM of Resources stays the first when an event is repeated for a part of its VMs."""
    (event,) = parse_document(
        body(entry(Resources=["vm_0", "vm_1"]), entry(Resources=["vm_0"]))
    ).events
    assert event.resources == ("vm_0", "vm_1")
    assert not event.is_contradictory


# ``entry`` leaves out a field that is ``...``.
@pytest.mark.parametrize("value", [pytest.param(..., id="absent"), None, "", "  ", [], {}, True])
def test_event_without_an_id(value: object) -> None:
    """An entry without an EventId cannot be read, and the others are."""
    document = parse_document(body(entry(EventId=value), entry()))
    assert [event.event_id for event in document.events] == [SOME_ID]
    assert len(document.unreadable) == 1
    assert "Events[0] has no EventId" in document.unreadable[0]


def test_of_many_names_a_hundred_are_kept() -> None:
    """An event that names more VMs keeps the first names, that of this VM among them, and the
    number of all.
    """
    names = [f"vm_{number}" for number in range(5000)]
    event = only(Resources=names)
    for vm_name, last_kept in (
        ("VM_4321", "vm_4321"),
        ("vm_7", "vm_99"),
        ("other", "vm_99"),
        (None, "vm_99"),
    ):
        kept = event.bounded(vm_name)
        assert kept.resources == (*names[:99], last_kept)
        assert kept.resource_count == len(names)
        assert kept.scope(vm_name) is event.scope(vm_name)
    with_few_names = only()
    assert with_few_names.bounded("vm_0") == with_few_names


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
    """An event is this VM's if its whole name is in Resources, without regard to case and leading
    underscores.
    """
    assert only(Resources=["x", "vm_0", "_OLD"]).scope(vm_name) is scope


def test_scope_without_resources() -> None:
    """An event without Resources affects no VM, but while the VM's name is unknown, so is the
    scope.
    """
    assert only(Resources=[]).scope("vm_0") is Scope.PEER
    assert only(Resources=[]).scope(None) is Scope.UNKNOWN
