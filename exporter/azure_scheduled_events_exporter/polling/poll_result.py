"""The result of a poll, which the poller counts and publishes, and ``failure_log`` logs."""

from dataclasses import dataclass

from azure_scheduled_events_exporter.errors import ImdsError, Outcome


@dataclass(frozen=True, slots=True)
class PollResult:
    """How a poll ended.

    Attributes:
        outcome: OK, or what failed.
        reason: the part of ``failure`` that stays the same while the cause does; ``""`` if all is
            well.
        failure: what failed, for people; ``""`` likewise.
        has_read: whether a document was read, of which a part may be unreadable.
        bug: an error of this program, whose traceback is logged; None if the poll met none.
    """

    outcome: Outcome = Outcome.OK
    reason: str = ""
    failure: str = ""
    has_read: bool = False
    bug: Exception | None = None

    @property
    def is_partial(self) -> bool:
        """Whether a part of the document could not be read or used."""
        return self.has_read and self.outcome is not Outcome.OK

    @classmethod
    def failed(cls, error: ImdsError, *, has_read: bool) -> "PollResult":
        """Return the result of a poll that failed with ``error``."""
        return cls(error.outcome, error.reason, str(error), has_read)
