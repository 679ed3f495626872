"""Measures the exporter on a simulator: each figure that has a budget, and how the costs grow.

Each is a row of a table. Must not know the page with the tables (``benchmarks.budgets``).
"""

import random
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from azure_scheduled_events_exporter.simulator import Simulator
from benchmarks.load import SCRAPINGS, Effort, event, events
from benchmarks.measured import Measurement
from benchmarks.transitions import transition_seconds
from deploy.stack.free_port import free_port
from support.programs import COMMAND, eventually, fetch

_MILLI = 1000.0
_LOOK_SECONDS = 0.005  # between two looks at /metrics for a change
_ROUNDS = 5  # polls in which all events change


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


def percentile(seconds: Sequence[float], share: int) -> float:
    """Return a percentile of times in seconds, in milliseconds; ``share`` is 50 for the median."""
    return statistics.quantiles(seconds, n=100, method="inclusive")[share - 1] * _MILLI


class Bench:
    """Every measurement of the exporter, on one simulator.

    Args:
        folder: where the journals are written.
        collector: a collector of spans that accepts them.
        deaf_collector: one that never answers.
    """

    def __init__(
        self,
        simulator: Simulator,
        folder: Path,
        effort: Effort,
        *,
        collector: str,
        deaf_collector: str,
    ) -> None:
        self._simulator = simulator
        self._folder = folder
        self._effort = effort
        self._collector = collector
        self._deaf_collector = deaf_collector
        self._journals = 0

    @contextmanager
    def running(self, count: int = 0, *flags: str) -> Iterator[Measurement]:
        """Run an exporter with a journal on disk; begin when it shows ``count`` events."""
        self._simulator.set_document(events(count))
        self._journals += 1
        journal = self._folder / f"journal-{self._journals}"
        address = f"127.0.0.1:{free_port()}"
        command = [COMMAND, "run"]
        command += ["--imds.endpoint", self._simulator.url]
        command += ["--web.listen-address", address]
        command += ["--journal.path", str(journal)]
        command += flags
        with Measurement(command, f"http://{address}/metrics") as exporter:
            if count:
                _wait_for(exporter, f'_pending{{event_type="Freeze",scope="self"}} {count}.0')
            else:
                _wait_for(exporter, "azure_scheduled_events_up 1.0")
            yield exporter

    def rows(self) -> Iterator[Row]:
        """Yield each figure that has a budget."""
        yield self._row(
            "start of the process to the first answer of `/metrics`",
            budget=0.4,
            unit="s",
            measure=self._start,
        )
        yield self._row(
            "resident memory, tracing off",
            budget=42,
            unit="MiB",
            measure=self._memory,
        )
        yield self._row(
            "resident memory, tracing on",
            budget=48,
            unit="MiB",
            measure=self._memory_with_tracing,
        )
        yield self._row(
            "processor time of a poll, document unchanged, no event",
            budget=1.8,
            unit="ms",
            measure=self._poll,
        )
        yield self._row(
            "processor time a second, while an event of this VM is Started",
            budget=3,
            unit="ms",
            measure=self._second_while_started,
        )
        yield from self._scraping()
        yield self._changes()
        yield from self._journalling()
        yield self._row(
            "SIGTERM to exit, with a collector that hangs",
            budget=2,
            unit="s",
            measure=self._end,
        )

    def _row(
        self,
        what: str,
        *,
        budget: float,
        unit: str,
        measure: Callable[[], float],
    ) -> Row:
        """Return the row of a figure that ``measure`` returns in ``unit``, once a run."""
        runs = [measure() for _ in range(self._effort.runs)]
        return Row(what, budget, unit, runs)

    # ---- Figures of one run

    def _start(self) -> float:
        """Return the seconds of a start."""
        with self.running() as exporter:
            return exporter.start_seconds

    def _end(self) -> float:
        """Return the seconds that an exporter takes to end, with spans that nobody accepts."""
        with self.running(1, "--otlp.endpoint", self._deaf_collector) as exporter:
            return exporter.end()

    def _memory(self, *flags: str) -> float:
        """Return the MiB of an exporter of one event, after many scrapes and polls."""
        with self.running(1, *flags) as exporter:
            exporter.scrapes(200)
            self._processor(exporter)  # only for the time that this takes: the exporter polls
            exporter.scrapes(10)
            return exporter.memory()

    def _memory_with_tracing(self) -> float:
        """Return the same of an exporter that sends spans."""
        return self._memory("--otlp.endpoint", self._collector)

    def _poll(self) -> float:
        """Return the milliseconds of processor a second, in which there is one poll."""
        with self.running() as exporter:
            exporter.scrapes(200)
            return self._processor(exporter)

    def _second_while_started(self) -> float:
        """Return the milliseconds of processor a second while an event of this VM is Started."""
        with self.running(1) as exporter:
            started = {**event(0), "EventStatus": "Started", "NotBefore": ""}
            self._simulator.set_document([started])
            _wait_for(exporter, '_started{event_type="Freeze",scope="self"} 1.0')
            return self._processor(exporter)

    def _processor(self, exporter: Measurement) -> float:
        """Return the milliseconds of processor a second of an exporter while nothing changes."""
        time.sleep(3)  # what the last change has caused is over then
        before = exporter.processor()
        begun = time.monotonic()
        time.sleep(self._effort.poll_seconds)
        used = exporter.processor() - before
        seconds = time.monotonic() - begun
        return used / seconds * _MILLI

    # ---- Figures that are percentiles

    def _scraping(self) -> Iterator[Row]:
        """Yield scrapes of few and many events, by one and many clients."""
        for scraping in SCRAPINGS:
            # More for many clients, so that each of them asks often enough.
            scrapes = self._effort.scrapes * (1 + scraping.clients // 10)
            slow = []
            with self.running(scraping.events) as exporter:
                exporter.scrapes(50)
                for _ in range(self._effort.runs):
                    taken = exporter.scrapes(scrapes, scraping.clients)
                    slow.append(percentile(taken, 99))
            what = f"scrape, {scraping.what}, p99"
            yield Row(what, scraping.budget, "ms", slow)

    def _changes(self) -> Row:
        """Return the time from a change in IMDS to ``/metrics``."""
        with self.running() as exporter:
            numbers = range(self._effort.changes)
            taken = [self._change(exporter, number) for number in numbers]
        return Row(
            f"a change in IMDS to `/metrics`, p99 of {self._effort.changes}, polling every 1 s",
            budget=1.1,
            unit="s",
            runs=[percentile(taken, 99) / _MILLI],
        )

    def _change(self, exporter: Measurement, number: int) -> float:
        """Return the seconds from a change to ``/metrics``; up to ``_LOOK_SECONDS`` too many."""
        # The change before this one was seen right after a poll. The random part of a second, the
        # time between polls, lets this change come at any moment between two polls.
        time.sleep(random.random())
        new = event(number)
        event_id = str(new["EventId"]).encode()
        begun = time.monotonic()
        self._simulator.set_document([new])
        while event_id not in fetch(exporter.url).body:
            time.sleep(_LOOK_SECONDS)
        return time.monotonic() - begun

    def _journalling(self) -> Iterator[Row]:
        """Yield transitions on disk."""
        usual = []
        slow = []
        for run in range(self._effort.runs):
            path = self._folder / f"transitions-{run}"
            taken = transition_seconds(path, self._effort.transitions)
            usual.append(percentile(taken, 50))
            slow.append(percentile(taken, 99))
        yield Row("journalled transition, median", 3, "ms", usual)
        yield Row("journalled transition, p99", 15, "ms", slow)

    # ---- Growth

    def growth(self, count: int) -> str:
        """Return the costs with ``count`` current events as a row.

        NotBefore of all of them moves at every poll.
        """
        with self.running(count) as exporter:
            scrape = statistics.median(exporter.scrapes(100)) * _MILLI
            before = exporter.processor()
            for minute in range(1, _ROUNDS + 1):
                self._simulator.set_document(events(count, minute))
                # A poll sees this change before the next one comes. With many events, a poll takes
                # longer than the second between polls.
                time.sleep(max(1.1, count / 300))
            used = exporter.processor() - before
            poll = used / _ROUNDS * _MILLI
            return f"| {count:,} | {scrape:.2f} ms | {poll:.1f} ms | {exporter.memory():.1f} MiB |"


def _wait_for(exporter: Measurement, text: str) -> None:
    """Wait until an exporter's metrics have ``text``."""
    shown = text.encode()
    eventually(lambda: shown in fetch(exporter.url).body, text)
