"""What the exporter knows: events, statistics, and the documents that they come from; and how a document changes it.

Writes each change to the journal before anybody is shown it. Must not ask IMDS, or decide when to: ``polling.poller``.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from azure_scheduled_events_exporter.core.lifecycle import Change, Lifecycle, Lifecycles
from azure_scheduled_events_exporter.core.observation import (
    WATCHED_WITHIN_SECONDS,
    ObservationContext,
    observe,
    record_pause,
)
from azure_scheduled_events_exporter.core.spans import SpanFacts, finished, hook_run, is_traced, unfinished
from azure_scheduled_events_exporter.core.statistics import Statistics
from azure_scheduled_events_exporter.core.timestamp import Timestamp
from azure_scheduled_events_exporter.journal.journal import OWNER_WAIT_SECONDS, Journal
from azure_scheduled_events_exporter.journal.store import Entry
from azure_scheduled_events_exporter.logs import facts
from azure_scheduled_events_exporter.tracing.delivery import SpanDelivery

from .clock import Clock
from .document_reader import Reading
from .event_log import log_changes
from .pauses import Pauses
from .snapshot import Snapshot

if TYPE_CHECKING:
    from azure_scheduled_events_exporter.core.document import Document
    from azure_scheduled_events_exporter.core.instance import Instance


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


@dataclass(eq=False)
class State:
    """The state, restored from the journal. One thread uses it; ``snapshot`` may be read by any.

    Attributes:
        known: the events.
        snapshot: what others may see.
        identity: this VM in the instance metadata; None while unknown. Any thread may set it.
        owner_is_known: whether events that only the journal knows end when a document does not show them.
    """

    settings: Settings
    journal: Journal
    delivery: SpanDelivery | None
    clock: Clock
    wait: Callable[[float], bool]
    log: logging.Logger

    def __post_init__(self) -> None:
        self.identity: Instance | None = None
        restored = self.journal.restore()
        self.known: Lifecycles = restored.lifecycles
        self._unshown = frozenset(self.known.current)  # events of earlier runs that no document of this run has shown
        self.owner_is_known = True
        self._began = self.clock()
        # When the last document came, believed or not; None if an event can have started unseen before it.
        self._watched_at: Timestamp | None = None
        self._pauses = Pauses(self.clock, self.wait, self.journal)
        self._document: Document | None = None  # the last one whose changes are in the journal
        # The runs of hooks whose spans are in the journal.
        self._traced_runs = {run.run for run in self.journal.inbox.runs if run.outcome is not None}
        # Events from before the restart stay current until a document shows otherwise.
        self.snapshot = Snapshot(
            poll_interval=self.settings.interval, vm_name=self.settings.vm_name, statistics=restored.statistics
        )
        self.show(self._began)

    def show(self, now: Timestamp) -> None:
        """Let the snapshot have the events as they are at ``now``."""
        self.snapshot = self.snapshot.showing(self.known, self._unshown, now.wall)

    def take_in(self, reading: Reading) -> None:
        """Derive transitions from the document, write them to the journal, and log them."""
        now, document = self.clock(), reading.document
        watched = self._watched_at is not None and now.since(self._watched_at) <= WATCHED_WITHIN_SECONDS
        if not reading.is_believed:
            if reading.empty_polls == 1:
                self.log.warning("empty body while events are current: not believed yet")
            self._watched_at = now if watched else None
            return
        pause = self._pauses.take()
        vm_name = self.settings.vm_name or (self.identity.vm_name if self.identity else None)
        shown = {event.event_id for event in document.events}
        self._unshown -= shown
        owner_is_known = self._knows_owner(now)
        # An event that is missing while it is kept current has left unseen; one that is present is watched from now on.
        is_whole = not document.unreadable or shown.issuperset(self.known.current)
        self._watched_at = now if watched or is_whole else None
        owner_is_new = bool(self._unshown) and owner_is_known != self.owner_is_known
        self.owner_is_known = owner_is_known
        # Compare identity: an unchanged body is not parsed again.
        is_same = document is self._document and not owner_is_new
        if is_same and vm_name == self.snapshot.vm_name and self.identity == self.snapshot.identity:
            self.record(record_pause(self.known, pause))
            return
        context = ObservationContext(
            now,
            vm_name,
            watched,
            pause,
            self._unshown,
            kept=frozenset() if owner_is_known else self._unshown,
            absent_since=reading.empty_since,
        )
        known, changes = observe(self.known, document, context)
        before = self._document or replace(document, remarks=())
        changed = (document.incarnation, document.events) != (before.incarnation, before.events)
        self._write(
            known,
            changes,
            vm_name=vm_name,
            identity=self.identity,
            incarnation=document.incarnation,
            document_changes=self.snapshot.document_changes + changed,
        )
        for remark in (each for each in document.remarks if each not in before.remarks):
            self.log.warning("unexpected content in Scheduled Events document", extra=facts(remark=remark))
        self._document = document

    def _knows_owner(self, now: Timestamp) -> bool:
        """Return whether to treat the journal's events as this VM's.

        They may be another VM's. Until that is known, they end only if a document has shown them.
        """
        return not self.journal.awaits_vm_id or now.since(self._began) >= OWNER_WAIT_SECONDS

    def record(self, known: Lifecycles, changes: Sequence[Change] = ()) -> None:
        """Write ``changes`` and the new state ``known`` to the journal, then log and show them."""
        if known is not self.known:
            self._write(known, changes)

    def _write(self, known: Lifecycles, changes: Sequence[Change], **shown: object) -> None:
        """Write, log and show, in this order; ``shown`` are further fields of the snapshot."""
        snapshot = self.snapshot.showing(known, self._unshown, self.clock().wall, changes)
        lives = [life for life in known.current.values() if life != self.known.current.get(life.event_id)]
        lives += [change.lifecycle for change in changes if change.lifecycle.outcome]
        spans = [span for change in changes if self.is_traced(change.lifecycle) for span in finished(change)]
        if changes or lives:
            self.journal.record(Entry(changes, lives, spans), snapshot.statistics, known)
        self.known = known
        log_changes(self.log, changes)
        if spans and self.delivery is not None:
            self.delivery.wake()
        self.attend_pauses()  # before anyone is shown a start: the pause may follow at once
        self.snapshot = snapshot.having(**shown)

    def claim_journal(self) -> bool:
        """Begin without events if the journal is another VM's, because this VM was created from its image.

        Return whether it was.
        """
        if self.identity is None or not self.journal.claim(self.identity.vm_id):
            return False
        self.known, self._watched_at, self._unshown = Lifecycles(), None, frozenset()
        self._pauses.stop()
        self._pauses = Pauses(self.clock, self.wait, self.journal)
        self.snapshot = replace(self.snapshot, statistics=Statistics())
        self.show(self.clock())
        return True

    def attend_pauses(self) -> None:
        """Measure pauses while this VM has an event. Call at the end of each poll."""
        self._pauses.attend(self.known)

    def record_heartbeat(self) -> None:
        """Write a heartbeat so that the next run knows when this run ended."""
        self._pauses.end()

    def is_traced(self, life: Lifecycle) -> bool:
        """Return whether this VM sends the spans of an event."""
        return self.delivery is not None and is_traced(life, peers_too=self.settings.trace_peers)

    def open_spans(self) -> tuple[SpanFacts, ...]:
        """Return the unfinished spans of current events, for a shutdown during an event."""
        others = self._unshown if self.journal.awaits_vm_id else frozenset()  # they may be another VM's
        lives = [life for life in self.known.current.values() if self.is_traced(life) and life.event_id not in others]
        return unfinished(lives, self.clock())

    def trace_hooks(self) -> None:
        """Send the spans of hooks' runs that have ended since the last poll."""
        if self.delivery is None:
            return
        spans = []
        for run in self.journal.inbox.runs:
            life = self.known.current.get(run.event_id) or self.known.ended.get(run.event_id)
            if run.outcome is None or run.run in self._traced_runs or life is None or not self.is_traced(life):
                continue
            start, end = Timestamp(run.started), Timestamp(run.started + (run.duration or 0.0))
            spans.append(hook_run(life, run.run, start, end, {"phase": run.phase, "outcome": run.outcome}))
            self._traced_runs.add(run.run)
        if spans:
            self.journal.record(Entry(spans=spans), self.snapshot.statistics, self.known)
            self.delivery.wake()
