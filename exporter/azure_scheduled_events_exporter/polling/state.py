"""What the exporter knows: events, statistics, and the documents that they come from; and how a document changes it.

Writes each change to the journal before anybody is shown it. Must not ask IMDS, or decide when to:
    ``polling.poller``.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from azure_scheduled_events_exporter.config.settings import Config
from azure_scheduled_events_exporter.core.kinds import with_kinds
from azure_scheduled_events_exporter.core.lifecycle import Change, Lifecycle, Lifecycles, Transition
from azure_scheduled_events_exporter.core.observation import (
    WATCHED_WITHIN_SECONDS,
    ObservationContext,
    observe,
)
from azure_scheduled_events_exporter.core.records import change_record
from azure_scheduled_events_exporter.core.spans import (
    SpanFacts,
    finished,
    hook_run,
    is_traced,
    unfinished,
)
from azure_scheduled_events_exporter.core.timestamp import Timestamp
from azure_scheduled_events_exporter.journal.journal import OWNER_WAIT_SECONDS, Journal
from azure_scheduled_events_exporter.logs import facts
from azure_scheduled_events_exporter.snapshot.snapshot import Snapshot
from azure_scheduled_events_exporter.tracing.delivery import SpanDelivery

from .clock import Clock
from .kernel import Kernel
from .pauses import Pauses

if TYPE_CHECKING:
    from azure_scheduled_events_exporter.core.document import Document
    from azure_scheduled_events_exporter.core.instance import Instance


@dataclass(eq=False)
class State:
    """The state, restored from the journal. One thread uses it; ``snapshot`` may be read by any.

    Attributes:
        clock: the time by the clock of IMDS.
        pauses: measures the pauses of this VM.
        kernel: reads the counters of the kernel.
        delivery: delivers the spans that the journal holds; None without tracing.
        wait: waits so many seconds, or until the process is to end; returns whether it is.
        log: where transitions are logged.
        snapshot: what others may see.
        identity: this VM in the instance metadata; None while unknown.
    """

    config: Config
    journal: Journal
    delivery: SpanDelivery | None
    clock: Clock
    pauses: Pauses
    kernel: Kernel
    wait: Callable[[float], bool]
    log: logging.Logger

    def __post_init__(self) -> None:
        self.identity: Instance | None = None
        self.snapshot = Snapshot(poll_interval=self.config.poll_interval)
        self._began = self.clock()
        self._document: Document | None = None  # the last one whose changes are in the journal
        self._observed_at: Timestamp | None = None  # when the last one came
        # The runs of hooks whose spans are in the journal.
        self._traced_runs = {run.run for run in self.journal.inbox.runs if run.outcome is not None}
        self._restore()

    def _restore(self) -> None:
        """Begin with what the journal has.

        Its events stay current until a document shows otherwise.
        """
        restored = self.journal.restore()
        self.known = replace(restored.lifecycles, seen={})
        self.show(self.clock(), statistics=restored.statistics)

    @property
    def vm_name(self) -> str | None:
        """This VM's name as Resources spell it; None while unknown."""
        return self.config.instance_name or (self.identity.vm_name if self.identity else None)

    @property
    def knows_owner(self) -> bool:
        """Whether the journal's events count as this VM's.

        Until then, they end only if a document has shown them.
        """
        return (
            not self.journal.awaits_vm_id or self.clock().since(self._began) >= OWNER_WAIT_SECONDS
        )

    def identify(self, identity: "Instance | None") -> None:
        """Set this VM's identity. Forget a journal that came with the image of another VM."""
        self.identity = identity
        if identity is not None and self.journal.claim(identity.vm_id):
            self.pauses.take()
            self._restore()

    def show(self, now: Timestamp, **values: object) -> None:
        """Let the snapshot have the events as they are at ``now``, and ``values`` of further fields."""
        names = {"vm_name": self.vm_name, "identity": self.identity}
        self.snapshot = self.snapshot.showing(self.known, now.wall, **names, **values)

    def take_in(self, document: "Document") -> None:
        """Derive transitions from the document, write them to the journal, and log them."""
        before, now = self._document or replace(document, remarks=()), self.clock()
        watched = (
            self._observed_at is not None and now.since(self._observed_at) <= WATCHED_WITHIN_SECONDS
        )
        self._observed_at = now
        context = ObservationContext(
            now,
            self.vm_name,
            watched,
            self.pauses.take(),
            keeps_unshown=not self.knows_owner,
            counted=self.kernel.look(is_changed=document is not self._document),
            harmless_below=self.config.freeze_harmless_below,
        )
        self.record(*observe(self.known, document, context))
        changed = (document.incarnation, document.events) != (before.incarnation, before.events)
        self.snapshot = self.snapshot.having(
            incarnation=document.incarnation,
            document_changes=self.snapshot.document_changes + changed,
        )
        for remark in (each for each in document.remarks if each not in before.remarks):
            self.log.warning(
                "unexpected content in Scheduled Events document", extra=facts(remark=remark)
            )
        self._document = document

    def keep_kinds(self) -> None:
        """Let the events have the kinds of this moment, also while no document comes."""
        known = with_kinds(self.known, self.clock().wall, self.config.freeze_harmless_below)
        self.record(known)

    def record(self, known: Lifecycles, changes: Sequence[Change] = ()) -> None:
        """Write ``changes`` and the new state ``known`` to the journal, log them and show them, in this order."""
        pairs = [
            (life, self.known.current.get(event_id)) for event_id, life in known.current.items()
        ]
        lives = [life for life, before in pairs if life is not before and life != before]
        lives += [change.lifecycle for change in changes if change.lifecycle.outcome]
        if not lives:
            self.known = known
            return
        spans = [
            span
            for change in changes
            if self.is_traced(change.lifecycle)
            for span in finished(change)
        ]
        statistics = self.snapshot.statistics.plus(changes) if changes else self.snapshot.statistics
        self.journal.record(changes, lives, spans, statistics=statistics, lifecycles=known)
        self.known = known
        for change in changes:
            self._log(change)
        if spans and self.delivery is not None:
            self.delivery.wake()
        self.pauses.attend(known)  # before anyone is shown a start: the pause may follow at once
        self.show(self.clock(), statistics=statistics)

    def _log(self, change: Change) -> None:
        """Log a transition with the fields of its JSON record that have a value."""
        level = logging.WARNING if change.transition is Transition.LOST else logging.INFO
        record = change_record(change)
        notice = change.lifecycle.notice_seconds
        record |= {
            "resources": ",".join(change.lifecycle.event.resources),
            "transition": None,
            "at": None,
        }
        record |= {"notice_seconds": None if notice is None else round(notice, 3)}
        known = {name: value for name, value in record.items() if value not in {None, ""}}
        self.log.log(level, "event %s", change.transition, extra=facts(**known))

    def is_traced(self, life: Lifecycle) -> bool:
        """Return whether this VM sends the spans of an event."""
        return self.delivery is not None and is_traced(
            life, peers_too=self.config.tracing_scope == "all"
        )

    def open_spans(self) -> tuple[SpanFacts, ...]:
        """Return the unfinished spans of current events, for a shutdown during an event."""
        lives = (
            self.known.shown if self.journal.awaits_vm_id else self.known.current
        )  # others may be another VM's
        return unfinished(filter(self.is_traced, lives.values()), self.clock())

    def trace_hooks(self) -> None:
        """Send the spans of hooks' runs that have ended since the last poll."""
        if self.delivery is None:
            return
        spans = []
        for run in self.journal.inbox.runs:
            life = self.known.current.get(run.event_id) or self.known.ended.get(run.event_id)
            if (
                run.outcome is None
                or run.run in self._traced_runs
                or life is None
                or not self.is_traced(life)
            ):
                continue
            start, end = Timestamp(run.started), Timestamp(run.started + (run.duration or 0.0))
            spans.append(
                hook_run(life, run.run, start, end, {"phase": run.phase, "outcome": run.outcome})
            )
            self._traced_runs.add(run.run)
        if spans:
            self.journal.record(spans=spans)
            self.delivery.wake()
