"""Writes to a journal as a poller does, reads its file, and damages its content."""

import contextlib
import logging
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

from azure_scheduled_events_exporter.core.document import Document, ScheduledEvent
from azure_scheduled_events_exporter.core.lifecycle import Lifecycle, Lifecycles
from azure_scheduled_events_exporter.core.observation import observe
from azure_scheduled_events_exporter.core.observation_context import ObservationContext
from azure_scheduled_events_exporter.core.records import Record
from azure_scheduled_events_exporter.core.spans import finished
from azure_scheduled_events_exporter.core.statistics import Statistics
from azure_scheduled_events_exporter.core.timestamp import Timestamp
from azure_scheduled_events_exporter.journal.access import read_only
from azure_scheduled_events_exporter.journal.content.remembered import Remembered
from azure_scheduled_events_exporter.journal.journal import Journal
from support.programs import eventually

DAY = 86400.0
START = 1_700_000_000.0
MANY = 256
"""More spans than a test of the journal queues."""
VM = "vmss_0"
LOG = logging.getLogger("tests.journal")
Open = Callable[[Path | None], "Recorder"]


@dataclass
class Recorder:
    """Does what a poller does with a journal: observes, records, and keeps the whole state."""

    journal: Journal
    now: Timestamp = field(default_factory=lambda: Timestamp(START, 1000.0, "boot"))
    known: Lifecycles = field(default_factory=Lifecycles)
    statistics: Statistics = field(default_factory=Statistics)

    def __post_init__(self) -> None:
        restored = eventually(self._restored, "the journal")
        assert restored
        self.take(restored)

    def _restored(self) -> Remembered | None:
        if self.journal.refusal is not None:
            raise self.journal.refusal
        return self.journal.adopt()

    def take(self, restored: Remembered) -> None:
        """Begin with what the journal remembers."""
        self.known = restored.lifecycles
        self.statistics = restored.statistics

    def after(self, seconds: float) -> "Recorder":
        """Let time pass."""
        self.now = Timestamp(
            self.now.wall + seconds, self.now.monotonic + seconds, self.now.boot_id
        )
        return self

    def sees(self, *event_ids: str) -> None:
        """Observe a document with these events, all Scheduled, and write the changes to the
        journal.
        """
        events = tuple(
            ScheduledEvent(event_id, "Freeze", "Scheduled", "Platform", (VM,), self.now.wall + 900)
            if event_id not in self.known.current
            else self.known.current[event_id].event
            for event_id in event_ids
        )
        self.known, changes = observe(
            self.known, Document(1, events), ObservationContext(self.now, VM)
        )
        self.statistics = self.statistics.plus(changes)
        spans = [span for change in changes for span in finished(change)]
        lives = [change.lifecycle for change in changes]
        self.journal.record(
            changes, lives, spans, statistics=self.statistics, lifecycles=self.known
        )

    @property
    def lives(self) -> tuple[Mapping[str, Lifecycle], Mapping[str, Lifecycle]]:
        """The current and the ended events, which a journal keeps."""
        return self.known.current, self.known.ended

    def regains_disk(self) -> None:
        """Wait until everything is on disk."""
        eventually(self.is_up, "the journal on disk")

    def is_up(self) -> bool:
        """Whether transitions are on disk now."""
        return bool(self.journal.state.up)

    @property
    def detected(self) -> int:
        """How many events have been counted."""
        return sum(
            count
            for (*_, transition), count in self.statistics.transitions.items()
            if transition == "detected"
        )


@contextlib.contextmanager
def recorders() -> Iterator[Open]:
    """Open journals, 90 days of retention, that are closed with the block; None keeps everything in
    memory.
    """
    with contextlib.ExitStack() as stack:

        def open_journal(path: Path | None) -> Recorder:
            journal = Journal(path, 90 * DAY, LOG)
            stack.callback(journal.close)
            return Recorder(journal)

        yield open_journal


def adopted(path: Path | None, log: logging.Logger = LOG) -> Journal:
    """Return a journal that has been read and goes on with what it has; the caller closes it."""
    journal = Journal(path, 90 * DAY, log)
    eventually(journal.adopt, "the journal")
    return journal


def history(path: Path) -> list[str]:
    """Return the EventIds that the journal at ``path`` holds, sorted."""
    store = read_only(path)
    with closing(store):
        return sorted(life.event_id for life in store.history())


def transitions(path: Path) -> list[tuple[int, Record]]:
    """Return the transitions that the journal at ``path`` holds, with their numbers."""
    everything = -1
    with closing(read_only(path)) as store:
        return store.transitions(0, everything)


def set_aside(folder: Path) -> list[str]:
    """Return the names of the files that were set aside in ``folder``."""
    return [path.name for path in folder.glob("*set-aside*")]


def bit_rot(path: Path) -> None:
    """A sound database whose content no longer makes sense."""
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("UPDATE lives SET life = substr(life, 7)")
        connection.commit()
