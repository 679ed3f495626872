"""Operators' requests to approve events, with their results: a table of the journal.

``approve`` writes requests beside a running exporter, which sends them and writes their results. Knows SQL over one
connection; when to send is ``approval``'s. All methods raise sqlite3.Error.
"""

import sqlite3
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Final

from azure_scheduled_events_exporter.core.lifecycle import Lifecycle

_MARK_SENT: Final = "UPDATE approval_requests SET sent = ? WHERE number = ? AND result IS NULL"
_WITHDRAW: Final = "UPDATE approval_requests SET result = ? WHERE number = ? AND result IS NULL"
_SET_RESULT: Final = "UPDATE approval_requests SET result = ? WHERE number = ?"
_RESULTS: Final = "SELECT number, result FROM approval_requests WHERE result IS NOT NULL"


@dataclass(frozen=True, slots=True)
class ApprovalRequest:
    """An operator's request to approve an event. The fields are columns of ``approval_requests``.

    Attributes:
        number: identifies the request.
        event_id: upper case.
        operator: login name.
        created: Unix seconds.
        not_before: the NotBefore that the operator saw; the request is valid only for it. None if there was none.
        expires: Unix seconds after which the request is not sent.
        resources: the VMs that the operator saw; the request is not valid for others. In the journal, a text with one
            name a line.
        event_type: the type that the operator saw, with ``duration``, the announced impact in seconds (None for
            unknown); the request is not valid for others.
    """

    number: int
    event_id: str
    operator: str
    created: float
    not_before: float | None = None
    expires: float | None = None
    resources: tuple[str, ...] | None = None
    event_type: str | None = None
    duration: float | None = None


_COLUMNS: Final = ", ".join(column.name for column in fields(ApprovalRequest))
_INSERT: Final = f"INSERT INTO approval_requests ({_COLUMNS}) VALUES (NULL, ?, ?, ?, ?, ?, ?, ?, ?)"  # noqa: S608 - the names are this program's
_OPEN: Final = f"SELECT {_COLUMNS} FROM approval_requests WHERE result IS NULL ORDER BY number"  # noqa: S608 - as above


class ApprovalRequests:
    """The table ``approval_requests`` of the journal behind ``connection``."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._db = connection

    def add(self, lives: Iterable[Lifecycle], operator: str, created: float, expires: float) -> list[int]:
        """Queue an operator's requests to approve these events as they were shown; return their numbers."""
        rows = [
            (
                *(life.event_id, operator, created, life.not_before, expires, "\n".join(life.event.resources)),
                *(life.event.event_type, life.event.duration_seconds),
            )
            for life in lives
        ]
        with self._db:
            return [int(self._db.execute(_INSERT, row).lastrowid or 0) for row in rows]

    def open(self) -> list[ApprovalRequest]:
        """Return the requests without a result."""
        found = [ApprovalRequest(*row) for row in self._db.execute(_OPEN)]
        return [replace(each, resources=tuple(filter(None, str(each.resources).split("\n")))) for each in found]

    def mark_sent(self, numbers: Iterable[int], wall: float | None) -> set[int]:
        """Mark requests as sent (None: as not sent); return those that are not withdrawn."""
        with self._db:
            return {number for number in numbers if self._db.execute(_MARK_SENT, (wall, number)).rowcount}

    def withdraw(self, numbers: Iterable[int], result: str, *, sent_too: bool = False) -> None:
        """Write ``result`` to open requests, so that they are not sent; with ``sent_too``, also to those being sent."""
        sql = _WITHDRAW if sent_too else f"{_WITHDRAW} AND sent IS NULL"
        with self._db:
            self._db.executemany(sql, [(result, number) for number in numbers])

    def set_results(self, results: Mapping[int, str]) -> None:
        """Write the results of requests, by their numbers, in the caller's transaction."""
        self._db.executemany(_SET_RESULT, [(result, number) for number, result in results.items()])

    def results(self, numbers: Iterable[int]) -> dict[int, str]:
        """Return the results of those requests that have one."""
        wanted = set(numbers)
        return {number: result for number, result in self._db.execute(_RESULTS) if number in wanted}
