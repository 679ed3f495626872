"""What is removed from the tables: rows that are too old, and the oldest ones if room is needed.

SQL over one connection, within a transaction of the caller; every function raises sqlite3.Error.
Must not know how long rows are kept (``journal.journal``).
"""

import sqlite3
from typing import Final

LARGEST_BYTES: Final = 128 << 20
"""The most that the tables may take: some 25,000 events, far more than Azure has for one VM.

Whoever poses as IMDS could fill the disk otherwise.
"""
_MOST_AT_ONCE: Final = 50_000
"""How many transitions are removed at once, which takes less than a second."""

_EXPIRED_TRANSITIONS: Final = (
    "DELETE FROM transitions WHERE wall < ?"
    f" AND seq < (SELECT min(seq) FROM transitions) + {_MOST_AT_ONCE}"
)


def remove_expired(connection: sqlite3.Connection, before: float) -> None:
    """Remove transitions, requests and ended events from before ``before`` (Unix seconds)."""
    for sql in (
        _EXPIRED_TRANSITIONS,
        "DELETE FROM lives WHERE ended < ?",  # NULL of a current event, which stays
        "DELETE FROM approval_requests WHERE created < ?",
    ):
        connection.execute(sql, (before,))


def remove_oldest(connection: sqlite3.Connection) -> None:
    """Remove the oldest tenth of each table if they take more than :data:`LARGEST_BYTES`.

    Current events stay.
    """
    if _used_bytes(connection) <= LARGEST_BYTES:
        return
    for table, column in (
        ("transitions", "seq"),
        ("lives", "ended"),
        ("spans", "rowid"),
        ("approval_requests", "number"),
        ("hook_runs", "started"),
    ):
        connection.execute(_oldest_tenth(table, column))


def _oldest_tenth(table: str, column: str) -> str:
    """Return the SQL that removes the oldest tenth of ``table``: its least values of ``column``."""
    # ``lives.ended`` is NULL of a current event, which stays. No other column has NULL.
    rows = f"{table} WHERE {column} IS NOT NULL"
    count = f"SELECT count(*) / 10 FROM {rows}"
    newest_removed = f"SELECT {column} FROM {rows} ORDER BY {column} LIMIT 1 OFFSET ({count})"
    return f"DELETE FROM {table} WHERE {column} <= ({newest_removed})"


def _used_bytes(connection: sqlite3.Connection) -> int:
    """Return how much of the file is in use, also by the transaction that is open."""
    (pages,) = connection.execute("PRAGMA page_count").fetchone()
    (free,) = connection.execute("PRAGMA freelist_count").fetchone()
    (page_size,) = connection.execute("PRAGMA page_size").fetchone()
    return int((pages - free) * page_size)
