"""The wall clock is set by an hour, forward and back, during an event: the reports stay correct.

The exporter corrects its clock to that of IMDS. So from the second poll after a jump on, every time
that it reports is the true one, whatever the VM's clock says.

Debian's libfaketime shifts the wall clock of the exporter's process, and of no other, also not that
of the simulator; its monotonic clock stays.
"""

import time
import uuid
from collections.abc import Iterable
from dataclasses import dataclass, field
from email.utils import formatdate
from pathlib import Path

from azure_scheduled_events_exporter.simulator import Simulator
from support.monitoring.collector import Collector
from support.paths import TOOLS
from support.programs import Exporter, Scrape, eventually
from trials.trial import POLL, QUIET, Crew, Order, Row, Watch, polls
from trials.truth import check_file, check_rows, transitions_in

JUMPS = (-3600, 0, 3600)
NOTICE_SECONDS = 14_400.0  # more than any jump, so that no event would be overdue by any clock
TOLERANCE_SECONDS = 5.0  # that a scrape may take on a busy machine
BUSY_SECONDS = 20.0  # by which a busy machine may hold up the exporter
# Spans of an event: the event, "detected" and "scheduled"; if it starts, "approval" and "started".
SPANS_OF_CANCELLED = 3
SPANS_OF_COMPLETED = 5


def library() -> Path:
    """Return libfaketime, as scripts/torture unpacks it."""
    found = sorted((TOOLS.parent / "lib").glob("*/faketime/libfaketime.so.1"))
    found += sorted(Path("/usr/lib").glob("*/faketime/libfaketime.so.1"))
    assert found, (
        "libfaketime is missing: run scripts/tools faketime,"
        " or install Debian's package libfaketime"
    )
    return found[0]


class WallClock:
    """The wall clock of one process, by ``offset`` seconds before the true time."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self.offset = 0
        self.jumps = 0
        self.set(0)
        self.environment = {
            "LD_PRELOAD": str(library()),
            "FAKETIME_TIMESTAMP_FILE": str(file),
            "FAKETIME_NO_CACHE": "1",
            "DONT_FAKE_MONOTONIC": "1",
            "NO_FAKE_STAT": "1",
        }

    def set(self, offset: int) -> None:
        """Set the clock ``offset`` seconds ahead of the true time; count it if it jumps."""
        self.jumps += offset != self.offset
        self.offset = offset
        fresh = self._file.with_suffix(".new")
        fresh.write_text(f"{offset:+d}\n")
        fresh.replace(self._file)


@dataclass
class Trial:
    """One exporter whose clock is set while events come and go.

    Attributes:
        scheduled: for how many seconds all events together were Scheduled, by the monotonic clock.
        started: for how many seconds they were Started.
        countdowns: how many times the exporter's countdown was compared with the true time.
        expected: the transitions that the exporter must have counted by now.
    """

    order: Order
    simulator: Simulator
    clock: WallClock
    exporter: Exporter
    scheduled: float = 0.0
    started: float = 0.0
    countdowns: int = 0
    expected: dict[str, int] = field(default_factory=dict)

    def lives(self, count: int) -> None:
        """Let so many events come and go, every third of which is cancelled."""
        for number in range(count):
            self._life(cancelled=number % 3 == 1)
            if (number + 1) % 20 == 0:
                self.order.say(f"{number + 1} events, {self.clock.jumps} jumps")

    def _life(self, *, cancelled: bool) -> None:
        """Let an event come and go, with jumps of the clock at any time."""
        event_id = str(uuid.uuid4()).upper()
        not_before = time.time() + NOTICE_SECONDS
        self._jumps()
        begin = time.monotonic()
        self._shows(event_id, "Scheduled", not_before, "detected")
        self._jumps()
        self._counts_down(not_before)
        self._jumps()
        if cancelled:
            self._gone("cancelled")
            self.scheduled += time.monotonic() - begin
            return
        self._shows(event_id, "Started", not_before, "approved", "started")
        self.scheduled += time.monotonic() - begin
        begin = time.monotonic()
        self._jumps()
        self._gone("completed")
        self.started += time.monotonic() - begin

    def _jumps(self) -> None:
        """Set the clock, or leave it, and see that a poll has the true time nevertheless."""
        self.clock.set(self.order.chance.choice(JUMPS))
        before = polls(self.exporter.scrape())
        scrape = self.exporter.shows(
            "two polls", lambda now: now if polls(now) >= before + 2 else None
        )
        assert scrape
        assert scrape.value("up") == 1
        success = scrape.value("last_success_timestamp_seconds") or 0
        assert abs(success - time.time()) < TOLERANCE_SECONDS + BUSY_SECONDS, (
            f"{success - time.time()} s off, with a clock that is set by {self.clock.offset}"
        )

    def _counts_down(self, not_before: float) -> None:
        (left,) = [
            value for _, value in self.exporter.scrape().series("event_seconds_until_not_before")
        ]
        assert abs(left - (not_before - time.time())) < TOLERANCE_SECONDS, (
            f"{left} s, with a clock that is set by {self.clock.offset}"
        )
        self.countdowns += 1

    def _shows(self, event_id: str, status: str, not_before: float, *transitions: str) -> None:
        due = formatdate(not_before, usegmt=True) if status == "Scheduled" else ""
        event = {
            "EventId": event_id,
            "EventStatus": status,
            "EventType": "Freeze",
            "NotBefore": due,
        }
        self.simulator.set_document([{**event, "Resources": ["vmss_0"], "EventSource": "Platform"}])
        self._tells(transitions)

    def _gone(self, transition: str) -> None:
        self.simulator.set_document([])
        self._tells([transition])

    def _tells(self, transitions: Iterable[str]) -> None:
        for transition in transitions:
            self.expected[transition] = self.expected.get(transition, 0) + 1
        self.exporter.shows(f"{self.expected}", lambda now: now.transitions() == self.expected)


def check_spans(trial: Trial, collector: Collector) -> None:
    """Every span of every event arrives, and none ends before its start."""
    count = (
        SPANS_OF_COMPLETED * trial.expected["completed"]
        + SPANS_OF_CANCELLED * trial.expected["cancelled"]
    )
    eventually(
        lambda: len(collector.spans()),
        f"{count} spans",
        until=lambda found: found == count,
    )
    assert all(span.end >= span.start for span in collector.accepted)


def check(trial: Trial, scrape: Scrape, elapsed: float) -> None:
    """No duration is negative, or longer than it was by the monotonic clock."""
    sums = {
        "scheduled": scrape.total("phase_duration_seconds_sum", phase="scheduled"),
        "started": scrape.total("phase_duration_seconds_sum", phase="started"),
        "approval": scrape.total("approval_latency_seconds_sum"),
        "notice": scrape.total("notice_seconds_sum"),
        "pause": scrape.total("observed_pause_seconds_sum"),
        "polls": scrape.total("poll_duration_seconds_sum"),
    }
    assert all(value >= 0 for value in sums.values()), sums
    assert sums["scheduled"] <= trial.scheduled + TOLERANCE_SECONDS, (sums, trial.scheduled)
    assert sums["started"] <= trial.started + TOLERANCE_SECONDS, (sums, trial.started)
    assert sums["approval"] <= trial.scheduled + TOLERANCE_SECONDS, (sums, trial.scheduled)
    assert sums["pause"] <= BUSY_SECONDS * trial.expected["completed"], (sums, "a jump is no pause")
    assert sums["polls"] <= elapsed, (sums, elapsed)
    detected = trial.expected["detected"]
    assert sums["notice"] >= detected * (NOTICE_SECONDS - BUSY_SECONDS), sums
    assert sums["notice"] <= detected * (NOTICE_SECONDS + BUSY_SECONDS), sums


def run(order: Order) -> Row:
    """Set the clock while events come and go."""
    lives = order.pick(60, 2)
    clock = WallClock(order.folder / "clock")
    journal = order.folder / "state"
    with Simulator(QUIET) as simulator, Collector() as collector, Crew(order.folder) as crew:
        flags = (*POLL, "--instance.name", "vmss_0", "--journal.path", str(journal))
        traced = ("--otlp.endpoint", collector.url)
        exporter = crew.start(simulator.url, *flags, *traced, **clock.environment)
        exporter.shows("a poll", lambda now: now.value("up") == 1)
        trial = Trial(order, simulator, clock, exporter)
        began = time.monotonic()
        with Watch(exporter) as watch:
            trial.lives(lives)
        elapsed = time.monotonic() - began
        scrape = exporter.scrape()
        check(trial, scrape, elapsed)
        check_spans(trial, collector)
        exporter.kill()
    rows = transitions_in(journal)
    check_rows(rows)
    check_file(journal)
    assert {transition for _, transition in rows} == trial.expected.keys()
    return Row(
        "clock",
        f"{clock.jumps} jumps of the wall clock by one or two hours, forth and back, during an"
        f" event, seed {order.seed}",
        f"{lives} events, each ended as it did; {trial.countdowns} countdowns right whatever the"
        f" clock was set to; no negative duration, {watch.answered} scrapes, all answered,"
        f" {polls(scrape):.0f} polls in {elapsed:.0f} s",
    )
