"""Reads and writes the journal's tables: SQL over one SQLite connection to its file.

Handles rows and transactions. Must not handle files, failures or threads (``journal.file``, ``journal.journal``).

The tables and their content, of which every value is JSON by ``journal.codec``:

======================  ===================================================================================
``transitions``         one row for each transition: number, time, and the record for ``events --follow``
``lives``               one row for each event: a :class:`Lifecycle`
``spans``               :class:`SpanFacts` that wait for delivery
``approval_requests``   operators' requests, and their results: none, ``""`` while one is being sent, or a text
``hook_runs``           runs of ``hook``'s command
``properties``          epoch of the numbers, id of the VM, last heartbeat, number of the last transition, and the
                        :class:`Statistics` of all transitions, also of those whose rows are removed
======================  ===================================================================================

Other processes add rows to the tables of ``journal.inbox`` while the exporter runs.
"""

import os
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple, TypeVar

from azure_scheduled_events_exporter.core.lifecycle import REMEMBERED_ENDS, Change, Lifecycle, Lifecycles
from azure_scheduled_events_exporter.core.records import Record, change_record
from azure_scheduled_events_exporter.core.spans import SpanFacts
from azure_scheduled_events_exporter.core.statistics import Statistics
from azure_scheduled_events_exporter.core.timestamp import Timestamp
from azure_scheduled_events_exporter.errors import CodecError, DamagedTextError

from .codec import decode, decoded, encode
from .inbox import ApprovalRequest, HookRun

_Value = TypeVar("_Value")

APPLICATION_ID: Final = 0x41534531
"""``ASE1``: marks the journals of this exporter."""
SCHEMA_VERSION: Final = 1

PAGE: Final = 500
"""How many transitions are read at once."""
_PRUNED: Final = 50_000
"""How many transitions are removed at once, which takes less than a second."""

# A damaged file can hold any value in any column: integrity_check compares each with its CHECK.
_SCHEMA: Final = f"""
    BEGIN IMMEDIATE;
    CREATE TABLE transitions (
        seq INTEGER PRIMARY KEY,
        wall REAL NOT NULL CHECK (typeof(wall) = 'real'),
        record TEXT NOT NULL CHECK (typeof(record) = 'text')
    );
    CREATE TABLE lives (event_id TEXT PRIMARY KEY, first_seen REAL NOT NULL, ended REAL, life TEXT NOT NULL)
        WITHOUT ROWID;
    CREATE INDEX lives_ended ON lives (ended);
    CREATE TABLE spans (span_id TEXT PRIMARY KEY, span TEXT NOT NULL);  -- a newer version has a larger rowid
    CREATE TABLE approval_requests (
        number INTEGER PRIMARY KEY AUTOINCREMENT,
        created REAL NOT NULL,
        request TEXT NOT NULL CHECK (typeof(request) = 'text'),
        result TEXT
    );
    CREATE TABLE hook_runs (
        run TEXT PRIMARY KEY, started REAL NOT NULL, content TEXT NOT NULL CHECK (typeof(content) = 'text')
    ) WITHOUT ROWID;
    CREATE TABLE properties (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
    PRAGMA application_id = {APPLICATION_ID};
    PRAGMA user_version = {SCHEMA_VERSION};
    COMMIT;
"""
PUT_TRANSITION: Final = "REPLACE INTO transitions VALUES (?, ?, ?)"
PUT_SPAN: Final = "REPLACE INTO spans VALUES (?, ?)"
_PUT_LIFE: Final = "REPLACE INTO lives VALUES (?, ?, ?, ?)"
_PUT_PROPERTY: Final = "REPLACE INTO properties VALUES (?, ?)"
END_SPAN: Final = "DELETE FROM spans WHERE span_id = ? AND span = ?"
REMOVE_SPAN: Final = "DELETE FROM spans WHERE span_id = ?"
SET_RESULT_IF_UNSENT: Final = "UPDATE approval_requests SET result = ? WHERE number = ? AND result IS NULL"
SET_RESULT: Final = "UPDATE approval_requests SET result = ? WHERE number = ? AND coalesce(result, '') = ''"


class Row(NamedTuple):
    """A statement with its values."""

    statement: str
    values: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Entry:
    """What one observation adds.

    Attributes:
        changes: transitions, in order.
        lives: every life that is new or different.
        spans: to be delivered.
    """

    changes: Sequence[Change] = ()
    lives: Sequence[Lifecycle] = ()
    spans: Sequence[SpanFacts] = ()


@dataclass(frozen=True, slots=True)
class QueuedSpan:
    """A span that waits for delivery, and its text in the journal, which differs between versions of the span."""

    text: str
    span: SpanFacts


@dataclass(frozen=True, slots=True)
class State:
    """What a journal knows, which a new file begins with.

    Attributes:
        lifecycles: the current events, and the last ended ones in the order in which they ended.
        statistics: of all transitions.
        last_number: of the newest transition.
        epoch: a random id of the numbers.
        vm_id: of the VM that the journal belongs to; ``""`` while that is not known.
        heartbeat: the last moment at which an event of this VM is known to have been watched; None outside of events.
    """

    lifecycles: Lifecycles = field(default_factory=Lifecycles)
    statistics: Statistics = field(default_factory=Statistics)
    last_number: int = 0
    epoch: str = field(default_factory=lambda: os.urandom(4).hex())
    vm_id: str = ""
    heartbeat: Timestamp | None = None


class Store:
    """The tables over ``connection``, created if there are none. Every method is one transaction.

    All methods raise sqlite3.Error and then leave the tables as they were; those that read values raise
    ``DamagedTextError`` too.
    """

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.connection = self._db = connection
        self._data_version = 0
        if not connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
            connection.executescript(_SCHEMA)

    def close(self) -> None:
        """Close the connection. This merges the write-ahead log into the file."""
        self._db.close()

    def write(self, rows: Iterable[Row], state: State, *, whole: bool = False) -> None:
        """Write ``rows`` and the properties of ``state``, which is the state after them.

        With ``whole``, its events are written too, in place of the current ones that the tables have.
        """
        lives = (*state.lifecycles.ended.values(), *state.lifecycles.current.values()) if whole else ()
        with self._db:
            if whole:
                self._db.execute("DELETE FROM lives WHERE ended IS NULL")
            for row in (*map(_life_row, lives), *rows, *_state_rows(state)):
                self._db.execute(row.statement, row.values)

    def restore(self) -> State:
        """Return the state in the tables."""
        lives = self._lives("WHERE ended IS NOT NULL ORDER BY ended DESC LIMIT ?", (REMEMBERED_ENDS,))
        ended = {life.event_id: life for life in reversed(list(lives))}
        text, heartbeat = self._property("statistics"), self._property("heartbeat")
        return State(
            Lifecycles(self.current(), ended),
            _sound(Statistics, text) if text else Statistics(),
            self.last_number(),
            self.epoch(),
            self._property("vm_id"),
            _sound(Timestamp, heartbeat) if heartbeat else None,
        )

    def current(self) -> dict[str, Lifecycle]:
        """Return the current events by EventId, the oldest first."""
        return {life.event_id: life for life in self._lives("WHERE ended IS NULL ORDER BY first_seen")}

    def history(self) -> Iterator[Lifecycle]:
        """Return every event, the oldest first, each read when it is asked for."""
        return self._lives("ORDER BY first_seen")

    def _lives(self, which: str, values: Sequence[object] = ()) -> Iterator[Lifecycle]:
        rows = self._db.execute(f"SELECT life FROM lives {which}", values)
        return (_sound(Lifecycle, text) for (text,) in rows)

    def transitions(self, after: int = 0, limit: int = PAGE) -> list[tuple[int, Record]]:
        """Return at most ``limit`` transitions after number ``after``, each with its number, the oldest first."""
        sql = "SELECT seq, record FROM transitions WHERE seq > ? ORDER BY seq LIMIT ?"
        return [(number, _sound(dict, text)) for number, text in self._db.execute(sql, (after, limit)).fetchall()]

    def last_number(self) -> int:
        """Return the number of the newest transition that was ever written; 0 before the first."""
        return _sound(int, self._property("last_number") or "0")

    def epoch(self) -> str:
        """Return the random id that tells this journal's numbers from another's; ``""`` before the first write."""
        return self._property("epoch")

    def _property(self, name: str) -> str:
        row = self._db.execute("SELECT value FROM properties WHERE name = ?", (name,)).fetchone()
        return str(row[0]) if row else ""

    def changed_by_others(self) -> bool:
        """Return whether another connection has written since the last call; True at the first."""
        before = self._data_version
        self._data_version = self._db.execute("PRAGMA data_version").fetchone()[0]
        return self._data_version != before

    def prune(self, before: float) -> None:
        """Remove what is from before ``before`` (Unix seconds), of transitions at most :data:`_PRUNED` at once.

        The statistics still count it.
        """
        some = "seq < (SELECT min(seq) FROM transitions) + ?"
        with self._db:
            self._db.execute(f"DELETE FROM transitions WHERE wall < ? AND {some}", (before, _PRUNED))
            self._db.execute("DELETE FROM lives WHERE ended < ?", (before,))
            self._db.execute("DELETE FROM approval_requests WHERE created < ?", (before,))

    def queued_spans(self, limit: int) -> list[tuple[str, str]]:
        """Return ids and texts of undelivered spans, the newest first, because they are urgent; -1 means all."""
        return self._db.execute("SELECT span_id, span FROM spans ORDER BY rowid DESC LIMIT ?", (limit,)).fetchall()

    def spans_queued(self) -> int:
        """Return the number of spans that wait for delivery."""
        return int(self._db.execute("SELECT count(*) FROM spans").fetchone()[0])

    def add_requests(self, lives: Iterable[Lifecycle], operator: str, created: float, expires: float) -> list[int]:
        """Queue an operator's requests to approve these events as they were shown; return their numbers."""
        texts = [encode(ApprovalRequest(life, operator, created, expires)) for life in lives]
        with self._db:
            sql = "INSERT INTO approval_requests (created, request) VALUES (?, ?)"
            return [int(self._db.execute(sql, (created, text)).lastrowid or 0) for text in texts]

    def open_requests(self) -> list[ApprovalRequest]:
        """Return the requests without a result."""
        sql = "SELECT number, request FROM approval_requests WHERE coalesce(result, '') = '' ORDER BY number"
        rows = self._db.execute(sql).fetchall()
        return [replace(each, number=number) for number, text in rows for each in decoded(ApprovalRequest, [text])]

    def withdraw_requests(self, numbers: Iterable[int], result: str, *, sent_too: bool = False) -> None:
        """Write ``result`` to open requests, so that they are not sent; with ``sent_too``, also to those being sent."""
        with self._db:
            statement = SET_RESULT if sent_too else SET_RESULT_IF_UNSENT
            self._db.executemany(statement, [(result, number) for number in numbers])

    def request_results(self, numbers: Iterable[int]) -> dict[int, str]:
        """Return the results of those requests that have one."""
        results = dict(self._db.execute("SELECT number, result FROM approval_requests WHERE result <> ''"))
        return {number: results[number] for number in numbers if number in results}

    def put_hook_runs(self, runs: Iterable[HookRun]) -> None:
        """Write runs, new or changed; writing them again changes nothing."""
        rows = [(run.run, run.started, encode(run)) for run in runs]
        with self._db:
            self._db.executemany("REPLACE INTO hook_runs VALUES (?, ?, ?)", rows)

    def hook_runs(self) -> list[HookRun]:
        """Return every run of a hook's command, the oldest first."""
        rows = self._db.execute("SELECT content FROM hook_runs ORDER BY started").fetchall()
        return list(decoded(HookRun, (text for (text,) in rows)))


def _sound(kind: type[_Value], text: str) -> _Value:
    """Return what ``text`` holds, of which nothing can be left out: what does not fit its class is damage."""
    try:
        return decode(kind, text)
    except CodecError as error:
        raise DamagedTextError(str(error)) from error


def entry_rows(entry: Entry, last_number: int) -> list[Row]:
    """Return the rows of ``entry``, whose transitions are numbered after the last one before it.

    Raises:
        CodecError: a bug.
    """
    changes = [
        Row(PUT_TRANSITION, (number, change.at.wall, encode(change_record(change))))
        for number, change in enumerate(entry.changes, last_number + 1)
    ]
    spans = [Row(PUT_SPAN, (span.span_id, encode(span))) for span in entry.spans]
    return [*changes, *map(_life_row, entry.lives), *spans]


def _life_row(life: Lifecycle) -> Row:
    ended = life.ended_at and life.ended_at.wall
    return Row(_PUT_LIFE, (life.event_id, life.first_seen.wall, ended, encode(life)))


def _state_rows(state: State) -> list[Row]:
    values = {
        "statistics": encode(state.statistics),
        "last_number": str(state.last_number),
        "epoch": state.epoch,
        "vm_id": state.vm_id,
        "heartbeat": state.heartbeat and encode(state.heartbeat),
    }
    return [Row(_PUT_PROPERTY, (name, value or "")) for name, value in values.items()]
