"""The tables of a journal: how they are made, and whether a file has them.

What belongs to an event, a span, a request or a run is JSON by ``journal.content.codec``. Numbers,
times and ids, by which SQL selects rows, are columns of their own:

- ``transitions``: one row for each transition: number (``seq``), Unix seconds (``wall``), and the
  record for ``events --follow``.
- ``lives``: one row for each event: a ``Lifecycle``; ``ended`` is NULL while it is current.
- ``spans``: one row for each span that waits for delivery: ``SpanFacts``.
- ``approval_requests``: operators' requests and their results: none, ``""`` while one is being
  sent, or a text.
- ``hook_runs``: runs of ``hook``'s command.
- ``state``: one row: what ``Remembered`` has besides events.

Other processes add rows to ``approval_requests`` and ``hook_runs`` while the exporter runs
(``journal.tables.inbox_tables``).
"""

import sqlite3
from typing import Final

from azure_scheduled_events_exporter.errors import NotUsableError

_APPLICATION_ID: Final = 0x41534531
"""``ASE1``: marks the journals of this exporter."""
_SCHEMA_VERSION: Final = 1
TABLES: Final = {"transitions", "lives", "spans", "approval_requests", "hook_runs", "state"}

# A damaged file can hold any value in any column, so those who read a value check it. More CHECKs
# would not help: SQLite ignores them in a file that is only read.
_SCHEMA: Final = f"""
    CREATE TABLE transitions (
        seq INTEGER PRIMARY KEY,
        wall REAL NOT NULL,
        record TEXT NOT NULL
    );
    CREATE TABLE lives (
        event_id TEXT PRIMARY KEY,
        first_seen REAL NOT NULL,
        ended REAL,
        life TEXT NOT NULL
    ) WITHOUT ROWID;
    CREATE INDEX lives_ended ON lives (ended);
    -- a newer version of a span has a larger rowid
    CREATE TABLE spans (span_id TEXT PRIMARY KEY, span TEXT NOT NULL);
    CREATE TABLE approval_requests (
        number INTEGER PRIMARY KEY AUTOINCREMENT,
        created REAL NOT NULL,
        request TEXT NOT NULL,
        result TEXT
    );
    CREATE TABLE hook_runs (
        run TEXT PRIMARY KEY,
        started REAL NOT NULL,
        content TEXT NOT NULL
    ) WITHOUT ROWID;
    CREATE TABLE state (
        one INTEGER PRIMARY KEY CHECK (one = 1),
        epoch TEXT NOT NULL,
        last_number INTEGER NOT NULL,
        vm_id TEXT NOT NULL,
        statistics TEXT NOT NULL,
        heartbeat TEXT NOT NULL
    );
    PRAGMA application_id = {_APPLICATION_ID};
    PRAGMA user_version = {_SCHEMA_VERSION};
"""


class NothingWrittenError(NotUsableError):
    """The file is empty, or the process that made it was killed before it made the tables."""


def check_schema(connection: sqlite3.Connection, *, creates: bool) -> None:
    """Refuse a file of another program, or of another schema.

    An empty one gets the tables if ``creates`` is True.

    Raises:
        NothingWrittenError: there are no tables, and they are not to be created.
        NotUsableError: the file is refused.
        sqlite3.Error: it cannot be read or written.
    """
    if not _has_tables(connection):
        if not creates:
            raise NothingWrittenError("nothing has been written to it yet")
        _create_tables(connection)
    if connection.execute("PRAGMA application_id").fetchone()[0] != _APPLICATION_ID:
        raise NotUsableError(
            "it is another program's SQLite file, or of a version before the first release"
        )
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    if version != _SCHEMA_VERSION:
        raise NotUsableError(
            f"it is of another version (schema {version}, known here is {_SCHEMA_VERSION})"
        )


def _has_tables(connection: sqlite3.Connection) -> bool:
    return bool(connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0])


def _create_tables(connection: sqlite3.Connection) -> None:
    """Create the tables, unless another process has done so in the meantime."""
    connection.execute("PRAGMA journal_mode = WAL")
    with connection:
        connection.execute("BEGIN IMMEDIATE")  # waits for another process that creates them
        if _has_tables(connection):
            return
        for statement in _SCHEMA.split(";"):
            connection.execute(statement)
