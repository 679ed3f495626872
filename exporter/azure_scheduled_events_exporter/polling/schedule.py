"""When to poll next, and whether a poll hangs. Knows nothing of what a poll does."""

import math

from .clock import Clock

SLOWEST_SECONDS = 5.0
"""The longest interval while IMDS throttles: a Spot VM has 30 s of notice or less."""

HANGING_SECONDS = 30.0
"""A poll that is overdue by more than this hangs; a busy machine delays polls for less."""

HANGS = "the poll loop hangs"
"""The last words of the message that a poll hangs, by which ``doctor`` recognizes it."""


class PollSchedule:
    """Schedules polls at a fixed rate, slower while IMDS throttles. Missed polls are skipped.

    Reads no clock: times are arguments, in seconds of the monotonic clock.

    Args:
        interval: the configured time between two polls.
        start: when the first poll is due.
        spacing: the time between two requests that the rate limiter allows at an even rate. A
            shorter ``interval`` is extended to it: polls that the rate limiter holds back would
            come in bursts.
    """

    def __init__(self, interval: float, start: float, spacing: float = 0.0) -> None:
        self._interval = max(interval, spacing)
        self._factor = 1  # by which the interval is longer, because IMDS throttles
        self.due = start
        """When the next poll is to begin."""

    def polled(self, now: float, *, throttled: bool) -> None:
        """Schedule the poll after one that ended at ``now``.

        If it was ``throttled`` (429), the interval is doubled, up to :data:`SLOWEST_SECONDS`. After
        any other result it is halved, down to the configured one.
        """
        if throttled:
            # 1 if the configured interval is longer than SLOWEST_SECONDS.
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


class Liveness:
    """Tells whether the poll loop hangs.

    The loop calls :meth:`expect` before each wait and each poll; another thread calls :meth:`look`.
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
        """Expect the next call within ``seconds``.

        Return them, so that a call can stand in the argument of the wait that it is about.
        """
        self._deadline = self._clock().monotonic + max(0.0, seconds)
        return seconds

    def overdue_seconds(self) -> float:
        """Return how long ago the next call of :meth:`expect` was due; less than 0 before that.

        A poll expects the whole time limit of its request, so an IMDS that does not answer makes
        nothing overdue.
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
