"""Sends what is due to IMDS, and keeps operators' requests in the journal up to date.

A request has a thread of its own, so that polls go on while IMDS does not answer it.

Must not decide what is due (``approval.scheduler``), and not write events to the journal: ``polling.poller`` does,
before the request and after its answer (``approval.answer``).
"""

import logging
import threading
from collections.abc import Callable, Collection, Mapping, Sequence

from azure_scheduled_events_exporter.core.lifecycle import Approver, Lifecycles
from azure_scheduled_events_exporter.core.timestamp import Timestamp
from azure_scheduled_events_exporter.errors import ImdsError, Outcome
from azure_scheduled_events_exporter.imds.client import ImdsClient
from azure_scheduled_events_exporter.journal.journal import Journal
from azure_scheduled_events_exporter.journal.requests import ApprovalRequest
from azure_scheduled_events_exporter.logs import facts

from .answer import Answer
from .policy import Policy
from .scheduler import UNKNOWN_RESULT, ApprovalOutcome, ApprovalScheduler, ApprovalStatus, Due

_CLOCK_STEP_SECONDS = 60.0
"""An operator's request is not valid before it was made, but a clock may be set back a little."""


class ApprovalSender:
    """Sends the approvals of one exporter, all that are due in one request, one request at a time.

    Args:
        policy: which events to approve.
        client: sends requests to IMDS; nobody else uses it.
        journal: holds the operators' requests.
        timeout: of a request, in seconds.
        now: returns the time.
        log: where requests and answers are logged.
    """

    def __init__(
        self,
        policy: Policy,
        client: ImdsClient,
        journal: Journal,
        timeout: float,
        now: Callable[[], Timestamp],
        log: logging.Logger,
    ) -> None:
        self._scheduler = ApprovalScheduler(policy, log)
        self._client = client
        self._journal = journal
        self._timeout = timeout
        self._now = now
        self._log = log
        self._sent: _Sent | None = None  # the request whose answer has not been taken yet

    @property
    def policy(self) -> str:
        """The policy's name, or ``file``."""
        return self._scheduler.policy

    @property
    def is_waiting(self) -> bool:
        """Whether a request was sent to IMDS whose answer is not recorded yet."""
        return self._sent is not None

    @property
    def counts(self) -> dict[ApprovalOutcome, int]:
        """How many requests there were, by outcome."""
        return dict(self._scheduler.counts)

    @property
    def statuses(self) -> dict[str, ApprovalStatus]:
        """Why events are not approved, by EventId."""
        return dict(self._scheduler.statuses)

    def due(
        self,
        known: Lifecycles,
        shown: Collection[str],
        vm_name: str | None,
        *,
        is_name_confirmed: bool,
        server_time: float | None = None,
    ) -> list[Due]:
        """Return what to send now. Operators' requests are marked in the journal: as sent, or with the reason why not.

        Args:
            known: the current events.
            shown: EventIds in the newest document; only these are approved. Others are kept current while it may be
                incomplete.
            vm_name: this VM's name, if it is known.
            is_name_confirmed: whether the name of this VM in the journal's events is known to be its own.
            server_time: the time by the clock of IMDS, Unix seconds, if it is known.
        """
        now = self._now()
        wanted = self._open_requests(now.wall)
        due, results = self._scheduler.due(known, vm_name, wanted, now, server_time)
        results = {number: result for number, result in results.items() if number not in self._unanswered}
        if results:
            self._journal.set_request_results(results)
        if self._sent is not None:
            return []
        due = [one for one in due if one.life.event_id in shown and (is_name_confirmed or not _is_by_name(one))]
        due = self._scheduler.together(due)
        requests = _requests(due)
        standing = self._journal.mark_sent(requests, now.wall) if requests else set()
        return [one for one in due if one.request is None or one.request in standing]

    def send(self, due: Sequence[Due]) -> None:
        """Begin one request for all of ``due``; :meth:`answer` has its result."""
        self._log.info("approving", extra=_request_facts(due))
        self._sent = _Sent(due, self._client, self._timeout)

    def answer(self, wait: float = 0.0) -> tuple[Sequence[Due], Answer] | None:
        """Return what was sent and how IMDS answered, once; None if no answer has come within ``wait`` seconds.

        Raises:
            Stopped: the process is to end.
        """
        if self._sent is None or not self._sent.ended.wait(wait):
            return None
        due, error, self._sent = self._sent.due, self._sent.error, None
        if error is None:
            self._scheduler.accepted(due)
            self._log.info("approval accepted", extra=_request_facts(due))
            return due, Answer()
        if not isinstance(error, ImdsError):
            raise error
        throttled = error.outcome is Outcome.THROTTLED
        again = self._scheduler.failed(due, self._now(), is_refusal=error.is_refusal, throttled=throttled)
        answer = Answer(error, again)
        self._log.warning(answer.summary, extra=_request_facts(due, error=error))
        return due, answer

    def settle(self, due: Sequence[Due], answer: Answer) -> None:
        """Write the results of operators' requests to the journal. Call it when the events' changes are written."""
        if answer.again:
            self._journal.mark_sent(_requests(due), None)
        else:
            results = {one.request: answer.result(one) for one in due if one.request is not None}
            self._journal.set_request_results(results)

    @property
    def _unanswered(self) -> Collection[int]:
        """The numbers of the operators' requests that were sent to IMDS and have no answer yet."""
        return () if self._sent is None else _requests(self._sent.due)

    def _open_requests(self, wall: float) -> list[ApprovalRequest]:
        """Return the operators' requests that are still valid; write "expired" as the result of the others."""
        requests = self._journal.inbox.requests
        expired = [
            request.number
            for request in requests
            if not request.created - _CLOCK_STEP_SECONDS <= wall <= (request.expires or 0)
            and request.number not in self._unanswered
        ]
        if expired:
            self._journal.withdraw_requests(expired, "expired: it was not sent, or IMDS throttled each attempt")
            self._journal.withdraw_requests(expired, UNKNOWN_RESULT, sent_too=True)
        return [request for request in requests if request.number not in expired]


class _Sent:
    """A request to IMDS, in its own thread: ``ended`` is set when it is over, and ``error`` is why it failed."""

    def __init__(self, due: Sequence[Due], client: ImdsClient, timeout: float) -> None:
        self.due = due
        self.ended = threading.Event()
        self.error: Exception | None = None
        self._client = client
        self._timeout = timeout
        threading.Thread(target=self._send, name="approval", daemon=True).start()

    def _send(self) -> None:
        try:
            self._client.approve([one.life.event.sent_id for one in self.due], self._timeout)
        except Exception as error:  # noqa: BLE001 - the thread of the polls raises it again
            self.error = error
        self.ended.set()


def _is_by_name(due: Due) -> bool:
    """Return whether a policy approves this event because the journal names this VM as one that the event hits."""
    return due.approver is Approver.EXPORTER and due.life.vm_name is not None


def _requests(due: Sequence[Due]) -> list[int]:
    return [one.request for one in due if one.request is not None]


def _request_facts(due: Sequence[Due], **more: object) -> dict[str, Mapping[str, object]]:
    """Return the log fields of a request: operator or rule, events with their types, and VMs."""
    return facts(
        event_ids=",".join(one.life.event_id for one in due),
        event_types=",".join(one.life.event.event_type for one in due),
        approved_by=",".join(sorted({str(one.approver) for one in due})),
        who=",".join(sorted({one.who for one in due})),
        resources=",".join(dict.fromkeys(name for one in due for name in one.life.event.resources)),
        **more,
    )
