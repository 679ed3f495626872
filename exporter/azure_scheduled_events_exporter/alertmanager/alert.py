"""Decides which alert an event of this VM raises: the one that the catalog gives to its kind and type. Pure.

The catalog is generated with the rules from one table. Times in texts are those that IMDS sent, so
a wrong clock of this VM changes none.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, fields

from azure_scheduled_events_exporter.core.document import RESOURCES_SHOWN
from azure_scheduled_events_exporter.core.instance import Instance
from azure_scheduled_events_exporter.core.kinds import Kind
from azure_scheduled_events_exporter.core.lifecycle import Lifecycle, State
from azure_scheduled_events_exporter.core.timestamp import Timestamp
from azure_scheduled_events_exporter.times import iso_time

_PLACEHOLDER = re.compile(r"\{(\w+)\}")


@dataclass(frozen=True, slots=True)
class CatalogAlert:
    """One alert of the table.

    Attributes:
        name: its ``alertname``.
        labels: those that the rule sets, severity among them.
        annotations: texts with placeholders, such as ``{vms}``.
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
        (each["kind"], event_type): CatalogAlert(
            *(each[item.name] for item in fields(CatalogAlert))
        )
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
    life: Lifecycle,
    kind: Kind,
    instance: Instance | None,
    catalog: Catalog,
    extra: Mapping[str, str],
) -> Alert | None:
    """Return the alert of the event ``life``, None if it raises none; labels of ``extra`` replace none of its own.

    ``instance`` describes this VM, if that is known. Only texts depend on it: labels must not
        change.
    """
    entry = catalog.get((kind, life.event.event_type)) or catalog.get((kind, ""))
    if entry is None:
        return None
    event = {
        "alertname": entry.name,
        "event_id": life.event_id,
        "event_type": life.event.event_type,
    }
    labels = {**extra, **entry.labels, **event}
    return Alert(
        labels, _render(entry.annotations, life, instance), life.first_seen, entry.hold_seconds
    )


def _render(texts: Mapping[str, str], life: Lifecycle, instance: Instance | None) -> dict[str, str]:
    """Return the annotations ``texts`` for the event ``life``.

    All placeholders are replaced in one pass.
    """
    values = {
        "event_id": life.event_id,
        "event_type": life.event.event_type,
        "vms": _vms(life, instance.resource_group if instance else ""),
        "vm": next(iter(life.event.resources), ""),
        "time": _time(life),
    }
    return {
        name: _PLACEHOLDER.sub(lambda found: values.get(found[1], found[0]), text)
        for name, text in texts.items()
    }


def _vms(life: Lifecycle, resource_group: str) -> str:
    names = ", ".join(life.event.resources[:RESOURCES_SHOWN])
    more = len(life.event.resources) - RESOURCES_SHOWN
    vms = f"{names} and {more} more" if more > 0 else names
    return f"{vms} (resource group {resource_group})" if resource_group else vms


def _time(life: Lifecycle) -> str:
    if life.state is State.STARTED:
        return "Has started."
    if life.not_before is None:
        return "May start at any moment."
    moment = iso_time(life.not_before).replace("T", " ").replace("Z", " UTC")
    return f"Starts at {moment}, or earlier if approved."
