"""What the errors of reading and writing a journal mean: its content, or a disk that may recover.

Must not open a file, or decide what follows from an error.
"""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

from azure_scheduled_events_exporter.errors import DamagedTextError, NotUsableError

FAILURES = (sqlite3.Error, OSError, DamagedTextError, UnicodeDecodeError)
"""Errors of reads and writes that a file or a disk can cause.

A message of SQLite may quote bytes that are no UTF-8.
"""

_DAMAGED = frozenset({sqlite3.SQLITE_ERROR, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})
"""The result codes that damage can cause; the first one is that of a missing table or column.

All other codes mean trouble with the disk, which may pass.
"""


def may_be_damage(error: Exception) -> bool:
    """Return whether the content of a file may have caused ``error``: a check has to prove it.

    Otherwise the disk failed, and may work again later.
    """
    is_content = isinstance(error, NotUsableError | DamagedTextError | UnicodeDecodeError)
    return is_content or code_of(error) in _DAMAGED


def reason(error: Exception) -> str:
    """Return the message of ``error`` without Python's error numbers and file names."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return str(error)


def code_of(error: Exception) -> int:
    """Return SQLite's primary result code of ``error``; 0 if it has none."""
    extended_code = int(getattr(error, "sqlite_errorcode", 0))
    return extended_code & 0xFF  # SQLite has the primary code in the lowest byte


@contextmanager
def closed_on_failure(connection: sqlite3.Connection) -> Iterator[None]:
    """Close the connection if the block fails; otherwise the caller closes it."""
    try:
        yield
    except BaseException:
        connection.close()
        raise
