"""Runs the poll steps in order.

One poll is: fetch, parse, observe, journal, log, approve, publish, in this order, so that nothing is reported before it
is on disk. Decisions are in pure modules. Everything that waits is an argument. One thread runs it.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from azure_scheduled_events_exporter.alertmanager.pushes import Pushes
from azure_scheduled_events_exporter.approval.answer import answered, requested
from azure_scheduled_events_exporter.approval.sender import ApprovalSender
from azure_scheduled_events_exporter.core.document import Document
from azure_scheduled_events_exporter.core.instance import Instance
from azure_scheduled_events_exporter.core.lifecycle import Change, Lifecycle, Lifecycles
from azure_scheduled_events_exporter.core.observation import (
    WATCHED_WITHIN_SECONDS,
    ObservationContext,
    observe,
    record_pause,
)
from azure_scheduled_events_exporter.core.spans import SpanFacts, is_traced, unfinished
from azure_scheduled_events_exporter.core.statistics import Statistics
from azure_scheduled_events_exporter.core.timestamp import Timestamp
from azure_scheduled_events_exporter.errors import ImdsError, Outcome, Stopped
from azure_scheduled_events_exporter.imds.client import ImdsClient
from azure_scheduled_events_exporter.journal.journal import OWNER_WAIT_SECONDS, Journal
from azure_scheduled_events_exporter.journal.store import Entry
from azure_scheduled_events_exporter.times import iso_time
from azure_scheduled_events_exporter.tracing.delivery import SpanDelivery

from .clock import Clock
from .document_reader import DocumentGaps, DocumentReader
from .event_log import EventLog
from .journal_entry import hook_spans, journal_entry
from .liveness import HANGS, Liveness
from .pause_tracker import PauseTracker
from .schedule import PollSchedule
from .snapshot import Deliveries, Polls, Snapshot

if TYPE_CHECKING:
    from azure_scheduled_events_exporter.alertmanager.push import AlertPush

CLOCK_TOLERANCE_SECONDS = 300.0
"""If the wall clock differs more than this from that of IMDS, no history is removed by it."""

ANSWER_SECONDS = 0.2
"""For how long a poll waits for the answer to an approval. One that comes later is recorded by the next poll."""

ANSWER_POLL_SECONDS = 1.0
"""While IMDS has not answered an approval, polls are at most so far apart, even if the interval is longer."""


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings of polling; times in seconds.

    Attributes:
        vm_name: this VM's name; None to ask IMDS.
        trace_peers: whether events of other VMs are traced too.
        spacing: the shortest time between two polls.
    """

    interval: float
    timeout: float
    vm_name: str | None = None
    trace_peers: bool = False
    spacing: float = 0.0


class Poller:
    """Polls until it is stopped, and publishes a :class:`Snapshot` after every poll.

    Args:
        settings: what the user decided.
        client: sends requests to IMDS.
        approvals: sends what a policy or an operator wants approved.
        journal: restores earlier events and stores new ones.
        delivery: delivers the spans that the journal holds; None without tracing.
        alerts: pushes the alerts of this VM's events; None without an Alertmanager.
        clock: this machine's clock.
        wait: waits so many seconds, or until the process is to end; returns whether it is.
        log: where transitions and failures are logged.
    """

    def __init__(
        self,
        settings: Settings,
        client: ImdsClient,
        approvals: ApprovalSender,
        journal: Journal,
        delivery: SpanDelivery | None,
        alerts: "AlertPush | None",
        clock: Clock,
        wait: Callable[[float], bool],
        log: logging.Logger,
    ) -> None:
        self._settings = settings
        self._client = client
        self._approvals = approvals
        self._journal = journal
        self._delivery = delivery
        self._alerts = alerts
        self._clock = clock
        self._log = log
        self.liveness = Liveness(clock)
        self._event_log = EventLog(log)
        self._approved = False
        self.has_read = False
        """Whether the last poll took in a document, or what of it could be read."""
        self._began = clock.now()
        self._reader = DocumentReader(client, settings.timeout, clock, journal.keep_document)
        self._document: Document | None = (
            None  # the last one processed; None if the next one must be, even if it has not changed
        )
        self._gaps = DocumentGaps(clock)
        self._identity: Instance | None = None
        if delivery is not None and settings.vm_name is not None:
            delivery.identity = Instance(settings.vm_name)
        self._wait = wait
        self._pauses = PauseTracker(clock, wait, journal)
        restored = journal.restore()
        self._known: Lifecycles = restored.lifecycles
        self._unshown = frozenset(self._known.current)  # events of earlier runs that no document of this run has shown
        self._runs = journal.inbox.runs
        self._traced_runs = {run.run for run in self._runs if run.outcome is not None}  # by earlier exporters
        self._owner_is_known = True  # whether these end when a document does not show them
        # Events from before the restart stay current until a document shows otherwise.
        self.snapshot = Snapshot(
            poll_interval=settings.interval,
            vm_name=settings.vm_name,
            statistics=restored.statistics,
            recent=restored.recent,
            approval_policy=approvals.policy,
            journal=journal.state,
            hooks=journal.inbox.hooks,
            deliveries=self._deliveries(),
            pushes=Pushes() if alerts is None else alerts.pushes,
        ).showing(self._known, self._unshown, self._began.wall)

    def learn(self, identity: Instance) -> None:
        """Set this VM's identity; the next poll uses it to decide which events are this VM's. Any thread may call."""
        self._identity = identity
        if self._delivery is not None:
            self._delivery.identity = replace(identity, vm_name=self._settings.vm_name or identity.vm_name)

    def run(self) -> None:
        """Poll at the configured rate until the process is to end."""
        schedule = PollSchedule(self._settings.interval, self._clock.now().monotonic, self._settings.spacing)
        while not self._pauses.wait(self.liveness.expect(schedule.due - self._clock.now().monotonic)):
            self.liveness.expect(self._reader.next_timeout + ANSWER_SECONDS)
            try:
                outcome = self.poll()
            except Stopped:
                return
            now = self._clock.now().monotonic
            schedule.polled(now, throttled=outcome is Outcome.THROTTLED)
            if self._approved:  # its effects may follow immediately
                schedule.at_once(now)
            elif self._approvals.is_waiting and outcome is not Outcome.THROTTLED:
                schedule.at_latest(now + ANSWER_POLL_SECONDS)

    def latest(self) -> Snapshot:
        """Return the snapshot of the last poll, with what pushing and delivery have counted since. Any thread may call.

        While the next poll hangs, ``up`` is False. The journal is not asked: its lock may be what the poll waits for.
        """
        snapshot, pushes, deliveries = self.snapshot, self._pushes(), self.snapshot.deliveries
        if self._delivery is not None:
            deliveries = replace(deliveries, exported=self._delivery.exported, failed=self._delivery.failed)
        if pushes != snapshot.pushes or deliveries != snapshot.deliveries:
            snapshot = replace(snapshot, pushes=pushes, deliveries=deliveries)
        if not self.liveness.hangs():
            return snapshot
        ended = round(self._clock.now().wall - self.liveness.overdue_seconds())
        failure = f"a poll should have ended at {iso_time(ended)}: {HANGS}"
        return replace(snapshot, polls=replace(snapshot.polls, up=False, failure=failure, partial=False, hanging=True))

    def poll(self) -> Outcome:
        """Poll IMDS once, record what changed, and publish a snapshot.

        Raises:
            Stopped: the process is to end.
        """
        began = self._clock.now()
        failure = ""
        self._approved = self.has_read = False
        self._keep_journal(began)
        try:
            self.take_answer()
            document = self._fetch()
            self.has_read = True
            self._approve(document)
            outcome, failure = self._judge(document, began)
        except Stopped:
            raise
        except ImdsError as error:
            outcome, failure = error.outcome, str(error)
            self._event_log.poll_failed(error.reason, failure, outcome, began)
        except Exception:  # noqa: BLE001 - whatever it is, the next poll must come
            outcome, failure = Outcome.INVALID_DOCUMENT, "the exporter failed on this answer; its log has the traceback"
            self._event_log.poll_failed("poll failed", failure, outcome, began, with_traceback=True)
        self._pauses.attend(self._known)
        self._publish(outcome, failure, began, self._clock.now())
        return outcome

    def record_heartbeat(self) -> None:
        """Write a heartbeat so that the next run knows when this run ended."""
        self._pauses.record_heartbeat(self._known)

    def open_spans(self) -> tuple[SpanFacts, ...]:
        """Return the unfinished spans of current events, for a shutdown during an event."""
        others = self._unshown if self._journal.awaits_vm_id else frozenset()  # they may be another VM's
        lives = [life for life in self._known.current.values() if self._traced(life) and life.event_id not in others]
        return unfinished(lives, self._clock.now())

    def _fetch(self) -> Document:
        """Fetch the document and record what changed; after a failure, the known events stay unchanged."""
        body = self._reader.ask()
        self.take_answer()  # before the document, which may show what the approval has started
        vm_name = self.snapshot.vm_name or ""
        document = self._reader.parsed(body, vm_name)
        if self._reader.believes(document, has_events=bool(self._known.current)):
            self._take_in(document)
            self._reader.mark_processed(body, document)
        else:
            self._leave_unchanged()
        self._reader.store(body, self.snapshot.vm_name or "", "; ".join(document.unreadable))
        return document

    def _judge(self, document: Document, began: Timestamp) -> tuple[Outcome, str]:
        """Log and return how the poll ended, with the reason of a failure. Readable events are already recorded."""
        if not document.unreadable:
            self._event_log.poll_succeeded(self._clock.now())
            return Outcome.OK, ""
        reason = "IMDS sent a document that is partly unreadable"
        failure = f"{reason}: {document.unreadable[0]}"
        self._event_log.poll_failed(reason, failure, Outcome.INVALID_DOCUMENT, began)
        return Outcome.INVALID_DOCUMENT, failure

    def _leave_unchanged(self) -> None:
        """Take note of an empty body that is not believed yet; the known events stay as they are."""
        if self._reader.is_first_empty_body:
            self._log.warning("empty body while events are current: not believed yet")
        now = self._clock.now()
        self._gaps.document_came(now, has_gap=self._gaps.has_gap(now))

    def _take_in(self, document: Document) -> None:
        """Derive transitions from ``document``, write them to the journal, and log them."""
        now = self._clock.now()
        pause = self._pauses.pause(now, self._gaps.last, WATCHED_WITHIN_SECONDS)
        watched = not self._gaps.has_gap(now)
        vm_name = self._settings.vm_name or (self._identity.vm_name if self._identity else None)
        shown = {event.event_id for event in document.events}
        self._unshown -= shown
        owner_is_known = self._knows_owner(now)
        # An event that is missing while it is kept current has left unseen; one that is present is watched from now on.
        is_whole = not document.unreadable or shown.issuperset(self._known.current)
        self._gaps.document_came(now, has_gap=not watched and not is_whole)
        owner_is_new = bool(self._unshown) and owner_is_known != self._owner_is_known
        self._owner_is_known = owner_is_known
        # Compare identity: an unchanged body is not parsed again.
        is_same = document is self._document and not owner_is_new
        if is_same and vm_name == self.snapshot.vm_name and self._identity is self.snapshot.identity:
            known = record_pause(self._known, pause) if self._pauses.concern_us else self._known
            if known is not self._known:
                self.snapshot = self._with(known, ())
            return
        context = ObservationContext(
            now,
            vm_name,
            watched,
            self._clock.booted_at(),
            pause,
            self._unshown,
            kept=frozenset() if owner_is_known else self._unshown,
            absent_since=self._reader.empty_since if document.is_empty_body else None,
        )
        known, changes = observe(self._known, document, context)
        before, self._document = self._document, document
        changed = before is not None and (document.incarnation, document.events) != (before.incarnation, before.events)
        self._event_log.unexpected_content(document)
        snapshot = self._with(known, changes)
        self._pauses.attend(known)  # before anyone is shown a start: the pause may follow at once
        self.snapshot = replace(
            snapshot,
            vm_name=vm_name,
            identity=self._identity,
            incarnation=document.incarnation,
            document_changes=self.snapshot.document_changes + changed,
        )

    def _knows_owner(self, now: Timestamp) -> bool:
        """Return whether to treat the journal's events as this VM's.

        They may be another VM's. Until that is known, they end only if a document has shown them.
        """
        return not self._journal.awaits_vm_id or now.since(self._began) >= OWNER_WAIT_SECONDS

    def _with(self, known: Lifecycles, changes: Sequence[Change]) -> Snapshot:
        """Write ``changes`` and the new state ``known`` to the journal, then log; return the new snapshot."""
        snapshot = self.snapshot.after(known, changes, self._unshown, self._clock.now().wall)
        entry = journal_entry(self._known, known, changes, self._traced)
        if entry.changes or entry.lives or entry.spans:
            self._journal.record(entry, snapshot.statistics, known)
        self._known = known
        self._event_log.changes(changes)
        if entry.spans and self._delivery is not None:
            self._delivery.wake()
        return snapshot

    def _approve(self, document: Document) -> None:
        """Send all due approvals in one request, which is written to the journal before it is sent."""
        vm_name = self.snapshot.vm_name
        shown = {event.event_id for event in document.events}
        is_confirmed = vm_name is not None or self._owner_is_known
        server_time = self._client.server_time() if self._known.current else None
        due = self._approvals.due(self._known, shown, vm_name, is_name_confirmed=is_confirmed, server_time=server_time)
        if due:
            self.snapshot = self._with(requested(self._known, due, self._clock.now()), ())
            self._approvals.send(due)
            self.take_answer(ANSWER_SECONDS)
        self._show_approvals()

    def take_answer(self, wait: float = 0.0) -> None:
        """Record the answer of IMDS to the last approval, if it comes within ``wait`` seconds.

        Every poll does this. Only the thread that polls may call it.
        """
        answer = self._approvals.answer(wait)
        if answer is None:
            return
        due, result = answer
        self._approved = result.error is None
        self.snapshot = self._with(*answered(self._known, due, result, self._clock.now()))
        self._approvals.settle(due, result)
        self._show_approvals()

    def _show_approvals(self) -> None:
        counts, statuses = self._approvals.counts, self._approvals.statuses
        if (counts, statuses) != (self.snapshot.approval_requests, self.snapshot.approval_statuses):
            self.snapshot = replace(self.snapshot, approval_requests=counts, approval_statuses=statuses)

    def _traced(self, life: Lifecycle) -> bool:
        return self._delivery is not None and is_traced(life, peers_too=self._settings.trace_peers)

    def _keep_journal(self, now: Timestamp) -> None:
        """Maintain the journal: check its file and its owner, and remove old entries."""
        self._journal.look()
        self._learn_owner()
        self._journal.prune(now, lambda: self._clock_confirmed(now))

    def _learn_owner(self) -> None:
        """Start with an empty state if the journal is another VM's: this VM was created from its image."""
        if self._identity is None or not self._journal.claim(self._identity.vm_id):
            return
        self._known, self._gaps = Lifecycles(), DocumentGaps(self._clock)
        self._document = None
        self._reader.store_next()
        self._unshown = frozenset()
        self._pauses.end()
        self._pauses = PauseTracker(self._clock, self._wait, self._journal)
        snapshot = replace(self.snapshot, statistics=Statistics(), recent=())
        self.snapshot = snapshot.showing(self._known, self._unshown, self._clock.now().wall)

    def _clock_confirmed(self, now: Timestamp) -> bool:
        """Return whether IMDS' clock (the Date header of its last answer) agrees with this machine's."""
        answered = self._client.server_time()
        return answered is not None and abs(answered - now.wall) <= CLOCK_TOLERANCE_SECONDS

    def _publish(self, outcome: Outcome, failure: str, began: Timestamp, ended: Timestamp) -> None:
        before = self.snapshot.polls
        polls = Polls(
            outcomes={**before.outcomes, outcome: before.outcomes[outcome] + 1},
            durations=before.durations.observe(ended.since(began)),
            up=outcome is Outcome.OK,
            partial=self.has_read and outcome is not Outcome.OK,
            last_success=ended.wall if outcome is Outcome.OK else before.last_success,
            failure=failure,
        )
        identity = self._identity
        if identity is not None and identity is not self.snapshot.identity:  # known, though no document has come yet
            # Current events take the name with the next document, which decides anew whose they are.
            name = self.snapshot.vm_name if self._known.current else self._settings.vm_name or identity.vm_name
            self.snapshot = replace(self.snapshot, identity=identity, vm_name=name)
        self._trace_hooks()
        hooks = self._journal.inbox.hooks
        self.snapshot = replace(
            self.snapshot.showing(self._known, self._unshown, ended.wall),
            polls=polls,
            journal=self._journal.state,
            deliveries=self._deliveries(),
            pushes=self._pushes(),
            hooks=self.snapshot.hooks if hooks == self.snapshot.hooks else hooks,
        )
        if self._alerts is not None:
            now = self.snapshot
            self._alerts.update(now.shown, now.kinds, now.ended, now.identity, now.polls.up)

    def _trace_hooks(self) -> None:
        """Send the spans of hooks' runs that have ended since the last poll."""
        runs = self._journal.inbox.runs
        if self._delivery is None or runs is self._runs:
            return
        self._runs = runs
        spans = hook_spans(runs, self._traced_runs, self._known, self._traced)
        if spans:
            self._traced_runs |= {run for run, _ in spans}
            self._journal.record(Entry(spans=[span for _, span in spans]), self.snapshot.statistics, self._known)
            self._delivery.wake()

    def _deliveries(self) -> Deliveries:
        """Return how many spans the collector has, refused, and still has to get."""
        if self._delivery is None:
            return Deliveries()
        queued = self._journal.spans_queued()  # first: what is not queued any more has been counted
        return Deliveries(self._delivery.exported, self._delivery.failed, queued)

    def _pushes(self) -> Pushes:
        """Return the results of pushing, the same object while nothing has changed."""
        if self._alerts is None:
            return self.snapshot.pushes
        pushes = self._alerts.pushes
        return self.snapshot.pushes if pushes == self.snapshot.pushes else pushes
