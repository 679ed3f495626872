"""The series that the exporters of a random fleet serve, as promtool reads them. Knows no rule."""

import json
from collections.abc import Iterator

from support.monitoring.alert_scenarios import STEP
from support.monitoring.random_fleets.generator import Fleet, Watcher
from support.monitoring.random_fleets.lives import HORIZON, Life
from support.programs import PREFIX

_Sample = tuple[str, tuple[tuple[str, str], ...], float]


def address(fleet: Fleet, watcher: Watcher, pod: int) -> str:
    """Return the address of a pod of the VM's exporter, without its port."""
    return f"10.{fleet.seed}.{pod}.{watcher.number}"


def vm_id(fleet: Fleet, number: int) -> str:
    """Return the id of a VM."""
    return f"id-{fleet.seed}-{number}"


def inputs(fleet: Fleet) -> Iterator[dict[str, str]]:
    """Yield every series."""
    found: dict[str, dict[int, float]] = {}
    for now in range(fleet.since, HORIZON + STEP, STEP):
        for watcher in fleet.watchers:
            target = f"{address(fleet, watcher, watcher.pod(now))}:10169"
            for name, labels, value in _samples(fleet, watcher, now):
                own = ",".join(f"{label}={json.dumps(text)}" for label, text in labels if text)
                for job in watcher.jobs:
                    key = f'{name}{{job="{job}",instance="{target}"{"," * bool(own)}{own}}}'
                    found.setdefault(key, {})[now] = value
    for key, samples in found.items():
        yield {"series": key, "values": " ".join(_values(samples))}


def _values(samples: dict[int, float]) -> Iterator[str]:
    there = False
    for now in range(0, HORIZON + STEP, STEP):
        value = samples.get(now)
        yield ("stale" if there else "_") if value is None else f"{value:g}"
        there = value is not None


def _samples(fleet: Fleet, watcher: Watcher, now: int) -> Iterator[_Sample]:
    """Yield what a scrape of the exporter brings."""
    if now >= watcher.deleted:
        return
    yield "up", (), int(watcher.answers(now))
    if not watcher.answers(now):
        return
    yield f"{PREFIX}up", (), int(watcher.sees(now))
    if watcher.named(now):
        yield f"{PREFIX}instance_info", _place_labels(fleet, watcher), 1
    for life in fleet.lives:
        if watcher.number in fleet.knows[life.event_id]:
            yield from _event_samples(watcher, life, now)


def _place_labels(fleet: Fleet, watcher: Watcher) -> tuple[tuple[str, str], ...]:
    place = watcher.place
    return (
        ("vm_name", f"vm_{watcher.number}"),
        ("vm_id", vm_id(fleet, watcher.number)),
        ("subscription_id", f"sub-{fleet.seed}"),
        ("resource_group", place.group),
        ("scale_set", place.scale_set),
        ("location", "westeurope"),
        ("zone", place.zone),
    )


def _event_samples(watcher: Watcher, life: Life, now: int) -> Iterator[_Sample]:
    shown = watcher.shows(life, now)
    if shown is None:
        return
    scope = ("self" if watcher.number in shown.resources else "peer") if watcher.named(now) else "unknown"
    key = (("event_id", life.event_id), ("event_type", life.event_type), ("scope", scope))
    ordered = shown.resources if watcher.number % 2 else shown.resources[::-1]
    status = "Started" if shown.started else "Scheduled"
    resources = ",".join(f"vm_{each}" for each in ordered)
    source = "" if watcher.old_api else life.source
    info = (("event_source", source), ("resources", resources), ("event_status", status))
    yield f"{PREFIX}event_info", (*key, *info), 1
    yield f"{PREFIX}event_announced", key, int(life.warned)
    if not shown.confirmed:
        yield f"{PREFIX}event_unconfirmed", key, 1
    if not shown.started:
        yield f"{PREFIX}event_not_before_timestamp_seconds", key, shown.not_before
    if shown.duration is not None:
        yield f"{PREFIX}event_duration_seconds", key, shown.duration
