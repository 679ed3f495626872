"""The queue: entries that wait to be written, in their order and in bounded memory.

Entries that are put into it together are one change; changes are numbered. Data only: who uses a
queue holds the lock that protects it (``journal.thread.shared``). Must not know a disk or a thread.
"""

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from azure_scheduled_events_exporter.core.records import Record
from azure_scheduled_events_exporter.journal.content.codec import decode
from azure_scheduled_events_exporter.journal.content.entries import (
    EndedSpan,
    Entry,
    NewSpan,
    NewTransition,
)
from azure_scheduled_events_exporter.journal.content.entries import size as size_of

MOST_BYTES: Final = 8 << 20
"""The most that the entries that wait may take. Above it, the oldest ones are lost."""


@dataclass(frozen=True, slots=True)
class _Waiting:
    """An entry that waits, with the number of the change that it belongs to."""

    change: int
    entry: Entry


class EntryQueue:
    """The entries that are not on disk yet.

    Attributes:
        added: the number of the newest change.
        written: the number of the newest change on disk.
    """

    def __init__(self) -> None:
        self.added = 0
        self.written = 0
        self._waiting: deque[_Waiting] = deque()
        self._bytes = 0
        self._lost_change = 0  # the newest change for which older entries were dropped

    def put(self, entries: Iterable[Entry]) -> bool:
        """Add one change; return whether the oldest entries were dropped, for want of room."""
        self.added += 1
        for entry in entries:
            self._waiting.append(_Waiting(self.added, entry))
            self._bytes += size_of(entry)
        drops = False
        while self._bytes > MOST_BYTES and len(self._waiting) > 1:  # the newest one always stays
            self._drop_first()
            drops = True
        if drops:
            self._lost_change = self.added
        return drops

    def note_written(self, change: int) -> None:
        """Take note that the changes up to the number ``change`` are on disk: they wait no more."""
        self.written = change
        while self._waiting and self._waiting[0].change <= change:
            self._drop_first()

    def clear(self) -> None:
        """Forget the entries: they are not to be written. The numbers of changes go on."""
        self._waiting.clear()
        self._bytes = 0
        self._lost_change = 0

    def _drop_first(self) -> None:
        self._bytes -= size_of(self._waiting.popleft().entry)

    @property
    def is_written(self) -> bool:
        """Whether every change is on disk."""
        return self.written >= self.added

    @property
    def has_lost(self) -> bool:
        """Whether entries were lost since the last write."""
        return self._lost_change > self.written

    def entries(self) -> list[Entry]:
        """Return the entries, the oldest first."""
        return [waiting.entry for waiting in self._waiting]

    def transitions(self, after: int) -> list[tuple[int, Record]]:
        """Return the transitions that wait, after number ``after``, with their numbers."""
        return [
            (entry.number, decode(dict, entry.record))
            for entry in self.entries()
            if isinstance(entry, NewTransition) and entry.number > after
        ]

    def spans_once_written(self, on_disk: Mapping[str, str]) -> dict[str, str]:
        """Return the texts of undelivered spans as they will be when all entries are written.

        They are by the ids of the spans, the newest last.

        Args:
            on_disk: those on disk now, in the same form.
        """
        found = dict(on_disk)
        for entry in self.entries():
            match entry:
                case NewSpan(span_id, text):
                    found.pop(span_id, None)  # the newer version moves to the end
                    found[span_id] = text
                case EndedSpan(span_id, delivered_text):
                    # The collector has this version, or needs none of this span any more.
                    needs_no_version = delivered_text is None
                    if needs_no_version or delivered_text == found.get(span_id):
                        found.pop(span_id, None)
        return found
