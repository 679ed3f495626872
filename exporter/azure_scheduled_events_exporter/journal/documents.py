"""Stores the documents of the metadata service, unchanged: a table of the journal, limited in age and size.

Knows SQL over one connection. Files and failures are ``journal.files``' and ``journal.storage``'s.
"""

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from typing import Final

from azure_scheduled_events_exporter.errors import DamagedTextError
from azure_scheduled_events_exporter.recording.file import RecordedDocument

from .column_types import BYTES, NUMBER, TEXT, check_types

LARGEST: Final = 10 << 20
"""Maximum size of all rows together, in bytes; above it, the oldest documents are removed."""

TABLE: Final = """
    CREATE TABLE documents (
        number INTEGER PRIMARY KEY AUTOINCREMENT,
        time REAL NOT NULL,
        vm_name TEXT NOT NULL,
        headers TEXT NOT NULL,
        refused TEXT NOT NULL,
        body BLOB NOT NULL
    );
"""
"""What a migration of the schema runs."""

_INSERT: Final = "INSERT INTO documents (time, body, headers, refused, vm_name) VALUES (?, ?, ?, ?, ?)"
_PRUNE: Final = "DELETE FROM documents WHERE time < ? AND number < (SELECT max(number) FROM documents)"
_ALL: Final = "SELECT number, time, body, headers, refused, vm_name FROM documents ORDER BY number"
_TYPES: Final = (NUMBER, BYTES, TEXT, TEXT, TEXT)
_ROW: Final = 100
"""Bytes that a row takes besides its texts: the time, the number, and their place in the pages of the file."""
_SIZES: Final = """
    SELECT number, length(body) + length(headers) + length(refused) + length(vm_name) FROM documents ORDER BY number
"""
_COUNT: Final = """
    SELECT count(*), coalesce(sum(length(body) + length(headers) + length(refused) + length(vm_name)), 0) FROM documents
"""
_REMOVE: Final = "DELETE FROM documents WHERE number <= ?"


class Documents:
    """The table ``documents`` of the journal behind ``connection``. All methods raise sqlite3.Error.

    While an exporter of an older version runs, readers find no table and return no documents.
    """

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._db = connection
        self._size: int | None = None  # bytes of all rows, None until counted; one process writes them

    def keep(self, document: RecordedDocument) -> None:
        """Add ``document``, unless its body is that of the newest one; remove old documents if necessary."""
        size, self._size = self._size, None
        with self._db:
            newest = self._db.execute("SELECT body FROM documents ORDER BY number DESC LIMIT 1").fetchone()
            if newest is not None and newest[0] == document.body:
                self._size = size
                return
            headers = json.dumps(dict(document.headers))
            row = (document.time, document.body, headers, document.refused, document.vm_name)
            self._db.execute(_INSERT, row)
            texts = (headers, document.refused, document.vm_name)
            size = self._count() if size is None else size + len(document.body) + sum(map(len, texts)) + _ROW
            if size > LARGEST:
                size -= self._remove_oldest(size - LARGEST * 9 // 10)  # a tenth more, so that few inserts remove
        self._size = size

    def prune(self, before: float) -> None:
        """Remove the documents from before ``before`` (Unix seconds), but never the newest."""
        self._size = None
        with self._db:
            self._db.execute(_PRUNE, (before,))

    def all(self) -> Iterator[tuple[int, RecordedDocument]]:
        """Yield every document with its number, the oldest first; none from a journal of an older version.

        Raises:
            DamagedTextError: a row is not what was written.
        """
        if not self._db.execute("SELECT 1 FROM sqlite_master WHERE name = 'documents'").fetchone():
            return
        for number, time, body, headers, refused, vm_name in self._db.execute(_ALL):
            check_types(map(type, (time, body, headers, refused, vm_name)), _TYPES, "documents")
            yield number, RecordedDocument(time, body, _headers(headers), refused, vm_name)

    def _remove_oldest(self, size: int) -> int:
        """Remove the oldest rows, ``size`` bytes or a little more; return how many bytes."""
        removed = last = 0
        with closing(self._db.execute(_SIZES)) as rows:
            while removed < size:
                last, texts = next(rows)
                removed += texts + _ROW
        self._db.execute(_REMOVE, (last,))
        return removed

    def _count(self) -> int:
        rows, texts = self._db.execute(_COUNT).fetchone()
        return int(texts) + int(rows) * _ROW


def _headers(text: str) -> dict[str, str]:
    """Return the headers of an answer from their JSON."""
    try:
        headers = json.loads(text)
    except ValueError as error:
        raise DamagedTextError(f"a row of documents does not hold JSON: {error}") from error
    if not isinstance(headers, dict):
        raise DamagedTextError("a row of documents does not hold a JSON object")
    return headers
