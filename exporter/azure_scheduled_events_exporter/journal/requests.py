"""Operators' requests to approve events, with their results: a table of the journal.

``approve`` writes requests beside a running exporter, which sends them and writes their results. Knows SQL over one
connection; when to send is ``approval``'s. All methods raise sqlite3.Error.
"""

import sqlite3
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final

from azure_scheduled_events_exporter.core.lifecycle import Lifecycle

from .codec import decoded, encode

_INSERT: Final = "INSERT INTO approval_requests (created, request) VALUES (?, ?)"
_OPEN: Final = "SELECT number, request FROM approval_requests WHERE result IS NULL ORDER BY number"
MARK_SENT: Final = "UPDATE approval_requests SET sent = ? WHERE number = ? AND result IS NULL"
SET_RESULT: Final = "UPDATE approval_requests SET result = ? WHERE number = ? AND result IS NULL"
SET_RESULT_IF_UNSENT: Final = f"{SET_RESULT} AND sent IS NULL"
UNMARK_SENT: Final = "UPDATE approval_requests SET sent = NULL WHERE number = ? AND result IS NULL"
_RESULTS: Final = "SELECT number, result FROM approval_requests WHERE result IS NOT NULL"


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


class ApprovalRequests:
    """The table ``approval_requests`` of the journal behind ``connection``."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._db = connection

    def add(self, lives: Iterable[Lifecycle], operator: str, created: float, expires: float) -> list[int]:
        """Queue an operator's requests to approve these events as they were shown; return their numbers."""
        texts = [encode(ApprovalRequest(life, operator, created, expires)) for life in lives]
        with self._db:
            return [int(self._db.execute(_INSERT, (created, text)).lastrowid or 0) for text in texts]

    def open(self) -> list[ApprovalRequest]:
        """Return the requests without a result."""
        return [
            replace(request, number=number)
            for number, text in self._db.execute(_OPEN).fetchall()
            for request in decoded(ApprovalRequest, [text])
        ]

    def withdraw(self, numbers: Iterable[int], result: str, *, sent_too: bool = False) -> None:
        """Write ``result`` to open requests, so that they are not sent; with ``sent_too``, also to those being sent."""
        with self._db:
            statement = SET_RESULT if sent_too else SET_RESULT_IF_UNSENT
            self._db.executemany(statement, [(result, number) for number in numbers])

    def results(self, numbers: Iterable[int]) -> dict[int, str]:
        """Return the results of those requests that have one."""
        wanted = set(numbers)
        return {number: result for number, result in self._db.execute(_RESULTS) if number in wanted}
