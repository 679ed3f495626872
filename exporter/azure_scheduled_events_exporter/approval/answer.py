"""How a request to approve events, and the answer of IMDS, change the events and end operators' requests.

Pure. ``approval.sender`` sends the request, and ``polling.poller`` writes the changes to the journal.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from azure_scheduled_events_exporter.core.lifecycle import Approver, Change, Lifecycles
from azure_scheduled_events_exporter.core.requests import mark_approved, mark_refused, mark_requested
from azure_scheduled_events_exporter.core.timestamp import Timestamp
from azure_scheduled_events_exporter.errors import ImdsError

from .scheduler import ACCEPTED, NO_ANSWER, Due

REFUSED = "approval refused"
"""How the result of an operator's request begins that IMDS refused."""


@dataclass(frozen=True, slots=True)
class Answer:
    """How IMDS answered a request to approve events.

    Attributes:
        error: why it did not accept; None if it did.
        again: whether operators' requests are sent again, unless they are withdrawn.
    """

    error: ImdsError | None = None
    again: bool = False

    @property
    def is_refusal(self) -> bool:
        """Whether IMDS answered and did not accept. If it did not answer, it may have accepted."""
        return self.error is not None and self.error.status != 0

    def result(self, one: Due) -> str:
        """Return the result of an operator's request that was sent."""
        if self.error is None:
            return ACCEPTED
        if not self.is_refusal:
            return f"{NO_ANSWER}: {self.error}"
        if _has_no_answer(one):
            return f"{NO_ANSWER} earlier, then refused: {self.error}"
        return f"{REFUSED}: {self.error}"


def requested(known: Lifecycles, due: Sequence[Due], now: Timestamp) -> Lifecycles:
    """Return the known events with the approvals of ``due`` marked as requested."""
    for approver, event_ids in _by_approver(due).items():
        known = mark_requested(known, event_ids, approver, now)
    return known


def answered(
    known: Lifecycles, due: Sequence[Due], answer: Answer, now: Timestamp
) -> tuple[Lifecycles, Sequence[Change]]:
    """Return the known events after IMDS' answer, and the changes.

    Without an answer, an event stays marked as requested: an early start means that the request was accepted.
    """
    if answer.error is not None:
        refused = [one.life.event_id for one in due if not _has_no_answer(one)]
        return (mark_refused(known, refused) if answer.is_refusal else known), ()
    changes: list[Change] = []
    for approver, event_ids in _by_approver(due).items():
        known, new_changes = mark_approved(known, event_ids, approver, now)
        changes += new_changes
    return known, changes


def _has_no_answer(due: Due) -> bool:
    """Return whether an earlier request had no answer: it may have been accepted, even if IMDS refuses this one."""
    return due.life.requested_by is not None


def _by_approver(due: Sequence[Due]) -> dict[Approver, list[str]]:
    """Return the EventIds that each approver approves."""
    return {who: [one.life.event_id for one in due if one.approver is who] for who in Approver}
