"""This machine's clock."""

import sys
import time
from functools import partial
from pathlib import Path

import pytest

from azure_scheduled_events_exporter.polling.clock import system_clock

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
    wall, monotonic = time.time(), since_boot()
    now = system_clock()()
    assert wall <= now.wall <= time.time()
    assert monotonic <= now.monotonic <= since_boot()


@pytest.mark.parametrize("platform", [sys.platform] if BOOT_ID.exists() else [])
def test_the_boot(platform: str) -> None:
    """On Linux the boot is known by the kernel's id of it, and its moment lies in the past and
    stays where it is.
    """
    clock = system_clock()
    booted = clock().booted_at
    assert booted is not None, platform
    assert booted.boot_id == BOOT_ID.read_text().strip()
    again = clock().booted_at
    assert again is not None
    assert abs(again.wall - booted.wall) < 5.0
    uptime = float(Path("/proc/uptime").read_text().split()[0])
    assert abs(time.time() - uptime - booted.wall) < 60.0
