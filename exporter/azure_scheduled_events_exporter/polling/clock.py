"""This machine's clocks: the wall clock, the one since boot, and which boot this is.

Code that handles events reads the clocks only through a :data:`Clock` that it gets as an argument.
"""

import contextlib
import ctypes
import sys
import time
from collections.abc import Callable
from pathlib import Path

from azure_scheduled_events_exporter.core.timestamp import Timestamp

Clock = Callable[[], Timestamp]
"""Returns the current time; a test or a simulation may pass one of its own."""

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


def system_clock() -> Clock:
    """Return this machine's clock.

    The boot id is read once: it cannot change under a running process.
    """
    boot_id = _boot_id()

    def now() -> Timestamp:
        seconds = _seconds_since_boot()
        return Timestamp(time.time(), time.monotonic() if seconds is None else seconds, boot_id)

    return now


def _boot_id() -> str:
    """Random on Linux, elsewhere derived from the time of boot; ``""`` where the system does not say it."""
    with contextlib.suppress(OSError):
        return _BOOT_ID.read_text(encoding="ascii").strip()
    seconds = _seconds_since_boot()
    # Half-minute steps: the wall clock is corrected by less than that between two starts of this
    # process.
    return "" if seconds is None else f"booted-{round((time.time() - seconds) / 30)}"


def _seconds_since_boot() -> float | None:
    """By clocks that count suspended time too; None where neither of them is."""
    if sys.platform == "win32":
        # Not Python's monotonic clock: only in some versions does it count from boot.
        ticks = ctypes.windll.kernel32.GetTickCount64
        ticks.restype = ctypes.c_ulonglong
        return float(ticks()) / 1000
    return time.clock_gettime(time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else None
