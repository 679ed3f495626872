"""How a request to approve events, and the answer of IMDS, change the events and end operators' requests.

Pure. ``approval.sender`` sends the request, and ``polling.poller`` writes the changes to the journal.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from azure_scheduled_events_exporter.core.approvals import mark_approved, mark_refused, mark_requested
from azure_scheduled_events_exporter.core.lifecycle import Approver, Change, Lifecycles
from azure_scheduled_events_exporter.core.timestamp import Timestamp
from azure_scheduled_events_exporter.errors import ImdsError

from .scheduler import ACCEPTED, NO_ANSWER, UNCERTAIN_ANSWER, Due

REFUSED = "approval refused"
"""How the result of an operator's request begins that IMDS refused."""

NOT_SENT = "approval not sent"
"""How the result of an operator's request begins if there was no connection to IMDS."""


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
    def is_not_accepted(self) -> bool:
        """Whether IMDS has not accepted for certain. If it got the request and answered neither way, it may have."""
        return self.error is not None and (self.error.is_refusal or not self.error.may_have_arrived)

    @property
    def summary(self) -> str:
        """How it ended, in a few words."""
        if self.error is None:
            return ACCEPTED
        if not self.is_not_accepted:
            return UNCERTAIN_ANSWER if self.error.status else NO_ANSWER
        return REFUSED if self.error.status else NOT_SENT

    def result(self, one: Due) -> str:
        """Return the result of an operator's request that was sent."""
        if self.error is None:
            return ACCEPTED
        if self.is_not_accepted and _has_no_answer(one):
            return f"{NO_ANSWER} earlier, then {self.summary.removeprefix('approval ')}: {self.error}"
        return f"{self.summary}: {self.error}"


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
        return (mark_refused(known, refused) if answer.is_not_accepted else known), ()
    changes: list[Change] = []
    sent_for = {one.life.event_id: one.life.not_before for one in due}
    for approver, event_ids in _by_approver(due).items():
        known, new_changes = mark_approved(known, event_ids, approver, now, sent_for)
        changes += new_changes
    return known, changes


def _has_no_answer(due: Due) -> bool:
    """Return whether an earlier request had no answer: it may have been accepted, even if IMDS refuses this one."""
    return due.life.request is not None


def _by_approver(due: Sequence[Due]) -> dict[Approver, list[str]]:
    """Return the EventIds that each approver approves."""
    return {who: [one.life.event_id for one in due if one.approver is who] for who in Approver}
