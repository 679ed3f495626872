"""The journal's file: where it is, who may write it, and when it is set aside.

Opens SQLite databases and handles files and the lock. Must not read or write tables
(``journal.store``), or decide when to try again (``journal.journal``).

SQLite writes the journal in WAL mode, so no reader delays the writer. Two precautions belong to
that mode. It maps the file ``-shm`` into memory, and a mapped page that finds no room on a full
file system ends the process with SIGBUS. So nothing writes while less than :data:`ROOM_BYTES` are
free, and readers map the file read-only.

A file that cannot be read now may be sound. It is renamed only if a check that read all of it has
found damage, or if it is another VM's, another program's or another version's.
"""

import errno
import logging
import os
import shutil
import sqlite3
import stat
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

from azure_scheduled_events_exporter.errors import (
    DamagedTextError,
    ExporterError,
    JournalInUseError,
    NotUsableError,
    UsageError,
)
from azure_scheduled_events_exporter.logs import facts

from .folder_owner import as_folder_owner, follows
from .inbox import Inbox
from .store import NothingWrittenError, Remembered, Store

FILE_NAME = "journal.sqlite"
MEMORY = "memory"
"""The value of ``--journal.path`` for a journal without a file."""
ROOM_BYTES = 256 << 10
"""With less free space, the disk counts as full.

A write may map 32 KiB, and other programs write too.
"""
LARGEST_LOG_BYTES = 64 << 20
"""The most that the write-ahead log may take: while a process reads, it cannot be merged."""

FAILURES = (sqlite3.Error, OSError, DamagedTextError, UnicodeDecodeError)
"""Errors of reads and writes that a file or a disk can cause.

A message of SQLite may quote bytes that are no UTF-8.
"""

_LOGS = ("-wal", "-shm")
"""SQLite's files beside a database in WAL mode.

The content of the first may not be in the database yet.
"""
_LOCK = ".lock"
_DOCUMENTS = (".documents", ".documents.old")
# How SQLite opens a file. Only the first and the third may write -shm, which the third makes anew.
_WRITING = "rw"
_BESIDE_A_WRITER = "ro&readonly_shm=1"
_COPY = "ro"
_CLOSED = "ro&immutable=1"
# SQLITE_ERROR is what a missing table or column gives. All other codes mean trouble with the disk,
# which may pass.
_DAMAGED = frozenset({sqlite3.SQLITE_ERROR, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})


def file_path(path: Path) -> Path:
    """Return the journal's file for ``--journal.path``: a file, or a folder to put it in.

    Symbolic links are followed, so that different paths to one journal use the same lock. Root
    follows no link of another user to the file.
    """
    # Not Path's methods, which raise if it cannot be reached: opening it reports that.
    is_folder = os.path.isdir(path) or not (path.suffix or os.path.isfile(path))  # noqa: PTH112, PTH113
    named = path / FILE_NAME if is_folder else path
    file = Path(os.path.realpath(named.parent), named.name)
    return Path(os.path.realpath(file)) if follows(file) else file


@dataclass(frozen=True, slots=True)
class _Identity:
    """Which file is at a path."""

    device: int
    inode: int


def _identity(path: Path | str) -> _Identity | None:
    """Return which file is at ``path``; None if there is none.

    Raises:
        OSError: it cannot be reached.
    """
    try:
        found = os.stat(path)  # noqa: PTH116 - at every poll, where making a Path costs more
    except (FileNotFoundError, NotADirectoryError):
        return None
    return _Identity(found.st_dev, found.st_ino)


@dataclass(frozen=True, slots=True)
class Restored:
    """What was read from a file at the start.

    Attributes:
        remembered: what earlier runs have left.
        inbox: what the file has for the exporter's other threads.
        problem: why the file cannot be written now, ``""`` if it can.
    """

    remembered: Remembered = field(default_factory=Remembered)
    inbox: Inbox = field(default_factory=Inbox)
    problem: str = ""


@dataclass(frozen=True, slots=True)
class _Files:
    """Which files are at the paths of a journal."""

    journal: _Identity | None = None
    log: _Identity | None = None
    log_index: _Identity | None = None
    lock: _Identity | None = None


def may_be_damage(error: Exception) -> bool:
    """Return whether the content of a file may have caused ``error``: a check has to prove it.

    Otherwise the disk failed, and may work again later.
    """
    is_content = isinstance(error, NotUsableError | DamagedTextError | UnicodeDecodeError)
    return is_content or _code(error) in _DAMAGED


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
    # What is reserved for root does not count: a mapped page may not get it.
    found = shutil.disk_usage(folder)
    if found.free < ROOM_BYTES and found.total:  # some network file systems do not say
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(folder))


def _open(file: Path, how: str, seconds: float = 5.0, *, creates: bool = True) -> Store:
    """Return the tables, which wait so long for locks.

    Text that is not UTF-8 is read as damaged text. If the file is opened for writing, its tables
    are created if it ``creates`` and there are none.
    """
    if how in {_WRITING, _COPY}:
        _check_room(file.parent)
    uri = f"{file.absolute().as_uri()}?mode={how}"
    with as_folder_owner(file.parent):
        connection = sqlite3.connect(uri, uri=True, timeout=seconds, check_same_thread=False)
        connection.text_factory = lambda content: content.decode(errors="replace")
        with _closed_on_failure(connection):
            return Store(connection, writes=creates and how == _WRITING)


def _open_to_read(file: Path) -> Store:
    """Return the tables, so opened that a full or read-only disk can be read.

    Nothing is written beside the file.
    """
    if Path(f"{file}-shm").exists():
        return _open(file, _BESIDE_A_WRITER)
    has_log = any(Path(f"{file}{suffix}").exists() for suffix in ("-wal", "-journal"))
    return _open(file, _COPY if has_log else _CLOSED)


def proven_damage(file: Path) -> str:
    """Read all of ``file`` over a new connection; return why it cannot be used.

    Returns:
        ``""`` if it is sound, or if it could not be read to the end: then nothing is proven.
    """
    for how in (_WRITING, _BESIDE_A_WRITER, _COPY):
        try:
            with closing(_open(file, how, 1.0, creates=False)) as store:
                store.check()
                return ""
        except NothingWrittenError:
            return ""
        except FAILURES as error:
            if may_be_damage(error):
                return reason(error)
    return ""


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


def _check_kind(path: Path) -> None:
    """Raise UsageError if ``path`` is a pipe or a device: SQLite would wait for its other end."""
    with suppress(OSError):  # what cannot be reached now may be later
        mode = path.stat().st_mode
        if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
            raise UsageError(
                f"--journal.path: {path}: is a pipe or a device: name a regular file or a folder"
            )


def check_may_be_opened(path: Path) -> None:
    """Refuse a file that is no journal of this version: an exporter that opened it would rename it.

    Raises:
        ExporterError: it is another program's, of another version, or damaged in its first bytes.
        UsageError: it is a pipe or a device.
    """
    _check_kind(path)
    file = file_path(path)
    try:
        with suppress(NothingWrittenError):
            _open_to_read(file).close()
    except FAILURES as error:
        if may_be_damage(error):
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
    """Create the file if it is missing, readable by its owner only.

    Other users must not read the events of this VM.

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
            with suppress(PermissionError):  # a container's root may give nothing away
                os.fchown(descriptor, folder.st_uid, folder.st_gid)
    finally:
        os.close(descriptor)


def prepare(path: Path) -> None:
    """Create the journal at ``path`` if it is missing, and no exporter writes it.

    Whatever fails is no error: the exporter does the same.
    """
    with suppress(JournalInUseError, *FAILURES):
        file = file_path(path)
        with closing(writer_lock(file)), as_folder_owner(file.parent):
            create(file)
            _open(file, _WRITING).close()


def writer_lock(file: Path) -> sqlite3.Connection:
    """Take the lock that makes this process the only writer of the journal's ``file``.

    Closing the result releases it. The system releases it too, when the process ends. It is
    SQLite's exclusive lock on an empty file beside the journal, because that works on every
    platform.

    Raises:
        JournalInUseError: another process holds it.
        sqlite3.Error, OSError: the file of the lock cannot be used, or the file system has no
            locks.
    """
    path = Path(f"{file}{_LOCK}")
    with as_folder_owner(path.parent):
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        create(path)
        try:
            return _locked(path, 0.3)  # waits a moment, because is_written() reads the file
        except sqlite3.OperationalError as error:
            if _code(error) != sqlite3.SQLITE_BUSY:
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


def _locked(path: Path, seconds: float) -> sqlite3.Connection:
    """Take SQLite's exclusive lock on the file at ``path`` within ``seconds``."""
    lock = sqlite3.connect(path, timeout=seconds, check_same_thread=False, isolation_level=None)
    with _closed_on_failure(lock):
        lock.execute("BEGIN EXCLUSIVE")
        return lock


def _has_locks(folder: Path) -> bool:
    """Return whether a file in ``folder`` that nobody else knows can be locked."""
    try:
        with tempfile.NamedTemporaryFile(dir=folder, prefix=".lock-test-") as file:
            _locked(Path(file.name), 0.0).close()
    except (sqlite3.OperationalError, OSError) as error:
        # Anything else, such as a full disk, says nothing about locks.
        return _code(error) != sqlite3.SQLITE_BUSY
    return True


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
    """The file of one exporter's journal. One thread uses it.

    Attributes:
        path: of the file; set by :meth:`locate`.
        unusable: why the file that is there is to be renamed, ``""`` if it is not.
    """

    def __init__(self, path: Path, log: logging.Logger) -> None:
        """Take note of the value of ``--journal.path``. Nothing is opened before :meth:`locate`."""
        self.path = path
        self.unusable = ""
        self._log = log
        self._store: Store | None = None
        self._files = _Files()  # what was at the paths when they were last in use
        self._lock: sqlite3.Connection | None = None

    def locate(self) -> None:
        """Find the file.

        Raises:
            ExporterError: somebody named a file that is none of ours, such as /etc/passwd, which
                must not be renamed.
        """
        _check_kind(self.path)
        path = file_path(self.path)
        if path.name != FILE_NAME and not Path(f"{path}{_LOCK}").exists():
            check_may_be_opened(path)
        self.path = path

    def restored(self) -> Restored:
        """Take the lock, and return what the file has.

        It is read through the connection that writes: SQLite does not open every sound file
        read-only. Only if the disk cannot be written, the file is read without writing.

        Raises:
            JournalInUseError: another process holds the lock.
            sqlite3.Error, OSError, DamagedTextError, UnicodeDecodeError: it cannot be read now.
        """
        try:
            self._take_lock()
            if not self._has_content():  # to create it takes time, and there is nothing to read
                return Restored()
            store = self.opened()
            return Restored(store.restore(), store.inbox())
        except FAILURES as error:
            problem = reason(error)
            self.failed(error)
            if may_be_damage(error):
                raise
        if self.unusable or not self._has_content():
            return Restored(problem=problem)
        self._files = self._found()
        with closing(_open_to_read(self.path)) as store:
            return Restored(store.restore(), store.inbox(), problem)

    def _take_lock(self) -> None:
        """Become the only writer of the file, if this process is not."""
        if self._lock is None:
            self._lock = writer_lock(self.path)
            self._files = replace(self._files, lock=_identity(f"{self.path}{_LOCK}"))

    def _has_content(self) -> bool:
        """Return whether there is a file with at least one byte.

        Raises:
            OSError: that cannot be known now.
        """
        try:
            return self.path.stat().st_size > 0
        except (FileNotFoundError, NotADirectoryError):
            return False

    def opened(self) -> Store:
        """Return the tables, opened for writing if they are not.

        What is :attr:`unusable` is renamed before that. Call :meth:`failed` after any failure.

        Raises:
            JournalInUseError: another process has taken the lock.
            sqlite3.Error, UnicodeDecodeError: it cannot be used.
            OSError: it cannot be reached, was removed or replaced, or the disk is full.
        """
        found = self._found()
        before = self._files
        if self._store is not None and not self.unusable:
            _check_room(self.path.parent)
            self._check_log(self._store)
            if found != before:
                # Its log alone may have been removed.
                self._store.connection.execute("PRAGMA wal_checkpoint(FULL)")
                raise OSError(errno.ESTALE, "its files were removed or replaced")
            return self._store
        self.close(keeps_lock=found.lock == before.lock)
        folder = next(each for each in self.path.parents if each.exists())
        was_there = before.journal is not None and found.journal is None
        if was_there and before.journal and before.journal.device != folder.stat().st_dev:
            raise OSError(
                errno.ENODEV,
                "the file system that the journal was on is not mounted",
                str(self.path),
            )
        self._take_lock()
        if self.unusable:
            self._set_aside()
        create(self.path)
        self._store = _open(self.path, _WRITING, 1.0)
        self._files = self._found()
        return self._store

    def _check_log(self, store: Store) -> None:
        """Raise OSError if the write-ahead log is too large, and cannot be merged now."""
        log = Path(f"{self.path}-wal")
        with suppress(FileNotFoundError):
            if log.stat().st_size <= LARGEST_LOG_BYTES:
                return
            store.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            if log.stat().st_size > LARGEST_LOG_BYTES:
                why = "its -wal file is too large: end the process that keeps the journal open"
                raise OSError(errno.EFBIG, why, str(log))

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
        moment = f"{datetime.now(UTC):%Y%m%dT%H%M%S.%f}"
        aside = self.path.with_name(f"{self.path.name}.set-aside-{moment}")
        if any(_identity(f"{self.path}{suffix}") for suffix in ("", *_LOGS)):
            for suffix in ("", *_LOGS, *_DOCUMENTS):
                with suppress(FileNotFoundError):
                    Path(f"{self.path}{suffix}").replace(f"{aside}{suffix}")
            message = "journal cannot be used: set aside, and a new one begun"
            self._log.error(
                message, extra=facts(path=self.path, set_aside=aside, error=self.unusable)
            )
        self.unusable = ""

    def _found(self) -> _Files:
        """Return which files are there now."""
        found = [_identity(f"{self.path}{suffix}") for suffix in ("", *_LOGS, _LOCK)]
        return _Files(*found)
