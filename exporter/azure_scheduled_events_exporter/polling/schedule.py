"""When to poll next, and whether a poll hangs. Knows nothing of what a poll does."""

import math

from .clock import Clock

SLOWEST_SECONDS = 5.0
"""The longest interval while IMDS throttles: a Spot VM has 30 s of notice or less."""

HANGING_SECONDS = 30.0
"""A poll that is overdue by more than this hangs; a busy machine delays polls for less."""

HANGS = "the poll loop hangs"
"""The last words of the message that a poll hangs."""


class PollSchedule:
    """Schedules polls at a fixed rate, slower while IMDS throttles. Missed polls are skipped.

    Reads no clock: times are arguments, in seconds of the monotonic clock. The interval is never
    shorter than ``spacing``: polls that had to wait for the rate limiter would come in bursts.
    """

    def __init__(self, interval: float, start: float, spacing: float = 0.0) -> None:
        self._interval = max(interval, spacing)
        self._factor = 1
        self.due = start
        """When the next poll is to begin."""

    def polled(self, now: float, *, throttled: bool) -> None:
        """Schedule the poll after one that ended at ``now``.

        A 429 doubles the interval; any other answer halves it.
        """
        if throttled:
            slowest = max(1, math.floor(SLOWEST_SECONDS / self._interval))
            self._factor = min(self._factor * 2, slowest)
        else:
            self._factor = max(1, self._factor // 2)
        self.due += self._interval * self._factor
        if self.due <= now:  # keep the rate, skip missed polls
            missed = math.ceil((now - self.due) / self._interval)
            self.due += missed * self._interval

    def at_latest(self, then: float) -> None:
        """Schedule the next poll at ``then`` if it is due later; later polls follow from there."""
        self.due = min(self.due, then)


class Liveness:
    """Tells whether the poll loop hangs.

    The loop says how long it will wait; another thread looks if it is late.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._deadline = clock().monotonic
        self._was_overdue = False
        self.hangs = False
        """Whether the loop was overdue at the last two looks.

        Overdue is more than :data:`HANGING_SECONDS` late.
        """

    def expect(self, seconds: float) -> float:
        """Expect the loop to be back in ``seconds``; return them."""
        self._deadline = self._clock().monotonic + max(0.0, seconds)
        return seconds

    def overdue_seconds(self) -> float:
        """Return by how many seconds the loop exceeds its expected waits.

        It is at most 0 while polls run, even if IMDS does not answer.
        """
        return self._clock().monotonic - self._deadline

    def look(self) -> None:
        """Set :attr:`hangs`.

        Call it once a second. Just after a pause of the VM, the loop is overdue, but does not hang:
        it goes on before the next look.
        """
        is_overdue = self.overdue_seconds() > HANGING_SECONDS
        self.hangs = is_overdue and self._was_overdue
        self._was_overdue = is_overdue
