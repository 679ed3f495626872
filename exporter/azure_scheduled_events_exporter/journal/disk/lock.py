"""The lock that makes one process the only writer of a journal.

It is SQLite's exclusive lock on an empty file beside the journal, because that works on every
platform. Must not open the journal's own file.
"""

import errno
import sqlite3
import tempfile
from contextlib import closing
from pathlib import Path

from azure_scheduled_events_exporter.errors import JournalInUseError

from .failures import closed_on_failure, code_of
from .folder_owner import as_folder_owner, create
from .location import file_path

SUFFIX = ".lock"
"""What the name of the lock's file has after that of the journal."""

Lock = sqlite3.Connection
"""A lock that is held. Closing it releases it, and so does the end of the process."""


def writer_lock(file: Path) -> Lock:
    """Take the lock that makes this process the only writer of the journal's ``file``.

    Raises:
        JournalInUseError: another process holds it.
        sqlite3.Error, OSError: the file of the lock cannot be used, or the file system has no
            locks.
    """
    path = Path(f"{file}{SUFFIX}")
    with as_folder_owner(path.parent):
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        create(path)
        try:
            return _locked(path, 0.3)  # is_locked() keeps it for a moment while it reads the file
        except sqlite3.OperationalError as error:
            if code_of(error) != sqlite3.SQLITE_BUSY:
                raise
        if not _has_locks(path.parent):
            why = (
                "this file system grants no lock, not even on a new file (a share: mount it with"
                " the option nobrl, or put the journal on a local disk)"
            )
            raise OSError(errno.ENOLCK, why, str(path))
    raise JournalInUseError(
        f"another exporter, or 'approve', writes the journal {file}: "
        "stop it or let it end, or give this one its own --journal.path"
    )


def _locked(path: Path, seconds: float) -> Lock:
    """Take SQLite's exclusive lock on the file at ``path`` within ``seconds``."""
    # Another thread than the one that takes it may release it, as in the command hook.
    lock = sqlite3.connect(path, timeout=seconds, check_same_thread=False, isolation_level=None)
    with closed_on_failure(lock):
        lock.execute("BEGIN EXCLUSIVE")
        return lock


def _has_locks(folder: Path) -> bool:
    """Return whether locks work in ``folder``: on a new file, which nobody else can have locked."""
    try:
        with tempfile.NamedTemporaryFile(dir=folder, prefix=".lock-test-") as file:
            _locked(Path(file.name), 0.0).close()
    except (sqlite3.OperationalError, OSError) as error:
        # "Busy" on a new file shows that locks do not work. Another error, such as that of a full
        # disk, says nothing about locks, so they count as working.
        return code_of(error) != sqlite3.SQLITE_BUSY
    return True


def has_writer(path: Path) -> bool:
    """Return whether a process, such as an exporter, writes the journal at ``--journal.path``."""
    return is_locked(file_path(path))


def is_locked(file: Path) -> bool:
    """Return whether a process holds the :func:`writer_lock` of ``file``.

    Creates nothing. It reads the lock's file for a moment, in which nobody can take that lock.
    """
    lock = Path(f"{file}{SUFFIX}")
    uri = f"{lock.absolute().as_uri()}?mode=ro"
    try:
        with closing(sqlite3.connect(uri, uri=True, timeout=0)) as connection:
            # SQLite refuses to read while another process holds the exclusive lock.
            connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    except sqlite3.Error as error:
        return code_of(error) == sqlite3.SQLITE_BUSY
    return False
