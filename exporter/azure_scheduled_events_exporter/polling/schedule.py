"""Computes when to poll next.

Pure: times are arguments, in seconds of the monotonic clock.
"""

import math

SLOWEST_SECONDS = 5.0
"""The longest interval while IMDS throttles: a Spot VM has 30 s of notice or less."""


class PollSchedule:
    """Schedules polls at a fixed rate, slower while IMDS throttles. Missed polls are skipped.

    Two polls are never closer than ``spacing``: polls that had to wait for the rate limiter would come in bursts.
    """

    def __init__(self, interval: float, start: float, spacing: float = 0.0) -> None:
        self._interval = max(interval, spacing)
        self._due = start
        self._factor = 1

    @property
    def due(self) -> float:
        """When the next poll is to begin."""
        return self._due

    def polled(self, now: float, *, throttled: bool) -> None:
        """Take a poll that ended at ``now`` into account: a 429 doubles the interval, any other answer halves it."""
        slowest = max(1, math.floor(SLOWEST_SECONDS / self._interval))
        self._factor = min(self._factor * 2, slowest) if throttled else max(1, self._factor // 2)
        step = self._interval * self._factor
        self._due += step
        if self._due <= now:  # keep the rate, skip missed polls
            self._due += math.ceil((now - self._due) / self._interval) * self._interval

    def at_latest(self, then: float) -> None:
        """Schedule the next poll at ``then`` if it is due later; later polls follow from there."""
        self._due = min(self._due, then)
