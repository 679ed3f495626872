"""The machine's clocks: the wall clock, the one since boot, and which boot this is.

Code that handles events reads the clocks only through a :class:`Clock` that it gets as an argument.
"""

import contextlib
import ctypes
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from azure_scheduled_events_exporter.core.timestamp import Timestamp

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


class Clock(Protocol):
    """Returns the current time; a test or a simulation may pass another implementation."""

    def now(self) -> Timestamp:
        """Return the current time."""

    def booted_at(self) -> Timestamp | None:
        """Return when this machine booted; None where the system does not say.

        It may move when the wall clock is corrected, so boots are distinguished by their id.
        """


@dataclass(frozen=True, slots=True)
class SystemClock:
    """The clocks of this machine.

    Attributes:
        boot_id: identifies the boot; random on Linux, elsewhere derived from the time of boot.
    """

    boot_id: str

    def now(self) -> Timestamp:
        """Return the current time."""
        seconds = _seconds_since_boot()
        return Timestamp(time.time(), time.monotonic() if seconds is None else seconds, self.boot_id)

    def booted_at(self) -> Timestamp | None:
        """Return when this machine booted, computed from the current wall clock."""
        seconds = _seconds_since_boot()
        return None if seconds is None else Timestamp(time.time() - seconds, 0.0, self.boot_id)


def system_clock() -> SystemClock:
    """Return this machine's clock. The boot id is read once: it cannot change under a running process."""
    with contextlib.suppress(OSError):
        return SystemClock(_BOOT_ID.read_text(encoding="ascii").strip())
    seconds = _seconds_since_boot()
    # Half-minute steps: the wall clock is corrected by less than that between two starts of this process.
    return SystemClock("" if seconds is None else f"booted-{round((time.time() - seconds) / 30)}")


def _seconds_since_boot() -> float | None:
    """By clocks that count suspended time too; None where neither of them is."""
    if sys.platform == "win32":
        # Not Python's monotonic clock: only in some versions does it count from boot.
        ticks = ctypes.windll.kernel32.GetTickCount64
        ticks.restype = ctypes.c_ulonglong
        return float(ticks()) / 1000
    return time.clock_gettime(time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else None
