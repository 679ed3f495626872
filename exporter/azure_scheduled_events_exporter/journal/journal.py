"""The journal as the exporter uses it: a thread that owns the file, and a queue of what is not yet on disk.

Transitions are on disk before they are reported, for at most :data:`WAIT_SECONDS`: an entry is put
into the queue and waited for. A disk that is full, gone, read-only or hanging is one case: entries
stay in the queue in their order, :attr:`Journal.state` is not up, the caller goes on, and the
thread tries again every :data:`RETRY_SECONDS`. After each write, the thread leaves in memory what
others may read. Any thread may call any operation; none raises because of the
disk.

Must not decide which file is usable (``journal.file``), or know SQL (``journal.store``).
"""

import logging
import threading
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, cast

from azure_scheduled_events_exporter.core.lifecycle import Change, Lifecycle
from azure_scheduled_events_exporter.core.records import Record
from azure_scheduled_events_exporter.core.spans import SpanFacts
from azure_scheduled_events_exporter.core.timestamp import Timestamp
from azure_scheduled_events_exporter.errors import CodecError, DamagedTextError, JournalInUseError
from azure_scheduled_events_exporter.logs import facts
from azure_scheduled_events_exporter.recording.file import RecordedDocument
from azure_scheduled_events_exporter.snapshot.journal_state import JournalState

from . import documents
from .codec import decode
from .file import FAILURES, JournalFile, file_path, is_damage, reason
from .inbox import Inbox
from .store import (
    END_SPAN,
    PUT_SPAN,
    PUT_TRANSITION,
    SET_IF_UNSENT,
    SET_RESULT,
    Row,
    State,
    entry_rows,
    prune_rows,
)

WAIT_SECONDS = 2.0
"""For how long an entry is waited for. Then it waits for the disk by itself."""
MOST: Final = 3000
"""Rows that wait: at most about 5 MiB. Above it, the oldest ones are dropped."""
RETRY_SECONDS = 1.0
"""Interval of the attempts to write, while the disk does not work."""
_CLOSE_SECONDS = 1.0

OWNER_WAIT_SECONDS = 120.0
"""How long to wait until IMDS has answered whether the journal is this VM's.

Until then, its events stay current and
its spans are not sent. Without an answer, it counts as this VM's."""


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
        self._state = State() if self._file is None else self._file.state  # after the newest change
        self._inbox = Inbox() if self._file is None else self._file.inbox  # as of the last look
        self._rows: deque[tuple[int, Row]] = deque(
            maxlen=MOST
        )  # that wait, with the numbers of their changes
        self._added = self._written = (
            0  # numbers of the newest change, and of the newest one on disk
        )
        self._last_number = self._state.last_number  # of the newest transition on disk
        self._vm_id = ""
        self._documents: list[RecordedDocument] = []  # for the thread, dropped if the disk fails
        self._has_work = (
            False  # to write, to check the file, or to read what other processes have written
        )
        self._problem = (
            "there is no file" if self._file is None else ""
        )  # why entries wait, "" while they do not
        self._errors = 0
        self._ending = False
        self._prune_at = self._oldest = (
            0.0  # by the clock since boot, and Unix seconds: what is older is removed
        )
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._run, name="journal", daemon=True)
        if self._file is not None:
            self._thread.start()
            self._put(waits=True)

    @property
    def state(self) -> JournalState:
        """Whether everything is on disk now, and the number of failures."""
        return JournalState(self._problem == "" and self._thread.is_alive(), self._errors)

    def restore(self) -> State:
        """Return the events and statistics after all entries."""
        return self._state

    def record(
        self,
        changes: Sequence[Change] = (),
        lives: Iterable[Lifecycle] = (),
        spans: Iterable[SpanFacts] = (),
        **after: Any,
    ) -> None:
        """Write the transitions of an observation, each life that is new or different, and spans to be delivered.

        ``after`` has the statistics and lifecycles after it, if it changes them.

        Raises:
            CodecError: a bug; nothing is written.
        """
        with self._changed:
            last = self._state.last_number
            rows = entry_rows(last, changes, lives, spans)
            self._put(rows, waits=True, last_number=last + len(changes), **after)

    def _put(self, rows: Iterable[Row] = (), *, waits: bool = False, **changes: Any) -> bool:
        """Let ``rows`` and ``changes`` of the state be written; return whether they are.

        Who ``waits`` does so as long as anything waits for the disk.
        """
        with self._changed:
            self._added += 1
            number = self._added
            self._rows.extend((number, row) for row in rows)
            self._state = replace(self._state, **changes)
            self._wake()
            waits = waits and self._thread.is_alive()
            if waits and not self._changed.wait_for(
                lambda: self._written >= number or self._problem, WAIT_SECONDS
            ):
                self._has_trouble(f"the disk has not answered for {WAIT_SECONDS:g} s")
            return self._written >= number

    def _wake(self) -> None:
        with self._changed:
            self._has_work = True
            self._changed.notify_all()

    @property
    def inbox(self) -> Inbox:
        """What other processes have written, as of the last look; no requests while the disk does not work."""
        return replace(self._inbox, requests=()) if self._problem else self._inbox

    def claim(self, vm_id: str) -> bool:
        """Set this VM's id; return whether the journal was another VM's.

        Then a new one begins, without content.
        """
        if not vm_id or vm_id == self._vm_id:
            return False
        with self._changed:
            self._vm_id, owner = vm_id, self._state.vm_id
            if owner.casefold() == vm_id.casefold():
                return False
            if owner:
                message = (
                    "journal belongs to another VM: begun anew, and the file is kept under another"
                    " name"
                )
                self._log.warning(message, extra=facts(vm_id=vm_id, journal_vm_id=owner))
                self._rows.clear()
                self._state, self._inbox, self._last_number = (
                    State(),
                    Inbox(),
                    0,
                )  # the thread finds another epoch
            self._put(vm_id=vm_id)
        return bool(owner)

    @property
    def awaits_vm_id(self) -> bool:
        """Whether the journal has a VM id but this VM's id is not known yet."""
        return bool(self._state.vm_id) and not self._vm_id

    def maintain(self, now: Timestamp, clock_confirmed: Callable[[], bool]) -> None:
        """Let the thread check the file, read what others have written, and once an hour remove what is too old.

        Call it at every poll. Nothing is removed unless ``clock_confirmed``: a clock that is 100
        days ahead would empty the journal.
        """
        if not self._problem and now.monotonic >= self._prune_at and clock_confirmed():
            # A short retention is there to keep the file small.
            self._prune_at = now.monotonic + min(3600.0, self._retention / 2)
            self._oldest = now.wall - self._retention
            self._put(prune_rows(self._oldest))
        self._wake()

    def queued_spans(self, limit: int) -> Mapping[str, SpanFacts]:
        """Return undelivered spans by their texts, the newest first, at most ``limit``, also those not yet on disk.

        Of those on disk, only the newest are known. One that is damaged is removed.
        """
        found = {}
        for span_id, text in list(reversed(self._known_spans().items()))[:limit]:
            try:
                found[text] = decode(SpanFacts, text)
            except (CodecError, DamagedTextError):
                self._put([Row(END_SPAN, (span_id, None))])
        return found

    def _known_spans(self) -> dict[str, str]:
        """Return texts of undelivered spans by their ids, the newest last, as they are after all rows that wait."""
        with self._changed:
            texts = dict(reversed(self._inbox.spans))
            for _, (statement, values) in self._rows:
                if statement is PUT_SPAN:
                    texts.pop(values[0], None)
                    texts[values[0]] = values[1]
                elif statement is END_SPAN and values[1] in {texts.get(values[0]), None}:
                    texts.pop(values[0], None)
            return texts

    def end_spans(self, spans: Mapping[str, SpanFacts]) -> None:
        """Remove spans that need no delivery any more, by their texts; not newer versions of them."""
        self._put((Row(END_SPAN, (span.span_id, text)) for text, span in spans.items()), waits=True)

    def spans_queued(self) -> int:
        """Return the number of spans that wait for delivery, also of those that wait for the disk."""
        with self._changed:
            return self._inbox.spans_queued - len(self._inbox.spans) + len(self._known_spans())

    def mark_sent(self, number: int) -> bool:
        """Mark an approval request as being sent; return whether it was not withdrawn.

        Without an answer of the disk it was not; the mark is then removed, so that it is sent
        later.
        """
        if not self._put([Row(SET_IF_UNSENT, ("", number))], waits=True):
            self.set_request_results({number: None})
            return False
        return any(each.number == number for each in self.inbox.requests)

    def set_request_results(
        self, results: Mapping[int, str | None], *, if_unsent: bool = False
    ) -> None:
        """Write the results of approval requests that have none, by their numbers; None: it is to be sent again."""
        statement = SET_IF_UNSENT if if_unsent else SET_RESULT
        self._put(Row(statement, (result, number)) for number, result in results.items())

    def transitions(self, after: int) -> list[tuple[int, Record]]:
        """Return the transitions that a journal without a file has after number ``after``, each with its number."""
        with self._changed:
            rows = [
                row.values
                for _, row in self._rows
                if row.statement is PUT_TRANSITION and row.values[0] > after
            ]
        return [(number, decode(dict, text)) for number, _, text in rows]

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
        self._put(heartbeat=at)

    def close(self) -> None:
        """Write what waits, close the file and release its lock; a disk that hangs is left alone."""
        self._ending = True
        self._wake()
        if self._file is not None:
            self._thread.join(_CLOSE_SECONDS)

    # From here on, only the thread calls, except for _has_trouble.

    def _run(self) -> None:
        file, is_last = cast("JournalFile", self._file), False
        while not is_last:
            with self._changed:
                if self._problem:
                    self._changed.wait_for(lambda: self._ending, RETRY_SECONDS)
                else:
                    self._changed.wait_for(lambda: self._ending or self._has_work)
                is_last = self._ending
            self._write(file)
        file.close()

    def _write(self, file: JournalFile) -> None:
        with self._changed:
            number, state, rows = self._added, self._state, [row for _, row in self._rows]
            bodies, self._documents, self._has_work, inbox = self._documents, [], False, self._inbox
            last_number = self._last_number
        try:
            store = file.opened()
            epoch, last = store.position()
            if epoch and (epoch != state.epoch or last < last_number):
                file.unusable = (
                    "it belongs to another VM, or is an older copy of this journal or another one"
                )
                store, epoch = file.opened(), ""
            is_written = number > self._written or not epoch
            if is_written:
                # If as many rows wait as may, some may have been dropped.
                store.write(rows, state, whole=not epoch or len(rows) == MOST)
            inbox = store.inbox(inbox, is_written=is_written)
        except (*FAILURES, JournalInUseError) as error:
            self._failed(file, error)
            return
        with self._changed:
            if self._state.epoch == state.epoch:  # else they are another VM's
                self._written, self._inbox, self._last_number = number, inbox, state.last_number
            while self._rows and self._rows[0][0] <= number:
                self._rows.popleft()
            if self._problem:
                self._log.info("journal is on disk again", extra=facts(path=file.path))
            self._problem = ""
            self._changed.notify_all()
        for document in bodies:
            documents.keep(file.path, document, self._oldest)

    def _failed(self, file: JournalFile, error: Exception) -> None:
        """Close the file. If it is damaged, the next turn begins a new one."""
        file.failed(error)
        with self._changed:
            if is_damage(error):
                file.unusable, self._has_work = reason(error), True
                self._errors += 1
            else:
                self._has_trouble(reason(error))

    def _has_trouble(self, problem: str) -> None:
        """Take note that entries wait for the disk, and log why, once until it works again.

        The lock is held.
        """
        if not self._problem:
            message = "journal cannot be written: entries wait in memory until it can be"
            self._log.error(
                message, extra=facts(path=self._file and self._file.path, error=problem)
            )
        self._problem = problem
        self._errors += 1
        self._changed.notify_all()
