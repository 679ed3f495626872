"""The journal's tables: SQL over one SQLite connection, on disk or in memory.

Knows rows and transactions. Knows nothing of files, failures and what to do about them (``journal.journal``).
"""

import json
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, astuple, dataclass, field, fields
from typing import Any

from azure_scheduled_events_exporter.core.document import ScheduledEvent, Scope
from azure_scheduled_events_exporter.core.lifecycle import (
    REMEMBERED_ENDS,
    Approver,
    Change,
    Lifecycle,
    Lifecycles,
    State,
    Transition,
)
from azure_scheduled_events_exporter.core.pause import ClockSample
from azure_scheduled_events_exporter.core.records import Record, change_record
from azure_scheduled_events_exporter.core.spans import SpanFacts
from azure_scheduled_events_exporter.core.statistics import (
    LATENCY_BOUNDS,
    NOTICE_BOUNDS,
    PAUSE_BOUNDS,
    PHASE_BOUNDS,
    Histogram,
    Measurement,
    Statistics,
    measure,
)
from azure_scheduled_events_exporter.core.timestamp import Timestamp

APPLICATION_ID = 0x41534545  # "ASEE", so that a foreign SQLite file is told from ours
SCHEMA_VERSION = 2
RECENT = 20
"""How many ended lives the exporter keeps at hand to show; the journal has them all."""

# Each entry leads from the version before it to its own; a journal of an older version goes through the rest.
_MIGRATIONS: Mapping[int, str] = {
    1: """
    CREATE TABLE lives (
        event_id TEXT PRIMARY KEY,
        first_seen REAL NOT NULL,
        ended REAL,
        life TEXT NOT NULL
    ) WITHOUT ROWID;
    CREATE INDEX lives_ended ON lives (ended);
    CREATE TABLE transitions (
        seq INTEGER PRIMARY KEY AUTOINCREMENT,
        wall REAL NOT NULL,
        event_id TEXT NOT NULL,
        event_type TEXT NOT NULL,
        source TEXT NOT NULL,
        scope TEXT NOT NULL,
        transition TEXT NOT NULL,
        notice REAL,
        latency REAL,
        approved_by TEXT NOT NULL,
        scheduled REAL,
        started REAL,
        said TEXT NOT NULL
    );
    CREATE INDEX transitions_wall ON transitions (wall);
    CREATE TABLE spans (span_id TEXT PRIMARY KEY, seq INTEGER NOT NULL, span TEXT NOT NULL) WITHOUT ROWID;
    CREATE INDEX spans_seq ON spans (seq);
    CREATE TABLE asks (
        seq INTEGER PRIMARY KEY AUTOINCREMENT,
        wall REAL NOT NULL,
        event_id TEXT NOT NULL,
        who TEXT NOT NULL,
        answer TEXT
    );
    CREATE TABLE sums (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
    """,
    2: """
    ALTER TABLE transitions ADD COLUMN pause REAL;
    CREATE TABLE signs (one INTEGER PRIMARY KEY CHECK (one = 1), reading TEXT NOT NULL);
    """,
}
_COLUMNS = ", ".join(column.name for column in fields(Measurement))
_ROW = f"event_id, wall, said, {_COLUMNS}"
_MARKS = ", ".join("?" for _ in _ROW.split(","))


@dataclass(frozen=True, slots=True)
class Entry:
    """What one observation adds: all of it is written, or nothing.

    Attributes:
        changes: transitions, in order.
        lives: every life that is new or different.
        spans: to be delivered.
    """

    changes: Sequence[Change] = ()
    lives: Sequence[Lifecycle] = ()
    spans: Sequence[SpanFacts] = ()


@dataclass(frozen=True, slots=True)
class ApprovalRequest:
    """An operator's wish to approve an event, laid into the journal for the exporter to find; ``seq`` is its number."""

    seq: int
    event_id: str
    who: str


@dataclass(frozen=True, slots=True)
class Restored:
    """What a journal knows of the time before; ``recent`` are the lives that ended last, the newest last."""

    lifecycles: Lifecycles = field(default_factory=Lifecycles)
    statistics: Statistics = field(default_factory=Statistics)
    recent: tuple[Lifecycle, ...] = ()


class Store:
    """The tables over ``connection``, made or brought up to date. Every method is one transaction.

    All methods raise sqlite3.Error and then leave the tables as they were.

    Args:
        connection: to the file or memory.
        may_migrate: False for a reader beside an exporter that is of the version before: what readers ask for
            (:meth:`history`, :meth:`current`, :meth:`told`) is the same in every version.
    """

    def __init__(self, connection: sqlite3.Connection, *, may_migrate: bool = True) -> None:
        self._db = connection
        if not may_migrate:
            return
        version = int(connection.execute("PRAGMA user_version").fetchone()[0])
        for step in range(version + 1, SCHEMA_VERSION + 1):
            connection.executescript(
                f"BEGIN IMMEDIATE; {_MIGRATIONS[step]} PRAGMA application_id = {APPLICATION_ID};"
                f"PRAGMA user_version = {step}; COMMIT;"
            )

    def close(self) -> None:
        """Close the connection; on disk that folds the write-ahead log into the file."""
        self._db.close()

    def record(self, entry: Entry) -> None:
        """Write ``entry``."""
        with self._db:
            self._insert(entry)

    def restore(self) -> Restored:
        """Return the open lives, how the last ones ended, and the sum of all transitions."""
        rows = self._db.execute(
            "SELECT life FROM lives WHERE ended IS NOT NULL ORDER BY ended DESC LIMIT ?", (REMEMBERED_ENDS,)
        )
        lives = [_load_life(row[0]) for row in rows]
        ended = {life.event_id: life.outcome for life in reversed(lives) if life.outcome}
        recent = tuple(reversed(lives[:RECENT]))
        return Restored(Lifecycles(self.current(), ended), self._base().plus(self._measured()), recent)

    def current(self) -> dict[str, Lifecycle]:
        """Return the open lives by EventId, the oldest first."""
        rows = self._db.execute("SELECT life FROM lives WHERE ended IS NULL ORDER BY first_seen")
        return {life.event_id: life for life in (_load_life(row[0]) for row in rows)}

    def history(self) -> Iterator[Lifecycle]:
        """Yield every life, the oldest first."""
        for row in self._db.execute("SELECT life FROM lives ORDER BY first_seen"):
            yield _load_life(row[0])

    def told(self, after: int = 0) -> list[tuple[int, Record]]:
        """Return every transition behind number ``after``, with its number, the oldest first."""
        rows = self._db.execute("SELECT seq, said FROM transitions WHERE seq > ? ORDER BY seq", (after,))
        return [(seq, json.loads(said)) for seq, said in rows]

    def last_told(self) -> int:
        """Return the number of the newest transition that was ever written; 0 before the first."""
        row = self._db.execute("SELECT seq FROM sqlite_sequence WHERE name = 'transitions'").fetchone()
        return int(row[0]) if row else 0

    def ask(self, event_ids: Iterable[str], who: str, wall: float) -> list[int]:
        """Lay down an operator's wish to approve these events; return the number of each."""
        with self._db:
            insert = "INSERT INTO asks (wall, event_id, who) VALUES (?, ?, ?) RETURNING seq"
            return [int(self._db.execute(insert, (wall, name, who)).fetchone()[0]) for name in event_ids]

    def open_asks(self) -> list[ApprovalRequest]:
        """Return the wishes that nobody has answered."""
        return [
            ApprovalRequest(*row)
            for row in self._db.execute("SELECT seq, event_id, who FROM asks WHERE answer IS NULL")
        ]

    def answer(self, answers: Mapping[int, str]) -> None:
        """Answer wishes, by their numbers."""
        with self._db:
            self._db.executemany("UPDATE asks SET answer = ? WHERE seq = ?", [(a, seq) for seq, a in answers.items()])

    def answers(self, numbers: Iterable[int]) -> dict[int, str]:
        """Return the answers that have come to these wishes."""
        wanted = set(numbers)
        rows = self._db.execute("SELECT seq, answer FROM asks WHERE answer IS NOT NULL")
        return {seq: answer for seq, answer in rows if seq in wanted}

    def prune(self, before: float) -> None:
        """Forget what ended before ``before`` (wall-clock seconds); the sums keep counting it."""
        with self._db:
            old = self._measured("WHERE wall < ?", (before,))
            base = self._base().plus(old)
            self._db.execute("REPLACE INTO sums VALUES ('tally', ?)", (_dump_tally(base),))
            self._db.execute("DELETE FROM transitions WHERE wall < ?", (before,))
            self._db.execute("DELETE FROM lives WHERE ended < ?", (before,))
            self._db.execute("DELETE FROM asks WHERE wall < ?", (before,))

    def keep_newest(self, count: int) -> None:
        """Forget all but the ``count`` newest transitions, and ended lives without any; the sums keep counting."""
        with self._db:
            newest = "SELECT seq FROM transitions ORDER BY seq DESC LIMIT 1 OFFSET ?"
            row = self._db.execute(newest, (count,)).fetchone()
            if row is None:
                return
            base = self._base().plus(self._measured("WHERE seq <= ?", row))
            self._db.execute("REPLACE INTO sums VALUES ('tally', ?)", (_dump_tally(base),))
            self._db.execute("DELETE FROM transitions WHERE seq <= ?", row)
            told = "SELECT event_id FROM transitions"
            self._db.execute(f"DELETE FROM lives WHERE ended IS NOT NULL AND event_id NOT IN ({told})")

    def spans(self, limit: int) -> list[SpanFacts]:
        """Return undelivered spans, the newest first: they tell of what is about to happen; -1 stands for all."""
        rows = self._db.execute("SELECT span FROM spans ORDER BY seq DESC LIMIT ?", (limit,))
        return [_load_span(row[0]) for row in rows]

    def strike_off(self, delivered: Iterable[SpanFacts]) -> None:
        """Forget spans that need no delivery any more."""
        with self._db:
            self._db.executemany("DELETE FROM spans WHERE span_id = ?", [(span.span_id,) for span in delivered])

    def spans_queued(self) -> int:
        """Return the number of spans that wait for delivery."""
        return int(self._db.execute("SELECT count(*) FROM spans").fetchone()[0])

    def sign(self, reading: ClockSample | None) -> None:
        """Lay down what the clocks say now, as the last sign of life of this run; None takes it away."""
        with self._db:
            if reading is None:
                self._db.execute("DELETE FROM signs")
            else:
                self._db.execute("REPLACE INTO signs VALUES (1, ?)", (json.dumps(reading._asdict()),))

    def last_sign(self) -> ClockSample | None:
        """Return the last sign of life."""
        row = self._db.execute("SELECT reading FROM signs").fetchone()
        return ClockSample(**json.loads(row[0])) if row else None

    def take_over(self, other: "Store") -> None:
        """Add everything that ``other`` holds, in one transaction; a transition that is here already stays once."""
        rows = other._db.execute(f"SELECT {_ROW} FROM transitions ORDER BY seq").fetchall()  # noqa: SLF001 - the same class
        with self._db:
            have = set(self._db.execute("SELECT event_id, transition FROM transitions"))
            event_id, transition = (_ROW.split(", ").index(name) for name in ("event_id", "transition"))
            self._insert_rows(
                row
                for row in rows
                if row[transition] == Transition.RESCHEDULED or (row[event_id], row[transition]) not in have
            )
            self._insert(Entry(lives=list(other.history()), spans=other.spans(-1)[::-1]))

    def is_empty(self) -> bool:
        """Return whether nothing was ever written here."""
        tables = ("transitions", "lives", "sums")
        return not any(self._db.execute(f"SELECT EXISTS (SELECT 1 FROM {table})").fetchone()[0] for table in tables)

    def begin_with(self, whole: Restored, entry: Entry) -> None:
        """Begin with ``whole`` in place of a lost past, and with the lives and spans of ``entry``, which it counts."""
        with self._db:
            self._db.execute("REPLACE INTO sums VALUES ('tally', ?)", (_dump_tally(whole.statistics),))
            self._insert(Entry(lives=[*entry.lives, *whole.lifecycles.current.values()], spans=entry.spans))

    def _insert(self, entry: Entry) -> None:
        self._insert_rows(
            (c.lifecycle.event_id, c.at.wall, json.dumps(change_record(c)), *astuple(measure(c))) for c in entry.changes
        )
        self._db.executemany(
            "REPLACE INTO lives VALUES (?, ?, ?, ?)",
            [
                (life.event_id, life.first_seen.wall, life.ended_at and life.ended_at.wall, _dump(life))
                for life in entry.lives
            ],
        )
        self._db.executemany(
            "REPLACE INTO spans VALUES (?, (SELECT coalesce(max(seq), 0) + 1 FROM spans), ?)",
            [(span.span_id, _dump(span)) for span in entry.spans],
        )

    def _insert_rows(self, rows: Iterable[Sequence[object]]) -> None:
        self._db.executemany(f"INSERT INTO transitions ({_ROW}) VALUES ({_MARKS})", rows)

    def _measured(self, where: str = "", values: Sequence[float] = ()) -> Iterator[Measurement]:
        rows = self._db.execute(f"SELECT {_COLUMNS} FROM transitions {where}", values)
        return (Measurement(*row) for row in rows)

    def _base(self) -> Statistics:
        row = self._db.execute("SELECT value FROM sums WHERE name = 'tally'").fetchone()
        return _load_tally(row[0]) if row else Statistics()


def _dump(value: Lifecycle | SpanFacts) -> str:
    return json.dumps(asdict(value), separators=(",", ":"))


def _load_life(text: str) -> Lifecycle:
    values = json.loads(text)
    event = values["event"]
    event["resources"] = tuple(event["resources"])

    def instant(name: str) -> Timestamp | None:
        return Timestamp(**values[name]) if values[name] is not None else None

    def approver(name: str) -> Approver | None:
        return Approver(values[name]) if values[name] is not None else None

    return Lifecycle(
        event=ScheduledEvent(**event),
        state=State(values["state"]),
        scope=Scope(values["scope"]),
        first_seen=Timestamp(**values["first_seen"]),
        not_before=values["not_before"],
        notice_seconds=values["notice_seconds"],
        asked_by=approver("asked_by"),
        approved_by=approver("approved_by"),
        approved_at=instant("approved_at"),
        started_at=instant("started_at"),
        proven_by_boot=values["proven_by_boot"],
        outcome=Transition(values["outcome"]) if values["outcome"] else None,
        ended_at=instant("ended_at"),
        told=values["told"],
        vm_name=values["vm_name"],
        observed_pause=values.get("observed_pause"),  # not there before schema 2
    )


def _load_span(text: str) -> SpanFacts:
    values = json.loads(text)
    attributes = {key: tuple(v) if isinstance(v, list) else v for key, v in values.pop("attributes").items()}
    return SpanFacts(**values, attributes=attributes)


_HISTOGRAMS: Mapping[str, tuple[float, ...]] = {
    "notice": NOTICE_BOUNDS,
    "approval_latency": LATENCY_BOUNDS,
    "phases": PHASE_BOUNDS,
    "pauses": PAUSE_BOUNDS,
}


def _dump_tally(statistics: Statistics) -> str:
    values: dict[str, Any] = {"transitions": [[*key, count] for key, count in statistics.transitions.items()]}
    for name in _HISTOGRAMS:
        values[name] = [[*key, asdict(histogram)] for key, histogram in getattr(statistics, name).items()]
    return json.dumps(values, separators=(",", ":"))


def _load_tally(text: str) -> Statistics:
    values = json.loads(text)
    # Sums that an older version wrote may lack a histogram or have other bounds.
    histograms = {
        name: {
            tuple(key): Histogram(tuple(h["bounds"]), tuple(h["counts"]), h["total"]).over(bounds)
            for *key, h in values.get(name, ())
        }
        for name, bounds in _HISTOGRAMS.items()
    }
    transitions = {tuple(key): count for *key, count in values["transitions"]}
    return Statistics(transitions, **histograms)
