"""The journal's file: where it is, who may write it, and when it is renamed because it cannot be used.

Opens SQLite databases and handles files and the lock. Must not read or write tables (``journal.store``), or decide when
to try again (``journal.journal``).

SQLite writes the journal in WAL mode, so no reader delays the writer. Two precautions belong to that mode. It maps the
file ``-shm`` into memory, and a mapped page that finds no room on a full file system ends the process with SIGBUS. So
nothing writes while less than :data:`ROOM_BYTES` are free, and readers map the file read-only.
"""

import errno
import itertools
import logging
import os
import shutil
import sqlite3
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from azure_scheduled_events_exporter.errors import (
    DamagedTextError,
    ExporterError,
    JournalInUseError,
    NotUsableError,
    one_line,
)
from azure_scheduled_events_exporter.logs import facts

from .store import APPLICATION_ID, SCHEMA_VERSION, State, Store

FILE_NAME = "journal.sqlite"
MEMORY = "memory"
"""The value of ``--journal.path`` for a journal without a file."""
ROOM_BYTES = 256 << 10
"""With less free space, the disk counts as full: a write may map 32 KiB, and other programs write too."""

FAILURES = (sqlite3.Error, OSError, DamagedTextError)
"""Errors of reads and writes that a file or a disk can cause."""

_LOGS = ("-wal", "-shm")
"""SQLite's files beside a database in WAL mode. The content of the first may not be in the database yet."""
# SQLITE_ERROR is what a missing table gives. All other codes mean trouble with the disk, which may pass.
_DAMAGED = frozenset({sqlite3.SQLITE_ERROR, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})
_NO_TEXT = "Could not decode to UTF-8"
"""The beginning of the message of Python's sqlite3 if a text is not UTF-8. This error has no code."""


class FileIdentity(NamedTuple):
    """Identifies a file, so that a file that was removed or replaced is detected."""

    device: int
    inode: int


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
    return file.with_name(file.name + ".lock")


def identity(path: Path | str) -> FileIdentity | None:
    """Return the identity of the file at ``path`` now; None if there is none. Raises OSError: it cannot be reached."""
    try:
        found = os.stat(path)  # noqa: PTH116 - at every poll, where making a Path costs more than asking the system
    except (FileNotFoundError, NotADirectoryError):
        return None
    return FileIdentity(found.st_dev, found.st_ino)


def is_damage(error: Exception) -> bool:
    """Return whether a file's content is damaged; otherwise the disk failed, and may work again later."""
    if isinstance(error, sqlite3.Error):
        return isinstance(error, NotUsableError) or _code(error) in _DAMAGED or str(error).startswith(_NO_TEXT)
    return isinstance(error, DamagedTextError)


def reason(error: Exception) -> str:
    """Return the message of ``error`` without Python's error numbers and file names."""
    return (error.strerror or str(error)) if isinstance(error, OSError) else str(error)


def _code(error: sqlite3.Error) -> int:
    """Return SQLite's primary result code of ``error``; 0 if it has none."""
    return int(getattr(error, "sqlite_errorcode", 0)) & 0xFF


@contextmanager
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


def check_sound(connection: sqlite3.Connection) -> None:
    """Raise NotUsableError if the database is damaged."""
    # Not quick_check: it does not compare indexes with tables, and SQLite finds no row whose key differs there.
    problem = connection.execute("PRAGMA integrity_check(1)").fetchone()[0]
    if problem != "ok":
        raise NotUsableError(problem)


def _check_ours(connection: sqlite3.Connection) -> None:
    """Refuse a file of another program, or of another schema; an empty one is fine."""
    if not connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
        return
    if connection.execute("PRAGMA application_id").fetchone()[0] != APPLICATION_ID:
        raise NotUsableError("it is another program's SQLite file, or of a version before the first release")
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    if version != SCHEMA_VERSION:
        raise NotUsableError(f"it is of another version (schema {version}, known here is {SCHEMA_VERSION})")


def _check_room(folder: Path) -> None:
    """Raise OSError if the file system of ``folder`` is full."""
    found = shutil.disk_usage(folder)  # what is reserved for root does not count: a mapped page may not get it
    if found.free < ROOM_BYTES and found.total:  # some network file systems do not say
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(folder))


def connect_to_read(file: Path) -> sqlite3.Connection:
    """Return a connection that writes nothing, not even beside the file: it works on a full or read-only disk.

    Raises:
        sqlite3.Error, OSError: the file cannot be read.
    """
    if Path(f"{file}-shm").exists():
        how = "mode=ro&readonly_shm=1"
    elif Path(f"{file}-wal").exists():  # a copy without -shm, which SQLite makes anew
        _check_room(file.parent)
        how = "mode=ro"
    else:
        how = "mode=ro" if identity(f"{file}-journal") else "mode=ro&immutable=1"
    return sqlite3.connect(f"{file.absolute().as_uri()}?{how}", uri=True, timeout=5, check_same_thread=False)


def _readable(file: Path) -> Store:
    with closed_on_failure(connection := connect_to_read(file)):
        _check_ours(connection)
        if not connection.execute("PRAGMA user_version").fetchone()[0]:
            raise NotUsableError("nothing has been written to it yet")
        return Store(connection)


def read_only(path: Path) -> Store:
    """Return the journal at ``path`` for reading, also beside a running exporter.

    Raises:
        ExporterError: there is none, or it cannot be read.
    """
    file = file_path(path)
    try:
        if not file.exists():
            raise ExporterError(f"there is no journal at {file}: has an exporter run here? (--journal.path)")
        return _readable(file)
    except (sqlite3.Error, OSError) as error:
        raise ExporterError(f"the journal {file} cannot be read: {reason(error)}") from None


def check_may_be_opened(path: Path) -> None:
    """Refuse a file that is no journal of this version: an exporter that opened it would rename it.

    Raises:
        ExporterError: it is another program's, of another version, or damaged in its first bytes.
    """
    file = file_path(path)
    try:
        with closing(connect_to_read(file)) as connection, closed_on_failure(connection):
            _check_ours(connection)
    except (sqlite3.Error, OSError) as error:
        if is_damage(error):
            raise ExporterError(f"{file} cannot be used as --journal.path: {reason(error)}") from None


def writable(path: Path) -> Store:
    """Return the journal at ``path`` for handing facts to the running exporter.

    Raises:
        ExporterError: it cannot be written.
    """
    file = file_path(path)
    try:
        _check_room(file.parent)
        connection = sqlite3.connect(f"{file.absolute().as_uri()}?mode=rw", uri=True, timeout=5)
        with closed_on_failure(connection):
            connection.execute("PRAGMA synchronous = FULL")
            _check_ours(connection)
            connection.execute("BEGIN IMMEDIATE")
            connection.rollback()
            return Store(connection)
    except (sqlite3.Error, OSError) as error:
        hint = "; try as root"
        if isinstance(error, sqlite3.Error) and _code(error) == sqlite3.SQLITE_BUSY:
            hint = " by a process that does not end its write; restart the exporter if it hangs, and try again"
        hint = "" if isinstance(error, NotUsableError) else hint
        raise ExporterError(f"the journal {file} cannot be written: {reason(error)}{hint}") from None


def open_to_write(file: Path) -> Store:
    """Open the journal's file, or create one; the caller holds :class:`WriterLock`.

    Raises:
        sqlite3.Error: it cannot be used; :func:`is_damage` returns whether its content is damaged.
        OSError: it cannot be reached, or the disk is full.
    """
    file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    _check_room(file.parent)
    create(file)
    connection = sqlite3.connect(file, timeout=1, check_same_thread=False)
    with closed_on_failure(connection):
        _check_ours(connection)
        # Not before it is known to be ours: this writes to the file.
        connection.execute("PRAGMA journal_mode = WAL")
        # NORMAL can lose committed transitions in a power failure, and an event can be a power failure.
        connection.execute("PRAGMA synchronous = FULL")
        return Store(connection)


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
    """Rename a file with its logs, so that no data is lost; return its new name. Raises OSError."""
    stem = f"{path.name}.set-aside-{time.strftime('%Y%m%dT%H%M%S', time.gmtime())}"
    more = itertools.chain([""], map(".{}".format, itertools.count(2)))
    names = (path.with_name(stem + suffix) for suffix in more)
    aside = next(name for name in names if not any(identity(f"{name}{suffix}") for suffix in ("", *_LOGS)))
    for suffix in ("", *_LOGS):
        with suppress(FileNotFoundError):
            Path(f"{path}{suffix}").replace(f"{aside}{suffix}")
    return aside


class WriterLock:
    """The lock that makes this process the journal's only writer; the system releases it when the process ends.

    Uses SQLite's locks on an empty file beside the journal, because they work on every platform. A reserved lock keeps
    other writers out. While the journal's file is written, it is an exclusive one, which :func:`is_written` finds.
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
        # Waits a moment, because is_written() holds the lock briefly.
        connection = sqlite3.connect(self._path, timeout=1, check_same_thread=False, isolation_level=None)
        with closed_on_failure(connection):
            try:
                connection.execute("BEGIN IMMEDIATE")
            except sqlite3.OperationalError as error:
                if _code(error) != sqlite3.SQLITE_BUSY:
                    raise
                raise JournalInUseError(
                    f"another exporter, or 'approve', writes the journal {file}: "
                    "stop it or let it end, or give this one its own --journal.path"
                ) from None
        self._connection = connection
        self._identity = identity(self._path)
        self._shows_writing = False

    def mark(self, *, is_written: bool) -> None:
        """Make :func:`is_written` return ``is_written``. Raises sqlite3.Error: the lock may be lost."""
        if is_written == self._shows_writing:
            return
        self._shows_writing = False
        self._connection.execute("ROLLBACK")
        if is_written:
            with suppress(sqlite3.OperationalError):  # somebody reads the file of the lock
                self._connection.execute("BEGIN EXCLUSIVE")
                self._shows_writing = True
                return
        self._connection.execute("BEGIN IMMEDIATE")

    def holds(self) -> bool:
        """Return whether the locked file is still the one at its path. Raises OSError: the path cannot be read."""
        return identity(self._path) == self._identity and self._connection.in_transaction

    def release(self) -> None:
        """Release the lock, so that another process can write the journal."""
        with suppress(sqlite3.Error):
            self._connection.close()


def is_written(path: Path) -> bool:
    """Return whether an exporter writes the file of the journal at ``path``. Creates nothing and takes no lock.

    While its disk fails, an exporter keeps its entries in memory, and this is False.
    """
    lock = lock_path(file_path(path))
    with (
        suppress(sqlite3.Error),
        closing(sqlite3.connect(f"{lock.absolute().as_uri()}?mode=ro", uri=True, timeout=0)) as db,
    ):
        try:
            db.execute("SELECT count(*) FROM sqlite_master").fetchone()
        except sqlite3.Error as error:
            return _code(error) == sqlite3.SQLITE_BUSY
    return False


def _device(folder: Path) -> int:
    """Return the device of the file system that ``folder`` is on, or would be on if it were made."""
    return next(each for each in (folder, *folder.parents) if each.exists()).stat().st_dev


def new_epoch() -> str:
    """Return a random id for the numbers of a new journal."""
    return os.urandom(4).hex()


class JournalFile:
    """The file of one exporter's journal. Except for :meth:`read`, one thread uses it.

    Attributes:
        path: of the file.
        written: the state in the file after the last write, with which a new file goes on if this one is lost.
        unusable: why the file that is there is to be renamed, ``""`` if it is not.
    """

    def __init__(self, path: Path, log: logging.Logger) -> None:
        """Take the lock.

        Raises:
            JournalInUseError: another process holds it.
            ExporterError: somebody named a file that is none of ours.
        """
        if path.name != FILE_NAME and not lock_path(path).exists():
            check_may_be_opened(path)  # such as /etc/passwd, which must not be renamed
        self.path = path
        self.written = State(epoch=new_epoch())
        self.unusable = ""
        self._log = log
        self._lock: WriterLock | None = None
        self._identities: list[FileIdentity | None] = []
        self._device: int | None = None  # that the file was found on
        with suppress(sqlite3.Error, OSError):  # open() tries again
            self._lock = WriterLock(path)

    def read(self) -> Store | None:
        """Return the file as it was left, for reading only; None if there is none, or if it is not usable."""
        try:
            if not self.path.exists() or not self.path.stat().st_size:
                return None
            store, self._device = _readable(self.path), self.path.stat().st_dev
            with closed_on_failure(store.connection):
                check_sound(store.connection)
                found = store.restore()
                self.written = found if found.epoch else self.written  # nothing has been written to it
        except FAILURES as error:
            self.unusable = reason(error) if is_damage(error) else f"it could not be read at the start: {reason(error)}"
            return None
        return store

    def open(self) -> Store:
        """Open the file for writing; one that is damaged, or does not go on from :attr:`written`, is renamed.

        Raises:
            JournalInUseError: another process has taken the lock.
            sqlite3.Error, OSError: the file cannot be used now.
        """
        if self._device is not None and not self.path.exists() and _device(self.path.parent) != self._device:
            raise OSError(errno.ENODEV, "the file system that the journal was on is not mounted", str(self.path))
        if self._lock is None or not self._lock.holds():
            self.release()
            self._lock = WriterLock(self.path)
        try:
            store = self._usable()
        except (sqlite3.Error, DamagedTextError) as error:
            if not is_damage(error):
                raise
            self._set_aside(reason(error))
            store = self._usable()
        if not store.epoch():
            store.write((), self.written, whole=True)
        self._identities, self._device = self._found(), self.path.stat().st_dev
        return store

    def _usable(self) -> Store:
        if self.unusable:
            self._set_aside(self.unusable)
        store = open_to_write(self.path)
        with closed_on_failure(store.connection):
            epoch = store.epoch()
            if epoch and (epoch != self.written.epoch or store.last_number() < self.written.last_number):
                raise NotUsableError("an older copy of the journal, or another one, is in its place")
        return store

    def check(self) -> bool:
        """Return whether the open files are still those at the path. Raises OSError: it is full or out of reach."""
        _check_room(self.path.parent)
        return self._found() == self._identities and self._lock is not None and self._lock.holds()

    def has_written(self, state: State) -> None:
        """Take note that the file has ``state``, and let followers know that it is written."""
        self.written = state
        if self._lock is not None:
            self._lock.mark(is_written=True)

    def stop_writing(self) -> None:
        """Let followers know that the file does not have what this exporter sees.

        Other writers stay locked out, but not on a read-only file system: without the lock it can be unmounted.
        """
        probe = self.path.with_name(f"{self.path.name}.probe")  # the mount's flags do not show an error of the disk
        try:
            create(probe)
            probe.unlink()
        except OSError as error:
            if error.errno == errno.EROFS:
                self.release()
        if self._lock is not None:
            with suppress(sqlite3.Error):
                self._lock.mark(is_written=False)

    def release(self) -> None:
        """Release the lock."""
        if self._lock is not None:
            self._lock.release()
        self._lock = None

    def _set_aside(self, why: str) -> None:
        if any(self._found()):
            aside = set_aside(self.path)
            message = "journal cannot be used: set aside, and a new one begun"
            self._log.error(message, extra=facts(path=self.path, set_aside=aside, error=why))
        self.unusable = ""

    def _found(self) -> list[FileIdentity | None]:
        return [identity(f"{self.path}{suffix}") for suffix in ("", *_LOGS)]
