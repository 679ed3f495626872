"""The journal: what has been seen is on disk before it is told.

Decides what to do when the disk fails; the file is ``journal.files``'s, the tables are ``journal.store``'s. Writing
never raises and never waits for a lock: an exporter whose disk fails goes on in memory, says so, and takes the disk
again when it can.
"""

import contextlib
import logging
import sqlite3
import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from azure_scheduled_events_exporter.core.lifecycle import Lifecycles
from azure_scheduled_events_exporter.core.pause import ClockSample
from azure_scheduled_events_exporter.core.records import Record
from azure_scheduled_events_exporter.core.spans import SpanFacts
from azure_scheduled_events_exporter.core.statistics import Statistics
from azure_scheduled_events_exporter.core.timestamp import Timestamp
from azure_scheduled_events_exporter.errors import JournalInUseError
from azure_scheduled_events_exporter.logs import facts

from .files import file_path, in_memory, is_damage, on_disk, only_writer, reason, set_aside
from .store import ApprovalRequest, Entry, Restored, Store

_NOTHING = Entry()
_RETRY_SECONDS = 5.0
_PRUNE_SECONDS = 3600.0
_PRUNE_MEMORY_SECONDS = 60.0
_KEPT_IN_MEMORY = 1000
"""Transitions that a journal without a file remembers one by one; its sums count them all."""
_UNREADABLE = (sqlite3.Error, OSError, ValueError, KeyError, TypeError)
"""What reading a journal can raise: the last three when a sound database holds nonsense."""


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
        self._memory = in_memory()
        self._errors = 0
        self._tried: float | None = None
        self._trouble_told = False
        # What this process counts and watches, and whether that includes what the file holds.
        self._whole = Restored()
        self._includes_disk = False
        self._pruned: float | None = None
        if self._path is not None:
            try:
                self._open_or_go_on()
            except JournalInUseError:
                self._memory.close()
                raise

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

    def record(self, entry: Entry, statistics: Statistics, known: Lifecycles) -> None:
        """Write ``entry``; ``statistics`` and ``known`` are the whole state, for a new file."""
        with self._lock:
            self._whole = Restored(known, statistics)
            if self._disk is None:
                self._memory.record(entry)
                return
            try:
                self._disk.record(entry)
            except (sqlite3.Error, OSError) as error:
                self._meet(error, entry)

    def try_disk_again(self, now: Timestamp) -> Restored | None:
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
            self._memory = in_memory()
            self._log.info("the journal is on disk again", extra=facts(path=self._path))
            return self._whole

    def prune(self, now: Timestamp) -> None:
        """Forget what is older than the retention; once an hour is often enough. What waits for the disk stays."""
        with self._lock:
            if self._path is not None and self._disk is None:
                return
            pause = _PRUNE_SECONDS if self._path is not None else _PRUNE_MEMORY_SECONDS
            pause = min(pause, self._retention / 2)  # a short retention is there to keep the file small
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

    def open_asks(self) -> list[ApprovalRequest]:
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

    def sign(self, reading: ClockSample | None) -> None:
        """Lay down a sign of life for the next run to measure a pause from, or take it away; only a disk keeps it."""
        with self._lock:
            if self._disk is None:
                return
            try:
                self._disk.sign(reading)
            except sqlite3.Error as error:
                self._meet(error)

    def last_sign(self) -> ClockSample | None:
        """Return the last sign of life of the run before this one; None if it left none or none can be read."""
        with self._lock:
            try:
                return self._store.last_sign()
            except _UNREADABLE as error:
                self._log.warning("the last sign of life cannot be read", extra=facts(error=error))
                return None

    def close(self) -> None:
        """Close the file and let others write it."""
        with self._lock:
            self._drop_disk()
            self._memory.close()

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
        if not self._path.parent.exists():
            self._path.parent.mkdir(parents=True, mode=0o700)
        self._guard = only_writer(self._path)
        try:
            self._disk = on_disk(self._path)
        except sqlite3.Error as error:
            if not is_damage(error):
                raise
            self._disk = self._fresh(error)
        return self._disk

    def _taken_again(self) -> Restored:
        """Open the disk, add what was kept in memory, and return what it then holds."""
        disk = self._open()
        try:
            return self._merged(disk)
        except _UNREADABLE as error:
            if not is_damage(error):
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
        if self._disk is None or not is_damage(error):
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
                extra=facts(path=self._path, error=reason(error)),
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
        aside = set_aside(self._path)
        self._log.error(
            "the journal is damaged or not ours: set aside, a fresh one begun",
            extra=facts(path=self._path, set_aside=aside, error=reason(error)),
        )
        return on_disk(self._path)

    def _drop_disk(self) -> None:
        for held in (self._disk, self._guard):
            if held is not None:
                with contextlib.suppress(sqlite3.Error):
                    held.close()
        self._disk = self._guard = None
