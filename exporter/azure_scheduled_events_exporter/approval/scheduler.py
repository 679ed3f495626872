"""Schedules approvals: what is due, when to retry, and why an event is not approved.

Keeps the state that a policy must not have. Decides nothing about events (``approval.policy``) and
sends nothing (``approval.sender`` does).
"""

import logging
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from azure_scheduled_events_exporter.core.lifecycle import Approver, Lifecycle, Lifecycles, State
from azure_scheduled_events_exporter.core.timestamp import Timestamp
from azure_scheduled_events_exporter.errors import OutdatedError
from azure_scheduled_events_exporter.journal.content.inbox import ApprovalRequest
from azure_scheduled_events_exporter.log_limits import Changes
from azure_scheduled_events_exporter.logs import facts
from azure_scheduled_events_exporter.snapshot.approvals import (
    ApprovalOutcome,
    Decision,
    no_requests,
)
from azure_scheduled_events_exporter.times import iso_time

from .operator_requests import NOTHING_SCHEDULED, result_without_sending
from .policy import Policy
from .policy_reload import ReloadingPolicy

_FIRST_RETRY_SECONDS = 1.0
"""Pause after the first failure of a request; each further failure doubles it."""

_LAST_RETRY_SECONDS = 60.0
"""The longest pause after a failure."""


@dataclass(frozen=True, slots=True)
class Due:
    """One event that may be approved now.

    Attributes:
        life: the event.
        approver: exporter, operator or hook.
        who: the name of the rule, of the operator or of the hook's script.
        request: the number of the request of an operator or a hook; None for a rule.
    """

    life: Lifecycle
    approver: Approver
    who: str
    request: int | None = None


@dataclass(frozen=True, slots=True)
class _Retry:
    """What a failed request for an event leaves behind.

    Attributes:
        at: when the last one failed.
        pause: how many seconds a rule waits before its next try. An operator waits less.
        throttled: whether IMDS answered 429.
    """

    at: Timestamp
    pause: float
    throttled: bool

    def is_older_than(self, seconds: float, now: Timestamp) -> bool:
        """Return whether at least ``seconds`` have passed since the failure."""
        return now.monotonic >= self.at.monotonic + seconds


class ApprovalScheduler:
    """Collects what the policy, operators and hooks want approved.

    It has the pause before the next try of each event whose request failed.

    Attributes:
        policy: has the policy in effect, which changes with its file.
        statuses: why each current event is not approved, by EventId; those that are approved or
            have started are left out.
        counts: requests so far, by outcome.
    """

    def __init__(self, policy: Policy, log: logging.Logger) -> None:
        self.policy = ReloadingPolicy(policy, log)
        self._logged_policy = policy
        self._log = log
        self._retries: dict[str, _Retry] = {}
        # EventId of a refused request. The next document shows whether the event still waits. There
        # is one at most, because a document is followed by at most one request.
        self._refused: str | None = None
        # The reasons that were logged last, by EventId.
        self._reasons = Changes()
        self.statuses: dict[str, Decision] = {}
        self.counts = no_requests()

    @property
    def policy_name(self) -> str:
        """The policy's name, or ``file``."""
        policy = self.policy.in_effect
        return policy.name if policy.is_built_in else "file"

    def due(
        self,
        known: Lifecycles,
        vm_name: str | None,
        requests: Sequence[ApprovalRequest],
        now: Timestamp,
    ) -> tuple[list[Due], dict[int, str]]:
        """Return what may be approved now, and results for operators' requests that are not sent.

        What operators and hooks requested comes first, in the order of ``requests``. What rules
        approve follows, in the order of ``known``. Within each of both, events whose last request
        failed come behind the others, and the one that failed last is the last. The sender takes at
        most one of them for each document, so no event holds up another one for long.

        The results are texts for people, by the numbers of the requests. Sets :attr:`statuses`.
        """
        self._count_refusal(known)
        self._forget_others(known.current)
        self.statuses = {}
        due, results = self._requested(known.current, requests, now)  # sets their statuses
        policy = self.policy.in_effect
        # So the series of dry runs exists before the first one.
        if any(rule.dry_run for rule in policy.rules):
            self.counts.setdefault(ApprovalOutcome.DRY_RUN, 0)
        for life in known.current.values():
            if life.state is State.ADVISORY:
                self.statuses[life.event_id] = Decision(NOTHING_SCHEDULED)
            elif life.event_id not in self.statuses and life.is_open_to_approval:
                decision = policy.decide(life, vm_name, now)
                if self._may_send_for_rule(life, decision, now):
                    due.append(Due(life, Approver.EXPORTER, decision.rule))
        due.sort(key=self._turn)
        return due, results

    def _turn(self, due: Due) -> tuple[bool, float]:
        """Return the place of ``due`` among all that is due: the lowest is sent first."""
        retry = self._retries.get(due.life.event_id)
        failed_at = -math.inf
        if retry is not None:
            failed_at = retry.at.monotonic
        return due.approver is Approver.EXPORTER, failed_at

    def _forget_others(self, current: Mapping[str, Lifecycle]) -> None:
        """Forget the failures and logged reasons of all events but ``current``.

        After a change of the policy, all logged reasons are forgotten, so that the new ones are
        logged.
        """
        self._retries = {
            event_id: retry for event_id, retry in self._retries.items() if event_id in current
        }
        policy = self.policy.in_effect
        if policy is self._logged_policy:
            self._reasons.keep(current)
        else:
            self._reasons.keep(())
        self._logged_policy = policy

    def _requested(
        self,
        current: Mapping[str, Lifecycle],
        requests: Sequence[ApprovalRequest],
        now: Timestamp,
    ) -> tuple[list[Due], dict[int, str]]:
        """Return what operators' and hooks' requests approve now, and the results of the others.

        The others are those that need not or must not be sent. A request that waits is in neither.
        Sets the status of each event that is requested. Of several requests for one event, the
        first is sent.
        """
        due: dict[str, Due] = {}
        results: dict[int, str] = {}
        for request in requests:
            life = current.get(request.life.event_id)
            result = result_without_sending(life, request)
            if life is None or result:
                results[request.number] = result
                continue
            asked = f"queued: requested by {request.approver} {request.operator}"
            self.statuses[life.event_id] = Decision(asked)
            if self._may_send_for_operator(life, now):
                approval = Due(life, request.approver, request.operator, request.number)
                due.setdefault(life.event_id, approval)
        return list(due.values()), results

    def accepted(self, approved: Due) -> None:
        """Count an accepted request, and forget the failures of its event."""
        self.counts[ApprovalOutcome.ACCEPTED] += 1
        self._retries.pop(approved.life.event_id, None)
        self.statuses.pop(approved.life.event_id, None)

    def outdated(self, unsent: Due, error: OutdatedError) -> None:
        """Count a request that was not sent, because its document had become too old.

        Nothing is scheduled: the next document decides again.
        """
        outcome = ApprovalOutcome.OUTDATED
        self.counts[outcome] = self.counts.get(outcome, 0) + 1
        event_id = unsent.life.event_id
        status = self.statuses.get(event_id)
        if status is not None:
            self.statuses[event_id] = replace(status, reason=f"not sent: {error}")

    def failed(
        self, attempted: Due, now: Timestamp, *, is_refusal: bool, throttled: bool = False
    ) -> None:
        """Count a request that failed, and schedule the retry.

        Args:
            attempted: the request.
            now: when it failed.
            is_refusal: whether IMDS answered that it has not approved the event.
            throttled: whether that answer was a 429.
        """
        event_id = attempted.life.event_id
        if not is_refusal:
            self.counts[ApprovalOutcome.ERROR] += 1
        elif throttled:
            # A 429 says nothing about the event, so it is never "too late".
            self.counts[ApprovalOutcome.REJECTED] += 1
        else:
            self._refused = event_id  # counted with the next document
        pause = _FIRST_RETRY_SECONDS
        before = self._retries.get(event_id)
        if before is not None:
            pause = min(before.pause * 2, _LAST_RETRY_SECONDS)
        self._retries[event_id] = _Retry(now, pause, throttled)

    def _count_refusal(self, known: Lifecycles) -> None:
        """Count the refused request: rejected if its event still waits, else too late."""
        if self._refused is None:
            return
        life = known.current.get(self._refused)
        outcome = ApprovalOutcome.REJECTED
        if life is None or not life.is_open_to_approval:
            outcome = ApprovalOutcome.TOO_LATE
            message = "refused approval was too late: its event has started or is gone"
            self._log.info(message, extra=facts(event_id=self._refused))
        self.counts[outcome] = self.counts.get(outcome, 0) + 1
        self._refused = None

    def _may_send_for_rule(self, life: Lifecycle, decision: Decision, now: Timestamp) -> bool:
        """Return whether a rule's request may be sent: not in a dry run, nor while it backs off.

        Sets the status of ``life``.
        """
        self.statuses[life.event_id] = decision
        if not decision.approve or decision.dry_run:
            self._log_unsent(life, decision)
            return False
        retry = self._retries.get(life.event_id)
        if retry is None:
            return True
        why = "IMDS has not accepted the request of"
        if retry.throttled:
            why = "IMDS throttles"
        again = f"next try at {iso_time(retry.at.wall + retry.pause)}"
        reason = f"backing off: {why} rule '{decision.rule}'; {again}"
        self.statuses[life.event_id] = replace(decision, reason=reason)
        return retry.is_older_than(retry.pause, now)

    def _log_unsent(self, life: Lifecycle, decision: Decision) -> None:
        """Log once for each reason why no request is sent; count a dry run with it."""
        if not self.policy.in_effect.rules:  # the policy is off: nobody expects an approval
            return
        if not self._reasons.is_new(life.event_id, decision.reason):
            return
        message = "event not approved"
        more = {"resources": ",".join(life.event.resources), "reason": decision.reason}
        if decision.rule:
            message = "approval held back"
            more = {"rule": decision.rule, **more}
        if decision.approve:  # and yet nothing is sent: it is a dry run
            message = "approval in a dry run: nothing is sent"
            self.counts[ApprovalOutcome.DRY_RUN] += 1
        self._log.info(message, extra=facts(event_id=life.event_id, **more))

    def _may_send_for_operator(self, life: Lifecycle, now: Timestamp) -> bool:
        """Return whether an operator's or a hook's request may be sent.

        It skips the policy's backoff, except after a 429.
        """
        retry = self._retries.get(life.event_id)
        if retry is None or not retry.throttled:
            return True
        return retry.is_older_than(_FIRST_RETRY_SECONDS, now)
