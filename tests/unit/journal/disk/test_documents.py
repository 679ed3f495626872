"""The documents beside a journal: bounded by age and size; damage costs none of the facts."""

from pathlib import Path

import pytest

from azure_scheduled_events_exporter.journal.disk.documents import (
    LARGEST,
    files,
    keep,
    read_documents,
)
from azure_scheduled_events_exporter.journal.disk.location import FILE_NAME
from azure_scheduled_events_exporter.recording.file import RecordedDocument
from support.events.journal_recorder import Open, history


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where the journal is."""
    return tmp_path / FILE_NAME


def bodies(path: Path) -> list[bytes]:
    """Return the bodies, the oldest first."""
    return [document.body for document in read_documents(path)]


def test_a_document_is_kept_as_it_came(path: Path) -> None:
    """Time, bytes that are no text, headers, the reason of a refusal and the VM's name are read as
    they were written. Only the owner may read them.
    """
    document = RecordedDocument(
        time=12.5,
        body=b"\xff\x00\xe2\x80\xa8\r\n",
        headers={"Date": "today"},
        refused="no JSON",
        vm_name="web_4",
    )
    keep(path, document)
    assert read_documents(path) == [document]
    newer, _ = files(path)
    assert newer.stat().st_mode & 0o777 == 0o600


def test_a_restart_repeats_no_document(path: Path) -> None:
    """A body that is kept again directly after itself, as each start of the exporter does, is shown
    once; one that comes back after another body is shown again.
    """
    for body in (b"a", b"a", b"b", b"a"):
        keep(path, RecordedDocument(1.0, body))
    assert bodies(path) == [b"a", b"b", b"a"]


def test_size_is_bounded(path: Path) -> None:
    """Both files together have at most 10 MiB, headers included: when the newer one is full, the
    older one goes.

    Five of these documents fill a file, so that the eleventh replaces the first five.
    """
    kept = [
        RecordedDocument(float(number), b"%d" % number, {"Server": "x" * 1_000_000})
        for number in range(14)
    ]
    for document in kept:
        keep(path, document)
        assert sum(each.stat().st_size for each in path.parent.iterdir()) <= LARGEST
    assert read_documents(path) == kept[5:]


def test_age_is_bounded(path: Path) -> None:
    """If the newer file begins with a document that is too old, it takes the place of the older
    file, whose documents go.

    ``oldest`` is the time before which documents are too old.
    """
    keep(path, RecordedDocument(1.0, b"1.0"), oldest=0.0)
    keep(path, RecordedDocument(2.0, b"2.0"), oldest=0.5)
    # 1.0 is now too old: 1.0 and 2.0 become the older file, and 3.0 begins the newer one.
    keep(path, RecordedDocument(3.0, b"3.0"), oldest=1.5)
    keep(path, RecordedDocument(4.0, b"4.0"), oldest=2.5)
    assert bodies(path) == [b"1.0", b"2.0", b"3.0", b"4.0"]
    # 3.0 is now too old: 3.0 and 4.0 become the older file, and 1.0 and 2.0 go.
    keep(path, RecordedDocument(5.0, b"5.0"), oldest=3.5)
    assert bodies(path) == [b"3.0", b"4.0", b"5.0"]


def test_damage_costs_no_fact(folder: Path, start: Open) -> None:
    """A line that was cut or changed is skipped, and events, counters and the writing of both go
    on.
    """
    recorder = start(folder)
    recorder.sees("A")
    recorder.journal.keep_document(RecordedDocument(1.0, b"before"))
    recorder.journal.close()
    path = folder / FILE_NAME
    newer, _ = files(path)
    with newer.open("ab") as file:
        # Lines that are no text, no object, another object, and cut.
        file.write(b'\xff\x00\n[]\n{"body": 5}\n{"recording": 1, "time": 5')
    after = start(folder)
    assert after.lives == recorder.lives
    assert after.statistics == recorder.statistics
    after.journal.keep_document(RecordedDocument(2.0, b"after"))
    after.sees("A", "B")
    assert after.journal.state.errors == 0
    after.journal.close()
    assert history(folder) == ["A", "B"]
    assert bodies(path) == [b"before", b"after"]
