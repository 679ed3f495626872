"""What is not yet on disk: rows in the order in which they came, at most :data:`MOST`.

Must not know threads, files or how SQL is executed. A journal without a file has nothing but this.
"""

from collections.abc import Iterable
from itertools import islice
from typing import Final

from azure_scheduled_events_exporter.core.records import Record
from azure_scheduled_events_exporter.core.spans import SpanFacts

from .codec import decode
from .store import END_SPAN, PUT_SPAN, PUT_TRANSITION, SET_RESULT, QueuedSpan, Row, span_end_row

MOST: Final = 3000
"""Rows that wait: at most about 5 MiB. Above it, the oldest ones are dropped."""


class Waiting:
    """The rows that wait for the disk. Not thread-safe.

    Attributes:
        dropped: how many were dropped since everything was on disk: then the file needs the whole state.
    """

    def __init__(self) -> None:
        self._rows: dict[tuple[str, object], Row] = {}
        self._written: list[Row] = []  # by a transaction that has not ended
        self._dropped_before = 0  # of them
        self.dropped = 0

    def __len__(self) -> int:
        """Return how many rows wait."""
        return len(self._rows)

    def put(self, rows: Iterable[Row]) -> None:
        """Add rows, each in place of an older one with its key."""
        for row in rows:
            self._rows.pop(row[:2], None)  # the newest last
            self._rows[row[:2]] = row
        for key in list(islice(self._rows, max(0, len(self._rows) - MOST))):
            del self._rows[key]
            self.dropped += 1

    def begin(self) -> list[Row]:
        """Return the rows that wait, to be written in a transaction."""
        self._written, self._dropped_before = list(self._rows.values()), self.dropped
        return self._written

    def end(self) -> None:
        """Remove the rows of the transaction, which are on disk now, but none that has replaced one of them."""
        for row in self._written:
            if self._rows.get(row[:2]) is row:
                del self._rows[row[:2]]
        self.dropped -= self._dropped_before
        self._written, self._dropped_before = [], 0

    def end_span(self, span: QueuedSpan) -> None:
        """Remove a span from the queue of spans."""
        row = self._rows.get((PUT_SPAN, span.span.span_id))
        if row is not None and row.values[1] == span.text:
            del self._rows[row[:2]]
            if not any(row is each for each in self._written):
                return
        self.put([span_end_row(span)])

    def spans(self) -> list[QueuedSpan]:
        """Return the spans that wait for delivery, the newest first."""
        rows = (row.values for row in reversed(self._rows.values()) if row.statement is PUT_SPAN)
        queued = [QueuedSpan(text, decode(SpanFacts, text)) for _, text in rows]
        return [each for each in queued if not self.needs_no_delivery(each)]

    def needs_no_delivery(self, span: QueuedSpan) -> bool:
        """Return whether a span needs no delivery, though the file may still have it in its queue."""
        return span_end_row(span)[:2] in self._rows

    def count_spans(self) -> int:
        """Return by how many spans the queue on disk grows when everything is written."""
        return sum((row.statement is PUT_SPAN) - (row.statement is END_SPAN) for row in self._rows.values())

    def has_result(self, number: int) -> bool:
        """Return whether the result of an approval request waits."""
        return (SET_RESULT, number) in self._rows

    def transitions(self, after: int, limit: int) -> list[tuple[int, Record]]:
        """Return at most ``limit`` transitions after number ``after``, each with its number, the oldest first."""
        rows = (row.values for row in self._rows.values() if row.statement is PUT_TRANSITION)
        return [(number, decode(dict, text)) for number, _, text in rows if number > after][:limit]
