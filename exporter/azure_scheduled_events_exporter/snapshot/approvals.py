"""Why events are not approved yet, and what became of the requests to approve them."""

from dataclasses import dataclass
from enum import StrEnum


@dataclass(frozen=True, slots=True)
class Decision:
    """The decision of a policy about one event now.

    Attributes:
        reason: one clause, for people: why it is not approved yet, or which rule approves it.
        due: when the rule approves it, seconds since the epoch, also if that has passed; None if
            never, as in a dry run, or if the event begins earlier.
        approve: whether to approve it now, or in a dry run to log that a rule would.
        rule: the name of the rule that decided; ``""`` when none matches.
        dry_run: whether to log only.
    """

    reason: str
    due: float | None = None
    approve: bool = False
    rule: str = ""
    dry_run: bool = False


class ApprovalOutcome(StrEnum):
    """The outcome of a request to approve an event.

    ``too_late`` counts requests that IMDS refused because their event did not wait any more:
    another approver was faster. ``dry_run`` counts events that a rule would have approved.
    """

    ACCEPTED = "accepted"
    REJECTED = "rejected"
    TOO_LATE = "too_late"
    ERROR = "error"
    DRY_RUN = "dry_run"


def no_requests() -> dict[ApprovalOutcome, int]:
    """Return the counts before the first request.

    Outcomes that are not here, dry runs and late requests, appear with the first of them.
    """
    return dict.fromkeys(
        (ApprovalOutcome.ACCEPTED, ApprovalOutcome.REJECTED, ApprovalOutcome.ERROR), 0
    )
