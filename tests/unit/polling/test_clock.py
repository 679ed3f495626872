"""This machine's clock."""

import time
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from azure_scheduled_events_exporter.core.timestamp import Timestamp
from azure_scheduled_events_exporter.polling.clock import ImdsClock, system_clock

BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


def test_now_is_read_off_both_clocks() -> None:
    """A moment lies between the readings of both clocks before and after it; one of them counts
    suspended time.
    """
    since_boot = (
        partial(time.clock_gettime, time.CLOCK_BOOTTIME)
        if hasattr(time, "CLOCK_BOOTTIME")
        else time.monotonic
    )
    wall = time.time()
    monotonic = since_boot()
    now = system_clock()()
    assert wall <= now.wall <= time.time()
    assert monotonic <= now.monotonic <= since_boot()


@pytest.mark.skipif(not BOOT_ID.exists(), reason="no Linux")
def test_the_boot() -> None:
    """On Linux a moment has the kernel's id of the boot, and when the boot was: as long ago as the
    kernel's uptime says, and at the same time at each look.
    """
    clock = system_clock()
    booted = clock().booted_at
    assert booted is not None
    assert booted.boot_id == BOOT_ID.read_text().strip()
    again = clock().booted_at
    assert again is not None
    assert abs(again.wall - booted.wall) < 5.0
    uptime = float(Path("/proc/uptime").read_text().split()[0])
    assert abs(time.time() - uptime - booted.wall) < 60.0


MACHINE = Timestamp(wall=1_700_000_000.0, monotonic=800.0, boot_id="boot")


@pytest.mark.parametrize(
    ("dates", "offset"),
    [
        pytest.param([0, -0.9], 0.0, id="agrees"),
        pytest.param([-1.9, 0.9], 0.0, id="within the whole seconds of the Date header"),
        pytest.param([1.25], 1.75, id="behind by little more than that"),
        pytest.param([-2.25], -1.75, id="ahead by little more than that"),
        pytest.param([300, 299.1, 301.4], 300.5, id="behind: the first answer stays"),
        pytest.param([-300, -300.9], -299.5, id="ahead"),
        pytest.param([300, -0.4], 0.0, id="set right in between"),
        pytest.param([300, None], 300.5, id="an answer without a Date"),
    ],
)
def test_the_clock_of_imds(dates: list[float | None], offset: float) -> None:
    """The wall clock is corrected if that of IMDS differs by over 1.5 s; the other clock is not.

    ``dates`` are the Date headers of answers, in seconds ahead of the machine's clock. A Date has
    whole seconds, so it stands for the middle of its second, half a second later.
    """
    clock = ImdsClock(lambda: MACHINE)
    for ahead in dates:
        clock.correct(None if ahead is None else MACHINE.wall + ahead)
    assert clock() == replace(MACHINE, wall=MACHINE.wall + offset)


def ten_minutes_ago(ahead: float, boot_id: str) -> Timestamp:
    """Return a moment of ten minutes ago, by a wall clock that is so many seconds ahead."""
    return Timestamp(MACHINE.wall - 600 + ahead, MACHINE.monotonic - 600, boot_id)


@pytest.mark.parametrize(
    ("recorded", "offset"),
    [
        pytest.param(ten_minutes_ago(3600.0, "boot"), 3600.0, id="an hour ahead"),
        pytest.param(ten_minutes_ago(1.0, "boot"), 0.0, id="agrees"),
        pytest.param(ten_minutes_ago(3600.0, "earlier"), 0.0, id="of an earlier boot"),
        pytest.param(Timestamp(MACHINE.wall + 3000.0), 0.0, id="of an unknown boot"),
    ],
)
def test_the_correction_of_another_process(recorded: Timestamp, offset: float) -> None:
    """A moment that another process recorded in this boot tells how far it corrected the clock."""
    clock = ImdsClock(lambda: MACHINE)
    clock.follow(recorded)
    assert clock() == replace(MACHINE, wall=MACHINE.wall + offset)
