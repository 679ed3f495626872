"""Recordings as files, and what redaction leaves of them."""

import json

import pytest

from azure_scheduled_events_exporter.core.document_parser import parse_document
from azure_scheduled_events_exporter.errors import UsageError
from azure_scheduled_events_exporter.recording.file import RecordedDocument, parse, to_text
from azure_scheduled_events_exporter.recording.redaction import redact
from support.paths import PAYLOADS

BODIES = [path.read_bytes() for path in sorted(PAYLOADS.glob("*.json"))]
SECRET = {
    "DocumentIncarnation": 4,
    "Events": [
        {
            "EventId": "C7061BAC-AFDC-4513-B24B-AA5F13A16123",
            "EventType": "Freeze",
            "Resources": ["prod-db-1", "_PROD-DB-2"],
            "NotBefore": "Mon, 11 Apr 2022 22:26:58 GMT",
            "EventStatus": "Scheduled",
            "Description": "Customer Contoso, 10.1.2.3",
            "EventSource": "Contoso Ltd.",
            "DurationInSeconds": 5,
            "Contact-contoso": {"phone": 4925550199, "mail": "ops@contoso.example"},
        },
        {
            "EventId": "c7061bac-afdc-4513-b24b-aa5f13a16123",
            "Resources": ["prod-db-2"],
            "NotBefore": "prod-db-1",
            "DurationInSeconds": 5,
        },
    ],
}


def recording(*bodies: bytes) -> tuple[RecordedDocument, ...]:
    """Return a recording of bodies a second apart."""
    return tuple(
        RecordedDocument(float(i), body, {"Date": "x"}, "", "prod-db-1")
        for i, body in enumerate(bodies)
    )


def test_file_and_back() -> None:
    """Every known body, and one that is no text, is in the file as it came."""
    original = recording(*BODIES, b"\xff\xfe")
    assert parse(to_text(original), "file") == original


def test_a_clock_that_was_set_back() -> None:
    """Documents stay in their order; none comes before the one that it follows."""
    documents = tuple(RecordedDocument(time, str(time).encode()) for time in (10.0, 5.0, 12.0))
    read = parse(to_text(documents), "file")
    assert [(each.time, each.body) for each in read] == [
        (10.0, b"10.0"),
        (10.0, b"5.0"),
        (12.0, b"12.0"),
    ]


@pytest.mark.parametrize(
    "line",
    [
        pytest.param("[]", id="no object"),
        pytest.param('{"recording": 1, "time": 5', id="cut"),
        pytest.param('{"recording": 1}', id="without time and body"),
        pytest.param('{"recording": 2, "time": 5, "body": ""}', id="another version"),
        pytest.param('{"recording": 1, "time": "soon", "body": ""}', id="the time is a text"),
        pytest.param('{"recording": 1, "time": NaN, "body": ""}', id="the time is NaN"),
        pytest.param('{"recording": 1, "time": 1e999, "body": ""}', id="the time is infinite"),
        pytest.param(f'{{"recording": 1, "time": {10**400}, "body": ""}}', id="a huge time"),
        pytest.param(
            '{"recording": 1, "time": 5, "body": "", "vm_name": "a\\ud800b"}',
            id="the name is no valid text",
        ),
    ],
)
def test_no_recording(line: str) -> None:
    """A file is refused if it is of another kind, was cut, or has a time that is no number, or a
    name that is no text. The error is one line, also if an earlier line of the file is valid.
    """
    with pytest.raises(
        UsageError, match="file: is no recording: 'history --record FILE' writes one"
    ):
        parse(to_text(recording(b"{}")) + line, "file")


def test_an_empty_file_is_no_recording() -> None:
    """A recording has at least one document."""
    with pytest.raises(UsageError, match="file: is no recording"):
        parse("", "file")


def test_redaction_hides() -> None:
    """No name, id, address or text of the original is left in any field or header. Headers with
    the usual values stay.
    """
    odd = {"Content-Type": "application/json; profile=prod-db-1", "Date": "prod", "Server": "prod"}
    usual = {
        "Content-Type": "application/json; charset=utf-8",
        "Date": "Mon, 11 Apr 2022 22:26:58 GMT",
    }
    first, second = redact((RecordedDocument(1.0, b"", odd), RecordedDocument(2.0, b"", usual)))
    assert "prod" not in str(first.headers)
    assert second.headers == usual
    text = to_text(redact(recording(json.dumps(SECRET).encode(), b"prod-db-1 is no JSON"))).lower()
    hidden = (
        "prod",
        "db-",
        "c7061bac",
        "contoso",
        "10.1.2.3",
        "phone",
        "49255",
        "mail",
        "customer",
    )
    assert [word for word in hidden if word in text] == []


def body_of(event_id: object, name: object, text: object) -> bytes:
    """Return a body with an event of these values, and fields that nobody documents."""
    event = {
        "EventId": event_id,
        "Resources": [name, 1.5],
        "Description": text,
        "DurationInSeconds": 5,
    }
    contact = {"phone": text, "on": True, "off": None}
    content = {"DocumentIncarnation": 7, "Events": [event], "Contact": contact}
    return json.dumps(content).encode()


def test_redaction_hides_numbers() -> None:
    """Ids, names and texts that are numbers are replaced as their texts are; only counts that
    decide are kept.
    """
    original = {"event_id": 4815162342, "name": 20231199, "text": 4915112345678}
    as_texts = {name: str(number) for name, number in original.items()}
    of_numbers, of_texts = redact(recording(body_of(**original), body_of(**as_texts)))
    shown = of_numbers.body.decode()
    assert [word for word in (*as_texts.values(), "1.5") if word in shown] == []
    assert of_numbers.body == of_texts.body
    content = json.loads(shown)
    assert content["DocumentIncarnation"] == 7
    assert content["Events"][0]["DurationInSeconds"] == 5
    _phone, on, off = content["Field1"].values()  # the name Contact and those in it are hidden
    assert (on, off) == (True, None)


@pytest.mark.parametrize("levels", [600, 5000])
def test_redaction_of_deep_nesting(levels: int) -> None:
    """Nothing is left of names and texts, however deeply they are nested."""
    [redacted] = redact(recording(nested(levels)))
    assert [word for word in (b"ecret", b"prod") if word in redacted.body] == []


def test_redaction_of_what_is_nested_too_deeply() -> None:
    """A body that is nested too deeply to be read is replaced as a whole."""
    body = nested(5000)
    [redacted] = redact(recording(body))
    expected = f"({len(body)} bytes that are no JSON, or nested too deeply)"
    assert redacted.body == expected.encode()


def nested(levels: int) -> bytes:
    """Return a body with a name below so many others."""
    opened = b'{"secret": ' * levels
    closed = b"}" * levels
    return b'{"Events": [], "Secret": ' + opened + b'"prod-db-1"' + closed + b"}"


def test_redaction_keeps_what_decides() -> None:
    """The same VM and the same event have the same placeholder everywhere; times, statuses and
    durations stay.
    """
    [redacted] = redact(recording(json.dumps(SECRET).encode()))
    body = redacted.body
    # The two entries of SECRET write one EventId in two ways, so they stay one event.
    [event] = parse_document(body).events
    assert (event.event_type, event.status) == ("Freeze", "Scheduled")
    assert [entry["DurationInSeconds"] for entry in json.loads(body)["Events"]] == [5, 5]
    assert event.not_before == 1649716018.0, "as in the first entry"
    assert len(event.resources) == 2, "both entries name prod-db-2"
    # The name of the recording's own VM has a placeholder, too, although no document names it.
    [without_events] = redact(recording(b"{}"))
    assert without_events.vm_name == "vm1"


def test_equal_texts_stay_equal() -> None:
    """Equal texts have the same placeholder throughout a recording, and another text has another
    placeholder.
    """
    bodies = [json.dumps({"Events": [{"Description": text}]}).encode() for text in "aab"]
    redacted = redact(recording(*bodies))
    first, same, other = [json.loads(each.body)["Events"][0]["Description"] for each in redacted]
    assert first == same == "text 1"
    assert other not in {first, None}


def test_redaction_of_known_bodies() -> None:
    """Every known body has as many events, VMs and complaints as before, and the same times."""

    def outline(body: bytes) -> list[object]:
        try:
            document = parse_document(body)
        except Exception as error:  # noqa: BLE001 - compared by its kind
            return [type(error)]
        events = document.events
        facts = [
            (e.event_type, e.status, e.source, e.not_before, e.duration_seconds, len(e.resources))
            for e in events
        ]
        return [document.incarnation, facts, len(document.unreadable), len(document.remarks)]

    redacted = redact(recording(*BODIES))
    assert [outline(each.body) for each in redacted] == [outline(body) for body in BODIES]
