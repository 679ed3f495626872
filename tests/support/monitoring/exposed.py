"""The exposition of an exporter that has seen some documents around noon."""

from collections.abc import Iterable

from azure_scheduled_events_exporter.core.approvals import mark_approved
from azure_scheduled_events_exporter.core.document import Document, ScheduledEvent
from azure_scheduled_events_exporter.core.lifecycle import Approver, Lifecycles
from azure_scheduled_events_exporter.core.observation import observe
from azure_scheduled_events_exporter.core.observation_context import ObservationContext
from azure_scheduled_events_exporter.core.pause import Pause
from azure_scheduled_events_exporter.core.statistics import Statistics
from azure_scheduled_events_exporter.core.timestamp import Timestamp
from azure_scheduled_events_exporter.metrics.exposition import Exposition
from azure_scheduled_events_exporter.snapshot.snapshot import Snapshot

NOON = 1_650_000_000.0


def at(seconds: float) -> Timestamp:
    """So many seconds after noon."""
    return Timestamp(NOON + seconds, 1000 + seconds, "boot")


def snapshot_after(
    *documents: tuple[float, Iterable[ScheduledEvent]], vm_name: str | None = "vmss_0"
) -> Snapshot:
    """The state after an exporter saw ``documents``, each so many seconds after noon."""
    known = Lifecycles()
    statistics = Statistics()
    for seconds, events in documents:
        context = ObservationContext(at(seconds), vm_name, pause=Pause(0.004))
        known, changes = observe(known, Document(7, tuple(events)), context)
        statistics = statistics.plus(changes)
        for event in events:
            if event.event_id == "APPROVED":
                known, changes = mark_approved(
                    known, event.event_id, Approver.OPERATOR, at(seconds + 2)
                )
                statistics = statistics.plus(changes)
    snapshot = Snapshot(vm_name=vm_name, incarnation=7, statistics=statistics)
    return snapshot.with_events(known, NOON + documents[-1][0])


def exposition(snapshot: Snapshot, seconds: float = 100) -> Exposition:
    """An exposition of ``snapshot`` scraped so many seconds after noon."""
    return Exposition(lambda: snapshot, lambda: NOON + seconds)
