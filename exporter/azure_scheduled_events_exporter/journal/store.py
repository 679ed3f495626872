"""Reads and writes the journal's tables: SQL over one SQLite connection, on disk or in memory.

Handles rows and transactions. Must not handle files or failures (``journal.storage``).

The tables and their content:

======================  ===================================================================================
``transitions``         one row for each transition: columns are :data:`TRANSITION_COLUMNS`, which are named
                        after the fields of :class:`Measurement`; ``record`` is JSON for ``events --follow``
``lives``               one row for each event: a :class:`Lifecycle` as JSON by ``journal.codec``
``spans``               :class:`SpanFacts` as JSON: those that wait for delivery, and refused ones (``set_aside``)
``approval_requests``   operators' requests and their results: ``journal.approval_requests``
``documents``           the documents of the metadata service: ``journal.documents``
``heartbeat``           the last :class:`ClockSample` of this run, as JSON
``sums``                :class:`Statistics` of the transitions that have been removed, as JSON
``properties``          the journal's epoch, and the id of the VM that it belongs to
======================  ===================================================================================
"""

import json
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, fields
from operator import itemgetter
from typing import Any

from azure_scheduled_events_exporter.core.lifecycle import (
    REMEMBERED_ENDS,
    Change,
    Lifecycle,
    Lifecycles,
)
from azure_scheduled_events_exporter.core.pause import ClockSample
from azure_scheduled_events_exporter.core.records import Record, change_record
from azure_scheduled_events_exporter.core.spans import SpanFacts
from azure_scheduled_events_exporter.core.statistics import Measurement, Statistics, measure
from azure_scheduled_events_exporter.errors import CodecError, DamagedTextError, NotUsableError

from .approval_requests import ApprovalRequests
from .codec import (
    decode,
    decode_record,
    decode_statistics,
    encode,
    encode_record,
    encode_statistics,
)
from .column_types import INTEGER, OPTIONAL_NUMBER, TEXT, check_types
from .documents import Documents
from .recovery import Row, Written, merged_life, merged_rows
from .schema import MIGRATIONS, SCHEMA_VERSION, columns, schema_columns

APPLICATION_ID = 0x41534545
"""``ASEE``: marks the SQLite files of this exporter."""

RECENT = 20
"""How many ended events the exporter keeps in memory to show; the journal has all."""

PAGE = 500
"""How many transitions are read at once."""

_MEASURED = tuple(column.name for column in fields(Measurement))
_MEASURED_TYPES = tuple(TEXT if column.type is str else OPTIONAL_NUMBER for column in fields(Measurement))
TRANSITION_COLUMNS = ("event_id", "wall", "record", *_MEASURED)
"""``wall`` is the time of the transition, Unix seconds; ``record`` is its JSON for followers."""

_INSERT_TRANSITION = (
    f"INSERT INTO transitions ({', '.join(TRANSITION_COLUMNS)}) "
    f"VALUES ({', '.join(f':{name}' for name in TRANSITION_COLUMNS)})"
)
_DAY = 86400.0
_LAST_NUMBER = (1 << 63) - (1 << 32)
"""No journal gets as far; a damaged one that claims so could take few more rows, or none."""


@dataclass(frozen=True, slots=True)
class Entry:
    """What one observation adds; written in one transaction.

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


class Store:
    """The tables over ``connection``, created or migrated. Every method is one transaction.

    All methods raise sqlite3.Error and then leave the tables as they were; those that read or write values raise
    ``CodecError`` and ``DamagedTextError`` too.

    Args:
        connection: to the file or memory.
        may_migrate: False for a reader, which may run beside an exporter of an older version: :meth:`history`,
            :meth:`current`, :meth:`transitions`, :meth:`last_number` and :meth:`epoch` read every schema.

    Attributes:
        left_out: why a life, or the sums, were left out of what was read, ``""`` if nothing was. A life stays in the
            table until its event is seen again, the sums under another name.
    """

    def __init__(self, connection: sqlite3.Connection, *, may_migrate: bool = True) -> None:
        self._db = connection
        self.documents = Documents(connection)
        self.requests = ApprovalRequests(connection)
        self.left_out = ""
        self.version = int(connection.execute("PRAGMA user_version").fetchone()[0])
        if may_migrate:
            is_new = self.version == 0
            self._migrate()
            if not is_new:
                self._check_tables()
        self._record = "record" if self.version > 2 else "said"  # noqa: PLR2004 - the schema that renamed it
        self._waiting = "WHERE NOT set_aside" if self.version > 5 else ""  # noqa: PLR2004 - the schema that has it

    def _migrate(self) -> None:
        for step in range(self.version + 1, SCHEMA_VERSION + 1):
            self._db.executescript(
                f"BEGIN IMMEDIATE; {MIGRATIONS[step]} PRAGMA application_id = {APPLICATION_ID};"
                f"PRAGMA user_version = {step}; COMMIT;"
            )
        self.version = SCHEMA_VERSION

    def _check_tables(self) -> None:
        """Raise NotUsableError for damage that no read finds, only a later write."""
        for table, column in sorted(schema_columns() - columns(self._db)):
            raise NotUsableError(f"table {table} has no column {column}")
        numbers = "SELECT name FROM sqlite_sequence WHERE typeof(seq) != 'integer' OR seq > ?"
        for (table,) in self._db.execute(numbers, (_LAST_NUMBER,)):
            raise NotUsableError(f"the numbers of table {table} are used up")

    def close(self) -> None:
        """Close the connection. On disk, this merges the write-ahead log into the file."""
        self._db.close()

    def copy_to(self, path: str) -> None:
        """Write everything to a new file, also if the open file has been removed."""
        target = sqlite3.connect(path)
        try:
            target.execute("PRAGMA synchronous = FULL")
            self._db.backup(target)
        finally:
            target.close()

    def record(self, entry: Entry) -> None:
        """Write ``entry``."""
        with self._db:
            self._insert(entry)

    def restore(self, counted: Statistics | None = None, number: int = 0) -> Restored:
        """Return the current events, the last ended events, and the statistics of all transitions.

        With ``counted``, the statistics of the transitions up to ``number``, only later transitions are read.
        """
        lives = self.ended_lives()
        ended = {life.event_id: life for life in lives}
        with self._db:
            before = self._base() if counted is None else counted
        statistics = before.plus(self._measured("WHERE seq > ?", (number,)))
        return Restored(Lifecycles(self.current(), ended), statistics, lives[-RECENT:])

    def current(self) -> dict[str, Lifecycle]:
        """Return the current events by EventId, the oldest first."""
        rows = self._db.execute("SELECT life FROM lives WHERE ended IS NULL ORDER BY first_seen")
        return {life.event_id: life for life in self._decoded(rows)}

    def ended_lives(self) -> tuple[Lifecycle, ...]:
        """Return the events that ended last, as many as are remembered, the newest last."""
        rows = self._db.execute(
            "SELECT life FROM lives WHERE ended IS NOT NULL ORDER BY ended DESC LIMIT ?", (REMEMBERED_ENDS,)
        )
        return tuple(self._decoded(rows))[::-1]

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
        rows = self._db.execute(
            f"SELECT seq, {self._record} FROM transitions WHERE seq > ? ORDER BY seq LIMIT ?", (after, limit)
        )
        return [(seq, decode_record(text)) for seq, text in rows]

    def last_number(self) -> int:
        """Return the number of the newest transition that was ever written; 0 before the first."""
        row = self._db.execute("SELECT seq FROM sqlite_sequence WHERE name = 'transitions'").fetchone()
        if row is None:
            return 0
        check_types(map(type, row), [INTEGER], "sqlite_sequence")
        return int(row[0])

    def epoch(self) -> str:
        """Return the random id that identifies this journal's numbering; ``""`` before schema 3."""
        return self._property("epoch") if self.version > 2 else ""  # noqa: PLR2004 - the schema that has it

    def vm_id(self) -> str:
        """Return the id of the VM that this journal belongs to; ``""`` while that is not known."""
        return self._property("vm_id")

    def set_vm_id(self, vm_id: str) -> None:
        """Store the id of the VM that this journal belongs to."""
        self._set_property("vm_id", vm_id)

    def prune(self, before: float) -> None:
        """Remove what ended before ``before`` (Unix seconds), at most one day of it; the sums still count it.

        Spans that a collector refused before then are removed too.
        """
        with self._db:
            self._db.execute("DELETE FROM spans WHERE refused < ?", (before,))
            oldest = self._db.execute(
                "SELECT min(wall) FROM "
                "(SELECT min(wall) AS wall FROM transitions UNION ALL SELECT min(ended) AS wall FROM lives)"
            ).fetchone()[0]
            if oldest is None or oldest >= before:
                return
            before = min(before, oldest + _DAY)
            base = self._base().plus(self._measured("WHERE wall < ?", (before,)))
            self._write_base(base)
            self._db.execute("DELETE FROM transitions WHERE wall < ?", (before,))
            self._db.execute("DELETE FROM lives WHERE ended < ?", (before,))
            self.requests.remove(before)

    def keep_newest(self, count: int) -> None:
        """Remove all but the ``count`` newest transitions, and ended events without any; the sums keep counting."""
        with self._db:
            newest = "SELECT seq FROM transitions ORDER BY seq DESC LIMIT 1 OFFSET ?"
            row = self._db.execute(newest, (count,)).fetchone()
            if row is None:
                return
            self._write_base(self._base().plus(self._measured("WHERE seq <= ?", row)))
            self._db.execute("DELETE FROM transitions WHERE seq <= ?", row)
            left = "SELECT event_id FROM transitions"
            self._db.execute(f"DELETE FROM lives WHERE ended IS NOT NULL AND event_id NOT IN ({left})")

    def queued_spans(self, limit: int) -> list[QueuedSpan]:
        """Return undelivered spans, the newest first, because they are the most urgent; -1 means all."""
        return self._spans(self._waiting, limit)

    def all_spans(self) -> list[QueuedSpan]:
        """Return undelivered spans and those that were set aside, the newest first."""
        return self._spans()

    def _spans(self, where: str = "", limit: int = -1) -> list[QueuedSpan]:
        rows = self._db.execute(f"SELECT seq, span FROM spans {where} ORDER BY seq DESC LIMIT ?", (limit,))
        return [QueuedSpan(seq, decode(SpanFacts, text)) for seq, text in rows]

    def remove_spans(self, settled: Iterable[QueuedSpan]) -> None:
        """Remove delivered spans, but not a newer version that has replaced one of them."""
        with self._db:
            self._db.executemany(
                "DELETE FROM spans WHERE span_id = ? AND seq = ?",
                [(queued.span.span_id, queued.number) for queued in settled],
            )

    def set_spans_aside(self, refused: Iterable[QueuedSpan], wall: float) -> None:
        """Take spans that a collector refused at ``wall`` (Unix seconds) out of the queue; they stay in the journal."""
        with self._db:
            self._db.executemany(
                "UPDATE spans SET set_aside = 1, refused = coalesce(refused, ?) WHERE span_id = ? AND seq = ?",
                [(wall, queued.span.span_id, queued.number) for queued in refused],
            )

    def set_unreadable_spans_aside(self) -> int:
        """Take spans whose content is damaged out of the queue; they stay in the journal. Return how many there are."""
        damaged = []
        # As bytes: SQLite does not give a text that is not UTF-8, and the rows after it neither.
        for number, text in self._db.execute(f"SELECT seq, CAST(span AS BLOB) FROM spans {self._waiting}"):
            try:
                decode(SpanFacts, (text or b"").decode())
            except (UnicodeDecodeError, DamagedTextError, CodecError):
                damaged.append((number,))
        with self._db:
            self._db.executemany("UPDATE spans SET set_aside = 1 WHERE seq = ?", damaged)
        return len(damaged)

    def requeue_spans(self) -> None:
        """Queue the spans again that were set aside."""
        with self._db:
            self._db.execute("UPDATE spans SET set_aside = 0 WHERE set_aside")

    def spans_queued(self) -> int:
        """Return the number of spans that wait for delivery."""
        return int(self._db.execute(f"SELECT count(*) FROM spans {self._waiting}").fetchone()[0])

    def newest_span(self) -> int:
        """Return the number of the newest undelivered span; 0 if there is none."""
        return int(self._db.execute("SELECT coalesce(max(seq), 0) FROM spans").fetchone()[0])

    def record_heartbeat(self, sample: ClockSample | None) -> None:
        """Write a clock sample, so that the next run can measure a pause; None removes it."""
        with self._db:
            if sample is None:
                self._db.execute("DELETE FROM heartbeat")
            else:
                self._db.execute("REPLACE INTO heartbeat VALUES (1, ?)", (encode(sample),))

    def last_heartbeat(self) -> ClockSample | None:
        """Return the last heartbeat."""
        row = self._db.execute("SELECT sample FROM heartbeat").fetchone()
        return decode(ClockSample, row[0]) if row else None

    def merge(self, other: "Store") -> None:
        """Add the entries that ``other`` kept while this store did not work, by the rules of ``journal.recovery``."""
        theirs = list(other.history())
        columns = ("seq", *TRANSITION_COLUMNS)
        rows: dict[str, list[Row]] = {}
        for values in other._db.execute(f"SELECT {', '.join(columns)} FROM transitions ORDER BY seq"):  # noqa: SLF001 - the same class
            row = dict(zip(columns, values, strict=True))
            rows.setdefault(row["event_id"], []).append(row)
        with self._db:
            mine = self._lives({*rows, *(life.event_id for life in theirs)})
            written: dict[str, set[Written]] = {event_id: set() for event_id in rows}
            select = (
                "SELECT event_id, transition, wall FROM transitions WHERE event_id IN (SELECT value FROM json_each(?))"
            )
            for event_id, transition, wall in self._db.execute(select, (json.dumps(list(rows)),)):
                written[event_id].add((transition, wall))
            memory = {life.event_id: life for life in theirs}
            added = [
                row
                for name, its in rows.items()
                for row in merged_rows(its, mine.get(name), memory.get(name), written[name])
            ]
            self._db.executemany(_INSERT_TRANSITION, sorted(added, key=itemgetter("seq")))
            lives = [merged_life(mine.get(life.event_id), life) for life in theirs]
            self._insert(Entry(lives=lives, spans=[queued.span for queued in reversed(other.all_spans())]))

    def _lives(self, event_ids: Iterable[str]) -> dict[str, Lifecycle]:
        select = "SELECT life FROM lives WHERE event_id = ?"
        rows = (self._db.execute(select, (event_id,)).fetchone() for event_id in event_ids)
        return {life.event_id: life for life in self._decoded(row for row in rows if row)}

    def is_empty(self) -> bool:
        """Return whether nothing has been written yet."""
        tables = ("transitions", "lives", "sums")
        return not any(self._db.execute(f"SELECT EXISTS (SELECT 1 FROM {table})").fetchone()[0] for table in tables)

    def begin_with(self, whole: Restored, entry: Entry, *, epoch: str = "", last_number: int = 0) -> None:
        """Replace a lost file: write the complete state ``whole``, then ``entry``, which ``whole`` does not include.

        Numbers continue after ``last_number`` in the same ``epoch``, so that ``events --follow`` misses and repeats
        nothing.
        """
        with self._db:
            if epoch:
                self._db.execute("REPLACE INTO properties VALUES ('epoch', ?)", (epoch,))
            self._db.execute("DELETE FROM sqlite_sequence WHERE name = 'transitions'")
            self._db.execute("INSERT INTO sqlite_sequence (name, seq) VALUES ('transitions', ?)", (last_number,))
            self._write_base(whole.statistics)
            self._insert(Entry(lives=[*whole.lifecycles.ended.values(), *whole.lifecycles.current.values()]))
            self._insert(entry)

    def _insert(self, entry: Entry) -> None:
        self._db.executemany(_INSERT_TRANSITION, map(_transition_row, entry.changes))
        self._db.executemany(
            "REPLACE INTO lives (event_id, first_seen, ended, life) VALUES (?, ?, ?, ?)",
            [
                (life.event_id, life.first_seen.wall, life.ended_at and life.ended_at.wall, encode(life))
                for life in entry.lives
            ],
        )
        self._db.executemany(
            "REPLACE INTO spans (span_id, seq, span) VALUES (?, (SELECT coalesce(max(seq), 0) + 1 FROM spans), ?)",
            [(span.span_id, encode(span)) for span in entry.spans],
        )

    def _measured(self, where: str = "", values: Sequence[float] = ()) -> Iterator[Measurement]:
        rows = self._db.execute(f"SELECT {', '.join(_MEASURED)} FROM transitions {where}", values)
        good: set[tuple[type, ...]] = set()
        for row in rows:
            types = tuple(map(type, row))
            if types not in good:  # few combinations, in hundreds of thousands of rows
                check_types(types, _MEASURED_TYPES, "transitions")
                good.add(types)
            yield Measurement(*row)

    def _base(self) -> Statistics:
        """Return the sums; in the caller's transaction, those that do not fit this version get another name."""
        row = self._db.execute("SELECT value FROM sums WHERE name = 'statistics'").fetchone()
        try:
            return decode_statistics(row[0]) if row else Statistics()
        except CodecError as error:
            self.left_out = str(error)
            name = "name || ' unreadable ' || lower(hex(randomblob(4)))"
            self._db.execute(f"UPDATE sums SET name = {name} WHERE name = 'statistics'")
            return Statistics()

    def _write_base(self, statistics: Statistics) -> None:
        self._db.execute("REPLACE INTO sums VALUES ('statistics', ?)", (encode_statistics(statistics),))

    def _set_property(self, name: str, value: str) -> None:
        with self._db:
            self._db.execute("REPLACE INTO properties VALUES (?, ?)", (name, value))

    def _property(self, name: str) -> str:
        row = self._db.execute("SELECT value FROM properties WHERE name = ?", (name,)).fetchone()
        return str(row[0]) if row else ""


def _transition_row(change: Change) -> dict[str, Any]:
    """The values of :data:`TRANSITION_COLUMNS` for one transition."""
    return {
        "event_id": change.lifecycle.event_id,
        "wall": change.at.wall,
        "record": encode_record(change_record(change)),
        **asdict(measure(change)),
    }
