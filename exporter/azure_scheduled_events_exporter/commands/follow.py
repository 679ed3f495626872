"""The command ``events --follow``: prints every transition as one JSON line, as soon as it is in the journal.

If an exporter is running, the command reads its journal. Otherwise it polls IMDS itself, in memory, starting from the
state in the journal, and returns to the journal as soon as an exporter runs. When an exporter leaves its journal, the
command waits some seconds before it polls: an exporter that restarts, or whose disk was away for a moment, writes there
what it saw, and lines that the command had printed before would be out of order. It must never keep an exporter from
starting.
"""

import json
import sqlite3
import sys
import threading
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from azure_scheduled_events_exporter import logs, standard_streams
from azure_scheduled_events_exporter.approval.policy import OFF
from azure_scheduled_events_exporter.config import Config
from azure_scheduled_events_exporter.core.document import Scope
from azure_scheduled_events_exporter.core.lifecycle import Lifecycle, Lifecycles, Transition
from azure_scheduled_events_exporter.core.records import Record
from azure_scheduled_events_exporter.errors import CodecError, DamagedTextError, ExporterError, UsageError, one_line
from azure_scheduled_events_exporter.journal.file import MEMORY, file_path, identity, is_written, read_only
from azure_scheduled_events_exporter.journal.journal import Journal
from azure_scheduled_events_exporter.journal.store import PAGE, Restored, Store
from azure_scheduled_events_exporter.service import daemon
from azure_scheduled_events_exporter.service.endpoint import with_endpoint

_LOOK_SECONDS = 0.1
_CHECK_SECONDS = 1.0
"""Interval of the checks whether an exporter runs, and whether the open file is still the journal."""
_RETURN_SECONDS = 7.0
"""How long an exporter is waited for that has left its journal, before the command polls IMDS itself."""
_REMEMBERED = 1000
_LONGEST_NUMBER = 18  # digits: what SQLite's integers hold
_UNREADABLE = (ExporterError, sqlite3.Error, DamagedTextError, OSError)


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
        older: where the open file ended when it was found to be an older copy of that journal; None if it is none.
    """

    seq: int = 0
    epoch: str = ""
    older: int | None = None


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
    path = None if config.journal_path == MEMORY else Path(config.journal_path)
    printed = Printed()
    waiting: Sequence[Line] = ()
    for fresh, current in _looks(config, path, position):
        lines = fresh
        if mine:
            lines, waiting = _of_this_vm([*waiting, *fresh], current)
        for line in lines:
            if printed.is_new(line.record) and not _print(line):
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
        elif record.get("mine"):  # absent in what older versions wrote
            mine.append(line)
        elif scope == Scope.UNKNOWN:
            waiting.append(line)
    return mine, waiting[-_REMEMBERED:]


@dataclass(slots=True)
class _Printed:
    """The printed state of one event."""

    transitions: set[object] = field(default_factory=set)
    not_before: object = None
    over_at: str = ""


class Printed:
    """The printed events, to recognize transitions that an exporter's journal repeats.

    If this command polls itself, it prints a transition before an exporter that starts later journals the same one.
    That one is printed only if it changes the printed state of the event.
    """

    def __init__(self) -> None:
        self._events: dict[object, _Printed] = {}

    def is_new(self, record: Record) -> bool:
        """Return whether ``record`` is to be printed, and remember it."""
        event = self._events.pop(record["event_id"], None) or _Printed()
        self._events[record["event_id"]] = event
        self._forget_the_oldest()
        transition, at = record["transition"], str(record["at"])
        if transition == record["outcome"]:  # one may have seen how it ended, the other only that it did
            is_new = not event.over_at
            event.over_at = event.over_at or at
            return is_new
        if transition == Transition.DETECTED and event.over_at and at > event.over_at:
            event.transitions.clear()  # by an exporter that has forgotten the event
        if transition == Transition.RESCHEDULED:
            is_new = event.not_before != record["not_before"]
        elif transition == "returned":
            is_new = bool(event.over_at) or not event.transitions
        else:
            is_new = transition not in event.transitions
        if is_new:
            event.over_at = ""
        event.transitions.add(transition)
        event.not_before = record["not_before"]
        return is_new

    def _forget_the_oldest(self) -> None:
        if len(self._events) > _REMEMBERED:
            oldest = next((name for name, event in self._events.items() if event.over_at), next(iter(self._events)))
            del self._events[oldest]


def _looks(config: Config, path: Path | None, since: Position | None) -> Iterator[_Look]:
    """Yield the transitions after ``since``, or from now on, repeatedly; from the journal if an exporter runs."""
    # Asked before the journal is read: an exporter that ends in between is waited for, too.
    wait_until = time.monotonic() + _RETURN_SECONDS if path is not None and is_written(path) else 0.0
    newest, known = _newest(path)
    position = since or newest
    first = since is not None
    while True:
        if path is not None and (first or is_written(path)):
            first = False
            known = (yield from _journalled(path, position)) or known
            wait_until = time.monotonic() + _RETURN_SECONDS
        elif path is not None and time.monotonic() < wait_until:
            time.sleep(_LOOK_SECONDS)
        else:
            known = yield from _polled(config, path, _newest(path)[1] or known)


def _newest(path: Path | None) -> tuple[Position, Restored | None]:
    """Return the end of the journal and its current events; both are empty if no exporter has run yet."""
    if path is None:
        return Position(), None
    try:
        store = read_only(path)
    except _UNREADABLE:
        return Position(), None
    try:
        return Position(store.last_number(), store.epoch()), _known_by(store)
    except (sqlite3.Error, DamagedTextError, CodecError):
        return Position(), None
    finally:
        store.close()


def _journalled(path: Path, position: Position) -> Generator[_Look, None, Restored | None]:
    """Yield the transitions in the journal after ``position``, and new ones until the exporter ends.

    Returns the journal's events when it was last read, because its file may be gone afterwards.
    """
    known: Restored | None = None
    while True:
        opened = _files(path)
        try:
            store = read_only(path)
        except _UNREADABLE:
            time.sleep(_LOOK_SECONDS)
            return known  # it is just being created
        try:
            yield from _read(store, path, position, opened)
            known = _known_by(store)
        except (sqlite3.Error, DamagedTextError, CodecError, OSError):
            time.sleep(_LOOK_SECONDS)  # the exporter replaces what is damaged
        finally:
            store.close()
        if not is_written(path):
            return known


def _read(store: Store, path: Path, position: Position, opened: object) -> Iterator[_Look]:
    """Yield the transitions in ``store``, until no exporter writes it or its file is no longer the journal."""
    checked = 0.0
    written = True
    position.older = None
    while True:
        if time.monotonic() - checked >= _CHECK_SECONDS:
            checked = time.monotonic()
            written = is_written(path) and _files(path) == opened
        rows = _behind(store, position)
        yield [Line(record, seq, position.epoch) for seq, record in rows], store.current
        if len(rows) == PAGE:
            continue
        if not written:  # looked at before the rows were read, so that nothing is behind them
            return
        time.sleep(_LOOK_SECONDS)


def _behind(store: Store, position: Position) -> list[tuple[int, Record]]:
    """Return the next rows after ``position``, and advance it."""
    last = store.last_number()
    if last == 0:
        return []  # a new journal, whose epoch may still change: an exporter that goes on with an old one writes it
    epoch = store.epoch()
    if epoch == position.epoch and (position.older is not None or position.seq > last):
        # An older copy of this journal: the exporter replaces it, or goes on with it, and then what comes is new.
        if position.older is None or last <= position.older:
            position.older = last
            return []
        position.seq, position.older = position.older, None
    elif position.epoch != epoch and (position.epoch or position.seq > last):
        position.seq = 0  # another journal, with numbers of its own: better all of it than a gap
    position.epoch = epoch
    rows = store.transitions(position.seq, PAGE)
    position.seq = rows[-1][0] if rows else position.seq
    return rows


def _polled(config: Config, path: Path | None, known: Restored | None) -> Generator[_Look, None, Restored]:
    """Poll and yield transitions that are new after ``known``, until an exporter runs; return the known events."""
    log = logs.set_up("warning", config.log_format)
    alone = replace(config, journal_path=MEMORY, approval_policy=OFF)
    journal = Journal(None, config.journal_retention, log, known)
    exporter = daemon.Exporter(with_endpoint(alone, log), log, journal=journal, reports=False)
    failed = threading.Event()
    exporter.failed = failed.set
    exporter.start()
    last = 0
    looked = time.monotonic()
    try:
        while not failed.is_set():
            rows = journal.transitions(last)
            last = rows[-1][0] if rows else last
            yield [Line(record) for _, record in rows], lambda: exporter.poller.snapshot.current
            if path is not None and time.monotonic() - looked >= _CHECK_SECONDS:
                looked = time.monotonic()
                if is_written(path):
                    return journal.restore()
            time.sleep(_LOOK_SECONDS)
        raise ExporterError("polling has ended by an internal error, which is logged above: start this command again")
    finally:
        exporter.stop()


def _files(path: Path) -> tuple[object, object]:
    """Return the identity of the journal and of its log, both of which somebody may remove or replace."""
    file = file_path(path)
    return identity(file), identity(f"{file}-wal")


def _known_by(store: Store) -> Restored:
    """Return the events in ``store``."""
    return Restored(Lifecycles(store.current(), {life.event_id: life for life in store.ended_lives()}))
