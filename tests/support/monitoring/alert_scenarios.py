"""Stories of exporters and events as promtool's unit tests of rules: samples, and when which alert must fire.

Times are seconds since the beginning of the story, which is also the value of ``time()``.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from alerts import Settings
from alerts.rules import alerts
from support.programs import PREFIX

STEP = 5  # seconds between scrapes, as shipped
EVALUATION = 10  # seconds between evaluations, fewer than shipped to save time
SLOW_EVALUATION, SLOW_FROM = 30, 1200  # the same in stories that last so long
JOB = "azure-scheduled-events-exporter"
RUNBOOKS = "https://github.com/azure-scheduled-events-exporter/azure-scheduled-events-exporter/blob/main/docs/runbooks"
DASHBOARDS = "https://grafana.example.com/d/azure-scheduled-events"
OUTCOMES = ("ok", "timeout", "connection_error", "throttled", "http_error", "invalid_document")

Value = Callable[[int], float | None]

MANY = tuple(range(0, 1230, 30))
MAINTENANCE = "AzureScheduledEventMaintenance"
EVERY = tuple(alert.name for alert in alerts(Settings()))
ALL = tuple(name for name in EVERY if name != MAINTENANCE)
"""All that say something of their own. That Azure works on a VM accompanies most events, and has its own stories."""
PREEMPT, TERMINATE, REDEPLOY, REBOOT, FREEZE = (
    f"AzureScheduledEvent{each}" for each in ("Preempt", "Terminate", "Redeploy", "Reboot", "Freeze")
)
SHORT_FREEZE, WITHOUT_NOTICE = "AzureScheduledEventShortFreeze", "AzureScheduledEventWithoutNotice"
DOWN, UNREACHABLE = "AzureScheduledEventExporterDown", "AzureScheduledEventImdsUnreachable"


def constant(value: float) -> Value:
    """Return a series that never changes."""
    return lambda _: value


def between(begin: int, end: int, value: float = 1) -> Value:
    """Return a series that is there from ``begin`` until before ``end``."""
    return lambda now: value if begin <= now < end else None


@dataclass(frozen=True)
class Seen:
    """An event as one exporter shows it: Scheduled from ``announced``, Started from ``started``, gone at ``gone``."""

    event_type: str = "Reboot"
    announced: int = 30
    not_before: int | None = 930
    started: int | None = None
    gone: int = 100_000
    source: str = "Platform"
    scope: str = "self"
    duration: int | None = None
    event_id: str = "E1"
    resources: str = "vmss_0"
    approved: int = 0
    status: str = "Scheduled"
    first_seen: int | None = None
    approval_due: int | None = None
    saw_scheduled: bool | None = None
    unconfirmed: tuple[int, int] | None = None
    vms: int | None = None

    def series(self) -> Iterator[tuple[str, Mapping[str, str], Value]]:
        """Yield the event's series: name, labels, values."""
        start = self.started if self.started is not None else self.gone
        info = {
            "event_id": self.event_id,
            "event_type": self.event_type,
            "event_source": self.source,
            "scope": self.scope,
            "description": "",
            "resources": self.resources,
        }
        yield "event_info", {**info, "event_status": self.status}, between(self.announced, start)
        if self.started is not None:
            yield "event_info", {**info, "event_status": "Started"}, between(self.started, self.gone)
        key = {name: info[name] for name in ("event_id", "event_type", "scope")}
        if self.not_before is not None:
            until = self.not_before
            yield "event_not_before_timestamp_seconds", key, between(self.announced, start, until)
        if self.duration is not None:
            yield "event_duration_seconds", key, between(self.announced, self.gone, self.duration)
        seen = self.announced if self.first_seen is None else self.first_seen
        yield "event_first_seen_timestamp_seconds", key, between(self.announced, self.gone, seen)
        if self.vms is not None:
            yield "event_resources", key, between(self.announced, self.gone, self.vms)
        if self.saw_scheduled is not None:
            yield "event_announced", key, between(self.announced, self.gone, self.saw_scheduled)
        if self.unconfirmed is not None:
            yield "event_unconfirmed", key, between(*self.unconfirmed)
        if self.approval_due is not None:
            yield "event_approval_due_timestamp_seconds", key, between(self.announced, start, self.approval_due)
        yield "event_approved", key, between(self.announced, self.gone, self.approved)


@dataclass(frozen=True)
class Exporter:
    """One exporter: ``down`` are times without a scrape, ``fresh`` before its first successful poll.

    While it is ``nameless`` it does not know which VM it runs on. Before ``born`` and from ``gone`` on, it is no
    target. ``target`` are labels of the target; as in Prometheus, they win over labels of the exporter.

    ``more`` replaces series by name (and outcome), such as ``{"polls_total throttled": …}``.
    """

    vm: str = "vmss_0"
    events: tuple[Seen, ...] = ()
    scale_set: str = "vmss"
    zone: str = "1"
    down: tuple[tuple[int, int], ...] = ()
    fresh: tuple[tuple[int, int], ...] = ()
    nameless: tuple[tuple[int, int], ...] = ()
    policy: str = "off"
    more: Mapping[str, Value] = field(default_factory=dict)
    subscription: str = ""
    resource_group: str = ""
    vm_id: str = ""
    computer_name: str = ""
    priority: str = ""
    job: str = JOB
    instance: str = ""
    born: int = 0
    gone: int = 100_000
    target: Mapping[str, str] = field(default_factory=dict)

    def _in(self, spans: tuple[tuple[int, int], ...], now: int) -> bool:
        return any(begin <= now < end for begin, end in spans)

    def series(self) -> Iterator[tuple[str, Mapping[str, str], Value]]:
        """Yield every series of this target."""
        yield "up", {}, self._while_target(lambda now: 0.0 if self._in(self.down, now) else 1.0)
        polls: list[Value] = []
        for name, labels, value in (*self._own(), *((name, {}, v) for name, v in self._figures().items())):
            label = labels.get("outcome", "")
            chosen = self.more.get(f"{name} {label}".strip(), value)
            if name == "polls_total":
                polls.append(chosen)
            yield self._full(name), labels, self._while_up(chosen)
        yield (
            PREFIX + "poll_duration_seconds_count",
            {},
            self._while_up(lambda now: sum(poll(now) or 0 for poll in polls)),
        )
        for event in self.events:
            for name, labels, value in event.series():
                yield PREFIX + name, labels, self._while_seeing(value)

    def _full(self, name: str) -> str:
        return name if name.startswith("process_") else PREFIX + name

    def _own(self) -> Iterator[tuple[str, Mapping[str, str], Value]]:
        yield (
            "instance_info",
            {
                "vm_name": self.vm,
                "scale_set": self.scale_set,
                "zone": self.zone,
                "location": "westeurope",
                "subscription_id": self.subscription,
                "resource_group": self.resource_group,
                "vm_id": self.vm_id,
                **({"priority": self.priority} if self.priority else {}),
            },
            lambda now: None if self._in(self.nameless, now) else 1,
        )
        if self.computer_name:
            yield "host_info", {"computer_name": self.computer_name}, constant(1)
        for outcome in OUTCOMES:
            yield "polls_total", {"outcome": outcome}, (lambda now: now) if outcome == "ok" else constant(0)
        yield "approval_policy_info", {"policy": self.policy}, constant(1)
        for outcome in ("accepted", "rejected", "error"):
            yield "approval_requests_total", {"outcome": outcome}, constant(0)

    def _figures(self) -> dict[str, Value]:
        return {
            "up": lambda now: 0 if self._in(self.fresh, now) else 1,
            "last_success_timestamp_seconds": lambda now: 0 if self._in(self.fresh, now) else max(now, 1),
            "poll_interval_seconds": constant(1),
            "alertmanager_up": constant(1),
            "journal_up": constant(0),
            "journal_errors_total": constant(0),
            "spans_queued": constant(0),
            "process_start_time_seconds": constant(-3600),
        }

    def _while_target(self, value: Value) -> Value:
        return lambda now: value(now) if self.born <= now < self.gone else None

    def _while_up(self, value: Value) -> Value:
        return self._while_target(lambda now: None if self._in(self.down, now) else value(now))

    def _while_seeing(self, value: Value) -> Value:
        return self._while_up(lambda now: None if self._in(self.fresh, now) else value(now))

    def labels(self, own: Mapping[str, str]) -> dict[str, str]:
        """Return the labels that Prometheus stores of a series with labels ``own``."""
        named = {"job": self.job, "instance": self.instance or f"{self.vm}:10169", **self.target}
        kept = {f"exported_{name}" if name in named else name: value for name, value in own.items() if value}
        return {**named, **kept}


@dataclass(frozen=True)
class Firing:
    """An alert that fires: its labels besides ``alertname``, its summary and its description."""

    labels: Mapping[str, str]
    summary: str
    description: str
    dashboard: str = "vm"
    vms: str = "vmss_0 (scale set vmss)"


@dataclass(frozen=True)
class Story:
    """A named scenario: which exporters there are, and what each alert does at which second.

    ``steady`` names alerts that are one and the same and never let go from the first second to the second one;
    ``blank`` are times without Prometheus. A long story is evaluated less often, unless it is ``exact``: it has checks
    that a slow evaluation cannot meet. ``every`` replaces the time between evaluations, and ``scrape`` that between
    scrapes, for rules with other settings.
    """

    name: str
    exporters: tuple[Exporter, ...]
    fires: Mapping[tuple[str, int], tuple[Firing, ...]] = field(default_factory=dict)
    quiet: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    steady: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    blank: tuple[tuple[int, int], ...] = ()
    exact: bool = False
    every: int = 0
    scrape: int = STEP

    @property
    def end(self) -> int:
        """The last second at which anything is checked."""
        moments = [at for _, at in self.fires] + [at for times in self.quiet.values() for at in times]
        return max([*moments, *(end for _, end in self.steady.values())])

    @property
    def evaluation(self) -> int:
        """The seconds between evaluations."""
        return self.every or (SLOW_EVALUATION if self.end >= SLOW_FROM and not self.exact else EVALUATION)

    @property
    def checked(self) -> frozenset[str]:
        """The names of the alerts that are checked."""
        return frozenset({name for name, _ in self.fires} | {*self.quiet, *self.steady})

    @property
    def read(self) -> frozenset[str]:
        """The names of the alerts whose texts are checked."""
        return frozenset(name for name, _ in self.fires)

    def to_test(self) -> dict[str, object]:
        """Return the test as promtool reads it."""
        checks = [_check(name, at, firing) for (name, at), firing in self.fires.items()]
        checks += [_check(name, at, ()) for name, times in self.quiet.items() for at in times]
        return {
            "name": self.name,
            "interval": f"{self.scrape}s",
            "input_series": list(self._inputs(self.end)),
            "alert_rule_test": checks,
            "promql_expr_test": [
                test for name, span in self.steady.items() for test in steady_checks(name, *span, self.evaluation)
            ],
        }

    def _inputs(self, end: int) -> Iterator[dict[str, str]]:
        found: dict[str, list[Value]] = {}
        for exporter in self.exporters:
            for name, own, value in exporter.series():
                text = ",".join(f"{label}={json.dumps(content)}" for label, content in exporter.labels(own).items())
                found.setdefault(f"{name}{{{text}}}", []).append(value)
        for series, values in found.items():
            yield {"series": series, "values": " ".join(self._values(_first(values), end))}

    def _values(self, value: Value, end: int) -> Iterator[str]:
        there = False
        for now in range(0, end + self.scrape, self.scrape):
            if any(begin <= now < until for begin, until in self.blank):
                yield "_"  # nobody scrapes, and nobody marks a series stale
                continue
            current = value(now)
            yield ("stale" if there else "_") if current is None else repr(float(current))
            there = current is not None


def _first(values: list[Value]) -> Value:
    """Return one series of several that are never there at the same time."""
    return lambda now: next((found for value in values if (found := value(now)) is not None), None)


def _check(name: str, at: int, firing: tuple[Firing, ...]) -> dict[str, object]:
    return {
        "eval_time": f"{at}s",
        "alertname": name,
        "exp_alerts": [
            {
                "exp_labels": dict(each.labels),
                "exp_annotations": {
                    "summary": each.summary,
                    "description": each.description,
                    "runbook_url": f"{RUNBOOKS}/{name}.md",
                    "dashboard_url": f"{DASHBOARDS}-{each.dashboard}{_parameters(each)}",
                    **({"vms": each.vms} if each.dashboard == "vm" and each.vms else {}),
                },
            }
            for each in firing
        ],
    }


def _parameters(firing: Firing) -> str:
    """Return the end of the dashboard's address: the VM, scale set or exporter that it opens with."""
    vm = firing.labels.get("vm_name") or re.sub("[, ].*", "", firing.vms)
    values = {
        "vm": ("vm", vm),
        "fleet": ("scale_set", firing.labels.get("scale_set", "")),
        "exporter": ("instance", firing.labels.get("instance", "")),
    }
    name, value = values[firing.dashboard]
    return f"?var-{name}={value}" * bool(value)


def steady_checks(name: str, begin: int, end: int, evaluation: int, matchers: str = "") -> Iterator[dict[str, object]]:
    """Yield the checks that an alert is one and the same and never lets go."""
    held = f'count_over_time(ALERTS{{alertname="{name}",alertstate="firing"{matchers}}}[{end - begin}s])'
    for expression, value in ((f"count({held})", 1), (f"min({held})", (end - begin) // evaluation + 1)):
        yield {"expr": expression, "eval_time": f"{end}s", "exp_samples": [{"labels": "{}", "value": value}]}


def one(event: Seen, **more: object) -> tuple[Exporter, ...]:
    """Return the one exporter that sees ``event``."""
    return (Exporter(events=(event,), **more),)  # type: ignore[arg-type]  # the fields of Exporter


def counting(begin: int, end: int, rate: float = 1) -> Value:
    """Return a counter that grows from ``begin`` to ``end``."""
    return lambda now: rate * (min(max(now, begin), end) - begin)
