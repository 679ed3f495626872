"""How long this VM stood still: from what its clocks say to a pause.

Pure: ``polling.clock`` reads the clocks, ``polling.pause_detector`` decides when, and ``core.lifecycle`` decides which
events a pause belongs to.

Theory of operation. Whoever stands still cannot time it. But a program that means to look at the clocks again at a
certain moment, and does so late, was kept from running. Which clock shows by how much depends on what stood still:

- only this process (stopped, or no CPU for it): all clocks went on, the monotonic one too;
- the VM, suspended: the monotonic clock stood still as well, the one since boot went on;
- the VM, frozen from outside: its clocks may all have stood still, until time synchronization sets the wall clock
  right, seconds later. That step forward is as long as the pause.

So the clock that got furthest tells. Over a reboot only the wall clock goes on.
"""

from dataclasses import dataclass
from enum import Enum, auto
from typing import NamedTuple

NOISE_SECONDS = 0.1
"""A shorter gap is noise of a busy machine, not a pause."""

WALL_TRUSTED_SECONDS = 900.0
"""A longer step of the wall clock alone is no pause, but a clock that was set: no Freeze takes a quarter of an hour."""


class Evidence(Enum):
    """What a pause is known by."""

    WHOLE = auto()  # this process watched all the time that it speaks of
    PART = auto()  # some of that time went unwatched: there may have been a longer one
    BOOT = auto()  # the VM has booted in between


@dataclass(frozen=True, slots=True)
class Pause:
    """How many seconds this VM stood still at most in a certain time, to the millisecond, and how that is known."""

    seconds: float
    evidence: Evidence


class ClockSample(NamedTuple):
    """What the clocks of this machine say at one moment, in seconds. A tuple, since every poll makes some.

    Attributes:
        wall: since the epoch; may be set at any time.
        monotonic: may stand still while the machine is suspended or frozen.
        since_boot: goes on while the machine is suspended; equals ``monotonic`` where there is no such clock.
        boot_id: which boot the last two belong to; ``""`` when not known.
    """

    wall: float
    monotonic: float
    since_boot: float
    boot_id: str = ""

    def after(self, seconds: float) -> "ClockSample":
        """Return what the clocks will say ``seconds`` later if nothing stands still."""
        return ClockSample(self.wall + seconds, self.monotonic + seconds, self.since_boot + seconds, self.boot_id)


def gap(due: ClockSample, now: ClockSample) -> float:
    """Return by how many seconds ``now`` is later than ``due``, by the clock that got furthest; 0 if it is not.

    A wall clock that is set back is passed over, and so is one that is set forward by more than
    :data:`WALL_TRUSTED_SECONDS`.
    """
    late = max(0.0, now.monotonic - due.monotonic, now.since_boot - due.since_boot)
    by_wall = now.wall - due.wall
    return max(late, by_wall) if by_wall - late <= WALL_TRUSTED_SECONDS else late


def between_runs(last: ClockSample, first: ClockSample) -> Pause | None:
    """Return the pause between the ``last`` sign of life of one process and the ``first`` one of the next.

    None if nobody can know: after a reboot only the wall clock tells, and it has gone back. Within one boot the time
    that no process ran is none: only what stood still for the clocks themselves counts.
    """
    if _is_another_boot(last, first):
        return Pause(round(first.wall - last.wall, 3), Evidence.BOOT) if first.wall > last.wall else None
    return Pause(round(gap(last.after(first.monotonic - last.monotonic), first), 3), Evidence.PART)


def _is_another_boot(last: ClockSample, first: ClockSample) -> bool:
    if last.boot_id and first.boot_id:
        return last.boot_id != first.boot_id
    return first.since_boot < last.since_boot
