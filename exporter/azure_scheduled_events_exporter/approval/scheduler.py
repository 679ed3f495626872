"""Schedules approvals: what is due, when to retry after a refusal, and why an event is not approved.

Keeps the state that a policy must not have. Decides nothing about events (``approval.policy``) and sends nothing
(``approval.sender`` does).
"""

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from azure_scheduled_events_exporter.core.document import comparable_name
from azure_scheduled_events_exporter.core.lifecycle import Approver, Lifecycle, Lifecycles, State
from azure_scheduled_events_exporter.core.timestamp import Timestamp
from azure_scheduled_events_exporter.errors import printable
from azure_scheduled_events_exporter.journal.requests import ApprovalRequest
from azure_scheduled_events_exporter.logs import facts
from azure_scheduled_events_exporter.times import format_duration, iso_time

from .policy import BUILT_IN, OFF, Decision, Policy
from .policy_reload import ReloadingPolicy

ACCEPTED = "accepted"
"""The result of an operator's request that IMDS has accepted."""

NO_ANSWER = "approval without an answer"
"""How the result of an operator's request begins that IMDS did not answer: IMDS may have accepted it."""

UNCERTAIN_ANSWER = "approval without a certain answer"
"""The same if a server has answered that it failed, or with an unknown status."""

UNKNOWN_RESULT = "sent, but no result came: it may have been approved"
"""The result of an operator's request of which nobody saw how it ended."""

_STARTED = "it has started already"
_APPROVED = "it is approved already, by "
_ADVICE = "it is advice: nothing is scheduled, so there is nothing to approve"
_FIRST_RETRY_SECONDS = 1.0
_LAST_RETRY_SECONDS = 60.0
_SETTLING_SECONDS = 2.0
"""For how long no rule approves after the policy file has changed: it may be written only in part, and a rule that
still lacks its ``match`` matches every event of this VM. What is approved cannot be taken back."""


class ApprovalOutcome(StrEnum):
    """The outcome of a request to approve events.

    ``too_late`` counts requests that IMDS refused because none of their events waited any more: another approver was
    faster. ``dry_run`` counts events that a rule would have approved.
    """

    ACCEPTED = "accepted"
    REJECTED = "rejected"
    TOO_LATE = "too_late"
    ERROR = "error"
    DRY_RUN = "dry_run"


def no_requests() -> dict[ApprovalOutcome, int]:
    """Return the counts before the first request; dry runs and late requests are counted only where there are some."""
    return {
        outcome: 0 for outcome in ApprovalOutcome if outcome not in {ApprovalOutcome.DRY_RUN, ApprovalOutcome.TOO_LATE}
    }


@dataclass(frozen=True, slots=True)
class Due:
    """One event to approve now.

    Attributes:
        life: the event.
        approver: exporter or operator.
        who: the rule's name, or the operator's.
        request: the number of the operator's request; None for a rule.
    """

    life: Lifecycle
    approver: Approver
    who: str
    request: int | None = None


@dataclass(frozen=True, slots=True)
class ApprovalStatus:
    """Why an event is not approved yet, for people.

    Attributes:
        reason: one clause, such as ``held by rule 'failover first'``.
        due: when the policy approves it, seconds since the epoch, also if that has passed; None if it never does, or
            if the event begins earlier.
    """

    reason: str
    due: float | None = None


@dataclass(slots=True)
class _Retry:
    at: float
    wall: float
    pause: float
    throttled: bool


class ApprovalScheduler:
    """Collects what ``policy`` and operators want approved; after each failure of an event, its backoff doubles.

    Attributes:
        statuses: why events are not approved, by EventId; approved, started and unknown events are left out.
        policy: the policy's name, or ``file``.
        counts: requests so far, by outcome.
    """

    def __init__(self, policy: Policy, log: logging.Logger) -> None:
        self._reloading = ReloadingPolicy(policy, log)
        self._policy = policy
        self._log = log
        self._retries: dict[str, _Retry] = {}
        self._alone: set[int] = set()  # operators' requests that IMDS refused together with others, by number
        self._refused: list[frozenset[str]] = []  # EventIds of refused requests, until the next document says why
        self._settled_at = 0.0
        self._logged: dict[str, str] = {}  # what was logged last of an event that is not approved, by EventId
        self.statuses: dict[str, ApprovalStatus] = {}
        self.policy = policy.name if policy is BUILT_IN.get(policy.name) else "file"
        self.counts = no_requests()
        self._count_dry_runs()

    def due(
        self,
        known: Lifecycles,
        vm_name: str | None,
        requests: Sequence[ApprovalRequest],
        now: Timestamp,
        server_time: float | None = None,
    ) -> tuple[list[Due], dict[int, str]]:
        """Return what to approve now, and results for operators' requests that are not sent to IMDS.

        ``server_time`` is the time by the clock of IMDS, Unix seconds, if it is known.
        """
        clock_error = 0.0 if server_time is None else now.wall - server_time
        self._reload(now)
        current = known.current
        self._count_refusals(known)
        self._retries = {name: retry for name, retry in self._retries.items() if name in current}
        self._logged = {name: said for name, said in self._logged.items() if name in current}
        self._alone &= {request.number for request in requests}
        self.statuses = {}
        due: dict[str, Due] = {}
        results: dict[int, str] = {}
        for request in requests:
            life = current.get(request.event_id.upper())
            result = _needs_no_request(life, request)
            if life is None or result:
                results[request.number] = result
                continue
            self.statuses[life.event_id] = ApprovalStatus(f"queued: requested by operator {request.operator}")
            if self._may_send_for_operator(life, now):
                due.setdefault(life.event_id, Due(life, Approver.OPERATOR, request.operator, request.number))
        for life in current.values():
            if life.state is State.ADVISORY:
                self.statuses[life.event_id] = ApprovalStatus(_ADVICE)
            elif life.event_id not in self.statuses and life.is_open_to_approval:
                rule = self._decide(life, vm_name, now, clock_error)
                if rule is not None and now.monotonic >= self._settled_at:
                    due[life.event_id] = Due(life, Approver.EXPORTER, rule)
        return list(due.values()), results

    def accepted(self, approved: Sequence[Due]) -> None:
        """Count an accepted request, and forget the failures of its events."""
        self.counts[ApprovalOutcome.ACCEPTED] += 1
        for one in approved:
            self._retries.pop(one.life.event_id, None)
            self.statuses.pop(one.life.event_id, None)

    def failed(self, attempted: Sequence[Due], now: Timestamp, *, is_refusal: bool, throttled: bool = False) -> bool:
        """Count a request that IMDS refused or did not answer, and schedule the retry; ``throttled`` means a 429.

        Return whether operators' requests are sent again: after a 429, because IMDS looked at none of them, and each
        alone after a refusal of several events, because one of these may be the reason.
        """
        if is_refusal and not throttled:
            self._refused.append(frozenset(one.life.event_id for one in attempted))
        else:
            self.counts[ApprovalOutcome.REJECTED if is_refusal else ApprovalOutcome.ERROR] += 1
        for one in attempted:
            before = self._retries.get(one.life.event_id)
            pause = _FIRST_RETRY_SECONDS if before is None else min(before.pause * 2, _LAST_RETRY_SECONDS)
            self._retries[one.life.event_id] = _Retry(now.monotonic + pause, now.wall + pause, pause, throttled)
        refused_together = is_refusal and not throttled and len(attempted) > 1
        if refused_together:
            self._alone.update(one.request for one in attempted if one.request is not None)
        return throttled or refused_together

    def _count_refusals(self, known: Lifecycles) -> None:
        """Count the refused requests, now that a document shows whether their events still wait for an approval."""
        for event_ids in self._refused:
            waits = any(life.is_open_to_approval for life in known.current.values() if life.event_id in event_ids)
            outcome = ApprovalOutcome.REJECTED if waits else ApprovalOutcome.TOO_LATE
            self.counts[outcome] = self.counts.get(outcome, 0) + 1
            if not waits:
                self._log.info(
                    "refused approval was too late: its events have started or are gone",
                    extra=facts(event_ids=",".join(sorted(event_ids))),
                )
        self._refused.clear()

    def _reload(self, now: Timestamp) -> None:
        """Apply the rules of a changed policy file; their decisions are logged again."""
        policy = self._reloading.current()
        if self._reloading.has_changed:
            self._settled_at = now.monotonic + _SETTLING_SECONDS
        if policy is not self._policy:
            self._policy = policy
            self._logged.clear()
            self._count_dry_runs()

    def _count_dry_runs(self) -> None:
        if any(rule.dry_run for rule in self._policy.rules):
            self.counts.setdefault(ApprovalOutcome.DRY_RUN, 0)

    def _decide(self, life: Lifecycle, vm_name: str | None, now: Timestamp, clock_error: float) -> str | None:
        """Return the name of the rule that approves ``life`` now, if any; else record and log why not."""
        decision = self._policy.decide(life, vm_name, now, clock_error)
        retry = self._retries.get(life.event_id)
        reason, kind = self._reason(life, decision, retry)
        approves = decision.approve and not decision.dry_run
        self.statuses[life.event_id] = ApprovalStatus(reason, None if decision.dry_run else decision.due)
        if approves and retry is None:
            return decision.rule
        is_new = self._log_once(life, decision, reason, kind)
        if decision.approve and decision.dry_run:
            self.counts[ApprovalOutcome.DRY_RUN] += is_new
        return decision.rule if approves and retry is not None and now.monotonic >= retry.at else None

    def _reason(self, life: Lifecycle, decision: Decision, retry: _Retry | None) -> tuple[str, str]:
        """Return why ``life`` is not approved, for people, and the part whose change is logged."""
        rule = f"rule '{decision.rule}'"
        if not decision.rule:
            return self._without_rule(life, decision.obstacle)
        if decision.due is None and not decision.obstacle:
            return f"held by {rule}", f"held {rule}"
        if decision.due is None:
            return decision.obstacle, decision.obstacle
        if decision.dry_run:
            when = "now" if decision.approve else f"at {iso_time(decision.due)}"
            return f"{rule} would approve it {when} (dry run)", f"dry run {rule} {decision.approve}"
        return self._until_sent(decision, decision.due, retry)

    def _until_sent(self, decision: Decision, due: float, retry: _Retry | None) -> tuple[str, str]:
        rule = f"rule '{decision.rule}'"
        if retry is not None:
            why = "IMDS throttles" if retry.throttled else "IMDS has not accepted the request of"
            return f"backing off: {why} {rule}; next try at {iso_time(retry.wall)}", f"backing off {rule}"
        if decision.approve:
            return f"due now by {rule}", f"due {rule}"
        waits = "waiting for its turn" if decision.turn else "waiting"
        return f"{waits}: {rule} approves it at {iso_time(due)} if nobody else has", f"{waits} {rule}"

    def _without_rule(self, life: Lifecycle, obstacle: str) -> tuple[str, str]:
        if self._policy is OFF:
            reason = "the approval policy is off"
        elif life.state is not State.SCHEDULED:
            reason = "its status is not known, so no rule decides"
        elif obstacle:
            reason = obstacle
        else:
            reason = "no rule matches it"
        return f"{reason}; without approval it begins at NotBefore", reason

    def _log_once(self, life: Lifecycle, decision: Decision, reason: str, kind: str) -> bool:
        """Log why an event is not approved, if that has changed; return whether it has."""
        if self._logged.get(life.event_id) == kind or self._policy is OFF:
            return False
        self._logged[life.event_id] = kind
        resources = ",".join(life.event.resources)
        message = "approval held back" if decision.rule and not decision.approve else "event not approved"
        if decision.approve and decision.dry_run:
            message = "approval in a dry run: nothing is sent"
        rule = {"rule": decision.rule} if decision.rule else {}
        self._log.info(message, extra=facts(event_id=life.event_id, **rule, resources=resources, reason=reason))
        return True

    def _may_send_for_operator(self, life: Lifecycle, now: Timestamp) -> bool:
        """Return whether an operator's request may be sent: it skips the policy's backoff, except after a 429."""
        retry = self._retries.get(life.event_id)
        return retry is None or not retry.throttled or now.monotonic >= retry.at - retry.pause + _FIRST_RETRY_SECONDS

    def together(self, due: list[Due]) -> list[Due]:
        """Return what to send in one request: all, or a single one that was refused before.

        IMDS may refuse a whole request for one bad id.
        """
        return [one for one in due if not self._is_sent_alone(one)] or due[:1]

    def _is_sent_alone(self, due: Due) -> bool:
        return due.life.event_id in self._retries if due.request is None else due.request in self._alone


def is_approved(result: str) -> bool:
    """Return whether ``result`` of an operator's request means that the event is approved or has started."""
    return result in {ACCEPTED, _STARTED} or result.startswith(_APPROVED)


def may_be_approved(result: str) -> bool:
    """Return whether IMDS may have accepted the operator's request with this ``result`` without anybody seeing it."""
    return result == UNKNOWN_RESULT or result.startswith((NO_ANSWER, UNCERTAIN_ANSWER))


def _needs_no_request(life: Lifecycle | None, request: ApprovalRequest) -> str:
    """Return why an operator's request is not sent; ``""`` if it is sent."""
    if life is None:
        return "not current: IMDS shows no such event"
    if life.state is State.STARTED:
        return _STARTED
    if not life.is_open_to_approval:
        return f"not approved: {_ADVICE}" if life.state is State.ADVISORY else f"{_APPROVED}{life.approved_by}"
    for name, shown, now in _changed(life, request):
        return f"not approved: {name} was {shown} when you confirmed and is {now} now; look at it and approve again"
    if added := _added(life, request):
        return f"not approved: Resources also has {printable(', '.join(added))} now; look at it and approve again"
    return ""


def _changed(life: Lifecycle, request: ApprovalRequest) -> Iterator[tuple[str, str, str]]:
    """Yield each field that is not as the operator saw it: its name, its value then, and its value now."""
    event = life.event
    if request.not_before is not None and life.not_before != request.not_before:
        yield "NotBefore", iso_time(request.not_before), _shown(life.not_before, iso_time)
    if request.event_type is None:
        return
    if event.event_type != request.event_type:
        yield "EventType", printable(request.event_type) or "unknown", printable(event.event_type) or "unknown"
    if event.duration_seconds != request.duration:
        before, now = _shown(request.duration, format_duration), _shown(event.duration_seconds, format_duration)
        yield "DurationInSeconds", before, now


def _shown(value: float | None, write: Callable[[float], str]) -> str:
    return "unknown" if value is None else write(value)


def _added(life: Lifecycle, request: ApprovalRequest) -> list[str]:
    """Return the VMs of the event that the operator has not seen."""
    if request.resources is None:
        return []
    shown = set(map(comparable_name, request.resources))
    return [name for name in life.event.resources if comparable_name(name) not in shown]
