"""Pauses of this VM: a real thread over clocks and waits of our own."""

import logging
import queue
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from azure_scheduled_events_exporter.core.lifecycle import Lifecycles
from azure_scheduled_events_exporter.core.pause import Pause
from azure_scheduled_events_exporter.core.timestamp import Timestamp
from azure_scheduled_events_exporter.journal.journal import Journal
from azure_scheduled_events_exporter.polling.cpu_quota import CpuQuota, own_quota
from azure_scheduled_events_exporter.polling.pauses import (
    TICK_SECONDS,
    Pauses,
)
from support.events.lives import SCHEDULED, Watch, at
from support.programs import eventually

Passing = tuple[float, float]
"""How far the wall clock and the one since boot get while somebody waits."""


def late(seconds: float) -> Passing:
    """Return a wait for a tick that took so much longer than it should, by both clocks."""
    taken = TICK_SECONDS + seconds
    return (taken, taken)


IN_TIME = late(0.0)
ROUNDING = 0.001
"""Pauses are rounded to milliseconds."""


@dataclass
class Machine:
    """Clocks that advance by a given time with every wait; waits return immediately."""

    moment: Timestamp = field(default_factory=lambda: Timestamp(1_700_000_000.0, 800.0, "boot-1"))
    waits: "queue.Queue[Passing]" = field(default_factory=queue.Queue)

    def now(self) -> Timestamp:
        """Return this moment."""
        return self.moment

    def since_boot(self) -> float:
        """Return the clock since boot."""
        return self.moment.monotonic

    def passes(self, wall: float, since_boot: float) -> None:
        """Advance the clocks."""
        self.moment = Timestamp(
            self.moment.wall + wall, self.moment.monotonic + since_boot, self.moment.boot_id
        )

    def sleep(self, seconds: float) -> None:
        """Let the clocks go on as the next entry says."""
        assert seconds == TICK_SECONDS
        self.passes(*self.waits.get())
        self.waits.task_done()


def own_event() -> Lifecycles:
    """Return an event of this VM."""
    watch = Watch()
    watch.sees(at(0), SCHEDULED)
    return watch.known


@pytest.fixture
def journal() -> Iterator[Journal]:
    """A journal in memory."""
    memory = Journal(None, 90 * 86400.0, logging.getLogger("tests.pauses"))
    yield memory
    memory.close()


@contextmanager
def ticking(journal: Journal, *waits: Passing) -> Iterator[tuple[Machine, Pauses]]:
    """Tick through ``waits`` and one more in time; then the thread waits for the tick after it."""
    machine = Machine()
    pauses = Pauses(machine.now, machine.since_boot, journal, machine.sleep)
    pauses.attend(own_event())
    for passing in (*waits, IN_TIME):
        machine.waits.put(passing)
    machine.waits.join()
    try:
        yield machine, pauses
    finally:
        pauses.attend(own_event(), is_last=True)
        machine.waits.put((0.0, 0.0))  # ends the wait, so that the thread ends


@pytest.mark.parametrize(
    ("waits", "largest"),
    [
        pytest.param([IN_TIME] * 5, 0.0, id="in time"),
        pytest.param([late(0.0004), late(0.002), late(0.001)], 0.002, id="a little late"),
        pytest.param(
            [IN_TIME, late(2.0), late(5.5), late(1.0)],
            5.5,
            id="the largest of several, not their sum",
        ),
        pytest.param(
            [(7.5 + TICK_SECONDS, TICK_SECONDS)], 7.5, id="frozen with the clocks, then set right"
        ),
        pytest.param([(-3600 + TICK_SECONDS, TICK_SECONDS), late(0.25)], 0.25, id="set back"),
        pytest.param([(3600 + TICK_SECONDS, TICK_SECONDS)], 0.0, id="set forward by an hour"),
    ],
)
def test_what_ticks_see(journal: Journal, waits: list[Passing], largest: float) -> None:
    """The largest gap between two ticks, by any clock, is returned once. So is a gap that no tick
    has seen yet.
    """
    with ticking(journal, *waits) as (machine, pauses):
        found = pauses.take()
        assert found is not None
        assert found.seconds == pytest.approx(largest, abs=ROUNDING)
        has_paused = found.seconds > 0
        assert (found.ended is not None) is has_paused
        assert pauses.take() == Pause(0.0), "it was returned before"
        machine.passes(3.0, 3.0)
        before_its_tick = pauses.take()
        assert before_its_tick is not None
        # A part of these 3 s, at most a tick, is the wait for the tick that is due.
        assert 3.0 - TICK_SECONDS - ROUNDING < before_its_tick.seconds < 3.0 + ROUNDING


def test_when_a_pause_ended(journal: Journal) -> None:
    """A pause that a tick sees has ended at that tick; one of the wall clock alone, at the poll."""
    with ticking(journal, IN_TIME, late(5.5), IN_TIME, IN_TIME) as (machine, pauses):
        found = pauses.take()
        assert found is not None
        assert found.ended is not None
        ticks_after_it = 3  # two of the waits above, and the one that `ticking` adds
        since_its_end = pytest.approx(ticks_after_it * TICK_SECONDS)
        assert machine.now().wall - found.ended.wall == since_its_end
        assert machine.now().monotonic - found.ended.monotonic == since_its_end
        machine.passes(7.5, 0.0)
        corrected = pauses.take()
        assert corrected is not None
        assert corrected.ended == machine.now()


@pytest.mark.parametrize(
    ("stopped", "seconds", "measured"),
    [
        pytest.param(380_000, 0.4, 0.02, id="the quota stopped the process"),
        pytest.param(700_000, 0.4, 0.0, id="the quota stopped its threads on two CPUs"),
        pytest.param(0, 0.4, 0.4, id="the quota stopped nothing, so the VM was paused"),
        pytest.param(900_000, 5.0, 5.0, id="no quota stops for so long"),
    ],
)
def test_a_cpu_quota_is_no_pause(
    stopped: int, seconds: float, measured: float, journal: Journal, tmp_path: Path
) -> None:
    """What the quota of the own cgroup stopped is not counted; a pause of the VM is.

    A tick is late by ``seconds``, and the kernel says that the quota has stopped threads for
    ``stopped`` microseconds since the tick before.
    """
    membership = tmp_path / "cgroup"
    membership.write_text("1:cpu:/other\n0::/system.slice/exporter\n")
    statistics = tmp_path / "system.slice" / "exporter" / "cpu.stat"
    statistics.parent.mkdir(parents=True)
    statistics.write_text("usage_usec 9\nnr_throttled 4\nthrottled_usec 1000000\n")
    quota = own_quota(tmp_path, membership)
    machine = Machine()
    pauses = Pauses(machine.now, machine.since_boot, journal, machine.sleep, quota)
    pauses.attend(own_event())
    statistics.write_text(f"usage_usec 9\nnr_throttled 5\nthrottled_usec {1_000_000 + stopped}\n")
    machine.passes(*late(seconds))
    found = pauses.take()  # which ticks itself: the thread still waits for its first tick
    pauses.attend(own_event(), is_last=True)
    machine.waits.put((0.0, 0.0))  # ends this wait, so that the thread ends
    assert found is not None
    assert found.seconds == pytest.approx(measured, abs=ROUNDING)


@pytest.mark.parametrize("membership", ["1:cpu:/\n", "0::/gone\n", ""])
def test_without_a_quota_that_can_be_read(membership: str, tmp_path: Path) -> None:
    """With version 1 of cgroups, or a file that is not there or is odd, nothing is known."""
    listed = tmp_path / "cgroup"
    assert own_quota(tmp_path, listed).stopped_since_last_call() == 0
    listed.write_text(membership)
    assert own_quota(tmp_path, listed).stopped_since_last_call() == 0
    odd = tmp_path / "cpu.stat"
    odd.write_text("throttled_usec many\n")
    assert CpuQuota(odd).stopped_since_last_call() == 0


def test_a_thread_only_while_this_vm_has_an_event(journal: Journal) -> None:
    """Without an event of this VM nothing is measured, and no thread runs."""
    others = set(threading.enumerate())  # those of other tests may end at any time
    clocks = Machine()  # they stand still; the thread really sleeps from tick to tick
    pauses = Pauses(clocks.now, clocks.since_boot, journal)

    def tickers() -> int:
        return len(
            [thread for thread in set(threading.enumerate()) - others if thread.name == "pauses"]
        )

    for _ in range(3):
        pauses.attend(own_event())
        pauses.attend(own_event())
        assert pauses.take() == Pause(0.0)
        pauses.attend(Lifecycles())
        assert pauses.take() is None
        eventually(lambda: tickers() == 0, "no thread")
    pauses.attend(own_event())
    eventually(lambda: tickers() == 1, "one thread")
    pauses.attend(own_event(), is_last=True)
    eventually(lambda: tickers() == 0, "no thread")
