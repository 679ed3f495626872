"""The journal as the exporter uses it: transitions, spans and requests, written before their use.

Transitions are on disk before they are reported: an entry is put into a queue, and the caller waits
until it is written, for at most two seconds. A disk that is full, gone, read-only or hanging is one
case: entries stay in the queue in their order, :attr:`Journal.state` is not up, the caller goes on,
and the journal's thread (``journal.thread.writer``) tries again every second. Any thread may call
any operation; none raises because of the disk.

The thread also opens the file and reads what earlier runs have left, so that a disk that hangs at
the start holds up nobody. At any moment, the journal is in one of three stages:

1. The file is not read yet. Entries wait in the queue.
2. The file is read, and :meth:`Journal.adopt` has not been called. Entries wait in the queue.
3. The caller has called :meth:`Journal.adopt`, which returns what was read, and empties the queue.
   The caller applies to what was read all that has happened so far, and records it anew. From now
   on, the thread writes.

Must not open the file, or know SQL.
"""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from azure_scheduled_events_exporter.core.lifecycle import Change, Lifecycle, Lifecycles
from azure_scheduled_events_exporter.core.records import Record
from azure_scheduled_events_exporter.core.spans import SpanFacts
from azure_scheduled_events_exporter.core.statistics import Statistics
from azure_scheduled_events_exporter.core.timestamp import Timestamp
from azure_scheduled_events_exporter.errors import CodecError, DamagedTextError, ExporterError
from azure_scheduled_events_exporter.journal.content.codec import decode
from azure_scheduled_events_exporter.journal.content.entries import (
    BEING_SENT,
    EndedSpan,
    Expiry,
    RequestResult,
    entries_of,
)
from azure_scheduled_events_exporter.journal.content.inbox import Inbox
from azure_scheduled_events_exporter.journal.content.remembered import Remembered, Restored
from azure_scheduled_events_exporter.journal.thread.shared import Shared
from azure_scheduled_events_exporter.journal.thread.writer import Writer
from azure_scheduled_events_exporter.logs import facts
from azure_scheduled_events_exporter.recording.file import RecordedDocument
from azure_scheduled_events_exporter.snapshot.journal_state import JournalState

_CLOSE_SECONDS: Final = 1.0
"""For how long :meth:`Journal.close` waits for the thread: the process is about to end."""

OWNER_WAIT_SECONDS: Final = 120.0
"""How long to wait for this VM's id from IMDS, which tells whether the journal is this VM's.

Until then, the journal's events stay current, and its spans are not sent. After that, the journal
counts as this VM's.
"""


class Journal:
    """Stores transitions, events and undelivered spans. Thread-safe.

    Args:
        path: of the file, or of a folder to put it in; None for a journal in memory, which keeps
            the newest entries.
        retention: seconds after which ended events are removed.
        log: where failures are logged.
        renames: False to refuse a file that would have to be renamed, and to leave it as it is.
    """

    def __init__(
        self,
        path: Path | None,
        retention: float,
        log: logging.Logger,
        *,
        renames: bool = True,
    ) -> None:
        self._retention = retention
        self._log = log
        self._vm_id = ""
        self._prune_at = 0.0  # by the clock since boot
        self._shared = Shared(path, log)
        self._writer: Writer | None = None
        if path is None:
            # As if the disk had failed after an empty file was read: nobody waits for it.
            self._shared.read = Restored()
            self._shared.problem = "there is no file"
        else:
            self._writer = Writer(path, self._shared, log, renames=renames)

    @property
    def state(self) -> JournalState:
        """Whether entries reach the disk and none was lost lately, and the number of failures."""
        shared = self._shared
        if self._writer is None:
            return JournalState(None, shared.errors)
        is_up = not shared.problem and not shared.has_lost_lately and self._writer.is_alive()
        return JournalState(is_up, shared.errors)

    @property
    def refusal(self) -> ExporterError | None:
        """Why the file must not be used, such as another process that writes it.

        None while nothing speaks against it.
        """
        return self._shared.refusal

    def when_refused(self, call: Callable[[], None]) -> None:
        """Call ``call``, from any thread, when the file must not be used.

        If that is known already, the call is made at once.
        """
        self._shared.when_refused(call)

    def wait_until_read(self, seconds: float) -> bool:
        """Wait until the file is read, for at most ``seconds``; return whether it is.

        A disk that fails ends the wait.
        """
        with self._shared as shared:
            shared.wait_for(lambda: shared.read or shared.problem or shared.refusal, seconds)
            return shared.read is not None

    def report_hanging(self, seconds: float) -> None:
        """Report that the disk hangs, unless the file is read or another problem is known.

        ``seconds``: how long the caller has waited for it.
        """
        with self._shared as shared:
            if shared.read is None and not shared.problem and shared.refusal is None:
                shared.note_trouble(f"the disk has not answered for {seconds:g} s")

    def adopt(self) -> Remembered | None:
        """Go on with what earlier runs have left; return it, once it has been read.

        What has been recorded so far is forgotten: the caller records it again, as it follows from
        what is returned. Returns None as long as the file has not been read, and after the first
        time.
        """
        with self._shared as shared:
            if shared.read is None or shared.is_adopted:
                return None
            shared.is_adopted = True
            self._begin_with(shared.read)
            self._take_ownership()
            shared.wake()
            return shared.remembered

    def claim(self, vm_id: str) -> bool:
        """Set this VM's id, once; return whether the journal turned out to be another VM's.

        If so, a new one begins, without content. Before :meth:`adopt`, the result is False: adopt()
        compares the ids then.
        """
        if not vm_id or self._vm_id:
            return False
        with self._shared as shared:
            self._vm_id = vm_id
            if not shared.is_adopted:
                return False
            return self._take_ownership()

    def _take_ownership(self) -> bool:
        """Make the journal this VM's, if this VM's id is known; return whether it was another's.

        The caller holds the lock.
        """
        shared = self._shared
        owner = shared.remembered.vm_id
        # Ids are compared without case, as Azure compares them.
        if not self._vm_id or owner.casefold() == self._vm_id.casefold():
            return False
        if owner:
            message = (
                "journal belongs to another VM: begun anew, and the file is kept under another name"
            )
            self._log.warning(message, extra=facts(vm_id=self._vm_id, journal_vm_id=owner))
            # It has a new epoch, by which the thread sees that the file is another journal.
            self._begin_with(Restored())
        shared.put((), replace(shared.remembered, vm_id=self._vm_id))
        return bool(owner)

    def _begin_with(self, restored: Restored) -> None:
        """Forget what is known and what waits, and go on with ``restored``.

        The caller holds the lock.
        """
        shared = self._shared
        shared.queue.clear()
        shared.remembered = restored.remembered
        shared.look = restored.look
        shared.last_number = restored.remembered.last_number

    @property
    def awaits_vm_id(self) -> bool:
        """Whether the journal has a VM id but this VM's id is not known yet."""
        return bool(self._shared.remembered.vm_id) and not self._vm_id

    @property
    def remembered(self) -> Remembered:
        """The events and statistics after all entries."""
        return self._shared.remembered

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
        with self._shared as shared:
            before = shared.remembered
            entries = list(entries_of(before.last_number, changes, lives, spans))
            after = replace(before, last_number=before.last_number + len(changes))
            if statistics is not None:
                after = replace(after, statistics=statistics)
            if lifecycles is not None:
                after = replace(after, lifecycles=lifecycles)
            change = shared.put(entries, after)
        self._wait_until_written(change)

    def _wait_until_written(self, change: int) -> bool:
        """Wait until the change with this number is on disk; return whether it is.

        The wait has a limit, and ends at once while the disk is known to fail (see ``Shared``). A
        journal without a thread writes nothing, and nobody waits for it.
        """
        if self._writer is not None and self._writer.is_alive():
            self._shared.wait_until_written(change)
        return self._shared.queue.written >= change

    def record_heartbeat(self, at: Timestamp | None) -> None:
        """Write the moment, so that the next run can measure a pause; None removes it."""
        with self._shared as shared:
            shared.put((), replace(shared.remembered, heartbeat=at))

    def keep_document(self, document: RecordedDocument) -> None:
        """Store a document unchanged, if the disk works.

        A journal in memory stores none: nobody could read it.
        """
        with self._shared as shared:
            if not shared.problem:  # a journal in memory always has one
                shared.documents.append(document)
                shared.wake()

    def maintain(self, now: Timestamp, clock_confirmed: Callable[[], bool]) -> None:
        """Let the thread check the file and read what others have written.

        Call it at every poll. Once an hour, or more often with a short retention, what is too old
        is removed. Nothing is removed unless ``clock_confirmed``: a clock that is 100 days ahead
        would empty the journal.
        """
        shared = self._shared
        # While the disk fails, nothing is removed: the rows would stay, and the queue would grow.
        if not shared.problem and now.monotonic >= self._prune_at and clock_confirmed():
            # A short retention is there to keep the file small.
            self._prune_at = now.monotonic + min(3600.0, self._retention / 2)
            shared.oldest = now.wall - self._retention  # for documents, which are no entries
            shared.put([Expiry(shared.oldest)])
        shared.wake()

    def queued_spans(self, limit: int) -> Mapping[str, SpanFacts]:
        """Return undelivered spans by their texts, the newest first, at most ``limit``.

        Those that are not yet on disk are among them. Of those on disk, only the newest are known.
        One that cannot be decoded is removed.
        """
        found = {}
        newest_first = list(reversed(self._known_spans().items()))
        for span_id, text in newest_first[:limit]:
            try:
                found[text] = decode(SpanFacts, text)
            except (CodecError, DamagedTextError):
                self._shared.put([EndedSpan(span_id, None)])
        return found

    def _known_spans(self) -> dict[str, str]:
        """Return texts of undelivered spans by their ids, the newest last.

        They are as they will be after all entries that wait.
        """
        with self._shared as shared:
            on_disk = dict(reversed(shared.look.spans.newest))
            return shared.queue.spans_once_written(on_disk)

    def end_spans(self, spans: Mapping[str, SpanFacts]) -> None:
        """Remove spans that need no delivery any more, by their texts.

        Newer versions of them stay.
        """
        ended = [EndedSpan(span.span_id, text) for text, span in spans.items()]
        self._wait_until_written(self._shared.put(ended))

    def spans_queued(self) -> int:
        """Return the number of spans that wait for delivery.

        Spans that are not on disk yet are counted too.
        """
        with self._shared as shared:
            stored = shared.look.spans
            # Those on disk that are not among the newest, whose texts are not known.
            others = stored.count - len(stored.newest)
            return others + len(self._known_spans())

    @property
    def inbox(self) -> Inbox:
        """What other processes have written, as of the last look.

        There are no requests while the disk does not work: :meth:`mark_sent` could not mark them.
        """
        inbox = self._shared.look.inbox
        if self._shared.problem:
            return replace(inbox, requests=())
        return inbox

    def mark_sent(self, number: int) -> bool:
        """Mark an approval request as being sent; return whether it may be sent now.

        It may not if it was withdrawn, or if the disk does not answer. In the second case, the mark
        is removed again, so that the request is sent later.
        """
        change = self._shared.put([RequestResult(number, BEING_SENT, if_unsent=True)])
        if not self._wait_until_written(change):
            self.set_request_results({number: None})
            return False
        # After it has written, the thread reads the open requests. The marked one is still open,
        # one that was withdrawn meanwhile is not.
        return any(each.number == number for each in self.inbox.requests)

    def set_request_results(
        self, results: Mapping[int, str | None], *, if_unsent: bool = False
    ) -> None:
        """Write the results of approval requests that have none, by their numbers.

        A result of None means that the request is to be sent again. ``if_unsent``: requests that
        are being sent stay as they are.
        """
        self._shared.put(
            RequestResult(number, result, if_unsent) for number, result in results.items()
        )

    def transitions(self, after: int) -> list[tuple[int, Record]]:
        """Return the transitions that a journal without a file has after number ``after``.

        Each comes with its number.
        """
        with self._shared as shared:
            return shared.queue.transitions(after)

    def close(self) -> None:
        """Write what waits, close the file and release its lock.

        It does not wait for a disk that hangs.
        """
        self._shared.end()
        if self._writer is not None:
            self._writer.join(_CLOSE_SECONDS)
