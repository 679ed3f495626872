"""Sends what is due to IMDS, and keeps operators' requests in the journal up to date.

Must not decide what is due (``approval.scheduler``), and not write events to the journal: it returns how a request and
its answer change them, and ``polling.poller`` writes that before the request and after it.
"""

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from azure_scheduled_events_exporter.core.lifecycle import Approver, Change, Lifecycles
from azure_scheduled_events_exporter.core.requests import mark_approved, mark_refused, mark_requested
from azure_scheduled_events_exporter.core.timestamp import Timestamp
from azure_scheduled_events_exporter.errors import ImdsError, Outcome
from azure_scheduled_events_exporter.imds.client import ImdsClient
from azure_scheduled_events_exporter.journal.approval_requests import ApprovalRequest
from azure_scheduled_events_exporter.journal.journal import Journal
from azure_scheduled_events_exporter.logs import facts

from .scheduler import ACCEPTED, NO_ANSWER, UNKNOWN_RESULT, ApprovalScheduler, Due

_REFUSED = "approval refused"
_CLOCK_STEP_SECONDS = 60.0
"""An operator's request is not valid before it was made, but a clock may be set back a little."""


@dataclass(frozen=True, slots=True)
class Answer:
    """How IMDS answered a request to approve events.

    Attributes:
        error: why it did not accept; None if it did.
        again: whether operators' requests are sent again, unless they are withdrawn.
    """

    error: ImdsError | None = None
    again: bool = False

    @property
    def is_refusal(self) -> bool:
        """Whether IMDS answered and did not accept. If it did not answer, it may have accepted."""
        return self.error is not None and self.error.status != 0

    def result(self, one: Due) -> str:
        """Return the result of an operator's request that was sent."""
        if self.error is None:
            return ACCEPTED
        if not self.is_refusal:
            return f"{NO_ANSWER}: {self.error}"
        if _has_no_answer(one):
            return f"{NO_ANSWER} earlier, then refused: {self.error}"
        return f"{_REFUSED}: {self.error}"


class ApprovalSender:
    """Sends the approvals of one exporter, all that are due in one request.

    Args:
        scheduler: what policy and operators want approved.
        client: sends requests to IMDS.
        journal: holds the operators' requests.
        timeout: of a request, in seconds.
        now: returns the time.
        log: where requests and answers are logged.
    """

    def __init__(
        self,
        scheduler: ApprovalScheduler,
        client: ImdsClient,
        journal: Journal,
        timeout: float,
        now: Callable[[], Timestamp],
        log: logging.Logger,
    ) -> None:
        self.scheduler = scheduler
        self._client = client
        self._journal = journal
        self._timeout = timeout
        self._now = now
        self._log = log

    def due(self, known: Lifecycles, shown: Collection[str], vm_name: str | None, *, names_hold: bool) -> list[Due]:
        """Return what to send now, with the operators' requests marked as sent in the journal.

        Args:
            known: the current events.
            shown: EventIds in the newest document; only these are approved. Others are kept current while it may be
                incomplete.
            vm_name: this VM's name, if it is known.
            names_hold: whether the names of this VM that the journal's events have are known to be this VM's.
        """
        now = self._now()
        due, results = self.scheduler.due(known, vm_name, self._open_requests(now.wall), now)
        if results:
            self._journal.set_request_results(results)
        due = [one for one in due if one.life.event_id in shown and (names_hold or not _is_by_name(one))]
        requests = _requests(due)
        standing = self._journal.mark_sent(requests, now.wall) if requests else set()
        return [one for one in due if one.request is None or one.request in standing]

    def send(self, due: Sequence[Due]) -> Answer:
        """Send one request for all of ``due``, and wait for the answer.

        Raises:
            Stopped: the process is to end.
        """
        self._log.info("approving", extra=_request_facts(due))
        try:
            self._client.approve([one.life.event.sent_id for one in due], self._timeout)
        except ImdsError as error:
            is_refusal, throttled = error.status != 0, error.outcome is Outcome.THROTTLED
            again = self.scheduler.failed(due, self._now(), is_refusal=is_refusal, throttled=throttled)
            self._log.warning(_REFUSED if is_refusal else NO_ANSWER, extra=_request_facts(due, error=error))
            return Answer(error, again)
        self.scheduler.accepted(due)
        self._log.info("approval accepted", extra=_request_facts(due))
        return Answer()

    def settle(self, due: Sequence[Due], answer: Answer) -> None:
        """Write the results of operators' requests to the journal. Call it when the events' changes are written."""
        if answer.again:
            self._journal.mark_sent(_requests(due), None)
        else:
            results = {one.request: answer.result(one) for one in due if one.request is not None}
            self._journal.set_request_results(results)

    def _open_requests(self, wall: float) -> list[ApprovalRequest]:
        """Return the operators' requests that are still valid; write "expired" as the result of the others."""
        requests = self._journal.open_requests()
        expired = [
            request.number
            for request in requests
            if not request.created - _CLOCK_STEP_SECONDS <= wall <= (request.expires or 0)
        ]
        if expired:
            self._journal.withdraw_requests(expired, "expired before it could be sent")
            self._journal.withdraw_requests(expired, UNKNOWN_RESULT, sent_too=True)
        return [request for request in requests if request.number not in expired]


def requested(known: Lifecycles, due: Sequence[Due], now: Timestamp) -> Lifecycles:
    """Return the known events with the approvals of ``due`` marked as requested."""
    for approver, event_ids in _by_approver(due).items():
        known = mark_requested(known, event_ids, approver, now)
    return known


def answered(
    known: Lifecycles, due: Sequence[Due], answer: Answer, now: Timestamp
) -> tuple[Lifecycles, Sequence[Change]]:
    """Return the known events after IMDS' answer, and the changes.

    Without an answer, an event stays marked as requested: an early start means that the request was accepted.
    """
    if answer.error is not None:
        refused = [one.life.event_id for one in due if not _has_no_answer(one)]
        return (mark_refused(known, refused) if answer.is_refusal else known), ()
    changes: list[Change] = []
    for approver, event_ids in _by_approver(due).items():
        known, new_changes = mark_approved(known, event_ids, approver, now)
        changes += new_changes
    return known, changes


def _is_by_name(due: Due) -> bool:
    """Return whether a policy decided with a name of this VM that the event has from the journal."""
    return due.approver is Approver.EXPORTER and due.life.vm_name is not None


def _has_no_answer(due: Due) -> bool:
    """Return whether an earlier request had no answer: it may have been accepted, even if IMDS refuses this one."""
    return due.life.requested_by is not None


def _requests(due: Sequence[Due]) -> list[int]:
    return [one.request for one in due if one.request is not None]


def _by_approver(due: Sequence[Due]) -> dict[Approver, list[str]]:
    """Return the EventIds that each approver approves."""
    return {who: [one.life.event_id for one in due if one.approver is who] for who in Approver}


def _request_facts(due: Sequence[Due], **more: object) -> dict[str, Mapping[str, object]]:
    """Return the log fields of a request: operator or rule, events, and VMs."""
    return facts(
        event_ids=",".join(one.life.event_id for one in due),
        approved_by=",".join(sorted({str(one.approver) for one in due})),
        who=",".join(sorted({one.who for one in due})),
        resources=",".join(dict.fromkeys(name for one in due for name in one.life.event.resources)),
        **more,
    )
