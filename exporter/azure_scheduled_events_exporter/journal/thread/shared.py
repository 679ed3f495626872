"""What the journal's callers and its thread share, under one lock.

Callers add entries, and read what is known after them. The thread takes what is to be written, and
takes note of how that went. Must not know the file (``journal.thread.writer`` does), or what the
entries mean (``journal.journal``).
"""

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

from azure_scheduled_events_exporter.errors import ExporterError
from azure_scheduled_events_exporter.journal.content.entries import Entry
from azure_scheduled_events_exporter.journal.content.look import Look
from azure_scheduled_events_exporter.journal.content.remembered import Remembered, Restored
from azure_scheduled_events_exporter.logs import facts
from azure_scheduled_events_exporter.recording.file import RecordedDocument

from .queue import MOST_BYTES, EntryQueue

WAIT_SECONDS: Final = 2.0
"""For how long a caller waits until its entry is on disk. Then it goes on, and the entry waits."""
_SLICE_SECONDS: Final = 0.1
"""A wait is split into slices of this length. Each counts as at most two, however long it takes.

So a pause of the VM, which is no fault of the disk, shortens a wait by 0.2 s at most.
"""
LOSS_SECONDS: Final = 60.0
"""For how long the journal is not up after entries were lost."""
RETRY_SECONDS: Final = 1.0
"""Interval of the attempts to write, while the disk does not work."""
_MOST_DOCUMENTS: Final = 32
"""How many documents wait at most; each has up to 64 KiB."""


@dataclass(frozen=True, slots=True)
class Work:
    """What the thread is to write: everything that was added until one moment.

    Attributes:
        change: the number of the newest change in it.
        has_new_change: whether there is a change that is not on disk.
        has_lost: whether entries were lost since the last write.
        entries: in their order.
        remembered: what is known after them.
        documents: bodies of IMDS to be kept.
        oldest: a file of documents that begins before this moment (Unix seconds) is closed, and a
            new one begins.
        last_number: the newest transition that was written, to compare with the file's.
    """

    change: int
    has_new_change: bool
    has_lost: bool
    entries: Sequence[Entry]
    remembered: Remembered
    documents: Sequence[RecordedDocument]
    oldest: float
    last_number: int


class Shared:
    """The state of a journal. Thread-safe; ``with`` it to read or change several attributes.

    Args:
        path: of the file, for the log; None if there is none.
        log: where it is logged that entries wait, are lost, or are on disk again.

    Attributes:
        refusal: why the file must not be used; None while nothing speaks against it.
        read: what the thread has read from the file; None until then.
        is_adopted: whether the caller goes on with what was read. Nothing is written before that.
        remembered: what is known after all entries.
        look: what the file had when the thread last looked.
        queue: the entries that wait.
        documents: bodies of IMDS that wait.
        oldest: a file of documents that begins before this moment (Unix seconds) is closed, and a
            new one begins.
        last_number: of the newest transition on disk.
        problem: why entries wait, ``""`` while they do not.
        errors: the number of failures.
        is_ending: whether the thread is to write what waits, and to end.
    """

    def __init__(self, path: Path | None, log: logging.Logger) -> None:
        self._path = path
        self._log = log
        self._changed = threading.Condition()
        self._has_work = True  # at the start: to read the file
        self._lost_at: float | None = None  # when entries were last lost, by the monotonic clock
        self._when_refused: Callable[[], None] = lambda: None
        self.refusal: ExporterError | None = None
        self.read: Restored | None = None
        self.is_adopted = False
        self.remembered = Remembered()
        self.look = Look()
        self.queue = EntryQueue()
        self.documents: deque[RecordedDocument] = deque(maxlen=_MOST_DOCUMENTS)
        self.oldest = 0.0
        self.last_number = 0
        self.problem = ""
        self.errors = 0
        self.is_ending = False

    def __enter__(self) -> Self:
        """Take the lock. A thread that has it already may take it again."""
        self._changed.acquire()
        return self

    def __exit__(self, *_: object) -> None:
        """Release the lock."""
        self._changed.release()

    # What callers use

    @property
    def has_lost_lately(self) -> bool:
        """Whether entries were lost within the last minute."""
        return self._lost_at is not None and time.monotonic() < self._lost_at + LOSS_SECONDS

    def when_refused(self, call: Callable[[], None]) -> None:
        """Call ``call``, from any thread, when the file must not be used; at once if that is so."""
        with self:
            self._when_refused = call
            is_refused = self.refusal is not None
        if is_refused:
            call()

    def put(self, entries: Iterable[Entry], after: Remembered | None = None) -> int:
        """Put one change into the queue; return its number.

        ``after``: what is known after it; None if that is as before.
        """
        with self:
            drops = self.queue.put(entries)
            if after is not None:
                self.remembered = after
            if drops and self._path is not None:  # a journal in memory keeps the newest anyway
                self._report_loss(self._path)
            self.wake()
            return self.queue.added

    def _report_loss(self, path: Path) -> None:
        """Take note that entries are lost; log it unless some were within the last minute."""
        if not self.has_lost_lately:
            message = "journal entries are lost: more come than the disk takes"
            self._log.error(message, extra=facts(path=path, waiting_bytes=MOST_BYTES))
        self._lost_at = time.monotonic()
        self.errors += 1

    def wait_until_written(self, change: int) -> None:
        """Wait until the change with this number is on disk, for at most :data:`WAIT_SECONDS`.

        While the disk is known to fail, and after a refusal, do not wait.
        """

        def is_over() -> bool:
            is_written = self.queue.written >= change
            return is_written or bool(self.problem) or self.refusal is not None

        with self:
            self.wait_for(is_over, WAIT_SECONDS)
            if not is_over():
                self.note_trouble(f"the disk has not answered for {WAIT_SECONDS:g} s")

    def wait_for(self, is_done: Callable[[], object], seconds: float) -> None:
        """Wait until ``is_done``, for at most ``seconds`` without pauses of this VM."""
        with self:
            left = seconds
            while left > 0 and not is_done():
                began = time.monotonic()
                self._changed.wait_for(is_done, min(left, _SLICE_SECONDS))
                left -= min(time.monotonic() - began, 2 * _SLICE_SECONDS)

    def wake(self) -> None:
        """Let the thread write what waits, and look what others have written."""
        with self:
            self._has_work = True
            self._changed.notify_all()

    def end(self) -> None:
        """Let the thread write what waits, and end."""
        self.is_ending = True
        self.wake()

    def note_trouble(self, problem: str) -> None:
        """Take note that entries wait for the disk because of ``problem``.

        The problem is logged, but not again until the disk has worked in between.
        """
        with self:
            try:
                if not self.problem:
                    message = "journal cannot be written: entries wait in memory until it can be"
                    self._log.error(message, extra=facts(path=self._path, error=problem))
            finally:  # also if the log fails
                self.problem = problem
                self.errors += 1
                self._changed.notify_all()

    # What only the thread uses

    def wait_for_work(self) -> bool:
        """Wait until there is work, or it is time to try again.

        Return whether the thread is to end after this work.
        """
        with self:
            if self.problem:
                self._changed.wait_for(lambda: self.is_ending, RETRY_SECONDS)
            else:
                self._changed.wait_for(lambda: self.is_ending or self._has_work)
            self._has_work = False
            return self.is_ending

    def refuse(self, error: ExporterError) -> None:
        """Take note that the file must not be used, and tell the caller."""
        with self:
            self.refusal = error
            call = self._when_refused
            self._changed.notify_all()
        call()

    def note_read(self, restored: Restored) -> None:
        """Take note of what was read."""
        with self:
            self.read = restored
            self._changed.notify_all()
        if restored.problem:
            self.note_trouble(restored.problem)

    def work(self) -> Work:
        """Return what is to be written now. Documents are handed out once."""
        with self:
            documents = list(self.documents)
            self.documents.clear()
            return Work(
                change=self.queue.added,
                has_new_change=not self.queue.is_written,
                has_lost=self.queue.has_lost,
                entries=self.queue.entries(),
                remembered=self.remembered,
                documents=documents,
                oldest=self.oldest,
                last_number=self.last_number,
            )

    def note_written(self, work: Work, look: Look) -> None:
        """Take note that ``work`` is on disk, and of what was seen in the file after it."""
        with self:
            self.queue.note_written(work.change)
            # Another epoch: a new journal was begun meanwhile, because the written one was another
            # VM's. Then what was seen in the file does not count.
            if self.remembered.epoch == work.remembered.epoch:
                self.look = look
                self.last_number = work.remembered.last_number
            if self.problem:
                self._log.info("journal is on disk again", extra=facts(path=self._path))
            self.problem = ""
            self._changed.notify_all()

    def is_check_to_stop(self) -> bool:
        """Return whether the thread has more to do than a check of the file: to write, or to end.

        The check calls it again and again.
        """
        return self.is_ending or not self.queue.is_written

    def try_at_once(self) -> None:
        """Count a failure, and let the thread try again without waiting.

        While entries wait because of a :attr:`problem`, the thread waits nevertheless.
        """
        with self:
            self._has_work = True
            self.errors += 1
