"""Random fleets as promtool reads them: their series, and the alerts that must fire by the oracle."""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import groupby, pairwise
from pathlib import Path
from random import Random

from alerts import Settings
from alerts.rules import groups
from support.monitoring.alert_scenarios import EVALUATION, STEP
from support.monitoring.promtool import promtool
from support.monitoring.random_fleets.generator import DAY, HORIZON, Fleet, Life, Watcher, fleet, twin
from support.monitoring.random_fleets.oracle import Page, event_pages, page_name, place_pages
from support.programs import PREFIX

_EVERY_GROUP = tuple(group.name for group in groups(Settings()))
GROUPS = _EVERY_GROUP[: _EVERY_GROUP.index("azure-scheduled-events-zones") + 1]
"""The groups of rules whose alerts are about events and places, in their order."""

_SAME = (
    "alertname, alertstate, severity, event_id, event_type, event_status,"
    " subscription_id, resource_group, scale_set, location, zone"
)
"""The labels that these alerts may have. Another one would make two pages of an HA pair's one."""

_Sample = tuple[str, tuple[tuple[str, str], ...], float]


@dataclass(frozen=True)
class Fleets:
    """Several fleets that one Prometheus watches at the same time, which costs little more than one of them."""

    fleets: tuple[Fleet, ...]
    evaluation: int = EVALUATION
    shuffled: bool = False
    checked: None = None  # every alert about an event or a place, most of them that they do not fire
    read: frozenset[str] = frozenset()

    def to_test(self) -> dict[str, object]:
        """Return the test as promtool reads it."""
        return {
            "name": f"fleets {', '.join(str(each.seed) for each in self.fleets)}",
            "interval": f"{STEP}s",
            "input_series": [series for each in self.fleets for series in inputs(each)],
            "promql_expr_test": [check for each in self.fleets for check in self._checks(each)],
        }

    def _checks(self, fleet: Fleet) -> Iterator[dict[str, object]]:
        return checks(fleet, self.evaluation, one_late if self.shuffled else lambda pages: pages)


def findings(seeds: range, folder: Path, evaluation: int = EVALUATION, *, shuffled: bool = False) -> str:
    """Return what promtool finds wrong in the fleets of ``seeds`` and in their twins, "" if nothing is.

    If ``shuffled``, groups are evaluated in an order that ``seeds`` decide, and not in that of the file.
    """
    order = Random(seeds.start).sample(GROUPS, len(GROUPS)) if shuffled else GROUPS
    fleets = [fleet(seed) for seed in seeds]
    twins = [other for each in fleets if (other := twin(each))]
    played = [Fleets(tuple(some), evaluation, shuffled) for some in (fleets, twins) if some]
    runs = [promtool(folder, each, names=tuple(order)) for each in played]
    return "".join(run.stdout + run.stderr for run in runs if run.returncode)


def one_late(pages: dict[int, Page]) -> dict[int, Page]:
    """Return ``pages`` of which each may begin and end an evaluation later: what an alert reads may be that old.

    At the first evaluation it may be missing, such as which exporters have no IMDS access.
    """
    late = {now: pages[now] if pages[now] is pages[before] else Page.MAY for before, now in pairwise(pages)}
    return dict.fromkeys(list(pages)[:1], Page.MAY) | late


def checks(
    fleet: Fleet, evaluation: int, allowed: Callable[[dict[int, Page]], dict[int, Page]]
) -> Iterator[dict[str, object]]:
    """Yield what must fire when; ``allowed`` returns the pages with what else is allowed."""
    for life in fleet.lives:
        event = f'event_id="{life.event_id}"'
        page = page_name(fleet, life, evaluation)
        yield _never(f'{event},alertname!~"{page}",alertname!~".*(ShortNotice{_told_besides(life)})"', 0, HORIZON)
        yield from _follow(f'{event},alertname=~"{page}"', allowed(event_pages(fleet, life, evaluation)))
    for name, labels, watchers in _places(fleet):
        where = ",".join(f'{label}="{value}"' for label, value in labels.items())
        alert = f'alertname="AzureScheduledEvent{name}",subscription_id="sub-{fleet.seed}",{where}'
        yield from _follow(alert, allowed(place_pages(fleet, watchers, evaluation)))


def _told_besides(life: Life) -> str:
    return "|DegradedHost" if any(planned > DAY for _, planned in life.plans) else ""


def _places(fleet: Fleet) -> Iterator[tuple[str, dict[str, str], tuple[Watcher, ...]]]:
    def by(key: Callable[[Watcher], tuple[str, ...]]) -> Iterator[tuple[tuple[str, ...], tuple[Watcher, ...]]]:
        for found, each in groupby(sorted(fleet.watchers, key=key), key):
            yield found, tuple(each)

    for (group, scale_set), watchers in by(lambda each: (each.place.group, each.place.scale_set)):
        if scale_set:
            yield "ScaleSetHit", {"resource_group": group, "scale_set": scale_set}, watchers
    for (zone,), watchers in by(lambda each: (each.place.zone,)):
        yield "ZoneHit", {"zone": zone}, watchers


def _follow(alert: str, pages: dict[int, Page]) -> Iterator[dict[str, object]]:
    """Yield the checks of one alert: one and the same wherever it must fire, and none where it must not."""
    for page, moments in groupby(pages, pages.__getitem__):
        span = list(moments)
        if page is Page.MUST:
            held = f'count_over_time(ALERTS{{alertstate="firing",{alert}}}[{_period(span[0], span[-1])}s])'
            yield _is(f"count without ({_SAME}) ({held})", span[-1], 1)
            yield _is(f"min({held})", span[-1], len(span))
        if page is Page.NOT:
            yield _never(alert, span[0], span[-1])
    yield _is(f'count(count_over_time(ALERTS{{alertstate="firing",{alert}}}[{HORIZON}s])) > 1', HORIZON, None)


def _never(alert: str, begin: int, end: int) -> dict[str, object]:
    return _is(f'count(count_over_time(ALERTS{{alertstate="firing",{alert}}}[{_period(begin, end)}s]))', end, None)


def _period(begin: int, end: int) -> int:
    return max(end - begin, STEP - 1)


def _is(expression: str, at: int, value: float | None) -> dict[str, object]:
    samples = [] if value is None else [{"labels": "{}", "value": value}]
    return {"expr": expression, "eval_time": f"{at}s", "exp_samples": samples}


def inputs(fleet: Fleet) -> Iterator[dict[str, str]]:
    """Yield every series."""
    found: dict[str, dict[int, float]] = {}
    for now in range(fleet.since, HORIZON + STEP, STEP):
        for watcher in fleet.watchers:
            address = f"10.{fleet.seed}.{watcher.pod(now)}.{watcher.number}:10169"
            for name, labels, value in _samples(fleet, watcher, now):
                own = ",".join(f"{label}={json.dumps(text)}" for label, text in labels if text)
                for job in watcher.jobs:
                    key = f'{name}{{job="{job}",instance="{address}"{"," * bool(own)}{own}}}'
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
        ("vm_id", f"id-{fleet.seed}-{watcher.number}"),
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
    info = (("event_source", life.source), ("resources", resources), ("event_status", status))
    yield f"{PREFIX}event_info", (*key, *info), 1
    yield f"{PREFIX}event_announced", key, int(life.warned)
    if not shown.started:
        yield f"{PREFIX}event_not_before_timestamp_seconds", key, shown.not_before
    if shown.duration is not None:
        yield f"{PREFIX}event_duration_seconds", key, shown.duration
