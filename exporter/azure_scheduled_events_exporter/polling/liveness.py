"""Whether the poll loop is on time, or hangs. Knows nothing of what a poll does."""

from .clock import Clock

HANGING_SECONDS = 30.0
"""A poll that is overdue by more than this hangs; a busy machine delays polls for less."""

HANGS = "the poll loop hangs"
"""The last words of the message that a poll hangs."""

CONFIRMING_SECONDS = 1.0
"""A poll must still be overdue so much later: after Azure paused the VM, it ends within that time."""


class Liveness:
    """When the poll loop should be back from what it waits for. One thread sets it; any thread may ask."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._deadline = clock().monotonic
        self._overdue_at: float | None = None  # when somebody first saw that the loop is overdue

    def expect(self, seconds: float) -> float:
        """Expect the loop to be back in ``seconds``; return them."""
        self._deadline = self._clock().monotonic + max(0.0, seconds)
        return seconds

    def overdue_seconds(self) -> float:
        """Return by how many seconds the loop exceeds its expected waits.

        It is at most 0 while polls run, even if IMDS does not answer. If it exceeds some seconds, the thread hangs.
        """
        return self._clock().monotonic - self._deadline

    def confirm_hang(self) -> bool:
        """Return whether the loop is overdue for too long, at this look and at one before; remember this look."""
        now, overdue_at = self._clock().monotonic, self._overdue_at
        if now - self._deadline <= HANGING_SECONDS:
            self._overdue_at = None
            return False
        if overdue_at is None:
            self._overdue_at = overdue_at = now
        return now - overdue_at >= CONFIRMING_SECONDS
