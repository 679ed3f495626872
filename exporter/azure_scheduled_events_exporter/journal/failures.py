"""Tells damage of the journal's content from trouble with its disk, by the error. Pure."""

import sqlite3

from azure_scheduled_events_exporter.errors import DamagedTextError, NotUsableError

# SQLITE_ERROR is what a missing table gives. All other codes mean trouble with the disk, which may pass.
_DAMAGED: frozenset[int] = frozenset({sqlite3.SQLITE_ERROR, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})

_NO_TEXT = "Could not decode to UTF-8"
"""The beginning of the message of Python's sqlite3 if a text is not UTF-8. This error has no code."""


def is_damage(error: Exception) -> bool:
    """Return whether the file's content is damaged; otherwise the disk failed, and may work again later."""
    if isinstance(error, sqlite3.Error):
        return isinstance(error, NotUsableError) or primary_code(error) in _DAMAGED or str(error).startswith(_NO_TEXT)
    return isinstance(error, DamagedTextError)


def primary_code(error: sqlite3.Error) -> int:
    """Return SQLite's primary result code of ``error``; 0 if it has none."""
    return int(getattr(error, "sqlite_errorcode", 0)) & 0xFF


def reason(error: Exception) -> str:
    """Return the message of ``error`` without Python's error numbers and file names."""
    return (error.strerror or str(error)) if isinstance(error, OSError) else str(error)
