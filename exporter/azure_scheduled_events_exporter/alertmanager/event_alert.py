"""Decides which alert an event of this VM raises: the same decisions as the rules, from the exporter's own data.

Pure. A test compares every alert with the alert that the rules raise from the same metrics.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields

from azure_scheduled_events_exporter.core.document import EventSource, comparable_name
from azure_scheduled_events_exporter.core.event_types import EVENT_FACTS, EventType
from azure_scheduled_events_exporter.core.instance import Instance
from azure_scheduled_events_exporter.core.lifecycle import Lifecycle, State
from azure_scheduled_events_exporter.core.timestamp import Timestamp

from .catalog import Catalog
from .texts import render

PREFIX = "AzureScheduledEvent"
_BY_SOURCE = frozenset(each for each in EventType if each.facts.has_requested_alert)
_DELETING = frozenset(each for each in EventType if each.facts.deletes)
_WITHOUT_NOTICE = frozenset(each for each in EventType if each.facts.restarts)
_SPOT = frozenset({"Spot", "Low"})
_DESCRIBED = frozenset(each.name for each in fields(Instance))
"""Labels that a rule may keep and whose values the exporter has."""

Identity = frozenset[tuple[str, str]]
"""All labels of an alert: Alertmanager treats alerts with equal labels as one."""


@dataclass(frozen=True, slots=True)
class EventAlert:
    """One alert.

    Attributes:
        labels: all of them; annotations: their current texts.
        starts_at: seconds since the epoch.
        hold: seconds for which Alertmanager keeps it without another post.
        is_shared: whether the event names other VMs too, whose exporters may post the same alert.
    """

    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    starts_at: float
    hold: float
    is_shared: bool = False

    @property
    def identity(self) -> Identity:
        """The labels by which alerts are compared."""
        return frozenset(self.labels.items())


def event_alert(
    life: Lifecycle,
    instance: Instance | None,
    catalog: Catalog,
    extra: Mapping[str, str],
    now: Timestamp,
    *,
    was_announced: bool = False,
) -> EventAlert | None:
    """Return the alert of ``life`` as it is ``now``, with those labels of ``extra`` that it does not have.

    None if it has none yet, or if its labels need the instance metadata and ``instance`` is not known. With
    ``was_announced``, another exporter saw the event before it started.
    """
    was_announced = was_announced or life.announced or life.approved_here
    name = _name(life, catalog, now, was_announced=was_announced)
    described = _described(catalog)
    if name is None or (described and instance is None):
        return None
    text = catalog.alerts[name]
    is_spot = instance is not None and instance.priority in _SPOT
    own = {
        **{label: str(getattr(instance, label)) for label in described},
        "alertname": name,
        "event_id": life.event_id,
        "event_type": life.event.event_type,
        **text.labels,
        "severity": text.spot_severity if is_spot else text.labels["severity"],
    }
    labels = {**extra, **{label: value for label, value in own.items() if value}}
    annotations = render(text.annotations, life, instance.scale_set if instance else "", labels, now.wall)
    own_name = comparable_name(life.own_name or "")
    is_shared = life.most_resources > 1 or any(comparable_name(name) != own_name for name in life.event.resources)
    return EventAlert(labels, annotations, min(life.first_seen.wall, now.wall), _hold(life, catalog), is_shared)


def needs_instance(catalog: Catalog) -> bool:
    """Return whether labels of the alerts need the instance metadata."""
    return bool(_described(catalog))


def _described(catalog: Catalog) -> list[str]:
    return [label for label in catalog.kept if label in _DESCRIBED]


def _name(life: Lifecycle, catalog: Catalog, now: Timestamp, *, was_announced: bool) -> str | None:
    event, started = life.event, life.state is State.STARTED
    if not started and life.not_before is not None and life.not_before - now.wall > catalog.degraded_host_notice:
        return f"{PREFIX}DegradedHost"
    if event.event_type == EventType.FREEZE:
        is_short = event.duration_seconds is not None and event.duration_seconds < catalog.short_freeze
        return f"{PREFIX}{'Short' if is_short else ''}Freeze"
    if event.event_type in _BY_SOURCE:
        return _by_source(life, catalog, now, was_announced=was_announced)
    return f"{PREFIX}{event.event_type if event.event_type in EVENT_FACTS else 'UnknownType'}"


def _by_source(life: Lifecycle, catalog: Catalog, now: Timestamp, *, was_announced: bool) -> str | None:
    event = life.event
    if event.source == EventSource.USER:
        return f"{PREFIX}{event.event_type}Requested"
    if not event.source and now.since(life.first_seen) < 2 * catalog.scrape_interval:
        return None  # the api-version may hide the source: an exporter with another one has its turn, as in the rules
    if event.event_type in _WITHOUT_NOTICE and not was_announced:
        return f"{PREFIX}WithoutNotice"
    return f"{PREFIX}{event.event_type}"


def _hold(life: Lifecycle, catalog: Catalog) -> float:
    """Return how long to keep the alert: a VM may be away during a started event, unless the event deletes it."""
    is_away = life.state is State.STARTED and life.event.event_type not in _DELETING
    return max(catalog.longest, catalog.memory) if is_away else catalog.memory
