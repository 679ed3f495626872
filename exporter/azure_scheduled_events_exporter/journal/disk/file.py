"""The journal's file as its exporter uses it: locked, opened, closed after a failure, renamed.

Must not know which tables there are (``journal.tables.store``), or decide when to try again
(``journal.thread.writer``).

A file that cannot be read now may be sound. It is renamed only if a check that read all of it has
found damage, or if it is another VM's, another program's or another version's.
"""

import errno
import logging
import os
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from azure_scheduled_events_exporter.errors import JournalKeptError
from azure_scheduled_events_exporter.journal.content.remembered import Restored
from azure_scheduled_events_exporter.journal.tables.store import Store

from .failures import FAILURES, may_be_damage, reason
from .folder_owner import create
from .location import FILE_NAME, check_kind, file_path
from .lock import SUFFIX as LOCK_SUFFIX
from .lock import Lock, writer_lock
from .opening import (
    WRITING,
    check_may_be_opened,
    check_room,
    open_store,
    open_to_read,
)
from .set_aside import set_aside

LARGEST_WAL_BYTES = 64 << 20
"""The most that the write-ahead log may take: while a process reads, it cannot be merged."""


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
class _Files:
    """Which files are at the paths of a journal; None where there is none.

    Attributes:
        journal: the database.
        wal: SQLite's write-ahead log.
        shm: SQLite's index of that log.
        lock: the file of the lock.
    """

    journal: _Identity | None = None
    wal: _Identity | None = None
    shm: _Identity | None = None
    lock: _Identity | None = None


class JournalFile:
    """The file of one exporter's journal. One thread uses it.

    Attributes:
        path: the value of ``--journal.path``; after :meth:`locate`, the path of the file.
        unusable: why the file that is there is to be renamed, ``""`` if it is not. The journal's
            thread sets it, and the next :meth:`opened` renames the file.
    """

    def __init__(self, path: Path, log: logging.Logger, *, renames: bool = True) -> None:
        """Take note of the value of ``--journal.path``. Nothing is opened before :meth:`locate`.

        ``renames``: False to refuse an unusable file, and to leave it as it is.
        """
        self.path = path
        self.unusable = ""
        self._renames = renames
        self._log = log
        self._store: Store | None = None
        self._files = _Files()  # what was at the paths when they were last in use
        self._lock: Lock | None = None

    def locate(self) -> None:
        """Find the file.

        Raises:
            ExporterError: somebody named a file that is none of ours, such as /etc/passwd, which
                must not be renamed.
        """
        check_kind(self.path)
        path = file_path(self.path)
        # Its name, or a lock beside it, shows that a file is a journal, even a damaged one.
        if path.name != FILE_NAME and not Path(f"{path}{LOCK_SUFFIX}").exists():
            check_may_be_opened(path)
        self.path = path

    def restored(self) -> Restored:
        """Take the lock, and return what the file has; nothing if there is no file yet.

        The file is read through the connection that writes, because SQLite does not open every
        sound file read-only. If the disk cannot be written now, the file is opened read-only.

        Raises:
            JournalInUseError: another process holds the lock.
            JournalKeptError: it is unusable, and this process may not rename it.
            sqlite3.Error, OSError, DamagedTextError, UnicodeDecodeError: it cannot be read now.
        """
        try:
            return self._restored_for_writing()
        except FAILURES as error:
            self.close_after(error)
            if may_be_damage(error):
                raise  # the caller has the file checked, and renamed if that proves damage
            problem = reason(error)
        return self._restored_read_only(problem)

    def _restored_for_writing(self) -> Restored:
        """Take the lock, and return what the file has."""
        self._take_lock()
        if not self._has_content():  # to create it takes time, and there is nothing to read
            return Restored()
        store = self.opened()
        return Restored(store.restore(), store.look())

    def _restored_read_only(self, problem: str) -> Restored:
        """Return what the file has, which cannot be written now because of ``problem``."""
        if self.unusable or not self._has_content():  # unusable: it could not be renamed yet
            return Restored(problem=problem)
        # Kept so that the first write notices if the file has gone away by then.
        self._files = self._found()
        with closing(open_to_read(self.path)) as store:
            return Restored(store.restore(), store.look(), problem)

    def _take_lock(self) -> None:
        """Become the only writer of the file, if this process is not."""
        if self._lock is None:
            self._lock = writer_lock(self.path)
            self._files = replace(self._files, lock=_identity(f"{self.path}{LOCK_SUFFIX}"))

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
        """Return the tables for writing. Open them if they are not open.

        An :attr:`unusable` file is renamed before that. Call :meth:`close_after` after any failure.

        Raises:
            JournalInUseError: another process has taken the lock.
            JournalKeptError: it is unusable, and this process may not rename it.
            sqlite3.Error, UnicodeDecodeError: it cannot be used.
            OSError: it cannot be reached, was removed or replaced, or the disk is full.
        """
        found = self._found()
        if self._store is None or self.unusable:
            return self._opened_anew(found)
        check_room(self.path.parent)
        self._limit_wal(self._store)
        if found != self._files:
            # If only the write-ahead log was removed, its content is still open here: merge it into
            # the file.
            self._store.connection.execute("PRAGMA wal_checkpoint(FULL)")
            raise OSError(errno.ESTALE, "its files were removed or replaced")
        return self._store

    def _opened_anew(self, found: _Files) -> Store:
        """Lock, create and open the file; before that, rename it if it is unusable.

        ``found``: which files are there now.
        """
        # If the lock's file was removed or replaced, another process could lock the new one: then
        # this process takes that lock too.
        self.close(keeps_lock=found.lock == self._files.lock)
        self._check_is_mounted(found)
        self._take_lock()
        if self.unusable:
            if found.journal or found.wal or found.shm:
                self._set_aside()
            self.unusable = ""
        create(self.path)
        self._store = open_store(self.path, WRITING, seconds=1.0)
        self._files = self._found()
        return self._store

    def _set_aside(self) -> None:
        """Rename the unusable file. Raises JournalKeptError: this process may not."""
        if not self._renames:
            raise JournalKeptError(
                f"the journal {self.path} cannot be used ({self.unusable}), and only the exporter"
                " renames it: name this VM's journal with --journal.path"
            )
        set_aside(self.path, self.unusable, self._log)

    def _check_is_mounted(self, found: _Files) -> None:
        """Raise OSError if the file has gone together with the file system that it was on."""
        before = self._files.journal
        if before is None or found.journal is not None:
            return
        folder = next(each for each in self.path.parents if each.exists())
        if before.device != folder.stat().st_dev:
            why = "the file system that the journal was on is not mounted"
            raise OSError(errno.ENODEV, why, str(self.path))

    def _limit_wal(self, store: Store) -> None:
        """Merge a write-ahead log that is too large. Raises OSError: that is not possible now."""
        wal = Path(f"{self.path}-wal")
        with suppress(FileNotFoundError):
            if wal.stat().st_size <= LARGEST_WAL_BYTES:
                return
            store.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            if wal.stat().st_size > LARGEST_WAL_BYTES:
                why = "its -wal file is too large: end the process that keeps the journal open"
                raise OSError(errno.EFBIG, why, str(wal))

    def close(self, *, keeps_lock: bool = False) -> None:
        """Close the file, and release the lock unless it is kept.

        If that fails, the file counts as closed all the same.

        Raises:
            sqlite3.Error, OSError: the disk failed meanwhile.
        """
        store = self._store
        self._store = None
        try:
            if store is not None:
                store.close()
        finally:
            if not keeps_lock:
                self._release_lock()

    def _release_lock(self) -> None:
        """Let another process become the writer of the file."""
        lock = self._lock
        self._lock = None
        if lock is not None:
            lock.close()

    def close_after(self, error: Exception) -> None:
        """Close the file after ``error``, which any other method raised; raises nothing itself.

        The lock of a read-only file system is released: otherwise it could not be unmounted.
        """
        is_read_only = isinstance(error, OSError) and error.errno == errno.EROFS
        with suppress(*FAILURES):
            self.close(keeps_lock=not is_read_only)

    def _found(self) -> _Files:
        """Return which files are there now."""
        return _Files(
            journal=_identity(self.path),
            wal=_identity(f"{self.path}-wal"),
            shm=_identity(f"{self.path}-shm"),
            lock=_identity(f"{self.path}{LOCK_SUFFIX}"),
        )
