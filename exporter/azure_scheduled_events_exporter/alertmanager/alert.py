"""Decides which alert an event of this VM raises: the one that the catalog gives to its kind and type. Pure.

The catalog is generated with the rules from one table.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields

from azure_scheduled_events_exporter.core.instance import Instance
from azure_scheduled_events_exporter.core.kinds import Kind
from azure_scheduled_events_exporter.core.lifecycle import Lifecycle
from azure_scheduled_events_exporter.core.timestamp import Timestamp

from .texts import render


@dataclass(frozen=True, slots=True)
class CatalogAlert:
    """One alert of the table.

    Attributes:
        name: its ``alertname``.
        labels: those that the rule sets, severity among them.
        annotations: texts with the placeholders of ``texts``.
        hold_seconds: for how long it lasts after the event was last shown.
    """

    name: str
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    hold_seconds: float


Catalog = Mapping[tuple[str, str], CatalogAlert]
"""The table: alerts by kind and event type; the type ``""`` stands for all others."""


def parse_catalog(text: str) -> Catalog:
    """Parse the catalog from ``text``, generated JSON."""
    return {
        (each["kind"], event_type): CatalogAlert(*(each[item.name] for item in fields(CatalogAlert)))
        for each in json.loads(text)["alerts"]
        for event_type in each["event_types"] or [""]
    }


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
    def identity(self) -> frozenset[tuple[str, str]]:
        """All labels: Alertmanager treats alerts with equal labels as one."""
        return frozenset(self.labels.items())

    @property
    def name(self) -> str:
        """The name of the rule that raises the same alert."""
        return self.labels["alertname"]


def alert_of(
    life: Lifecycle, kind: Kind, instance: Instance | None, catalog: Catalog, extra: Mapping[str, str]
) -> Alert | None:
    """Return the alert of the event ``life``, None if it raises none; labels of ``extra`` replace none of its own.

    ``instance`` describes this VM, if that is known. Only texts depend on it: labels must not change.
    """
    entry = catalog.get((kind, life.event.event_type)) or catalog.get((kind, ""))
    if entry is None:
        return None
    event = {"alertname": entry.name, "event_id": life.event_id, "event_type": life.event.event_type}
    labels = {**extra, **entry.labels, **event}
    return Alert(labels, render(entry.annotations, life, instance), life.first_seen, entry.hold_seconds)
