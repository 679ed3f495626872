"""One export: what is sent to a collector, and what became of it.

Must not know how it is sent (``tracing.otlp``), or when (``tracing.delivery``).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, auto
from http import HTTPStatus
from typing import Protocol

from azure_scheduled_events_exporter.core.instance import Instance
from azure_scheduled_events_exporter.core.spans import SpanFacts

LONGEST_RETRY_AFTER = 300.0
"""For how many seconds a collector may ask to wait."""

REFUSALS = {
    HTTPStatus.BAD_REQUEST,
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
    HTTPStatus.UNPROCESSABLE_ENTITY,
}
"""Answers about the spans themselves.

Any other, such as 401 or 404, is about settings that somebody will correct.
"""

NO_FILE = "there is no file"
"""Part of the reason if nothing was sent because a file of a certificate or key is missing."""

WANTS_TLS = "the server takes TLS only"
"""Part of the reason if the server says so to a request without TLS."""


class ExportOutcome(Enum):
    """What became of a batch.

    A sender cannot tell which span of a batch is at fault, so it never says REFUSED:
    ``tracing.delivery`` makes that of a DIVISIBLE batch that has only one span.
    """

    ACCEPTED = auto()  # by the collector, except for the spans that its answer rejects
    REFUSED = auto()  # a single span that cannot be delivered: it is never sent again
    LATER = auto()  # no final answer: the same batch is sent again
    DIVISIBLE = auto()  # refused, too large, or impossible to encode: sent again in halves


@dataclass(frozen=True, slots=True)
class ExportResult:
    """The result of sending a batch.

    Attributes:
        outcome: what became of it.
        rejected: how many of its spans the collector rejected in an answer that accepts the others.
        unsampled: how many were not sent, because the configured sampler drops them.
        reason: for people; ``""`` when all is well.
        retry_after: seconds that the collector asks to wait.
    """

    outcome: ExportOutcome
    rejected: int = 0
    unsampled: int = 0
    reason: str = ""
    retry_after: float = 0.0

    @property
    def is_final(self) -> bool:
        """Whether the batch is not sent again."""
        return self.outcome in {ExportOutcome.ACCEPTED, ExportOutcome.REFUSED}

    def failed(self, spans: int) -> int:
        """Return how many of a batch of ``spans`` the collector has refused or rejected.

        It is never more than were sent, whatever number the collector claims.
        """
        sent = spans - self.unsampled
        if self.outcome is ExportOutcome.REFUSED:
            return sent
        rejected = max(0, self.rejected)
        return min(sent, rejected)


class Sender(Protocol):
    """Sends one batch and interprets the answer; never raises."""

    def send(
        self, spans: Sequence[SpanFacts], identity: Instance | None, timeout: float | None
    ) -> ExportResult:
        """Send ``spans`` of the VM ``identity``; give up after ``timeout`` seconds.

        If ``timeout`` is None, give up after the time that is configured.
        """
