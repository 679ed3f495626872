"""The alerts that can be pushed, as generated with the rules from one table. Reads no file."""

import json
from collections.abc import Mapping
from dataclasses import dataclass

from azure_scheduled_events_exporter.core.kinds import Kind


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


@dataclass(frozen=True, slots=True)
class Catalog:
    """The table.

    Attributes:
        alerts: by kind and event type; the type ``""`` stands for all others.
        kept: names of the labels that alerts take over from targets or from this VM's description.
    """

    alerts: Mapping[tuple[str, str], CatalogAlert]
    kept: tuple[str, ...] = ()

    def find(self, kind: Kind, event_type: str) -> CatalogAlert | None:
        """Return the alert for an event of this kind and type; None if it raises none."""
        return self.alerts.get((kind, event_type)) or self.alerts.get((kind, ""))


def parse_catalog(text: str) -> Catalog:
    """Parse the catalog from ``text``, generated JSON."""
    content = json.loads(text)
    alerts = {
        (each["kind"], event_type): CatalogAlert(
            each["name"], each["labels"], each["annotations"], each["hold_seconds"]
        )
        for each in content["alerts"]
        for event_type in each["event_types"] or [""]
    }
    return Catalog(alerts, tuple(content["kept_labels"]))
