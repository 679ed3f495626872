"""Random fleets as promtool plays them: their series, and the alerts that must fire by the oracles."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby, pairwise
from pathlib import Path
from random import Random

from alerts.rules import groups
from support.monitoring.alert_scenarios import EVALUATION, STEP
from support.monitoring.promtool import promtool
from support.monitoring.random_fleets.generator import Fleet, Watcher, fleet, twin
from support.monitoring.random_fleets.knowledge import Scrapes
from support.monitoring.random_fleets.late_events import endless_pages, overdue_pages
from support.monitoring.random_fleets.limits import SHIPPED, Limits
from support.monitoring.random_fleets.lives import DAY, HORIZON, Life
from support.monitoring.random_fleets.oracle import event_pages, place_pages
from support.monitoring.random_fleets.outages import Outages
from support.monitoring.random_fleets.pages import Page
from support.monitoring.random_fleets.samples import address, inputs, vm_id

_EVERY_GROUP = tuple(group.name for group in groups(SHIPPED.settings))
GROUPS = (
    *_EVERY_GROUP[: _EVERY_GROUP.index("azure-scheduled-events-not-back") + 1],
    "azure-scheduled-events-exporters",
)
"""The groups of rules whose alerts are about events, places and VMs that are away, in their order."""

_SAME = (
    "alertname, alertstate, severity, event_id, event_type, event_status,"
    " subscription_id, resource_group, scale_set, location, zone"
)
"""The labels that these alerts may have. Another one would make two pages of an HA pair's one."""


@dataclass(frozen=True)
class Expected:
    """An alert that an oracle judges.

    Attributes:
        name: its name without the prefix, a regular expression.
        labels: what else selects it.
        times: how often it may begin to fire while it may; 0 for any number.
        several: it may be several series, such as those of two jobs.
        recordings: how many recordings that read each other it needs at most.
    """

    name: str
    labels: str
    times: int = 0
    several: bool = False
    recordings: int = 1

    def __str__(self) -> str:
        """Return the selector of the alert while it fires."""
        return f'ALERTS{{alertname=~"AzureScheduledEvent{self.name}",alertstate="firing",{self.labels}}}'


@dataclass(frozen=True)
class Fleets:
    """Several fleets that one Prometheus watches at the same time, which costs little more than one of them."""

    fleets: tuple[Fleet, ...]
    limits: Limits
    evaluation: int = EVALUATION
    shuffled: bool = False
    checked: None = None  # every alert about an event, a place or a VM, most of them that they do not fire
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
        unknown = access_unknown(fleet, self.evaluation)
        told = dict(expected(fleet, self.limits, self.evaluation, late=self.evaluation if self.shuffled else 0))
        for alert, pages in told.items():
            allowed = late(pages, alert.recordings) if self.shuffled else pages
            allowed = {now: Page.MAY if self.shuffled and now in unknown else allowed[now] for now in allowed}
            yield from follow(alert, allowed, self.evaluation)
        for life in fleet.lives:
            yield never_others(life, [alert.name for alert in told if life.event_id in alert.labels.split('"')])


def findings(
    seeds: range, folder: Path, evaluation: int = EVALUATION, *, shuffled: bool = False, limits: Limits = SHIPPED
) -> str:
    """Return what promtool finds wrong in the fleets of ``seeds`` and in their twins, "" if nothing is.

    If ``shuffled``, groups are evaluated in an order that ``seeds`` decide, and not in that of the file.
    """
    order = Random(seeds.start).sample(GROUPS, len(GROUPS)) if shuffled else GROUPS
    fleets = [fleet(seed) for seed in seeds]
    twins = [other for each in fleets if (other := twin(each))]
    played = [Fleets(tuple(some), limits, evaluation, shuffled) for some in (fleets, twins) if some]
    runs = [promtool(folder, each, limits.rules(folder), names=tuple(order)) for each in played]
    return "".join(run.stdout + run.stderr for run in runs if run.returncode)


def late(pages: dict[int, Page], evaluations: int) -> dict[int, Page]:
    """Return ``pages`` of which each may begin and end so many evaluations later: what an alert reads may be that old.

    At the first evaluation it may be missing, such as which exporters have no IMDS access. At the second one, a
    recording that the alert reads may have been made without it.
    """
    for _ in range(evaluations):
        changing = {now: Page.MAY for before, now in pairwise(pages) if pages[now] is not pages[before]}
        pages = {**pages, **changing}
    return pages | dict.fromkeys(list(pages)[: evaluations + 1], Page.MAY)


def access_unknown(fleet: Fleet, evaluation: int) -> set[int]:
    """Return the evaluations at which rules may not know yet that an exporter has no IMDS access.

    It has just come back with an event, and what it shows counts until a recording tells that it has no access.
    """
    return {
        now
        for now in range(0, HORIZON + 1, evaluation)
        for each in fleet.watchers
        if not each.answers(now - evaluation) and not each.sees(now)
        if any(found.confirmed for life in fleet.lives if (found := each.shows(life, now)))
    }


def expected(fleet: Fleet, limits: Limits, evaluation: int, *, late: int) -> Iterator[tuple[Expected, dict[int, Page]]]:
    """Yield each alert, and when it must fire. ``late``: how old a recording may be that another one reads."""
    scrapes = Scrapes(fleet)
    for life in fleet.lives:
        event = f'event_id="{life.event_id}"'
        for name, pages in event_pages(scrapes, life, limits, evaluation).items():
            yield Expected(name, event), pages
        yield Expected("Overdue", event), overdue_pages(scrapes, life, limits, evaluation)
        yield Expected("StartedTooLong", event), endless_pages(scrapes, life, limits, evaluation)
    for name, labels, watchers in _places(fleet):
        where = ",".join(f'{label}="{value}"' for label, value in labels.items())
        where = f'subscription_id="sub-{fleet.seed}",{where}'
        yield Expected(name, where, recordings=2), place_pages(scrapes, watchers, limits, evaluation, late=late)
    outages = Outages(scrapes, limits, evaluation)
    for life in fleet.lives:
        yield (
            Expected("VmNotBack", f'event_id="{life.event_id}"', times=outages.times(life)),
            outages.not_back[life.event_id],
        )
    for watcher in fleet.watchers:
        vm = f'vm_id="{vm_id(fleet, watcher.number)}"'
        yield Expected("Maintenance", vm, several=True), outages.maintained[watcher.number]
        addresses = "|".join(f"{address(fleet, watcher, pod)}:10169" for pod in (0, 1))
        yield Expected("ExporterDown", f'instance=~"{addresses}"', several=True), outages.down[watcher.number]


def _places(fleet: Fleet) -> Iterator[tuple[str, dict[str, str], tuple[Watcher, ...]]]:
    def by(key: Callable[[Watcher], tuple[str, ...]]) -> Iterator[tuple[tuple[str, ...], tuple[Watcher, ...]]]:
        for found, each in groupby(sorted(fleet.watchers, key=key), key):
            yield found, tuple(each)

    for (group, scale_set), watchers in by(lambda each: (each.place.group, each.place.scale_set)):
        if scale_set:
            yield "ScaleSetHit", {"resource_group": group, "scale_set": scale_set}, watchers
    for (zone,), watchers in by(lambda each: (each.place.zone,)):
        yield "ZoneHit", {"zone": zone}, watchers


def follow(alert: Expected, pages: dict[int, Page], evaluation: int) -> Iterator[dict[str, object]]:
    """Yield the checks of one alert: one and the same wherever it must fire, and none where it must not."""
    for page, moments in groupby(pages, pages.__getitem__):
        span = list(moments)
        if page is Page.MUST:
            held = f"count_over_time({alert}[{_period(span[0], span[-1])}s])"
            if alert.several:
                yield _is(f"sum({held}) >= bool {len(span)}", span[-1], 1)
            else:
                yield _is(f"count without ({_SAME}) ({held})", span[-1], 1)
                yield _is(f"min({held})", span[-1], len(span))
        if page is Page.NOT:
            yield _never(str(alert), span[0], span[-1])
    if not alert.several:
        yield _is(f"count(count_over_time({alert}[{HORIZON}s])) > 1", HORIZON, None)
    if alert.times:
        yield from _without_break(alert, pages, evaluation)


def _without_break(alert: Expected, pages: dict[int, Page], evaluation: int) -> Iterator[dict[str, object]]:
    """Yield that it begins to fire no more often than it may."""
    for is_allowed, moments in groupby(pages, lambda now: pages[now] is not Page.NOT):
        span = list(moments)
        if is_allowed:
            begins = f"({alert} unless {alert} offset {evaluation}s)[{_period(span[0], span[-1])}s:{evaluation}s]"
            yield _is(f"sum(count_over_time({begins})) > {alert.times}", span[-1], None)


def never_others(life: Life, judged: Iterable[str]) -> dict[str, object]:
    """Return the check that an event has no alert but those ``judged``, and those about its notice."""
    besides = ["ShortNotice", *["DegradedHost"] * any(planned > DAY for _, planned in life.plans)]
    names = "|".join(f"AzureScheduledEvent{name}" for name in (*judged, *besides))
    return _never(f'ALERTS{{alertstate="firing",event_id="{life.event_id}",alertname!~"{names}"}}', 0, HORIZON)


def _never(selector: str, begin: int, end: int) -> dict[str, object]:
    return _is(f"count(count_over_time({selector}[{_period(begin, end)}s]))", end, None)


def _period(begin: int, end: int) -> int:
    return max(end - begin, STEP - 1)


def _is(expression: str, at: int, value: float | None) -> dict[str, object]:
    samples = [] if value is None else [{"labels": "{}", "value": value}]
    return {"expr": expression, "eval_time": f"{at}s", "exp_samples": samples}
