"""The journal as the exporter uses it: a thread that owns the file, and a queue.

Transitions are on disk before they are reported, for at most :data:`WAIT_SECONDS`: an entry is put
into the queue and waited for. A disk that is full, gone, read-only or hanging is one case: entries
stay in the queue in their order, :attr:`Journal.state` is not up, the caller goes on, and the
thread tries again every :data:`RETRY_SECONDS`. After each write, the thread leaves in memory what
others may read. Any thread may call any operation; none raises because of the disk.

The thread also opens the file and reads what earlier runs have left, so that a disk that hangs at
the start holds up nobody. Until then the journal is in one of these phases:

1. The file is not read. Entries are put into the queue, as far as others need them from there.
2. It is read, and :meth:`Journal.adopt` has not been called. Nothing is written.
3. The caller has adopted what was read. The queue is emptied: the caller derives anew, from what it
   has adopted, what came before, and records it. From now on, the thread writes.

Must not decide which file is usable (``journal.file``), or know SQL (``journal.store``).
"""

import logging
import sqlite3
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from azure_scheduled_events_exporter.core.lifecycle import Change, Lifecycle, Lifecycles
from azure_scheduled_events_exporter.core.records import Record
from azure_scheduled_events_exporter.core.spans import SpanFacts
from azure_scheduled_events_exporter.core.statistics import Statistics
from azure_scheduled_events_exporter.core.timestamp import Timestamp
from azure_scheduled_events_exporter.errors import (
    CodecError,
    DamagedTextError,
    ExporterError,
    JournalInUseError,
)
from azure_scheduled_events_exporter.logs import facts
from azure_scheduled_events_exporter.recording.file import RecordedDocument
from azure_scheduled_events_exporter.snapshot.journal_state import JournalState

from . import documents
from .codec import decode
from .entries import EndedSpan, Entry, Expiry, NewSpan, NewTransition, RequestResult, entries_of
from .entries import size as size_of
from .file import FAILURES, JournalFile, Restored, may_be_damage, proven_damage, reason
from .folder_owner import as_folder_owner
from .inbox import Inbox
from .store import Remembered, Store

WAIT_SECONDS: Final = 2.0
"""For how long an entry is waited for. Then it waits for the disk by itself."""
_SLICE_SECONDS: Final = 0.1
"""Waits are made of so long ones, and none counts as more than two of them.

So a pause of the VM, which is no fault of the disk, costs a wait 0.2 s at most.
"""
MOST_BYTES: Final = 8 << 20
"""The most that the entries that wait may take. Above it, the oldest ones are lost."""
_MOST_DOCUMENTS: Final = 32
"""How many documents wait at most; each has up to 64 KiB."""
LOSS_SECONDS: Final = 60.0
"""For how long the journal is not up after entries were lost."""
RETRY_SECONDS: Final = 1.0
"""Interval of the attempts to write, while the disk does not work."""
_CLOSE_SECONDS: Final = 1.0

OWNER_WAIT_SECONDS: Final = 120.0
"""How long to wait until IMDS has answered whether the journal is this VM's.

Until then, its events stay current and its spans are not sent. Without an answer, it counts as this
VM's.
"""


@dataclass(frozen=True, slots=True)
class _Waiting:
    """An entry that waits, with the number of the change that it belongs to."""

    change: int
    entry: Entry


class Journal:
    """Stores transitions, events and undelivered spans. Thread-safe.

    Args:
        path: of the file, or of a folder to put it in; None keeps the newest in memory.
        retention: seconds after which ended events are removed.
        log: where failures are logged.

    Attributes:
        refusal: why the file must not be used, such as another process that writes it; None while
            nothing speaks against it.
    """

    def __init__(self, path: Path | None, retention: float, log: logging.Logger) -> None:
        self._path = path
        self._retention = retention
        self._log = log
        self.refusal: ExporterError | None = None
        self._when_refused: Callable[[], None] = lambda: None
        self._changed = threading.Condition()  # its lock protects all that follows
        self._read: Restored | None = None
        self._is_adopted = False
        self._remembered = Remembered()  # after the newest change
        self._inbox = Inbox()  # as of the last look
        self._vm_id = ""
        self._waiting: deque[_Waiting] = deque()
        self._waiting_bytes = 0
        self._lost_at: float | None = None  # when entries were last lost, by the monotonic clock
        self._lost_change = 0  # number of the newest change whose entries may be lost
        self._added = 0  # number of the newest change
        self._written = 0  # number of the newest change on disk
        self._last_number = 0  # of the newest transition on disk
        self._documents: deque[RecordedDocument] = deque(maxlen=_MOST_DOCUMENTS)
        self._has_work = True  # to read, to write, to check the file, or to look what others wrote
        self._is_checked = False  # whether the whole file has been checked in this run
        self._problem = ""  # why entries wait, "" while they do not
        self._errors = 0
        self._ending = False
        self._prune_at = 0.0  # by the clock since boot
        self._oldest = 0.0  # Unix seconds: what is older is removed
        self._thread: threading.Thread | None = None
        if path is None:
            self._read = Restored()
            self._problem = "there is no file"
        else:
            self._thread = threading.Thread(
                target=self._run, args=(path,), name="journal", daemon=True
            )
            self._thread.start()

    @property
    def state(self) -> JournalState:
        """Whether everything is on disk now, and the number of failures."""
        if self._thread is None:
            return JournalState(None, self._errors)
        has_lost = self._lost_at is not None and time.monotonic() < self._lost_at + LOSS_SECONDS
        is_up = not self._problem and not has_lost and self._thread.is_alive()
        return JournalState(is_up, self._errors)

    def when_refused(self, call: Callable[[], None]) -> None:
        """Call ``call``, from any thread, when the file must not be used.

        If that is known already, the call is made at once.
        """
        with self._changed:
            self._when_refused = call
            is_refused = self.refusal is not None
        if is_refused:
            call()

    def wait_until_read(self, seconds: float) -> bool:
        """Wait until the file is read, for at most ``seconds``; return whether it is.

        A disk that fails ends the wait.
        """
        with self._changed:
            self._wait_for(lambda: self._read or self._problem or self.refusal, seconds)
            return self._read is not None

    def report_hanging(self, seconds: float) -> None:
        """Take note that the file has not been read for so long, if that is so."""
        with self._changed:
            if self._read is None and not self._problem and self.refusal is None:
                self._has_trouble(f"the disk has not answered for {seconds:g} s")

    def adopt(self) -> Remembered | None:
        """Go on with what earlier runs have left; return it, once it has been read.

        What has been recorded so far is forgotten: the caller records it again, as it follows from
        what is returned. Returns None as long as the file has not been read, and after the first
        time.
        """
        with self._changed:
            if self._read is None or self._is_adopted:
                return None
            self._is_adopted = True
            found = self._read
            if self._is_another_vms(found.remembered):
                found = Restored()
            self._forget_entries()
            self._inbox = found.inbox
            self._last_number = found.remembered.last_number
            vm_id = self._vm_id or found.remembered.vm_id
            self._remembered = replace(found.remembered, vm_id=vm_id)
            self._wake()
            return self._remembered

    def _forget_entries(self) -> None:
        """Empty the queue; the lock is held."""
        self._waiting.clear()
        self._waiting_bytes = 0
        self._lost_change = 0

    def _is_another_vms(self, remembered: Remembered) -> bool:
        """Return whether the journal is another VM's, and log that.

        Returns False while this VM is unknown.
        """
        owner = remembered.vm_id
        if not owner or not self._vm_id or owner.casefold() == self._vm_id.casefold():
            return False
        message = (
            "journal belongs to another VM: begun anew, and the file is kept under another name"
        )
        self._log.warning(message, extra=facts(vm_id=self._vm_id, journal_vm_id=owner))
        return True

    @property
    def remembered(self) -> Remembered:
        """The events and statistics after all entries."""
        return self._remembered

    def record(
        self,
        changes: Sequence[Change] = (),
        lives: Iterable[Lifecycle] = (),
        spans: Iterable[SpanFacts] = (),
        *,
        statistics: Statistics | None = None,
        lifecycles: Lifecycles | None = None,
    ) -> None:
        """Write what an observation adds.

        Args:
            changes: the transitions.
            lives: the lives that are new or different.
            spans: to be delivered.
            statistics: after the changes; None if they are as before.
            lifecycles: after the changes; None if they are as before.

        Raises:
            CodecError: a bug; nothing is written.
        """
        with self._changed:
            before = self._remembered
            entries = list(entries_of(before.last_number, changes, lives, spans))
            after = replace(
                before,
                last_number=before.last_number + len(changes),
                statistics=before.statistics if statistics is None else statistics,
                lifecycles=before.lifecycles if lifecycles is None else lifecycles,
            )
            self._put(entries, after, waits=True)

    def _put(
        self, entries: Iterable[Entry], after: Remembered | None = None, *, waits: bool = False
    ) -> bool:
        """Put ``entries`` into the queue; return whether they are written.

        ``after``: what is remembered after them.

        Who ``waits`` does so as long as anything waits for the disk.
        """
        with self._changed:
            self._added += 1
            number = self._added
            for entry in entries:
                self._waiting.append(_Waiting(number, entry))
                self._waiting_bytes += size_of(entry)
            self._drop_oldest()
            if after is not None:
                self._remembered = after
            self._wake()
            if waits and self._thread is not None and self._thread.is_alive():
                self._wait_for(lambda: self._written >= number or self._problem, WAIT_SECONDS)
                if self._written < number and not self._problem:
                    self._has_trouble(f"the disk has not answered for {WAIT_SECONDS:g} s")
            return self._written >= number

    def _drop_oldest(self) -> None:
        """Drop the oldest of too many entries; the lock is held."""
        if self._waiting_bytes <= MOST_BYTES:
            return
        while self._waiting_bytes > MOST_BYTES and len(self._waiting) > 1:
            self._waiting_bytes -= size_of(self._waiting.popleft().entry)
        if self._path is None:
            return
        now = time.monotonic()
        if self._lost_at is None or now >= self._lost_at + LOSS_SECONDS:
            message = "journal entries are lost: more come than the disk takes"
            self._log.error(message, extra=facts(path=self._path, waiting_bytes=MOST_BYTES))
        self._lost_at = now
        self._lost_change = self._added
        self._errors += 1

    def _wait_for(self, is_done: Callable[[], object], seconds: float) -> None:
        """Wait until ``is_done``, at most ``seconds`` in which this VM runs.

        The caller holds the lock.
        """
        left = seconds
        while left > 0 and not is_done():
            began = time.monotonic()
            self._changed.wait_for(is_done, min(left, _SLICE_SECONDS))
            left -= min(time.monotonic() - began, 2 * _SLICE_SECONDS)

    def _wake(self) -> None:
        with self._changed:
            self._has_work = True
            self._changed.notify_all()

    @property
    def inbox(self) -> Inbox:
        """What other processes have written, as of the last look.

        There are no requests while the disk does not work.
        """
        return replace(self._inbox, requests=()) if self._problem else self._inbox

    def claim(self, vm_id: str) -> bool:
        """Set this VM's id, once; return whether the journal was another VM's.

        Then a new one begins, without content.
        """
        if not vm_id or self._vm_id:
            return False
        with self._changed:
            self._vm_id = vm_id
            if not self._is_adopted:
                return False
            is_another_vms = self._is_another_vms(self._remembered)
            if is_another_vms:
                self._forget_entries()
                self._remembered = Remembered()  # the thread finds another epoch
                self._inbox = Inbox()
                self._last_number = 0
            if self._remembered.vm_id.casefold() != vm_id.casefold():
                self._put((), replace(self._remembered, vm_id=vm_id))
            return is_another_vms

    @property
    def awaits_vm_id(self) -> bool:
        """Whether the journal has a VM id but this VM's id is not known yet."""
        return bool(self._remembered.vm_id) and not self._vm_id

    def maintain(self, now: Timestamp, clock_confirmed: Callable[[], bool]) -> None:
        """Let the thread check the file and read what others have written.

        Once an hour, what is too old is removed. Call it at every poll. Nothing is removed unless
        ``clock_confirmed``: a clock that is 100 days ahead would empty the journal.
        """
        if not self._problem and now.monotonic >= self._prune_at and clock_confirmed():
            # A short retention is there to keep the file small.
            self._prune_at = now.monotonic + min(3600.0, self._retention / 2)
            self._oldest = now.wall - self._retention
            self._put([Expiry(self._oldest)])
        self._wake()

    def queued_spans(self, limit: int) -> Mapping[str, SpanFacts]:
        """Return undelivered spans by their texts, the newest first, at most ``limit``.

        Those that are not yet on disk are among them. Of those on disk, only the newest are known.
        One that is damaged is removed.
        """
        found = {}
        for span_id, text in list(reversed(self._known_spans().items()))[:limit]:
            try:
                found[text] = decode(SpanFacts, text)
            except (CodecError, DamagedTextError):
                self._put([EndedSpan(span_id, None)])
        return found

    def _known_spans(self) -> dict[str, str]:
        """Return texts of undelivered spans by their ids, the newest last.

        They are as they will be after all entries that wait.
        """
        with self._changed:
            texts = dict(reversed(self._inbox.spans))
            for waiting in self._waiting:
                match waiting.entry:
                    case NewSpan(span_id, text):
                        texts.pop(span_id, None)
                        texts[span_id] = text
                    case EndedSpan(span_id, ended) if ended in {texts.get(span_id), None}:
                        texts.pop(span_id, None)
            return texts

    def end_spans(self, spans: Mapping[str, SpanFacts]) -> None:
        """Remove spans that need no delivery any more, by their texts.

        Newer versions of them stay.
        """
        self._put([EndedSpan(span.span_id, text) for text, span in spans.items()], waits=True)

    def spans_queued(self) -> int:
        """Return the number of spans that wait for delivery.

        Spans that are not on disk yet are counted too.
        """
        with self._changed:
            return self._inbox.spans_queued - len(self._inbox.spans) + len(self._known_spans())

    def mark_sent(self, number: int) -> bool:
        """Mark an approval request as being sent; return whether it was not withdrawn.

        Without an answer of the disk it was not; the mark is then removed, so that it is sent
        later.
        """
        if not self._put([RequestResult(number, "", if_unsent=True)], waits=True):
            self.set_request_results({number: None})
            return False
        return any(each.number == number for each in self.inbox.requests)

    def set_request_results(
        self, results: Mapping[int, str | None], *, if_unsent: bool = False
    ) -> None:
        """Write the results of approval requests that have none, by their numbers.

        A result of None means that the request is to be sent again.
        """
        self._put([RequestResult(number, result, if_unsent) for number, result in results.items()])

    def transitions(self, after: int) -> list[tuple[int, Record]]:
        """Return the transitions that a journal without a file has after number ``after``.

        Each comes with its number.
        """
        with self._changed:
            entries = [waiting.entry for waiting in self._waiting]
        return [
            (entry.number, decode(dict, entry.record))
            for entry in entries
            if isinstance(entry, NewTransition) and entry.number > after
        ]

    def keep_document(self, document: RecordedDocument) -> None:
        """Store a document unchanged, if the disk works.

        Only in a file: nobody could read one in memory.
        """
        with self._changed:
            if not self._problem:
                self._documents.append(document)
                self._wake()

    def record_heartbeat(self, at: Timestamp | None) -> None:
        """Write the moment, so that the next run can measure a pause; None removes it."""
        with self._changed:
            self._put((), replace(self._remembered, heartbeat=at))

    def close(self) -> None:
        """Write what waits, close the file and release its lock.

        It does not wait for a disk that hangs.
        """
        self._ending = True
        self._wake()
        if self._thread is not None:
            self._thread.join(_CLOSE_SECONDS)

    # From here on, only the thread calls, except for _has_trouble.

    def _run(self, path: Path) -> None:
        file = JournalFile(path, self._log)
        try:
            file.locate()
            with as_folder_owner(file.path.parent):
                self._work(file)
                file.close()
        except ExporterError as error:
            file.close()
            with self._changed:
                self.refusal = error
                call = self._when_refused
                self._changed.notify_all()
            call()

    def _work(self, file: JournalFile) -> None:
        """Read, then write, until the end.

        Raises:
            ExporterError: the file must not be used.
        """
        is_last = False
        is_first = True
        while not is_last:
            with self._changed:
                if self._problem:
                    self._changed.wait_for(lambda: self._ending, RETRY_SECONDS)
                else:
                    self._changed.wait_for(lambda: self._ending or self._has_work)
                is_last = self._ending
                self._has_work = False
            try:
                if self._read is None:
                    self._restore(file)
                if self._is_adopted:
                    self._write(file)
            except JournalInUseError as error:
                if is_first:
                    raise
                self._failed(file, error)
            except FAILURES as error:
                self._failed(file, error)
            is_first = False

    def _restore(self, file: JournalFile) -> None:
        restored = file.restored()
        with self._changed:
            self._read = restored
            if restored.problem:
                self._has_trouble(restored.problem)
            self._changed.notify_all()

    def _write(self, file: JournalFile) -> None:
        """Write what waits, and look at what others have written."""
        with self._changed:
            number = self._added
            remembered = self._remembered
            entries = [waiting.entry for waiting in self._waiting]
            bodies = list(self._documents)
            self._documents.clear()
            inbox = self._inbox
            last_number = self._last_number
            has_lost = self._lost_change > self._written
        store = file.opened()
        position = store.position()
        if position.epoch and position.epoch != remembered.epoch:
            file.unusable = "it belongs to another VM, or is another journal"
            store = file.opened()
            position = store.position()
        # A new file, or an older copy of this journal, lacks what is known by now.
        is_whole = has_lost or not position.epoch or position.last_number < last_number
        is_written = is_whole or number > self._written
        if is_written:
            store.write(entries, remembered, whole=is_whole)
        inbox = store.inbox(inbox, is_written=is_written)
        self._has_written(file, number, remembered, inbox)
        for document in bodies:
            documents.keep(file.path, document, self._oldest)
        self._check(store)

    def _has_written(
        self, file: JournalFile, number: int, remembered: Remembered, inbox: Inbox
    ) -> None:
        """Take note that the changes up to ``number`` are on disk."""
        with self._changed:
            if self._remembered.epoch == remembered.epoch:  # else they are another VM's
                self._written = number
                self._inbox = inbox
                self._last_number = remembered.last_number
            while self._waiting and self._waiting[0].change <= number:
                self._waiting_bytes -= size_of(self._waiting.popleft().entry)
            if self._problem:
                self._log.info("journal is on disk again", extra=facts(path=file.path))
            self._problem = ""
            self._changed.notify_all()

    def _check(self, store: Store) -> None:
        """Check the whole file, once in a run, while nothing waits to be written."""
        if self._is_checked:
            return
        try:
            store.check(lambda: self._ending or self._added > self._written)
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_INTERRUPT:
                raise
            return
        self._is_checked = True

    def _failed(self, file: JournalFile, error: Exception) -> None:
        """Close the file. If it is proven to be damaged, the next turn begins a new one."""
        file.failed(error)
        proven = proven_damage(file.path) if may_be_damage(error) else ""
        with self._changed:
            if proven:
                file.unusable = proven
                self._has_work = True
                self._errors += 1
            else:
                self._has_trouble(reason(error))

    def _has_trouble(self, problem: str) -> None:
        """Take note that entries wait for the disk, and log why, once until it works again.

        The lock is held.
        """
        if not self._problem:
            message = "journal cannot be written: entries wait in memory until it can be"
            self._log.error(message, extra=facts(path=self._path, error=problem))
        self._problem = problem
        self._errors += 1
        self._changed.notify_all()
