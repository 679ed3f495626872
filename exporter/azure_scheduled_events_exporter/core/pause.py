"""Computes from two moments how long this VM was paused in between.

Pure: ``polling.pauses`` decides when to read the clocks, and ``core.measurement`` which events a
pause belongs to.

Theory of operation. A paused program cannot time the pause. But if a program plans to read the
clocks at a certain time and reads them later, it was paused. Which clock shows the length depends
on what was paused:

- this process or the VM was suspended: the clock since boot advanced, which counts suspended time;
- the VM was frozen from outside: all its clocks may have stood still. Seconds later, time
  synchronization corrects the wall clock. That step forward is as long as the pause.

So the clock that advanced most gives the length. Across a reboot it is the wall clock, because the
clock since boot starts again at 0.
"""

from dataclasses import dataclass

from .timestamp import Timestamp

NOISE_SECONDS = 0.1
"""A shorter gap is noise of a busy machine: ``core.measurement`` counts it as no pause."""

WALL_TRUSTED_SECONDS = 900.0
"""If the wall clock alone advances by more than this, it was set: no Freeze takes 15 minutes."""


@dataclass(frozen=True, slots=True)
class Pause:
    """The longest pause of this VM in a period.

    Attributes:
        seconds: how long it was, to the millisecond; 0 if there was none.
        is_boot: whether the VM has booted in that period. Then the pause is the whole time until
            this process ran again.
        ended: when it was noticed: up to a poll after its end, or, if only time synchronization
            showed it, after the correction of the clock. None if there was no pause.
    """

    seconds: float
    is_boot: bool = False
    ended: Timestamp | None = None


def gap(before: Timestamp, now: Timestamp, planned: float) -> float:
    """Return by how many seconds ``now`` is later than ``planned`` seconds after ``before``.

    The result is never negative. Of both clocks, the one that advanced more counts. The wall clock
    is ignored if it was set back, or set forward by more than :data:`WALL_TRUSTED_SECONDS`.
    """
    late = max(0.0, now.monotonic - before.monotonic - planned)
    by_wall = now.wall - before.wall - planned
    if by_wall - late > WALL_TRUSTED_SECONDS:
        return late
    return max(late, by_wall)


def between_runs(last: Timestamp, first: Timestamp) -> Pause | None:
    """Return the pause between the ``last`` moment of a process and the ``first`` one of the next.

    None if it cannot be known: the VM rebooted and the wall clock went back. Within one boot, the
    first process may just have ended some time before the next one began. So only what the wall
    clock advanced more than the clock since boot is a pause.
    """
    if last.boot_id == first.boot_id:
        planned = first.monotonic - last.monotonic
        seconds = round(gap(last, first, planned), 3)
        if seconds == 0:
            return Pause(0.0)
        return Pause(seconds, ended=first)
    away = first.wall - last.wall
    if away <= 0:
        return None
    return Pause(round(away, 3), is_boot=True, ended=first)
