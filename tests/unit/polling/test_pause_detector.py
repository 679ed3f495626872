"""The detector: real threads over clocks and waits of our own."""

import queue
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import pytest

from azure_scheduled_events_exporter.core.pause import ClockSample
from azure_scheduled_events_exporter.core.timestamp import Timestamp
from azure_scheduled_events_exporter.polling.clock import system_clock
from azure_scheduled_events_exporter.polling.pause_detector import (
    STEP_SECONDS,
    TICK_SECONDS,
    PauseDetector,
    SamplingMode,
)
from support.programs import eventually

Passing = tuple[float, float, float]
"""How far the wall clock, the monotonic clock and the one since boot get while somebody waits."""


@dataclass
class Machine:
    """Clocks that advance by a given time with every wait; waits return immediately."""

    now_reads: ClockSample = field(default_factory=lambda: ClockSample(1_700_000_000.0, 500.0, 800.0, "boot-1"))
    waits: "queue.Queue[Passing | None]" = field(default_factory=queue.Queue)

    def now(self) -> Timestamp:
        """Return this moment."""
        return Timestamp(self.now_reads.wall, self.now_reads.monotonic, self.now_reads.boot_id)

    def booted_at(self) -> Timestamp | None:
        """Nobody asks."""
        return None

    def reading(self) -> ClockSample:
        """Return what each clock says."""
        return self.now_reads

    def passes(self, wall: float, monotonic: float, since_boot: float) -> None:
        """Advance the clocks."""
        was = self.now_reads
        self.now_reads = ClockSample(
            was.wall + wall, was.monotonic + monotonic, was.since_boot + since_boot, was.boot_id
        )

    def wait(self, seconds: float) -> bool:
        """Let the clocks go on as the next entry says, and this wait be over; None ends the process."""
        assert seconds == TICK_SECONDS
        passing = self.waits.get()
        if passing is not None:
            self.passes(*passing)
        self.waits.task_done()
        return passing is None


@contextmanager
def ticking(*waits: Passing) -> Iterator[tuple[Machine, PauseDetector]]:
    """A detector that ticks through ``waits``, with a wait in time behind them, and then waits for the next one."""
    machine = Machine()
    detector = PauseDetector(machine, machine.wait)
    detector.set_mode(SamplingMode.CLOSE)
    for passing in (*waits, (TICK_SECONDS,) * 3):
        machine.waits.put(passing)
    machine.waits.join()
    try:
        yield machine, detector
    finally:
        machine.waits.put(None)


def late(seconds: float) -> Passing:
    """A wait that all clocks saw take so much longer than it should."""
    return (TICK_SECONDS + seconds,) * 3


@pytest.mark.parametrize(
    ("waits", "largest"),
    [
        pytest.param([late(0.0)] * 5, 0.0, id="in time"),
        pytest.param([late(0.0004), late(0.002), late(0.001)], 0.002, id="a little late"),
        pytest.param([late(0.0), late(2.0), late(5.5), late(1.0)], 5.5, id="the largest of several, not their sum"),
        pytest.param([(7.55, TICK_SECONDS, TICK_SECONDS)], 7.5, id="frozen with the clocks, then set right"),
        pytest.param([(TICK_SECONDS, TICK_SECONDS, 30.05)], 30.0, id="suspended"),
        pytest.param([(-3599.95, TICK_SECONDS, TICK_SECONDS), late(0.25)], 0.25, id="set back"),
        pytest.param([(3600.05, TICK_SECONDS, TICK_SECONDS)], 0.0, id="set forward by an hour"),
    ],
)
def test_what_ticks_see(waits: list[Passing], largest: float) -> None:
    """The largest gap between two ticks, by any clock, is returned once."""
    with ticking(*waits) as (_, detector):
        assert detector.take() == pytest.approx(largest, abs=0.0006)
        assert detector.take() == 0.0


def test_a_gap_that_is_not_over_for_the_ticks() -> None:
    """A call directly after a pause returns it, even before the next tick."""
    with ticking() as (machine, detector):
        machine.passes(3.0, 3.0, 3.0)
        assert detector.take() == pytest.approx(3.0 - TICK_SECONDS)


def test_a_wait_between_polls() -> None:
    """Without ticks a wait that takes longer than it should is noticed, and one that is cut short is nothing."""
    machine = Machine()
    passing: list[Passing] = [(1.0, 1.0, 1.0), (3.5, 3.5, 3.5), (0.25, 0.25, 0.25)]

    def wait(_: float) -> bool:
        machine.passes(*passing.pop(0))
        return not passing

    detector = PauseDetector(machine, wait)
    assert not detector.ticks
    assert [detector.wait(1.0) for _ in range(3)] == [False, False, True]
    assert detector.take() == 2.5
    assert detector.take() == 0.0


def test_a_wait_in_steps() -> None:
    """While an event of this VM is announced, a pause hides behind no more than a step of the wait for a poll."""
    machine = Machine()
    asked: list[float] = []

    def wait(seconds: float) -> bool:
        asked.append(seconds)
        # The pause of a second begins when three quarters of the second step are still to come.
        machine.passes(*(seconds if len(asked) != 2 else 0.25 * STEP_SECONDS + 1.0,) * 3)
        return False

    detector = PauseDetector(machine, wait)
    detector.set_mode(SamplingMode.ALERT)
    assert not detector.wait(4 * STEP_SECONDS)
    assert asked == [STEP_SECONDS] * 2, "then the poll is due"
    assert detector.take() == pytest.approx(1.0 - 0.75 * STEP_SECONDS, abs=0.001)
    assert not detector.wait(3 * STEP_SECONDS)
    assert asked[2:] == [STEP_SECONDS] * 3
    assert detector.take() == 0.0


@pytest.mark.parametrize("mode", [SamplingMode.ALERT, SamplingMode.CLOSE])
def test_clocks_that_come_apart_while_nobody_looks(mode: SamplingMode) -> None:
    """A wall clock that is corrected during a poll shows a pause during which all other clocks stopped."""
    ending = threading.Event()
    ending.set()  # nobody ticks
    machine = Machine()
    detector = PauseDetector(machine, ending.wait)
    detector.set_mode(mode)
    machine.passes(7.5 + 0.01, 0.01, 0.01)
    assert detector.take() == 7.5
    assert detector.take() == 0.0


def test_no_thread_without_a_reason() -> None:
    """Ticks cost a thread only from when they are wanted until they are not."""
    ending = threading.Event()
    detector = PauseDetector(system_clock(), ending.wait)

    others = set(threading.enumerate())  # those of other tests may end at any time

    def tickers() -> int:
        return len([thread for thread in set(threading.enumerate()) - others if thread.name == "pause-detector"])

    for _ in range(3):
        detector.set_mode(SamplingMode.CLOSE)
        detector.set_mode(SamplingMode.CLOSE)
        assert detector.ticks
        detector.set_mode(SamplingMode.REST)
        assert not detector.ticks
    detector.set_mode(SamplingMode.CLOSE)
    eventually(lambda: tickers() == 1, "one thread")
    ending.set()
    eventually(lambda: tickers() == 0, "no thread")
