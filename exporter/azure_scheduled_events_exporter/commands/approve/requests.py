"""The requests of one command: queued in the journal, awaited, and withdrawn at its end.

When the command ends for any reason, requests that were not sent are withdrawn. After a SIGKILL,
they expire. Prints nothing before :func:`report`: until then, the command may have to be the
exporter of this VM, and a reader that stands still must not make it stay that.
"""

import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from azure_scheduled_events_exporter.approval.operator_requests import (
    UNKNOWN_RESULT,
    is_approved,
    may_be_approved,
    result_at_the_end,
)
from azure_scheduled_events_exporter.commands.interruption import Interrupted, ignore_signals
from azure_scheduled_events_exporter.commands.waiting import until
from azure_scheduled_events_exporter.config.settings import Config
from azure_scheduled_events_exporter.core.lifecycle import Approver, Lifecycle
from azure_scheduled_events_exporter.errors import ImdsError, printable
from azure_scheduled_events_exporter.imds.rate_limiter import RateLimiter
from azure_scheduled_events_exporter.journal.content.inbox import ApprovalRequest
from azure_scheduled_events_exporter.journal.disk.failures import FAILURES, reason
from azure_scheduled_events_exporter.journal.tables.store import Store
from azure_scheduled_events_exporter.standard_streams import say

from .exporter import ask_imds

_PATIENCE_SECONDS = 15.0
"""How long a request waits, beyond the exporter's next polls and the time of one request to IMDS.

The exporter looks for requests at every poll.
"""

_EXPIRED_SECONDS = 2.0
"""How long the exporter may take to write, at its next poll, why a request has expired."""

_IN_FLIGHT_SECONDS = 2.0
"""How long to wait at the end for a request that is being sent, beyond the time limit of IMDS."""

_WITHDRAWN = "withdrawn before it was sent"
"""The result of a request that this command withdraws."""

_MAY_BE_APPROVED = 3
"""The exit status if IMDS may have accepted: what was prepared for the event must stay so."""


@dataclass(frozen=True, slots=True)
class Asker:
    """Who asks for an approval: an operator's login name, or the name of a hook's script."""

    name: str
    kind: Approver


@dataclass(frozen=True, slots=True)
class Ended:
    """How the requests of a command ended.

    Attributes:
        results: by EventId; empty if a signal came before the requests were queued.
        failure_status: the exit status if an event is certainly not approved.
        failure: why the journal failed while the results were awaited; None if it did not.
    """

    results: Mapping[str, str]
    failure_status: int
    failure: Exception | None

    @property
    def exit_status(self) -> int:
        """The exit status of the command.

        It is 0 if all events are approved, and :data:`_MAY_BE_APPROVED` if that is uncertain for
        one. Otherwise it is that of the signal that ended the command, or 1.
        """
        if self.results and all(map(is_approved, self.results.values())):
            return 0
        if any(map(may_be_approved, self.results.values())):
            return _MAY_BE_APPROVED
        return self.failure_status


def request_approvals(
    store: Store, chosen: Sequence[Lifecycle], asker: Asker, config: Config
) -> Ended:
    """Queue requests, and wait for their results.

    Raises:
        ExporterError: too many requests wait, so none was queued.
        sqlite3.Error: the journal failed, and none was queued.
    """
    # One poll until the exporter finds the requests, and one for each event, because it sends one
    # request at a time.
    polls_seconds = config.poll_interval * (1 + len(chosen))
    patience = config.imds_timeout + polls_seconds + _PATIENCE_SECONDS
    created = time.time()
    numbers: list[int] = []
    failure_status = 1
    failure: Exception | None = None
    try:
        numbers = store.requests.add(
            ApprovalRequest(life, asker.name, created, created + patience, approver=asker.kind)
            for life in chosen
        )
        until(
            lambda: len(store.requests.results(numbers)) == len(numbers),
            time.monotonic() + patience + config.poll_interval + _EXPIRED_SECONDS,
        )
    except Interrupted as interrupted:
        failure_status = interrupted.exit_status
    except FAILURES as error:
        failure = error
    finally:
        # The exporter must not send an approval after this command has reported a failure, so no
        # signal may end the command before its requests are withdrawn.
        ignore_signals()
        seconds = config.imds_timeout + _IN_FLIGHT_SECONDS
        results = _results_at_the_end(store, chosen, numbers, created, seconds)
    if failure is not None and not results:  # nothing was queued
        raise failure
    return Ended(results, failure_status, failure)


def report(ended: Ended, config: Config) -> int:
    """Print the results; return the exit status."""
    for event_id, result in ended.results.items():
        say(printable(f"{event_id}: {result}"))
    if _WITHDRAWN in ended.results.values():
        _say_why(ended.failure, config)
    return ended.exit_status


def _say_why(failure: Exception | None, config: Config) -> None:
    """Report on standard error why a request was withdrawn.

    That is the ``failure`` of the journal. Without one, IMDS is asked once, to say why the exporter
    may not have sent the request.
    """
    with suppress(OSError):
        print(f"approve: {_why(failure, config)}", file=sys.stderr)


def _why(failure: Exception | None, config: Config) -> str:
    """Return why a request was withdrawn, as in :func:`_say_why`."""
    if failure is not None:
        return f"the journal failed, so the request was withdrawn: {reason(failure)}"
    try:
        ask_imds(config, RateLimiter(), config.imds_timeout)
    except ImdsError as error:
        why = str(error)
    else:
        why = (
            "its log, and 'doctor', say why: IMDS answers this command, but IMDS or the journal's"
            " disk may be slow"
        )
    return f"the running exporter did not send it: {why}"


def _results_at_the_end(
    store: Store, chosen: Sequence[Lifecycle], numbers: list[int], created: float, seconds: float
) -> Mapping[str, str]:
    """Withdraw what is open of the requests for ``chosen``; return all results, by EventId.

    There are none if nothing was queued. If the journal fails, they are :data:`UNKNOWN_RESULT`,
    with the reason: nobody knows what the exporter has sent, or will send until the requests
    expire. An approval that was read before that stays one.

    Args:
        store: the journal.
        chosen: the events.
        numbers: those of the requests; none if the queueing did not end.
        created: when the requests were made.
        seconds: how long to wait for those that are being sent.
    """
    queued = numbers
    written: Mapping[int, str] = {}
    try:
        queued = numbers or _numbers_queued_at(store, created)
        written = _withdraw_open(store, queued, seconds)
        current = store.current()
    except FAILURES as error:
        unknown = f"{UNKNOWN_RESULT} (the journal failed: {reason(error)})"
        results = {life.event_id: unknown for life in chosen}
        for life, number in zip(chosen, queued, strict=False):
            if is_approved(written.get(number, "")):
                results[life.event_id] = written[number]
        return results
    return {
        life.event_id: result_at_the_end(
            written.get(number, UNKNOWN_RESULT), current.get(life.event_id)
        )
        for life, number in zip(chosen, queued, strict=False)  # all are queued, or none
    }


def _numbers_queued_at(store: Store, created: float) -> list[int]:
    """Return the numbers of the open requests that this command queued at ``created``.

    For a signal that came between the queueing of the requests and the return of their numbers.
    """
    return [request.number for request in store.requests.open() if request.created == created]


def _withdraw_open(store: Store, numbers: Sequence[int], seconds: float) -> Mapping[int, str]:
    """Withdraw the requests that have no result; return the results of all, by their numbers.

    A request that is being sent cannot be withdrawn. Its result is awaited for at most so many
    ``seconds``; after that, it is unknown.
    """

    def all_have_results() -> bool:
        """Withdraw what can be withdrawn now; return whether nothing is being sent any more."""
        # At each call, because a request that is being sent waits again if IMDS throttles it. Not
        # if there is nothing to withdraw: then a disk that is full changes no result.
        if len(store.requests.results(numbers)) < len(numbers):
            store.requests.withdraw(numbers, _WITHDRAWN)
        return len(store.requests.results(numbers)) == len(numbers)

    if not until(all_have_results, time.monotonic() + seconds):
        store.requests.withdraw(numbers, UNKNOWN_RESULT, sent_too=True)
    return store.requests.results(numbers)
