"""What the exporter knows: events, statistics, and the newest document.

Each document and each approval changes it, and each change is written to the journal before anybody
is shown it. Must not ask IMDS, or decide when to (``polling.poller``).

What is known begins with what the journal has of earlier runs. A disk that hangs must not hide an
event, so documents are taken in without the journal after :data:`JOURNAL_SECONDS`. Each change of
the known events is a :data:`.steps.Step`, a function that changes nothing itself. When the journal
has been read, the steps so far are applied again to what it has. So an event in the journal is not
detected a second time, and an approval in the journal is not forgotten.
"""

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from azure_scheduled_events_exporter.config.settings import Config
from azure_scheduled_events_exporter.core.bounds import MOST_OWN, MOST_PEERS, weight
from azure_scheduled_events_exporter.core.document import Document
from azure_scheduled_events_exporter.core.instance import Instance
from azure_scheduled_events_exporter.core.kinds import with_kinds
from azure_scheduled_events_exporter.core.lifecycle import Change, Lifecycle, Lifecycles
from azure_scheduled_events_exporter.core.observation import bounded, observe
from azure_scheduled_events_exporter.core.observation_context import (
    WATCHED_WITHIN_SECONDS,
    ObservationContext,
)
from azure_scheduled_events_exporter.core.spans import (
    SpanFacts,
    finished,
    hook_run,
    is_traced,
    unfinished,
)
from azure_scheduled_events_exporter.core.statistics import Statistics
from azure_scheduled_events_exporter.core.timestamp import Timestamp
from azure_scheduled_events_exporter.journal.content.remembered import Remembered
from azure_scheduled_events_exporter.journal.journal import OWNER_WAIT_SECONDS, Journal
from azure_scheduled_events_exporter.logs import facts
from azure_scheduled_events_exporter.snapshot.hooks import HookRun
from azure_scheduled_events_exporter.tracing.delivery import SpanDelivery

from .clock import Clock
from .kernel import Kernel
from .pauses import Pauses
from .steps import KeptSteps, Step
from .transition_log import TransitionLog

QUICK_JOURNAL_SECONDS: Final = 0.5
"""How long the start waits for the journal, in seconds; a disk that works takes 0.02 s.

It waits because the journal has the counters of earlier runs: the first scrape must not see them
fall to 0.
"""
JOURNAL_SECONDS: Final = 1.0
"""How long after the start the first document waits for the journal."""

APPROVALS_WAIT_SECONDS: Final = 60.0
"""While the journal is not read, events of the first document are not approved for so long.

An earlier run may have approved them already. IMDS starts an approved event sooner than that.
"""


@dataclass(eq=False)
class ExporterState:
    """What is known. One thread uses it.

    Attributes:
        config: the settings.
        journal: what earlier runs have left, and where each change is written.
        clock: the time by the clock of IMDS.
        pauses: measures the pauses of this VM.
        kernel: reads the counters of the kernel.
        delivery: delivers the spans that the journal holds; None without tracing.
        wait: waits so many seconds, or until the process is to end; returns whether it is.
        log: where transitions are logged.
        logs_foreign_approvals: whether it is logged that somebody else approved an event. False if
            this process only watches: then it may be this VM's exporter or hook that approved it.
        known: the current events, and those that ended last.
        statistics: of all transitions.
        identity: this VM in the instance metadata, as of this poll; None while unknown.
        document: the newest one, whose changes have been recorded; None before the first.
        document_changes: how many documents differed from the one before.
        events_dropped: how many events of documents were left out, because there were too many.
        has_journal: whether :meth:`take_journal` has taken what the journal has of earlier runs.
    """

    config: Config
    journal: Journal
    delivery: SpanDelivery | None
    clock: Clock
    pauses: Pauses
    kernel: Kernel
    wait: Callable[[float], bool]
    log: logging.Logger
    logs_foreign_approvals: bool = True

    def __post_init__(self) -> None:
        self.known = Lifecycles()
        self.statistics = Statistics()
        self.identity: Instance | None = None
        self.document: Document | None = None
        self.document_changes = 0
        self.events_dropped = 0
        self.has_journal = False
        self._began = self.clock()
        self._observed_at: Timestamp | None = None  # when the last document came
        self._is_crowded = False  # whether events of the last document were left out
        self._kept_steps = KeptSteps()  # those until has_journal
        self._transition_log = TransitionLog(self.log, self.logs_foreign_approvals)
        self._first_events: frozenset[str] = frozenset()  # EventIds of the first document
        self._traced_runs: set[str] = set()  # ids of runs of hooks that need no span any more

    @property
    def vm_name(self) -> str | None:
        """This VM's name: the one that a setting gives, else that in IMDS; None while unknown."""
        if self.config.instance_name:
            return self.config.instance_name
        if self.identity is None:
            return None
        return self.identity.vm_name

    @property
    def knows_owner(self) -> bool:
        """Whether the events in the journal count as this VM's.

        They do not while the journal waits for this VM's id: the journal may have come with the
        image of another VM. Then an event ends only if a document of this run has shown it.
        After :data:`OWNER_WAIT_SECONDS`, they count even if the id is still unknown.
        """
        has_waited = self.clock().since(self._began) >= OWNER_WAIT_SECONDS
        return has_waited or not self.journal.awaits_vm_id

    def take_journal(self, seconds: float = 0.0) -> bool:
        """Begin with what the journal has, once it is read; return whether this call did so.

        Waits for that until so many ``seconds`` have passed since the start. The journal's events
        stay current until a document shows otherwise.
        """
        if self.has_journal:
            return False
        self._wait_for_journal(seconds)
        remembered = self.journal.adopt()
        if remembered is None:  # it has not been read yet
            return False
        # In adopt(), the journal has forgotten what this run had recorded. The kept steps record it
        # again, as it follows from what the journal has.
        self.has_journal = True
        self._restore(remembered)
        for step in self._kept_steps.take():
            self._record(*step(self.known))
        self._transition_log.forget()  # from now on, no transition is derived a second time
        return True

    def _wait_for_journal(self, seconds: float) -> None:
        """Wait until the journal is read or so many seconds have passed since the start."""
        left = seconds - self.clock().since(self._began)
        if left <= 0:
            return
        is_read = self.journal.wait_until_read(left)
        if not is_read and seconds >= JOURNAL_SECONDS:  # a shorter wait says little about the disk
            self.journal.report_hanging(seconds)

    def _restore(self, remembered: Remembered) -> None:
        """Begin with what the journal has."""
        lives = remembered.lifecycles
        self.known = replace(lives, seen={})  # no document of this run has shown them
        self.statistics = remembered.statistics
        self.pauses.restore(remembered.heartbeat)
        # The spans of runs that ended before this start are in the journal, or are not sent.
        self._traced_runs = {run.run for run in self.journal.inbox.runs if run.outcome is not None}

    def identify(self, identity: Instance | None) -> None:
        """Set this VM's identity. Forget a journal that came with the image of another VM."""
        self.identity = identity
        if identity is None:
            return
        was_of_another_vm = self.journal.claim(identity.vm_id)
        if was_of_another_vm:  # the journal has begun anew, without events
            self._restore(self.journal.remembered)

    def take_in(self, document: Document) -> None:
        """Derive transitions from the document, write them to the journal, and log them.

        A document that has not changed is the same object as before, which is usual.
        """
        is_changed = document is not self.document
        context = self._context(is_changed=is_changed)

        def context_now() -> ObservationContext:
            """Return the context with what may change until the step is applied again."""
            return replace(context, keeps_unshown=not self.knows_owner)

        def step(known: Lifecycles) -> tuple[Lifecycles, Sequence[Change]]:
            return observe(known, document, context_now())

        if is_changed:  # before the step: what is left out depends on the events known until now
            self._count_dropped(document, context_now())
        step_weight = 0
        if not self.has_journal:  # only then is the step kept, and its weight needed
            step_weight = sum(map(weight, document.events))
        self.apply(step, step_weight)
        if is_changed:
            self._compare(self.document, document)
        self.document = document

    def _compare(self, before: Document | None, document: Document) -> None:
        """Count a document that differs from ``before``, and log what is unexpected only in it.

        ``before`` is None for the first document.
        """
        remarked: Sequence[str] = ()
        if before is None:
            self._first_events = frozenset(event.event_id for event in document.events)
        else:
            remarked = before.remarks
            if document.incarnation != before.incarnation or document.events != before.events:
                self.document_changes += 1
        for remark in document.remarks:
            if remark not in remarked:
                self._warn(remark)

    def _count_dropped(self, document: Document, context: ObservationContext) -> None:
        """Count the events of a new document that are left out; warn when that begins."""
        left_out = len(document.events) - len(bounded(self.known, document, context).events)
        self.events_dropped += left_out
        if left_out and not self._is_crowded:
            self._warn(
                f"more than {MOST_PEERS} events of other VMs, or {MOST_OWN} of this VM:"
                " new ones are left out"
            )
        self._is_crowded = left_out > 0

    def _warn(self, remark: str) -> None:
        message = "unexpected content in Scheduled Events document"
        self.log.warning(message, extra=facts(remark=remark))

    def _context(self, *, is_changed: bool) -> ObservationContext:
        """Return what the observation of a document depends on besides the document.

        Call it once for each document: it has what was measured since the last call.
        ``is_changed``: whether the document differs from the last one.
        """
        now = self.clock()
        is_watched = False
        if self._observed_at is not None:
            is_watched = now.since(self._observed_at) <= WATCHED_WITHIN_SECONDS
        self._observed_at = now
        return ObservationContext(
            now=now,
            vm_name=self.vm_name,
            watched=is_watched,
            pause=self.pauses.take(),
            counted=self.kernel.look(is_changed=is_changed),
            harmless_below=self.config.freeze_harmless_below,
        )

    def renew_kinds(self) -> None:
        """Give the events the kinds of this moment: they change with time, also without documents.

        A kind is no transition, so nothing is counted or logged.
        """
        known = with_kinds(self.known, self.clock().wall, self.config.freeze_harmless_below)
        self._record(known, ())

    def apply(self, step: Step, step_weight: int = 1) -> None:
        """Change the known events, write the changes to the journal and log them.

        If the journal has not been read, the step is kept with its weight, and applied again later.
        """
        before = self.known
        known, changes = step(before)
        self._record(known, changes)
        if not self.has_journal and _changed_lives(before, known, changes):
            self._kept_steps.add(step, step_weight)

    def _record(self, known: Lifecycles, changes: Sequence[Change]) -> None:
        """Write ``changes`` and the events ``known`` after them to the journal, then log them."""
        lives = _changed_lives(self.known, known, changes)
        if not lives:  # so no changes either: each change has changed a life
            self.known = known
            return
        spans: list[SpanFacts] = []
        for change in changes:
            if self.is_traced(change.lifecycle):
                spans += finished(change)
        if changes:
            self.statistics = self.statistics.plus(changes)
        self.journal.record(changes, lives, spans, statistics=self.statistics, lifecycles=known)
        self.known = known
        for change in changes:
            self._transition_log.write(change)
        if spans and self.delivery is not None:
            self.delivery.wake()
        self.pauses.attend(known)  # before a start is published: the pause may follow at once

    @property
    def approvable(self) -> frozenset[str]:
        """The EventIds that may be approved now: those of the newest document.

        While the journal is not read, those of the first document wait until
        :data:`APPROVALS_WAIT_SECONDS` after the start, because an earlier run may have approved
        them.
        """
        if self.document is None:
            return frozenset()
        shown = frozenset(event.event_id for event in self.document.events)
        if self.has_journal or self.clock().since(self._began) >= APPROVALS_WAIT_SECONDS:
            return shown
        return shown - self._first_events

    def is_traced(self, life: Lifecycle) -> bool:
        """Return whether this VM sends the spans of an event."""
        if self.delivery is None:
            return False
        return is_traced(life, peers_too=self.config.tracing_scope == "all")

    def open_spans(self) -> tuple[SpanFacts, ...]:
        """Return the unfinished spans of current events, for a shutdown during an event."""
        lives = self.known.current
        if self.journal.awaits_vm_id:
            lives = self.known.shown  # an event that no document has shown may be another VM's
        return unfinished(filter(self.is_traced, lives.values()), self.clock())

    def trace_hooks(self) -> None:
        """Send the span of each hook's run that has ended, once.

        A run whose event is not known has none.
        """
        if self.delivery is None:
            return
        spans = []
        for run in self.journal.inbox.runs:
            if run.outcome is None or run.run in self._traced_runs:
                continue
            life = self.known.current.get(run.event_id) or self.known.ended.get(run.event_id)
            if life is not None and self.is_traced(life):
                spans.append(_span_of(run, life))
                self._traced_runs.add(run.run)
        if spans:
            self.journal.record(spans=spans)
            self.delivery.wake()


def _changed_lives(
    before: Lifecycles, after: Lifecycles, changes: Iterable[Change]
) -> list[Lifecycle]:
    """Return the lives that are new or different, and those that have ended."""
    lives = []
    for event_id, life in after.current.items():
        earlier = before.current.get(event_id)
        if life is not earlier and life != earlier:  # most are the same object, seen at once
            lives.append(life)
    lives += [change.lifecycle for change in changes if change.lifecycle.outcome]
    return lives


def _span_of(run: HookRun, life: Lifecycle) -> SpanFacts:
    """Return the span of a run that has ended, in the trace of the event ``life``."""
    start = Timestamp(run.started)
    end = Timestamp(run.started + (run.duration or 0.0))
    attributes = {"phase": run.phase, "outcome": run.outcome or ""}
    return hook_run(life, run.run, start, end, attributes)
