"""The journal's file: where it is, who may write it, and when it is renamed because it cannot be used.

Opens SQLite databases and handles files and the lock. Must not read or write tables
(``journal.store``), or decide when to try again (``journal.journal``).

SQLite writes the journal in WAL mode, so no reader delays the writer. Two precautions belong to
that mode. It maps the file ``-shm`` into memory, and a mapped page that finds no room on a full
file system ends the process with SIGBUS. So nothing writes while less than :data:`ROOM_BYTES` are
free, and readers map the file read-only.
"""

import errno
import logging
import os
import shutil
import sqlite3
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path

from azure_scheduled_events_exporter.errors import (
    DamagedTextError,
    ExporterError,
    JournalInUseError,
    NotUsableError,
)
from azure_scheduled_events_exporter.logs import facts

from .inbox import Inbox
from .store import NothingWrittenError, State, Store

FILE_NAME = "journal.sqlite"
MEMORY = "memory"
"""The value of ``--journal.path`` for a journal without a file."""
ROOM_BYTES = 256 << 10
"""With less free space, the disk counts as full: a write may map 32 KiB, and other programs write too."""

FAILURES = (sqlite3.Error, OSError, DamagedTextError, UnicodeDecodeError)
"""Errors of reads and writes that a file or a disk can cause.

A message of SQLite may quote bytes that are no UTF-8.
"""

_LOGS = ("-wal", "-shm")
"""SQLite's files beside a database in WAL mode.

The content of the first may not be in the database yet.
"""
_LOCK = ".lock"
# How SQLite opens a file. Only the first and the third may write -shm, which the third makes anew.
_WRITING, _BESIDE_A_WRITER, _COPY, _CLOSED = "rw", "ro&readonly_shm=1", "ro", "ro&immutable=1"
# SQLITE_ERROR is what a missing table gives. All other codes mean trouble with the disk, which may
# pass.
_DAMAGED = frozenset({sqlite3.SQLITE_ERROR, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})


def file_path(path: Path) -> Path:
    """Return the journal's file for ``--journal.path``: a file, or a folder to put it in.

    Symbolic links are followed, so that different paths to one journal use the same lock.
    """
    # Not Path's methods, which raise if it cannot be reached: opening it reports that.
    is_folder = os.path.isdir(path) or not (path.suffix or os.path.isfile(path))  # noqa: PTH112, PTH113
    return Path(os.path.realpath(path / FILE_NAME if is_folder else path))


def _identity(path: Path | str) -> tuple[int, int] | None:
    """Return device and inode of the file at ``path``; None if there is none.

    Raises OSError: it cannot be reached.
    """
    try:
        found = os.stat(path)  # noqa: PTH116 - at every poll, where making a Path costs more than asking the system
    except (FileNotFoundError, NotADirectoryError):
        return None
    return found.st_dev, found.st_ino


def is_damage(error: Exception) -> bool:
    """Return whether a file's content is damaged; otherwise the disk failed, and may work again later."""
    return (
        isinstance(error, NotUsableError | DamagedTextError | UnicodeDecodeError)
        or _code(error) in _DAMAGED
    )


def reason(error: Exception) -> str:
    """Return the message of ``error`` without Python's error numbers and file names."""
    return (error.strerror or str(error)) if isinstance(error, OSError) else str(error)


def _code(error: Exception) -> int:
    """Return SQLite's primary result code of ``error``; 0 if it has none."""
    return int(getattr(error, "sqlite_errorcode", 0)) & 0xFF


@contextmanager
def _closed_on_failure(connection: sqlite3.Connection) -> Iterator[None]:
    """Close the connection if the block fails; otherwise the caller closes it."""
    try:
        yield
    except BaseException:
        connection.close()
        raise


def _check_room(folder: Path) -> None:
    """Raise OSError if the file system of ``folder`` is full."""
    found = shutil.disk_usage(
        folder
    )  # what is reserved for root does not count: a mapped page may not get it
    if found.free < ROOM_BYTES and found.total:  # some network file systems do not say
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(folder))


def _open(file: Path, how: str, seconds: float = 5.0) -> Store:
    """Return the tables.

    They wait so long for locks, and read a text that is not UTF-8 as a damaged one.
    """
    if how in {_WRITING, _COPY}:
        _check_room(file.parent)
    uri = f"{file.absolute().as_uri()}?mode={how}"
    connection = sqlite3.connect(uri, uri=True, timeout=seconds, check_same_thread=False)
    connection.text_factory = lambda content: content.decode(errors="replace")
    with _closed_on_failure(connection):
        return Store(connection, writes=how == _WRITING)


def _open_to_read(file: Path) -> Store:
    """Return the tables, so opened that a full or read-only disk can be read: nothing is written beside the file."""
    if Path(f"{file}-shm").exists():
        return _open(file, _BESIDE_A_WRITER)
    has_log = any(Path(f"{file}{suffix}").exists() for suffix in ("-wal", "-journal"))
    return _open(file, _COPY if has_log else _CLOSED)


def read_only(path: Path) -> Store:
    """Return the journal at ``path`` for reading, also beside a running exporter.

    Raises ExporterError: there is none, or it cannot be read.
    """
    file = file_path(path)
    try:
        if file.exists():
            return _open_to_read(file)
    except FAILURES as error:
        raise ExporterError(f"the journal {file} cannot be read: {reason(error)}") from None
    raise ExporterError(
        f"there is no journal at {file}: has an exporter run here? (--journal.path)"
    )


def check_may_be_opened(path: Path) -> None:
    """Refuse a file that is no journal of this version: an exporter that opened it would rename it.

    Raises ExporterError: it is another program's, of another version, or damaged in its first
        bytes.
    """
    file = file_path(path)
    try:
        with suppress(NothingWrittenError):
            _open_to_read(file).close()
    except FAILURES as error:
        if is_damage(error):
            raise ExporterError(
                f"{file} cannot be used as --journal.path: {reason(error)}"
            ) from None


def writable(path: Path) -> Store:
    """Return the journal at ``path`` for handing facts to an exporter.

    Raises ExporterError: it cannot be written.
    """
    file = file_path(path)
    try:
        return _open(file, _WRITING)
    except FAILURES as error:
        hint = "" if os.access(file, os.W_OK) else "; try as root"
        if isinstance(error, sqlite3.Error) and _code(error) == sqlite3.SQLITE_BUSY:
            hint = (
                " by a process that does not end its write; restart the exporter if it hangs, and"
                " try again"
            )
        raise ExporterError(
            f"the journal {file} cannot be written: {reason(error)}{hint}"
        ) from None


def create(path: Path) -> None:
    """Create the file if missing, for its owner only: other users must not read the events of this VM.

    It belongs to the folder's owner: a service must be able to use what root created. SQLite gives
    its other files the same mode.
    """
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        # Open it once, so that missing write permission is reported as such.
        os.close(os.open(path, os.O_RDWR))
        return
    try:
        folder = path.parent.stat()
        if (
            sys.platform != "win32"
            and os.geteuid() == 0
            and (folder.st_uid, folder.st_gid) != (0, 0)
        ):
            os.fchown(descriptor, folder.st_uid, folder.st_gid)
    finally:
        os.close(descriptor)


def writer_lock(file: Path) -> sqlite3.Connection:
    """Take the lock that makes this process the only writer of the journal's ``file``; closing the result releases it.

    The system releases it too, when the process ends. It is SQLite's exclusive lock on an empty
    file beside the journal, because that works on every platform.

    Raises:
        JournalInUseError: another process holds it.
        sqlite3.Error, OSError: the file of the lock cannot be used.
    """
    path = Path(f"{file}{_LOCK}")
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    create(path)
    # Waits a moment, because is_written() reads the file.
    lock = sqlite3.connect(path, timeout=1, check_same_thread=False, isolation_level=None)
    with _closed_on_failure(lock):
        try:
            lock.execute("BEGIN EXCLUSIVE")
        except sqlite3.OperationalError as error:
            if _code(error) != sqlite3.SQLITE_BUSY:
                raise
            raise JournalInUseError(
                f"another exporter, or 'approve', writes the journal {file}: "
                "stop it or let it end, or give this one its own --journal.path"
            ) from None
        return lock


def is_written(path: Path) -> bool:
    """Return whether an exporter has the journal at ``path``. Creates nothing and takes no lock."""
    lock = Path(f"{file_path(path)}{_LOCK}")
    try:
        with closing(
            sqlite3.connect(f"{lock.absolute().as_uri()}?mode=ro", uri=True, timeout=0)
        ) as connection:
            connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    except sqlite3.Error as error:
        return _code(error) == sqlite3.SQLITE_BUSY
    return False


class JournalFile:
    """The file of one exporter's journal. Once it is constructed, one thread uses it.

    Attributes:
        state: what earlier runs have left, also on a disk that cannot be written; nothing if it
            cannot be used.
        inbox: what the file had for the exporter's other threads then.
        unusable: why the file that is there is to be renamed, ``""`` if it is not.
    """

    def __init__(self, path: Path, log: logging.Logger) -> None:
        """Take the lock, or leave that to :meth:`opened` if the disk does not work now, and read the file.

        Raises:
            JournalInUseError: another process holds it.
            ExporterError: somebody named a file that is none of ours.
        """
        if path.name != FILE_NAME and not Path(f"{path}{_LOCK}").exists():
            check_may_be_opened(path)  # such as /etc/passwd, which must not be renamed
        self.path = path
        self.state, self.inbox, self.unusable = State(), Inbox(), ""
        self._log = log
        self._store: Store | None = None
        self._files: list[tuple[int, int] | None] = [
            None
        ]  # what was at the paths when they were last in use
        self._lock: sqlite3.Connection | None = None
        with suppress(sqlite3.Error, OSError):
            self._lock = writer_lock(path)
        try:
            self._files = self._found()
            if self._files[0]:
                with suppress(NothingWrittenError), closing(_open_to_read(self.path)) as store:
                    store.check()
                    self.state, self.inbox = store.restore(), store.inbox()
        except FAILURES as error:
            self.unusable = (
                reason(error)
                if is_damage(error)
                else f"it could not be read at the start: {reason(error)}"
            )

    def opened(self) -> Store:
        """Return the tables, opened for writing if they are not; what is :attr:`unusable` is renamed before that.

        Call :meth:`failed` after any failure.

        Raises:
            JournalInUseError: another process has taken the lock. sqlite3.Error,
            UnicodeDecodeError: it cannot be used; :func:`is_damage` returns whether it is damaged.
            OSError: it cannot be reached, was removed or replaced, or the disk is full.
        """
        found, before = self._found(), self._files
        if self._store is not None and not self.unusable:
            _check_room(self.path.parent)
            if found != before:
                self._store.connection.execute(
                    "PRAGMA wal_checkpoint(FULL)"
                )  # its log alone may have been removed
                raise OSError(errno.ESTALE, "its files were removed or replaced")
            return self._store
        self.close(keeps_lock=found[-1] == before[-1])
        folder = next(each for each in self.path.parents if each.exists())
        if before[0] and not found[0] and before[0][0] != folder.stat().st_dev:
            raise OSError(
                errno.ENODEV,
                "the file system that the journal was on is not mounted",
                str(self.path),
            )
        if self._lock is None:
            self._lock = writer_lock(self.path)
        if self.unusable:
            self._set_aside()
        create(self.path)
        self._store = _open(self.path, _WRITING, 1.0)
        self._files = self._found()
        return self._store

    def close(self, *, keeps_lock: bool = False) -> None:
        """Close the file, and release the lock unless it is kept."""
        if self._store is not None:
            self._store.close()
            self._store = None
        if self._lock is not None and not keeps_lock:
            self._lock.close()
            self._lock = None

    def failed(self, error: Exception) -> None:
        """Close the file.

        The lock of a read-only file system is released: otherwise it could not be unmounted.
        """
        self.close(keeps_lock=not isinstance(error, OSError) or error.errno != errno.EROFS)

    def _set_aside(self) -> None:
        """Rename the file with its logs and documents, so that no data is lost. Raises OSError."""
        aside = self.path.with_name(
            f"{self.path.name}.set-aside-{datetime.now(UTC):%Y%m%dT%H%M%S.%f}"
        )
        if any(self._found()[:-1]):  # not the lock
            for suffix in ("", *_LOGS, ".documents", ".documents.old"):
                with suppress(FileNotFoundError):
                    Path(f"{self.path}{suffix}").replace(f"{aside}{suffix}")
            message = "journal cannot be used: set aside, and a new one begun"
            self._log.error(
                message, extra=facts(path=self.path, set_aside=aside, error=self.unusable)
            )
        self.unusable = ""

    def _found(self) -> list[tuple[int, int] | None]:
        return [_identity(f"{self.path}{suffix}") for suffix in ("", *_LOGS, _LOCK)]
