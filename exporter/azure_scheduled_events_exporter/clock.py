"""The machine's clocks: the wall clock, the monotonic clock, and which boot this is.

The only module that reads them for the core; everything else is handed a :class:`Clock`.
"""

import contextlib
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from .instant import Instant

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


@dataclass(frozen=True, slots=True)
class Clock:
    """The clocks of this boot.

    Attributes:
        boot_id: tells one boot from another; random on Linux, elsewhere made of the time of boot.
    """

    boot_id: str

    def now(self) -> Instant:
        """Return this moment."""
        return Instant(time.time(), time.monotonic(), self.boot_id)

    def booted_at(self) -> Instant | None:
        """Return when this machine booted; None where the system does not say.

        It is derived from the wall clock of now, so it moves when that is set right.
        """
        seconds = _seconds_since_boot()
        return None if seconds is None else Instant(time.time() - seconds, time.monotonic() - seconds, self.boot_id)


def system_clock() -> Clock:
    """Return this machine's clock. The boot id is read once: it cannot change under a running process."""
    with contextlib.suppress(OSError):
        return Clock(_BOOT_ID.read_text(encoding="ascii").strip())
    seconds = _seconds_since_boot()
    # Half-minute steps: the wall clock is corrected by less than that between two starts of this process.
    return Clock("" if seconds is None else f"booted-{round((time.time() - seconds) / 30)}")


def _seconds_since_boot() -> float | None:
    """CLOCK_BOOTTIME counts suspended time too; where it is missing, monotonic clocks count from boot on Windows."""
    if hasattr(time, "CLOCK_BOOTTIME"):
        return time.clock_gettime(time.CLOCK_BOOTTIME)
    return time.monotonic() if sys.platform == "win32" else None
