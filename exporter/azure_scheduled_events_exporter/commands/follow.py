"""The command ``events --follow``: prints every transition as one JSON line, as soon as it is in the journal.

If an exporter is running, or a position is given, the command reads the journal, also over restarts of the exporter.
Otherwise it polls IMDS itself, in memory. It decides this once, and must never keep an exporter from starting.
"""

import json
import sqlite3
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path

from azure_scheduled_events_exporter import logs, standard_streams
from azure_scheduled_events_exporter.approval.policy import OFF
from azure_scheduled_events_exporter.config import Config
from azure_scheduled_events_exporter.core.document import Scope
from azure_scheduled_events_exporter.core.lifecycle import Lifecycle
from azure_scheduled_events_exporter.core.records import Record
from azure_scheduled_events_exporter.errors import CodecError, DamagedTextError, ExporterError, UsageError, one_line
from azure_scheduled_events_exporter.journal.file import MEMORY, file_path, identity, is_written, read_only
from azure_scheduled_events_exporter.journal.journal import Journal
from azure_scheduled_events_exporter.journal.store import PAGE, Store
from azure_scheduled_events_exporter.service import daemon
from azure_scheduled_events_exporter.service.endpoint import with_endpoint

_LOOK_SECONDS = 0.1
_CHECK_SECONDS = 1.0
"""Interval of the checks whether an exporter runs, and whether the open file is still the journal."""
_REMEMBERED = 1000
_LONGEST_NUMBER = 18  # digits: what SQLite's integers hold
_UNREADABLE = (ExporterError, sqlite3.Error, DamagedTextError, CodecError, OSError)


@dataclass(frozen=True, slots=True)
class Line:
    """One transition.

    Attributes:
        record: the JSON that is printed.
        seq: its number in the journal; None if no journal has it.
        epoch: the id of that journal.
    """

    record: Record
    seq: int | None = None
    epoch: str = ""

    def __str__(self) -> str:
        cursor = None if self.seq is None else f"{self.epoch}:{self.seq}" if self.epoch else str(self.seq)
        return json.dumps({"seq": self.seq, "cursor": cursor, **self.record})


@dataclass(slots=True)
class Position:
    """The position up to which a journal has been read.

    Attributes:
        seq: the last number.
        epoch: which journal that is; ``""`` means any.
        older_end: the last number of the open file when it was found to be an older copy of that journal, else None.
    """

    seq: int = 0
    epoch: str = ""
    older_end: int | None = None


_Current = Callable[[], Mapping[str, Lifecycle]]
"""Returns the current events by EventId, whose scope is the newest there is."""

_Look = tuple[Sequence[Line], _Current]
"""New transitions, and the current events."""


def run(config: Config, *, since: str | None, mine: bool) -> int:
    """Print until the process is to end; return the exit status.

    Lines have ``seq`` and ``cursor``, to continue after them with ``--since``. If the command polls itself, both are
    null, because no journal has these lines.

    Raises:
        ExporterError: the journal cannot be read.
    """
    position = None if since is None else _position(since)
    waiting: Sequence[Line] = ()
    for fresh, current in _looks(config, position):
        lines = fresh
        if mine:
            lines, waiting = _of_this_vm([*waiting, *fresh], current)
        for line in lines:
            if not _print(line):
                return 0
        if not standard_streams.has_reader():
            return 0
    return 0


def _print(line: Line) -> bool:
    """Print a line; return whether anybody reads on. A follower has no other end than that of its reader."""
    try:
        print(line, flush=True)
    except BrokenPipeError:
        standard_streams.discard(sys.stdout)
        return False
    return True


def _position(since: str) -> Position:
    epoch, _, seq = since.rpartition(":")
    if not (seq.isascii() and seq.isdecimal() and len(seq) <= _LONGEST_NUMBER):
        raise UsageError(
            f"--since: {one_line(since)!r} is not a position: use the 'cursor' or the 'seq' of the last line that you "
            "handled"
        )
    return Position(int(seq), epoch)


def _of_this_vm(lines: Sequence[Line], current: _Current) -> tuple[Sequence[Line], Sequence[Line]]:
    """Return the ``lines`` of this VM's events, and the lines that wait until the VM's name is known.

    A poll may come before this VM's name. What was journalled until then keeps the scope ``unknown``, and no transition
    reports the name: only the current events are brought up to date, and what is journalled later.
    """
    unknown = [line.record for line in lines if line.record["scope"] == Scope.UNKNOWN]
    scopes: dict[object, object] = {}
    if unknown:
        scopes |= {event_id: str(life.scope) for event_id, life in current().items()}
        # An event that ended before the name came stays nobody's, unless something of it was reported with the name.
        scopes |= {record["event_id"]: "" for record in unknown if record["outcome"] is not None}
        known = [line.record for line in lines if line.record["scope"] != Scope.UNKNOWN]
        scopes |= {record["event_id"]: record["scope"] for record in known}
    mine: list[Line] = []
    waiting: list[Line] = []
    for line in lines:
        record = line.record
        scope = record["scope"]
        if scope == Scope.UNKNOWN:
            scope = scopes.get(record["event_id"], scope)
        if scope == Scope.SELF:
            mine.append(replace(line, record={**record, "scope": scope, "mine": True}))
        elif record["mine"]:
            mine.append(line)
        elif scope == Scope.UNKNOWN:
            waiting.append(line)
    return mine, waiting[-_REMEMBERED:]


def _looks(config: Config, since: Position | None) -> Iterator[_Look]:
    """Yield the transitions after ``since``, or from now on, repeatedly."""
    path = None if config.journal_path == MEMORY else Path(config.journal_path)
    if path is None or (since is None and not is_written(path)):
        yield from _polled(config)
        return
    position = since or _end(path)
    while True:
        opened = _files(path)
        try:
            with closing(read_only(path)) as store:
                yield from _read(store, path, position, opened)
        except _UNREADABLE:
            time.sleep(_LOOK_SECONDS)  # the exporter creates it, or replaces what is damaged


def _end(path: Path) -> Position:
    """Return the end of the journal; its beginning if it cannot be read yet."""
    try:
        with closing(read_only(path)) as store:
            return Position(store.last_number(), store.epoch())
    except _UNREADABLE:
        return Position()


def _read(store: Store, path: Path, position: Position, opened: object) -> Iterator[_Look]:
    """Yield the transitions in ``store``, until its file is no longer the journal."""
    position.older_end = None
    check_at = 0.0
    is_journal = was_written = True
    while True:
        if time.monotonic() >= check_at:
            check_at = time.monotonic() + _CHECK_SECONDS
            is_journal = _files(path) == opened
            written = is_written(path)
            if was_written and not written:
                print("no exporter writes the journal: waiting for one", file=sys.stderr, flush=True)
            was_written = written
        rows = _behind(store, position)
        yield [Line(record, seq, position.epoch) for seq, record in rows], store.current
        if len(rows) == PAGE:
            continue
        if not is_journal:  # looked at before the rows were read, so that nothing is behind them
            return
        time.sleep(_LOOK_SECONDS)


def _behind(store: Store, position: Position) -> list[tuple[int, Record]]:
    """Return the next rows after ``position``, and advance it."""
    last = store.last_number()
    if last == 0:
        return []  # a new journal, whose epoch may still change: an exporter that goes on with an old one writes it
    epoch = store.epoch()
    if epoch == position.epoch and (position.older_end is not None or position.seq > last):
        # An older copy of this journal: the exporter replaces it, or goes on with it, and then what comes is new.
        if position.older_end is None or last <= position.older_end:
            position.older_end = last
            return []
        position.seq, position.older_end = position.older_end, None
    elif position.epoch != epoch and (position.epoch or position.seq > last):
        position.seq = 0  # another journal, with numbers of its own: better all of it than a gap
    position.epoch = epoch
    rows = store.transitions(position.seq, PAGE)
    position.seq = rows[-1][0] if rows else position.seq
    return rows


def _polled(config: Config) -> Iterator[_Look]:
    """Poll IMDS and yield the transitions, those of events that are there already first."""
    log = logs.set_up("warning", config.log_format)
    alone = replace(config, journal_path=MEMORY, approval_policy=OFF)
    journal = Journal(None, config.journal_retention, log)
    exporter = daemon.Exporter(with_endpoint(alone, log), log, journal=journal, reports=False)
    failed = threading.Event()
    exporter.failed = failed.set
    exporter.start()
    last = 0
    try:
        while not failed.wait(_LOOK_SECONDS):
            rows = journal.transitions(last)
            last = rows[-1][0] if rows else last
            yield [Line(record) for _, record in rows], lambda: exporter.poller.snapshot.current
        raise ExporterError("polling has ended by an internal error, which is logged above: start this command again")
    finally:
        exporter.stop()


def _files(path: Path) -> tuple[object, object]:
    """Return the identity of the journal and of its log, both of which somebody may remove or replace."""
    file = file_path(path)
    return identity(file), identity(f"{file}-wal")
