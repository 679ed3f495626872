"""Reads and writes the journal's tables: SQL over one SQLite connection to its file.

Handles rows and transactions. Must not handle files, failures or threads (``journal.file``,
``journal.journal``).

The tables; every value in them is JSON by ``journal.codec``:

- ``transitions``: one row for each transition: number, time, and the record for
  ``events --follow``.
- ``lives``: one row for each event: a :class:`Lifecycle`.
- ``spans``: :class:`SpanFacts` that wait for delivery.
- ``approval_requests``: operators' requests and their results: none, ``""`` while one is being
  sent, or a text.
- ``hook_runs``: runs of ``hook``'s command.
- ``state``: one row: what :class:`Remembered` has besides events.

Other processes add rows to the tables of ``journal.inbox`` while the exporter runs.
"""

import os
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, TypeVar

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
    ExporterError,
    NotUsableError,
)
from azure_scheduled_events_exporter.snapshot.hooks import HookRun, counted

from .codec import decode, decoded, encode
from .entries import (
    EndedSpan,
    Entry,
    Expiry,
    NewLife,
    NewSpan,
    NewTransition,
    RequestResult,
    life_entry,
)
from .inbox import ApprovalRequest, Inbox

_Value = TypeVar("_Value")

_APPLICATION_ID: Final = 0x41534531
"""``ASE1``: marks the journals of this exporter."""
_SCHEMA_VERSION: Final = 1
_TABLES: Final = {"transitions", "lives", "spans", "approval_requests", "hook_runs", "state"}

PAGE: Final = 500
"""How many transitions are read at once."""
_SPANS: Final = 256
"""How many of the spans on disk are known in memory: two batches of ``tracing.delivery``."""
MOST_REQUESTS: Final = 1000
"""How many requests to approve may wait: as many as this VM may have events."""
_PRUNED: Final = 50_000
"""How many transitions are removed at once, which takes less than a second."""
LARGEST_BYTES: Final = 128 << 20
"""The most that the tables may take: some 25,000 events, far more than Azure has for one VM.

Whoever poses as IMDS could fill the disk otherwise.
"""
_STEPS_BETWEEN_LOOKS: Final = 10_000
"""After how many steps of SQLite's machine a check looks whether it is to stop: a millisecond."""

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
    CREATE TABLE lives (
        event_id TEXT PRIMARY KEY,
        first_seen REAL NOT NULL,
        ended REAL,
        life TEXT NOT NULL
    ) WITHOUT ROWID;
    CREATE INDEX lives_ended ON lives (ended);
    -- a newer version of a span has a larger rowid
    CREATE TABLE spans (span_id TEXT PRIMARY KEY, span TEXT NOT NULL);
    CREATE TABLE approval_requests (
        number INTEGER PRIMARY KEY AUTOINCREMENT,
        created REAL NOT NULL,
        request TEXT NOT NULL,
        result TEXT
    );
    CREATE TABLE hook_runs (
        run TEXT PRIMARY KEY,
        started REAL NOT NULL,
        content TEXT NOT NULL
    ) WITHOUT ROWID;
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
_SET_IF_UNSENT: Final = (
    "UPDATE approval_requests SET result = ? WHERE number = ? AND result IS NULL"
)
_IS_OPEN: Final = "coalesce(result, '') = ''"
_SET_RESULT: Final = f"UPDATE approval_requests SET result = ? WHERE number = ? AND {_IS_OPEN}"
_EXPIRED_TRANSITIONS: Final = (
    "DELETE FROM transitions WHERE wall < ?"
    f" AND seq < (SELECT min(seq) FROM transitions) + {_PRUNED}"
)
_EXPIRED: Final = (
    _EXPIRED_TRANSITIONS,
    "DELETE FROM lives WHERE ended < ?",
    "DELETE FROM approval_requests WHERE created < ?",
)


def _oldest_tenth(table: str, column: str) -> str:
    """Return the statement that removes the oldest tenth of a table; ``column`` has the order."""
    rows = f"{table} WHERE {column} IS NOT NULL"  # a current event has no end, and stays
    count = f"SELECT count(*) / 10 FROM {rows}"
    oldest = f"SELECT {column} FROM {rows} ORDER BY {column} LIMIT 1 OFFSET ({count})"
    return f"DELETE FROM {table} WHERE {column} <= ({oldest})"


_OLDEST_TENTHS: Final = (
    _oldest_tenth("transitions", "seq"),
    _oldest_tenth("lives", "ended"),
    _oldest_tenth("spans", "rowid"),
    _oldest_tenth("approval_requests", "number"),
    _oldest_tenth("hook_runs", "started"),
)
"""What makes room when the tables are too large: the oldest tenth of each goes."""


@dataclass(frozen=True, slots=True)
class Remembered:
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


@dataclass(frozen=True, slots=True)
class Position:
    """Where a journal is: the id of its numbers and the last number given.

    ``""`` and 0 before the first write.
    """

    epoch: str = ""
    last_number: int = 0


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
        self.connection = connection
        self._db = connection
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

    def check(self, is_to_stop: Callable[[], bool] = lambda: False) -> None:
        """Read the whole file; raise if it is damaged. ``is_to_stop`` is called again and again.

        Not by quick_check: it does not compare indexes with tables.

        Raises:
            NotUsableError, DamagedTextError: the check is complete, and the file is damaged.
            sqlite3.Error: the check could not be completed, or was stopped (SQLITE_INTERRUPT).
        """
        self._db.set_progress_handler(is_to_stop, _STEPS_BETWEEN_LOOKS)
        try:
            problem = self._db.execute("PRAGMA integrity_check(1)").fetchone()[0]
        finally:
            self._db.set_progress_handler(None, 0)
        if problem != "ok":
            raise NotUsableError(problem)
        found = {name for (name,) in self._db.execute("SELECT name FROM sqlite_master")}
        missing = sorted(_TABLES - found)
        if missing:
            raise NotUsableError(f"it is damaged: there is no table {missing[0]}")
        self.restore()
        self.inbox()

    def write(
        self, entries: Iterable[Entry], remembered: Remembered, *, whole: bool = False
    ) -> None:
        """Write ``entries`` and the properties of ``remembered``, which is the state after them.

        With ``whole``, its events are written too, in place of the current ones that the tables
        have. Tables that are larger than :data:`LARGEST_BYTES` lose their oldest rows.
        """
        with self._db:
            if whole:
                self._db.execute("DELETE FROM lives WHERE ended IS NULL")
                for life in remembered.lifecycles.ended.values():
                    self._put(life_entry(life))
                for life in remembered.lifecycles.current.values():
                    self._put(life_entry(life))
            for entry in entries:
                self._put(entry)
            self._put_properties(remembered)
            if self._used_bytes() > LARGEST_BYTES:
                for statement in _OLDEST_TENTHS:
                    self._db.execute(statement)

    def _put(self, entry: Entry) -> None:
        """Write one entry."""
        match entry:
            case NewTransition(number, wall, record):
                self._db.execute(
                    "REPLACE INTO transitions VALUES (?, ?, ?)", (number, wall, record)
                )
            case NewLife(event_id, first_seen, ended, life):
                row = (event_id, first_seen, ended, life)
                self._db.execute("REPLACE INTO lives VALUES (?, ?, ?, ?)", row)
            case NewSpan(span_id, span):
                self._db.execute("REPLACE INTO spans VALUES (?, ?)", (span_id, span))
            case EndedSpan(span_id, text):
                sql = "DELETE FROM spans WHERE span_id = ? AND span = coalesce(?, span)"
                self._db.execute(sql, (span_id, text))
            case RequestResult(number, result, if_unsent):
                sql = _SET_IF_UNSENT if if_unsent else _SET_RESULT
                self._db.execute(sql, (result, number))
            case Expiry(before):
                for sql in _EXPIRED:
                    self._db.execute(sql, (before,))

    def _put_properties(self, remembered: Remembered) -> None:
        values = (
            remembered.epoch,
            remembered.last_number,
            remembered.vm_id,
            encode(remembered.statistics),
            encode(remembered.heartbeat) if remembered.heartbeat else "",
        )
        self._db.execute("REPLACE INTO state VALUES (1, ?, ?, ?, ?, ?)", values)

    def _used_bytes(self) -> int:
        """Return how much of the file is in use, also by the transaction that is open."""
        (pages,) = self._db.execute("PRAGMA page_count").fetchone()
        (free,) = self._db.execute("PRAGMA freelist_count").fetchone()
        (page_size,) = self._db.execute("PRAGMA page_size").fetchone()
        return int((pages - free) * page_size)

    def restore(self) -> Remembered:
        """Return what the tables remember; a new one before the first write."""
        row = self._db.execute(
            "SELECT epoch, last_number, vm_id, statistics, heartbeat FROM state"
        ).fetchone()
        if row is None:
            return Remembered()
        epoch, number, vm_id, statistics, heartbeat = row
        types = [type(epoch), type(number), type(vm_id)]
        if types != [str, int, str] or number not in range(1 << 61):
            raise NotUsableError(
                "it is damaged: a value of the table state has the wrong type, or is out of range"
            )
        newest_ends = self._lives(
            "WHERE ended IS NOT NULL ORDER BY ended DESC LIMIT ?", (REMEMBERED_ENDS,)
        )
        ended = {life.event_id: life for life in reversed(list(newest_ends))}
        return Remembered(
            lifecycles=Lifecycles(self.current(), ended),
            statistics=_sound(Statistics, statistics),
            last_number=number,
            epoch=epoch,
            vm_id=vm_id,
            heartbeat=_sound(Timestamp, heartbeat) if heartbeat else None,
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
        rows = self._db.execute(f"SELECT life FROM lives {which}", values)
        return (_sound(Lifecycle, text) for (text,) in rows)

    def transitions(self, after: int = 0, limit: int = PAGE) -> list[tuple[int, Record]]:
        """Return at most ``limit`` transitions after number ``after``, the oldest first.

        Each comes with its number.
        """
        sql = "SELECT seq, record FROM transitions WHERE seq > ? ORDER BY seq LIMIT ?"
        rows = self._db.execute(sql, (after, limit)).fetchall()
        return [(number, _sound(dict, text)) for number, text in rows]

    def time_of(self, number: int) -> float | None:
        """Return when the transition ``number`` was, to the microsecond; None if there is none."""
        sql = "SELECT wall FROM transitions WHERE seq = ?"
        row = self._db.execute(sql, (number,)).fetchone()
        return round(float(row[0]), 6) if row else None

    def last_before(self, wall: float) -> int:
        """Return the number of the last transition until ``wall``; 0 if there is none."""
        sql = "SELECT max(seq) FROM transitions WHERE round(wall, 6) <= ?"
        return int(self._db.execute(sql, (wall,)).fetchone()[0] or 0)

    def position(self) -> Position:
        """Return where the journal is."""
        row = self._db.execute("SELECT epoch, last_number FROM state").fetchone()
        return Position() if row is None else Position(*row)

    def queued_spans(self, limit: int) -> list[tuple[str, str]]:
        """Return ids and texts of undelivered spans, the newest first, because they are urgent.

        A ``limit`` of -1 means all.
        """
        return self._db.execute(
            "SELECT span_id, span FROM spans ORDER BY rowid DESC LIMIT ?", (limit,)
        ).fetchall()

    def inbox(self, before: Inbox | None = None, *, is_written: bool = True) -> Inbox:
        """Return what the tables have for others.

        It is ``before``, unless this connection or another one has written.
        """
        version = self._db.execute("PRAGMA data_version").fetchone()[0]
        if before is None or version != self._data_version:
            self._data_version = version
            runs: Sequence[HookRun] = self.hook_runs()
            hooks = counted(runs)
        elif is_written:
            runs = before.runs
            hooks = before.hooks
        else:
            return before
        count = self._db.execute("SELECT count(*) FROM spans").fetchone()[0]
        return Inbox(self.open_requests(), runs, hooks, self.queued_spans(_SPANS), count)

    def add_requests(self, requests: Iterable[ApprovalRequest]) -> list[int]:
        """Queue requests to approve events; return the numbers that they get.

        Raises:
            ExporterError: with them, more than :data:`MOST_REQUESTS` would wait; none is queued.
        """
        sql = "INSERT INTO approval_requests (created, request) VALUES (?, ?)"
        rows = [(request.created, encode(request)) for request in requests]
        with self._db:
            numbers = [int(self._db.execute(sql, row).lastrowid or 0) for row in rows]
            (waiting,) = self._db.execute(
                f"SELECT count(*) FROM approval_requests WHERE {_IS_OPEN}"
            ).fetchone()
            if waiting > MOST_REQUESTS:
                raise ExporterError(
                    f"{waiting - len(numbers)} requests to approve events wait in the journal, and"
                    f" it takes at most {MOST_REQUESTS}: name fewer events, or try again when the"
                    " exporter has sent them"
                )
        return numbers

    def open_requests(self) -> list[ApprovalRequest]:
        """Return the requests without a result, the oldest :data:`MOST_REQUESTS` of them."""
        rows = self._db.execute(
            f"SELECT number, request FROM approval_requests WHERE {_IS_OPEN}"
            " ORDER BY number LIMIT ?",
            (MOST_REQUESTS,),
        ).fetchall()
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
        """Write ``result`` to open requests, so that they are not sent.

        With ``sent_too``, also to those that are being sent.
        """
        statement = _SET_RESULT if sent_too else _SET_IF_UNSENT
        with self._db:
            self._db.executemany(statement, [(result, number) for number in numbers])

    def request_results(self, numbers: Iterable[int]) -> dict[int, str]:
        """Return the results of those requests that have one."""
        results = dict(
            self._db.execute("SELECT number, result FROM approval_requests WHERE result <> ''")
        )
        return {number: results[number] for number in numbers if number in results}

    def put_hook_run(self, run: HookRun) -> None:
        """Write a run, new or changed; writing it again changes nothing."""
        row = (run.run, run.started, encode(run))
        with self._db:
            self._db.execute("REPLACE INTO hook_runs VALUES (?, ?, ?)", row)

    def hook_runs(self) -> list[HookRun]:
        """Return every run of a hook's command, the oldest first."""
        rows = self._db.execute("SELECT content FROM hook_runs ORDER BY started").fetchall()
        return list(decoded(HookRun, (text for (text,) in rows)))


def _sound(kind: type[_Value], text: str) -> _Value:
    """Return what ``text`` holds, of which nothing can be left out.

    Raises:
        DamagedTextError: it does not fit its class.
    """
    try:
        return decode(kind, text)
    except CodecError as error:
        raise DamagedTextError(str(error)) from error
