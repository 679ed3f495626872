"""What is not yet on disk: rows in the order of their numbers, at most :data:`MOST` of each kind.

Must not know threads, files or SQL. Above the bound, the oldest transitions are added up, so that they are counted and
not listed; of lives, events that have ended go first; the oldest spans are dropped.
"""

from dataclasses import dataclass
from typing import Any, Final, TypeVar

from azure_scheduled_events_exporter.core.statistics import Statistics

from .codec import encode
from .store import Batch, Entry, QueuedSpan, Restored, life_row, measurement, transition_row

_Row = TypeVar("_Row")

MOST: Final = 1000
"""Transitions, events and spans that wait for the disk: together at most about 5 MiB."""
_NO_STATISTICS: Final = Statistics(transitions={})


@dataclass(slots=True)
class Numbers:
    """The numbers given last: to a transition, to a span, and to a batch."""

    transition: int = 0
    span: int = 0
    batch: int = 0


class Waiting:
    """The rows that wait for the disk. Not thread-safe.

    Attributes:
        batch: the rows.
        numbers: continued by each entry.
    """

    def __init__(self, numbers: Numbers) -> None:
        self.batch = Batch()
        self.numbers = numbers

    @property
    def is_empty(self) -> bool:
        """Whether nothing waits."""
        return not any(self.batch.tables)

    def add(self, entry: Entry, state: Restored) -> None:
        """Add ``entry``; ``state`` is the complete state after it.

        Raises:
            CodecError: a bug; nothing is added.
        """
        first = self.numbers.transition + 1
        transitions = {number: transition_row(number, change) for number, change in enumerate(entry.changes, first)}
        lives = {life.event_id: life_row(life) for life in entry.lives}
        first = self.numbers.span + 1
        queued = [QueuedSpan(number, span) for number, span in enumerate(entry.spans, first)]
        spans = {each.span.span_id: (each, encode(each.span)) for each in queued}
        self.numbers.transition += len(entry.changes)
        self.numbers.span += len(entry.spans)
        for event_id in lives:
            self.batch.lives.pop(event_id, None)  # the newest last
        self.batch.transitions |= transitions
        self.batch.lives |= lives
        self.batch.spans |= spans
        self.batch.state = state
        self._shorten()

    def end_span(self, span: QueuedSpan, refused: float | None) -> None:
        """Remove a span, or set it aside because a collector refused it at ``refused``."""
        self.batch.span_ends[span.span.span_id, span.number] = refused
        if refused is None and self._has(span):
            del self.batch.spans[span.span.span_id]

    def spans(self) -> list[QueuedSpan]:
        """Return the spans that wait for delivery, the newest first."""
        queued = [queued for queued, _ in self.batch.spans.values() if not self.has_ended(queued)]
        return sorted(queued, key=lambda each: each.number, reverse=True)

    def has_ended(self, span: QueuedSpan) -> bool:
        """Return whether a span needs no delivery, though the file may still have it in its queue."""
        return (span.span.span_id, span.number) in self.batch.span_ends

    def copy(self) -> Batch:
        """Return the rows that wait now; those that are added up from now on are kept apart from them."""
        if len(self.batch.sums) > 1:
            together = _NO_STATISTICS.together(*self.batch.sums.values())
            self.batch.sums = {self.numbers.batch: together}
        self.numbers.batch += 1
        transitions, lives, spans, span_ends, results, properties, sums = map(dict, self.batch.tables)
        state, is_shortened = self.batch.state, self.batch.is_shortened
        return Batch(transitions, lives, spans, span_ends, results, properties, sums, state, is_shortened)

    def remove(self, written: Batch) -> None:
        """Remove the rows of ``written``, which :meth:`copy` returned, but none that has replaced one of them."""
        for mine, theirs in zip(self.batch.tables, written.tables, strict=True):
            for key, value in theirs.items():
                if key in mine and mine[key] is value:
                    del mine[key]
        if self.batch.state is written.state:
            self.batch.is_shortened = False

    def _has(self, span: QueuedSpan) -> bool:
        mine = self.batch.spans.get(span.span.span_id)
        return mine is not None and mine[0].number == span.number

    def _shorten(self) -> None:
        folded = _oldest(self.batch.transitions)
        if folded:
            sums = self.batch.sums.get(self.numbers.batch, _NO_STATISTICS)
            self.batch.sums[self.numbers.batch] = sums.plus(map(measurement, folded))
        lives = self.batch.lives
        ended = [event_id for event_id, row in lives.items() if row[2] is not None] if len(lives) > MOST else []
        for event_id in ended[: len(lives) - MOST]:
            del lives[event_id]
            self.batch.is_shortened = True
        _oldest(self.batch.spans)
        _oldest(self.batch.span_ends)


def _oldest(table: dict[Any, _Row]) -> list[_Row]:
    """Remove the oldest rows above the bound, and return them."""
    return [table.pop(key) for key in list(table)[: max(0, len(table) - MOST)]]
