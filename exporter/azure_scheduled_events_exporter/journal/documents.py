"""The bodies that the metadata service sent, unchanged, in a file beside the journal, limited in age and size.

They are for people who look for a fault, so a failure here costs no fact: what cannot be written is dropped, and a
damaged file is renamed. Must not be in the journal's own file, which is read whole at the start.
"""

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Final

from azure_scheduled_events_exporter.errors import DamagedTextError, NotUsableError
from azure_scheduled_events_exporter.recording.file import RecordedDocument

from .file import check_sound, closed_on_failure, connect_to_read, create, is_damage, set_aside

LARGEST: Final = 10 << 20
"""Maximum size of all rows together, in bytes; above it, the oldest documents are removed."""
APPLICATION_ID: Final = 0x41534544
"""``ASED``: marks the files with documents."""

_TABLE: Final = f"""
    BEGIN IMMEDIATE;
    CREATE TABLE documents (
        number INTEGER PRIMARY KEY AUTOINCREMENT,
        time REAL NOT NULL CHECK (typeof(time) = 'real'),
        vm_name TEXT NOT NULL CHECK (typeof(vm_name) = 'text'),
        headers TEXT NOT NULL CHECK (typeof(headers) = 'text'),
        refused TEXT NOT NULL CHECK (typeof(refused) = 'text'),
        body BLOB NOT NULL CHECK (typeof(body) = 'blob')
    );
    PRAGMA application_id = {APPLICATION_ID};
    COMMIT;
"""
_INSERT: Final = "INSERT INTO documents (time, body, headers, refused, vm_name) VALUES (?, ?, ?, ?, ?)"
_PRUNE: Final = "DELETE FROM documents WHERE time < ? AND number < (SELECT max(number) FROM documents)"
_ALL: Final = "SELECT number, time, body, headers, refused, vm_name FROM documents ORDER BY number"
_BOUND: Final = f"""
    DELETE FROM documents WHERE number <= (
        SELECT max(number) FROM (
            SELECT number, sum(100 + length(body) + length(headers)) OVER (ORDER BY number DESC) AS size FROM documents
        ) WHERE size > {LARGEST}
    )
"""  # noqa: S608 - a number of this program


class Documents:
    """The documents in the file at ``path``, for the one process that writes them. Never raises; opened when used."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._db: sqlite3.Connection | None = None

    def keep(self, document: RecordedDocument) -> None:
        """Add ``document``, unless its body is that of the newest one; remove old documents if necessary."""
        with self._forgiving() as db, db:
            newest = db.execute("SELECT body FROM documents ORDER BY number DESC LIMIT 1").fetchone()
            if newest is not None and newest[0] == document.body:
                return
            headers = json.dumps(dict(document.headers))
            db.execute(_INSERT, (document.time, document.body, headers, document.refused, document.vm_name))
            db.execute(_BOUND)

    def prune(self, before: float) -> None:
        """Remove the documents from before ``before`` (Unix seconds), but never the newest."""
        with self._forgiving() as db, db:
            db.execute(_PRUNE, (before,))

    def close(self) -> None:
        """Close the file."""
        if self._db is not None:
            self._db.close()
        self._db = None

    @contextmanager
    def _forgiving(self) -> Iterator[sqlite3.Connection]:
        """Open the file for the block; rename a damaged one; drop what cannot be written."""
        try:
            if self._db is None:
                self._db = self._opened()
            yield self._db
        except (sqlite3.Error, OSError) as error:
            self.close()
            if is_damage(error):
                with suppress(OSError):
                    set_aside(self._path)

    def _opened(self) -> sqlite3.Connection:
        create(self._path)
        connection = sqlite3.connect(self._path, timeout=0.5, check_same_thread=False)
        with closed_on_failure(connection):
            if connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0] == 0:
                connection.executescript(_TABLE)
            _check_ours(connection)
            return connection


def read_documents(path: Path) -> list[tuple[int, RecordedDocument]]:
    """Return every document in the file at ``path`` with its number, the oldest first; none without a file.

    Raises:
        sqlite3.Error, OSError, DamagedTextError: the file cannot be read, or a row is not what was written.
    """
    if not path.exists() or not path.stat().st_size:
        return []
    with closing(connect_to_read(path)) as connection, closed_on_failure(connection):
        _check_ours(connection)
        return [
            (number, RecordedDocument(time, body, _headers(headers), refused, vm_name))
            for number, time, body, headers, refused, vm_name in connection.execute(_ALL).fetchall()
        ]


def _check_ours(connection: sqlite3.Connection) -> None:
    if connection.execute("PRAGMA application_id").fetchone()[0] != APPLICATION_ID:
        raise NotUsableError("it is another program's SQLite file")
    check_sound(connection)


def _headers(text: str) -> dict[str, str]:
    """Return the headers of an answer from their JSON."""
    try:
        headers = json.loads(text)
    except ValueError as error:
        raise DamagedTextError(f"a row of documents does not hold JSON: {error}") from error
    if not isinstance(headers, dict):
        raise DamagedTextError("a row of documents does not hold a JSON object")
    return headers
