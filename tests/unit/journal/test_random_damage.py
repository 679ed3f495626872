"""A journal with random bytes changed: it is used or set aside, and what comes then is on disk."""

import tempfile
from functools import cache
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from azure_scheduled_events_exporter.errors import CodecError, DamagedTextError, ExporterError
from azure_scheduled_events_exporter.journal.files import read_only
from azure_scheduled_events_exporter.journal.storage import FAILURES
from azure_scheduled_events_exporter.recording.file import RecordedDocument
from support.events.journal_recorder import Recorder, recorders

VM_ID = "6d2a5d4e-4f4e-4b0c-9d6c-5a8c2d3e4f50"
UNREADABLE = (ExporterError, *FAILURES, CodecError, DamagedTextError)
"""What ``cli`` reports in one line."""


@cache
def sound() -> bytes:
    """The file of a journal with rows in all tables."""
    with tempfile.TemporaryDirectory() as folder, recorders() as start:
        recorder = start(Path(folder))
        recorder.journal.claim(VM_ID)
        for number in range(40):
            recorder.after(5).sees(*(f"E{each}" for each in range(max(0, number - 3), number + 1)))
            recorder.journal.keep_document(RecordedDocument(recorder.now.wall, b"%d" % number, {"Date": "today"}))
        wall = recorder.now.wall
        recorder.journal.request_approval(recorder.known.current.values(), "ada", wall, wall + 60)
        recorder.journal.close()
        return (Path(folder) / "journal.sqlite").read_bytes()


def use(recorder: Recorder) -> None:
    """Do all that an exporter does with its journal, an hour after the last entry."""
    journal = recorder.after(3600).journal
    journal.claim(VM_ID)
    journal.requeue_spans()
    journal.open_requests()
    journal.last_heartbeat()
    journal.scrape_interval()
    recorder.sees("NEW")
    journal.keep_document(RecordedDocument(recorder.now.wall, b"new", {}))
    journal.prune(recorder.now, lambda: True)
    assert "NEW" in {queued.span.attributes["azure.scheduled_event.id"] for queued in journal.queued_spans(128)}
    if not recorder.is_up():
        recorder.tries_disk()


def check(content: bytes) -> None:
    """Nothing raises, at most the file is set aside, and a restart finds the event that came after the damage."""
    with tempfile.TemporaryDirectory() as folder, recorders() as start:
        path = Path(folder) / "journal.sqlite"
        path.write_bytes(content)
        try:
            list(read_only(path).history())
        except UNREADABLE as error:
            assert str(error)  # noqa: PT017 - either outcome is right
        recorder = start(Path(folder))
        use(recorder)
        assert recorder.is_up()
        recorder.journal.close()
        after = start(Path(folder))
        assert after.is_up()
        assert "NEW" in after.known.current


PLACES = st.integers(0, 1 << 20)
CHANGES = st.lists(st.tuples(PLACES, st.binary(min_size=1, max_size=40)), min_size=1, max_size=20)


@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@given(CHANGES)
def test_any_bytes(changes: list[tuple[int, bytes]]) -> None:
    """Bytes anywhere in the file are changed."""
    content = bytearray(sound())
    for place, new in changes:
        start = place % len(content)
        content[start : start + len(new)] = new[: len(content) - start]
    check(bytes(content))


@pytest.mark.parametrize("text", [b"INDEX lives_ended ON lives", b'TABLE "approval_requests" ('])
def test_bytes_of_the_schema(text: bytes) -> None:
    """A word of the schema is no UTF-8, and so is SQLite's message about it."""
    assert text in sound()
    check(sound().replace(text, text[:-3] + b"\xff" + text[-2:]))
