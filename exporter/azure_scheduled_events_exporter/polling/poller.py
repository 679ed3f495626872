"""Runs the poll steps in order.

One poll is: fetch, parse, observe, journal, log, approve, publish, in this order, so that nothing
is reported before it is on disk. Decisions are in pure modules. Everything that waits is an
argument. One thread runs it.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from azure_scheduled_events_exporter.approval.sender import ApprovalSender, answered
from azure_scheduled_events_exporter.core.approvals import mark_requested
from azure_scheduled_events_exporter.core.document import Document
from azure_scheduled_events_exporter.core.instance import Instance
from azure_scheduled_events_exporter.core.timestamp import Timestamp
from azure_scheduled_events_exporter.errors import ImdsError, Outcome, Stopped
from azure_scheduled_events_exporter.imds.client import ImdsClient
from azure_scheduled_events_exporter.logs import facts
from azure_scheduled_events_exporter.snapshot.snapshot import Deliveries, Polls, Snapshot
from azure_scheduled_events_exporter.times import iso_time

from .document_reader import DocumentReader
from .schedule import HANGS, Liveness, PollSchedule
from .state import State

if TYPE_CHECKING:
    from azure_scheduled_events_exporter.alertmanager.push import AlertPush

CLOCK_TOLERANCE_SECONDS = 300.0
"""If the wall clock differs more than this from that of IMDS, no history is removed by it."""

ANSWER_SECONDS = 0.2
"""For how long a poll waits for the answer to an approval.

One that comes later is recorded by the next poll.
"""

ANSWER_POLL_SECONDS = 1.0
"""While IMDS has not answered an approval, polls are at most so far apart, even if the interval is longer."""


@dataclass(eq=False)
class Poller:
    """Polls until it is stopped, and publishes a :class:`Snapshot` after every poll.

    Attributes:
        state: what is known; with the configuration, the journal and the clock.
        approvals: sends what a policy or an operator wants approved.
        alerts: pushes the alerts of this VM's events; None without an Alertmanager.
        correct_clock: corrects the state's clock to the time that IMDS has just sent.
    """

    state: State
    client: ImdsClient
    approvals: ApprovalSender
    alerts: "AlertPush | None"
    correct_clock: Callable[[float | None], None]

    def __post_init__(self) -> None:
        state = self.state
        self._clock = state.clock
        self.liveness = Liveness(state.clock)
        self._reader = DocumentReader(
            self.client,
            state.config.imds_timeout,
            state.clock,
            state.journal.keep_document,
            state.log,
        )
        self._identity: Instance | None = None  # for the next poll
        self._approved = False
        self._reason, self._failed_at = (
            "",
            self._clock(),
        )  # why polls fail, and since when; "" while they succeed
        if state.delivery is not None and state.config.instance_name is not None:
            state.delivery.identity = Instance(state.config.instance_name)
        self._show()

    @property
    def snapshot(self) -> Snapshot:
        """The snapshot of the last poll. Any thread may read it."""
        return self.state.snapshot

    def learn(self, identity: Instance) -> None:
        """Set this VM's identity; the next poll uses it to decide which events are this VM's.

        Any thread may call.
        """
        self._identity = identity
        if self.state.delivery is not None:
            name = self.state.config.instance_name or identity.vm_name
            self.state.delivery.identity = replace(identity, vm_name=name)

    def run(self) -> None:
        """Poll at the configured rate until the process is to end."""
        spacing = self.client.rate_limiter.spacing
        schedule = PollSchedule(self.state.config.poll_interval, self._clock().monotonic, spacing)
        while not self.state.wait(self.liveness.expect(schedule.due - self._clock().monotonic)):
            self.liveness.expect(self._reader.next_timeout + ANSWER_SECONDS)
            try:
                outcome = self.poll()
            except Stopped:
                return
            now = self._clock().monotonic
            schedule.polled(now, throttled=outcome is Outcome.THROTTLED)
            if self._approved:  # its effects may follow immediately
                schedule.at_latest(now)
            elif self.approvals.is_waiting and outcome is not Outcome.THROTTLED:
                schedule.at_latest(now + ANSWER_POLL_SECONDS)

    def latest(self) -> Snapshot:
        """Return the snapshot of the last poll, with what was pushed since. Any thread may call.

        While the next poll hangs, ``up`` is False. The journal is not asked: its lock may be what
            the poll waits for.
        """
        snapshot = (
            self.snapshot
            if self.alerts is None
            else self.snapshot.having(pushes=self.alerts.pushes)
        )
        if not self.liveness.hangs:
            return snapshot
        ended = round(self._clock().wall - self.liveness.overdue_seconds())
        failure = f"a poll should have ended at {iso_time(ended)}: {HANGS}"
        return replace(
            snapshot,
            polls=replace(snapshot.polls, up=False, failure=failure, partial=False, hanging=True),
        )

    def poll(self) -> Outcome:
        """Poll IMDS once, record what changed, and publish a snapshot.

        Raises:
            Stopped: the process is to end.
        """
        began = self._clock()
        outcome, failure, has_read = Outcome.OK, "", False
        self._approved = False
        self._keep_journal(began)
        try:
            document = self._take_in()
            has_read = True  # readable events are recorded, whatever follows
            if document is not None:
                self._approve(document)
                if document.unreadable:
                    message = "IMDS sent a document that is partly unreadable"
                    raise ImdsError(Outcome.INVALID_DOCUMENT, message, document.unreadable[0])  # noqa: TRY301 - as a failed poll
            self._report(outcome)
        except Stopped:
            raise
        except ImdsError as error:
            outcome, failure = error.outcome, str(error)
            self._report(outcome, error.reason, failure)
        except Exception:  # noqa: BLE001 - whatever it is, the next poll must come
            outcome, failure = (
                Outcome.INVALID_DOCUMENT,
                "the exporter failed on this answer; its log has the traceback",
            )
            self._report(outcome, "poll failed", failure, is_bug=True)
        self._reader.store(
            self.state.vm_name or ""
        )  # not before: a write of the journal would have to wait for it
        self.state.keep_kinds()
        self.state.pauses.attend(self.state.known)
        self._publish(outcome, failure, began, is_partial=has_read and outcome is not Outcome.OK)
        return outcome

    def _report(
        self, outcome: Outcome, reason: str = "", error: str = "", *, is_bug: bool = False
    ) -> None:
        """Log a failure when it begins, when its ``reason`` changes, and when it ends: then ``reason`` is ``""``."""
        before, self._reason = self._reason, reason
        if reason == before:
            return
        self._failed_at, log = self._failed_at if before else self._clock(), self.state.log
        if not reason:
            log.info(
                "IMDS answers again",
                extra=facts(seconds=round(self._clock().since(self._failed_at), 3)),
            )
            return
        what = "IMDS poll still failing, new cause" if before else "IMDS poll failed"
        fields = facts(
            outcome=outcome,
            error=f"{error}; polling slower" if outcome is Outcome.THROTTLED else error,
        )
        log.log(logging.ERROR if is_bug else logging.WARNING, what, extra=fields, exc_info=is_bug)

    def _take_in(self) -> Document | None:
        """Read the document and record what changed; after a failure, the known events stay unchanged."""
        self._take_answer()
        document = self._reader.read(has_events=bool(self.state.known.current))
        self.correct_clock(self.client.server_time())
        self._take_answer()  # before the document, which may show what the approval has started
        if document is not None:
            self.state.take_in(document)
        return document

    def _approve(self, document: Document) -> None:
        """Send a due approval, which is written to the journal before it is sent."""
        state = self.state
        shown = {event.event_id for event in document.events}
        is_confirmed = state.vm_name is not None or state.knows_owner
        due = self.approvals.due(state.known, shown, state.vm_name, is_name_confirmed=is_confirmed)
        if due is not None:
            state.record(
                mark_requested(
                    state.known, due.life.event_id, due.approver, self._clock(), who=due.who
                )
            )
            self.approvals.send(due)
            self._take_answer(ANSWER_SECONDS)

    def _take_answer(self, wait: float = 0.0) -> None:
        """Record the answer of IMDS to the last approval, if it comes within ``wait`` seconds."""
        answer = self.approvals.answer(wait)
        if answer is None:
            return
        due, error = answer
        self._approved = error is None
        self.state.record(*answered(self.state.known, due, error, self._clock()))
        self.approvals.store_result(due, error)
        self._show()  # with the approval: the next request may be sent at once

    def _keep_journal(self, now: Timestamp) -> None:
        """Maintain the journal: check its file and its owner, and remove old entries."""
        self.state.identify(self._identity)
        self.state.journal.maintain(now, lambda: self._clock_confirmed(now))

    def _clock_confirmed(self, now: Timestamp) -> bool:
        """Return whether IMDS' clock (the Date header of its last answer) agrees with this machine's."""
        answered = self.client.server_time()
        return answered is not None and abs(answered - now.wall) <= CLOCK_TOLERANCE_SECONDS

    def _publish(
        self, outcome: Outcome, failure: str, began: Timestamp, *, is_partial: bool
    ) -> None:
        before, ended = self.snapshot.polls, self._clock()
        polls = Polls(
            outcomes={**before.outcomes, outcome: before.outcomes[outcome] + 1},
            durations=before.durations.observe(ended.since(began)),
            up=outcome is Outcome.OK,
            partial=is_partial,
            last_success=ended.wall if outcome is Outcome.OK else before.last_success,
            failure=failure,
        )
        self.state.trace_hooks()
        self._show(polls=polls)
        if self.alerts is not None:
            now = self.snapshot
            self.alerts.update(now.shown, now.ended, now.identity, now.polls.up)

    def _show(self, **fields: object) -> None:
        """Let the snapshot have ``fields``, the events as they are now, and what the other parts say of themselves."""
        state, scheduler, delivery = self.state, self.approvals.scheduler, self.state.delivery
        queued = (
            state.journal.spans_queued()
        )  # asked first: what is no longer queued has been counted
        state.show(
            self._clock(),
            approval_policy=scheduler.policy_name,
            approval_requests=dict(scheduler.counts),
            approval_statuses=dict(scheduler.statuses),
            journal=state.journal.state,
            hooks=state.journal.inbox.hooks,
            hook_runs=state.journal.inbox.runs,
            deliveries=Deliveries(delivery.exported, delivery.failed, queued)
            if delivery
            else Deliveries(),
            **fields,
        )
