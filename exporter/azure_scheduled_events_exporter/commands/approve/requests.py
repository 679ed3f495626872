"""The requests of one command: queued in the journal, awaited, and withdrawn at its end.

When the command ends for any reason, requests that were not sent are withdrawn. After a SIGKILL,
they expire.
"""

import sys
import threading
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
from azure_scheduled_events_exporter.imds.api_versions import event_versions
from azure_scheduled_events_exporter.imds.client import ImdsClient
from azure_scheduled_events_exporter.imds.rate_limiter import RateLimiter
from azure_scheduled_events_exporter.journal.content.inbox import ApprovalRequest
from azure_scheduled_events_exporter.journal.tables.store import Store
from azure_scheduled_events_exporter.standard_streams import say

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


def request_approvals(
    store: Store, chosen: Sequence[Lifecycle], asker: Asker, config: Config
) -> int:
    """Queue requests, wait for their results, print them, and return the exit status.

    It is 0 if all events are approved, and :data:`_MAY_BE_APPROVED` if that is uncertain for one.
    Otherwise it is that of the signal that ended the command, or 1.
    """
    # One poll until the exporter finds the requests, and one for each event, because it sends one
    # request at a time.
    polls_seconds = config.poll_interval * (1 + len(chosen))
    patience = config.imds_timeout + polls_seconds + _PATIENCE_SECONDS
    created = time.time()
    numbers: list[int] = []
    failure_status = 1
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
    finally:
        # The exporter must not send an approval after this command has reported a failure, so no
        # signal may end the command before its requests are withdrawn.
        ignore_signals()
        if not numbers:
            numbers = _numbers_queued_at(store, created)
        results = _withdraw_open(store, numbers, config.imds_timeout + _IN_FLIGHT_SECONDS)
    current = store.current()
    final = []
    # There are no numbers if a signal came before the requests were queued.
    for life, number in zip(chosen, numbers, strict=False):
        written = results.get(number, UNKNOWN_RESULT)
        result = result_at_the_end(written, current.get(life.event_id))
        say(printable(f"{life.event_id}: {result}"))
        final.append(result)
    if _WITHDRAWN in final:
        _say_why(config)
    if final and all(map(is_approved, final)):
        return 0
    if any(map(may_be_approved, final)):
        return _MAY_BE_APPROVED
    return failure_status


def _say_why(config: Config) -> None:
    """Ask IMDS once, and report on standard error why the exporter may not have sent a request."""
    versions = event_versions(config.imds_api_version)
    wait = threading.Event().wait
    client = ImdsClient(config.imds_endpoint, versions, RateLimiter(), wait, config.imds_timeout)
    try:
        client.scheduled_events(config.imds_timeout)
    except ImdsError as error:
        reason = str(error)
    else:
        reason = "its log, and 'doctor', say why: IMDS answers this command"
    with suppress(OSError):
        print(f"approve: the running exporter did not send it: {reason}", file=sys.stderr)


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
        # At each call, because a request that is being sent waits again if IMDS throttles it.
        store.requests.withdraw(numbers, _WITHDRAWN)
        return len(store.requests.results(numbers)) == len(numbers)

    if not until(all_have_results, time.monotonic() + seconds):
        store.requests.withdraw(numbers, UNKNOWN_RESULT, sent_too=True)
    return store.requests.results(numbers)
