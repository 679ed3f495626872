"""Operators' requests to approve events, and the statements for their table in the journal.

``approve`` writes requests beside a running exporter, which sends them and writes their results. When to send is
``approval``'s.
"""

from dataclasses import dataclass
from typing import Final

from azure_scheduled_events_exporter.core.lifecycle import Lifecycle

INSERT: Final = "INSERT INTO approval_requests (created, request) VALUES (?, ?)"
OPEN: Final = "SELECT number, request FROM approval_requests WHERE result IS NULL ORDER BY number"
MARK_SENT: Final = "UPDATE approval_requests SET sent = ? WHERE number = ? AND result IS NULL"
SET_RESULT: Final = "UPDATE approval_requests SET result = ? WHERE number = ? AND result IS NULL"
SET_RESULT_IF_UNSENT: Final = f"{SET_RESULT} AND sent IS NULL"
UNMARK_SENT: Final = "UPDATE approval_requests SET sent = NULL WHERE number = ? AND result IS NULL"
RESULTS: Final = "SELECT number, result FROM approval_requests WHERE result IS NOT NULL"


@dataclass(frozen=True, slots=True)
class ApprovalRequest:
    """An operator's request to approve an event.

    Attributes:
        life: the event as the operator saw it; the request is not valid for a changed one.
        operator: login name.
        created: Unix seconds.
        expires: Unix seconds after which the request is not sent.
        number: identifies the request once it is queued.
    """

    life: Lifecycle
    operator: str
    created: float
    expires: float
    number: int = 0
