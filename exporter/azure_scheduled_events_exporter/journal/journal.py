"""The journal as the exporter uses it: a thread that owns the file, and a queue of what is not yet on disk.

Transitions are on disk before they are reported, for at most :data:`WAIT_SECONDS`: an entry is put into the queue
(``journal.waiting``) and waited for. A disk that is full, gone, read-only or hanging is one case: entries stay in the
queue in their order, :attr:`Journal.state` is not up, the caller goes on, and the thread tries again every
:data:`RETRY_SECONDS`. Any thread may call any operation; none raises because of the disk.

Must not decide which file is usable (``journal.file``), or know SQL (``journal.store``).
"""

import logging
import sqlite3
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import CancelledError, Future
from dataclasses import dataclass, field, replace
from itertools import compress
from pathlib import Path
from typing import Any, TypeVar, cast

from azure_scheduled_events_exporter.core.lifecycle import Lifecycles
from azure_scheduled_events_exporter.core.records import Record
from azure_scheduled_events_exporter.core.statistics import Statistics
from azure_scheduled_events_exporter.core.timestamp import Timestamp
from azure_scheduled_events_exporter.errors import CodecError, DamagedTextError, JournalInUseError
from azure_scheduled_events_exporter.logs import facts
from azure_scheduled_events_exporter.recording.file import RecordedDocument

from . import documents
from .codec import decode, encode
from .file import FAILURES, JournalFile, file_path, is_damage, new_epoch, reason
from .hook_runs import HookRun, HookStatistics, counted
from .requests import ApprovalRequest
from .store import (
    OF_REQUESTS,
    PAGE,
    Entry,
    QueuedSpan,
    Row,
    State,
    Store,
    entry_rows,
    property_row,
    result_row,
    unmark_row,
)
from .waiting import Waiting

_Answer = TypeVar("_Answer")

WAIT_SECONDS = 2.0
"""For how long an entry is waited for. Then it waits for the disk by itself."""
RETRY_SECONDS = 1.0
"""Interval of the attempts to write, while the disk does not work."""
_CLOSE_SECONDS = 1.0
_PRUNE_SECONDS = 3600.0
_HANGS = f"the disk has not answered for {WAIT_SECONDS:g} s"

OWNER_WAIT_SECONDS = 120.0
"""How long to wait until IMDS has answered whether the journal is this VM's. Until then, its events stay current and
its spans are not sent. Without an answer, it counts as this VM's."""


@dataclass(frozen=True, slots=True)
class JournalState:
    """Whether the journal is on disk, for metrics."""

    up: bool = False
    errors: int = 0


@dataclass(frozen=True, slots=True)
class Inbox:
    """What other processes have written for the exporter."""

    requests: Sequence[ApprovalRequest] = ()
    hooks: HookStatistics = field(default_factory=HookStatistics)
    runs: Sequence[HookRun] = ()


class Journal:
    """Stores transitions, events and undelivered spans. Thread-safe.

    Args:
        path: of the file, or of a folder to put it in; None keeps the newest in memory.
        retention: seconds after which ended events are removed.
        log: where failures are logged.

    Raises:
        JournalInUseError: another process writes it.
    """

    def __init__(self, path: Path | None, retention: float, log: logging.Logger) -> None:
        self._retention = retention
        self._log = log
        self._file = None if path is None else JournalFile(file_path(path), log)
        self._state = State()  # after the newest entry
        self._waiting = Waiting()
        self._span_count = 0  # on disk
        self._heartbeat = ""
        if self._file is not None:
            self._read(self._file)
        self._vm_id = ""
        self._inbox = Inbox()
        self._asked: list[tuple[Callable[[Store], Any], Future[Any]]] = []
        self._store: Store | None = None
        self._problem = "not opened yet" if self._file is not None else "there is no file"
        self._is_reported = False  # whether the log has the problem
        self._retry_at = 0.0
        self._errors = 0
        self._added = self._written = 0  # entries
        self._begins_anew = False  # the file is another VM's
        self._looks = False  # the file is to be checked, and what other processes have written to be read
        self._ending = False
        self._pruned: float | None = None
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._run, name="journal", daemon=True)
        if self._file is not None:
            self._thread.start()
            with self._changed:
                self._changed.wait_for(lambda: not self._problem or self._is_reported, WAIT_SECONDS)

    def _read(self, file: JournalFile) -> None:
        """Read what earlier runs have left, also from a disk that cannot be written."""
        store = file.read()
        self._state = file.written
        if store is None:
            return
        try:
            self._span_count = store.spans_queued()
            self._heartbeat = store.property("heartbeat")
            if store.left_out:
                self._log.error(
                    "an entry in the journal cannot be read: left out", extra=facts(error=store.left_out[0])
                )
        except FAILURES as error:
            file.unusable = reason(error)
        finally:
            store.close()

    @property
    def state(self) -> JournalState:
        """Whether everything is on disk now, and the number of failures."""
        return JournalState(not self._problem, self._errors)

    def restore(self) -> State:
        """Return the events and statistics after all entries."""
        return self._state

    def record(self, entry: Entry, statistics: Statistics, known: Lifecycles) -> None:
        """Write ``entry``; ``statistics`` and ``known`` are the complete state after it.

        Raises:
            CodecError: a bug; nothing is written.
        """
        with self._changed:
            self._waiting.put(entry_rows(entry, self._state.last_number))
            last_number = self._state.last_number + len(entry.changes)
            self._state = replace(self._state, lifecycles=known, statistics=statistics, last_number=last_number)
            self._added += 1
            number = self._added
            self._changed.notify_all()
            if self._file is None:
                return
            if not self._changed.wait_for(lambda: self._written >= number or self._problem, WAIT_SECONDS):
                self._has_trouble(_HANGS)

    def look(self) -> None:
        """Let the thread check the file, and read what other processes have written. Call it at every poll."""
        with self._changed:
            self._looks = True
            self._changed.notify_all()

    @property
    def inbox(self) -> Inbox:
        """What other processes have written, as of the last :meth:`look`; no requests while the disk does not work.

        A request whose result waits for the disk is not open any more.
        """
        with self._changed:
            is_open = [not self._problem and not self._waiting.has_result(each.number) for each in self._inbox.requests]
            return replace(self._inbox, requests=list(compress(self._inbox.requests, is_open)))

    def ask(self, what: Callable[[Store], _Answer], default: _Answer) -> _Answer:
        """Return the result of ``what``, with all entries so far written; ``default`` if the disk does not work."""
        if self._problem or not self._thread.is_alive():
            return default
        future = self._later(what)
        try:
            return future.result(WAIT_SECONDS)
        except TimeoutError:
            if future.cancel() or not future.done():
                with self._changed:
                    self._has_trouble(_HANGS)
            return default
        except (CancelledError, CodecError, *FAILURES):
            return default

    def _later(self, what: Callable[[Store], _Answer]) -> "Future[_Answer]":
        future: Future[_Answer] = Future()
        with self._changed:
            self._asked.append((what, future))
            self._changed.notify_all()
        return future

    def claim(self, vm_id: str) -> bool:
        """Set this VM's id; return whether the journal was another VM's. Then a new one begins, without content."""
        if not vm_id or vm_id == self._vm_id:
            return False
        self._vm_id = vm_id
        with self._changed:
            owner = self._state.vm_id
            is_foreign = owner.casefold() not in {"", vm_id.casefold()}
            if is_foreign:
                message = "journal belongs to another VM: begun anew, and the file is kept under another name"
                self._log.warning(message, extra=facts(vm_id=vm_id, journal_vm_id=owner))
                self._state = State(epoch=new_epoch())
                self._waiting, self._begins_anew = Waiting(), True
                self._span_count = 0
            if is_foreign or not owner:
                self._state = replace(self._state, vm_id=vm_id)
                self._waiting.put([property_row("vm_id", vm_id)])
            self._changed.notify_all()
        return is_foreign

    @property
    def awaits_vm_id(self) -> bool:
        """Whether the journal has a VM id but this VM's id is not known yet."""
        return bool(self._state.vm_id) and not self._vm_id

    def prune(self, now: Timestamp, clock_confirmed: Callable[[], bool]) -> None:
        """Remove entries older than the retention, once an hour.

        Nothing is removed unless ``clock_confirmed``: a clock that is 100 days ahead would empty the journal.
        """
        pause = min(_PRUNE_SECONDS, self._retention / 2)  # a short retention is there to keep the file small
        if self._problem or (self._pruned is not None and now.monotonic - self._pruned < pause):
            return
        if clock_confirmed():
            self._pruned = now.monotonic
            self._later(lambda store: self._prune(store, now.wall - self._retention))

    def _prune(self, store: Store, before: float) -> None:
        store.prune(before)
        if self._file is not None:
            documents.prune(self._file.path, before)

    def queued_spans(self, limit: int) -> list[QueuedSpan]:
        """Return undelivered spans, the newest first, at most ``limit`` (-1: all), also those not yet on disk."""
        with self._changed:
            waiting = self._waiting.spans()
        newer, nothing = {each.span.span_id for each in waiting}, list[QueuedSpan]()
        more = limit if limit < 0 else limit + len(self._waiting)
        stored = self.ask(lambda store: store.queued_spans(more), nothing)
        with self._changed:
            stored = [
                each for each in stored if each.span.span_id not in newer and not self._waiting.needs_no_delivery(each)
            ]
        found = [*waiting, *stored]
        return found if limit < 0 else found[:limit]

    def end_spans(self, spans: Iterable[QueuedSpan]) -> None:
        """Remove spans that need no delivery any more."""
        with self._changed:
            for span in spans:
                self._waiting.end_span(span)
            self._changed.notify_all()

    def spans_queued(self) -> int:
        """Return the number of spans that wait for delivery, also of those that wait for the disk."""
        with self._changed:
            return max(0, self._span_count + self._waiting.count_spans())

    def mark_sent(self, number: int, wall: float) -> bool:
        """Mark an approval request as sent; return whether it was not withdrawn.

        Without an answer of the disk it was not; the mark is then removed, so that it is sent later.
        """
        marked = self.ask(lambda store: store.requests.mark_sent([number], wall), None)
        if marked is None:
            self.unmark_sent(number)
        return bool(marked)

    def unmark_sent(self, number: int) -> None:
        """Mark an approval request as not sent: it is sent again."""
        self._put(unmark_row(number))

    def withdraw_requests(self, numbers: Iterable[int], result: str, *, sent_too: bool = False) -> None:
        """Write ``result`` to approval requests that have none, so that the exporter does not send them."""
        self.ask(lambda store: store.requests.withdraw(numbers, result, sent_too=sent_too), None)

    def set_request_results(self, results: Mapping[int, str]) -> None:
        """Write the results of approval requests, by their numbers."""
        self._put(*(result_row(number, result) for number, result in results.items()))

    def transitions(self, after: int, limit: int = PAGE) -> list[tuple[int, Record]]:
        """Return the transitions after number ``after``, each with its number, the oldest first."""
        if self._file is not None:
            return self.ask(lambda store: store.transitions(after, limit), [])
        with self._changed:
            return self._waiting.transitions(after, limit)

    def keep_document(self, document: RecordedDocument) -> None:
        """Store a document unchanged, if the disk works. Only in a file: nobody could read one in memory."""
        if self._file is not None and not self._problem:
            path = self._file.path
            self._later(lambda _: documents.keep(path, document))

    def record_heartbeat(self, at: Timestamp | None) -> None:
        """Write the moment, so that the next run can measure a pause; None removes it."""
        if self._file is not None:
            self._put(property_row("heartbeat", "" if at is None else encode(at)))

    def last_heartbeat(self) -> Timestamp | None:
        """Return the last heartbeat of the previous run; None if there is no readable one."""
        try:
            return decode(Timestamp, self._heartbeat) if self._heartbeat else None
        except (DamagedTextError, CodecError) as error:
            message = "cannot read the previous run's last heartbeat; the pause before this start is not measured"
            self._log.warning(message, extra=facts(error=error))
            return None

    def close(self) -> None:
        """Write what waits, close the file and release its lock; a disk that hangs is left alone."""
        with self._changed:
            self._ending = True
            self._changed.notify_all()
        if self._file is not None:
            self._thread.join(_CLOSE_SECONDS)

    def _put(self, *rows: Row) -> None:
        with self._changed:
            self._waiting.put(rows)
            self._changed.notify_all()

    # From here on, only the thread calls, except for _has_trouble.

    def _run(self) -> None:
        file, is_last = cast("JournalFile", self._file), False
        while not is_last:
            with self._changed:
                left = max(0.0, self._retry_at - time.monotonic()) if self._problem else None
                self._changed.wait_for(self._has_work, left)
                is_last = self._ending
                asked, self._asked = self._asked, []
            if is_last or not self._problem or time.monotonic() >= self._retry_at:
                self._write(file)
            for what, future in asked:
                self._answer(file, what, future)
            with self._changed:
                self._changed.notify_all()
        self._close_store()
        file.release()

    def _has_work(self) -> bool:
        return self._ending or bool(self._asked) or (not self._problem and (self._looks or len(self._waiting) > 0))

    def _write(self, file: JournalFile) -> None:
        with self._changed:
            waiting, state, number = self._waiting, self._state, self._added
            rows, whole = waiting.begin(), waiting.dropped > 0
            looks, self._looks = self._looks, False
            begins_anew, self._begins_anew = self._begins_anew, False
        try:
            if begins_anew:
                self._close_store()
                file.unusable = "it belongs to another VM"
                file.written = State(epoch=state.epoch, vm_id=state.vm_id)
            store = self._opened(file)
            if rows or whole:
                store.write(rows, state, whole=whole)
                self._span_count = store.spans_queued()
            if (looks and store.changed_by_others()) or any(row.statement in OF_REQUESTS for row in rows):
                self._inbox = _inbox(store)
            file.has_written(state)
        except (*FAILURES, JournalInUseError) as error:
            self._failed(file, error)
            return
        with self._changed:
            waiting.end()
            if waiting is self._waiting:
                self._written = number
            if self._problem and self._is_reported:
                self._log.info("journal is on disk again", extra=facts(path=file.path))
            self._problem, self._is_reported = "", False
            self._changed.notify_all()

    def _opened(self, file: JournalFile) -> Store:
        """Return the open store; open it if necessary, also if its file is another one by now."""
        if self._store is not None and not file.check():
            self._errors += 1
            message = "journal files were removed or replaced: opened again, or begun again with the present state"
            self._log.error(message, extra=facts(path=file.path))
            self._store.checkpoint()
            self._close_store()
        if self._store is None:
            self._store = file.open()
            self._span_count = self._store.spans_queued()
            self._inbox = _inbox(self._store)
        return self._store

    def _answer(self, file: JournalFile, what: Callable[[Store], Any], future: "Future[Any]") -> None:
        if not future.set_running_or_notify_cancel():
            return
        if self._store is None:
            future.set_exception(OSError(self._problem))
            return
        try:
            result = what(self._store)
            self._inbox = _inbox(self._store)  # of which this may have changed something
            self._span_count = self._store.spans_queued()
        except Exception as error:  # noqa: BLE001 - whoever asked gets it
            if isinstance(error, FAILURES):
                self._failed(file, error)
            future.set_exception(error)
        else:
            future.set_result(result)

    def _failed(self, file: JournalFile, error: Exception) -> None:
        """Close the file, and let the next attempt begin a new one if this one is damaged."""
        self._close_store()
        self._errors += 1
        if is_damage(error):  # the next turn, which follows at once if anything waits, renames the file
            file.unusable = reason(error)
            return
        self._retry_at = time.monotonic() + RETRY_SECONDS
        file.stop_writing()
        with self._changed:
            self._has_trouble(reason(error), counted=True)

    def _has_trouble(self, problem: str, *, counted: bool = False) -> None:
        """Take note that entries wait for the disk, and log why, once until it works again. The lock is held."""
        if not self._is_reported:
            message = "journal cannot be written: entries wait in memory until it can"
            self._log.error(message, extra=facts(path=self._file and self._file.path, error=problem))
            self._errors += not counted
        self._problem, self._is_reported = problem, True
        self._changed.notify_all()

    def _close_store(self) -> None:
        if self._store is not None:
            try:
                self._store.close()
            except sqlite3.Error as error:
                self._log.debug("closing the journal failed", extra=facts(error=error))
        self._store = None


def _inbox(store: Store) -> Inbox:
    runs = store.hook_runs.all()
    return Inbox(store.requests.open(), counted(runs), runs)
