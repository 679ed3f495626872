"""When to poll next. Knows nothing of what a poll does."""

import math

SLOWEST_SECONDS = 5.0
"""The longest interval while IMDS throttles: a Spot VM has 30 s of notice or less."""


class PollSchedule:
    """Schedules polls at a fixed rate, slower while IMDS throttles. Missed polls are skipped.

    Reads no clock: times are arguments, in seconds of the monotonic clock.

    Args:
        interval: the configured time between two polls.
        start: when the first poll is due.
        spacing: the shortest time between two requests at which the rate limiter holds none back.
            A shorter ``interval`` is extended to it: polls that are held back would come in bursts.
    """

    def __init__(self, interval: float, start: float, spacing: float = 0.0) -> None:
        self._interval = max(interval, spacing)
        self._factor = 1  # the interval is so many times longer, because IMDS throttles
        self.due = start
        """When the next poll is to begin."""

    def polled(self, now: float, *, throttled: bool) -> None:
        """Schedule the poll after one that ended at ``now``.

        If it was ``throttled`` (429), the interval is doubled, up to :data:`SLOWEST_SECONDS`. After
        any other result it is halved, down to the configured one.
        """
        if throttled:
            # If the configured interval is longer than SLOWEST_SECONDS already, it stays so.
            largest_factor = max(1, math.floor(SLOWEST_SECONDS / self._interval))
            self._factor = min(self._factor * 2, largest_factor)
        else:
            self._factor = max(1, self._factor // 2)
        self.due += self._interval * self._factor
        if self.due <= now:  # skip missed polls; stay at multiples of the configured interval
            missed = math.ceil((now - self.due) / self._interval)
            self.due += missed * self._interval

    def at_latest(self, then: float) -> None:
        """Schedule the next poll at ``then`` if it is due later; later polls follow from there."""
        self.due = min(self.due, then)
