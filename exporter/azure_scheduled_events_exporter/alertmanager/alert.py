"""Decides which alert an event of this VM raises: what the table of alerts gives to its kind.

Pure. Times in texts are by the clock of IMDS, so a wrong clock of this VM changes none.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from azure_scheduled_events_exporter.alerts.events import RESOLVE_AFTER
from azure_scheduled_events_exporter.alerts.formats.wording import (
    NO_VMS,
    UNKNOWN_TIME,
    vms_with_group,
)
from azure_scheduled_events_exporter.alerts.pushed import Facts, PushedAlert
from azure_scheduled_events_exporter.core.document import RESOURCES_SHOWN
from azure_scheduled_events_exporter.core.instance import Instance
from azure_scheduled_events_exporter.core.lifecycle import Kind, Lifecycle, State
from azure_scheduled_events_exporter.core.timestamp import Timestamp
from azure_scheduled_events_exporter.times import iso_time

Catalog = Sequence[PushedAlert]
"""All alerts that exporters push, of which an event has one at most."""

Identity = frozenset[tuple[str, str]]
"""The labels of an alert, each with its value."""

_OTHERS_LATER_SECONDS = 120.0
"""How much later than this VM the other VMs of an event may see its end."""


@dataclass(frozen=True, slots=True)
class EventAlert:
    """The alert of one event.

    Attributes:
        labels: all of them, ``alertname`` among them.
        annotations: the texts and links.
        first_seen: when its event was first seen.
        hold_seconds: for how long Alertmanager shows it as firing without another post.
        resolve_after_seconds: how long after the end of its event it is resolved.
    """

    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    first_seen: Timestamp
    hold_seconds: float
    resolve_after_seconds: float = float(RESOLVE_AFTER)

    @property
    def identity(self) -> Identity:
        """All labels: Alertmanager treats alerts with equal labels as one."""
        return frozenset(self.labels.items())

    @property
    def name(self) -> str:
        """The name of the rule that raises the same alert."""
        return self.labels["alertname"]


def alert_of(
    life: Lifecycle,
    kind: Kind,
    instance: Instance | None,
    catalog: Catalog,
    extra: Mapping[str, str],
) -> EventAlert | None:
    """Return the alert of the event ``life``; None if it raises none.

    Args:
        life: the event.
        kind: the kind whose alert is looked up: that of ``life``. Tests look up others.
        instance: this VM; None while it is unknown. Only texts depend on it: with other labels, it
            would be another alert.
        catalog: all alerts that exporters push.
        extra: labels to add; they replace none of the alert's own.
    """
    event_type = life.event.event_type
    row = next((each for each in catalog if each.events.has(kind, event_type)), None)
    if row is None:
        return None
    event = {
        "alertname": row.alert.name,
        "event_id": life.event_id,
        "event_type": event_type,
    }
    return EventAlert(
        labels={**extra, **row.labels, **event},
        annotations=row.annotations(facts_of(life, instance)),
        first_seen=life.first_seen,
        hold_seconds=float(row.events.hold),
        resolve_after_seconds=_resolve_after(life),
    )


def _resolve_after(life: Lifecycle) -> float:
    """Return how long after its end an event's alert is resolved.

    The other VMs of an event may see its end later. A resolve while they or the rules still post
    the alert would be followed by a second page.
    """
    if life.event.resource_count > 1:
        return RESOLVE_AFTER + _OTHERS_LATER_SECONDS
    return float(RESOLVE_AFTER)


def facts_of(life: Lifecycle, instance: Instance | None) -> Facts:
    """Return what the texts say of the event ``life``."""
    resource_group = ""
    if instance is not None:
        resource_group = instance.resource_group.lower()
    vms = life.event.vms or f"{NO_VMS} {life.event_id}"
    return Facts(
        event_id=life.event_id,
        event_type=life.event.event_type,
        vms=vms_with_group(vms, resource_group),
        when=_when(life),
        names=life.event.resources[:RESOURCES_SHOWN],
        resource_group=resource_group,
    )


def _when(life: Lifecycle) -> str:
    """Return when the impact of an event begins or began, in words."""
    if life.impact_at is None:
        return UNKNOWN_TIME
    word = "at"
    if life.state is State.STARTED:
        word = "since"
    time = iso_time(life.impact_at).replace("T", " ").replace("Z", " UTC")
    return f"{word} {time}"
