"""Locates, creates, opens and renames the journal's files.

Handles files, and opening SQLite databases. Must not lock (``journal.writer_lock``), decide how to handle failures
(``journal.storage``), or read and write the tables (``journal.store``).
"""

import contextlib
import errno
import itertools
import os
import sqlite3
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from azure_scheduled_events_exporter.errors import (
    ExporterError,
    NotUsableError,
    one_line,
)

from .failures import is_damage, primary_code, reason
from .schema import SCHEMA_VERSION
from .store import APPLICATION_ID, Store

FILE_NAME = "journal.sqlite"
MEMORY = "memory"
"""The value of ``--journal.path`` for a journal without a file."""

_LOGS = ("-wal", "-shm")
"""SQLite's files beside a database in WAL mode. Their content may not be in the database yet."""


class FileIdentity(NamedTuple):
    """Identifies a file, so that a file that was removed or replaced is detected."""

    device: int
    inode: int
    links: int = 1


Identities = tuple[FileIdentity | None, ...]
"""Of the journal and of its write-ahead log and index; None for a file that is not there."""


def file_path(path: Path) -> Path:
    """Return the journal's file for ``--journal.path``: a file, or a folder to put it in.

    Symbolic links are followed, so that different paths to one journal use the same lock.
    """
    try:
        is_folder = path.is_dir() or (not path.suffix and not path.is_file())
    except OSError:  # not reachable: opening it reports the error
        is_folder = not path.suffix
    return Path(os.path.realpath(path / FILE_NAME if is_folder else path))


def identity(path: Path | str) -> FileIdentity | None:
    """Return the identity of the file at ``path`` now; None if there is none.

    Raises:
        OSError: it cannot be reached.
    """
    try:
        found = os.stat(path)  # noqa: PTH116 - at every poll, where making a Path costs more than asking the system
    except (FileNotFoundError, NotADirectoryError):
        return None
    return FileIdentity(found.st_dev, found.st_ino, found.st_nlink)


def own_files(path: Path) -> tuple[Path, ...]:
    """Return all files that the journal at ``path`` has, or may have: itself, its logs and its lock."""
    file = file_path(path)
    return (file, *(Path(f"{file}{suffix}") for suffix in _LOGS), lock_path(file))


def device(folder: Path) -> int:
    """Return the device of the file system that ``folder`` is on, or would be on if it were made.

    Raises:
        OSError: it cannot be reached.
    """
    for each in (folder, *folder.parents):
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            return each.stat().st_dev
    raise FileNotFoundError(errno.ENOENT, "neither the folder nor its drive exists", str(folder))


def identities(path: Path) -> Identities:
    """Return the identities of the journal at ``path`` and of its logs.

    Raises:
        OSError: they cannot be reached.
    """
    return tuple(identity(f"{path}{suffix}") for suffix in ("", *_LOGS))


def read_only(path: Path, *, immutable: bool = False) -> Store:
    """Return the journal at ``path`` for reading beside a running exporter.

    With ``immutable``, for a journal that no process writes, SQLite creates no files beside it.

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
        with closed_on_failure(connection):
            if not _check_ours(connection):
                raise NotUsableError("nothing has been written to it yet")
            return Store(connection, may_migrate=False)
    except (sqlite3.Error, OSError) as error:
        raise ExporterError(f"the journal {file} cannot be read: {reason(error)}") from None


def check_may_be_opened(path: Path) -> None:
    """Refuse a file that is no journal of this version: an exporter that opened it would rename it.

    Raises:
        ExporterError: it is another program's, of a newer version, or damaged in its first bytes.
    """
    file = file_path(path)
    try:
        connection = sqlite3.connect(f"{file.absolute().as_uri()}?mode=ro", uri=True, timeout=1)
        with contextlib.closing(connection), closed_on_failure(connection):
            _check_ours(connection)
    except sqlite3.Error as error:
        if is_damage(error):
            raise ExporterError(f"{file} cannot be used as --journal.path: {reason(error)}") from None


def writable(path: Path) -> Store:
    """Return the journal at ``path`` for queueing approval requests beside a running exporter.

    Raises:
        ExporterError: it cannot be written, or the running exporter is of an older version.
    """
    file = file_path(path)
    try:
        connection = sqlite3.connect(f"{file.absolute().as_uri()}?mode=rw", uri=True, timeout=5)
        with closed_on_failure(connection):
            connection.execute("PRAGMA synchronous = FULL")
            if _check_ours(connection) < SCHEMA_VERSION:
                raise NotUsableError("the running exporter is of an older version, restart it")
            connection.execute("BEGIN IMMEDIATE")
            connection.rollback()
            return Store(connection, may_migrate=False)
    except (sqlite3.Error, OSError) as error:
        raise ExporterError(f"the journal {file} cannot be written: {reason(error)}{_writing_hint(error)}") from None


def _writing_hint(error: Exception) -> str:
    if isinstance(error, NotUsableError):
        return ""
    if isinstance(error, sqlite3.Error) and primary_code(error) == sqlite3.SQLITE_BUSY:
        return " by a process that does not end its write; restart the exporter if it hangs, and try again"
    return "; try as root"


def in_memory() -> Store:
    """Return a journal without a file."""
    return Store(sqlite3.connect(":memory:", check_same_thread=False))


def on_disk(path: Path) -> Store:
    """Open the journal's file, or create one; the caller holds :class:`WriterLock` already.

    Raises:
        sqlite3.Error: it cannot be used; :func:`is_damage` returns whether its content is damaged.
        OSError: it cannot be reached.
    """
    # SQLite gives its other files the same mode. Other users must not read the events of this VM.
    create(path)
    connection = sqlite3.connect(path, timeout=1, check_same_thread=False)
    with closed_on_failure(connection):
        _check_ours(connection)
        _check_sound(connection)
        # Not before it is known to be ours: this writes to the file.
        connection.execute("PRAGMA journal_mode = WAL")
        # NORMAL can lose committed transitions in a power failure, and an event can be a power failure.
        connection.execute("PRAGMA synchronous = FULL")
        return Store(connection)


@contextlib.contextmanager
def closed_on_failure(connection: sqlite3.Connection) -> Iterator[None]:
    """Close the connection if the block fails; otherwise the caller closes it.

    Raises:
        NotUsableError: a message of SQLite quotes bytes of the file that are not UTF-8, so the file is damaged.
    """
    try:
        yield
    except UnicodeDecodeError as error:
        connection.close()
        raise NotUsableError(one_line(error.object.decode("utf-8", "replace"))) from None
    except BaseException:
        connection.close()
        raise


def _check_sound(connection: sqlite3.Connection) -> None:
    # Not quick_check: it does not compare indexes with tables, and SQLite finds no row whose key differs there.
    problem = connection.execute("PRAGMA integrity_check(1)").fetchone()[0]
    if problem != "ok":
        raise NotUsableError(problem)


def _check_ours(connection: sqlite3.Connection) -> int:
    """Refuse a file of another program, or of a newer version of this one; return the version of its schema."""
    application = connection.execute("PRAGMA application_id").fetchone()[0]
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    empty = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0] == 0
    if not empty and application != APPLICATION_ID:
        raise NotUsableError("it is another program's SQLite file")
    if version < 0:
        raise NotUsableError(f"its schema has the version {version}, which does not exist")
    if version > SCHEMA_VERSION:
        raise NotUsableError(f"it is of a newer version (schema {version}, known here is {SCHEMA_VERSION})")
    return int(version)


def lock_path(path: Path) -> Path:
    """Return the file of the lock of the journal's file ``path``."""
    return path.with_name(path.name + ".lock")


def create(path: Path) -> None:
    """Create the file if missing, owned by the folder's owner: a service must be able to use what root created."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        # Open it once, so that missing write permission is reported as such.
        os.close(os.open(path, os.O_RDWR))
        return
    try:
        folder = path.parent.stat()
        if sys.platform != "win32" and os.geteuid() == 0 and (folder.st_uid, folder.st_gid) != (0, 0):
            os.fchown(descriptor, folder.st_uid, folder.st_gid)
    finally:
        os.close(descriptor)


def is_read_only(path: Path) -> bool:
    """Return whether the file system of ``path`` is read-only."""
    # If the kernel made a file system read-only after an error, the mount flags may not show it, so try to create a
    # file.
    probe = path.with_name(path.name + ".probe")
    try:
        os.close(os.open(probe, os.O_WRONLY | os.O_CREAT, 0o600))
        probe.unlink()
    except OSError as error:
        return error.errno == errno.EROFS
    return False


def replace_with(path: Path, new: Path) -> Path | None:
    """Put the file ``new`` in the place of the journal; return the new name of the file that was there, if any.

    Raises:
        OSError: it cannot be renamed.
    """
    # The logs first: beside another database, SQLite would use them as its log.
    aside = set_aside(path) if any(identities(path)) else None
    new.replace(path)
    return aside


def set_aside(path: Path) -> Path:
    """Rename a journal with its logs, so that no data is lost; return its new name.

    Raises:
        OSError: it cannot be renamed.
    """
    aside = free_name(path)
    for suffix in ("", *_LOGS):
        with contextlib.suppress(FileNotFoundError):
            Path(f"{path}{suffix}").replace(f"{aside}{suffix}")
    return aside


def free_name(path: Path) -> Path:
    """Return an unused name with the time, for a file that is set aside."""
    stem = f"{path.name}.set-aside-{time.strftime('%Y%m%dT%H%M%S', time.gmtime())}"
    more = itertools.chain([""], map(".{}".format, itertools.count(2)))
    names = (path.with_name(stem + suffix) for suffix in more)
    return next(name for name in names if not any(identities(name)))
