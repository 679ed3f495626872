"""The clocks: this machine's (wall clock, clock since boot, which boot it is), and that of IMDS.

Code that handles events reads the clocks only through a :data:`Clock` that it gets as an argument.
"""

import contextlib
import ctypes
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from azure_scheduled_events_exporter.core.timestamp import Timestamp

Clock = Callable[[], Timestamp]
"""Returns the current time; a test or a simulation may pass one of its own."""

AGREES_SECONDS = 1.5
"""Two clocks that differ by less agree: IMDS sends its time in whole seconds."""

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


def system_clock() -> Clock:
    """Return this machine's clock.

    The boot id is read once: it cannot change under a running process.
    """
    boot_id = _boot_id()
    monotonic = since_boot()
    return lambda: Timestamp(time.time(), monotonic(), boot_id)


def since_boot() -> Callable[[], float]:
    """Return a function that reads the clock since boot, or the monotonic clock if there is none.

    The clock since boot counts suspended time too.
    """
    return _clock_since_boot() or time.monotonic


class ImdsClock:
    """This machine's clock, with the wall clock corrected to that of IMDS.

    NotBefore is a time by the clock of IMDS, and the times of all VMs of a fleet are compared with
    each other. So kinds, countdowns, metrics and alerts use this clock, even if that of a VM is
    wrong. Before the first answer of IMDS, it is the machine's clock.
    """

    def __init__(self, machine: Clock) -> None:
        self._machine = machine
        self.offset = 0.0
        """Seconds that IMDS' clock is ahead of the machine's wall clock; 0 while they agree."""

    @property
    def machine_ahead(self) -> float:
        """Seconds that the machine's wall clock is ahead of IMDS'; 0 while they agree."""
        return 0.0 - self.offset  # not -self.offset, which would be -0.0 while they agree

    def __call__(self) -> Timestamp:
        """Return this moment."""
        now = self._machine()
        return Timestamp(now.wall + self.offset, now.monotonic, now.boot_id)

    def follow(self, recorded: Timestamp) -> None:
        """Take over the correction of another process of this VM, which recorded its time.

        For a command: it reads the moment ``recorded`` in the journal of the exporter. A moment of
        an earlier boot changes nothing.
        """
        now = self._machine()
        if recorded.boot_id == now.boot_id:
            self.offset = _correction(recorded.wall + now.since(recorded) - now.wall)

    def correct(self, imds_time: float | None) -> None:
        """Correct the clock to ``imds_time``, which IMDS has just sent in whole seconds.

        The offset changes only if it no longer agrees, so that times do not jump back and forth.
        None, if IMDS has sent no time, changes nothing.
        """
        if imds_time is None:
            return
        ahead = imds_time + 0.5 - self._machine().wall  # in the middle of its second
        if abs(ahead - self.offset) >= AGREES_SECONDS:
            self.offset = _correction(ahead)


def _correction(ahead: float) -> float:
    """Return the offset of a clock that is so many seconds ahead; 0 if the clocks agree."""
    if abs(ahead) < AGREES_SECONDS:
        return 0.0
    return ahead


def _boot_id() -> str:
    """Return which boot this is: random on Linux, elsewhere derived from the time of the boot.

    ``""`` where the system does not say it.
    """
    with contextlib.suppress(OSError):
        return _BOOT_ID.read_text(encoding="ascii").strip()
    read_clock = _clock_since_boot()
    if read_clock is None:
        return ""
    booted_at = time.time() - read_clock()
    # In steps of half a minute, because a correction of the wall clock moves this time. If it moves
    # over an edge between two steps, the next start of this process takes the boot for another one.
    return f"booted-{round(booted_at / 30)}"


def _clock_since_boot() -> Callable[[], float] | None:
    """Return a function that reads the clock since boot; None if this system has no such clock."""
    if sys.platform == "win32":
        # Not Python's monotonic clock: only in some versions does it count from boot.
        ticks = ctypes.windll.kernel32.GetTickCount64
        ticks.restype = ctypes.c_ulonglong
        return lambda: float(ticks()) / 1000  # it counts milliseconds
    if hasattr(time, "CLOCK_BOOTTIME"):
        return partial(time.clock_gettime, time.CLOCK_BOOTTIME)
    return None
