"""The journal's file: where it is, who may write it, and when it is renamed because it cannot be used.

Opens SQLite databases and handles files and the lock. Must not read or write tables (``journal.store``), or decide when
to try again (``journal.journal``).

SQLite writes the journal in WAL mode, so no reader delays the writer. Two precautions belong to that mode. It maps the
file ``-shm`` into memory, and a mapped page that finds no room on a full file system ends the process with SIGBUS. So
nothing writes while less than :data:`ROOM_BYTES` are free, and readers map the file read-only.
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

from azure_scheduled_events_exporter.errors import DamagedTextError, ExporterError, JournalInUseError, NotUsableError
from azure_scheduled_events_exporter.logs import facts

from .store import APPLICATION_ID, SCHEMA_VERSION, State, Store

FILE_NAME = "journal.sqlite"
MEMORY = "memory"
"""The value of ``--journal.path`` for a journal without a file."""
ROOM_BYTES = 256 << 10
"""With less free space, the disk counts as full: a write may map 32 KiB, and other programs write too."""

FAILURES = (sqlite3.Error, OSError, DamagedTextError, UnicodeDecodeError)
"""Errors of reads and writes that a file or a disk can cause. A message of SQLite may quote bytes that are no UTF-8."""

_LOGS = ("-wal", "-shm")
"""SQLite's files beside a database in WAL mode. The content of the first may not be in the database yet."""
_LOCK = ".lock"
# SQLITE_ERROR is what a missing table gives. All other codes mean trouble with the disk, which may pass.
_DAMAGED = frozenset({sqlite3.SQLITE_ERROR, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})


def file_path(path: Path) -> Path:
    """Return the journal's file for ``--journal.path``: a file, or a folder to put it in.

    Symbolic links are followed, so that different paths to one journal use the same lock.
    """
    try:
        is_folder = path.is_dir() or (not path.suffix and not path.is_file())
    except OSError:  # not reachable: opening it reports the error
        is_folder = not path.suffix
    return Path(os.path.realpath(path / FILE_NAME if is_folder else path))


def lock_path(file: Path) -> Path:
    """Return the file of the lock of the journal's ``file``."""
    return file.with_name(file.name + _LOCK)


def identity(path: Path | str) -> tuple[int, int] | None:
    """Return device and inode of the file at ``path``, which tell whether it was replaced; None if there is none.

    Raises OSError: it cannot be reached.
    """
    try:
        found = os.stat(path)  # noqa: PTH116 - at every poll, where making a Path costs more than asking the system
    except (FileNotFoundError, NotADirectoryError):
        return None
    return found.st_dev, found.st_ino


def is_damage(error: Exception) -> bool:
    """Return whether a file's content is damaged; otherwise the disk failed, and may work again later."""
    if isinstance(error, sqlite3.Error):
        return isinstance(error, NotUsableError) or _code(error) in _DAMAGED
    return isinstance(error, DamagedTextError | UnicodeDecodeError)


def reason(error: Exception) -> str:
    """Return the message of ``error`` without Python's error numbers and file names."""
    return (error.strerror or str(error)) if isinstance(error, OSError) else str(error)


def _code(error: sqlite3.Error) -> int:
    """Return SQLite's primary result code of ``error``; 0 if it has none."""
    return int(getattr(error, "sqlite_errorcode", 0)) & 0xFF


@contextmanager
def closed_on_failure(connection: sqlite3.Connection) -> Iterator[None]:
    """Close the connection if the block fails; otherwise the caller closes it."""
    try:
        yield
    except BaseException:
        connection.close()
        raise


def _check_ours(connection: sqlite3.Connection) -> bool:
    """Refuse a file of another program, or of another schema; return False if nothing has been written to it."""
    if not connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
        return False
    if connection.execute("PRAGMA application_id").fetchone()[0] != APPLICATION_ID:
        raise NotUsableError("it is another program's SQLite file, or of a version before the first release")
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    if version != SCHEMA_VERSION:
        raise NotUsableError(f"it is of another version (schema {version}, known here is {SCHEMA_VERSION})")
    return True


def _check_room(folder: Path) -> None:
    """Raise OSError if the file system of ``folder`` is full."""
    found = shutil.disk_usage(folder)  # what is reserved for root does not count: a mapped page may not get it
    if found.free < ROOM_BYTES and found.total:  # some network file systems do not say
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(folder))


def _connect(file: Path, how: str, seconds: float = 5.0) -> sqlite3.Connection:
    """Return a connection that waits so long for locks, and reads a text that is not UTF-8 as a damaged one."""
    uri = f"{file.absolute().as_uri()}?{how}"
    connection = sqlite3.connect(uri, uri=True, timeout=seconds, check_same_thread=False)
    connection.text_factory = lambda content: content.decode(errors="replace")
    return connection


def connect_to_read(file: Path) -> sqlite3.Connection:
    """Return a connection that writes nothing, not even beside the file: it works on a full or read-only disk.

    Raises sqlite3.Error, OSError: the file cannot be read.
    """
    if Path(f"{file}-shm").exists():
        return _connect(file, "mode=ro&readonly_shm=1")
    if Path(f"{file}-wal").exists():  # a copy without -shm, which SQLite makes anew
        _check_room(file.parent)
        return _connect(file, "mode=ro")
    return _connect(file, "mode=ro" if identity(f"{file}-journal") else "mode=ro&immutable=1")


def read_only(path: Path) -> Store:
    """Return the journal at ``path`` for reading, also beside a running exporter.

    Raises ExporterError: there is none, or it cannot be read.
    """
    file = file_path(path)
    try:
        if not file.exists():
            raise ExporterError(f"there is no journal at {file}: has an exporter run here? (--journal.path)")
        with closed_on_failure(connection := connect_to_read(file)):
            if not _check_ours(connection):
                raise NotUsableError("nothing has been written to it yet")
            return Store(connection)
    except FAILURES as error:
        raise ExporterError(f"the journal {file} cannot be read: {reason(error)}") from None


def check_may_be_opened(path: Path) -> None:
    """Refuse a file that is no journal of this version: an exporter that opened it would rename it.

    Raises ExporterError: it is another program's, of another version, or damaged in its first bytes.
    """
    file = file_path(path)
    try:
        with closing(connect_to_read(file)) as connection:
            _check_ours(connection)
    except FAILURES as error:
        if is_damage(error):
            raise ExporterError(f"{file} cannot be used as --journal.path: {reason(error)}") from None


def writable(path: Path) -> Store:
    """Return the journal at ``path`` for handing facts to an exporter. Raises ExporterError: it cannot be written."""
    file = file_path(path)
    try:
        _check_room(file.parent)
        with closed_on_failure(connection := _connect(file, "mode=rw")):
            connection.execute("PRAGMA synchronous = FULL")
            _check_ours(connection)
            connection.execute("BEGIN IMMEDIATE")
            connection.rollback()
            return Store(connection)
    except FAILURES as error:
        hint = "" if os.access(file, os.W_OK) else "; try as root"
        if isinstance(error, sqlite3.Error) and _code(error) == sqlite3.SQLITE_BUSY:
            hint = " by a process that does not end its write; restart the exporter if it hangs, and try again"
        raise ExporterError(f"the journal {file} cannot be written: {reason(error)}{hint}") from None


def create(path: Path) -> None:
    """Create the file if missing, for its owner only: other users must not read the events of this VM.

    It belongs to the folder's owner: a service must be able to use what root created. SQLite gives its other files the
    same mode.
    """
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


def set_aside(path: Path) -> Path:
    """Rename a file with its logs and documents, so that no data is lost; return its new name. Raises OSError."""
    aside = path.with_name(f"{path.name}.set-aside-{datetime.now(UTC):%Y%m%dT%H%M%S.%f}")
    for suffix in ("", *_LOGS, ".documents", ".documents.old"):
        with suppress(FileNotFoundError):
            Path(f"{path}{suffix}").replace(f"{aside}{suffix}")
    return aside


class WriterLock:
    """The lock that makes this process the journal's only writer; the system releases it when the process ends.

    It is SQLite's exclusive lock on an empty file beside the journal, because that works on every platform.
    """

    def __init__(self, file: Path) -> None:
        """Take the lock of the journal's ``file``.

        Raises:
            JournalInUseError: another process holds it.
            sqlite3.Error, OSError: the file of the lock cannot be used.
        """
        self._path = lock_path(file)
        self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        create(self._path)
        # Waits a moment, because is_written() reads the file.
        self._connection = sqlite3.connect(self._path, timeout=1, check_same_thread=False, isolation_level=None)
        with closed_on_failure(self._connection):
            try:
                self._connection.execute("BEGIN EXCLUSIVE")
            except sqlite3.OperationalError as error:
                if _code(error) != sqlite3.SQLITE_BUSY:
                    raise
                raise JournalInUseError(
                    f"another exporter, or 'approve', writes the journal {file}: "
                    "stop it or let it end, or give this one its own --journal.path"
                ) from None
        self._identity = identity(self._path)

    def holds(self) -> bool:
        """Return whether the locked file is still the one at its path. Raises OSError: the path cannot be read."""
        return identity(self._path) == self._identity

    def release(self) -> None:
        """Release the lock, so that another process can write the journal."""
        with suppress(sqlite3.Error):
            self._connection.close()


def is_written(path: Path) -> bool:
    """Return whether an exporter has the journal at ``path``. Creates nothing and takes no lock."""
    lock = lock_path(file_path(path))
    try:
        with closing(sqlite3.connect(f"{lock.absolute().as_uri()}?mode=ro", uri=True, timeout=0)) as connection:
            connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    except sqlite3.Error as error:
        return _code(error) == sqlite3.SQLITE_BUSY
    return False


def _device(folder: Path) -> int:
    """Return the device of the file system that ``folder`` is on, or would be on if it were made."""
    return next(each for each in (folder, *folder.parents) if each.exists()).stat().st_dev


class JournalFile:
    """The file of one exporter's journal. Once it is constructed, one thread uses it.

    Attributes:
        path: of the file.
        found: what earlier runs have left, also on a disk that cannot be written; nothing if it cannot be used.
        spans: how many spans of earlier runs wait.
        last_number: of the newest transition in the file.
        unusable: why the file that is there is to be renamed, ``""`` if it is not.
        store: its tables, while it is open.
    """

    def __init__(self, path: Path, log: logging.Logger) -> None:
        """Take the lock, or leave that to :meth:`opened` if the disk does not work now, and read the file.

        Raises:
            JournalInUseError: another process holds it.
            ExporterError: somebody named a file that is none of ours.
        """
        if path.name != FILE_NAME and not lock_path(path).exists():
            check_may_be_opened(path)  # such as /etc/passwd, which must not be renamed
        self.path = path
        self.found, self.spans, self.unusable = State(), 0, ""
        self.store: Store | None = None
        self._log = log
        self._lock: WriterLock | None = None
        self._identities: list[tuple[int, int] | None] = []
        self._device: int | None = None  # that the file was found on
        with suppress(sqlite3.Error, OSError):
            self._lock = WriterLock(path)
        try:
            self._read()
        except FAILURES as error:
            self.unusable = reason(error) if is_damage(error) else f"it could not be read at the start: {reason(error)}"
        self.last_number = self.found.last_number

    def _read(self) -> None:
        if not self.path.exists() or not self.path.stat().st_size:
            return
        with closing(connect_to_read(self.path)) as connection:
            is_begun, self._device = _check_ours(connection), self.path.stat().st_dev
            if not is_begun:
                return
            # Not quick_check: it does not compare indexes with tables, and SQLite finds no row whose key differs there.
            problem = connection.execute("PRAGMA integrity_check(1)").fetchone()[0]
            if problem != "ok":
                raise NotUsableError(problem)
            found, spans = Store(connection).restore(), Store(connection).spans_queued()
            if found.epoch:
                self.found, self.spans = found, spans

    def opened(self, epoch: str) -> Store:
        """Return the tables, opened for writing if they are not; what is :attr:`unusable` is renamed before that.

        Call :meth:`close` after any failure. ``epoch`` identifies the numbers that are to go on.

        Raises:
            JournalInUseError: another process has taken the lock.
            sqlite3.Error, UnicodeDecodeError: it cannot be used; :func:`is_damage` returns whether it is damaged.
            OSError: it cannot be reached, was removed or replaced, or the disk is full.
        """
        if self.unusable:
            self.close()
        if self.store is not None:
            _check_room(self.path.parent)
            if self._found() != self._identities:
                self.store.connection.execute("PRAGMA wal_checkpoint(FULL)")  # its log alone may have been removed
                raise OSError(errno.ESTALE, "its files were removed or replaced")
            return self.store
        if self._device is not None and not self.path.exists() and _device(self.path.parent) != self._device:
            raise OSError(errno.ENODEV, "the file system that the journal was on is not mounted", str(self.path))
        if self._lock is None or not self._lock.holds():
            self.release()
            self._lock = WriterLock(self.path)
        if self.unusable:
            self._set_aside()
        _check_room(self.path.parent)
        create(self.path)
        with closed_on_failure(connection := _connect(self.path, "mode=rw", 1.0)):
            _check_ours(connection)
            # Not before it is known to be ours: this writes to the file.
            connection.execute("PRAGMA journal_mode = WAL")
            # NORMAL can lose committed transitions in a power failure, and an event can be a power failure.
            connection.execute("PRAGMA synchronous = FULL")
            store = Store(connection)
            found = store.epoch()
            if found and (found != epoch or store.last_number() < self.last_number):
                raise NotUsableError("an older copy of the journal, or another one, is in its place")
        self.store, self._identities, self._device = store, self._found(), self.path.stat().st_dev
        return store

    def close(self) -> None:
        """Close the file, and keep the lock."""
        if self.store is not None:
            with suppress(sqlite3.Error):
                self.store.close()
        self.store = None

    def leave_read_only(self) -> None:
        """Release the lock if the file system is read-only: otherwise it could not be unmounted."""
        probe = self.path.with_name(f"{self.path.name}.probe")  # the mount's flags do not show an error of the disk
        try:
            create(probe)
            probe.unlink()
        except OSError as error:
            if error.errno == errno.EROFS:
                self.release()

    def release(self) -> None:
        """Release the lock."""
        if self._lock is not None:
            self._lock.release()
        self._lock = None

    def _set_aside(self) -> None:
        if any(identity(f"{self.path}{suffix}") for suffix in ("", *_LOGS)):
            aside = set_aside(self.path)
            message = "journal cannot be used: set aside, and a new one begun"
            self._log.error(message, extra=facts(path=self.path, set_aside=aside, error=self.unusable))
        self.unusable = ""

    def _found(self) -> list[tuple[int, int] | None]:
        return [identity(f"{self.path}{suffix}") for suffix in ("", *_LOGS, _LOCK)]
