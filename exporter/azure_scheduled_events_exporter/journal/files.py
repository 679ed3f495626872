"""The journal's file: where it lies, who may open it for what, and whether it is to blame when it cannot be used.

Knows files, locks and SQLite's ways to open one. What to do about trouble is decided in ``journal``, what stands
in the file by ``store``.
"""

import contextlib
import itertools
import os
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path

from azure_scheduled_events_exporter.errors import ExporterError, JournalInUseError, NotUsableError

from .store import APPLICATION_ID, SCHEMA_VERSION, Store

FILE_NAME = "journal.sqlite"
MEMORY = "memory"
"""What ``--journal.path`` says for a journal without a file."""

# SQLITE_ERROR is what a missing table gives. All other codes mean trouble with the disk, which may pass.
_DAMAGED: frozenset[int] = frozenset({sqlite3.SQLITE_ERROR, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})


def file_path(path: Path) -> Path:
    """Return the journal's file for what ``--journal.path`` says: a file, or a folder to put it in."""
    try:
        is_folder = path.is_dir() or (not path.suffix and not path.is_file())
    except OSError:  # out of reach, which opening it will tell
        is_folder = not path.suffix
    return path / FILE_NAME if is_folder else path


def read_only(path: Path, *, immutable: bool = False) -> Store:
    """Return the journal at ``path`` for reading beside a running exporter.

    With ``immutable``, for a journal that nobody writes, SQLite makes no files of its own beside it.

    Raises:
        ExporterError: there is none, or it cannot be read.
    """
    file = file_path(path)
    try:
        if not file.exists():
            raise ExporterError(f"there is no journal at {file}: has an exporter run here? (--journal.path)")
        connection = sqlite3.connect(
            f"{file.absolute().as_uri()}?mode=ro{'&immutable=1' if immutable else ''}", uri=True, timeout=5
        )
        with _closed_on_failure(connection):
            if not _check_ours(connection):
                raise NotUsableError("nothing has been written to it yet")
            return Store(connection, may_migrate=False)
    except (sqlite3.Error, OSError) as error:
        raise ExporterError(f"the journal {file} cannot be read: {reason(error)}") from None


def writable(path: Path) -> Store:
    """Return the journal at ``path`` for laying down wishes beside a running exporter.

    Raises:
        ExporterError: it cannot be written.
    """
    file = file_path(path)
    try:
        connection = sqlite3.connect(f"{file.absolute().as_uri()}?mode=rw", uri=True, timeout=5)
        with _closed_on_failure(connection):
            connection.execute("PRAGMA synchronous = FULL")
            _check_ours(connection)
            connection.execute("BEGIN IMMEDIATE")
            connection.rollback()
            return Store(connection, may_migrate=False)  # the exporter that writes it may be of the version before
    except (sqlite3.Error, OSError) as error:
        raise ExporterError(f"the journal {file} cannot be written: {reason(error)}; try as root") from None


def is_written(path: Path) -> bool:
    """Return whether an exporter is running on the journal at ``path``."""
    try:
        only_writer(file_path(path)).close()
    except JournalInUseError:
        return True
    except (sqlite3.Error, OSError):
        return False
    return False


def in_memory() -> Store:
    """Return a journal without a file."""
    return Store(sqlite3.connect(":memory:", check_same_thread=False))


def on_disk(path: Path) -> Store:
    """Open the journal's file, or begin one; its writer is to hold :func:`only_writer` already.

    Raises:
        sqlite3.Error: it cannot be used; :func:`is_damage` tells whether that is its own fault.
        OSError: it cannot be reached.
    """
    # SQLite gives its other files the mode of this one: what happens to VMs is nobody else's business.
    os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
    connection = sqlite3.connect(path, timeout=1, check_same_thread=False)
    with _closed_on_failure(connection):
        _check_ours(connection)
        _check_sound(connection)
        # Not before it is known to be ours: this writes to the file.
        connection.execute("PRAGMA journal_mode = WAL")
        # NORMAL loses acknowledged transitions in a power cut, and an event may be one.
        connection.execute("PRAGMA synchronous = FULL")
        return Store(connection)


@contextlib.contextmanager
def _closed_on_failure(connection: sqlite3.Connection) -> Iterator[None]:
    """Close the connection if the block fails; otherwise whoever receives it does."""
    try:
        yield
    except BaseException:
        connection.close()
        raise


def _check_sound(connection: sqlite3.Connection) -> None:
    problem = connection.execute("PRAGMA quick_check(1)").fetchone()[0]
    if problem != "ok":
        raise NotUsableError(problem)


def _check_ours(connection: sqlite3.Connection) -> int:
    """Refuse a file of another program, or of a newer version of this one; return the version of its schema."""
    application = connection.execute("PRAGMA application_id").fetchone()[0]
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    empty = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0] == 0
    if not empty and application != APPLICATION_ID:
        raise NotUsableError("it is another program's SQLite file")
    if version > SCHEMA_VERSION:
        raise NotUsableError(f"it is of a newer version (schema {version}, known here is {SCHEMA_VERSION})")
    return int(version)


def only_writer(path: Path) -> sqlite3.Connection:
    """Hold the lock that makes this process the journal's only writer; the system lets it go when the process ends.

    SQLite locks files on every platform, so its own lock on a file beside the journal is what is used.

    Raises:
        JournalInUseError: another process holds it.
    """
    lock = path.with_name(path.name + ".lock")
    os.close(os.open(lock, os.O_RDWR | os.O_CREAT, 0o600))
    # Waiting a moment: is_written() holds the lock for an instant to see whether anybody does.
    connection = sqlite3.connect(lock, timeout=1, check_same_thread=False, isolation_level=None)
    try:
        connection.execute("BEGIN EXCLUSIVE")
    except sqlite3.OperationalError as error:
        connection.close()
        if _code(error) != sqlite3.SQLITE_BUSY:
            raise
        raise JournalInUseError(
            f"another exporter writes the journal {path}: stop that one, or give this one its own --journal.path"
        ) from None
    return connection


def set_aside(path: Path) -> Path:
    """Rename a journal with its logs, so that nothing of it is lost; return its new name.

    Raises:
        OSError: it cannot be renamed.
    """
    aside = _free_name(path)
    for suffix in ("", "-wal", "-shm"):
        with contextlib.suppress(FileNotFoundError):
            Path(f"{path}{suffix}").replace(f"{aside}{suffix}")
    return aside


def _free_name(path: Path) -> Path:
    """A name for a file that is set aside, by the time, that no other one has."""
    stem = f"{path.name}.set-aside-{time.strftime('%Y%m%dT%H%M%S', time.gmtime())}"
    more = itertools.chain([""], map(".{}".format, itertools.count(2)))
    return next(name for name in (path.with_name(stem + suffix) for suffix in more) if not name.exists())


def is_damage(error: Exception) -> bool:
    """Return whether the file's content is to blame; if not, the disk is, and may come back."""
    if isinstance(error, sqlite3.Error):
        return isinstance(error, NotUsableError) or _code(error) in _DAMAGED
    return not isinstance(error, OSError)


def _code(error: sqlite3.Error) -> int:
    """SQLite's primary code of ``error``."""
    return int(getattr(error, "sqlite_errorcode", 0)) & 0xFF


def reason(error: Exception) -> str:
    """Return what went wrong, without Python's own decoration."""
    return (error.strerror or str(error)) if isinstance(error, OSError) else str(error)
