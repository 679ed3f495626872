"""The journal as the exporter uses it: the operations on transitions, spans, approval requests and documents.

Transitions are written to disk before they are reported. Any thread may call any operation. Recording raises only for a
bug: if the disk fails, the exporter continues in memory, reports it, and returns to the disk as soon as it works.
Must not decide which store is in use, or what a failure of the file means: ``journal.storage`` does.
"""

import logging
import sqlite3
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from azure_scheduled_events_exporter.core.lifecycle import Lifecycle, Lifecycles
from azure_scheduled_events_exporter.core.pause import ClockSample
from azure_scheduled_events_exporter.core.records import Record
from azure_scheduled_events_exporter.core.statistics import Statistics
from azure_scheduled_events_exporter.core.timestamp import Timestamp
from azure_scheduled_events_exporter.errors import CodecError, DamagedTextError
from azure_scheduled_events_exporter.logs import facts
from azure_scheduled_events_exporter.recording.file import RecordedDocument

from .approval_requests import ApprovalRequest
from .failures import is_damage
from .storage import FAILURES, Storage
from .store import PAGE, Entry, QueuedSpan, Restored

_PRUNE_SECONDS = 3600.0
_PRUNE_MEMORY_SECONDS = 60.0
_KEPT_IN_MEMORY = 1000
"""Maximum number of transitions that a journal in memory keeps. Its totals also count the ones that it dropped."""

OWNER_WAIT_SECONDS = 120.0
"""How long to wait until IMDS has answered whether the journal is this VM's. Until then, its events stay current and
its spans are not sent. Without an answer, it counts as this VM's."""


@dataclass(frozen=True, slots=True)
class JournalState:
    """Whether the journal is on disk, for metrics."""

    up: bool = False
    errors: int = 0


class Journal:
    """Stores transitions, events and undelivered spans. Thread-safe.

    Args:
        path: of the file, or of a folder to put it in; None keeps everything in memory.
        retention: seconds after which ended events are removed.
        log: where failures are logged.
        known: the initial events of a journal in memory.

    Raises:
        JournalInUseError: another process writes it.
    """

    def __init__(self, path: Path | None, retention: float, log: logging.Logger, known: Restored | None = None) -> None:
        self._retention = retention
        self._log = log
        self._lock = threading.RLock()
        self._storage = Storage(path, log, known)
        self._pruned: float | None = None

    @property
    def state(self) -> JournalState:
        """Whether transitions are on disk now, and the number of failures."""
        return JournalState(self._storage.disk is not None, self._storage.errors)

    def restore(self) -> Restored:
        """Return the events and statistics in the journal."""
        with self._lock:
            return self._storage.restore()

    def record(self, entry: Entry, statistics: Statistics, known: Lifecycles) -> None:
        """Write ``entry``; ``statistics`` and ``known`` are the complete state after it, in case a new file is needed.

        Raises:
            CodecError: a bug; nothing is written, and the file is unchanged.
        """
        with self._lock:
            self._storage.record(entry, statistics, known)

    def check_file(self) -> None:
        """Put a copy of the open file at its path if the file or one of its logs was removed or replaced."""
        with self._lock:
            self._storage.check_file()

    def claim(self, vm_id: str) -> bool:
        """Set this VM's id; return whether the journal was another VM's. Then a new one begins, if only in memory."""
        with self._lock:
            return self._storage.claim(vm_id)

    @property
    def awaits_vm_id(self) -> bool:
        """Whether the journal has a VM id but this VM's id is not known yet."""
        with self._lock:
            return self._storage.awaits_vm_id

    def try_disk_again(self, now: Timestamp) -> Restored | None:
        """Return to the disk if a retry is due and succeeds; then return the content of the disk, else None."""
        with self._lock:
            return self._storage.try_disk_again(now)

    def prune(self, now: Timestamp, clock_confirmed: Callable[[], bool]) -> None:
        """Remove entries older than the retention, once an hour; entries that wait for the disk stay.

        Nothing is removed unless ``clock_confirmed``: a clock that is 100 days ahead would empty the journal.
        """
        with self._lock:
            if self._storage.path is not None and self._storage.disk is None:
                return
            pause = _PRUNE_SECONDS if self._storage.path is not None else _PRUNE_MEMORY_SECONDS
            pause = min(pause, self._retention / 2)  # a short retention is there to keep the file small
            if self._pruned is not None and now.monotonic - self._pruned < pause:
                return
            if self._storage.path is None:
                self._storage.store.keep_newest(_KEPT_IN_MEMORY)
                self._pruned = now.monotonic
            if not clock_confirmed():
                return
            self._pruned = now.monotonic
            try:
                self._storage.store.prune(now.wall - self._retention)
                self._storage.store.documents.prune(now.wall - self._retention)
            except FAILURES as error:
                self._storage.handle(error)

    def queued_spans(self, limit: int) -> list[QueuedSpan]:
        """Return undelivered spans, the newest first, at most ``limit``. Those that cannot be read are set aside."""
        with self._lock:
            store = self._storage.store
            try:
                try:
                    return store.queued_spans(limit)
                except (sqlite3.Error, DamagedTextError, CodecError) as error:
                    if isinstance(error, sqlite3.Error) and not is_damage(error):
                        raise
                    count = store.set_unreadable_spans_aside()
                    message = "undelivered spans cannot be read: set aside, so that the others are delivered"
                    self._log.warning(message, extra=facts(spans=count, error=error))
                    return store.queued_spans(limit)
            except (sqlite3.Error, DamagedTextError, CodecError) as error:
                if is_damage(error):
                    self._storage.handle(error)
                else:
                    self._log.warning("undelivered spans cannot be read", extra=facts(error=error))
                return []

    def remove_spans(self, settled: Iterable[QueuedSpan]) -> None:
        """Remove spans that need no delivery any more."""
        with self._lock:
            try:
                self._storage.store.remove_spans(settled)
            except sqlite3.Error as error:
                self._storage.handle(error)

    def set_spans_aside(self, refused: Iterable[QueuedSpan], wall: float) -> None:
        """Take spans that a collector refused at ``wall`` out of the queue; the next start queues them again.

        A journal without a file has no next start, so it removes them.
        """
        if self._storage.path is None:
            self.remove_spans(refused)
            return
        with self._lock:
            try:
                self._storage.store.set_spans_aside(refused, wall)
            except sqlite3.Error as error:
                self._storage.handle(error)

    def requeue_spans(self) -> None:
        """Queue the spans again that were set aside."""
        with self._lock:
            try:
                self._storage.store.requeue_spans()
            except sqlite3.Error as error:
                self._storage.handle(error)

    def spans_queued(self) -> int:
        """Return the number of spans that wait for delivery."""
        with self._lock:
            try:
                return self._storage.store.spans_queued()
            except sqlite3.Error:
                return 0

    def newest_span(self) -> int:
        """Return the number of the newest undelivered span; 0 if there is none."""
        with self._lock:
            try:
                return self._storage.store.newest_span()
            except sqlite3.Error:
                return 0

    def request_approval(self, lives: Iterable[Lifecycle], operator: str, created: float, expires: float) -> list[int]:
        """Queue an operator's requests to approve these events as they were shown; return their numbers."""
        with self._lock:
            return self._storage.store.requests.add(lives, operator, created, expires)

    def open_requests(self) -> list[ApprovalRequest]:
        """Return the approval requests without a result; none while the disk does not work."""
        with self._lock:
            try:
                return self._storage.store.requests.open()
            except (sqlite3.Error, DamagedTextError) as error:
                if is_damage(error):
                    self._storage.handle(error)
                return []

    def mark_sent(self, numbers: Iterable[int], wall: float | None) -> set[int]:
        """Mark approval requests as sent (None: as not sent); return those that are not withdrawn."""
        with self._lock:
            try:
                return self._storage.store.requests.mark_sent(numbers, wall)
            except sqlite3.Error as error:
                self._storage.handle(error)
                return set()

    def withdraw_requests(self, numbers: Iterable[int], result: str, *, sent_too: bool = False) -> None:
        """Write ``result`` to approval requests that have none, so that the exporter does not send them."""
        with self._lock:
            try:
                self._storage.store.requests.withdraw(numbers, result, sent_too=sent_too)
            except sqlite3.Error as error:
                self._storage.handle(error)

    def set_request_results(self, results: Mapping[int, str]) -> None:
        """Write the results of approval requests, by their numbers."""
        with self._lock:
            try:
                self._storage.store.requests.set_results(results)
            except sqlite3.Error as error:
                self._storage.handle(error)

    def request_results(self, numbers: Iterable[int]) -> dict[int, str]:
        """Return the results of those approval requests that have one."""
        with self._lock:
            return self._storage.store.requests.results(numbers)

    def transitions(self, after: int, limit: int = PAGE) -> list[tuple[int, Record]]:
        """Return the transitions after number ``after``, each with its number, the oldest first."""
        with self._lock:
            return self._storage.store.transitions(after, limit)

    def keep_document(self, document: RecordedDocument) -> None:
        """Store a document unchanged. Only on disk: a document in memory could not be read by any command."""
        with self._lock:
            if self._storage.disk is None:
                return
            try:
                self._storage.disk.documents.keep(document)
            except sqlite3.Error as error:
                self._storage.handle(error)

    def record_heartbeat(self, sample: ClockSample | None) -> None:
        """Write a clock sample, so that the next run can measure a pause; None removes it. Only on disk."""
        with self._lock:
            if self._storage.disk is None:
                return
            try:
                self._storage.disk.record_heartbeat(sample)
            except sqlite3.Error as error:
                self._storage.handle(error)

    def last_heartbeat(self) -> ClockSample | None:
        """Return the last heartbeat of the previous run; None if there is no readable one."""
        with self._lock:
            try:
                return self._storage.store.last_heartbeat()
            except (*FAILURES, CodecError) as error:
                self._log.warning(
                    "cannot read the previous run's last heartbeat; the pause before this start is not measured",
                    extra=facts(error=error),
                )
                return None

    def close(self) -> None:
        """Close the file and release its lock."""
        with self._lock:
            self._storage.close()
