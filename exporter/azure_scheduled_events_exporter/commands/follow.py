"""The command ``events --follow``: prints every transition as one JSON line, as soon as it is in the journal.

If an exporter is running, or a position is given, the command reads the journal, also over restarts
of the exporter. Otherwise it polls IMDS itself, in memory. It decides this once, and must never
keep an exporter from starting.
"""

import json
import math
import re
import sqlite3
import sys
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

from azure_scheduled_events_exporter import logs, standard_streams
from azure_scheduled_events_exporter.config.settings import Config
from azure_scheduled_events_exporter.core.document import Scope
from azure_scheduled_events_exporter.core.records import Record
from azure_scheduled_events_exporter.errors import ExporterError, UsageError, one_line
from azure_scheduled_events_exporter.journal.file import MEMORY, is_written, read_only
from azure_scheduled_events_exporter.journal.store import PAGE, Store
from azure_scheduled_events_exporter.service import daemon

_LOOK_SECONDS = 0.1
_CHECK_SECONDS = 1.0  # how often to look whether an exporter runs
_OLDER_SECONDS = 5.0
"""For how long a journal that lacks what was printed is not believed: a running exporter replaces it within a poll."""
_POSITION = re.compile(
    "(?:([0-9a-f]*):)?([0-9]{1,18})"
)  # a journal's id, if known, and a number as SQLite has them
_UNREADABLE = (ExporterError, sqlite3.Error, OSError)


def run(config: Config, *, since: str | None, mine: bool) -> int:
    """Print until the process is to end; return the exit status.

    ``mine``: leave out the events of other VMs.

    Lines have ``seq`` and ``cursor``, to continue after them with ``--since``. If the command polls
    itself, both are null, because no journal has these lines.

    Raises:
        UsageError: ``since`` is not a position.
        ExporterError: polling has ended.
        DamagedTextError: a transition in the journal cannot be read.
    """
    try:
        for lines in _looks(config, since):
            for line in lines:
                if not mine or line["mine"] or line["scope"] == Scope.UNKNOWN:
                    print(json.dumps(line), flush=True)
            if not standard_streams.has_reader():
                break
    except BrokenPipeError:
        standard_streams.discard(sys.stdout)
    return 0  # a follower has no other end than that of its reader


def _looks(config: Config, since: str | None) -> Iterator[list[Record]]:
    """Yield the transitions after ``since``, or from now on, repeatedly."""
    position = _POSITION.fullmatch("0" if since is None else since)
    if position is None:
        raise UsageError(
            f"--since: {one_line(str(since))!r} is not a position: use the 'cursor' or the 'seq' of"
            " the last line that you handled"
        )
    path = Path(config.journal_path)
    if config.journal_path == MEMORY or (since is None and not is_written(path)):
        return _polled(config)
    return _journalled(path, None if since is None else int(position[2]), position[1] or "")


def _journalled(path: Path, seq: int | None, epoch: str) -> Iterator[list[Record]]:
    """Yield the transitions after number ``seq`` of the journal ``epoch`` (``""``: any), whatever becomes of its file.

    Without ``seq``, the transitions from now on. Opens the file for each look: somebody may remove
        or replace it.
    """
    was_written, check_at, older_until = True, 0.0, math.inf
    while True:
        if time.monotonic() >= check_at:
            check_at, written = time.monotonic() + _CHECK_SECONDS, is_written(path)
            if was_written and not written:
                print(
                    "no exporter writes the journal: waiting for one", file=sys.stderr, flush=True
                )
            was_written = written
        rows: list[tuple[int, Record]] = []
        with (
            suppress(*_UNREADABLE),
            closing(read_only(path)) as store,
        ):  # the exporter replaces what is damaged
            last, found = _position_in(store, seq, epoch)
            is_older = last < (seq or 0) and found == epoch
            older_until = (
                min(older_until, time.monotonic() + _OLDER_SECONDS) if is_older else math.inf
            )
            if not is_older or time.monotonic() >= older_until:
                rows = store.transitions(last, PAGE)
                seq, epoch = (rows[-1][0] if rows else last), found
        cursor = f"{epoch}:" if epoch else ""
        yield [{"seq": number, "cursor": f"{cursor}{number}", **record} for number, record in rows]
        if len(rows) < PAGE:
            time.sleep(_LOOK_SECONDS)


def _position_in(store: Store, seq: int | None, epoch: str) -> tuple[int, str]:
    """Return number and epoch after which ``store`` has what is new.

    Repeating a line is better than a gap.
    """
    found, last = store.position()
    if (
        last == 0
    ):  # a new journal, whose epoch may still change: an exporter that goes on with an old one writes it
        return seq or 0, epoch
    if seq is None:
        return last, found
    if found == epoch:
        return min(seq, last), epoch  # less than before in an older copy of this journal
    return (0 if epoch or seq > last else seq), found  # another journal has numbers of its own


def _polled(config: Config) -> Iterator[list[Record]]:
    """Poll IMDS and yield the transitions, those of events that are there already first."""
    log = logs.set_up("warning", config.log_format)
    last = 0
    for exporter in daemon.alone(config, log):
        rows = exporter.journal.transitions(last)
        last = rows[-1][0] if rows else last
        yield [{"seq": None, "cursor": None, **record} for _, record in rows]
