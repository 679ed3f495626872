"""Reads and writes the journal's tables: SQL over one SQLite connection to its file.

Handles rows and transactions. Must not handle files, failures or threads (``journal.disk.file``,
``journal.thread.writer``).

``journal.tables.schema`` lists the tables. Those that commands write too are in
``journal.tables.inbox_tables``, and old rows are removed by ``journal.tables.removal``.
"""

import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeVar

from azure_scheduled_events_exporter.core.bounds import current_with_room, newest_ended
from azure_scheduled_events_exporter.core.lifecycle import (
    REMEMBERED_ENDS,
    Lifecycle,
    Lifecycles,
)
from azure_scheduled_events_exporter.core.records import Record
from azure_scheduled_events_exporter.core.statistics import Statistics
from azure_scheduled_events_exporter.core.timestamp import Timestamp
from azure_scheduled_events_exporter.errors import (
    CodecError,
    DamagedTextError,
    NotUsableError,
)
from azure_scheduled_events_exporter.journal.content.codec import decode, encode
from azure_scheduled_events_exporter.journal.content.entries import (
    EndedSpan,
    Entry,
    Expiry,
    NewLife,
    NewSpan,
    NewTransition,
    RequestResult,
    life_entry,
)
from azure_scheduled_events_exporter.journal.content.look import Look, StoredSpans
from azure_scheduled_events_exporter.journal.content.remembered import Remembered
from azure_scheduled_events_exporter.snapshot.hooks import counted

from .inbox_tables import HookRunTable, RequestTable
from .removal import remove_expired, remove_oldest
from .schema import TABLES, check_schema

_Value = TypeVar("_Value")

PAGE: Final = 500
"""How many transitions are read at once."""
_SPANS: Final = 256
"""How many of the spans on disk are known in memory: two batches of ``tracing.delivery``."""
_LARGEST_NUMBER: Final = 1 << 61
"""A transition with a larger number is damage: no exporter sees so many."""
_STEPS_BETWEEN_LOOKS: Final = 10_000
"""After how many steps of SQLite's machine a check looks whether it is to stop: a millisecond."""


@dataclass(frozen=True, slots=True)
class Position:
    """How far a journal has got.

    Attributes:
        epoch: the random id of the journal; ``""`` before the first write.
        last_number: of the newest transition; 0 if there is none.
    """

    epoch: str = ""
    last_number: int = 0


@dataclass(frozen=True, slots=True)
class _Writes:
    """What shows that somebody has written: another value than before.

    Attributes:
        by_others: SQLite's number, another one after each commit of another connection.
        by_this: how many rows this connection has changed.
    """

    by_others: int
    by_this: int


class Store:
    """The tables over ``connection``. A method that writes is one transaction.

    All methods raise sqlite3.Error and then leave the tables as they were; those that read values
    raise ``DamagedTextError`` too.

    Attributes:
        connection: for what concerns the file as a whole, such as its write-ahead log.
        requests: the table of approval requests.
        hook_runs: the table of hooks' runs.
    """

    def __init__(self, connection: sqlite3.Connection, *, writes: bool = False) -> None:
        """Refuse a file of another program, or of another schema.

        ``writes``: whether this connection is to write. Then the tables are created if there are
        none.

        Raises:
            NotUsableError: the file is refused.
            sqlite3.Error: it cannot be read, or cannot be written although ``writes`` is True.
        """
        self.connection = connection
        self.requests = RequestTable(connection)
        self.hook_runs = HookRunTable(connection)
        self._seen_writes = _Writes(-1, -1)  # as of the last look; before it, impossible ones
        self._last_look = Look()
        check_schema(connection, creates=writes)
        if writes:  # not before it is known to be ours
            connection.execute("PRAGMA journal_mode = WAL")
            # NORMAL can lose committed transitions in a power failure, and an event can be a power
            # failure.
            connection.execute("PRAGMA synchronous = FULL")
            connection.execute("BEGIN IMMEDIATE")  # to fail now if the file cannot be written
            connection.rollback()

    def close(self) -> None:
        """Close the connection. This merges the write-ahead log into the file."""
        self.connection.close()

    def check(self, is_to_stop: Callable[[], bool] = lambda: False) -> None:
        """Read the whole file; raise if it is damaged.

        ``is_to_stop`` is called about once a millisecond, and ends the check when it returns True.

        Raises:
            NotUsableError, DamagedTextError: the check is complete, and the file is damaged.
            sqlite3.Error: the check could not be completed, or was stopped (SQLITE_INTERRUPT).
        """
        self.connection.set_progress_handler(is_to_stop, _STEPS_BETWEEN_LOOKS)
        try:
            # Not quick_check, which does not compare indexes with tables.
            problem = self.connection.execute("PRAGMA integrity_check(1)").fetchone()[0]
        finally:
            self.connection.set_progress_handler(None, 0)
        if problem != "ok":
            raise NotUsableError(problem)
        found = {name for (name,) in self.connection.execute("SELECT name FROM sqlite_master")}
        missing = sorted(TABLES - found)
        if missing:
            raise NotUsableError(f"it is damaged: there is no table {missing[0]}")
        # SQLite does not know what the rows have to hold: read those that the exporter needs.
        self.restore()
        self.requests.open()
        self.hook_runs.all()

    def write(
        self, entries: Iterable[Entry], remembered: Remembered, *, whole: bool = False
    ) -> None:
        """Write ``entries``, and ``remembered``, which is what is known after them.

        Usually, the entries have all events that have changed. With ``whole``, all events of
        ``remembered`` are written, because entries were lost, or went to another file. Tables that
        are too large lose their oldest rows.
        """
        with self.connection:
            if whole:
                self._put_events(remembered.lifecycles)
            for entry in entries:
                self._put(entry)
            self._put_properties(remembered)
            remove_oldest(self.connection)

    def _put_events(self, known: Lifecycles) -> None:
        """Write all known events; the current ones replace those that the tables have."""
        self.connection.execute("DELETE FROM lives WHERE ended IS NULL")
        for life in (*known.ended.values(), *known.current.values()):
            self._put(life_entry(life))

    def _put(self, entry: Entry) -> None:
        """Write one entry."""
        match entry:
            case NewTransition(number, wall, record):
                self.connection.execute(
                    "REPLACE INTO transitions VALUES (?, ?, ?)", (number, wall, record)
                )
            case NewLife(event_id, first_seen, ended, life):
                row = (event_id, first_seen, ended, life)
                self.connection.execute("REPLACE INTO lives VALUES (?, ?, ?, ?)", row)
            case NewSpan(span_id, span):
                self.connection.execute("REPLACE INTO spans VALUES (?, ?)", (span_id, span))
            case EndedSpan(span_id, text):
                # A span that has another text by now is a newer version, which still has to be
                # delivered. If `text` is None, the span is deleted, whatever its text is.
                sql = "DELETE FROM spans WHERE span_id = ? AND span = coalesce(?, span)"
                self.connection.execute(sql, (span_id, text))
            case RequestResult(number, result, if_unsent):
                self.requests.set_result(number, result, if_unsent=if_unsent)
            case Expiry(before):
                remove_expired(self.connection, before)

    def _put_properties(self, remembered: Remembered) -> None:
        """Write what ``remembered`` has besides events."""
        heartbeat = ""
        if remembered.heartbeat is not None:
            heartbeat = encode(remembered.heartbeat)
        values = (
            remembered.epoch,
            remembered.last_number,
            remembered.vm_id,
            encode(remembered.statistics),
            heartbeat,
        )
        self.connection.execute("REPLACE INTO state VALUES (1, ?, ?, ?, ?, ?)", values)

    def restore(self) -> Remembered:
        """Return what is known after all writes; before the first one, what a new journal knows.

        Raises NotUsableError: the table ``state`` is damaged.
        """
        row = self.connection.execute(
            "SELECT epoch, last_number, vm_id, statistics, heartbeat FROM state"
        ).fetchone()
        if row is None:
            return Remembered()
        epoch, number, vm_id, statistics, heartbeat = row
        # A damaged file can have any value in any column.
        types = [type(epoch), type(number), type(vm_id)]
        if types != [str, int, str] or not 0 <= number < _LARGEST_NUMBER:
            raise NotUsableError(
                "it is damaged: a value of the table state has the wrong type, or is out of range"
            )
        ended = newest_ended(
            self._lives("WHERE ended IS NOT NULL ORDER BY ended DESC LIMIT ?", (REMEMBERED_ENDS,))
        )
        # The table may have more current events than there is room for. During a flood of events,
        # while the disk did not work, the entries with the ends of some may have been dropped.
        current = current_with_room(self._lives("WHERE ended IS NULL ORDER BY first_seen DESC"))
        return Remembered(
            lifecycles=Lifecycles(_oldest_first(current), _oldest_first(ended)),
            statistics=_decoded(Statistics, statistics),
            last_number=number,
            epoch=epoch,
            vm_id=vm_id,
            heartbeat=_decoded(Timestamp, heartbeat) if heartbeat else None,
        )

    def current(self) -> dict[str, Lifecycle]:
        """Return the current events by EventId, the oldest first."""
        return {
            life.event_id: life for life in self._lives("WHERE ended IS NULL ORDER BY first_seen")
        }

    def history(self) -> Iterator[Lifecycle]:
        """Return every event, the oldest first, each read when it is asked for."""
        return self._lives("ORDER BY first_seen")

    def _lives(self, which: str, values: Sequence[object] = ()) -> Iterator[Lifecycle]:
        """Return the events that the SQL in ``which`` selects, each read when it is asked for."""
        rows = self.connection.execute(f"SELECT life FROM lives {which}", values)
        return (_decoded(Lifecycle, text) for (text,) in rows)

    def transitions(self, after: int = 0, limit: int = PAGE) -> list[tuple[int, Record]]:
        """Return at most ``limit`` transitions after number ``after``, the oldest first.

        Each comes with its number.
        """
        sql = "SELECT seq, record FROM transitions WHERE seq > ? ORDER BY seq LIMIT ?"
        rows = self.connection.execute(sql, (after, limit)).fetchall()
        return [(number, _decoded(dict, text)) for number, text in rows]

    def time_of(self, number: int) -> float | None:
        """Return when the transition ``number`` was, in Unix seconds; None if there is none.

        It is rounded to the microsecond, as in the cursor that ``events --follow`` prints.
        """
        sql = "SELECT wall FROM transitions WHERE seq = ?"
        row = self.connection.execute(sql, (number,)).fetchone()
        return round(float(row[0]), 6) if row else None

    def last_until(self, wall: float) -> int:
        """Return the number of the last transition until ``wall``; 0 if there is none.

        ``wall``: Unix seconds, rounded as :meth:`time_of` does.
        """
        sql = "SELECT max(seq) FROM transitions WHERE round(wall, 6) <= ?"
        return int(self.connection.execute(sql, (wall,)).fetchone()[0] or 0)

    def position(self) -> Position:
        """Return how far the journal has got."""
        row = self.connection.execute("SELECT epoch, last_number FROM state").fetchone()
        return Position() if row is None else Position(*row)

    def queued_spans(self, limit: int) -> list[tuple[str, str]]:
        """Return ids and texts of undelivered spans, the newest first, because they are urgent.

        A ``limit`` of -1 means all.
        """
        return self.connection.execute(
            "SELECT span_id, span FROM spans ORDER BY rowid DESC LIMIT ?", (limit,)
        ).fetchall()

    def look(self) -> Look:
        """Return what the tables have for the exporter's other threads.

        The tables are read only if somebody has written since the last look.
        """
        (by_others,) = self.connection.execute("PRAGMA data_version").fetchone()
        writes = _Writes(by_others, self.connection.total_changes)
        if writes == self._seen_writes:
            return self._last_look
        inbox = replace(self._last_look.inbox, requests=self.requests.open())
        if by_others != self._seen_writes.by_others:  # only others add runs of hooks
            runs = self.hook_runs.all()
            inbox = replace(inbox, runs=runs, hooks=counted(runs))
        (count,) = self.connection.execute("SELECT count(*) FROM spans").fetchone()
        self._last_look = Look(inbox, StoredSpans(self.queued_spans(_SPANS), count))
        self._seen_writes = writes
        return self._last_look


def _oldest_first(newest: Iterable[Lifecycle]) -> dict[str, Lifecycle]:
    """Return ``newest``, which come newest first, by EventId and the oldest first."""
    return {life.event_id: life for life in reversed(list(newest))}


def _decoded(kind: type[_Value], text: str) -> _Value:
    """Return the value of class ``kind`` that ``text`` holds.

    Raises:
        DamagedTextError: the text is not JSON, or does not fit its class.
    """
    try:
        return decode(kind, text)
    except CodecError as error:
        raise DamagedTextError(str(error)) from error
