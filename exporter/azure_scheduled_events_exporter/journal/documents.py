"""The bodies that the metadata service sent, unchanged: a recording beside the journal, limited in age and size.

They are for people who look for a fault, so a failure here costs no fact: what cannot be written is dropped, and a
line that is cut or damaged is skipped. When the file is large or old, it takes the place of the one before it.
"""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from azure_scheduled_events_exporter.recording.file import RecordedDocument, from_line, to_text

from .file import create

LARGEST: Final = 10 << 20
"""Maximum size of both files together, in bytes."""


def keep(path: Path, document: RecordedDocument) -> None:
    """Append ``document`` to the file at ``path``, if the disk works."""
    text = f"\n{to_text([document])}".encode()  # the line break ends a line that was cut
    with suppress(OSError):
        create(path)
        if path.stat().st_size + len(text) > LARGEST // 2:
            path.replace(_older(path))
            create(path)
        with path.open("ab") as file:
            file.write(text)


def prune(path: Path, before: float) -> None:
    """Remove the older documents, if the newer ones go back to before ``before`` (Unix seconds) too."""
    with suppress(OSError):
        oldest = next(_documents(path), None)
        if oldest is not None and oldest.time < before:
            path.replace(_older(path))


def read_documents(path: Path) -> list[RecordedDocument]:
    """Return the documents kept at ``path`` that differ from the one before, the oldest first; none without a file.

    Raises:
        OSError: a file cannot be read.
    """
    found: list[RecordedDocument] = []
    for file in (_older(path), path):
        with suppress(FileNotFoundError):
            for document in _documents(file):
                if not found or document.body != found[-1].body:  # a new run keeps the newest one again
                    found.append(document)
    return found


def _documents(path: Path) -> Iterator[RecordedDocument]:
    with path.open("rb") as file:
        yield from filter(None, map(from_line, file))


def _older(path: Path) -> Path:
    return path.with_name(f"{path.name}.old")
