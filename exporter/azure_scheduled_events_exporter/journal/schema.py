"""The journal's tables in every version of their schema.

Each entry migrates from the previous version to its own; a journal of an older version runs all later entries.
"""

import sqlite3
from collections.abc import Mapping
from contextlib import closing
from functools import cache

from . import documents

SCHEMA_VERSION = 8

MIGRATIONS: Mapping[int, str] = {
    1: """
    CREATE TABLE lives (
        event_id TEXT PRIMARY KEY,
        first_seen REAL NOT NULL,
        ended REAL,
        life TEXT NOT NULL
    ) WITHOUT ROWID;
    CREATE INDEX lives_ended ON lives (ended);
    CREATE TABLE transitions (
        seq INTEGER PRIMARY KEY AUTOINCREMENT,
        wall REAL NOT NULL,
        event_id TEXT NOT NULL,
        event_type TEXT NOT NULL,
        source TEXT NOT NULL,
        scope TEXT NOT NULL,
        transition TEXT NOT NULL,
        notice REAL,
        latency REAL,
        approved_by TEXT NOT NULL,
        scheduled REAL,
        started REAL,
        said TEXT NOT NULL
    );
    CREATE INDEX transitions_wall ON transitions (wall);
    CREATE TABLE spans (span_id TEXT PRIMARY KEY, seq INTEGER NOT NULL, span TEXT NOT NULL) WITHOUT ROWID;
    CREATE INDEX spans_seq ON spans (seq);
    CREATE TABLE asks (
        seq INTEGER PRIMARY KEY AUTOINCREMENT,
        wall REAL NOT NULL,
        event_id TEXT NOT NULL,
        who TEXT NOT NULL,
        answer TEXT
    );
    CREATE TABLE sums (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
    """,
    2: """
    ALTER TABLE transitions ADD COLUMN pause REAL;
    CREATE TABLE signs (one INTEGER PRIMARY KEY CHECK (one = 1), reading TEXT NOT NULL);
    """,
    # A request of an older version has no expiry; nobody waits for it any more.
    3: """
    CREATE TABLE properties (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
    INSERT INTO properties VALUES ('epoch', lower(hex(randomblob(4))));
    ALTER TABLE transitions RENAME COLUMN said TO record;
    ALTER TABLE asks RENAME TO approval_requests;
    ALTER TABLE approval_requests RENAME COLUMN seq TO number;
    ALTER TABLE approval_requests RENAME COLUMN wall TO created;
    ALTER TABLE approval_requests RENAME COLUMN who TO operator;
    ALTER TABLE approval_requests RENAME COLUMN answer TO result;
    ALTER TABLE approval_requests ADD COLUMN not_before REAL;
    ALTER TABLE approval_requests ADD COLUMN expires REAL;
    ALTER TABLE approval_requests ADD COLUMN sent REAL;
    UPDATE approval_requests SET result = 'withdrawn: the exporter was updated' WHERE result IS NULL;
    ALTER TABLE signs RENAME TO heartbeat;
    ALTER TABLE heartbeat RENAME COLUMN reading TO sample;
    UPDATE sums SET name = 'statistics' WHERE name = 'tally';
    """,
    4: "ALTER TABLE transitions ADD COLUMN pauses INTEGER;",
    5: documents.TABLE,
    # refused: when a collector first refused the span, Unix seconds; set_aside: not sent again before the next start.
    6: """
    ALTER TABLE spans ADD COLUMN refused REAL;
    ALTER TABLE spans ADD COLUMN set_aside INTEGER NOT NULL DEFAULT 0;
    """,
    7: "ALTER TABLE approval_requests ADD COLUMN resources TEXT;",
    8: """
    ALTER TABLE approval_requests ADD COLUMN event_type TEXT;
    ALTER TABLE approval_requests ADD COLUMN duration REAL;
    """,
}


def columns(connection: sqlite3.Connection) -> frozenset[tuple[str, str]]:
    """Return the tables of a database with their columns, as pairs of names."""
    return frozenset(
        connection.execute(
            "SELECT tables.name, columns.name FROM sqlite_master AS tables, pragma_table_info(tables.name) AS columns "
            "WHERE tables.type = 'table'"
        )
    )


@cache
def schema_columns() -> frozenset[tuple[str, str]]:
    """Return the tables of this version's schema with their columns, as pairs of names."""
    with closing(sqlite3.connect(":memory:")) as connection:
        for migration in MIGRATIONS.values():
            connection.executescript(migration)
        return columns(connection)
