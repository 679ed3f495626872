"""The journal: what has been seen is on disk before it is told.

Owns the file: where it is, who may write it, what to do when the disk fails. The tables are :mod:`.store`'s. Writing
never raises and never waits for a lock: an exporter whose disk fails goes on in memory, says so, and takes the disk
again when it can.
"""

import contextlib
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
from .lifecycle import Lifecycle
from .logs import facts
from .records import Record
from .spans import SpanFacts
from .store import APPLICATION_ID, SCHEMA_VERSION, Ask, Entry, Restored, Store
from .tally import Tally

FILE_NAME = "journal.sqlite"
MEMORY = "memory"
_RETRY_SECONDS = 5.0
_PRUNE_SECONDS = 3600.0
_DAMAGED: frozenset[int] = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})


class JournalInUseError(ExporterError):
    """Another exporter writes this journal."""


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
        self._tried = 0.0
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
                return self._store.restore()
            except (sqlite3.Error, ValueError, KeyError, TypeError) as error:
                self._set_aside(error)
                self._begin_anew(Tally(), (), ())
                return Restored()

    def record(self, entry: Entry, tally: Tally, current: Iterable[Lifecycle]) -> None:
        """Write ``entry``; ``tally`` and ``current`` are the whole state with it, should a damaged file be replaced."""
        with self._lock:
            if self._disk is None:
                self._memory.record(entry)
                return
            try:
                self._disk.record(entry)
            except sqlite3.Error as error:
                self._failed(error)
                if _code(error) not in _DAMAGED:
                    self._memory.record(entry)
                    return
                self._set_aside(error)
                self._begin_anew(tally, current, entry.spans)

    def try_disk_again(self, now: Instant) -> Restored | None:
        """Take the disk again if it is time to try and it works; return what it then holds, else None."""
        with self._lock:
            if self._path is None or self._disk is not None or now.monotonic - self._tried < _RETRY_SECONDS:
                return None
            self._tried = now.monotonic
            try:
                disk = self._open()
                disk.take_over(self._memory)
                restored = disk.restore()
            except (sqlite3.Error, OSError, JournalInUseError):
                self._errors += 1
                self._drop_disk()
                return None
            self._memory.close()
            self._memory = _in_memory()
            self._log.info("the journal is on disk again", extra=facts(path=self._path))
            return restored

    def prune(self, now: Instant) -> None:
        """Forget what is older than the retention; once an hour is enough."""
        with self._lock:
            if self._pruned is not None and now.monotonic - self._pruned < _PRUNE_SECONDS:
                return
            self._pruned = now.monotonic
            try:
                self._store.prune(now.wall - self._retention)
            except sqlite3.Error as error:
                self._failed(error)

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
                self._failed(error)

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
                self._failed(error)

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
            disk = _on_disk(self._path)
        except sqlite3.DatabaseError as error:
            if isinstance(error, sqlite3.OperationalError):
                self._drop_disk()
                raise
            self._set_aside(error)
            disk = _on_disk(self._path)
        self._disk = disk
        return disk

    def _failed(self, error: Exception) -> None:
        """Go on in memory."""
        self._errors += 1
        self._tried = time.monotonic()
        if self._disk is not None or self._errors == 1:
            self._log.error(
                "the journal cannot be written: going on in memory until it can",
                extra=facts(path=self._path, error=_reason(error)),
            )
        self._drop_disk()

    def _set_aside(self, error: Exception) -> None:
        """Rename a file that is damaged or not ours, with its write-ahead log, so that nothing of it is lost."""
        assert self._path is not None  # noqa: S101 - there is a file
        if self._disk is not None:
            self._disk.close()
            self._disk = None
        aside = self._path.with_name(f"{self._path.name}.set-aside-{time.strftime('%Y%m%dT%H%M%S', time.gmtime())}")
        for suffix in ("", "-wal", "-shm"):
            with contextlib.suppress(FileNotFoundError):
                Path(f"{self._path}{suffix}").replace(f"{aside}{suffix}")
        self._log.error(
            "the journal is damaged or not ours: set aside, a fresh one begun",
            extra=facts(path=self._path, set_aside=aside, error=_reason(error)),
        )

    def _begin_anew(self, tally: Tally, current: Iterable[Lifecycle], spans: Iterable[SpanFacts]) -> None:
        """A fresh file that goes on counting from ``tally``, with the lives as they are."""
        assert self._path is not None  # noqa: S101 - there was a file
        try:
            self._guard = self._guard or _only_writer(self._path)
            self._disk = _on_disk(self._path)
            self._disk.replace_sums(tally, current)
            self._disk.record(Entry(spans=tuple(spans)))
        except (sqlite3.Error, OSError) as error:
            self._failed(error)

    def _drop_disk(self) -> None:
        for held in (self._disk, self._guard):
            if held is not None:
                with contextlib.suppress(sqlite3.Error):
                    held.close()
        self._disk = self._guard = None


def file_path(path: Path) -> Path:
    """Return the journal's file for what ``--journal.path`` says: a file, or a folder to put it in."""
    is_folder = path.is_dir() or (not path.suffix and not path.is_file())
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
        connection = sqlite3.connect(f"file:{file}?mode=ro", uri=True, timeout=5)
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
        connection = sqlite3.connect(f"file:{file}?mode=rw", uri=True, timeout=5)
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
        connection.execute("PRAGMA journal_mode = WAL")
        # NORMAL loses acknowledged transitions in a power cut, and an event may be one.
        connection.execute("PRAGMA synchronous = FULL")
        _check_ours(connection)
        _check_sound(connection)
        return Store(connection)
    except BaseException:
        connection.close()
        raise


def _check_sound(connection: sqlite3.Connection) -> None:
    problem = connection.execute("PRAGMA quick_check(1)").fetchone()[0]
    if problem != "ok":
        raise sqlite3.DatabaseError(problem)


def _check_ours(connection: sqlite3.Connection) -> None:
    """Refuse a file of another program, or of a newer version of this one."""
    application = connection.execute("PRAGMA application_id").fetchone()[0]
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    empty = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0] == 0
    if not empty and application != APPLICATION_ID:
        raise sqlite3.DatabaseError("it is another program's SQLite file")
    if version > SCHEMA_VERSION:
        raise sqlite3.DatabaseError(f"it is of a newer version (schema {version}, known here is {SCHEMA_VERSION})")


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


def _code(error: sqlite3.Error) -> int:
    """SQLite's primary code of ``error``; 0 for a complaint of our own."""
    return int(getattr(error, "sqlite_errorcode", 0)) & 0xFF


def _reason(error: Exception) -> str:
    return (error.strerror or str(error)) if isinstance(error, OSError) else str(error)
