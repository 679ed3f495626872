"""Decides which alert an event of this VM raises: the one that the catalog gives to its kind and type. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, fields

from azure_scheduled_events_exporter.core.instance import Instance
from azure_scheduled_events_exporter.core.kinds import Kind
from azure_scheduled_events_exporter.core.lifecycle import Lifecycle
from azure_scheduled_events_exporter.core.timestamp import Timestamp

from .catalog import Catalog
from .texts import render

_INSTANCE_LABELS = frozenset(each.name for each in fields(Instance))

Identity = frozenset[tuple[str, str]]
"""All labels of an alert: Alertmanager treats alerts with equal labels as one."""


@dataclass(frozen=True, slots=True)
class Alert:
    """One alert.

    Attributes:
        labels: all of them, ``alertname`` among them; annotations: the texts.
        first_seen: when its event was first seen.
        hold_seconds: for how long Alertmanager keeps it without another post.
    """

    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    first_seen: Timestamp
    hold_seconds: float

    @property
    def identity(self) -> Identity:
        """The labels by which alerts are compared."""
        return frozenset(self.labels.items())

    @property
    def name(self) -> str:
        """The name of the rule that raises the same alert."""
        return self.labels["alertname"]


def alert_of(
    life: Lifecycle, kind: Kind, instance: Instance | None, catalog: Catalog, extra: Mapping[str, str]
) -> Alert | None:
    """Return the alert of the event ``life``, with those labels of ``extra`` that it does not have.

    None if its kind raises no alert, or if a kept label is in the instance metadata and ``instance`` is not known:
    with other labels, it would be another alert.
    """
    entry = catalog.find(kind, life.event.event_type)
    described = [name for name in catalog.kept if name in _INSTANCE_LABELS]
    if entry is None or (described and instance is None):
        return None
    own = {
        **{name: str(getattr(instance, name)) for name in described},
        **entry.labels,
        "alertname": entry.name,
        "event_id": life.event_id,
        "event_type": life.event.event_type,
    }
    labels = {**extra, **{name: value for name, value in own.items() if value}}
    return Alert(labels, render(entry.annotations, life, instance), life.first_seen, entry.hold_seconds)
