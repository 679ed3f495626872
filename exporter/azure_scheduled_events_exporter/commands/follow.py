"""The command ``events --follow``: prints every transition as one JSON line, at once.

If an exporter is running, or a position is given, the command reads the journal, and goes on when
the exporter is restarted. Otherwise it polls IMDS itself, with a journal in memory. It decides this
once. It must never keep an exporter from starting.
"""

import json
import re
import sqlite3
import sys
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path

from azure_scheduled_events_exporter import logs, standard_streams
from azure_scheduled_events_exporter.config.settings import Config
from azure_scheduled_events_exporter.core.document import Scope
from azure_scheduled_events_exporter.core.records import Record
from azure_scheduled_events_exporter.errors import ExporterError, UsageError, one_line
from azure_scheduled_events_exporter.journal.access import read_only
from azure_scheduled_events_exporter.journal.disk.location import MEMORY
from azure_scheduled_events_exporter.journal.disk.lock import has_writer
from azure_scheduled_events_exporter.journal.tables.store import PAGE, Store
from azure_scheduled_events_exporter.service.alone import poll_alone

_LOOK_SECONDS = 0.1
"""Time between two looks for new transitions in the journal."""

_CHECK_SECONDS = 1.0
"""Time between two looks whether an exporter writes the journal."""

_OLDER_SECONDS = 5.0
"""How long a journal is not read that lacks transitions which were printed already.

It may be an older copy that somebody has put in the place of the file. A running exporter replaces
such a copy within a poll. A copy that is still there after this time is read.
"""

_CURSOR = re.compile(
    r"(?:(?P<epoch>[0-9a-f]*):)?(?P<seq>[0-9]{1,18})(?:@(?P<at>[0-9]{1,12}(?:\.[0-9]{1,9})?))?"
)
"""A cursor, such as 1f3a:17@1667203200.123456, or the ``seq`` of a line alone.

It has the journal's id, the transition's number, which has as many digits as in SQLite, and the
transition's time. The id and the time may be missing.
"""

_UNREADABLE = (ExporterError, sqlite3.Error, OSError)
"""What a journal raises that cannot be read now.

A DamagedTextError is none of these: it ends the command, because a line would be missing.
"""


@dataclass(frozen=True, slots=True)
class _Place:
    """A place in a journal: directly after a transition.

    Attributes:
        seq: the number of the transition; 0 at the beginning.
        epoch: the id of the journal; ``""`` if it is not known.
        at: the time of the transition, Unix seconds; None if it is not known. Where
            :func:`_place_in` has lowered ``seq``, it is still the time of the former number.
    """

    seq: int
    epoch: str = ""
    at: float | None = None

    @property
    def cursor(self) -> str:
        """The place as a text for ``--since``."""
        epoch = f"{self.epoch}:" if self.epoch else ""
        at = "" if self.at is None else f"@{self.at:.6f}"
        return f"{epoch}{self.seq}{at}"


def run(config: Config, *, since: str | None, mine: bool) -> int:
    """Print until the process is to end, or until nobody reads the output; return the exit status.

    Lines have ``seq`` and ``cursor``, to continue after them with ``--since``. If the command polls
    itself, both are null, because no journal has these lines.

    Args:
        config: the settings.
        since: the text of ``--since``; None to begin with what happens from now on.
        mine: leave out the events of other VMs.

    Raises:
        UsageError: ``since`` is not a position.
        ExporterError: polling has ended.
        DamagedTextError: a transition in the journal cannot be read.
    """
    try:
        for lines in _looks(config, since):
            for line in lines:
                # An event that may be one of this VM is not left out.
                may_be_mine = line["mine"] or line["scope"] == Scope.UNKNOWN
                if may_be_mine or not mine:
                    print(json.dumps(line), flush=True)
            if not standard_streams.has_reader():
                break
    except BrokenPipeError:
        standard_streams.discard(sys.stdout)
    return 0  # a follower has no other end than that of its reader


def _looks(config: Config, since: str | None) -> Iterator[list[Record]]:
    """Return an iterator that looks for new lines again and again, and yields those of each look.

    They are the lines after ``since``, or else those from now on. Whether the iterator reads the
    journal or polls IMDS is decided here, once.

    Raises:
        UsageError: ``since`` is not a position.
    """
    place = None if since is None else _given_place(since)
    path = Path(config.journal_path)
    if config.journal_path == MEMORY or (place is None and not has_writer(path)):
        return _polled(config)
    return _journalled(path, place)


def _given_place(since: str) -> _Place:
    """Return the place that ``--since`` names. Raises UsageError: it is none."""
    given = _CURSOR.fullmatch(since)
    if given is None:
        raise UsageError(
            f"--since: {one_line(since)!r} is not a position: use the 'cursor' or the 'seq' of the"
            " last line that you handled"
        )
    at = None if given["at"] is None else float(given["at"])
    return _Place(int(given["seq"]), given["epoch"] or "", at)


def _journalled(path: Path, place: _Place | None) -> Iterator[list[Record]]:
    """Yield the transitions after ``place``, whatever becomes of the journal's file.

    Without a place, the transitions from now on. Opens the file for each look: somebody may remove
    or replace it.
    """
    had_writer_before = True  # so that the first look says if there is none
    check_at = 0.0
    older_since: float | None = None  # since when the journal lacks what was printed
    while True:
        now = time.monotonic()
        if now >= check_at:
            check_at = now + _CHECK_SECONDS
            has_writer_now = has_writer(path)
            if had_writer_before and not has_writer_now:
                _say("no exporter writes the journal: waiting for one")
            had_writer_before = has_writer_now
        lines: list[Record] = []
        # What cannot be read now is tried again: the exporter replaces a damaged journal.
        with suppress(*_UNREADABLE), closing(read_only(path)) as store:
            if place is None:
                place = _newest_in(store)
                _say(f"following the journal from {place.cursor} on")
            if not _is_older(store, place):
                older_since = None
            elif older_since is None:
                older_since = now
            if older_since is None or now >= older_since + _OLDER_SECONDS:
                lines, place = _lines_after(place, store)
        yield lines
        if len(lines) < PAGE:
            time.sleep(_LOOK_SECONDS)


def _lines_after(place: _Place, store: Store) -> tuple[list[Record], _Place]:
    """Return the lines after ``place``, a page at most, and the place after them."""
    place = _place_in(store, place)
    lines: list[Record] = []
    for number, record in store.transitions(place.seq, PAGE):
        place = _Place(number, place.epoch, store.time_of(number))
        lines.append({"seq": number, "cursor": place.cursor, **record})
    return lines, place


def _newest_in(store: Store) -> _Place:
    """Return the place of the last transition."""
    found = store.position()
    return _Place(found.last_number, found.epoch, store.time_of(found.last_number))


def _is_older(store: Store, place: _Place) -> bool:
    """Return whether ``store`` is of the journal of ``place``, and does not reach up to it."""
    found = store.position()
    return found.last_number < place.seq and found.epoch == place.epoch


def _place_in(store: Store, place: _Place) -> _Place:
    """Return the place in ``store`` after which it has what was not printed yet.

    ``place`` is the place after what was printed, in the journal from which that came. ``store``
    may be another journal by now, or an older copy of the same. If it is not certain what is new in
    it, a repeated line is better than a gap.

    The result keeps the time of ``place``, also with a lower number: that of the last transition
    that was printed. If an exporter goes on with an older copy, it gives the numbers that the copy
    lacks to other transitions. Later looks then find the place by its time.
    """
    found = store.position()
    if found.last_number == 0:
        # A new journal, whose epoch may still change: an exporter whose file was removed writes all
        # that it knows into a new one, and with it the old epoch.
        return place
    if found.epoch != place.epoch:
        # Another journal has numbers of its own, so all of it is new. A number without an epoch,
        # the ``seq`` of a line, is taken for one of this journal if this has so many.
        if not place.epoch and place.seq <= found.last_number:
            return _Place(place.seq, found.epoch)
        return _Place(0, found.epoch)
    time_there = store.time_of(place.seq)
    is_there = time_there is not None
    if is_there and place.at is not None and time_there != place.at:
        # An older copy of the journal was put back, and an exporter went on with it: the number is
        # that of another transition by now.
        return _Place(store.last_until(place.at), found.epoch, place.at)
    # An older copy may also have fewer transitions than were printed. Then all of it was printed.
    return _Place(min(place.seq, found.last_number), found.epoch, place.at)


def _say(text: str) -> None:
    """Print a line for people, apart from the lines of JSON."""
    print(text, file=sys.stderr, flush=True)


def _polled(config: Config) -> Iterator[list[Record]]:
    """Poll IMDS and yield the transitions, those of events that are there already first."""
    log = logs.set_up("warning", config.log_format)
    last = 0
    for exporter in poll_alone(config, log):
        rows = exporter.journal.transitions(last)
        if rows:
            last, _ = rows[-1]
        yield [{"seq": None, "cursor": None, **record} for _, record in rows]
