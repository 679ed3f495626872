"""The command ``events --follow``: every transition as one JSON line, the moment it is journalled.

Beside a running exporter it reads that one's journal. Without one it polls by itself, in memory, and goes over to the
journal as soon as an exporter runs: a follower must never keep the exporter from starting.
"""

import itertools
import json
import sqlite3
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from azure_scheduled_events_exporter import logs
from azure_scheduled_events_exporter.approval.policy import OFF
from azure_scheduled_events_exporter.config import Config
from azure_scheduled_events_exporter.core.document import Scope
from azure_scheduled_events_exporter.core.lifecycle import Lifecycle, Transition
from azure_scheduled_events_exporter.core.records import Record
from azure_scheduled_events_exporter.errors import ExporterError, UsageError
from azure_scheduled_events_exporter.journal.files import MEMORY, is_written, read_only
from azure_scheduled_events_exporter.service import daemon

_LOOK_SECONDS = 0.1
_LOOK_FOR_EXPORTER_SECONDS = 1.0
_LOOKS_PER_CHECK = 10  # once a second
_REMEMBERED = 1000

_Line = tuple[int | None, Record]
_Current = Callable[[], Mapping[str, Lifecycle]]
"""Looks up the current lives by EventId, whose scope is the newest there is."""


def run(config: Config, *, since: str | None, mine: bool) -> int:
    """Print until told to end; return the exit status.

    Lines carry ``seq``, to resume behind with ``--since``; those of a follower that polls by itself carry none, since
    no journal has them.

    Raises:
        ExporterError: the journal cannot be read.
    """
    if since is not None and not since.isdecimal():
        raise UsageError(f"--since: {since!r} is no number: take the 'seq' of the last line that was handled")
    path = None if config.journal_path == MEMORY else Path(config.journal_path)
    told: dict[tuple[object, ...], None] = {}
    waiting: Sequence[_Line] = ()
    for news, current in _looks(config, path, None if since is None else int(since)):
        lines = news
        if mine:
            lines, waiting = _of_this_vm([*waiting, *news], current)
        for seq, record in lines:
            if _is_news(seq, record, told):
                print(json.dumps({"seq": seq, **record}), flush=True)
    return 0


def _of_this_vm(lines: Sequence[_Line], current: _Current) -> tuple[Sequence[_Line], Sequence[_Line]]:
    """Return those ``lines`` that are of this VM's events, and those that wait until that is known.

    A poll may come before this VM's name. What was journalled until then says so for ever, and no transition tells of
    the name: only the lives are brought up to date, and what is journalled later.
    """
    unknown = [record for _, record in lines if record["scope"] == Scope.UNKNOWN]
    scopes: dict[object, object] = {}
    if unknown:
        scopes |= {event_id: str(life.scope) for event_id, life in current().items()}
        # An event that ended before the name came stays nobody's, unless something of it was told with the name.
        scopes |= {record["event_id"]: "" for record in unknown if record["outcome"] is not None}
        scopes |= {record["event_id"]: record["scope"] for _, record in lines if record["scope"] != Scope.UNKNOWN}
    mine: list[_Line] = []
    waiting: list[_Line] = []
    for seq, record in lines:
        scope = record["scope"]
        if scope == Scope.UNKNOWN:
            scope = scopes.get(record["event_id"], scope)
        if scope == Scope.SELF:
            mine.append((seq, {**record, "scope": scope}))
        elif scope == Scope.UNKNOWN:
            waiting.append((seq, record))
    return mine, waiting[-_REMEMBERED:]


def _is_news(seq: int | None, record: Record, told: dict[tuple[object, ...], None]) -> bool:
    """Whether this follower has not told it yet: what it saw by itself (no ``seq``), an exporter's journal tells again.

    And the other way round when the exporter ends: its journal's lines are remembered as well, but for changes of
    NotBefore, which come again and again.
    """
    transition = record["transition"]
    key: tuple[object, ...] = (record["event_id"], transition)
    if transition == Transition.RESCHEDULED:
        key = (*key, record["not_before"])
    elif record["outcome"] is not None:  # one may have seen how it ended, the other only that it did
        key = (record["event_id"], "ended")
    if key in told:
        if seq is not None and transition == Transition.RESCHEDULED:
            del told[key]
        return False
    if seq is None or transition != Transition.RESCHEDULED:
        told[key] = None
    if len(told) > _REMEMBERED:
        del told[next(iter(told))]
    return True


def _looks(config: Config, path: Path | None, since: int | None) -> Iterator[tuple[Sequence[_Line], _Current]]:
    """Look again and again for transitions behind number ``since``, or from now on; in the journal if there is one."""
    last = since if since is not None else _last_journalled(path)
    while True:
        if path is not None and (is_written(path) or since is not None):
            since = None
            for news, current in _journalled(path, last):
                last = news[-1][0] if news else last
                yield news, current
        else:
            yield from _polled(config, path)


def _last_journalled(path: Path | None) -> int:
    try:
        return read_only(path).last_told() if path is not None else 0
    except (ExporterError, sqlite3.Error):
        return 0  # no exporter has run yet


def _journalled(path: Path, last: int) -> Iterator[tuple[Sequence[tuple[int, Record]], _Current]]:
    """What the journal holds behind number ``last``, and what a running exporter adds until it ends."""
    try:
        store = read_only(path)
    except ExporterError:
        time.sleep(_LOOK_SECONDS)
        return  # it is just being made
    if last > store.last_told():
        last = 0  # a fresh one, that counts from the beginning: better all of it than a gap
    for turn in itertools.count():
        news = store.told(last)
        last = news[-1][0] if news else last
        yield news, store.current
        if turn % _LOOKS_PER_CHECK == 0 and not is_written(path):
            return
        time.sleep(_LOOK_SECONDS)


def _polled(config: Config, path: Path | None) -> Iterator[tuple[Sequence[tuple[None, Record]], _Current]]:
    """What this process sees by itself, until an exporter runs."""
    log = logs.set_up("warning", config.log_format)
    alone = replace(config, journal_path=MEMORY, approval_policy=OFF, otlp_endpoint=None)
    exporter = daemon.Exporter(daemon.found(alone, log), log)
    exporter.start()
    last = 0
    looked = time.monotonic()
    try:
        while True:
            news = exporter.journal.told(last)
            last = news[-1][0] if news else last
            yield [(None, record) for _, record in news], lambda: exporter.poller.snapshot.current
            if path is not None and time.monotonic() - looked >= _LOOK_FOR_EXPORTER_SECONDS:
                looked = time.monotonic()
                if is_written(path):
                    return
            time.sleep(_LOOK_SECONDS)
    finally:
        exporter.stop()
