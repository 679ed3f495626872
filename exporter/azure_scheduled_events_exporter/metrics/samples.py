"""The readers of the metrics that are more than one field: label values and value of each series.

They get fields of a snapshot and know neither names nor help of the metrics.
"""

from collections.abc import Callable, Iterable, Mapping

from azure_scheduled_events_exporter.approval.scheduler import ApprovalStatus
from azure_scheduled_events_exporter.core.document import RESOURCES_SHOWN, Scope
from azure_scheduled_events_exporter.core.event_types import EventType
from azure_scheduled_events_exporter.core.instance import Instance
from azure_scheduled_events_exporter.core.kinds import Kind
from azure_scheduled_events_exporter.core.lifecycle import Lifecycle, State

from .spec import Labels

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
VM_LABELS = ("vm_id", "vm_name", "computer_name", "subscription_id", "resource_group", "scale_set", "zone")

Samples = Iterable[tuple[Labels, float]]
Lives = Mapping[str, Lifecycle]


def event_labels(life: Lifecycle) -> Labels:
    """Return the values of the labels event_id, event_type and scope."""
    return life.event_id, life.event.event_type, str(life.scope)


def each(value: Callable[[Lifecycle], float | None]) -> Callable[[Lives], Samples]:
    """Return a reader of one value for each current event; an event whose value is None has no series."""

    def samples(current: Lives) -> Samples:
        found = ((life, value(life)) for life in current.values())
        return ((event_labels(life), number) for life, number in found if number is not None)

    return samples


@each
def not_before(life: Lifecycle) -> float | None:
    """Return NotBefore, wall-clock seconds, of an event that has not started."""
    return life.event.not_before if life.is_pending else None


def count(which: Callable[[Lifecycle], bool]) -> Callable[[Lives, str | None], Samples]:
    """Return a reader of the number of events by type and scope; documented types exist from the start as 0.

    Scope unknown exists only while this VM's name is unknown.
    """

    def samples(current: Lives, vm_name: str | None) -> Samples:
        scopes = [scope for scope in Scope if scope is not Scope.UNKNOWN or vm_name is None]
        counts = {(str(event_type), str(scope)): 0 for event_type in EventType for scope in scopes}
        for life in current.values():
            if which(life):
                key = (life.event.event_type, str(life.scope))
                counts[key] = counts.get(key, 0) + 1
        return counts.items()

    return samples


def approvals_due(current: Lives, statuses: Mapping[str, ApprovalStatus]) -> Samples:
    """Return when the policy approves each current event, wall-clock seconds; none for an event that it holds."""
    due = ((current.get(event_id), status.due) for event_id, status in statuses.items())
    return ((event_labels(life), moment) for life, moment in due if life is not None and moment is not None)


def event_info(current: Lives, kinds: Mapping[str, Kind]) -> Samples:
    """Return 1 for each current event, with its kind and its texts as labels."""
    for life in current.values():
        event = life.event
        status = str(life.state) if life.state is State.STARTED else event.status
        names = ",".join(event.resources[:RESOURCES_SHOWN])
        kind = str(kinds[event.event_id])
        yield (*event_labels(life), status, event.source, kind, event.description, names), 1


def ended(lives: Iterable[Lifecycle]) -> Samples:
    """Return when each of these events ended, wall-clock seconds."""
    for life in lives:
        if life.ended_at is not None:
            yield (*event_labels(life), str(life.outcome)), life.ended_at.wall


def impact(current: Lives, kinds: Mapping[str, Kind], identity: Instance | None, vm_name: str | None) -> Samples:
    """Return when the impact of each event of this VM begins or began, wall-clock seconds."""
    known = _of_vm(identity, vm_name)
    vm = tuple(known[label] for label in VM_LABELS)
    for life in current.values():
        moment = life.impact_at
        if life.is_mine and moment is not None and kinds[life.event_id] not in {Kind.HARMLESS, Kind.ADVISORY}:
            yield (life.event_id, life.event.event_type, *vm), moment


def instance_info(identity: Instance | None, vm_name: str | None) -> Samples:
    """Return 1 for this VM, with the values of ``INSTANCE_LABELS``, once its name or its metadata is known."""
    if identity is not None or vm_name is not None:
        known = _of_vm(identity, vm_name)
        yield tuple(known[label] for label in INSTANCE_LABELS), 1


def _of_vm(identity: Instance | None, vm_name: str | None) -> Mapping[str, str]:
    """Return the values of labels about this VM. Azure spells places differently in its answers: lower case here."""
    known = identity or Instance("")
    values = {label: str(getattr(known, label)) for label in INSTANCE_LABELS}
    lowered = {label: values[label].lower() for label in ("resource_group", "subscription_id", "scale_set")}
    return {**values, **lowered, "vm_name": vm_name or known.vm_name, "computer_name": known.host_name}
