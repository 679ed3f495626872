"""Runs the poll steps in order.

One poll is: fetch, parse, observe, journal, log, approve, publish, in this order, so that nothing
is reported before it is on disk (for a disk that fails, see ``journal.journal``). What is on disk
is also published in between. Decisions are in pure modules. Everything that waits is an argument.
One thread runs it.
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
from .state import JOURNAL_SECONDS, QUICK_JOURNAL_SECONDS, ExporterState

if TYPE_CHECKING:  # loaded only by an exporter that pushes alerts: it takes memory
    from azure_scheduled_events_exporter.alertmanager.push import AlertPush

CLOCK_TOLERANCE_SECONDS = 300.0
"""If the wall clock differs more than this from that of IMDS, no history is removed by it."""

ANSWER_SECONDS = 0.2
"""For how long a poll waits for the answer to an approval.

One that comes later is recorded by the next poll.
"""

ANSWER_POLL_SECONDS = 1.0
"""Longest time between polls while an approval is unanswered or the journal is not read.

The interval may be longer.
"""


@dataclass(frozen=True, slots=True)
class PollResult:
    """How a poll ended.

    Attributes:
        outcome: OK, or what failed.
        reason: the part of ``failure`` that stays the same while the cause does; ``""`` if all is
            well.
        failure: what failed, for people.
        has_read: whether a document was read, of which a part may be unreadable.
        bug: an error of this program, whose traceback is logged.
    """

    outcome: Outcome = Outcome.OK
    reason: str = ""
    failure: str = ""
    has_read: bool = False
    bug: Exception | None = None

    @property
    def is_partial(self) -> bool:
        """Whether a part of the document could not be read or used."""
        return self.has_read and self.outcome is not Outcome.OK


def _failed(error: ImdsError, *, has_read: bool) -> PollResult:
    """Return the result of a poll that failed with ``error``."""
    return PollResult(error.outcome, error.reason, str(error), has_read)


@dataclass(eq=False)
class Poller:
    """Polls until it is stopped, and publishes a :class:`Snapshot` after every poll.

    Attributes:
        state: what is known; with the configuration, the journal and the clock.
        client: sends the requests for documents.
        approvals: sends what a policy or an operator wants approved.
        alerts: pushes the alerts of this VM's events; None without an Alertmanager.
        identity: returns this VM in the instance metadata, as far as IMDS has told; any thread may
            learn it. Each poll uses what is known at its beginning.
        correct_clock: corrects the state's clock to the time that IMDS has just sent.
        expects_events: whether events may be current that no document of this run has shown.
        liveness: tells whether polls hang. Any thread may read it.
        snapshot: what was published last. Any thread may read it.
    """

    state: ExporterState
    client: ImdsClient
    approvals: ApprovalSender
    alerts: "AlertPush | None"
    identity: Callable[[], Instance | None]
    correct_clock: Callable[[float | None], None]
    expects_events: Callable[[], bool] = lambda: False

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
        self._polls = Polls()
        self._approved = False  # whether IMDS has accepted an approval in this poll
        self._reason = ""  # why polls fail, "" while they succeed
        self._failed_at = self._clock()  # since when polls fail, if they do
        self.snapshot = Snapshot()
        self._publish()

    def begin(self) -> None:
        """Publish what the journal has, if it is read within :data:`QUICK_JOURNAL_SECONDS`.

        Call it before anybody reads the snapshot.
        """
        if self.state.take_journal(QUICK_JOURNAL_SECONDS):
            self._publish()

    def run(self) -> None:
        """Poll at the configured rate until the process is to end."""
        spacing = self.client.rate_limiter.spacing
        schedule = PollSchedule(self.state.config.poll_interval, self._clock().monotonic, spacing)
        while not self.state.wait(self.liveness.expect(schedule.due - self._clock().monotonic)):
            self.liveness.expect(self._reader.next_timeout + ANSWER_SECONDS)  # what it may wait for
            try:
                outcome = self.poll()
            except Stopped:
                return
            now = self._clock().monotonic
            is_throttled = outcome is Outcome.THROTTLED
            schedule.polled(now, throttled=is_throttled)
            if self._approved:  # the event may start immediately
                schedule.at_latest(now)
            elif self._awaits_something and not is_throttled:
                schedule.at_latest(now + ANSWER_POLL_SECONDS)

    @property
    def _awaits_something(self) -> bool:
        """Whether the answer to an approval or the journal is awaited; the next poll takes it."""
        return self.approvals.is_waiting or not self.state.has_journal

    def latest(self) -> Snapshot:
        """Return the snapshot of the last poll, with what was pushed since. Any thread may call.

        While the next poll hangs, ``up`` is False. The journal is not asked: its lock may be what
        the poll waits for.
        """
        snapshot = self.snapshot
        if self.alerts is not None:
            # Equal counts stay the same object, because readers cache by identity.
            snapshot = replace(snapshot, pushes=self.alerts.pushes).sharing(snapshot)
        if not self.liveness.hangs:
            return snapshot
        end_was_due = round(self._clock().wall - self.liveness.overdue_seconds())
        failure = f"a poll should have ended at {iso_time(end_was_due)}: {HANGS}"
        polls = replace(snapshot.polls, up=False, failure=failure, partial=False, hanging=True)
        return replace(snapshot, polls=polls)

    def poll(self) -> Outcome:
        """Poll IMDS once, record what changed, and publish a snapshot.

        Raises:
            Stopped: the process is to end.
        """
        began = self._clock()
        self._approved = False
        if self.state.take_journal():
            self._publish()  # IMDS may not answer for two minutes
        self.state.identify(self.identity())
        # Removes old history once an hour, if the clock is certainly right.
        self.state.journal.maintain(began, lambda: self._clock_confirmed(began))
        result = self._result()
        self._report(result)
        # Only now: if it came first, the events of this poll would wait until it is on disk.
        self._reader.store(self.state.vm_name or "")
        self.state.keep_kinds()
        self.state.pauses.attend(self.state.known)
        self.state.trace_hooks()
        self._count(result, began)
        self._publish()
        self._push()
        return result.outcome

    def _result(self) -> PollResult:
        """Read a document, record what changed, and send a due approval; return how that ended."""
        has_read = False
        try:
            document = self._take_in()
            if document is not None:
                has_read = True  # readable events are recorded, whatever follows
                self._approve()
        except Stopped:
            raise
        except ImdsError as error:
            return _failed(error, has_read=has_read)
        except Exception as error:  # noqa: BLE001 - whatever it is, the next poll must come
            failure = "the exporter failed on this answer; its log has the traceback"
            return PollResult(Outcome.INVALID_DOCUMENT, "poll failed", failure, has_read, error)
        if document is not None and document.unreadable:
            message = "IMDS sent a document that is partly unreadable"
            reason = document.unreadable[0]
            return _failed(ImdsError(Outcome.INVALID_DOCUMENT, message, reason), has_read=True)
        return PollResult(has_read=has_read)

    def _report(self, result: PollResult) -> None:
        """Log a failure when it begins, when its reason changes, and when it ends."""
        before = self._reason
        self._reason = result.reason
        if result.reason == before:
            return
        if not before:
            self._failed_at = self._clock()
        log = self.state.log
        if not result.reason:
            seconds = round(self._clock().since(self._failed_at), 3)
            log.info("IMDS answers again", extra=facts(seconds=seconds))
            return
        what = "IMDS poll still failing, new cause" if before else "IMDS poll failed"
        is_throttled = result.outcome is Outcome.THROTTLED
        error = f"{result.failure}; polling slower" if is_throttled else result.failure
        level = logging.WARNING if result.bug is None else logging.ERROR
        fields = facts(outcome=result.outcome, error=error)
        log.log(level, what, extra=fields, exc_info=result.bug)

    def _take_in(self) -> Document | None:
        """Read the document and record what changed.

        After a failure, the known events stay unchanged.
        """
        self._take_answer()  # of a request that the last poll has sent
        has_events = bool(self.state.known.current) or self.expects_events()
        document = self._reader.read(has_events=has_events)
        self.correct_clock(self.client.server_time())
        self.state.take_journal(JOURNAL_SECONDS)
        self._take_answer()  # before the document, which may show what the approval has started
        if document is not None:
            self.state.take_in(document)
            self._publish()
        return document

    def _approve(self) -> None:
        """Send a due approval, which is written to the journal before it is sent."""
        state = self.state
        # While only the journal names this VM, the name may be that of the VM whose image this is.
        is_confirmed = state.vm_name is not None or state.knows_owner
        due = self.approvals.due(
            state.known,
            state.approvable,
            state.vm_name,
            is_name_confirmed=is_confirmed,
        )
        if due is None:
            return
        now = self._clock()
        event_id = due.life.event_id
        state.apply(
            lambda known: (mark_requested(known, event_id, due.approver, now, who=due.who), ())
        )
        self.approvals.send(due)
        self._publish()
        self._take_answer(ANSWER_SECONDS)

    def _take_answer(self, wait: float = 0.0) -> None:
        """Record the answer of IMDS to the last approval, if it comes within ``wait`` seconds."""
        answer = self.approvals.answer(wait)
        if answer is None:
            return
        due, error = answer
        now = self._clock()
        self._approved = error is None
        self.state.apply(lambda known: answered(known, due, error, now))
        self.approvals.store_result(due, error)
        self._publish()  # before the next request, which may follow in this poll

    def _clock_confirmed(self, now: Timestamp) -> bool:
        """Return whether IMDS has sent its time, and ``now`` agrees with it.

        The time comes in the Date header of each answer, so there is none before the first poll.
        Later they agree, because :attr:`correct_clock` has corrected the clock; only that of a
        simulation is not corrected.
        """
        answered_at = self.client.server_time()
        return answered_at is not None and abs(answered_at - now.wall) <= CLOCK_TOLERANCE_SECONDS

    def _count(self, result: PollResult, began: Timestamp) -> None:
        """Count a poll that began at ``began`` and has just ended with ``result``."""
        before = self._polls
        ended = self._clock()
        is_ok = result.outcome is Outcome.OK
        self._polls = Polls(
            outcomes={**before.outcomes, result.outcome: before.outcomes[result.outcome] + 1},
            documents=before.documents + (is_ok and result.has_read),
            durations=before.durations.observe(ended.since(began)),
            up=is_ok,
            partial=result.is_partial,
            last_success=ended.wall if is_ok else before.last_success,
            failure=result.failure,
        )

    def _publish(self) -> None:
        """Let everybody see what is known now."""
        state = self.state
        scheduler = self.approvals.scheduler
        published = Snapshot(
            poll_interval=state.config.poll_interval,
            polls=self._polls,
            vm_name=state.vm_name,
            identity=state.identity,
            incarnation=None if state.document is None else state.document.incarnation,
            document_changes=state.document_changes,
            events_dropped=state.events_dropped,
            statistics=state.statistics,
            approval_policy=scheduler.policy_name,
            approval_statuses=dict(scheduler.statuses),
            approval_requests=dict(scheduler.counts),
            journal=state.journal.state,
            deliveries=self._deliveries(),
            hooks=state.journal.inbox.hooks,
            hook_runs=state.journal.inbox.runs,
        )
        published = published.with_events(state.known, self._clock().wall)
        self.snapshot = published.sharing(self.snapshot)

    def _deliveries(self) -> Deliveries:
        """Return how many spans were delivered, and how many wait."""
        delivery = self.state.delivery
        if delivery is None:
            return Deliveries()
        # Read before the counts: a span is counted before it leaves the queue, so none is missed.
        queued = self.state.journal.spans_queued()
        return Deliveries(delivery.exported, delivery.failed, queued)

    def _push(self) -> None:
        """Show what pushes alerts on what they depend; it wakes if something of that is new."""
        if self.alerts is not None:
            now = self.snapshot
            self.alerts.update(now.shown, now.ended, now.identity, now.polls.up)
