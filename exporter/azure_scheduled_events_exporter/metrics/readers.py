"""What the rows of the table of metrics read from a snapshot, where an expression is not enough.

A reader gets a snapshot, and returns or yields the series of one metric: the values of its labels,
and its value. ``of_each``, ``counted`` and ``measured`` make a reader for several metrics each. The
text of a metric is kept while the fields of the snapshot that its reader has read are the same
objects, so a reader must read nothing else: no clock, no file and no other object.

The current events of a metric are those of ``Snapshot.shown``, which a document of this run has
shown. An event that only the journal of an earlier run knows has no series yet.
"""

import math
from collections.abc import Callable, Iterator, Mapping

from azure_scheduled_events_exporter.core.document import RESOURCES_SHOWN, Scope
from azure_scheduled_events_exporter.core.event_types import EventType
from azure_scheduled_events_exporter.core.instance import Instance
from azure_scheduled_events_exporter.core.lifecycle import Kind, Lifecycle, State, impact_values
from azure_scheduled_events_exporter.snapshot.snapshot import Snapshot

from .spec import Labels, Sample

EVENT = ("event_id", "event_type", "scope")
"""The labels of most metrics of one event."""
EVENT_AND_KIND = ("event_id", "event_type", "kind", "scope")
SCALE_SET = ("subscription_id", "resource_group", "scale_set")
"""The labels that VMs of one scale set share.

Their values are in lower case, because Azure spells them in several ways.
"""
METADATA = (
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
"""The labels of this VM that are fields of ``Instance`` with the same names."""
VM = ("vm_id", "vm_name", "computer_name", *SCALE_SET, "zone")
"""The labels of this VM in the metric of its own events."""
_WITHOUT_IMPACT = frozenset({Kind.HARMLESS, Kind.ADVISORY})
"""Kinds of events during which nobody has to expect that a VM goes away."""


def _event_labels(life: Lifecycle) -> Labels:
    """Return the values of the labels ``EVENT``."""
    return life.event_id, life.event.event_type, str(life.scope)


def _event_kind_labels(life: Lifecycle) -> Labels:
    """Return the values of the labels ``EVENT_AND_KIND``."""
    return life.event_id, life.event.event_type, str(life.kind), str(life.scope)


def of_each(value: Callable[[Lifecycle], float | None]) -> Callable[[Snapshot], Iterator[Sample]]:
    """Return a reader of one value for each current event.

    ``value`` gets the event. If it returns None, the event has no series.
    """

    def read(snapshot: Snapshot) -> Iterator[Sample]:
        for life in snapshot.shown.values():
            number = value(life)
            if number is not None:
                yield Sample(_event_labels(life), number)

    return read


def not_before(life: Lifecycle) -> float | None:
    """Return NotBefore, wall-clock seconds; None once the event has started."""
    if not life.is_pending:
        return None
    return life.event.not_before


def started(life: Lifecycle) -> float | None:
    """Return when the event started, wall-clock seconds; None unless it is Started."""
    if life.state is not State.STARTED:
        return None
    return life.impact_at  # the impact of a Started event begins with its start


def counted(which: Callable[[Lifecycle], bool]) -> Callable[[Snapshot], Mapping[Labels, int]]:
    """Return a reader of how many current events satisfy ``which``, by type and scope.

    Documented types exist from the start as 0. Scope unknown exists only while this VM's name is
    unknown.
    """

    def read(snapshot: Snapshot) -> Mapping[Labels, int]:
        scopes = list(Scope)
        if snapshot.vm_name is not None:
            scopes.remove(Scope.UNKNOWN)
        counts: dict[Labels, int] = {
            (str(event_type), str(scope)): 0 for event_type in EventType for scope in scopes
        }
        for life in filter(which, snapshot.shown.values()):
            key = (life.event.event_type, str(life.scope))
            counts[key] = counts.get(key, 0) + 1
        return counts

    return read


def approvals_due(snapshot: Snapshot) -> Iterator[Sample]:
    """Yield when the policy approves each current event, wall-clock seconds.

    An event that the policy does not approve has no series.
    """
    for event_id, status in snapshot.approval_statuses.items():
        life = snapshot.shown.get(event_id)
        if life is not None and status.due is not None:
            yield Sample(_event_labels(life), status.due)


def event_info(snapshot: Snapshot) -> Iterator[Sample]:
    """Yield 1 for each current event, with its kind and its texts as labels."""
    (resource_group,) = _of_vm(snapshot, ("resource_group",))
    for life in snapshot.shown.values():
        event = life.event
        status = event.status
        if life.state is State.STARTED:  # an outdated document may show it as Scheduled again
            status = str(life.state)
        labels = (
            *_event_labels(life),
            status,
            event.source,
            str(life.kind),
            event.description,
            ",".join(event.resources[:RESOURCES_SHOWN]),
            event.vms,
            resource_group,
        )
        yield Sample(labels, 1)


def event_seen(snapshot: Snapshot) -> Iterator[Sample]:
    """Yield each current event with its EventId in the place of the value.

    At each scrape, ``at_scrape`` of the metric looks up by this EventId when the event was last
    seen. That time changes with each poll, while these samples stay as they are until an event
    changes.
    """
    for life in snapshot.shown.values():
        yield Sample(_event_kind_labels(life), life.event_id)


def event_impact(snapshot: Snapshot) -> Iterator[Sample]:
    """Yield when the impact of each current event begins or began, whole wall-clock seconds."""
    for life in snapshot.shown.values():
        if life.impact_at is not None:
            yield Sample(_event_kind_labels(life), math.floor(life.impact_at))


def vm_impact(snapshot: Snapshot) -> Iterator[Sample]:
    """Yield when the impact of each event of this VM begins or began, wall-clock seconds.

    Events of the kinds harmless and advisory have no series.
    """
    vm = _of_vm(snapshot, VM)
    for life in snapshot.shown.values():
        has_impact = life.kind not in _WITHOUT_IMPACT
        if life.is_mine and has_impact and life.impact_at is not None:
            yield Sample((life.event_id, life.event.event_type, *vm), life.impact_at)


def peer_impact(snapshot: Snapshot) -> Iterator[Sample]:
    """Yield when the impact of each Started event of other VMs began, for each of its VMs.

    A VM whose host fails cannot say so itself. The VMs of an event are in one scale set or in none,
    so the labels ``SCALE_SET`` of this VM are those of the other ones, too.
    """
    place = _of_vm(snapshot, SCALE_SET)
    for life in snapshot.shown.values():
        has_impact = life.kind not in _WITHOUT_IMPACT
        is_peer = life.scope is Scope.PEER
        if is_peer and has_impact and life.started_at is not None:
            for name in life.event.resources[:RESOURCES_SHOWN]:
                # api-version 2017-03-01 prefixes names with an underscore.
                labels = (life.event_id, life.event.event_type, name.lstrip("_"), *place)
                yield Sample(labels, life.started_at.wall)


def measured(name: str) -> Callable[[Snapshot], Iterator[Sample]]:
    """Return a reader of the value ``name`` of :func:`impact_values`.

    It reads the current events and those that have ended within the last hour.
    """

    def read(snapshot: Snapshot) -> Iterator[Sample]:
        for life in (*snapshot.shown.values(), *snapshot.ended):
            number = impact_values(life)[name]
            if number is not None:
                yield Sample(_event_labels(life), number)

    return read


def paused_longer(snapshot: Snapshot) -> Iterator[Sample]:
    """Yield the longest pause of this VM during an event, in seconds, if it was too long.

    Too long means: longer than Azure had announced, and longer than ``--freeze.harmless-below``.
    The last two labels are the name of this VM and the announced seconds.
    """
    (vm_name,) = _of_vm(snapshot, ("vm_name",))
    for life in (*snapshot.shown.values(), *snapshot.ended):
        announced = life.event.duration_seconds
        if life.paused_longer and life.observed_pause is not None and announced is not None:
            labels = (*_event_labels(life), vm_name, f"{announced:g}")
            yield Sample(labels, life.observed_pause)


def ended(snapshot: Snapshot) -> Iterator[Sample]:
    """Yield the end of each event that ended within the last hour, wall-clock seconds."""
    for life in snapshot.ended:
        if life.ended_at is not None:
            yield Sample((*_event_labels(life), str(life.outcome)), life.ended_at.wall)


def instance_info(snapshot: Snapshot) -> Mapping[Labels, int]:
    """Return 1 for this VM, once its name or its metadata is known."""
    if snapshot.identity is None and snapshot.vm_name is None:
        return {}
    return {_of_vm(snapshot, (*METADATA, "computer_name")): 1}


def host_info(snapshot: Snapshot) -> Mapping[str, int]:
    """Return 1 for this VM, once its computer name is known."""
    identity = snapshot.identity
    if identity is None or not identity.host_name:
        return {}
    return {identity.host_name: 1}


def _of_vm(snapshot: Snapshot, labels: Labels) -> Labels:
    """Return the values of ``labels`` for this VM; ``""`` for each that is unknown.

    ``labels`` may be any of ``METADATA``, and ``computer_name``.
    """
    known = snapshot.identity or Instance("")
    values = {label: str(getattr(known, label)) for label in METADATA}
    values |= {label: values[label].lower() for label in SCALE_SET}
    values["vm_name"] = snapshot.vm_name or known.vm_name
    values["computer_name"] = known.host_name
    return tuple(values[label] for label in labels)
