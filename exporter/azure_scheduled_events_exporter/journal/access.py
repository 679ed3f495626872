"""How commands open a journal: to read it, or to hand facts to the exporter that writes it.

Errors name the file, and say what to do. The exporter itself uses ``journal.disk.file``.
"""

import os
import sqlite3
from pathlib import Path

from azure_scheduled_events_exporter.errors import ExporterError
from azure_scheduled_events_exporter.journal.disk.failures import FAILURES, code_of, reason
from azure_scheduled_events_exporter.journal.disk.location import file_path
from azure_scheduled_events_exporter.journal.disk.opening import WRITING, open_store, open_to_read
from azure_scheduled_events_exporter.journal.tables.store import Store


def read_only(path: Path) -> Store:
    """Return the journal at ``--journal.path`` for reading, also beside a running exporter.

    Raises ExporterError: there is none, or it cannot be read.
    """
    file = file_path(path)
    try:
        if file.exists():
            return open_to_read(file)
    except FAILURES as error:
        raise ExporterError(f"the journal {file} cannot be read: {reason(error)}") from None
    raise ExporterError(
        f"there is no journal at {file}: has an exporter run here? (--journal.path)"
    )


def writable(path: Path) -> Store:
    """Return the journal at ``--journal.path`` for handing facts to an exporter.

    Raises ExporterError: there is none, or it cannot be written.
    """
    file = file_path(path)
    try:
        return open_store(file, WRITING)
    except FAILURES as error:
        raise ExporterError(
            f"the journal {file} cannot be written: {reason(error)}{_hint(file, error)}"
        ) from None


def _hint(file: Path, error: Exception) -> str:
    """Return what to do about ``error``, as the end of a sentence; ``""`` if nothing is known."""
    if code_of(error) == sqlite3.SQLITE_BUSY:
        # Goes on from SQLite's "database is locked".
        return (
            " by a process that does not end its write; restart the exporter if it hangs, and try"
            " again"
        )
    if not os.access(file, os.W_OK):
        return "; try as root"
    return ""
