"""What a snapshot has about approvals: decisions of the policy, and outcomes of requests."""

from dataclasses import dataclass
from enum import StrEnum


@dataclass(frozen=True, slots=True)
class Decision:
    """The decision of a policy about one event at one moment.

    Attributes:
        reason: one clause, for people: why the event is not approved yet, or which rule approves
            it.
        due: when the rule approves it, seconds since the epoch; it may have passed. None if it
            never does, as in a dry run, or if the event begins earlier.
        approve: whether to approve the event now; in a dry run, whether to log that the rule would.
        rule: the name of the rule that decided; ``""`` when none matches.
        dry_run: whether the rule only logs what it would do.
    """

    reason: str
    due: float | None = None
    approve: bool = False
    rule: str = ""
    dry_run: bool = False


class ApprovalOutcome(StrEnum):
    """The outcome of a decision to approve an event: of its request, or why none was sent."""

    # IMDS has approved the event.
    ACCEPTED = "accepted"
    # IMDS has refused it.
    REJECTED = "rejected"
    # IMDS has refused it, because the event did not wait any more: another approver was faster.
    TOO_LATE = "too_late"
    # It was not sent, because the document on which it was decided had become too old.
    OUTDATED = "outdated"
    # There was no answer, or one that does not say what IMDS has done.
    ERROR = "error"
    # A rule would have approved the event.
    DRY_RUN = "dry_run"


def no_requests() -> dict[ApprovalOutcome, int]:
    """Return the counts before the first request.

    The outcomes ``too_late``, ``outdated`` and ``dry_run`` have no count until they first happen.
    """
    return dict.fromkeys(
        (ApprovalOutcome.ACCEPTED, ApprovalOutcome.REJECTED, ApprovalOutcome.ERROR), 0
    )
