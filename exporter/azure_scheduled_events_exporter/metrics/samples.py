"""The readers of the metrics that are more than one field: label values and value of each series.

They get fields of a snapshot and know neither names nor help of the metrics.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import StrEnum

from azure_scheduled_events_exporter.approval.scheduler import ApprovalStatus
from azure_scheduled_events_exporter.core.document import RESOURCES_SHOWN, Scope
from azure_scheduled_events_exporter.core.event_types import EventType
from azure_scheduled_events_exporter.core.instance import Instance
from azure_scheduled_events_exporter.core.lifecycle import Lifecycle, State

from .spec import Labels

DESCRIPTION_SHOWN = 1024  # of a label value: a hostile description must not fill the memory of Prometheus
INSTANCE_LABELS = (
    "vm_name",
    "vm_id",
    "scale_set",
    "location",
    "zone",
    "fault_domain",
    "resource_group",
    "subscription_id",
    "vm_size",
    "priority",
)

Samples = Iterable[tuple[Labels, float]]
Lives = Mapping[str, Lifecycle]


def announced(lives: Iterable[Lifecycle]) -> Iterator[tuple[Lifecycle, float]]:
    """Yield the lifecycles of events that have not started, each with its NotBefore."""
    for life in lives:
        if life.state is not State.STARTED and life.event.not_before is not None:
            yield life, life.event.not_before


def event_labels(life: Lifecycle) -> Labels:
    """Return the values of the labels event_id, event_type and scope."""
    return life.event_id, life.event.event_type, str(life.scope)


def each(value: Callable[[Lifecycle], float | None]) -> Callable[[Lives], Samples]:
    """Return a reader of one value for each current event; an event whose value is None has no series."""

    def samples(current: Lives) -> Samples:
        found = ((life, value(life)) for life in current.values())
        return ((event_labels(life), number) for life, number in found if number is not None)

    return samples


def not_before(current: Lives) -> Samples:
    """Return NotBefore, wall-clock seconds, of each event that has not started."""
    return ((event_labels(life), moment) for life, moment in announced(current.values()))


def count(which: Callable[[State], bool]) -> Callable[[Lives, str | None], Samples]:
    """Return a reader of the number of events by type and scope; documented types exist from the start as 0.

    Scope unknown exists only while this VM's name is unknown.
    """

    def samples(current: Lives, vm_name: str | None) -> Samples:
        scopes = [scope for scope in Scope if scope is not Scope.UNKNOWN or vm_name is None]
        counts = {(str(event_type), str(scope)): 0 for event_type in EventType for scope in scopes}
        for life in current.values():
            if which(life.state):
                key = (life.event.event_type, str(life.scope))
                counts[key] = counts.get(key, 0) + 1
        return counts.items()

    return samples


def unconfirmed(current: Lives, event_ids: Iterable[str]) -> Samples:
    """Return 1 for each current event among ``event_ids``."""
    return ((event_labels(current[event_id]), 1) for event_id in event_ids if event_id in current)


def approvals_due(current: Lives, statuses: Mapping[str, ApprovalStatus]) -> Samples:
    """Return when the policy approves each current event, wall-clock seconds; none for an event that it holds."""
    due = ((current.get(event_id), status.due) for event_id, status in statuses.items())
    return ((event_labels(life), moment) for life, moment in due if life is not None and moment is not None)


def event_info(current: Lives) -> Samples:
    """Return 1 for each current event, with its texts as labels, which are cut if they are long."""
    for life in current.values():
        event = life.event
        status = str(life.state) if life.state is State.STARTED else event.status
        names = ",".join(event.resources[:RESOURCES_SHOWN])
        description = event.description[:DESCRIPTION_SHOWN]
        yield (event.event_id, event.event_type, status, event.source, str(life.scope), description, names), 1


def instance_info(identity: Instance | None, vm_name: str | None) -> Samples:
    """Return 1 for this VM, with the values of ``INSTANCE_LABELS``, once its name or its metadata is known."""
    if identity is not None or vm_name is not None:
        known = identity or Instance("")
        yield (vm_name or known.vm_name, *(str(getattr(known, label)) for label in INSTANCE_LABELS[1:])), 1


def outcomes(counts: Mapping[StrEnum, int]) -> Samples:
    """Return the count of each outcome."""
    return (((str(outcome),), number) for outcome, number in counts.items())
