"""Reads and writes the journal's tables: SQL over one SQLite connection to its file.

Handles rows and transactions. Must not handle files, failures or threads (``journal.file``,
``journal.journal``).

The tables and their content, of which every value is JSON by ``journal.codec``:

======================
=================================================================================== ``transitions``
one row for each transition: number, time, and the record for ``events --follow`` ``lives``
one row for each event: a :class:`Lifecycle` ``spans``               :class:`SpanFacts` that wait
for delivery ``approval_requests``   operators' requests, and their results: none, ``""`` while one
is being sent, or a text ``hook_runs``           runs of ``hook``'s command ``state``
one row: what :class:`State` has besides events ======================
===================================================================================

Other processes add rows to the tables of ``journal.inbox`` while the exporter runs.
"""

import os
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple, TypeVar

from azure_scheduled_events_exporter.core.lifecycle import (
    REMEMBERED_ENDS,
    Change,
    Lifecycle,
    Lifecycles,
)
from azure_scheduled_events_exporter.core.records import Record, change_record
from azure_scheduled_events_exporter.core.spans import SpanFacts
from azure_scheduled_events_exporter.core.statistics import Statistics
from azure_scheduled_events_exporter.core.timestamp import Timestamp
from azure_scheduled_events_exporter.errors import CodecError, DamagedTextError, NotUsableError
from azure_scheduled_events_exporter.snapshot.hooks import HookRun, counted

from .codec import decode, decoded, encode
from .inbox import ApprovalRequest, Inbox

_Value = TypeVar("_Value")

_APPLICATION_ID: Final = 0x41534531
"""``ASE1``: marks the journals of this exporter."""
_SCHEMA_VERSION: Final = 1

PAGE: Final = 500
"""How many transitions are read at once."""
_SPANS: Final = 256
"""How many of the spans on disk are known in memory: two batches of ``tracing.delivery``."""
_PRUNED: Final = 50_000
"""How many transitions are removed at once, which takes less than a second."""

# A damaged file can hold any value in any column. CHECK would not help: SQLite ignores it in a file
# that is only read.
_SCHEMA: Final = f"""
    PRAGMA journal_mode = WAL;
    BEGIN IMMEDIATE;
    CREATE TABLE transitions (
        seq INTEGER PRIMARY KEY,
        wall REAL NOT NULL,
        record TEXT NOT NULL
    );
    CREATE TABLE lives (event_id TEXT PRIMARY KEY, first_seen REAL NOT NULL, ended REAL, life TEXT NOT NULL)
        WITHOUT ROWID;
    CREATE INDEX lives_ended ON lives (ended);
    CREATE TABLE spans (span_id TEXT PRIMARY KEY, span TEXT NOT NULL);  -- a newer version has a larger rowid
    CREATE TABLE approval_requests (
        number INTEGER PRIMARY KEY AUTOINCREMENT,
        created REAL NOT NULL,
        request TEXT NOT NULL,
        result TEXT
    );
    CREATE TABLE hook_runs (run TEXT PRIMARY KEY, started REAL NOT NULL, content TEXT NOT NULL) WITHOUT ROWID;
    CREATE TABLE state (
        one INTEGER PRIMARY KEY CHECK (one = 1),
        epoch TEXT NOT NULL,
        last_number INTEGER NOT NULL,
        vm_id TEXT NOT NULL,
        statistics TEXT NOT NULL,
        heartbeat TEXT NOT NULL
    );
    PRAGMA application_id = {_APPLICATION_ID};
    PRAGMA user_version = {_SCHEMA_VERSION};
    COMMIT;
"""
PUT_TRANSITION: Final = "REPLACE INTO transitions VALUES (?, ?, ?)"
PUT_SPAN: Final = "REPLACE INTO spans VALUES (?, ?)"
_PUT_LIFE: Final = "REPLACE INTO lives VALUES (?, ?, ?, ?)"
_PUT_STATE: Final = "REPLACE INTO state VALUES (1, ?, ?, ?, ?, ?)"
END_SPAN: Final = "DELETE FROM spans WHERE span_id = ? AND span = coalesce(?, span)"
SET_IF_UNSENT: Final = "UPDATE approval_requests SET result = ? WHERE number = ? AND result IS NULL"
SET_RESULT: Final = (
    "UPDATE approval_requests SET result = ? WHERE number = ? AND coalesce(result, '') = ''"
)


class Row(NamedTuple):
    """A statement with its values."""

    statement: str
    values: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class State:
    """What a journal knows, which a new file begins with.

    Attributes:
        lifecycles: the current events, and the last ended ones in the order in which they ended.
        statistics: of all transitions.
        last_number: of the newest transition.
        epoch: a random id of the numbers.
        vm_id: of the VM that the journal belongs to; ``""`` while that is not known.
        heartbeat: the last moment at which an event of this VM is known to have been watched; None
            outside of events.
    """

    lifecycles: Lifecycles = field(default_factory=Lifecycles)
    statistics: Statistics = field(default_factory=Statistics)
    last_number: int = 0
    epoch: str = field(default_factory=lambda: os.urandom(4).hex())
    vm_id: str = ""
    heartbeat: Timestamp | None = None


class NothingWrittenError(NotUsableError):
    """The file is empty, or the process that made it was killed before it made the tables."""


class Store:
    """The tables over ``connection``. Every method is one transaction.

    All methods raise sqlite3.Error and then leave the tables as they were; those that read values
    raise ``DamagedTextError`` too.
    """

    def __init__(self, connection: sqlite3.Connection, *, writes: bool = False) -> None:
        """Refuse a file of another program, or of another schema.

        Who ``writes`` creates the tables if there are none.

        Raises:
            NotUsableError: it is refused.
        """
        self.connection = self._db = connection
        self._data_version = 0
        if not connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
            if not writes:
                raise NothingWrittenError("nothing has been written to it yet")
            connection.executescript(_SCHEMA)
        if connection.execute("PRAGMA application_id").fetchone()[0] != _APPLICATION_ID:
            raise NotUsableError(
                "it is another program's SQLite file, or of a version before the first release"
            )
        version = connection.execute("PRAGMA user_version").fetchone()[0]
        if version != _SCHEMA_VERSION:
            raise NotUsableError(
                f"it is of another version (schema {version}, known here is {_SCHEMA_VERSION})"
            )
        if writes:  # not before it is known to be ours
            connection.execute("PRAGMA journal_mode = WAL")
            # NORMAL can lose committed transitions in a power failure, and an event can be a power
            # failure.
            connection.execute("PRAGMA synchronous = FULL")
            connection.execute("BEGIN IMMEDIATE")  # fails if it cannot be written
            connection.rollback()

    def close(self) -> None:
        """Close the connection. This merges the write-ahead log into the file."""
        self._db.close()

    def check(self) -> None:
        """Raise NotUsableError if the file is damaged.

        Not by quick_check: it does not compare indexes with tables.
        """
        problem = self._db.execute("PRAGMA integrity_check(1)").fetchone()[0]
        if problem != "ok":
            raise NotUsableError(problem)

    def write(self, rows: Iterable[Row], state: State, *, whole: bool = False) -> None:
        """Write ``rows`` and the properties of ``state``, which is the state after them.

        With ``whole``, its events are written too, in place of the current ones that the tables
        have.
        """
        heartbeat = encode(state.heartbeat) if state.heartbeat else ""
        values = (state.epoch, state.last_number, state.vm_id, encode(state.statistics), heartbeat)
        lives = (
            (*state.lifecycles.ended.values(), *state.lifecycles.current.values()) if whole else ()
        )
        with self._db:
            if whole:
                self._db.execute("DELETE FROM lives WHERE ended IS NULL")
            for row in (*map(_life_row, lives), *rows, Row(_PUT_STATE, values)):
                self._db.execute(row.statement, row.values)

    def restore(self) -> State:
        """Return the state in the tables; a new one before the first write."""
        row = self._db.execute(
            "SELECT epoch, last_number, vm_id, statistics, heartbeat FROM state"
        ).fetchone()
        if row is None:
            return State()
        epoch, number, vm_id, statistics, heartbeat = row
        if [type(each) for each in (epoch, number, vm_id)] != [
            str,
            int,
            str,
        ] or number not in range(1 << 61):
            raise NotUsableError(
                "it is damaged: a value of the table state has the wrong type, or is out of range"
            )
        lives = self._lives(
            "WHERE ended IS NOT NULL ORDER BY ended DESC LIMIT ?", (REMEMBERED_ENDS,)
        )
        last_beat = _sound(Timestamp, heartbeat) if heartbeat else None
        known = Lifecycles(self.current(), {life.event_id: life for life in reversed(list(lives))})
        return State(known, _sound(Statistics, statistics), number, epoch, vm_id, last_beat)

    def current(self) -> dict[str, Lifecycle]:
        """Return the current events by EventId, the oldest first."""
        return {
            life.event_id: life for life in self._lives("WHERE ended IS NULL ORDER BY first_seen")
        }

    def history(self) -> Iterator[Lifecycle]:
        """Return every event, the oldest first, each read when it is asked for."""
        return self._lives("ORDER BY first_seen")

    def _lives(self, which: str, values: Sequence[object] = ()) -> Iterator[Lifecycle]:
        rows = self._db.execute(f"SELECT life FROM lives {which}", values)
        return (_sound(Lifecycle, text) for (text,) in rows)

    def transitions(self, after: int = 0, limit: int = PAGE) -> list[tuple[int, Record]]:
        """Return at most ``limit`` transitions after number ``after``, each with its number, the oldest first."""
        sql = "SELECT seq, record FROM transitions WHERE seq > ? ORDER BY seq LIMIT ?"
        return [
            (number, _sound(dict, text))
            for number, text in self._db.execute(sql, (after, limit)).fetchall()
        ]

    def position(self) -> tuple[str, int]:
        """Return the id of this journal's numbers and the last number given; ``""`` and 0 before the first write."""
        return self._db.execute("SELECT epoch, last_number FROM state").fetchone() or ("", 0)

    def queued_spans(self, limit: int) -> list[tuple[str, str]]:
        """Return ids and texts of undelivered spans, the newest first, because they are urgent; -1 means all."""
        return self._db.execute(
            "SELECT span_id, span FROM spans ORDER BY rowid DESC LIMIT ?", (limit,)
        ).fetchall()

    def inbox(self, before: Inbox | None = None, *, is_written: bool = True) -> Inbox:
        """Return what the tables have for others: as ``before``, unless this connection or another one has written."""
        version = self._db.execute("PRAGMA data_version").fetchone()[0]
        if before is None or version != self._data_version:
            self._data_version = version
            runs: Sequence[HookRun] = self.hook_runs()
            hooks = counted(runs)
        elif is_written:
            runs, hooks = before.runs, before.hooks
        else:
            return before
        count = self._db.execute("SELECT count(*) FROM spans").fetchone()[0]
        return Inbox(self.open_requests(), runs, hooks, self.queued_spans(_SPANS), count)

    def add_requests(self, requests: Iterable[ApprovalRequest]) -> list[int]:
        """Queue requests to approve events; return the numbers that they get."""
        texts = [(request.created, encode(request)) for request in requests]
        with self._db:
            sql = "INSERT INTO approval_requests (created, request) VALUES (?, ?)"
            return [int(self._db.execute(sql, row).lastrowid or 0) for row in texts]

    def open_requests(self) -> list[ApprovalRequest]:
        """Return the requests without a result."""
        sql = (
            "SELECT number, request FROM approval_requests WHERE coalesce(result, '') = '' ORDER BY"
            " number"
        )
        rows = self._db.execute(sql).fetchall()
        return [
            replace(each, number=number)
            for number, text in rows
            for each in decoded(ApprovalRequest, [text])
        ]

    def requests(self) -> list[tuple[ApprovalRequest, str]]:
        """Return all requests, the oldest first, each with its result; ``""`` while it has none."""
        rows = self._db.execute(
            "SELECT request, coalesce(result, '') FROM approval_requests ORDER BY number"
        ).fetchall()
        return [
            (request, str(result))
            for text, result in rows
            for request in decoded(ApprovalRequest, [text])
        ]

    def withdraw_requests(
        self, numbers: Iterable[int], result: str, *, sent_too: bool = False
    ) -> None:
        """Write ``result`` to open requests, so that they are not sent; with ``sent_too``, also to those being sent."""
        with self._db:
            statement = SET_RESULT if sent_too else SET_IF_UNSENT
            self._db.executemany(statement, [(result, number) for number in numbers])

    def request_results(self, numbers: Iterable[int]) -> dict[int, str]:
        """Return the results of those requests that have one."""
        results = dict(
            self._db.execute("SELECT number, result FROM approval_requests WHERE result <> ''")
        )
        return {number: results[number] for number in numbers if number in results}

    def put_hook_run(self, run: HookRun) -> None:
        """Write a run, new or changed; writing it again changes nothing."""
        with self._db:
            self._db.execute(
                "REPLACE INTO hook_runs VALUES (?, ?, ?)", (run.run, run.started, encode(run))
            )

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


def entry_rows(
    last_number: int,
    changes: Iterable[Change],
    lives: Iterable[Lifecycle],
    spans: Iterable[SpanFacts],
) -> list[Row]:
    """Return the rows of what an observation adds; its transitions are numbered on.

    Raises CodecError: a bug.
    """
    numbered = enumerate(changes, last_number + 1)
    texts = (
        Row(PUT_TRANSITION, (number, each.at.wall, encode(change_record(each))))
        for number, each in numbered
    )
    return [
        *texts,
        *map(_life_row, lives),
        *(Row(PUT_SPAN, (span.span_id, encode(span))) for span in spans),
    ]


def _life_row(life: Lifecycle) -> Row:
    ended = life.ended_at and life.ended_at.wall
    return Row(_PUT_LIFE, (life.event_id, life.first_seen.wall, ended, encode(life)))


def prune_rows(before: float) -> list[Row]:
    """Return the rows that remove what is from before ``before`` (Unix seconds); the statistics still count it."""
    some = f"transitions WHERE wall < ? AND seq < (SELECT min(seq) FROM transitions) + {_PRUNED}"
    old = (some, "lives WHERE ended < ?", "approval_requests WHERE created < ?")
    return [Row(f"DELETE FROM {each}", (before,)) for each in old]
