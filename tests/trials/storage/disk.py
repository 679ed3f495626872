"""The journal's disk fails during an event: full, read-only, damaged, another program's, locked."""

import fcntl
import os
import random
import sqlite3
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from email.utils import formatdate
from pathlib import Path
from typing import BinaryIO, Protocol

from azure_scheduled_events_exporter.simulator import Simulator
from support.programs import Exporter, Scrape
from trials.storage.image import Image, can_mount
from trials.trial import FAILURES, POLL, QUIET, Crew, Order, Row, Watch, lives, polls_on
from trials.truth import check_file, check_rows, transitions_in

IN_MEMORY = "journal cannot be written: entries wait in memory until it can be"
SET_ASIDE = "journal cannot be used: set aside, and a new one begun"
_WRITE_LOCK = 120  # the byte of SQLite's wal-index that a writer locks
STEPS: Sequence[Mapping[str, str]] = (
    {"A": "Scheduled"},
    {"A": "Started", "B": "Scheduled"},
    {"B": "Started"},
    {"B": "Started", "C": "Scheduled"},
    {"C": "Scheduled"},
    {"C": "Started", "D": "Scheduled"},
    {},
    {"D": "Scheduled"},
    {},
)
"""What the document shows, one after another: D is called off, returns, and is called off again.

All events that start do so before NotBefore, so somebody has approved them.
"""

NAMES = sorted({name for document in STEPS for name in document})


class Trouble(Protocol):
    """What befalls the journal."""

    def begins(self) -> None:
        """Let it begin."""

    def ends(self) -> None:
        """Let it end, as far as it does not end by itself."""


@contextmanager
def unused(journal: Path) -> Iterator[BinaryIO]:
    """Keep the exporter from writing for a moment, so that its file is not damaged in mid write;
    give its index.

    By the lock alone: a connection of our own would remove the fresh journal's log when it closes.
    """
    with Path(f"{journal}-shm").open("r+b", buffering=0) as index:
        fcntl.lockf(index, fcntl.LOCK_EX, 1, _WRITE_LOCK)
        yield index


class Full:
    """The disk has no room left."""

    def __init__(self, image: Image, _: Path) -> None:
        self.begins: Callable[[], None] = image.fill
        self.ends: Callable[[], None] = image.empty


class ReadOnly:
    """The kernel met an error and made the file system read-only; it is mounted anew."""

    def __init__(self, image: Image, _: Path) -> None:
        self._image = image
        self.begins: Callable[[], None] = image.fails

    def ends(self) -> None:
        """Mount it anew."""
        self._image.unmount()
        self._image.mount()


class Corrupt:
    """The journal's files contain other bytes than were written."""

    def __init__(self, _: Image, journal: Path) -> None:
        self._journal = journal

    def begins(self) -> None:
        """Damage all of its files, in place."""
        with unused(self._journal) as index:
            for path in (Path(f"{self._journal}-wal"), self._journal):
                with path.open("r+b") as file:
                    file.write(random.randbytes(path.stat().st_size))
            index.write(random.randbytes(os.fstat(index.fileno()).st_size))

    def ends(self) -> None:
        """A fresh journal is the end of it."""


class Foreign:
    """Another program has put its own database there."""

    def __init__(self, _: Image, journal: Path) -> None:
        self._journal = journal

    def begins(self) -> None:
        """Write another database over it, in place."""
        other = self._journal.with_name("other.sqlite")
        with closing(sqlite3.connect(other)) as connection, connection:
            connection.execute("CREATE TABLE photographs (taken REAL, place TEXT)")
        with unused(self._journal) as index:
            os.truncate(f"{self._journal}-wal", 0)
            with self._journal.open("r+b") as file:
                file.truncate(file.write(other.read_bytes()))
            index.write(bytes(os.fstat(index.fileno()).st_size))
        other.unlink()

    def ends(self) -> None:
        """A fresh journal is the end of it."""


class Locked:
    """Another process has opened the journal and holds its lock, as a backup does."""

    def __init__(self, _: Image, journal: Path) -> None:
        self._journal = journal
        self._holder: sqlite3.Connection | None = None

    def begins(self) -> None:
        """Take the lock."""
        self._holder = sqlite3.connect(
            self._journal, isolation_level=None, timeout=30, check_same_thread=False
        )
        self._holder.execute("BEGIN IMMEDIATE")

    def ends(self) -> None:
        """Leave it."""
        assert self._holder
        self._holder.close()


TROUBLES: Mapping[str, tuple[Callable[[Image, Path], Trouble], str]] = {
    "full": (Full, IN_MEMORY),
    "read-only": (ReadOnly, IN_MEMORY),
    "corrupt": (Corrupt, SET_ASIDE),
    "foreign": (Foreign, SET_ASIDE),
    "locked": (Locked, IN_MEMORY),
}


@dataclass
class Count:
    """How many transitions and answered scrapes there were, and how many of the transitions came
    while the disk was in trouble.
    """

    transitions: int = 0
    scrapes: int = 0
    in_trouble: int = 0

    def add(self, other: "Count") -> None:
        """Add what another round led to."""
        self.transitions += other.transitions
        self.scrapes += other.scrapes
        self.in_trouble += other.in_trouble


@dataclass
class Round:
    """One exporter and the events of :data:`STEPS`; some of the steps meet one disk fault."""

    simulator: Simulator
    exporter: Exporter
    names: Mapping[str, str]
    not_before: float = field(default_factory=lambda: time.time() + 3600)
    shown: Mapping[str, str] = field(default_factory=dict)
    expected: Counter[str] = field(default_factory=Counter)
    over: set[str] = field(default_factory=set)

    def steps(self, document: Mapping[str, str]) -> None:
        """Show ``document``, and wait until the exporter has counted each transition to it, and no
        other.
        """
        for name, status in document.items():
            if name not in self.shown:
                self.expected["returned" if self.names[name] in self.over else "detected"] += 1
            self.expected.update(
                ["approved", "started"] * (self.shown.get(name) != status == "Started")
            )
        for name, status in self.shown.items():
            if name not in document:
                self.expected["completed" if status == "Started" else "cancelled"] += 1
                self.over.add(self.names[name])
        self.shown = document
        self.shows(document)
        wanted = {transition: count for transition, count in self.expected.items() if count}

        def told_all(now: Scrape) -> bool:
            have = now.transitions()
            assert Counter(have) <= Counter(wanted), f"{have} counted, {wanted} happened"
            return have == wanted

        self.exporter.shows(f"{wanted}", told_all)

    def shows(self, document: Mapping[str, str]) -> None:
        """Let IMDS show ``document`` from now on."""
        self.simulator.set_document(
            [self._event(name, status) for name, status in document.items()]
        )

    def _event(self, name: str, status: str) -> dict[str, object]:
        return {
            "EventId": self.names[name],
            "EventStatus": status,
            "EventType": "Reboot",
            "ResourceType": "VirtualMachine",
            "Resources": ["vmss_0"],
            "NotBefore": formatdate(self.not_before, usegmt=True) if status == "Scheduled" else "",
            "Description": "",
            "EventSource": "Platform",
            "DurationInSeconds": -1,
        }


def suffers(kind: str, order: Order, chance: random.Random, number: int) -> Count:
    """Go through one round with the trouble ``kind``; return what it led to."""
    make, line = TROUBLES[kind]
    folder = order.folder / f"{kind}-{number}"
    with ExitStack() as stack:
        image = stack.enter_context(Image(folder, journal=True))
        simulator = stack.enter_context(Simulator(QUIET))
        crew = stack.enter_context(Crew(folder / "logs"))
        journal = image.place / "state" / "journal.sqlite"
        flags = (*POLL, "--instance.name", "vmss_0", "--journal.path", str(journal))
        exporter = crew.start(simulator.url, *flags)
        exporter.shows("a poll", lambda now: now.value("up") == 1)
        assert exporter.scrape().value("journal_up") == 1
        names = {name: f"{kind}-{number}-{name}".upper() for name in NAMES}
        around = Round(simulator, exporter, names)
        with Watch(exporter) as watch:
            in_trouble = _steps_with(make(image, journal), line, around, chance)
            exporter.shows("the journal on disk", lambda now: now.value("journal_up") == 1)
            _told_of_trouble(exporter, line, over=True)
        lives(exporter)
        exporter.kill()
        again = crew.start(simulator.url, *flags).scrape()
        assert Counter(again.transitions()) == around.expected, "after a restart"
        assert again.value("journal_up") == 1
        assert not again.series("event_info")
        crew.__exit__(None)  # the exporter must not write while its file is checked
        check_file(journal, set_aside=line == SET_ASIDE)
        rows = transitions_in(journal)
        if line != SET_ASIDE:  # else the sums have what the lost file held
            check_rows(rows)
            assert Counter(transition for _, transition in rows) == around.expected
    return Count(around.expected.total(), watch.answered, in_trouble)


def _steps_with(trouble: Trouble, line: str, around: Round, chance: random.Random) -> int:
    """Go through all steps, and let the trouble last from a random step to a later one; return how
    many transitions there were meanwhile.

    ``line`` is what the exporter logs of the trouble.
    """
    begin = chance.randrange(1, len(STEPS) - 1)
    end = chance.randrange(begin + 1, len(STEPS))
    before = 0
    in_trouble = 0
    for step, document in enumerate(STEPS):
        if step == begin:
            before = around.expected.total()
            trouble.begins()
        if step == end:
            _told_of_trouble(around.exporter, line)
            in_trouble = around.expected.total() - before
            trouble.ends()
        around.steps(document)
    return in_trouble


def _told_of_trouble(exporter: Exporter, line: str, *, over: bool = False) -> None:
    """Polling continues, the metrics show the failure, and one error line has ``line``; another
    line says that the journal is on disk again once the trouble is ``over``.
    """
    polls_on(exporter, 4)
    scrape = exporter.scrape()
    assert scrape.value("up") == 1
    assert scrape.value("journal_errors_total"), "no error was counted"
    if line == IN_MEMORY and not over:
        assert scrape.value("journal_up") == 0
    lines = [each for each in exporter.log.splitlines() if "level=error" in each]
    assert len(lines) == 1, lines
    assert line in lines[0]
    assert len(exporter.lines("journal is on disk again")) == (over and line == IN_MEMORY)


def run(order: Order) -> Row:
    """Let every kind of trouble come, each with exporters of its own, all kinds at once."""
    kinds = [kind for kind in TROUBLES if can_mount() or kind not in {"full", "read-only"}]
    rounds = order.pick(10, 1)
    seeds = {kind: order.chance.randrange(1 << 32) for kind in kinds}

    def all_rounds(kind: str) -> Count:
        count = Count()
        chance = random.Random(seeds[kind])
        for number in range(rounds):
            try:
                count.add(suffers(kind, order, chance, number))
            except FAILURES as failure:
                raise AssertionError(f"{kind}: {failure}") from failure
            order.say(f"{kind}: {number + 1} times")
        return count

    with ThreadPoolExecutor(len(kinds)) as pool:
        counts = list(pool.map(all_rounds, kinds))
    return Row(
        "disk",
        f"a journal's file system that is {', '.join(kinds)} in mid lifecycle, {rounds} times each,"
        f" seed {order.seed}",
        f"{sum(each.transitions for each in counts)} transitions,"
        f" {sum(each.in_trouble for each in counts)} of them in trouble: none lost or twice, also"
        " after a SIGKILL at the end; polling went on, one error line each time, back on disk by"
        f" itself; {sum(each.scrapes for each in counts)} scrapes, all answered",
    )
