"""Sends what is due to IMDS, and keeps operators' requests in the journal up to date.

Each request to IMDS is for one event, and each event has its turn (``approval.scheduler``), so that
one that IMDS refuses holds up no other. A request is sent by a thread of its own, so that polls go
on while IMDS does not answer.

Must not decide what is due (``approval.scheduler``), and not write events to the journal:
``polling.poller`` does, before the request and after its answer.
"""

import logging
import threading
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass, field

from azure_scheduled_events_exporter.core.approvals import mark_approved, mark_refused
from azure_scheduled_events_exporter.core.lifecycle import Approver, Change, Lifecycles
from azure_scheduled_events_exporter.core.timestamp import Timestamp
from azure_scheduled_events_exporter.errors import ImdsError, Outcome, OutdatedError
from azure_scheduled_events_exporter.imds.client import ImdsClient
from azure_scheduled_events_exporter.journal.content.inbox import ApprovalRequest
from azure_scheduled_events_exporter.journal.journal import Journal
from azure_scheduled_events_exporter.logs import facts

from .operator_requests import (
    UNKNOWN_RESULT,
    expired_unsent,
    had_no_effect,
    result_of,
    summary,
)
from .scheduler import ApprovalScheduler, Due

_CLOCK_STEP_SECONDS = 60.0
"""An operator's request is not valid before it was made, but a clock may be set back a little."""


@dataclass(frozen=True, slots=True)
class _Sent:
    """What was sent, and the result that its thread sets when IMDS has answered."""

    due: Due
    result: Future[None]


@dataclass(frozen=True, slots=True)
class Answer:
    """How a request that was sent has ended.

    Attributes:
        due: what was sent.
        error: why it failed; None if IMDS accepted it.
    """

    due: Due
    error: ImdsError | None


@dataclass(slots=True, eq=False)
class ApprovalSender:
    """Sends the approvals of one exporter, one request at a time.

    Attributes:
        scheduler: what is due; it has the policy, the statuses and the counts to show.
        client: sends requests to IMDS; nobody else uses it.
        journal: holds the operators' requests.
        timeout: of a request, in seconds.
        now: the clock of IMDS.
        machine_clock: this machine's clock, by which other processes date their requests.
    """

    scheduler: ApprovalScheduler
    client: ImdsClient
    journal: Journal
    timeout: float
    now: Callable[[], Timestamp]
    machine_clock: Callable[[], Timestamp]
    log: logging.Logger
    # What was sent, and whose answer has not been taken yet.
    _sent: _Sent | None = field(default=None, init=False)
    # How often IMDS throttled a request, by its number in the journal.
    _throttled: Counter[int] = field(default_factory=Counter, init=False)
    # The numbers of the requests that were not sent because their document was too old.
    _outdated: set[int] = field(default_factory=set, init=False)

    @property
    def is_waiting(self) -> bool:
        """Whether a request was sent to IMDS whose answer is not recorded yet."""
        return self._sent is not None

    def due(
        self,
        known: Lifecycles,
        shown: Collection[str],
        vm_name: str | None,
        *,
        is_name_confirmed: bool,
    ) -> Due | None:
        """Return what to send now; None while an answer is awaited, or if nothing is due.

        The operator's request that is returned is marked in the journal as sent. Requests that are
        not to be sent get their results there.

        Args:
            known: the known events.
            shown: the EventIds in the newest document. Others are not approved: they are known
                from earlier documents, and the newest one is unreadable in part.
            vm_name: this VM's name; None if it is unknown.
            is_name_confirmed: whether the VM name that the journal's events carry is certainly this
                VM's.
        """
        now = self.now()
        unanswered = None
        if self._sent is not None:
            unanswered = self._sent.due.request
        wanted = self._open_requests(self.machine_clock().wall, unanswered)
        due, results = self.scheduler.due(known, vm_name, wanted, now)
        # The request that is under way gets its result from IMDS' answer.
        results = {number: result for number, result in results.items() if number != unanswered}
        if results:
            self.journal.set_request_results(results)
        if self._sent is not None:
            return None
        for candidate in due:
            if candidate.life.event_id not in shown:
                continue
            if not is_name_confirmed and _depends_on_name(candidate):
                continue  # the journal may be another VM's
            if candidate.request is None or self.journal.mark_sent(candidate.request):
                return candidate
        return None

    def send(self, due: Due, asked_at: Timestamp) -> None:
        """Begin the request for ``due``; :meth:`answer` has its result.

        ``asked_at``: when the document was asked for on which :meth:`due` has decided.
        """
        self.log.info("approving", extra=_request_facts(due))
        future: Future[None] = Future()
        self._sent = _Sent(due, future)

        def document_age() -> float:
            """Return how many seconds ago the document was asked for, by the clock since boot."""
            return self.now().monotonic - asked_at.monotonic

        def request() -> None:
            """Send the request, and hand over its result. A thread runs this."""
            try:
                self.client.approve([due.life.event.sent_id], self.timeout, document_age)
                future.set_result(None)
            except Exception as error:  # noqa: BLE001 - the thread of the polls raises it again
                future.set_exception(error)

        try:
            threading.Thread(target=request, name="approval", daemon=True).start()
        except RuntimeError as error:  # such as at the limit of the unit's tasks
            reason = "cannot start a thread for the request"
            failure = ImdsError(
                Outcome.CONNECTION_ERROR, reason, str(error), may_have_arrived=False
            )
            future.set_exception(failure)

    def answer(self, seconds: float = 0.0) -> Answer | None:
        """Return the answer to the request that was sent; None without one within ``seconds``.

        An answer is returned once.

        Raises:
            Stopped: the process is to end.
        """
        if self._sent is None:
            return None
        due = self._sent.due
        if not wait([self._sent.result], seconds).done:
            return None
        error = self._sent.result.exception()
        self._sent = None
        if error is None:
            self.scheduler.accepted(due)
            self.log.info("approval accepted", extra=_request_facts(due))
            return Answer(due, None)
        if not isinstance(error, ImdsError):
            raise error
        if isinstance(error, OutdatedError):
            self.scheduler.outdated(due, error)
        else:
            throttled = error.outcome is Outcome.THROTTLED
            self.scheduler.failed(due, self.now(), is_refusal=error.is_refusal, throttled=throttled)
        self.log.warning(summary(error), extra=_request_facts(due, error=error))
        return Answer(due, error)

    def store_result(self, due: Due, error: ImdsError | None) -> None:
        """Write the result of an operator's request to the journal.

        Call it after the event's change was written.
        """
        if due.request is None:
            return
        if isinstance(error, OutdatedError):
            self._outdated.add(due.request)
            self.journal.set_request_results({due.request: None})  # it waits for a newer document
        elif error is not None and error.outcome is Outcome.THROTTLED:
            # IMDS did not look at it: it is sent again.
            self._throttled[due.request] += 1
            self.journal.set_request_results({due.request: None})
        else:
            self.journal.set_request_results({due.request: result_of(due.life, error)})

    def _open_requests(self, wall: float, unanswered: int | None) -> list[ApprovalRequest]:
        """Return the operators' requests that are valid; write the results of the expired ones.

        Args:
            wall: the time now, by this machine's clock.
            unanswered: the number of the request that awaits an answer, which does not expire; None
                if no request awaits one, or if it is that of a rule.
        """
        requests = self.journal.inbox.requests
        expired = []
        for request in requests:
            is_valid = request.created - _CLOCK_STEP_SECONDS <= wall <= request.expires
            if not is_valid and request.number != unanswered:
                expired.append(request.number)
        if expired:
            # The journal keeps the first result of a request. So the first call is for requests
            # that were not sent, and the second one for the rest: an earlier run of the exporter
            # sent those, and nobody saw the answer.
            unsent = {
                number: expired_unsent(
                    self._throttled[number], is_outdated=number in self._outdated
                )
                for number in expired
            }
            self.journal.set_request_results(unsent, if_unsent=True)
            self.journal.set_request_results(dict.fromkeys(expired, UNKNOWN_RESULT))
        return [request for request in requests if request.number not in expired]


def _depends_on_name(due: Due) -> bool:
    """Return whether a request is right only if the journal has the name of this VM.

    It is a request of the policy for an event that was observed with a name of this VM. Operators
    and hooks have chosen the event themselves.
    """
    return due.approver is Approver.EXPORTER and due.life.vm_name is not None


def answered(
    known: Lifecycles, due: Due, error: ImdsError | None, now: Timestamp
) -> tuple[Lifecycles, Sequence[Change]]:
    """Return the known events after IMDS' answer to a request, and the changes. Pure.

    Without an answer, an event stays marked as requested: an early start means that the request was
    accepted.
    """
    if error is None:
        return mark_approved(
            known, due.life.event_id, due.approver, now, as_sent=due.life, who=due.who
        )
    # ``due.life`` is from before this request. IMDS may have accepted an earlier one unanswered.
    has_earlier_request = due.life.request is not None
    if had_no_effect(error) and not has_earlier_request:
        return mark_refused(known, due.life.event_id), ()
    return known, ()


def _request_facts(due: Due, **more: object) -> dict[str, Mapping[str, object]]:
    """Return the log fields of a request: operator or rule, event with its type, and VMs."""
    return facts(
        event_id=due.life.event_id,
        event_type=due.life.event.event_type,
        approved_by=due.approver,
        who=due.who,
        resources=",".join(due.life.event.resources),
        **more,
    )
