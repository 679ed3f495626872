"""A lock file beside the journal: only one process can write the journal, and others can see whether one does.

Must not open the journal itself: ``journal.files`` does.
"""

import contextlib
import sqlite3
from pathlib import Path

from azure_scheduled_events_exporter.errors import JournalInUseError

from .failures import is_damage, primary_code
from .files import closed_on_failure, create, file_path, free_name, identity, lock_path


class WriterLock:
    """The lock that makes this process the journal's only writer; the system releases it when the process ends.

    Uses SQLite's locks on a file beside the journal, because they work on every platform. A reserved lock keeps other
    writers out. While the journal's file is written, it is an exclusive one, which :func:`is_written` finds.
    """

    def __init__(self, path: Path) -> None:
        """Take the lock of the journal at ``path``.

        Raises:
            JournalInUseError: another process holds it.
            sqlite3.Error, OSError: the file of the lock cannot be used.
        """
        self._path = lock_path(path)
        try:
            self._connection = _locked(path)
        except sqlite3.DatabaseError as error:
            if not is_damage(error):
                raise
            # The file of a lock is empty, so what is in this one is another program's.
            self._path.replace(free_name(self._path))
            self._connection = _locked(path)
        self._identity = identity(self._path)
        self._shows_writing = False

    def holds(self) -> bool:
        """Return whether the locked file is still the one at its path, which another exporter would lock.

        Raises:
            OSError: the path cannot be read.
        """
        is_there = self._identity is not None and identity(self._path) == self._identity
        return is_there and self._connection.in_transaction

    def show(self, *, is_written: bool) -> None:
        """Make :func:`is_written` return ``is_written`` in every process.

        Raises:
            sqlite3.Error: the file of the lock cannot be used. Then the lock may be lost, see :meth:`holds`.
        """
        if is_written == self._shows_writing:
            return
        self._shows_writing = False
        self._connection.execute("ROLLBACK")
        if is_written:
            with contextlib.suppress(sqlite3.OperationalError):  # somebody reads the file of the lock
                self._connection.execute("BEGIN EXCLUSIVE")
                self._shows_writing = True
                return
        self._connection.execute("BEGIN IMMEDIATE")

    def release(self) -> None:
        """Release the lock, so that another process can write the journal."""
        with contextlib.suppress(sqlite3.Error):
            self._connection.close()


def _locked(path: Path) -> sqlite3.Connection:
    """Return a connection that holds the lock of the journal at ``path``."""
    lock = lock_path(path)
    create(lock)
    # Waits a moment, because is_written() holds the lock briefly.
    connection = sqlite3.connect(lock, timeout=1, check_same_thread=False, isolation_level=None)
    with closed_on_failure(connection):
        try:
            connection.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError as error:
            if primary_code(error) != sqlite3.SQLITE_BUSY:
                raise
            raise JournalInUseError(
                f"another exporter, or 'approve', writes the journal {path}: "
                "stop it or let it end, or give this one its own --journal.path"
            ) from None
    return connection


def is_written(path: Path) -> bool:
    """Return whether an exporter writes the file of the journal at ``path``. Creates nothing and takes no lock.

    While its disk fails, an exporter keeps its journal in memory, and this is False.
    """
    lock = lock_path(file_path(path))
    try:
        connection = sqlite3.connect(f"{lock.absolute().as_uri()}?mode=ro", uri=True, timeout=0)
    except sqlite3.Error:
        return False
    try:
        connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    except sqlite3.Error as error:
        return primary_code(error) == sqlite3.SQLITE_BUSY
    finally:
        connection.close()
    return False
