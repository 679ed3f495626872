"""Writes transitions to disk before they are reported.

Decides what to do if the disk fails. ``journal.files`` handles files, ``journal.store`` tables, and
``journal.recovery`` merges two records of one event. Writing never waits for a lock and raises only for a bug: if the
disk fails, the exporter continues in memory, reports it, and returns to the disk as soon as it works.

Failures of the file, and their handling:

- it is removed or replaced while it is open: a copy of the open file is put in its place; nothing is lost;
- its content is damaged: it is set aside, and a new file continues with the same sums, current events and numbers;
- the disk accepts no writes: entries are kept in memory and merged when it works again;
- it belongs to another VM (this VM was created from its image): it is set aside, and an empty journal begins.

The journal stays locked all the time, so that no second exporter can write it.
"""

import contextlib
import logging
import sqlite3
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from azure_scheduled_events_exporter.core.lifecycle import Lifecycles
from azure_scheduled_events_exporter.core.pause import ClockSample
from azure_scheduled_events_exporter.core.records import Record
from azure_scheduled_events_exporter.core.statistics import Statistics
from azure_scheduled_events_exporter.core.timestamp import Timestamp
from azure_scheduled_events_exporter.errors import CodecError, DamagedTextError, JournalInUseError
from azure_scheduled_events_exporter.logs import facts
from azure_scheduled_events_exporter.recording.file import RecordedDocument

from .files import (
    Identities,
    WriterLock,
    file_path,
    identities,
    in_memory,
    is_damage,
    is_read_only,
    on_disk,
    only_writer,
    reason,
    replace_with,
    set_aside,
)
from .store import PAGE, RECENT, ApprovalRequest, Entry, QueuedSpan, Restored, Store

_NOTHING = Entry()
RETRY_SECONDS = 5.0
"""Interval of the attempts to have the journal on disk again, while its entries are in memory."""
_PRUNE_SECONDS = 3600.0
_PRUNE_MEMORY_SECONDS = 60.0
_KEPT_IN_MEMORY = 1000
"""Maximum number of transitions that a journal in memory keeps. Its totals also count the ones that it dropped."""
_FAILURES = (sqlite3.Error, OSError, DamagedTextError)
"""Errors of reads and writes that a file or a disk can cause."""


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
        self._path = path and file_path(path)
        self._retention = retention
        self._log = log
        self._lock = threading.RLock()
        self._writer_lock: WriterLock | None = None
        self._disk: Store | None = None
        self._identities: Identities = ()
        self._memory = in_memory()
        self._errors = 0
        self._tried: float | None = None
        self._trouble_reported = False
        # The content of the disk after the last write; None until it is read.
        self._on_disk: Restored | None = None
        self._epoch = ""
        self._last_number = 0
        self._vm_id = ""
        self._pruned: float | None = None
        if self._path is not None:
            try:
                self._open_or_go_on()
            except JournalInUseError:
                self._memory.close()
                raise
        elif known is not None:
            self._memory.begin_with(known, _NOTHING)

    @property
    def state(self) -> JournalState:
        """Whether transitions are on disk now, and the number of failures."""
        return JournalState(self._disk is not None, self._errors)

    def restore(self) -> Restored:
        """Return the events and statistics in the journal."""
        with self._lock:
            try:
                restored = self._store.restore()
                if self._disk is not None:
                    self._included(restored)
            except CodecError as error:
                self._failed(error)
                return Restored()
            except _FAILURES as error:
                self._on_disk = Restored()
                self._meet(error)
                return Restored()
            return restored

    def record(self, entry: Entry, statistics: Statistics, known: Lifecycles) -> None:
        """Write ``entry``; ``statistics`` and ``known`` are the complete state after it, in case a new file is needed.

        Raises:
            CodecError: a bug; nothing is written, and the file is unchanged.
        """
        with self._lock:
            if self._disk is None:
                self._memory.record(entry)
                return
            try:
                self._disk.record(entry)
            except (sqlite3.Error, OSError) as error:
                self._meet(error, entry)
            if self._disk is not None:
                self._last_number += len(entry.changes)
                ended = tuple(life for life in entry.lives if life.outcome is not None)
                recent = self._on_disk.recent if self._on_disk else ()
                self._on_disk = Restored(known, statistics, (*recent, *ended)[-RECENT:])

    def check_file(self) -> None:
        """Put a copy of the open file at its path if the file or one of its logs was removed or replaced."""
        with self._lock:
            if self._disk is None or self._path is None:
                return
            try:
                holds = self._writer_lock is not None and self._writer_lock.holds()
                now = identities(self._path)
                linked = now[0] is not None and now[0].links > 1
                if holds and now == self._identities and not linked:
                    return
                self._put_back(linked=linked)
            except (*_FAILURES, JournalInUseError) as error:
                self._failed(error)

    def claim(self, vm_id: str) -> bool:
        """Set this VM's id; return whether the journal was another VM's and a new one was begun."""
        with self._lock:
            if not vm_id or vm_id == self._vm_id:
                return False
            self._vm_id = vm_id
            if self._disk is None:
                return False
            try:
                owner = self._disk.vm_id()
                if not owner:
                    self._disk.set_vm_id(vm_id)
                elif owner.casefold() != vm_id.casefold():
                    self._begin_own(owner)
                    return True
            except _FAILURES as error:
                self._meet(error)
            return False

    @property
    def awaits_vm_id(self) -> bool:
        """Whether the journal has a VM id but this VM's id is not known yet."""
        with self._lock:
            try:
                return not self._vm_id and self._disk is not None and bool(self._disk.vm_id())
            except sqlite3.Error:
                return False

    def try_disk_again(self, now: Timestamp) -> Restored | None:
        """Return to the disk if a retry is due and succeeds; then return the content of the disk, else None."""
        with self._lock:
            if self._path is None or self._disk is not None:
                return None
            if self._tried is None:
                self._tried = now.monotonic
            if now.monotonic - self._tried < RETRY_SECONDS:
                return None
            self._tried = now.monotonic
            try:
                restored = self._regained()
            except (*_FAILURES, JournalInUseError, CodecError):
                self._errors += 1
                self._drop_disk()
                self._release_if_read_only()
                return None
            self._trouble_reported = False
            self._memory.close()
            self._memory = in_memory()
            self._log.info("journal is on disk again", extra=facts(path=self._path))
            return restored

    def prune(self, now: Timestamp, clock_confirmed: Callable[[], bool]) -> None:
        """Remove entries older than the retention, once an hour; entries that wait for the disk stay.

        Nothing is removed unless ``clock_confirmed``: a clock that is 100 days ahead would empty the journal.
        """
        with self._lock:
            if self._path is not None and self._disk is None:
                return
            pause = _PRUNE_SECONDS if self._path is not None else _PRUNE_MEMORY_SECONDS
            pause = min(pause, self._retention / 2)  # a short retention is there to keep the file small
            if self._pruned is not None and now.monotonic - self._pruned < pause:
                return
            if self._path is None:
                self._memory.keep_newest(_KEPT_IN_MEMORY)
                self._pruned = now.monotonic
            if not clock_confirmed():
                return
            self._pruned = now.monotonic
            try:
                self._store.prune(now.wall - self._retention)
                self._store.documents.prune(now.wall - self._retention)
            except _FAILURES as error:
                self._meet(error)

    def queued_spans(self, limit: int) -> list[QueuedSpan]:
        """Return undelivered spans, the newest first, at most ``limit``."""
        with self._lock:
            try:
                return self._store.queued_spans(limit)
            except (sqlite3.Error, DamagedTextError, CodecError) as error:
                self._log.warning("undelivered spans cannot be read", extra=facts(error=error))
                return []

    def remove_spans(self, settled: Iterable[QueuedSpan]) -> None:
        """Remove spans that need no delivery any more."""
        with self._lock:
            try:
                self._store.remove_spans(settled)
            except sqlite3.Error as error:
                self._meet(error)

    def spans_queued(self) -> int:
        """Return the number of spans that wait for delivery."""
        with self._lock:
            try:
                return self._store.spans_queued()
            except sqlite3.Error:
                return 0

    def request_approval(
        self, events: Mapping[str, float | None], operator: str, created: float, expires: float
    ) -> list[int]:
        """Queue an operator's requests. ``events`` maps each EventId to the NotBefore that was shown.

        Return their numbers.
        """
        with self._lock:
            return self._store.request_approval(events, operator, created, expires)

    def open_requests(self) -> list[ApprovalRequest]:
        """Return the approval requests without a result; none while the disk does not work."""
        with self._lock:
            try:
                return self._store.open_requests()
            except sqlite3.Error:
                return []

    def mark_sent(self, numbers: Iterable[int], wall: float | None) -> set[int]:
        """Mark approval requests as sent (None: as not sent); return those that are not withdrawn."""
        with self._lock:
            try:
                return self._store.mark_sent(numbers, wall)
            except sqlite3.Error as error:
                self._meet(error)
                return set()

    def withdraw_requests(self, numbers: Iterable[int], result: str, *, sent_too: bool = False) -> None:
        """Write ``result`` to approval requests that have none, so that the exporter does not send them."""
        with self._lock:
            try:
                self._store.withdraw(numbers, result, sent_too=sent_too)
            except sqlite3.Error as error:
                self._meet(error)

    def set_request_results(self, results: Mapping[int, str]) -> None:
        """Write the results of approval requests, by their numbers."""
        with self._lock:
            try:
                self._store.set_results(results)
            except sqlite3.Error as error:
                self._meet(error)

    def request_results(self, numbers: Iterable[int]) -> dict[int, str]:
        """Return the results of those approval requests that have one."""
        with self._lock:
            return self._store.results(numbers)

    def transitions(self, after: int, limit: int = PAGE) -> list[tuple[int, Record]]:
        """Return the transitions after number ``after``, each with its number, the oldest first."""
        with self._lock:
            return self._store.transitions(after, limit)

    def keep_document(self, document: RecordedDocument) -> None:
        """Store a document unchanged. Only on disk: a document in memory could not be read by any command."""
        with self._lock:
            if self._disk is None:
                return
            try:
                self._disk.documents.keep(document)
            except sqlite3.Error as error:
                self._meet(error)

    def record_heartbeat(self, sample: ClockSample | None) -> None:
        """Write a clock sample, so that the next run can measure a pause; None removes it. Only on disk."""
        with self._lock:
            if self._disk is None:
                return
            try:
                self._disk.record_heartbeat(sample)
            except sqlite3.Error as error:
                self._meet(error)

    def last_heartbeat(self) -> ClockSample | None:
        """Return the last heartbeat of the previous run; None if there is no readable one."""
        with self._lock:
            try:
                return self._store.last_heartbeat()
            except (*_FAILURES, CodecError) as error:
                self._log.warning(
                    "cannot read the previous run's last heartbeat; the pause before this start is not measured",
                    extra=facts(error=error),
                )
                return None

    def scrape_interval(self) -> float:
        """Return the seconds between Prometheus' scrapes of the previous run; 0 if unknown or none."""
        with self._lock:
            try:
                return self._store.scrape_interval()
            except (sqlite3.Error, ValueError):
                return 0.0

    def set_scrape_interval(self, seconds: float) -> None:
        """Take note of how often Prometheus scrapes, for the next run."""
        with self._lock:
            try:
                self._store.set_scrape_interval(seconds)
            except sqlite3.Error as error:
                self._meet(error)

    def close(self) -> None:
        """Close the file and release its lock."""
        with self._lock:
            self._drop_disk()
            self._release()
            self._memory.close()

    @property
    def _store(self) -> Store:
        return self._disk if self._disk is not None else self._memory

    def _open_or_go_on(self) -> None:
        try:
            self._open()
        except (sqlite3.Error, OSError, CodecError) as error:
            self._failed(error)

    def _open(self) -> Store:
        """Open the file for writing; a damaged file, or one of another program, is set aside and a new one begun."""
        path = self._take_lock()
        try:
            self._use(on_disk(path))
        except sqlite3.Error as error:
            if not is_damage(error):
                raise
            self._use(self._new_file(error))
        assert self._disk is not None  # noqa: S101 - just opened
        return self._disk

    def _take_lock(self) -> Path:
        """Take the lock, also if its file was removed in the meantime; return the journal's path."""
        assert self._path is not None  # noqa: S101 - callers have looked
        if not self._path.parent.exists():
            self._path.parent.mkdir(parents=True, mode=0o700)
        if self._writer_lock is None or not self._writer_lock.holds():
            self._release()
            self._writer_lock = only_writer(self._path)
        return self._path

    def _use(self, disk: Store) -> None:
        """Use ``disk`` as the open journal."""
        assert self._path is not None  # noqa: S101 - there is a file
        self._disk = disk
        disk.spans_queued()  # opens the logs, so that they can be identified
        self._identities = identities(self._path)

    def _included(self, restored: Restored) -> None:
        """Record that the state in memory and on disk is the same."""
        assert self._disk is not None  # noqa: S101 - just read
        self._on_disk = restored
        self._epoch, self._last_number = self._disk.epoch(), self._disk.last_number()

    def _regained(self) -> Restored:
        """Open the disk, merge the entries from memory, and return the content of the disk."""
        disk = self._open()
        try:
            return self._merged(disk)
        except _FAILURES as error:
            if not is_damage(error):
                raise
            self._use(self._new_file(error))
            assert self._disk is not None  # noqa: S101 - just opened
            return self._merged(self._disk)

    def _merged(self, disk: Store) -> Restored:
        owner = disk.vm_id()
        if self._vm_id and owner and owner.casefold() != self._vm_id.casefold():
            disk = self._begin_own(owner)
        elif self._on_disk is not None and not self._goes_on(disk):
            # Another journal, or an older copy: counters must not fall, and numbers must not repeat.
            if not disk.is_empty():
                disk = self._set_aside("an older copy of the journal, or another one, is in its place")
            disk.begin_with(self._on_disk, _NOTHING, epoch=self._epoch, last_number=self._last_number)
        disk.merge(self._memory)
        if self._vm_id and not disk.vm_id():
            disk.set_vm_id(self._vm_id)
        counted = self._on_disk.statistics if self._on_disk is not None else None
        restored = disk.restore(counted, self._last_number)
        self._included(restored)
        return restored

    def _goes_on(self, disk: Store) -> bool:
        """Return whether ``disk`` is the journal that was open here, with all entries written to it."""
        return disk.epoch() == self._epoch and disk.last_number() >= self._last_number

    def _put_back(self, *, linked: bool) -> None:
        """Put a copy of the open file at the journal's path; a file there is set aside."""
        assert self._disk is not None  # noqa: S101 - callers have looked
        path = self._take_lock()
        copy = path.with_name(path.name + ".new")
        copy.unlink(missing_ok=True)
        try:
            try:
                self._disk.copy_to(str(copy))
            except sqlite3.Error as error:
                if not is_damage(error):
                    raise
                self._meet(error)
                return
            copy.chmod(0o600)
            aside = replace_with(path, copy)
        finally:
            copy.unlink(missing_ok=True)
        self._drop_disk()
        self._use(on_disk(path))
        if linked:
            self._log.warning(
                "journal file has a hard link: replaced by a copy, so that no other program changes it",
                extra=facts(path=path, set_aside=aside),
            )
            return
        self._errors += 1
        self._log.error(
            "journal files were removed or replaced; wrote them again from the open journal, no data lost",
            extra=facts(path=path, set_aside=aside),
        )

    def _meet(self, error: Exception, entry: Entry = _NOTHING) -> None:
        """Handle ``error`` from writing ``entry``: begin a new file if the old one is damaged, else use memory."""
        if self._disk is None or not is_damage(error):
            self._failed(error)
            self._memory.record(entry)
            return
        try:
            self._use(self._new_file(error))
            assert self._disk is not None  # noqa: S101 - just opened
            before = self._on_disk or Restored()
            self._disk.begin_with(before, entry, epoch=self._epoch, last_number=self._last_number)
            if self._vm_id:
                self._disk.set_vm_id(self._vm_id)
            self._epoch = self._disk.epoch()
        except (sqlite3.Error, OSError) as failure:
            self._failed(failure)
            self._memory.record(entry)

    def _failed(self, error: Exception) -> None:
        """Continue in memory."""
        self._errors += 1
        self._tried = None
        if not self._trouble_reported:
            message = "journal cannot be used, and events are kept in memory until it can"
            self._log.error(message, extra=facts(path=self._path, error=reason(error)))
        self._trouble_reported = True
        self._drop_disk()
        self._release_if_read_only()

    def _new_file(self, error: Exception) -> Store:
        """Set aside a file that is damaged or of another program, and return a new one."""
        self._errors += 1
        return self._set_aside(reason(error))

    def _set_aside(self, why: str) -> Store:
        assert self._path is not None  # noqa: S101 - there is a file
        self._drop_disk()
        aside = set_aside(self._path)
        self._log.error(
            "journal is damaged or not ours: set aside, and a new one begun",
            extra=facts(path=self._path, set_aside=aside, error=why),
        )
        disk = on_disk(self._path)
        self._use(disk)
        return disk

    def _begin_own(self, owner: str) -> Store:
        """Begin a new journal for this VM. The file with the history of the image's VM is set aside."""
        assert self._path is not None  # noqa: S101 - there is a file
        self._drop_disk()
        aside = set_aside(self._path)
        self._log.warning(
            "journal belongs to another VM: set aside, and a new one begun",
            extra=facts(path=self._path, set_aside=aside, vm_id=self._vm_id, journal_vm_id=owner),
        )
        disk = on_disk(self._path)
        disk.set_vm_id(self._vm_id)
        self._use(disk)
        self._included(Restored())
        return disk

    def _drop_disk(self) -> None:
        if self._disk is not None:
            with contextlib.suppress(sqlite3.Error):
                self._disk.close()
        self._disk = None

    def _release_if_read_only(self) -> None:
        """Release the lock on a read-only file system, where no process can write, so that it can be unmounted."""
        if self._path is not None and is_read_only(self._path):
            self._release()

    def _release(self) -> None:
        if self._writer_lock is not None:
            self._writer_lock.release()
        self._writer_lock = None
