"""The documents of a journal: each once, bounded by age and size, also in a journal of an older version."""

import logging
import sqlite3
from contextlib import closing
from pathlib import Path

from azure_scheduled_events_exporter.journal.documents import LARGEST, TABLE, Documents
from azure_scheduled_events_exporter.journal.files import read_only
from azure_scheduled_events_exporter.journal.journal import Journal
from azure_scheduled_events_exporter.recording.file import RecordedDocument
from support.paths import DATA


def connected() -> sqlite3.Connection:
    """Return a connection to the table alone."""
    connection = sqlite3.connect(":memory:")
    connection.executescript(TABLE)
    return connection


def bodies(documents: Documents) -> list[bytes]:
    """Return the bodies, the oldest first."""
    return [document.body for _, document in documents.all()]


def test_a_document_is_kept_once() -> None:
    """A body that is the newest one already is not kept again; one that comes back later is."""
    with closing(connected()) as connection:
        documents = Documents(connection)
        for body in (b"a", b"a", b"b", b"a"):
            documents.keep(RecordedDocument(1.0, body))
        assert bodies(documents) == [b"a", b"b", b"a"]


def test_everything_of_a_document_is_kept() -> None:
    """Time, headers, the reason of a refusal and the VM's name come back as they were, and bytes that are no text."""
    document = RecordedDocument(12.5, b"\xff\x00", {"Date": "today"}, "no JSON", "web_4")
    with closing(connected()) as connection:
        documents = Documents(connection)
        documents.keep(document)
        assert list(documents.all()) == [(1, document)]


def test_size_is_bounded() -> None:
    """Beyond 10 MiB the oldest documents go, a tenth of the limit at once; numbers are not used again."""
    with closing(connected()) as connection:
        documents = Documents(connection)
        for number in range(14):
            documents.keep(RecordedDocument(float(number), bytes([number]) * (1 << 20)))
            assert sum(map(len, bodies(documents))) <= LARGEST
        assert [number for number, _ in documents.all()] == list(range(7, 15))


def test_empty_bodies_take_space_too() -> None:
    """Empty bodies that alternate with others count with their headers, so their number is bounded."""
    headers = {"Server": "x" * 100_000}
    with closing(connected()) as connection:
        documents = Documents(connection)
        for number in range(150):
            documents.keep(RecordedDocument(float(number), b"{}" if number % 2 else b"", headers))
        assert 90 < len(bodies(documents)) <= LARGEST / 100_000


def test_age_is_bounded() -> None:
    """What came before the retention goes, except for the newest: it is what holds now."""
    with closing(connected()) as connection:
        documents = Documents(connection)
        documents.prune(10.0)
        for time in (1.0, 2.0, 3.0):
            documents.keep(RecordedDocument(time, str(time).encode()))
        documents.prune(2.5)
        assert bodies(documents) == [b"3.0"]
        documents.prune(10.0)
        assert bodies(documents) == [b"3.0"]


def test_journal_of_an_older_version(tmp_path: Path) -> None:
    """Beside an exporter of an older version there are no documents to read; an update adds the table."""
    path = tmp_path / "journal.sqlite"
    with closing(sqlite3.connect(path)) as old:
        old.executescript((DATA / "journals" / "schema-1.sql").read_text())
    with closing(read_only(path)) as store:
        assert list(store.documents.all()) == []
    journal = Journal(path, 90 * 86400.0, logging.getLogger("test"))
    journal.keep_document(RecordedDocument(1.0, b"{}"))
    with closing(read_only(path)) as store:
        assert bodies(store.documents) == [b"{}"]
    journal.close()
