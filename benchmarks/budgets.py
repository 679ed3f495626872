"""Measures the exporter beside its budgets, and how the costs grow: docs/performance.md.

Run: ``make bench`` or ``PYTHONPATH=tests python -m benchmarks.budgets [--write] [--peer CMD
--peer-url URL]``. With ``--write`` the page in docs is renewed between its marks. Everything stays
on loopback; ten minutes on a quiet machine.
"""

import argparse
import logging
import os
import platform
import random
import shlex
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from azure_scheduled_events_exporter.core.document_parser import parse_document
from azure_scheduled_events_exporter.core.lifecycle import Lifecycles
from azure_scheduled_events_exporter.core.observation import ObservationContext, observe
from azure_scheduled_events_exporter.core.spans import finished
from azure_scheduled_events_exporter.core.timestamp import Timestamp
from azure_scheduled_events_exporter.journal.journal import Journal
from azure_scheduled_events_exporter.simulator import Scenario, Simulator, VirtualMachine
from benchmarks.measured import Measurement
from deploy.stack.free_port import free_port
from support.events.imds_bodies import body, entry
from support.monitoring.collector import HANG, Collector
from support.paths import ROOT
from support.programs import COMMAND, debian, eventually, fetch

PAGE = ROOT / "docs" / "performance.md"
BEGIN = "<!-- measured: begin -->"
END = "<!-- measured: end -->"
MILLI = 1000.0
LOOK_SECONDS = 0.005  # between two looks at /metrics for a change
QUIET = Scenario("quiet", "Nothing happens.", (VirtualMachine("vm_0"),), ())


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
        spread = f"{min(self.runs):.3g} to {max(self.runs):.3g}" if len(self.runs) > 1 else ""
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
            for at, current in (
                (0.0, [event]),
                (901.0, [{**event, "EventStatus": "Started"}]),
                (1500.0, []),
            ):
                document = parse_document(body(*current))
                moment = Timestamp(1_700_000_000.0 + at, at, "boot")
                known, changes = observe(known, document, ObservationContext(moment, "vm_0"))
                spans = [span for change in changes for span in finished(change)]
                lives = [change.lifecycle for change in changes]
                began = time.perf_counter()
                journal.record(changes, lives, spans)
                taken.append(time.perf_counter() - began)
        if not journal.state.up:
            sys.exit("the journal could not be written: these would be figures of memory")
    return taken


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
        address = f"127.0.0.1:{free_port()}"
        command = [
            COMMAND,
            "run",
            "--imds.endpoint",
            self._simulator.url,
            "--web.listen-address",
            address,
        ]
        command += ["--journal.path", str(self._folder / f"journal-{self._journals}"), *flags]
        shown = b'_pending{event_type="Freeze",scope="self"} %d.0' % count
        with Measurement(command, f"http://{address}/metrics") as exporter:
            eventually(
                lambda: (shown if count else b"events_up 1.0") in fetch(exporter.url).body,
                "the events",
            )
            yield exporter

    def rows(self, collector: str, hanging: str) -> Iterator[Row]:
        """Yield each figure that has a budget."""
        yield from self._resting(collector)
        yield from self._scraping()
        text = f"a change in IMDS to `/metrics`, p99 of {self._effort.changes}, polling every 1 s"
        yield Row(text, 1.1, "s", [percentile(list(self._changes()), 99) / MILLI])
        yield from self._journalling()
        ends = [self._end(hanging) for _ in range(self._effort.runs)]
        yield Row("SIGTERM to exit, with a collector that hangs", 2, "s", ends)

    def _resting(self, collector: str) -> Iterator[Row]:
        """Yield start, memory and polls."""
        each = range(self._effort.runs)
        starts = [self._start() for _ in each]
        yield Row("start of the process to the first answer of `/metrics`", 0.4, "s", starts)
        for tracing, budget, flags in (("off", 42, ()), ("on", 48, ("--otlp.endpoint", collector))):
            memory = [self._at_rest(1, *flags)[1] for _ in each]
            yield Row(f"resident memory, tracing {tracing}", budget, "MiB", memory)
        polls = [self._at_rest(0)[0] for _ in each]
        yield Row("processor time of a poll, document unchanged, no event", 1.8, "ms", polls)
        started = [self._while_started() for _ in each]
        text = "processor time a second, while an event of this VM is Started"
        yield Row(text, 3, "ms", started)

    def _scraping(self) -> Iterator[Row]:
        """Yield scrapes of few and many events, by one and many clients."""
        for count, clients, most, what in (
            (0, 1, 2, "idle"),
            (10, 1, 2, "10 current events"),
            (1000, 1, 10, "1,000 current events"),
            (90, 50, 30, "50 scrapers at once, 90 current events"),
        ):
            with self.running(count) as exporter:
                exporter.scrapes(50)
                # More for many clients, so that each of them asks often enough.
                scrapes = self._effort.scrapes * (1 + clients // 10)
                runs = [exporter.scrapes(scrapes, clients) for _ in range(self._effort.runs)]
            yield Row(f"scrape, {what}, p99", most, "ms", [percentile(run, 99) for run in runs])

    def _journalling(self) -> Iterator[Row]:
        """Yield transitions on disk."""
        taken = [
            transitions(self._folder / f"transitions-{run}", self._effort.transitions)
            for run in range(self._effort.runs)
        ]
        yield Row("journalled transition, median", 3, "ms", [percentile(run, 50) for run in taken])
        yield Row("journalled transition, p99", 15, "ms", [percentile(run, 99) for run in taken])

    def _start(self) -> float:
        with self.running() as exporter:
            return exporter.started

    def _end(self, collector: str) -> float:
        with self.running(1, "--otlp.endpoint", collector) as exporter:
            return exporter.end()

    def _at_rest(self, count: int, *flags: str) -> tuple[float, float]:
        """Return what an exporter uses while nothing changes.

        These are milliseconds of processor time a second, and MiB of memory.
        """
        with self.running(count, *flags) as exporter:
            exporter.scrapes(200)
            poll = self._processor(exporter)
            exporter.scrapes(10)
            return poll, exporter.memory()

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
        return (exporter.processor() - before) / (time.monotonic() - begun) * MILLI

    def _changes(self) -> Iterator[float]:
        """Yield the seconds from each change in IMDS to ``/metrics``.

        They are too long by up to ``LOOK_SECONDS``.
        """
        with self.running() as exporter:
            for number in range(self._effort.changes):
                # A change is seen right after a poll: any moment up to the next one.
                time.sleep(random.random())
                changed = events(1, first=number)
                (event,) = changed
                begun = time.monotonic()
                self._simulator.set_document(changed)
                while str(event["EventId"]).encode() not in fetch(exporter.url).body:
                    time.sleep(LOOK_SECONDS)
                yield time.monotonic() - begun

    def growth(self, count: int) -> str:
        """Return the costs with ``count`` current events as a row.

        NotBefore of all of them moves at every poll.
        """
        with self.running(count) as exporter:
            scrape = statistics.median(exporter.scrapes(100)) * MILLI
            before = exporter.processor()
            rounds = 5
            for number in range(1, rounds + 1):
                self._simulator.set_document(events(count, number))
                # A poll must see this change alone; many events take it longer than its second.
                time.sleep(max(1.1, count / 300))
            poll = (exporter.processor() - before) / rounds * MILLI
            return f"| {count:,} | {scrape:.2f} ms | {poll:.1f} ms | {exporter.memory():.1f} MiB |"


def beside(name: str, server: Measurement) -> str:
    """Return a server's start, memory and scrapes as a row."""
    with server:
        server.scrapes(50)
        taken = server.scrapes(300)
        scrape = f"{percentile(taken, 50):.2f} / {percentile(taken, 99):.2f} ms"
        size = len(fetch(server.url).body) / 1024
        return (
            f"| {name} | {server.started:.2f} s | {server.memory():.1f} MiB | {scrape} | {size:.0f}"
            " KiB |"
        )


def others(peer: str, peer_url: str) -> Iterator[str]:
    """Yield a row for each exporter that is measured beside this one."""
    address = f"127.0.0.1:{free_port()}"
    node = [
        debian("prometheus-node-exporter"),
        f"--web.listen-address={address}",
        "--log.level=error",
    ]
    yield beside(
        "Debian's prometheus-node-exporter", Measurement(node, f"http://{address}/metrics")
    )
    if peer:
        command = shlex.split(peer)
        yield beside(Path(command[0]).name, Measurement(command, peer_url))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--write", action="store_true", help="renew docs/performance.md")
    parser.add_argument(
        "--peer", default="", help="the command line of another exporter to measure beside it"
    )
    parser.add_argument("--peer-url", default="", help="where that one serves its metrics")
    parser.add_argument(
        "--quick", action="store_true", help="only try every measurement; the figures mean little"
    )
    return parser.parse_args()


def _system() -> str:
    name = platform.freedesktop_os_release().get("PRETTY_NAME", platform.platform())
    return f"{os.cpu_count()} shared cores, {name}, Python {platform.python_version()}"


HEAD = (
    "",
    "| what | budget | median | runs | |",
    "| --- | --- | --- | --- | --- |",
)
GROWTH = (
    "",
    "How the costs grow with the number of current events:",
    "",
    "| current events | scrape, median | poll in which all changed | memory |",
    "| --- | --- | --- | --- |",
)
SIDE_BY_SIDE = (
    "",
    "Side by side, each program started once in the same run:",
    "",
    "| exporter | start | memory | scrape p50 / p99 | exposition |",
    "| --- | --- | --- | --- | --- |",
)


def main() -> int:
    """Measure, print, and return 1 when a budget is missed."""
    options = _options()
    effort = QUICK if options.quick else Effort()
    lines: list[str] = []

    def note(*texts: object) -> None:
        lines.extend(map(str, texts))
        print(*texts, sep="\n", flush=True)

    missed = False
    with tempfile.TemporaryDirectory() as folder, Simulator(QUIET) as simulator:
        bench = Bench(simulator, Path(folder), effort)
        note(f"{_system()}; medians, and the spread of the", "runs.", *HEAD)
        with Collector() as collector, Collector(HANG) as deaf:
            for row in bench.rows(collector.url, deaf.url):
                note(row)
                missed = missed or row.missed
        note(*GROWTH)
        for count in effort.events:
            note(bench.growth(count))
        note(*SIDE_BY_SIDE)
        with bench.running() as exporter:
            note(beside("this one, idle", exporter))
        for each in others(options.peer, options.peer_url):
            note(each)
    if options.write:
        before, _, rest = PAGE.read_text().partition(BEGIN)
        after = rest.partition(END)[2]
        PAGE.write_text("\n".join((f"{before}{BEGIN}", *lines, END)) + after)
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
