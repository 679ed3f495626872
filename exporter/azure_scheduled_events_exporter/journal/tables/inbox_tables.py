"""The tables that commands write and the exporter reads: approval requests, and runs of hooks.

SQL over one connection. Every method raises sqlite3.Error; one that writes is one transaction,
unless it says otherwise. Rows that another version of this program has written may not fit their
class: they are left out. Must not know when a request is sent (``approval``), or how a command is
run (``commands.hook``).
"""

import sqlite3
from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from azure_scheduled_events_exporter.errors import ExporterError
from azure_scheduled_events_exporter.journal.content.codec import decode_if_fits, encode
from azure_scheduled_events_exporter.journal.content.inbox import ApprovalRequest
from azure_scheduled_events_exporter.snapshot.hooks import HookRun

MOST_REQUESTS: Final = 1000
"""How many requests to approve may wait: as many as this VM may have events."""

_IS_OPEN: Final = "coalesce(result, '') = ''"
"""Whether a request has no result yet: it waits (NULL), or is being sent (the empty text)."""
_SET_IF_UNSENT: Final = (
    "UPDATE approval_requests SET result = ? WHERE number = ? AND result IS NULL"
)
_SET_RESULT: Final = f"UPDATE approval_requests SET result = ? WHERE number = ? AND {_IS_OPEN}"


class RequestTable:
    """Requests to approve events, with their results."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def add(self, requests: Iterable[ApprovalRequest]) -> list[int]:
        """Queue requests to approve events; return the numbers that they get.

        Raises:
            ExporterError: with them, more than :data:`MOST_REQUESTS` would wait; none is queued.
        """
        sql = "INSERT INTO approval_requests (created, request) VALUES (?, ?)"
        rows = [(request.created, encode(request)) for request in requests]
        with self._connection:
            numbers = [int(self._connection.execute(sql, row).lastrowid or 0) for row in rows]
            (waiting,) = self._connection.execute(
                f"SELECT count(*) FROM approval_requests WHERE {_IS_OPEN}"
            ).fetchone()
            if waiting > MOST_REQUESTS:
                # The error ends the transaction, so nothing is added.
                raise ExporterError(
                    f"{waiting - len(numbers)} requests to approve events wait in the journal, and"
                    f" it takes at most {MOST_REQUESTS}: name fewer events, or try again when the"
                    " exporter has sent them"
                )
        return numbers

    def open(self) -> list[ApprovalRequest]:
        """Return the requests without a result, the oldest :data:`MOST_REQUESTS` of them."""
        rows = self._connection.execute(
            f"SELECT number, request FROM approval_requests WHERE {_IS_OPEN}"
            " ORDER BY number LIMIT ?",
            (MOST_REQUESTS,),
        ).fetchall()
        found = []
        for number, text in rows:
            request = decode_if_fits(ApprovalRequest, text)
            if request is not None:
                found.append(replace(request, number=number))
        return found

    def all(self) -> list[tuple[ApprovalRequest, str]]:
        """Return all requests, the oldest first, each with its result; ``""`` while it has none."""
        rows = self._connection.execute(
            "SELECT request, coalesce(result, '') FROM approval_requests ORDER BY number"
        ).fetchall()
        found = []
        for text, result in rows:
            request = decode_if_fits(ApprovalRequest, text)
            if request is not None:
                found.append((request, str(result)))
        return found

    def withdraw(self, numbers: Iterable[int], result: str, *, sent_too: bool = False) -> None:
        """Write ``result`` to requests that wait, so that they are not sent.

        With ``sent_too``, also to those that are being sent.
        """
        statement = _SET_IF_UNSENT
        if sent_too:
            statement = _SET_RESULT
        with self._connection:
            self._connection.executemany(statement, [(result, number) for number in numbers])

    def results(self, numbers: Iterable[int]) -> dict[int, str]:
        """Return the results of those requests that have one, by their numbers."""
        results = dict(
            self._connection.execute(
                "SELECT number, result FROM approval_requests WHERE result <> ''"
            )
        )
        return {number: results[number] for number in numbers if number in results}

    def set_result(self, number: int, result: str | None, *, if_unsent: bool) -> None:
        """Write the result of an open request, within a transaction of the caller.

        The empty text says that the request is being sent, and None that it waits again. With
        ``if_unsent``, a request that is being sent stays as it is.
        """
        statement = _SET_RESULT
        if if_unsent:
            statement = _SET_IF_UNSENT
        self._connection.execute(statement, (result, number))


class HookRunTable:
    """Runs of hooks' commands."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def put(self, run: HookRun) -> None:
        """Write a run, new or changed; writing it again changes nothing."""
        row = (run.run, run.started, encode(run))
        with self._connection:
            self._connection.execute("REPLACE INTO hook_runs VALUES (?, ?, ?)", row)

    def all(self) -> list[HookRun]:
        """Return every run of a hook's command, the oldest first."""
        rows = self._connection.execute("SELECT content FROM hook_runs ORDER BY started").fetchall()
        runs = [decode_if_fits(HookRun, text) for (text,) in rows]
        return [run for run in runs if run is not None]
