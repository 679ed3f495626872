"""Runs the poll steps in order.

One poll is: fetch, parse, observe, journal, log, approve, publish, in this order, so that nothing
is reported before it is on disk (for a disk that fails, see ``journal.journal``). Each step that
writes to the journal is followed by a publication, so readers need not wait for the end of the
poll. Decisions are in pure modules. One thread runs it.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from azure_scheduled_events_exporter.approval.sender import ApprovalSender, answered
from azure_scheduled_events_exporter.core.approvals import mark_requested
from azure_scheduled_events_exporter.core.document import Document
from azure_scheduled_events_exporter.core.instance import Instance
from azure_scheduled_events_exporter.core.lifecycle import Change, Lifecycles
from azure_scheduled_events_exporter.core.timestamp import Timestamp
from azure_scheduled_events_exporter.errors import ImdsError, Outcome, Stopped
from azure_scheduled_events_exporter.imds.client import ImdsClient
from azure_scheduled_events_exporter.snapshot.snapshot import Deliveries, Polls, Snapshot
from azure_scheduled_events_exporter.times import iso_time

from .document_reader import DocumentReader
from .failure_log import FailureLog
from .liveness import HANGS, Liveness
from .poll_result import PollResult
from .schedule import PollSchedule
from .state import JOURNAL_SECONDS, QUICK_JOURNAL_SECONDS, ExporterState

if TYPE_CHECKING:  # loaded only by an exporter that pushes alerts: it takes memory
    from azure_scheduled_events_exporter.alertmanager.push import AlertPush

CLOCK_TOLERANCE_SECONDS = 300.0
"""If the clock differs more than this from that of IMDS, no old history is removed."""

ANSWER_SECONDS = 0.2
"""For how long a poll waits for the answer to an approval.

One that comes later is recorded by the next poll.
"""

ANSWER_POLL_SECONDS = 1.0
"""While an approval is unanswered or the journal is not read, polls are at most so far apart.

The configured interval may be longer.
"""


@dataclass(eq=False)
class Poller:
    """Polls until it is stopped, and publishes a :class:`Snapshot` after every poll.

    Attributes:
        state: what is known; with the configuration, the journal and the clock.
        client: sends the requests for documents.
        approvals: sends what a policy or an operator wants approved.
        alerts: pushes the alerts of this VM's events; None without an Alertmanager.
        identity: returns this VM in the instance metadata; None until IMDS has told it. It is asked
            at the beginning of each poll.
        correct_clock: corrects the state's clock to the time that IMDS has just sent; does nothing
            with None, if IMDS sent no time.
        clock_ahead: returns how many seconds the VM's own clock is ahead of that of IMDS.
        expects_events: returns whether events may be current that the journal does not know: then
            an empty body is not believed at once.
        liveness: tells whether polls hang. Any thread may read it.
        snapshot: what was published last. Any thread may read it.
    """

    state: ExporterState
    client: ImdsClient
    approvals: ApprovalSender
    alerts: "AlertPush | None"
    identity: Callable[[], Instance | None]
    correct_clock: Callable[[float | None], None]
    clock_ahead: Callable[[], float]
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
        # Whether IMDS answered an approval while this poll's document was on its way. The document
        # may not show yet what that approval has done, so this poll sends no further approval.
        self._is_overtaken = False
        self._failure_log = FailureLog(state.log, state.clock)
        self.snapshot = Snapshot()
        self._publish()

    def begin(self) -> None:
        """Publish what the journal has, if it is read within :data:`QUICK_JOURNAL_SECONDS`.

        Call it before the first :meth:`run`, and before anybody reads the snapshot.
        """
        if self.state.take_journal(QUICK_JOURNAL_SECONDS):
            self._publish()

    def run(self) -> None:
        """Poll at the configured rate until the process is to end."""
        spacing = self.client.rate_limiter.spacing
        schedule = PollSchedule(self.state.config.poll_interval, self._clock().monotonic, spacing)
        while True:
            time_left = schedule.due - self._clock().monotonic
            self.liveness.expect(time_left)
            is_to_end = self.state.wait(time_left)
            if is_to_end:
                return
            # The longest that a poll waits: for a document, and for the answer to an approval.
            self.liveness.expect(self._reader.next_timeout + ANSWER_SECONDS)
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
        """Whether the next poll may take the answer to an approval, or the journal."""
        return self.approvals.is_waiting or not self.state.has_journal

    def latest(self) -> Snapshot:
        """Return the snapshot that was published last, with what was pushed since.

        While a poll hangs, ``up`` is False in it. Any thread may call this, and none waits here:
        nothing asks the journal, whose lock may be what the poll waits for.
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
        # Once an hour, this removes old history: only then it asks whether the clock is right.
        self.state.journal.maintain(began, lambda: self._is_clock_confirmed(began))
        result = self._result()
        self._failure_log.note(result)
        # After the events of this poll: otherwise they would wait until the body is on disk.
        self._reader.store(self.state.vm_name or "")
        self.state.renew_kinds()
        self.state.pauses.attend(self.state.known)
        self.state.trace_hooks()
        self._count(result, began)
        self._publish()
        self._push()
        return result.outcome

    def _result(self) -> PollResult:
        """Read a document, record what changed, and send a due approval; return how that ended.

        Raises:
            Stopped: the process is to end.
        """
        has_read = False
        try:
            document = self._take_in()
            if document is not None:
                has_read = True  # readable events are recorded, whatever follows
                if not self._is_overtaken:
                    self._approve()
        except Stopped:
            raise
        except ImdsError as error:
            return PollResult.failed(error, has_read=has_read)
        except Exception as error:  # noqa: BLE001 - whatever it is, the next poll must come
            failure = "the exporter failed on this answer; its log has the traceback"
            return PollResult(
                Outcome.INVALID_DOCUMENT,
                reason="poll failed",
                failure=failure,
                has_read=has_read,
                bug=error,
            )
        if document is not None and document.unreadable:
            partly = ImdsError(
                Outcome.INVALID_DOCUMENT,
                "IMDS sent a document that is partly unreadable",
                document.unreadable[0],
            )
            return PollResult.failed(partly, has_read=True)
        return PollResult(has_read=has_read)

    def _take_in(self) -> Document | None:
        """Read the document and record what changed; None for an empty body that is not believed.

        Raises:
            ImdsError: there is no document. The known events stay unchanged.
            Stopped: the process is to end.
        """
        self._take_answer()  # the answer to an approval that the last poll has sent
        has_events = bool(self.state.known.current) or self.expects_events()
        document = self._reader.read(has_events=has_events)
        self.correct_clock(self.client.server_time())
        # Soon after the start, the document waits for the journal, which may know its events.
        self.state.take_journal(JOURNAL_SECONDS)
        # Before the document, which may show what the approval has started.
        self._is_overtaken = self._take_answer()
        if document is not None:
            self.state.take_in(document)
            self._publish()
        return document

    def _approve(self) -> None:
        """Send a due approval, which is written to the journal before it is sent."""
        state = self.state
        # `vm_name` is None while neither a setting nor IMDS has named this VM. Then `due` can only
        # use the name of the VM that the journal's events carry. It may be the name of another VM
        # whose image brought the journal here. So while `knows_owner` is False, the name is not
        # confirmed, and `due` returns no approval that depends on it.
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

        def step(known: Lifecycles) -> tuple[Lifecycles, tuple[Change, ...]]:
            event_id = due.life.event_id
            return mark_requested(known, event_id, due.approver, now, who=due.who), ()

        state.apply(step)
        self.approvals.send(due, self._reader.asked_at)
        self._publish()
        self._take_answer(ANSWER_SECONDS)

    def _take_answer(self, wait: float = 0.0) -> bool:
        """Record the answer of IMDS to the last approval, if it comes within ``wait`` seconds.

        Return whether it came.
        """
        answer = self.approvals.answer(wait)
        if answer is None:
            return False
        due = answer.due
        error = answer.error
        now = self._clock()
        self._approved = error is None
        self.state.apply(lambda known: answered(known, due, error, now))
        self.approvals.store_result(due, error)
        self._publish()  # also if no request follows
        return True

    def _is_clock_confirmed(self, now: Timestamp) -> bool:
        """Return whether IMDS has sent its time, and ``now`` agrees with it.

        The time comes in the Date header of each answer, so there is none before the first poll.
        After the first one, :attr:`correct_clock` makes both agree; only the clock of a simulation
        is not corrected.
        """
        answered_at = self.client.server_time()
        return answered_at is not None and abs(answered_at - now.wall) <= CLOCK_TOLERANCE_SECONDS

    def _count(self, result: PollResult, began: Timestamp) -> None:
        """Count a poll that began at ``began`` and has just ended with ``result``."""
        before = self._polls
        ended = self._clock()
        is_ok = result.outcome is Outcome.OK
        documents = before.documents
        if is_ok and result.has_read:
            documents += 1
        last_success = before.last_success
        if is_ok:
            last_success = ended.wall
        self._polls = Polls(
            outcomes={**before.outcomes, result.outcome: before.outcomes[result.outcome] + 1},
            documents=documents,
            durations=before.durations.observe(ended.since(began)),
            up=is_ok,
            partial=result.is_partial,
            last_success=last_success,
            failure=result.failure,
        )

    def _publish(self) -> None:
        """Let everybody see what is known now."""
        state = self.state
        scheduler = self.approvals.scheduler
        incarnation = None
        if state.document is not None:
            incarnation = state.document.incarnation
        published = Snapshot(
            poll_interval=state.config.poll_interval,
            polls=self._polls,
            clock_ahead=self.clock_ahead(),
            vm_name=state.vm_name,
            identity=state.identity,
            incarnation=incarnation,
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
        """Hand over what pushed alerts depend on, and let them be pushed if any of it is new."""
        if self.alerts is not None:
            latest = self.snapshot
            self.alerts.update(latest.shown, latest.ended, latest.identity, latest.polls.up)
