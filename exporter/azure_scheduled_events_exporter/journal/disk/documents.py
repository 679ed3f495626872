"""The bodies that IMDS sent, unchanged, in two files beside the journal.

They are for people who look for a fault, so a failure here costs no fact: what cannot be written is
dropped, and a line that is cut or damaged is skipped. New bodies are added to the newer file. When
that is too large or too old, it replaces the older one, and a new one begins.
"""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from azure_scheduled_events_exporter.recording.file import RecordedDocument, from_line, to_text

from .folder_owner import create

LARGEST: Final = 10 << 20
"""Maximum size of both files together, in bytes."""


def files(journal: Path) -> tuple[Path, Path]:
    """Return the files with the newer and with the older documents of ``journal``."""
    newer = f"{journal.name}.documents"
    return journal.with_name(newer), journal.with_name(f"{newer}.old")


def keep(journal: Path, document: RecordedDocument, oldest: float = 0.0) -> None:
    """Append ``document`` to the newer file, if the disk works.

    A file that is full, or that begins before ``oldest`` (Unix seconds), becomes the older file
    first.
    """
    path, older = files(journal)
    # The line break at the beginning ends a line that a crash has cut.
    text = f"\n{to_text([document])}".encode()
    with suppress(OSError):
        create(path)
        first = next(_documents(path), document)
        is_old = first.time < oldest
        is_full = path.stat().st_size + len(text) > LARGEST // 2
        if is_old or is_full:
            path.replace(older)
            create(path)
        with path.open("ab") as file:
            file.write(text)


def read_documents(journal: Path) -> list[RecordedDocument]:
    """Return the documents that differ from the one before, the oldest first.

    Raises OSError: a file cannot be read.
    """
    found: list[RecordedDocument] = []
    for file in reversed(files(journal)):
        with suppress(FileNotFoundError):
            for document in _documents(file):
                # Each run of the exporter stores its first document, also if the run before has
                # stored the same one.
                if not found or document.body != found[-1].body:
                    found.append(document)
    return found


def _documents(path: Path) -> Iterator[RecordedDocument]:
    """Yield the documents in a file, without the lines that cannot be read."""
    with path.open("rb") as file:
        yield from filter(None, map(from_line, file))
