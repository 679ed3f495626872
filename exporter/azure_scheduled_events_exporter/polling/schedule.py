"""When to poll next.

Pure: times are handed in, in seconds of the monotonic clock.
"""

import math

SLOWEST_SECONDS = 5.0
"""However throttled, ask at least this often: a Spot VM has 30 s."""


class PollSchedule:
    """When to poll: at a fixed rate, slower while IMDS throttles. Missed polls are skipped."""

    def __init__(self, interval: float, start: float) -> None:
        self._interval = interval
        self._due = start
        self._factor = 1

    @property
    def due(self) -> float:
        """When the next poll is to begin."""
        return self._due

    def polled(self, now: float, *, throttled: bool) -> None:
        """Take note of a poll that ended at ``now``: each 429 doubles the interval, each other answer halves it."""
        slowest = max(1, math.floor(SLOWEST_SECONDS / self._interval))
        self._factor = min(self._factor * 2, slowest) if throttled else max(1, self._factor // 2)
        step = self._interval * self._factor
        self._due += step
        if self._due <= now:  # keep the beat, drop what was missed
            self._due += math.ceil((now - self._due) / self._interval) * self._interval

    def at_once(self, now: float) -> None:
        """Poll next at ``now``, and from there on."""
        self._due = now
