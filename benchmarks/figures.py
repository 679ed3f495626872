"""Measures the exporter on a simulator: each figure that has a budget, and how the costs grow.

Each is a row of a table. Must not know the page with the tables (``benchmarks.budgets``).
"""

import logging
import random
import statistics
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from azure_scheduled_events_exporter.core.document_parser import parse_document
from azure_scheduled_events_exporter.core.lifecycle import Lifecycles
from azure_scheduled_events_exporter.core.observation import ObservationContext, observe
from azure_scheduled_events_exporter.core.spans import SpanFacts, finished
from azure_scheduled_events_exporter.core.timestamp import Timestamp
from azure_scheduled_events_exporter.journal.journal import Journal
from azure_scheduled_events_exporter.simulator import Simulator
from benchmarks.measured import Measurement
from deploy.stack.free_port import free_port
from support.events.imds_bodies import body, entry
from support.programs import COMMAND, eventually, fetch

MILLI = 1000.0
LOOK_SECONDS = 0.005  # between two looks at /metrics for a change


@dataclass(frozen=True)
class Effort:
    """How much to measure."""

    runs: int = 5  # of each figure
    polls: int = 20  # seconds of them, one a second
    scrapes: int = 1000
    changes: int = 100
    transitions: int = 2000  # in the journal
    events: tuple[int, ...] = (0, 1, 10, 100, 1000)  # current ones, for the growth of costs


QUICK = Effort(runs=1, polls=2, scrapes=100, changes=2, transitions=60, events=(0, 10))


@dataclass(frozen=True)
class Row:
    """One figure: its runs in ``unit``, and its budget; the verdict is on the median."""

    what: str
    budget: float
    unit: str
    runs: Sequence[float]

    @property
    def missed(self) -> bool:
        """Whether the median is over the budget."""
        return statistics.median(self.runs) > self.budget

    def __str__(self) -> str:
        spread = ""
        if len(self.runs) > 1:
            spread = f"{min(self.runs):.3g} to {max(self.runs):.3g}"
        verdict = "**missed**" if self.missed else "met"
        median = f"{statistics.median(self.runs):.3g} {self.unit}"
        return f"| {self.what} | {self.budget:g} {self.unit} | {median} | {spread} | {verdict} |"


def events(count: int, changed: int = 0, first: int = 0) -> list[Mapping[str, object]]:
    """Return ``count`` events as short as IMDS writes them; ``changed`` moves their NotBefore."""
    return [
        entry(
            EventId=f"C7061BAC-AFDC-4513-B24B-{number:012X}",
            EventType="Freeze",
            NotBefore=f"Mon, 19 Sep 2050 18:{changed % 60:02}:14 GMT",
            DurationInSeconds=5,
        )
        for number in range(first, first + count)
    ]


@dataclass(frozen=True)
class Load:
    """Scrapes of so many current events by so many clients, and the budget in milliseconds."""

    what: str
    events: int
    clients: int
    budget: float


LOADS = (
    Load("idle", events=0, clients=1, budget=2),
    Load("10 current events", events=10, clients=1, budget=2),
    Load("1,000 current events", events=1000, clients=1, budget=10),
    Load("50 scrapers at once, 90 current events", events=90, clients=50, budget=30),
)


@dataclass(frozen=True)
class AtRest:
    """What an exporter uses: milliseconds of processor time a second, and MiB of memory."""

    processor: float
    memory: float


def transitions(path: Path, count: int) -> list[float]:
    """Return the seconds that each transition takes in the journal, with its spans.

    ``count`` is their number: every event has three, as it is detected, started and completed.
    """
    taken = []
    known = Lifecycles()
    with closing(Journal(path, 90 * 86400.0, logging.getLogger("benchmark"))) as journal:
        journal.wait_until_read(10.0)
        journal.adopt()
        for number in range(count // 3):
            (event,) = events(1, first=number)
            for seconds, current in life_of(event).items():
                moment = Timestamp(1_700_000_000.0 + seconds, seconds, "boot")
                context = ObservationContext(moment, "vm_0")
                document = parse_document(body(*current))
                known, changes = observe(known, document, context)
                spans: list[SpanFacts] = []
                for change in changes:
                    spans += finished(change)
                lives = [change.lifecycle for change in changes]
                began = time.perf_counter()
                journal.record(changes, lives, spans)
                taken.append(time.perf_counter() - began)
        if not journal.state.up:
            sys.exit("the journal could not be written: these would be figures of memory")
    return taken


def life_of(event: Mapping[str, object]) -> dict[float, list[Mapping[str, object]]]:
    """Return what documents show of an event, by the seconds after the first one."""
    started = {**event, "EventStatus": "Started"}
    return {0.0: [event], 901.0: [started], 1500.0: []}


def percentile(seconds: Sequence[float], share: int) -> float:
    """Return the milliseconds below which so many of 100 lie."""
    return statistics.quantiles(seconds, n=100, method="inclusive")[share - 1] * MILLI


class Bench:
    """Every measurement of the exporter, on one simulator."""

    def __init__(self, simulator: Simulator, folder: Path, effort: Effort) -> None:
        self._simulator = simulator
        self._folder = folder
        self._effort = effort
        self._journals = 0

    @contextmanager
    def running(self, count: int = 0, *flags: str) -> Iterator[Measurement]:
        """An exporter that shows ``count`` events, with a journal on disk."""
        self._simulator.set_document(events(count))
        self._journals += 1
        journal = self._folder / f"journal-{self._journals}"
        address = f"127.0.0.1:{free_port()}"
        command = [COMMAND, "run"]
        command += ["--imds.endpoint", self._simulator.url]
        command += ["--web.listen-address", address]
        command += ["--journal.path", str(journal)]
        command += flags
        shown = b"events_up 1.0"
        if count:
            shown = b'_pending{event_type="Freeze",scope="self"} %d.0' % count
        with Measurement(command, f"http://{address}/metrics") as exporter:
            eventually(lambda: shown in fetch(exporter.url).body, "the events")
            yield exporter

    def rows(self, collector: str, hanging: str) -> Iterator[Row]:
        """Yield each figure that has a budget."""
        yield from self._resting(collector)
        yield from self._scraping()
        changes = percentile(list(self._changes()), 99) / MILLI
        yield Row(
            f"a change in IMDS to `/metrics`, p99 of {self._effort.changes}, polling every 1 s",
            budget=1.1,
            unit="s",
            runs=[changes],
        )
        yield from self._journalling()
        yield Row(
            "SIGTERM to exit, with a collector that hangs",
            budget=2,
            unit="s",
            runs=[self._end(hanging) for _ in range(self._effort.runs)],
        )

    def _resting(self, collector: str) -> Iterator[Row]:
        """Yield start, memory and polls."""
        each = range(self._effort.runs)
        yield Row(
            "start of the process to the first answer of `/metrics`",
            budget=0.4,
            unit="s",
            runs=[self._start() for _ in each],
        )
        yield Row(
            "resident memory, tracing off",
            budget=42,
            unit="MiB",
            runs=[self._at_rest(1).memory for _ in each],
        )
        yield Row(
            "resident memory, tracing on",
            budget=48,
            unit="MiB",
            runs=[self._at_rest(1, "--otlp.endpoint", collector).memory for _ in each],
        )
        yield Row(
            "processor time of a poll, document unchanged, no event",
            budget=1.8,
            unit="ms",
            runs=[self._at_rest(0).processor for _ in each],
        )
        yield Row(
            "processor time a second, while an event of this VM is Started",
            budget=3,
            unit="ms",
            runs=[self._while_started() for _ in each],
        )

    def _scraping(self) -> Iterator[Row]:
        """Yield scrapes of few and many events, by one and many clients."""
        for load in LOADS:
            # More for many clients, so that each of them asks often enough.
            scrapes = self._effort.scrapes * (1 + load.clients // 10)
            slow = []
            with self.running(load.events) as exporter:
                exporter.scrapes(50)
                for _ in range(self._effort.runs):
                    taken = exporter.scrapes(scrapes, load.clients)
                    slow.append(percentile(taken, 99))
            yield Row(f"scrape, {load.what}, p99", budget=load.budget, unit="ms", runs=slow)

    def _journalling(self) -> Iterator[Row]:
        """Yield transitions on disk."""
        usual = []
        slow = []
        for run in range(self._effort.runs):
            taken = transitions(self._folder / f"transitions-{run}", self._effort.transitions)
            usual.append(percentile(taken, 50))
            slow.append(percentile(taken, 99))
        yield Row("journalled transition, median", budget=3, unit="ms", runs=usual)
        yield Row("journalled transition, p99", budget=15, unit="ms", runs=slow)

    def _start(self) -> float:
        with self.running() as exporter:
            return exporter.started

    def _end(self, collector: str) -> float:
        with self.running(1, "--otlp.endpoint", collector) as exporter:
            return exporter.end()

    def _at_rest(self, count: int, *flags: str) -> AtRest:
        """Return what an exporter of ``count`` events uses while nothing changes."""
        with self.running(count, *flags) as exporter:
            exporter.scrapes(200)
            poll = self._processor(exporter)
            exporter.scrapes(10)
            return AtRest(processor=poll, memory=exporter.memory())

    def _while_started(self) -> float:
        """Return the milliseconds of processor a second while an event of this VM is Started."""
        with self.running(1) as exporter:
            (event,) = events(1)
            self._simulator.set_document([{**event, "EventStatus": "Started", "NotBefore": ""}])
            shown = b'_started{event_type="Freeze",scope="self"} 1.0'
            eventually(lambda: shown in fetch(exporter.url).body, "the start")
            return self._processor(exporter)

    def _processor(self, exporter: Measurement) -> float:
        """Return the milliseconds of processor a second of an exporter while nothing changes."""
        time.sleep(3)  # what the last change has caused is over then
        before = exporter.processor()
        begun = time.monotonic()
        time.sleep(self._effort.polls)
        used = exporter.processor() - before
        return used / (time.monotonic() - begun) * MILLI

    def _changes(self) -> Iterator[float]:
        """Yield the seconds from each change in IMDS to ``/metrics``.

        They are too long by up to ``LOOK_SECONDS``.
        """
        with self.running() as exporter:
            for number in range(self._effort.changes):
                # A change is seen right after a poll: any moment up to the next one.
                time.sleep(random.random())
                (event,) = events(1, first=number)
                event_id = str(event["EventId"]).encode()
                begun = time.monotonic()
                self._simulator.set_document([event])
                while event_id not in fetch(exporter.url).body:
                    time.sleep(LOOK_SECONDS)
                yield time.monotonic() - begun

    def growth(self, count: int) -> str:
        """Return the costs with ``count`` current events as a row.

        NotBefore of all of them moves at every poll.
        """
        with self.running(count) as exporter:
            scrape = statistics.median(exporter.scrapes(100)) * MILLI
            rounds = 5
            before = exporter.processor()
            for number in range(1, rounds + 1):
                self._simulator.set_document(events(count, number))
                # A poll must see this change alone; many events take it longer than its second.
                time.sleep(max(1.1, count / 300))
            used = exporter.processor() - before
            poll = used / rounds * MILLI
            return f"| {count:,} | {scrape:.2f} ms | {poll:.1f} ms | {exporter.memory():.1f} MiB |"
