"""The documents beside a journal: each once, bounded by age and size; damage costs none of the facts."""

from contextlib import closing
from pathlib import Path

import pytest

from azure_scheduled_events_exporter.journal.documents import LARGEST, Documents, read_documents
from azure_scheduled_events_exporter.journal.file import documents_path, file_path
from azure_scheduled_events_exporter.recording.file import RecordedDocument
from support.events.journal_recorder import Open, history


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where the documents are."""
    return tmp_path / "documents"


def bodies(path: Path) -> list[bytes]:
    """Return the bodies, the oldest first."""
    return [document.body for _, document in read_documents(path)]


def test_a_document_is_kept_once(path: Path) -> None:
    """A body that is the newest one already is not kept again; one that comes back later is."""
    with closing(Documents(path)) as documents:
        for body in (b"a", b"a", b"b", b"a"):
            documents.keep(RecordedDocument(1.0, body))
        assert bodies(path) == [b"a", b"b", b"a"]


def test_everything_of_a_document_is_kept(path: Path) -> None:
    """Time, headers, the reason of a refusal and the VM's name come back as they were, and bytes that are no text."""
    document = RecordedDocument(12.5, b"\xff\x00", {"Date": "today"}, "no JSON", "web_4")
    with closing(Documents(path)) as documents:
        documents.keep(document)
    assert read_documents(path) == [(1, document)]


def test_size_is_bounded(path: Path) -> None:
    """Beyond 10 MiB the oldest documents go; numbers are not used again."""
    with closing(Documents(path)) as documents:
        for number in range(14):
            documents.keep(RecordedDocument(float(number), bytes([number]) * (1 << 20)))
            assert sum(map(len, bodies(path))) <= LARGEST
    assert [number for number, _ in read_documents(path)] == list(range(6, 15))


def test_empty_bodies_take_space_too(path: Path) -> None:
    """Empty bodies that alternate with others count with their headers, so their number is bounded."""
    headers = {"Server": "x" * 500_000}
    with closing(Documents(path)) as documents:
        for number in range(30):
            documents.keep(RecordedDocument(float(number), b"{}" if number % 2 else b"", headers))
    assert 18 <= len(bodies(path)) <= LARGEST / 500_000


def test_age_is_bounded(path: Path) -> None:
    """What came before the retention goes, except for the newest: it is what holds now."""
    with closing(Documents(path)) as documents:
        documents.prune(10.0)
        for time in (1.0, 2.0, 3.0):
            documents.keep(RecordedDocument(time, str(time).encode()))
        documents.prune(2.5)
        assert bodies(path) == [b"3.0"]
        documents.prune(10.0)
        assert bodies(path) == [b"3.0"]


@pytest.mark.parametrize("content", [b"another program's file" * 500, b"SQLite format 3\0" + b"x" * 5000])
def test_damage_costs_no_fact(content: bytes, folder: Path, start: Open) -> None:
    """Damaged documents are renamed, and events, counters and the writing of both go on."""
    recorder = start(folder)
    recorder.sees("A")
    recorder.journal.keep_document(RecordedDocument(1.0, b"before"))
    recorder.journal.close()
    documents = documents_path(file_path(folder))
    documents.write_bytes(content)
    after = start(folder)
    assert after.known == recorder.known
    assert after.statistics == recorder.statistics
    after.journal.keep_document(RecordedDocument(2.0, b"lost"))  # it meets the damage
    after.journal.keep_document(RecordedDocument(3.0, b"after"))
    after.sees("A", "B")
    assert after.is_up()
    assert after.journal.state.errors == 0
    after.journal.close()
    assert history(folder) == ["A", "B"]
    assert bodies(documents) == [b"after"]
    assert [path.read_bytes() for path in folder.glob("*.documents.set-aside-*")] == [content]
