"""Computes from clock readings how long this VM was paused.

Pure: ``polling.clock`` reads the clocks, ``polling.pause_detector`` decides when, and ``core.observation`` decides
which events a pause belongs to.

Theory of operation. A paused program cannot time the pause. But if a program plans to read the clocks at a certain time
and reads them later, it was paused. Which clock shows the length depends on what was paused:

- only this process (stopped, or without CPU time): all clocks advanced, including the monotonic clock;
- the VM, suspended: the monotonic clock stopped, the clock since boot advanced;
- the VM, frozen from outside: all its clocks may have stopped. Seconds later, time synchronization corrects the wall
  clock. That step forward is as long as the pause.

So the clock that advanced most gives the length. Across a reboot, only the wall clock advances.
"""

from dataclasses import dataclass
from enum import Enum, auto
from typing import NamedTuple

NOISE_SECONDS = 0.1
"""A shorter gap is noise of a busy machine, not a pause."""

WALL_TRUSTED_SECONDS = 900.0
"""A longer step of only the wall clock is not a pause: the clock was set. No Freeze takes 15 minutes."""


class Evidence(Enum):
    """How a pause was measured."""

    WHOLE = auto()  # this process watched during the whole period
    PART = auto()  # part of the period was not watched: there may have been a longer pause
    BOOT = auto()  # the VM has booted in between


@dataclass(frozen=True, slots=True)
class Pause:
    """The longest pause of this VM in a period, in seconds to the millisecond, and how it was measured."""

    seconds: float
    evidence: Evidence


class ClockSample(NamedTuple):
    """The clocks of this machine at one moment, in seconds. A tuple, because every poll creates several.

    Attributes:
        wall: since the epoch; may be set at any time.
        monotonic: may stop while the machine is suspended or frozen.
        since_boot: advances while the machine is suspended; equals ``monotonic`` if there is no such clock.
        boot_id: which boot the last two belong to; ``""`` when not known.
    """

    wall: float
    monotonic: float
    since_boot: float
    boot_id: str = ""

    def after(self, seconds: float) -> "ClockSample":
        """Return the clocks ``seconds`` later if nothing is paused."""
        return ClockSample(self.wall + seconds, self.monotonic + seconds, self.since_boot + seconds, self.boot_id)


def gap(due: ClockSample, now: ClockSample) -> float:
    """Return by how many seconds ``now`` is later than ``due``, by the clock that advanced most; 0 if it is not later.

    The wall clock is ignored if it was set back, or set forward by more than
    :data:`WALL_TRUSTED_SECONDS`.
    """
    late = max(0.0, now.monotonic - due.monotonic, now.since_boot - due.since_boot)
    by_wall = now.wall - due.wall
    return max(late, by_wall) if by_wall - late <= WALL_TRUSTED_SECONDS else late


def between_runs(last: ClockSample, first: ClockSample) -> Pause | None:
    """Return the pause between the ``last`` clock sample of one process and the ``first`` one of the next.

    None if it cannot be known: the VM rebooted and the wall clock went back. Within one boot, time without a running
    process is not a pause: only a gap between the clocks counts.
    """
    if _is_another_boot(last, first):
        return Pause(round(first.wall - last.wall, 3), Evidence.BOOT) if first.wall > last.wall else None
    return Pause(round(gap(last.after(first.monotonic - last.monotonic), first), 3), Evidence.PART)


def _is_another_boot(last: ClockSample, first: ClockSample) -> bool:
    if last.boot_id and first.boot_id:
        return last.boot_id != first.boot_id
    return first.since_boot < last.since_boot
