"""The journal: what has been seen is on disk before it is told.

Owns the file: where it is, who may write it, what to do when the disk fails. The tables are :mod:`.store`'s. Writing
never raises and never waits for a lock: an exporter whose disk fails goes on in memory, says so, and takes the disk
again when it can.
"""

import contextlib
import itertools
import logging
import os
import sqlite3
import threading
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from .errors import ExporterError
from .instant import Instant
from .lifecycle import Lifecycles
from .logs import facts
from .records import Record
from .spans import SpanFacts
from .store import APPLICATION_ID, SCHEMA_VERSION, Ask, Entry, Restored, Store
from .tally import Tally

FILE_NAME = "journal.sqlite"
MEMORY = "memory"
_NOTHING = Entry()
_RETRY_SECONDS = 5.0
_PRUNE_SECONDS = 3600.0
_PRUNE_MEMORY_SECONDS = 60.0
_KEPT_IN_MEMORY = 1000
"""Transitions that a journal without a file remembers one by one; its sums count them all."""
# SQLITE_ERROR is what a missing table gives. All other codes mean trouble with the disk, which may pass.
_DAMAGED: frozenset[int] = frozenset({sqlite3.SQLITE_ERROR, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})
_UNREADABLE = (sqlite3.Error, OSError, ValueError, KeyError, TypeError)
"""What reading a journal can raise: the last three when a sound database holds nonsense."""


class JournalInUseError(ExporterError):
    """Another exporter writes this journal."""


class _NotUsableError(sqlite3.DatabaseError):
    """A file that is no journal, or none that this version can read."""


@dataclass(frozen=True, slots=True)
class JournalState:
    """How the journal does, for metrics."""

    up: bool = False
    errors: int = 0


class Journal:
    """Where transitions, lives and undelivered spans are kept. Thread-safe.

    Args:
        path: of the file, or of a folder to put it in; None keeps everything in memory.
        retention: seconds after which ended events are forgotten.
        log: where trouble is told.

    Raises:
        JournalInUseError: another process writes it.
    """

    def __init__(self, path: Path | None, retention: float, log: logging.Logger) -> None:
        self._path = path and file_path(path)
        self._retention = retention
        self._log = log
        self._lock = threading.RLock()
        self._guard: sqlite3.Connection | None = None
        self._disk: Store | None = None
        self._memory = _in_memory()
        self._errors = 0
        self._tried: float | None = None
        self._trouble_told = False
        # What this process counts and watches, and whether that includes what the file holds.
        self._whole = Restored()
        self._includes_disk = False
        self._pruned: float | None = None
        if self._path is not None:
            self._open_or_go_on()

    @property
    def state(self) -> JournalState:
        """Whether transitions are on disk now, and how often that failed."""
        return JournalState(self._disk is not None, self._errors)

    def restore(self) -> Restored:
        """Return what the journal knows of the time before."""
        with self._lock:
            try:
                self._whole = self._store.restore()
                self._includes_disk = self._disk is not None
            except _UNREADABLE as error:
                self._meet(error)
            return self._whole

    def record(self, entry: Entry, tally: Tally, known: Lifecycles) -> None:
        """Write ``entry``; ``tally`` and ``known`` are the whole state with it, should a damaged file be replaced."""
        with self._lock:
            self._whole = Restored(known, tally)
            if self._disk is None:
                self._memory.record(entry)
                return
            try:
                self._disk.record(entry)
            except (sqlite3.Error, OSError) as error:
                self._meet(error, entry)

    def try_disk_again(self, now: Instant) -> Restored | None:
        """Take the disk again if it is time to try and it works; return what it then holds, else None."""
        with self._lock:
            if self._path is None or self._disk is not None:
                return None
            if self._tried is None:
                self._tried = now.monotonic
            if now.monotonic - self._tried < _RETRY_SECONDS:
                return None
            self._tried = now.monotonic
            try:
                self._whole = self._taken_again()
            except (*_UNREADABLE, JournalInUseError):
                self._errors += 1
                self._drop_disk()
                return None
            self._includes_disk, self._trouble_told = True, False
            self._memory.close()
            self._memory = _in_memory()
            self._log.info("the journal is on disk again", extra=facts(path=self._path))
            return self._whole

    def prune(self, now: Instant) -> None:
        """Forget what is older than the retention; once an hour is enough. What waits for the disk stays."""
        with self._lock:
            if self._path is not None and self._disk is None:
                return
            pause = _PRUNE_SECONDS if self._path is not None else _PRUNE_MEMORY_SECONDS
            if self._pruned is not None and now.monotonic - self._pruned < pause:
                return
            self._pruned = now.monotonic
            if self._path is None:
                self._memory.keep_newest(_KEPT_IN_MEMORY)
            try:
                self._store.prune(now.wall - self._retention)
            except _UNREADABLE as error:
                self._meet(error)

    def spans(self, limit: int) -> list[SpanFacts]:
        """Return undelivered spans, the newest first, at most ``limit``."""
        with self._lock:
            try:
                return self._store.spans(limit)
            except (sqlite3.Error, ValueError, KeyError, TypeError) as error:
                self._log.warning("undelivered spans cannot be read", extra=facts(error=error))
                return []

    def strike_off(self, delivered: Iterable[SpanFacts]) -> None:
        """Forget spans that need no delivery any more."""
        with self._lock:
            try:
                self._store.strike_off(delivered)
            except sqlite3.Error as error:
                self._meet(error)

    def spans_queued(self) -> int:
        """Return the number of spans that wait for delivery."""
        with self._lock:
            try:
                return self._store.spans_queued()
            except sqlite3.Error:
                return 0

    def ask(self, event_ids: Iterable[str], who: str, wall: float) -> list[int]:
        """Lay down an operator's wish to approve these events; return the number of each."""
        with self._lock:
            return self._store.ask(event_ids, who, wall)

    def answers(self, numbers: Iterable[int]) -> dict[int, str]:
        """Return the answers that have come to these wishes."""
        with self._lock:
            return self._store.answers(numbers)

    def told(self, after: int) -> list[tuple[int, Record]]:
        """Return every transition behind number ``after``, with its number, the oldest first."""
        with self._lock:
            return self._store.told(after)

    def open_asks(self) -> list[Ask]:
        """Return the operators' wishes that nobody has answered; none while the disk is out of reach."""
        with self._lock:
            try:
                return self._store.open_asks()
            except sqlite3.Error:
                return []

    def answer(self, answers: Mapping[int, str]) -> None:
        """Answer operators' wishes, by their numbers."""
        with self._lock:
            try:
                self._store.answer(answers)
            except sqlite3.Error as error:
                self._meet(error)

    def close(self) -> None:
        """Close the file and let others write it."""
        with self._lock:
            self._drop_disk()

    @property
    def _store(self) -> Store:
        return self._disk if self._disk is not None else self._memory

    def _open_or_go_on(self) -> None:
        try:
            self._open()
        except (sqlite3.Error, OSError) as error:
            self._failed(error)

    def _open(self) -> Store:
        """Take the file for writing; a damaged or foreign one is set aside and a fresh one begun."""
        assert self._path is not None  # noqa: S101 - callers have looked
        _make_folder(self._path.parent)
        self._guard = _only_writer(self._path)
        try:
            self._disk = _on_disk(self._path)
        except sqlite3.Error as error:
            if not _is_damage(error):
                raise
            self._disk = self._fresh(error)
        return self._disk

    def _taken_again(self) -> Restored:
        """Open the disk, add what was kept in memory, and return what it then holds."""
        disk = self._open()
        try:
            return self._merged(disk)
        except _UNREADABLE as error:
            if not _is_damage(error):
                raise
            self._disk = self._fresh(error)
            return self._merged(self._disk)

    def _merged(self, disk: Store) -> Restored:
        if self._includes_disk and disk.is_empty():  # another file than before: it must not make counters fall
            kept = Entry(lives=list(self._memory.history()), spans=self._memory.spans(-1)[::-1])
            disk.begin_with(self._whole, kept)
        else:
            disk.take_over(self._memory)
        return disk.restore()

    def _meet(self, error: Exception, entry: Entry = _NOTHING) -> None:
        """Make the best of ``error``, met by writing ``entry``: a fresh file if the old one is damaged, else memory."""
        if self._disk is None or not _is_damage(error):
            self._failed(error)
            self._memory.record(entry)
            return
        try:
            self._disk = self._fresh(error)
            self._disk.begin_with(self._whole, entry)
        except (sqlite3.Error, OSError) as failure:
            self._failed(failure)
            self._memory.record(entry)
        self._includes_disk = True  # there is nothing in it that is not known here

    def _failed(self, error: Exception) -> None:
        """Go on in memory."""
        self._errors += 1
        self._tried = None
        if not self._trouble_told:
            self._log.error(
                "the journal cannot be written: going on in memory until it can",
                extra=facts(path=self._path, error=_reason(error)),
            )
        self._trouble_told = True
        self._drop_disk()

    def _fresh(self, error: Exception) -> Store:
        """Rename a file that is damaged or not ours, so that nothing of it is lost, and return a new one."""
        assert self._path is not None  # noqa: S101 - there is a file
        self._errors += 1
        if self._disk is not None:
            self._disk.close()
            self._disk = None
        aside = _free_name(self._path)
        for suffix in ("", "-wal", "-shm"):
            with contextlib.suppress(FileNotFoundError):
                Path(f"{self._path}{suffix}").replace(f"{aside}{suffix}")
        self._log.error(
            "the journal is damaged or not ours: set aside, a fresh one begun",
            extra=facts(path=self._path, set_aside=aside, error=_reason(error)),
        )
        return _on_disk(self._path)

    def _drop_disk(self) -> None:
        for held in (self._disk, self._guard):
            if held is not None:
                with contextlib.suppress(sqlite3.Error):
                    held.close()
        self._disk = self._guard = None


def file_path(path: Path) -> Path:
    """Return the journal's file for what ``--journal.path`` says: a file, or a folder to put it in."""
    try:
        is_folder = path.is_dir() or (not path.suffix and not path.is_file())
    except OSError:  # out of reach, which opening it will tell
        is_folder = not path.suffix
    return path / FILE_NAME if is_folder else path


def read_only(path: Path) -> Store:
    """Return the journal at ``path`` for reading beside a running exporter.

    Raises:
        ExporterError: there is none, or it cannot be read.
    """
    file = file_path(path)
    try:
        if not file.exists():
            raise ExporterError(f"there is no journal at {file}: has an exporter run here? (--journal.path)")
        connection = sqlite3.connect(f"{file.absolute().as_uri()}?mode=ro", uri=True, timeout=5)
        _check_ours(connection)
        return Store(connection)
    except (sqlite3.Error, OSError) as error:
        raise ExporterError(f"the journal {file} cannot be read: {_reason(error)}") from None


def writable(path: Path) -> Store:
    """Return the journal at ``path`` for laying down wishes beside a running exporter.

    Raises:
        ExporterError: it cannot be written.
    """
    file = file_path(path)
    try:
        connection = sqlite3.connect(f"{file.absolute().as_uri()}?mode=rw", uri=True, timeout=5)
        connection.execute("PRAGMA synchronous = FULL")
        _check_ours(connection)
        connection.execute("BEGIN IMMEDIATE")
        connection.rollback()
        return Store(connection)
    except (sqlite3.Error, OSError) as error:
        raise ExporterError(f"the journal {file} cannot be written: {_reason(error)}; try as root") from None


def is_written(path: Path) -> bool:
    """Return whether an exporter is running on the journal at ``path``."""
    try:
        _only_writer(file_path(path)).close()
    except JournalInUseError:
        return True
    except (sqlite3.Error, OSError):
        return False
    return False


def _in_memory() -> Store:
    return Store(sqlite3.connect(":memory:", check_same_thread=False))


def _on_disk(path: Path) -> Store:
    # SQLite gives its other files the mode of this one: what happens to VMs is nobody else's business.
    os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
    connection = sqlite3.connect(path, timeout=1, check_same_thread=False)
    try:
        _check_ours(connection)
        _check_sound(connection)
        # Not before it is known to be ours: this writes to the file.
        connection.execute("PRAGMA journal_mode = WAL")
        # NORMAL loses acknowledged transitions in a power cut, and an event may be one.
        connection.execute("PRAGMA synchronous = FULL")
        return Store(connection)
    except BaseException:
        connection.close()
        raise


def _check_sound(connection: sqlite3.Connection) -> None:
    problem = connection.execute("PRAGMA quick_check(1)").fetchone()[0]
    if problem != "ok":
        raise _NotUsableError(problem)


def _check_ours(connection: sqlite3.Connection) -> None:
    """Refuse a file of another program, or of a newer version of this one."""
    application = connection.execute("PRAGMA application_id").fetchone()[0]
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    empty = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0] == 0
    if not empty and application != APPLICATION_ID:
        raise _NotUsableError("it is another program's SQLite file")
    if version > SCHEMA_VERSION:
        raise _NotUsableError(f"it is of a newer version (schema {version}, known here is {SCHEMA_VERSION})")


def _only_writer(path: Path) -> sqlite3.Connection:
    """Hold the lock that makes this process the journal's only writer; the system lets it go when the process ends.

    SQLite locks files on every platform, so its own lock on a file beside the journal is what is used.
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


def _make_folder(folder: Path) -> None:
    if not folder.exists():
        folder.mkdir(parents=True, mode=0o700)


def _free_name(path: Path) -> Path:
    """A name for a file that is set aside, by the time, that no other one has."""
    stem = f"{path.name}.set-aside-{time.strftime('%Y%m%dT%H%M%S', time.gmtime())}"
    more = itertools.chain([""], map(".{}".format, itertools.count(2)))
    return next(name for name in (path.with_name(stem + suffix) for suffix in more) if not name.exists())


def _is_damage(error: Exception) -> bool:
    """Whether the file's content is to blame; if not, the disk is, and may come back."""
    if isinstance(error, sqlite3.Error):
        return isinstance(error, _NotUsableError) or _code(error) in _DAMAGED
    return not isinstance(error, OSError)


def _code(error: sqlite3.Error) -> int:
    """SQLite's primary code of ``error``."""
    return int(getattr(error, "sqlite_errorcode", 0)) & 0xFF


def _reason(error: Exception) -> str:
    return (error.strerror or str(error)) if isinstance(error, OSError) else str(error)
