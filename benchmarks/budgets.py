"""What the exporter costs beside its budgets, and how the costs grow: the tables of docs/performance.md.

Run: ``make bench`` or ``PYTHONPATH=tests python -m benchmarks.budgets [--write] [--peer CMD --peer-url URL]``.
Measures the exporter as it is installed, on Debian's Python where there is one. With ``--write`` the page in docs is
renewed between its marks. Everything stays on loopback; ten minutes on a quiet machine.
"""

import argparse
import os
import platform
import shlex
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from benchmarks import change_latency, journal
from benchmarks.apart import Documents, quiet_simulator
from benchmarks.measured import Installation, Measurement
from deploy.stack.free_port import free_port
from support.monitoring.collector import HANG, Collector
from support.programs import debian

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "performance.md"
BEGIN, END = "<!-- measured: begin -->", "<!-- measured: end -->"
MILLI = 1000.0


@dataclass(frozen=True)
class Effort:
    """How much to measure: runs of each figure, polls, scrapes, changes, transitions, ended and current events."""

    runs: int = 5
    polls: int = 20
    scrapes: int = 1000
    changes: int = 100
    transitions: int = journal.TRANSITIONS
    lives: int = journal.LIVES
    events: tuple[int, ...] = (0, 1, 10, 100, 1000)


QUICK = Effort(runs=1, polls=2, scrapes=100, changes=2, transitions=60, lives=journal.TOGETHER, events=(0, 10))


@dataclass(frozen=True)
class Row:
    """One figure: its runs in ``unit``, and its budget, if it has one; the verdict is on the median."""

    what: str
    budget: float | None
    unit: str
    runs: tuple[float, ...]

    @property
    def missed(self) -> bool:
        """Whether the median is over the budget."""
        return self.budget is not None and statistics.median(self.runs) > self.budget

    def __str__(self) -> str:
        spread = f"{min(self.runs):.3g} to {max(self.runs):.3g}" if len(self.runs) > 1 else ""
        unit = f" {self.unit}" if self.unit else ""
        budget = "" if self.budget is None else f"{self.budget:g}{unit}"
        verdict = "" if self.budget is None else "**missed**" if self.missed else "met"
        return f"| {self.what} | {budget} | {statistics.median(self.runs):.3g}{unit} | {spread} | {verdict} |"


@dataclass(frozen=True)
class Point:
    """The costs with so many current events: seconds, seconds, MiB, MiB."""

    events: int
    scrape: float
    poll: float
    memory: float
    journal: float


def events(count: int, changed: int = 0) -> list[Mapping[str, object]]:
    """Return ``count`` events as short as IMDS writes them; ``changed`` moves their NotBefore."""
    return [
        {
            "EventId": f"C7061BAC-AFDC-4513-B24B-{number:012X}",
            "EventStatus": "Scheduled",
            "EventType": "Freeze",
            "ResourceType": "VirtualMachine",
            "Resources": ["vm_0"],
            "NotBefore": f"Mon, 19 Sep 2050 18:{changed % 60:02}:14 GMT",
            "Description": "",
            "EventSource": "Platform",
            "DurationInSeconds": 5,
        }
        for number in range(count)
    ]


def percentile(values: Sequence[float], share: float) -> float:
    """Return the value below which so many of 100 lie."""
    return statistics.quantiles(values, n=100, method="inclusive")[round(share) - 1]


class Bench:
    """Every measurement, on one installation and one simulator."""

    def __init__(self, installed: Installation, simulator: Documents, folder: Path, effort: Effort) -> None:
        self._installed = installed
        self._simulator = simulator
        self._folder = folder
        self._effort = effort
        self._journals = 0

    @contextmanager
    def running(self, count: int = 0, *flags: str) -> Iterator[Measurement]:
        """An exporter that shows ``count`` events, with a journal on disk."""
        self._simulator.set_document(events(count))
        self._journals += 1
        path = self._folder / f"journal-{self._journals}"
        with self._installed.start(self._simulator.where(), "--journal.path", str(path), *flags) as exporter:
            shown = b'_pending{event_type="Freeze",scope="self"} %d.0' % count
            wanted = shown if count else b"azure_scheduled_events_up 1.0"
            deadline = time.monotonic() + 60
            while wanted not in exporter.body():
                if time.monotonic() > deadline:
                    raise RuntimeError(f"{count} events are not shown")
                time.sleep(0.1)
            yield exporter

    def journal_size(self) -> float:
        """Return the MiB of the newest journal."""
        files = self._folder.glob(f"journal-{self._journals}*/*") or ()
        return sum(each.stat().st_size for each in files if each.is_file()) / (1 << 20)

    def starts(self) -> Row:
        """Start of the process to the first answer."""
        taken = []
        for _ in range(2 * self._effort.runs):
            with self.running() as exporter:
                taken.append(exporter.started)
        return Row("start of the process to the first answer of `/metrics`", 0.4, "s", tuple(taken))

    def costs(self, collector: str) -> Iterator[Row]:
        """Memory after many scrapes, and the processor time of polls alone."""
        for name, budget, flags in (("off", 42, ()), ("on", 48, ("--otlp.endpoint", collector))):
            memory = [self._at_rest(1, *flags)[1] for _ in range(self._effort.runs)]
            yield Row(f"resident memory, tracing {name}", budget, "MiB", tuple(memory))
        for count, most, state in ((0, 1.8, "no event"), (1, None, "an event of this VM announced")):
            polls = [self._at_rest(count)[0] for _ in range(self._effort.runs)]
            yield Row(f"processor time of a poll, document unchanged, {state}", most, "ms", tuple(polls))

    def _at_rest(self, count: int, *flags: str) -> tuple[float, float]:
        """Return the milliseconds of processor per second, and the MiB, of an exporter to which nothing happens."""
        with self.running(count, *flags) as exporter:
            exporter.scrapes(200)
            time.sleep(3)
            before, begun = exporter.processor(), time.monotonic()
            time.sleep(self._effort.polls)
            poll = (exporter.processor() - before) / (time.monotonic() - begun) * MILLI
            exporter.scrapes(10)
            return poll, exporter.memory()

    def scrapes(self) -> Iterator[Row]:
        """Scrapes one after another, and many at once."""
        for count, budget in ((0, 2), (10, 2), (1000, 10)):
            with self.running(count) as exporter:
                exporter.scrapes(50)
                runs = [exporter.scrapes(self._effort.scrapes) for _ in range(self._effort.runs)]
            name = "idle" if not count else f"{count:,} current events"
            yield Row(f"scrape, {name}, p99", budget, "ms", tuple(percentile(run, 99) * MILLI for run in runs))
        with self.running(90) as exporter:
            series = sum(not line.startswith(b"#") for line in exporter.body().splitlines())
            exporter.scrapes(50)
            runs = [exporter.scrapes(5 * self._effort.scrapes, clients=50) for _ in range(self._effort.runs)]
        text = f"scrape, 50 scrapers at once, {series:,} series, p99"
        yield Row(text, 30, "ms", tuple(percentile(run, 99) * MILLI for run in runs))

    def series(self) -> Iterator[Row]:
        """Series at rest, and of each current event."""
        counts = []
        for count in (0, 10):
            with self.running(count) as exporter:
                counts.append(sum(not line.startswith(b"#") for line in exporter.body().splitlines()))
        yield Row("series, idle", 100, "", (counts[0],))
        yield Row("series, per current event", 10, "", ((counts[1] - counts[0]) / 10,))

    def ends(self, hanging: str) -> Row:
        """SIGTERM to exit, with a collector that hangs."""
        taken = []
        for _ in range(self._effort.runs):
            with self.running(1, "--otlp.endpoint", hanging) as exporter:
                taken.append(exporter.end())
        return Row("SIGTERM to exit, with a collector that hangs", 2, "s", tuple(taken))

    def change(self) -> Row:
        """A change in IMDS to /metrics."""
        changes = self._effort.changes
        with self.running() as exporter:
            taken = change_latency.latencies(self._simulator, exporter.port, changes)
        text = f"a change in IMDS to `/metrics`, p99 of {changes}, polling every 1 s"
        return Row(text, 1.1, "s", (percentile(taken, 99),))

    def point(self, count: int) -> Point:
        """The costs with ``count`` current events, NotBefore of all of them moving at every poll."""
        with self.running(count) as exporter:
            scrape = statistics.median(exporter.scrapes(100 if count >= 1000 else 500))
            before = exporter.processor()
            rounds = 5
            for number in range(1, rounds + 1):
                self._simulator.set_document(events(count, number))
                time.sleep(max(1.1, count / 300))
            poll = (exporter.processor() - before) / rounds
            return Point(count, scrape, poll, exporter.memory(), self.journal_size())


def journalled(folder: Path, effort: Effort) -> Iterator[Row]:
    """The journal on this disk."""
    runs = [journal.transitions(folder / f"transitions-{each}", effort.transitions) for each in range(effort.runs)]
    yield Row("journalled transition, median", 3, "ms", tuple(run[0] * MILLI for run in runs))
    yield Row("journalled transition, p99", 15, "ms", tuple(run[1] * MILLI for run in runs))
    journal.fill(folder, effort.lives)
    opened = tuple(journal.opening(folder, effort.lives) for _ in range(effort.runs))
    yield Row(f"opening a journal of {effort.lives:,} ended events", 1, "s", opened)


def beside(name: str, server: Measurement) -> str:
    """Return a server's memory and scrapes as a row."""
    with server:
        server.scrapes(50)
        taken = server.scrapes(300)
        return (
            f"| {name} | {server.started:.2f} s | {server.memory():.1f} MiB | "
            f"{statistics.median(taken) * MILLI:.2f} / {percentile(taken, 99) * MILLI:.2f} ms | "
            f"{len(server.body()) / 1024:.0f} KiB |"
        )


def table(rows: Sequence[Row], points: Sequence[Point], others: Sequence[str], python: str) -> str:
    """Return the text between the marks of the page."""
    system = platform.freedesktop_os_release().get("PRETTY_NAME", platform.platform())
    return "\n".join(
        (
            f"{os.cpu_count()} shared cores, {system}, {python}; medians, and the spread of the runs.",
            "",
            "| what | budget | median | runs | |",
            "| --- | --- | --- | --- | --- |",
            *map(str, rows),
            "",
            "How the costs grow with the number of current events:",
            "",
            "| current events | scrape, median | poll in which all changed | memory | journal |",
            "| --- | --- | --- | --- | --- |",
            *(
                f"| {each.events:,} | {each.scrape * MILLI:.2f} ms | {each.poll * MILLI:.1f} ms "
                f"| {each.memory:.1f} MiB | {each.journal:.2f} MiB |"
                for each in points
            ),
            "",
            "Side by side, each program started once in the same run (so the start is one measurement, not a median):",
            "",
            "| exporter | start | memory | scrape p50 / p99 | exposition |",
            "| --- | --- | --- | --- | --- |",
            *others,
        )
    )


def write(text: str) -> None:
    """Put ``text`` between the marks of the page."""
    page = PAGE.read_text()
    head, _, rest = page.partition(BEGIN)
    PAGE.write_text(f"{head}{BEGIN}\n{text}\n{END}{rest.partition(END)[2]}")


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print, and return 1 when a budget is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    debians = "/usr/bin/python3"
    parser.add_argument("--python", default=debians if Path(debians).exists() else sys.executable)
    parser.add_argument("--write", action="store_true", help="renew docs/performance.md")
    parser.add_argument("--peer", help="the command line of another exporter to measure beside it")
    parser.add_argument("--peer-url", help="where that one serves its metrics")
    parser.add_argument("--quick", action="store_true", help="only try every measurement; the figures mean little")
    parsed = parser.parse_args(arguments)
    effort = QUICK if parsed.quick else Effort()
    rows: list[Row] = []

    def note(row: Row) -> None:
        rows.append(row)
        print(row, flush=True)

    with (
        tempfile.TemporaryDirectory() as name,
        Installation(ROOT, parsed.python) as installed,
        quiet_simulator() as simulator,
        Collector() as collector,
    ):
        folder = Path(name)
        bench = Bench(installed, simulator, folder, effort)
        note(bench.starts())
        for row in chain(bench.costs(collector.url), bench.scrapes(), bench.series()):
            note(row)
        note(bench.change())
        for row in journalled(folder, effort):
            note(row)
        with Collector(HANG) as deaf:
            note(bench.ends(deaf.url))
        note(Row("run-time dependencies on disk", 40, "MiB", (installed.size(),)))
        points = [bench.point(count) for count in effort.events]
        simulator.set_document([])
        others = [beside("this one, idle", installed.start(simulator.where(), "--journal.path", "memory"))]
        address = f"127.0.0.1:{free_port()}"
        node = [debian("prometheus-node-exporter"), f"--web.listen-address={address}", "--log.level=error"]
        others.append(beside("Debian's prometheus-node-exporter", Measurement(node, f"http://{address}/metrics")))
        if parsed.peer:
            peer = shlex.split(parsed.peer)
            others.append(beside(Path(peer[0]).name, Measurement(peer, parsed.peer_url)))
        version = subprocess.run([parsed.python, "-V"], capture_output=True, text=True, check=True).stdout.strip()
    text = table(rows, points, others, version)
    print(text)
    if parsed.write:
        write(text)
    return int(any(row.missed for row in rows))


if __name__ == "__main__":
    sys.exit(main())
