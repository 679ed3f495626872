"""Reads and writes the journal's tables: SQL over one SQLite connection, on disk or in memory.

Handles rows and transactions. Must not handle files, failures or threads (``journal.file``, ``journal.journal``).

The tables and their content:

======================  ===================================================================================
``transitions``         one row for each transition: number, event, time, ``record`` (JSON for ``events
                        --follow``), and the fields of :class:`Measurement`
``lives``               one row for each event: a :class:`Lifecycle` as JSON by ``journal.codec``
``spans``               :class:`SpanFacts` as JSON: those that wait for delivery, and refused ones (``set_aside``)
``approval_requests``   operators' requests and their results: ``journal.requests``
``hook_runs``           runs of ``hook``'s command: ``journal.hook_runs``
``properties``          epoch of the numbers, id of the VM, last heartbeat, and ``sums``: the :class:`Statistics` of
                        the transitions that have no row (any more), as JSON
======================  ===================================================================================

How another process hands facts over: it opens the journal with ``journal.file.writable`` while the exporter runs, and
adds rows to a table of its own, in one short transaction, as ``approve`` and ``hook`` do. The
exporter's thread sees that another connection has committed (:meth:`Store.changed_by_others`) and reads
:meth:`Store.inbox` again, which the poller gets from ``Journal.inbox``. A further kind of fact is a table of
the schema, a class like ``ApprovalRequests`` that knows its SQL, and a field of :class:`Inbox`. :meth:`Store.prune`
removes old rows.
"""

import json
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import astuple, dataclass, field, fields
from typing import Any, Final

from azure_scheduled_events_exporter.core.lifecycle import REMEMBERED_ENDS, Change, Lifecycle, Lifecycles
from azure_scheduled_events_exporter.core.records import Record, change_record
from azure_scheduled_events_exporter.core.spans import SpanFacts
from azure_scheduled_events_exporter.core.statistics import Measurement, Statistics, measure
from azure_scheduled_events_exporter.errors import CodecError, DamagedTextError

from .codec import decode, decode_record, encode
from .hook_runs import HookRun, HookRuns, HookStatistics, counted
from .requests import ApprovalRequest, ApprovalRequests

APPLICATION_ID: Final = 0x41534531
"""``ASE1``: marks the journals of this exporter."""
SCHEMA_VERSION: Final = 1

RECENT: Final = 20
"""How many ended events the exporter keeps in memory to show; the journal has all."""
PAGE: Final = 500
"""How many transitions are read at once."""

_MEASURED: Final = ", ".join(column.name for column in fields(Measurement))
_DAY: Final = 86400.0

# A damaged file can hold any value in any column: integrity_check compares each with its CHECK.
_SCHEMA: Final = f"""
    BEGIN IMMEDIATE;
    CREATE TABLE transitions (
        seq INTEGER PRIMARY KEY AUTOINCREMENT,
        wall REAL NOT NULL CHECK (typeof(wall) = 'real'),
        event_id TEXT NOT NULL CHECK (typeof(event_id) = 'text'),
        record TEXT NOT NULL CHECK (typeof(record) = 'text'),
        event_type TEXT NOT NULL CHECK (typeof(event_type) = 'text'),
        source TEXT NOT NULL CHECK (typeof(source) = 'text'),
        scope TEXT NOT NULL CHECK (typeof(scope) = 'text'),
        transition TEXT NOT NULL CHECK (typeof(transition) = 'text'),
        notice REAL CHECK (typeof(notice) IN ('real', 'null')),
        latency REAL CHECK (typeof(latency) IN ('real', 'null')),
        approved_by TEXT NOT NULL CHECK (typeof(approved_by) = 'text'),
        scheduled REAL CHECK (typeof(scheduled) IN ('real', 'null')),
        started REAL CHECK (typeof(started) IN ('real', 'null')),
        pause REAL CHECK (typeof(pause) IN ('real', 'null')),
        pauses INTEGER CHECK (typeof(pauses) IN ('integer', 'null'))
    );
    CREATE INDEX transitions_wall ON transitions (wall);
    CREATE TABLE lives (
        event_id TEXT PRIMARY KEY,
        first_seen REAL NOT NULL,
        ended REAL,
        life TEXT NOT NULL
    ) WITHOUT ROWID;
    CREATE INDEX lives_ended ON lives (ended);
    CREATE TABLE spans (
        span_id TEXT PRIMARY KEY,
        seq INTEGER NOT NULL CHECK (typeof(seq) = 'integer'),
        span TEXT NOT NULL,
        refused REAL,  -- when a collector first refused it, Unix seconds
        set_aside INTEGER NOT NULL DEFAULT 0  -- not sent again before the next start
    ) WITHOUT ROWID;
    CREATE INDEX spans_waiting ON spans (set_aside, seq);
    CREATE TABLE approval_requests (
        number INTEGER PRIMARY KEY AUTOINCREMENT,
        event_id TEXT NOT NULL CHECK (typeof(event_id) = 'text'),
        operator TEXT NOT NULL CHECK (typeof(operator) = 'text'),
        created REAL NOT NULL CHECK (typeof(created) = 'real'),
        not_before REAL CHECK (typeof(not_before) IN ('real', 'null')),
        expires REAL NOT NULL CHECK (typeof(expires) = 'real'),
        resources TEXT NOT NULL CHECK (typeof(resources) = 'text'),
        event_type TEXT NOT NULL CHECK (typeof(event_type) = 'text'),
        duration REAL CHECK (typeof(duration) IN ('real', 'null')),
        sent REAL,
        result TEXT
    );
    CREATE TABLE hook_runs (
        run TEXT PRIMARY KEY CHECK (typeof(run) = 'text'),
        command TEXT NOT NULL CHECK (typeof(command) = 'text'),
        event_id TEXT NOT NULL CHECK (typeof(event_id) = 'text'),
        event_type TEXT NOT NULL CHECK (typeof(event_type) = 'text'),
        phase TEXT NOT NULL CHECK (typeof(phase) = 'text'),
        started REAL NOT NULL CHECK (typeof(started) = 'real'),
        outcome TEXT CHECK (typeof(outcome) IN ('text', 'null')),
        duration REAL CHECK (typeof(duration) IN ('real', 'null')),
        seconds_left REAL CHECK (typeof(seconds_left) IN ('real', 'null')),
        record TEXT NOT NULL CHECK (typeof(record) = 'text')
    ) WITHOUT ROWID;
    CREATE TABLE properties (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
    PRAGMA application_id = {APPLICATION_ID};
    PRAGMA user_version = {SCHEMA_VERSION};
    COMMIT;
"""
_PUT_PROPERTY: Final = "REPLACE INTO properties VALUES (?, ?)"
_INSERT_TRANSITION: Final = (
    f"REPLACE INTO transitions (seq, event_id, wall, record, {_MEASURED}) "
    f"VALUES (?, ?, ?, ?, {', '.join('?' for _ in fields(Measurement))})"
)


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
    """A span that waits for delivery; ``number`` changes if a newer version replaces the span."""

    number: int
    span: SpanFacts


@dataclass(frozen=True, slots=True)
class Restored:
    """The content of a journal at start. ``recent`` holds the latest ended events, in the order in which they ended."""

    lifecycles: Lifecycles = field(default_factory=Lifecycles)
    statistics: Statistics = field(default_factory=Statistics)
    recent: tuple[Lifecycle, ...] = ()


@dataclass(frozen=True, slots=True)
class Inbox:
    """What other processes have written for the exporter."""

    requests: Sequence[ApprovalRequest] = ()
    hooks: HookStatistics = field(default_factory=HookStatistics)
    runs: Sequence[HookRun] = ()


@dataclass(slots=True)
class Batch:
    """Rows that are written in one transaction; writing a batch again changes nothing.

    Attributes:
        transitions: by number; a row is what :func:`transition_row` returns.
        lives: by EventId; a row is what :func:`life_row` returns.
        spans: by span id, each with its JSON.
        span_ends: by span id and number: when a collector refused the span, Unix seconds, or None to remove it.
        results: of approval requests, by their number.
        properties: by name.
        sums: of transitions that are counted without a row, by batch.
        state: after the newest entry.
        is_shortened: whether lives are missing, so that current events in the file may have ended.
    """

    transitions: dict[int, tuple[Any, ...]] = field(default_factory=dict)
    lives: dict[str, tuple[Any, ...]] = field(default_factory=dict)
    spans: dict[str, tuple[QueuedSpan, str]] = field(default_factory=dict)
    span_ends: dict[tuple[str, int], float | None] = field(default_factory=dict)
    results: dict[int, str] = field(default_factory=dict)
    properties: dict[str, str] = field(default_factory=dict)
    sums: dict[int, Statistics] = field(default_factory=dict)
    state: Restored | None = None
    is_shortened: bool = False

    @property
    def tables(self) -> tuple[dict[Any, Any], ...]:
        """The rows, by table."""
        return (
            *(self.transitions, self.lives, self.spans, self.span_ends, self.results, self.properties),
            self.sums,
        )


class Store:
    """The tables over ``connection``, created if there are none. Every method is one transaction.

    All methods raise sqlite3.Error and then leave the tables as they were; those that read values raise
    ``DamagedTextError`` too.

    Attributes:
        is_new: whether the tables were created now.
        left_out: why a life or span was left out of what was read, ``""`` if none was: its JSON does not fit the class.
    """

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.connection = self._db = connection
        self.requests = ApprovalRequests(connection)
        self.hook_runs = HookRuns(connection)
        self.left_out = ""
        self._data_version = 0
        self.is_new = not connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
        if self.is_new:
            connection.executescript(_SCHEMA)

    def close(self) -> None:
        """Close the connection. On disk, this merges the write-ahead log into the file."""
        self._db.close()

    def checkpoint(self) -> None:
        """Write what the log has to the file itself, because the log was removed while it is open."""
        self._db.execute("PRAGMA wal_checkpoint(FULL)")

    def write(self, batch: Batch) -> None:
        """Write ``batch``."""
        with self._db:
            if batch.sums:
                self._write_sums(self._sums().together(*batch.sums.values()))
            self._db.executemany(_INSERT_TRANSITION, batch.transitions.values())
            self._write_lives(batch.lives.values())
            if batch.is_shortened and batch.state is not None:
                current = json.dumps(list(batch.state.lifecycles.current))
                gone = "ended IS NULL AND event_id NOT IN (SELECT value FROM json_each(?))"
                self._db.execute(f"DELETE FROM lives WHERE {gone}", (current,))
            self._db.executemany(
                "REPLACE INTO spans (span_id, seq, span) VALUES (?, ?, ?)",
                [(span_id, queued.number, text) for span_id, (queued, text) in batch.spans.items()],
            )
            for (span_id, number), refused in batch.span_ends.items():
                what = (
                    "DELETE FROM spans"
                    if refused is None
                    else "UPDATE spans SET set_aside = 1, refused = coalesce(refused, ?)"
                )
                times = () if refused is None else (refused,)
                self._db.execute(f"{what} WHERE span_id = ? AND seq = ?", (*times, span_id, number))
            self.requests.set_results(batch.results)
            self._db.executemany(_PUT_PROPERTY, batch.properties.items())

    def begin_with(self, whole: Restored, properties: Mapping[str, str], last_number: int) -> None:
        """Fill a new file with the state ``whole``; the next transition gets the number after ``last_number``."""
        with self._db:
            self._db.executemany(_PUT_PROPERTY, properties.items())
            self._db.execute("INSERT INTO sqlite_sequence (name, seq) VALUES ('transitions', ?)", (last_number,))
            self._write_sums(whole.statistics)
            lives = whole.lifecycles
            self._write_lives(map(life_row, (*lives.ended.values(), *lives.current.values())))

    def restore(self) -> Restored:
        """Return the current events, the last ended events, and the statistics of all transitions."""
        lives = self.ended_lives()
        ended = {life.event_id: life for life in lives}
        statistics = self._sums().plus(self._measured())
        return Restored(Lifecycles(self.current(), ended), statistics, lives[-RECENT:])

    def current(self) -> dict[str, Lifecycle]:
        """Return the current events by EventId, the oldest first."""
        rows = self._db.execute("SELECT life FROM lives WHERE ended IS NULL ORDER BY first_seen")
        return {life.event_id: life for life in self._decoded(rows.fetchall())}

    def ended_lives(self) -> tuple[Lifecycle, ...]:
        """Return the events that ended last, as many as are remembered, the newest last."""
        sql = "SELECT life FROM lives WHERE ended IS NOT NULL ORDER BY ended DESC LIMIT ?"
        return tuple(self._decoded(self._db.execute(sql, (REMEMBERED_ENDS,)).fetchall()))[::-1]

    def history(self) -> Iterator[Lifecycle]:
        """Return every event, the oldest first, each read when it is asked for."""
        return self._decoded(self._db.execute("SELECT life FROM lives ORDER BY first_seen"))

    def _decoded(self, rows: Iterable[tuple[str]]) -> Iterator[Lifecycle]:
        """Yield the lives in ``rows``, without those that do not fit the class: they must not hide the others."""
        for (text,) in rows:
            try:
                yield decode(Lifecycle, text)
            except CodecError as error:
                self.left_out = str(error)

    def transitions(self, after: int = 0, limit: int = PAGE) -> list[tuple[int, Record]]:
        """Return at most ``limit`` transitions after number ``after``, each with its number, the oldest first."""
        sql = "SELECT seq, record FROM transitions WHERE seq > ? ORDER BY seq LIMIT ?"
        return [(seq, decode_record(text)) for seq, text in self._db.execute(sql, (after, limit)).fetchall()]

    def last_number(self) -> int:
        """Return the number of the newest transition that was ever written; 0 before the first."""
        row = self._db.execute("SELECT seq FROM sqlite_sequence WHERE name = 'transitions'").fetchone()
        if row is not None and type(row[0]) is not int:
            raise DamagedTextError("the number of the last transition is no number")
        return row[0] if row else 0

    def last_span(self) -> int:
        """Return the number of the newest span; 0 if there is none."""
        return int(self._db.execute("SELECT coalesce(max(seq), 0) FROM spans").fetchone()[0])

    def epoch(self) -> str:
        """Return the random id that identifies this journal's numbering."""
        return self.property("epoch")

    def property(self, name: str) -> str:
        """Return a property; ``""`` if there is none of this name."""
        row = self._db.execute("SELECT value FROM properties WHERE name = ?", (name,)).fetchone()
        return str(row[0]) if row else ""

    def changed_by_others(self) -> bool:
        """Return whether another connection has written since the last call; True at the first."""
        before = self._data_version
        self._data_version = self._db.execute("PRAGMA data_version").fetchone()[0]
        return self._data_version != before

    def inbox(self) -> Inbox:
        """Return what other processes have written."""
        runs = self.hook_runs.all()
        return Inbox(self.requests.open(), counted(runs), runs)

    def prune(self, before: float) -> None:
        """Remove what ended before ``before`` (Unix seconds), at most one day of it; the sums still count it.

        Spans that a collector refused before then are removed too.
        """
        with self._db:
            self._db.execute("DELETE FROM spans WHERE refused < ?", (before,))
            both = "SELECT min(wall) AS wall FROM transitions UNION ALL SELECT min(ended) AS wall FROM lives"
            oldest = self._db.execute(f"SELECT min(wall) FROM ({both})").fetchone()[0]
            if oldest is None or oldest >= before:
                return
            before = min(before, oldest + _DAY)
            self._write_sums(self._sums().plus(self._measured("WHERE wall < ?", (before,))))
            self._db.execute("DELETE FROM transitions WHERE wall < ?", (before,))
            self._db.execute("DELETE FROM lives WHERE ended < ?", (before,))
            self._db.execute("DELETE FROM approval_requests WHERE created < ?", (before,))

    def keep_newest(self, count: int) -> None:
        """Remove all but the ``count`` newest transitions, and ended events without any; the sums keep counting."""
        with self._db:
            newest = "SELECT seq FROM transitions ORDER BY seq DESC LIMIT 1 OFFSET ?"
            row = self._db.execute(newest, (count,)).fetchone()
            if row is None:
                return
            self._write_sums(self._sums().plus(self._measured("WHERE seq <= ?", row)))
            self._db.execute("DELETE FROM transitions WHERE seq <= ?", row)
            left = "SELECT event_id FROM transitions"
            self._db.execute(f"DELETE FROM lives WHERE ended IS NOT NULL AND event_id NOT IN ({left})")

    def queued_spans(self, limit: int) -> list[QueuedSpan]:
        """Return undelivered spans, the newest first, because they are the most urgent; -1 means all.

        Those whose JSON cannot be read are left out.
        """
        # As bytes: SQLite does not return a text that is not UTF-8, nor the rows after it.
        sql = "SELECT seq, CAST(span AS BLOB) FROM spans WHERE set_aside = 0 ORDER BY seq DESC LIMIT ?"
        spans = []
        for number, text in self._db.execute(sql, (limit,)).fetchall():
            try:
                spans.append(QueuedSpan(number, decode(SpanFacts, (text or b"").decode())))
            except (UnicodeDecodeError, DamagedTextError, CodecError) as error:
                self.left_out = str(error)
                with suppress(sqlite3.OperationalError), self._db:  # a reader may not write
                    self._db.execute("UPDATE spans SET set_aside = 1 WHERE seq = ?", (number,))
        return spans

    def requeue_spans(self) -> None:
        """Queue the spans again that were set aside."""
        with self._db:
            self._db.execute("UPDATE spans SET set_aside = 0 WHERE set_aside")

    def spans_queued(self) -> int:
        """Return the number of spans that wait for delivery."""
        return int(self._db.execute("SELECT count(*) FROM spans WHERE set_aside = 0").fetchone()[0])

    def _write_lives(self, rows: Iterable[tuple[Any, ...]]) -> None:
        self._db.executemany("REPLACE INTO lives (event_id, first_seen, ended, life) VALUES (?, ?, ?, ?)", rows)

    def _measured(self, where: str = "", values: Sequence[float] = ()) -> Iterator[Measurement]:
        for row in self._db.execute(f"SELECT {_MEASURED} FROM transitions {where}", values):
            yield Measurement(*row)

    def _sums(self) -> Statistics:
        text = self.property("sums")
        try:
            return decode(Statistics, text) if text else Statistics()
        except CodecError as error:
            raise DamagedTextError(str(error)) from error

    def _write_sums(self, statistics: Statistics) -> None:
        self._db.execute(_PUT_PROPERTY, ("sums", encode(statistics)))


def transition_row(number: int, change: Change) -> tuple[Any, ...]:
    """Return the values of one transition in the order of the table's columns.

    Raises:
        CodecError: a bug, as for :func:`life_row`.
    """
    record = encode(change_record(change))
    return (number, change.lifecycle.event_id, change.at.wall, record, *astuple(measure(change)))


def life_row(life: Lifecycle) -> tuple[Any, ...]:
    """Return the values of one life in the order of the table's columns."""
    return (life.event_id, life.first_seen.wall, life.ended_at and life.ended_at.wall, encode(life))


def measurement(row: tuple[Any, ...]) -> Measurement:
    """Return what the transition in ``row`` (:func:`transition_row`) adds to the statistics."""
    return Measurement(*row[4:])
