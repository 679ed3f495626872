"""ApprovalScheduler on their way: what is due, what was refused and when to try again.

Keeps the memory that a policy must not have; decides nothing about events (``approval.policy``) and sends nothing
(``polling.poller`` does).
"""

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from azure_scheduled_events_exporter.core.lifecycle import Approver, Lifecycle, Lifecycles, State
from azure_scheduled_events_exporter.core.timestamp import Timestamp, iso_time
from azure_scheduled_events_exporter.journal.store import ApprovalRequest
from azure_scheduled_events_exporter.logs import facts

from .policy import BUILT_IN, Policy
from .policy_reload import ReloadingPolicy

ACCEPTED = "accepted"
"""The answer to an operator's wish that IMDS has fulfilled."""

_FIRST_RETRY_SECONDS = 1.0
_LAST_RETRY_SECONDS = 60.0


class ApprovalOutcome(StrEnum):
    """How IMDS took a request to approve events; ``dry_run`` is an event that a rule would have approved."""

    ACCEPTED = "accepted"
    REJECTED = "rejected"
    ERROR = "error"
    DRY_RUN = "dry_run"


def no_requests() -> dict[ApprovalOutcome, int]:
    """Return the counts before the first request; dry runs are counted only where a rule asks for one."""
    return {outcome: 0 for outcome in ApprovalOutcome if outcome is not ApprovalOutcome.DRY_RUN}


@dataclass(frozen=True, slots=True)
class Due:
    """One event to approve now.

    Attributes:
        life: the event.
        approver: exporter or operator.
        who: the rule's name, or the operator's.
        ask: the number of the operator's wish; None for a rule.
    """

    life: Lifecycle
    approver: Approver
    who: str
    ask: int | None = None


@dataclass(slots=True)
class _Retry:
    at: float
    pause: float
    throttled: bool


class ApprovalScheduler:
    """What ``policy`` and operators want approved, with a pause that doubles after each failure of an event."""

    def __init__(self, policy: Policy, log: logging.Logger) -> None:
        self._reloading = ReloadingPolicy(policy, log)
        self._policy = policy
        self._log = log
        self._retries: dict[str, _Retry] = {}
        self._said: dict[str, str] = {}  # what was logged last of an event that is not approved, by EventId
        self.words: dict[str, str] = {}  # what the policy does with an event now, for people, by EventId
        self.policy = policy.name if policy is BUILT_IN.get(policy.name) else "file"
        self.counts = no_requests()
        self._count_dry_runs()

    def due(
        self, known: Lifecycles, vm_name: str | None, asks: Iterable[ApprovalRequest], now: Timestamp
    ) -> tuple[list[Due], dict[int, str]]:
        """Return what to approve in one request now, and the answers to wishes that need none."""
        self._reload()
        current = known.current
        self._retries = {name: retry for name, retry in self._retries.items() if name in current}
        self._said = {name: said for name, said in self._said.items() if name in current}
        self.words = {}
        due: dict[str, Due] = {}
        answers: dict[int, str] = {}
        for ask in asks:
            life = current.get(ask.event_id.upper())
            answer = _no_need(life, ask)
            if life is None or answer:
                answers[ask.number] = answer
            elif self._may_ask(life, now):
                due.setdefault(life.event_id, Due(life, Approver.OPERATOR, ask.operator, ask.number))
        for life in current.values():
            rule = self._rule(life, vm_name, now) if life.event_id not in due else None
            if rule is not None:
                due[life.event_id] = Due(life, Approver.EXPORTER, rule)
        return self._together(list(due.values())), answers

    def accepted(self, approved: Sequence[Due]) -> None:
        """Take note that IMDS has accepted a request for these."""
        self.counts[ApprovalOutcome.ACCEPTED] += 1
        for one in approved:
            self._retries.pop(one.life.event_id, None)

    def failed(self, attempted: Sequence[Due], now: Timestamp, *, is_refusal: bool, throttled: bool = False) -> None:
        """Take note that IMDS refused a request for these, if only for now (``throttled``), or that no answer came."""
        self.counts[ApprovalOutcome.REJECTED if is_refusal else ApprovalOutcome.ERROR] += 1
        for one in attempted:
            before = self._retries.get(one.life.event_id)
            pause = _FIRST_RETRY_SECONDS if before is None else min(before.pause * 2, _LAST_RETRY_SECONDS)
            self._retries[one.life.event_id] = _Retry(now.monotonic + pause, pause, throttled)

    def _reload(self) -> None:
        """Take the policy file's rules if it has changed; what they decide is then logged again."""
        policy = self._reloading.current()
        if policy is not self._policy:
            self._policy = policy
            self._said.clear()
            self._count_dry_runs()

    def _count_dry_runs(self) -> None:
        if any(rule.dry_run for rule in self._policy.rules):
            self.counts.setdefault(ApprovalOutcome.DRY_RUN, 0)

    def _rule(self, life: Lifecycle, vm_name: str | None, now: Timestamp) -> str | None:
        """The rule that wants ``life`` approved now, if any; tells when one only would, or waits."""
        decision = self._policy.decide(life, vm_name, now)
        rule = decision.rule
        if not decision.approve:
            if rule:
                what = "hold" if decision.wait is None else f"wait {round(decision.wait)} s"
                self._say(life, "approval held back", rule, said=f"{rule}/{decision.wait is None}", decision=what)
                self.words[life.event_id] = f"rule '{rule}' holds it back"
                if decision.wait is not None:
                    until = iso_time(now.wall + decision.wait)
                    self.words[life.event_id] = f"rule '{rule}' approves it at {until} if nobody else has"
            return None
        if decision.dry_run:
            self.words[life.event_id] = f"rule '{rule}' would approve it (dry run)"
            self.counts[ApprovalOutcome.DRY_RUN] += self._say(
                life, "approval in a dry run: nothing is sent", rule, said=f"{rule}/dry"
            )
            return None
        retry = self._retries.get(life.event_id)
        self.words[life.event_id] = f"rule '{rule}' approves it" + ("; IMDS has not accepted yet" if retry else "")
        return rule if self._may_try(life, now) else None

    def _may_ask(self, life: Lifecycle, now: Timestamp) -> bool:
        """Whether an operator's wish may be sent: a policy's failures are not his, but throttling is everybody's."""
        retry = self._retries.get(life.event_id)
        return retry is None or not retry.throttled or now.monotonic >= retry.at - retry.pause + _FIRST_RETRY_SECONDS

    def _may_try(self, life: Lifecycle, now: Timestamp) -> bool:
        retry = self._retries.get(life.event_id)
        return retry is None or now.monotonic >= retry.at

    def _say(self, life: Lifecycle, message: str, rule: str, *, said: str, decision: str | None = None) -> bool:
        """Log what a rule does with an event, when that is news."""
        if self._said.get(life.event_id) == said:
            return False
        self._said[life.event_id] = said
        resources = ",".join(life.event.resources)
        self._log.info(message, extra=facts(event_id=life.event_id, rule=rule, resources=resources, decision=decision))
        return True

    def _together(self, due: list[Due]) -> list[Due]:
        """All of them in one request; but what was refused goes alone, since one bad id may spoil it for all."""
        fresh = [one for one in due if one.ask is not None or one.life.event_id not in self._retries]
        return fresh or due[:1]


def _no_need(life: Lifecycle | None, request: ApprovalRequest) -> str:
    """Why an operator's wish needs no request; ``""`` if it does."""
    if life is None:
        return "not current: IMDS shows no such event"
    if life.state is State.STARTED:
        return "it has started already"
    if life.approved_by is not None:
        return f"it is approved already, by {life.approved_by}"
    if request.not_before is not None and life.not_before != request.not_before:
        shown, now = iso_time(request.not_before), "unknown" if life.not_before is None else iso_time(life.not_before)
        return f"not approved: NotBefore was {shown} when you confirmed and is {now} now; look at it and approve again"
    return ""


def request_facts(due: Sequence[Due], **more: object) -> dict[str, Mapping[str, object]]:
    """Return the audit of a request for the log: who, what rule, which events, which VMs."""
    return facts(
        event_ids=",".join(one.life.event_id for one in due),
        approved_by=",".join(sorted({str(one.approver) for one in due})),
        who=",".join(sorted({one.who for one in due})),
        resources=",".join(dict.fromkeys(name for one in due for name in one.life.event.resources)),
        **more,
    )
