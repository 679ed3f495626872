"""Whether the poll loop hangs. Knows nothing of what a poll does."""

from .clock import Clock

HANGING_SECONDS = 30.0
"""A poll that is overdue by more than this hangs; a busy machine delays polls for less."""

HANGS = "the poll loop hangs"
"""The last words of the message that a poll hangs, by which ``doctor`` recognizes it."""


class Liveness:
    """Tells whether the poll loop hangs.

    The loop calls :meth:`expect` before each wait and each poll; another thread calls :meth:`look`.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._deadline = clock().monotonic  # when the next call of expect() is due
        self._was_overdue = False  # at the last look
        self.hangs = False
        """Whether the loop was more than :data:`HANGING_SECONDS` late at the last two looks."""

    def expect(self, seconds: float) -> None:
        """Expect the next call of this method within ``seconds``."""
        self._deadline = self._clock().monotonic + max(0.0, seconds)

    def overdue_seconds(self) -> float:
        """Return how long ago the next call of :meth:`expect` was due; less than 0 before that.

        A poll expects the whole time limit of its request, so an IMDS that does not answer makes
        nothing overdue.
        """
        return self._clock().monotonic - self._deadline

    def look(self) -> None:
        """Set :attr:`hangs`. Call it once a second.

        One look is not enough: just after a pause of the VM, the loop is overdue, but it goes on
        before the next look.
        """
        is_overdue = self.overdue_seconds() > HANGING_SECONDS
        self.hangs = is_overdue and self._was_overdue
        self._was_overdue = is_overdue
