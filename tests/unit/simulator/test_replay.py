"""Recordings in the simulator, over HTTP: what is shown when, and which approvals are accepted."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from pathlib import Path

import pytest
import requests

from azure_scheduled_events_exporter.recording.file import RecordedDocument, to_text
from azure_scheduled_events_exporter.simulator import Simulator

EVENTS = "/metadata/scheduledevents?api-version=2020-07-01"
NOW = 1_790_000_000.0  # Mon, 21 Sep 2026 14:13:20 GMT
RECORDED_AT = 1_667_203_200.0


def document(incarnation: int, *event_ids: str, not_before: str = "") -> bytes:
    """Return a body with these events."""
    events = [
        {"EventId": each, "EventType": "Freeze", "NotBefore": not_before} for each in event_ids
    ]
    return json.dumps({"DocumentIncarnation": incarnation, "Events": events}).encode()


def recording(path: Path, *bodies: bytes) -> Path:
    """Write a recording of bodies that came ten minutes after one another."""
    path.write_text(
        to_text(RecordedDocument(RECORDED_AT + 600 * i, body) for i, body in enumerate(bodies))
    )
    return path


class Play:
    """A simulator whose clock advances by a second with every request."""

    def __init__(self, *scenarios: Path | str, speed: float = 1, loop: bool = False) -> None:
        self.now = NOW
        self.simulator = Simulator(scenarios, speed=speed, loop=loop, clock=lambda: self.now)

    def body(self) -> bytes:
        """Return the next document."""
        self.now += 1
        answer = requests.get(self.simulator.url + EVENTS, headers={"Metadata": "true"}, timeout=10)
        assert answer.status_code == HTTPStatus.OK
        return answer.content

    def approve(self, event_id: str) -> int:
        """Return the status of the answer to an approval."""
        self.now += 1
        order = {"StartRequests": [{"EventId": event_id}]}
        headers = {"Metadata": "true"}
        return requests.post(
            self.simulator.url + EVENTS, json=order, headers=headers, timeout=10
        ).status_code


@contextmanager
def playing(*scenarios: Path | str, speed: float = 1, loop: bool = False) -> Iterator[Play]:
    """Play scenarios."""
    play = Play(*scenarios, speed=speed, loop=loop)
    with play.simulator:
        yield play


def incarnation(body: bytes) -> int:
    """Return the incarnation of a document."""
    return int(json.loads(body)["DocumentIncarnation"])


def test_each_document_comes_at_its_time(tmp_path: Path) -> None:
    """A document is served from the moment on at which it came in the recording, and not before."""
    path = recording(tmp_path / "slow.json", document(1), document(2))
    with playing(path, speed=100) as play:
        # The second document came 600 s after the first: that is 6 s at this speed, with a poll a
        # second.
        assert [incarnation(play.body()) for _ in range(7)] == [1, 1, 1, 1, 1, 2, 2]


def test_each_document_is_shown_before_the_recording_begins_again(tmp_path: Path) -> None:
    """In a loop, each document is shown, also if documents follow one another faster than polls."""
    path = recording(tmp_path / "loop.json", *map(document, range(4)))
    # Between two polls, a second apart, pass 1000 s of the recording, which has one each 600 s.
    with playing(path, speed=1000, loop=True) as play:
        assert [incarnation(play.body()) for _ in range(9)] == [0, 1, 2, 3, 0, 1, 2, 3, 0]


def test_a_loop_keeps_the_notice(tmp_path: Path) -> None:
    """When a loop begins again, an event has as much notice as at first, however late the last
    document was requested.
    """
    not_before = "Mon, 31 Oct 2022 09:00:00 GMT"  # an hour after the recording began
    path = recording(tmp_path / "loop.json", document(1, "A1", not_before=not_before), document(2))
    with playing(path, speed=60, loop=True) as play:
        first = play.body()
        play.now += 86_400
        last = play.body()
        begins_again = play.now  # as the last document has been shown
        again = play.body()
    assert incarnation(last) == 2
    assert incarnation(again) == incarnation(first) == 1
    notice = 60  # seconds: the hour of the recording at speed 60
    assert _not_before(first) == NOW + notice
    assert _not_before(again) == begins_again + notice


def test_each_document_is_shown_before_the_next_scenario(tmp_path: Path) -> None:
    """The scenario that follows a recording begins when the last document has been shown, and not
    before.
    """
    path = recording(tmp_path / "first.json", *map(document, range(11, 15)))
    with playing(path, "live-migration", speed=1000) as play:
        seen = [(incarnation(play.body()), play.simulator.playing) for _ in range(4)]
        assert [number for number, _ in seen] == [11, 12, 13, 14]
        assert [name for _, name in seen] == ["first", "first", "first", "live-migration"]
        assert incarnation(play.body()) < 11, "a document of live-migration"


def test_last_document_stays(tmp_path: Path) -> None:
    """After its end, a recording that nothing follows keeps its last document."""
    path = recording(tmp_path / "end.json", document(1), document(2, "A1"))
    with playing(path, speed=1000) as play:
        assert [incarnation(play.body()) for _ in range(4)] == [1, 2, 2, 2]
        play.now += 86_400
        assert play.body() == document(2, "A1")


@pytest.mark.parametrize("event_id", ["Events", "EventId", "A", "A12", "", "Freeze", "NO-ID"])
def test_approval_of_an_unknown_event(tmp_path: Path, event_id: str) -> None:
    """An approval is refused unless its EventId is one of the document's, even if its text is in
    the document.
    """
    with playing(recording(tmp_path / "events.json", document(1, "A1", "A11", ""))) as play:
        assert play.approve(event_id) == HTTPStatus.BAD_REQUEST


def test_approval_of_a_current_event(tmp_path: Path) -> None:
    """An approval of a current event is accepted, in upper or lower case. It is refused once a
    document without events was shown, even if the text of that document has the id.
    """
    path = recording(tmp_path / "events.json", document(1, "a1b2"), b"<html>a1b2</html>")
    with playing(path, speed=1000) as play:
        play.body()
        # At this speed the second document is due, but is not current before a poll has shown it.
        assert [play.approve("A1B2"), play.approve("a1b2")] == [HTTPStatus.OK, HTTPStatus.OK]
        assert play.body() == b"<html>a1b2</html>"
        assert play.approve("a1b2") == HTTPStatus.BAD_REQUEST


def _not_before(body: bytes) -> float:
    """Return the NotBefore of the only event of a document."""
    (event,) = json.loads(body)["Events"]
    return parsedate_to_datetime(event["NotBefore"]).timestamp()


@pytest.mark.parametrize("name", ["normalrec", "normal.yaml", "normal.json", "normal.txt"])
def test_recording_is_recognized_by_its_content(tmp_path: Path, name: str) -> None:
    """A recording plays whatever the name of its file is."""
    with playing(str(recording(tmp_path / name, document(7)))) as play:
        assert play.body() == document(7)
