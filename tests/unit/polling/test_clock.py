"""This machine's clocks."""

import sys
import time
from functools import partial
from pathlib import Path

import pytest

from azure_scheduled_events_exporter.polling.clock import SystemClock, system_clock

BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


def test_now_is_read_off_both_clocks() -> None:
    """A moment lies between the readings of both clocks before and after it; one of them counts suspended time."""
    since_boot = partial(time.clock_gettime, time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic
    wall, monotonic = time.time(), since_boot()
    now = SystemClock("boot-1").now()
    assert wall <= now.wall <= time.time()
    assert monotonic <= now.monotonic <= since_boot()
    assert now.boot_id == "boot-1"


@pytest.mark.parametrize(
    "expected", [BOOT_ID.read_text().strip()] if BOOT_ID.exists() else [], ids=["the kernel's own"]
)
def test_boot_id(expected: str) -> None:
    """On Linux the boot is known by the kernel's id of it."""
    assert system_clock().boot_id == expected


@pytest.mark.parametrize("platform", [sys.platform] if hasattr(time, "CLOCK_BOOTTIME") else [])
def test_booted_at(platform: str) -> None:
    """The moment of boot lies in the past, belongs to this boot, and stays where it is."""
    clock = system_clock()
    booted = clock.booted_at()
    assert booted is not None, platform
    assert booted.boot_id == clock.boot_id
    assert booted.wall < time.time()
    again = clock.booted_at()
    assert again is not None
    assert abs(again.wall - booted.wall) < 5.0
    uptime = float(Path("/proc/uptime").read_text().split()[0])
    assert abs(time.time() - uptime - booted.wall) < 60.0
