"""The table of metrics: name, type, labels, help, and the function that reads each metric from a snapshot.

To add a metric, add a row to ``METRICS`` and to the README's table; a test prints missing names. A row's ``samples``
gets only the fields of the snapshot that its ``reads`` names, so its text can be cached while these are the same
objects. A scrape must not call IMDS or wait for a poll.
"""

import platform
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

from prometheus_client import Metric, ProcessCollector
from prometheus_client.registry import Collector as PrometheusCollector
from prometheus_client.utils import floatToGoString

from azure_scheduled_events_exporter import __version__
from azure_scheduled_events_exporter.approval.scheduler import ApprovalStatus
from azure_scheduled_events_exporter.core.document import RESOURCES_SHOWN, Scope
from azure_scheduled_events_exporter.core.event_types import EventType
from azure_scheduled_events_exporter.core.instance import Instance
from azure_scheduled_events_exporter.core.lifecycle import Lifecycle, State
from azure_scheduled_events_exporter.core.statistics import Histogram
from azure_scheduled_events_exporter.polling.snapshot import Snapshot

PREFIX = "azure_scheduled_events_"
DESCRIPTION_SHOWN = 1024  # of a label value: a hostile description must not fill the memory of Prometheus

Labels = tuple[str, ...]
Samples = Iterable[tuple[Labels, float]]
Lives = Mapping[str, Lifecycle]


class SpanOutcome(StrEnum):
    """The outcomes of trace spans."""

    EXPORTED = "exported"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class MetricSpec:
    """One row of the table.

    Attributes:
        name: without the prefix.
        kind: gauge, counter, histogram or countdown; a countdown is a gauge whose samples are wall-clock times, shown
            as the seconds until then at the moment of the scrape.
        labels: names of the labels.
        help: one sentence.
        reads: the fields of the snapshot that ``samples`` gets.
        samples: returns label values and value of each series; the value of a histogram is a :class:`Histogram`.
        not_shown: why no dashboard shows it and no alert reads it; empty if one does.
    """

    name: str
    kind: str
    labels: Labels
    help: str
    reads: tuple[str, ...]
    samples: Callable[..., Iterable[tuple[Labels, float | Histogram]]]
    not_shown: str = ""

    @property
    def type(self) -> str:
        """The type in the exposition."""
        return "gauge" if self.is_countdown else self.kind

    @property
    def is_countdown(self) -> bool:
        """Whether the value depends on the moment of the scrape."""
        return self.kind == "countdown"

    @property
    def full_name(self) -> str:
        """The name in the exposition."""
        return PREFIX + self.name

    def inputs(self, snapshot: Snapshot) -> tuple[object, ...]:
        """Return the fields of the snapshot that ``samples`` gets."""
        return tuple(getattr(snapshot, field) for field in self.reads)

    def family(self, snapshot: Snapshot, now: float = 0.0) -> Metric:
        """Return the metric in prometheus_client's form; ``now`` is wall-clock seconds."""
        # prometheus_client's own name of a counter has no suffix.
        metric = Metric(self.full_name.removesuffix("_total"), self.help, self.type)
        for values, value in self.samples(*self.inputs(snapshot)):
            labels = dict(zip(self.labels, values, strict=True))
            if isinstance(value, Histogram):
                _add_histogram(metric, labels, value)
            else:
                metric.add_sample(self.full_name, labels, value - now if self.is_countdown else value)
        return metric


def _add_histogram(metric: Metric, labels: dict[str, str], histogram: Histogram) -> None:
    seen = 0
    for bound, count in zip((*histogram.bounds, float("inf")), histogram.counts, strict=True):
        seen += count
        metric.add_sample(f"{metric.name}_bucket", labels | {"le": floatToGoString(bound)}, seen)  # type: ignore[no-untyped-call]
    metric.add_sample(f"{metric.name}_count", labels, seen)
    metric.add_sample(f"{metric.name}_sum", labels, histogram.total)


def announced(lives: Iterable[Lifecycle]) -> Iterator[tuple[Lifecycle, float]]:
    """Yield the lifecycles of events that have not started, each with its NotBefore."""
    for life in lives:
        if life.state is not State.STARTED and life.event.not_before is not None:
            yield life, life.event.not_before


def _event_labels(life: Lifecycle) -> Labels:
    return life.event_id, life.event.event_type, str(life.scope)


def _each(value: Callable[[Lifecycle], float | None]) -> Callable[[Lives], Samples]:
    """Return a reader of one value for each current event; an event whose value is None has no series."""

    def samples(current: Lives) -> Samples:
        found = ((life, value(life)) for life in current.values())
        return ((_event_labels(life), number) for life, number in found if number is not None)

    return samples


def _not_before(current: Lives) -> Samples:
    return ((_event_labels(life), moment) for life, moment in announced(current.values()))


def _count(which: Callable[[State], bool]) -> Callable[[Lives, str | None], Samples]:
    """Return a reader of the number of events by type and scope; documented types exist from the start as 0.

    Scope unknown exists only while this VM's name is unknown.
    """

    def samples(current: Lives, vm_name: str | None) -> Samples:
        scopes = [scope for scope in Scope if scope is not Scope.UNKNOWN or vm_name is None]
        counts = {(str(event_type), str(scope)): 0 for event_type in EventType for scope in scopes}
        for life in current.values():
            if which(life.state):
                key = (life.event.event_type, str(life.scope))
                counts[key] = counts.get(key, 0) + 1
        return counts.items()

    return samples


def _approvals_due(current: Lives, statuses: Mapping[str, ApprovalStatus]) -> Samples:
    due = ((current.get(event_id), status.due) for event_id, status in statuses.items())
    return ((_event_labels(life), moment) for life, moment in due if life is not None and moment is not None)


def _event_info(current: Lives) -> Samples:
    for life in current.values():
        event = life.event
        status = str(life.state) if life.state is State.STARTED else event.status
        names = ",".join(event.resources[:RESOURCES_SHOWN])
        description = event.description[:DESCRIPTION_SHOWN]
        yield (event.event_id, event.event_type, status, event.source, str(life.scope), description, names), 1


def _instance_info(identity: Instance | None, vm_name: str | None) -> Samples:
    if identity is not None or vm_name is not None:
        known = identity or Instance("")
        yield (vm_name or known.vm_name, *(str(getattr(known, label)) for label in _INSTANCE[1:])), 1


def _outcomes(counts: Mapping[StrEnum, int]) -> Samples:
    return (((str(outcome),), count) for outcome, count in counts.items())


_EVENT = ("event_id", "event_type", "scope")
_INSTANCE = (
    "vm_name",
    "vm_id",
    "scale_set",
    "location",
    "zone",
    "fault_domain",
    "resource_group",
    "subscription_id",
    "vm_size",
    "priority",
)

METRICS = (
    MetricSpec(
        "up",
        "gauge",
        (),
        "1 if the last poll got a valid answer, 0 if it failed.",
        ("polls",),
        lambda polls: [((), polls.up)],
    ),
    MetricSpec(
        "poll_interval_seconds",
        "gauge",
        (),
        "Configured time between polls.",
        ("poll_interval",),
        lambda interval: [((), interval)],
    ),
    MetricSpec(
        "polls_total",
        "counter",
        ("outcome",),
        "Polls of IMDS by outcome.",
        ("polls",),
        lambda polls: _outcomes(polls.outcomes),
    ),
    MetricSpec(
        "poll_duration_seconds",
        "histogram",
        (),
        "Duration of a poll, whatever its outcome.",
        ("polls",),
        lambda polls: [((), polls.durations)],
    ),
    MetricSpec(
        "last_success_timestamp_seconds",
        "gauge",
        (),
        "Time of the last valid answer; 0 before the first.",
        ("polls",),
        lambda polls: [((), polls.last_success or 0)],
    ),
    MetricSpec(
        "document_incarnation",
        "gauge",
        (),
        "DocumentIncarnation of the newest document; absent if it has none.",
        ("incarnation",),
        lambda incarnation: [] if incarnation is None else [((), incarnation)],
    ),
    MetricSpec(
        "document_changes_total",
        "counter",
        (),
        "Number of documents that differed from the one before.",
        ("document_changes",),
        lambda changes: [((), changes)],
    ),
    MetricSpec(
        "instance_info",
        "gauge",
        _INSTANCE,
        "This VM, as the instance metadata describes it; always 1.",
        ("identity", "vm_name"),
        _instance_info,
    ),
    MetricSpec(
        "host_info",
        "gauge",
        ("computer_name",),
        "The computer name of this VM, which its operating system and other exporters show; always 1.",
        ("identity",),
        lambda identity: [((identity.host_name,), 1)] if identity is not None and identity.host_name else [],
    ),
    MetricSpec(
        "build_info",
        "gauge",
        ("version", "python_version"),
        "Version of this exporter; always 1.",
        (),
        lambda: [((__version__, platform.python_version()), 1)],
    ),
    MetricSpec(
        "pending",
        "gauge",
        ("event_type", "scope"),
        "Current events that have not started: Scheduled, or with an unknown status.",
        ("current", "vm_name"),
        _count(lambda state: state is not State.STARTED),
    ),
    MetricSpec(
        "started",
        "gauge",
        ("event_type", "scope"),
        "Current events that have started.",
        ("current", "vm_name"),
        _count(lambda state: state is State.STARTED),
    ),
    MetricSpec(
        "event_info",
        "gauge",
        ("event_id", "event_type", "event_status", "event_source", "scope", "description", "resources"),
        f"A current event; always 1. Label 'resources' has the first {RESOURCES_SHOWN} VMs of Resources.",
        ("current",),
        _event_info,
    ),
    MetricSpec(
        "event_resources",
        "gauge",
        _EVENT,
        "Number of VMs in the event's Resources.",
        ("current",),
        _each(lambda life: len(life.event.resources)),
    ),
    MetricSpec(
        "event_not_before_timestamp_seconds",
        "gauge",
        _EVENT,
        "NotBefore, until the event starts.",
        ("current",),
        _not_before,
    ),
    MetricSpec(
        "event_seconds_until_not_before",
        "countdown",
        _EVENT,
        "Time left until NotBefore at the moment of the scrape; negative once overdue.",
        ("current",),
        _not_before,
    ),
    MetricSpec(
        "event_duration_seconds",
        "gauge",
        _EVENT,
        "Announced duration of the impact; absent when unknown.",
        ("current",),
        _each(lambda life: life.event.duration_seconds),
    ),
    MetricSpec(
        "event_first_seen_timestamp_seconds",
        "gauge",
        _EVENT,
        "When this exporter first saw the event.",
        ("current",),
        _each(lambda life: life.first_seen.wall),
    ),
    MetricSpec(
        "event_announced",
        "gauge",
        _EVENT,
        "1 if this exporter saw the event before it started, 0 if the event had already started.",
        ("current",),
        _each(lambda life: life.announced),
    ),
    MetricSpec(
        "event_unconfirmed",
        "gauge",
        _EVENT,
        "1 while an event is known from the journal only: IMDS has not shown it since this exporter started.",
        ("current", "unconfirmed"),
        lambda current, unconfirmed: ((_event_labels(current[each]), 1) for each in unconfirmed if each in current),
    ),
    MetricSpec(
        "event_approved",
        "gauge",
        _EVENT,
        "1 once IMDS accepted an approval by this exporter or an operator on this VM.",
        ("current",),
        _each(lambda life: life.approved_here),
    ),
    MetricSpec(
        "transitions_total",
        "counter",
        ("event_type", "event_source", "scope", "transition"),
        "Transitions in the life of events.",
        ("statistics",),
        lambda statistics: statistics.transitions.items(),
    ),
    MetricSpec(
        "approval_latency_seconds",
        "histogram",
        ("event_type", "approved_by"),
        "Time from first seen to approved, of events of this VM and of approvals given here; approved_by is deadline "
        "if NotBefore came without an approval.",
        ("statistics",),
        lambda statistics: statistics.approval_latency.items(),
    ),
    MetricSpec(
        "notice_seconds",
        "histogram",
        ("event_type",),
        "Time from first seen to NotBefore, of events of this VM: the notice really given.",
        ("statistics",),
        lambda statistics: statistics.notice.items(),
    ),
    MetricSpec(
        "phase_duration_seconds",
        "histogram",
        ("event_type", "phase"),
        "Time that events of this VM spent in a phase.",
        ("statistics",),
        lambda statistics: statistics.phases.items(),
    ),
    MetricSpec(
        "observed_pause_seconds",
        "histogram",
        ("event_type",),
        "Longest pause of this VM while an event of it was Started.",
        ("statistics",),
        lambda statistics: statistics.pauses.items(),
    ),
    MetricSpec(
        "observed_pauses_total",
        "counter",
        ("event_type",),
        "Pauses of this VM of 0.1 s or more while an event of it was Started.",
        ("statistics",),
        lambda statistics: statistics.pause_counts.items(),
        not_shown="The table of pauses shows the longest one of each event, which is what a user notices.",
    ),
    MetricSpec(
        "event_approval_due_timestamp_seconds",
        "gauge",
        _EVENT,
        "When the approval policy here approves the event; absent while it holds the event or says nothing.",
        ("current", "approval_statuses"),
        _approvals_due,
    ),
    MetricSpec(
        "approval_policy_info",
        "gauge",
        ("policy",),
        "Approval policy in effect: off, a named policy, or file; always 1.",
        ("approval_policy",),
        lambda policy: [((policy,), 1)],
    ),
    MetricSpec(
        "alertmanager_up",
        "gauge",
        (),
        "1 if every Alertmanager accepted the last push of alerts; absent without an Alertmanager.",
        ("pushes",),
        lambda pushes: [] if pushes.up is None else [((), pushes.up)],
    ),
    MetricSpec(
        "alertmanager_alerts_total",
        "counter",
        ("outcome",),
        "Alerts pushed to Alertmanager by its answer; an alert is pushed again while it holds. Absent without an "
        "Alertmanager.",
        ("pushes",),
        lambda pushes: [] if pushes.up is None else _outcomes(pushes.alerts),
    ),
    MetricSpec(
        "approval_requests_total",
        "counter",
        ("outcome",),
        "Requests to approve events by the answer of IMDS.",
        ("approval_requests",),
        _outcomes,
    ),
    MetricSpec(
        "journal_up",
        "gauge",
        (),
        "1 while transitions are written to disk before they are reported.",
        ("journal",),
        lambda journal: [((), journal.up)],
    ),
    MetricSpec(
        "journal_errors_total",
        "counter",
        (),
        "Failed attempts to write the journal.",
        ("journal",),
        lambda journal: [((), journal.errors)],
    ),
    MetricSpec(
        "spans_total",
        "counter",
        ("outcome",),
        "Trace spans by the answer of the collector.",
        ("deliveries",),
        lambda spans: _outcomes({SpanOutcome.EXPORTED: spans.exported, SpanOutcome.FAILED: spans.failed}),
    ),
    MetricSpec(
        "spans_queued",
        "gauge",
        (),
        "Trace spans that no collector has accepted yet.",
        ("deliveries",),
        lambda spans: [((), spans.queued)],
    ),
)
SPECS: Mapping[str, MetricSpec] = {spec.name: spec for spec in METRICS}


class Collector(PrometheusCollector):
    """All metrics, for a registry of prometheus_client; ``read`` returns the newest snapshot."""

    def __init__(self, read: Callable[[], Snapshot], wall: Callable[[], float]) -> None:
        self._read = read
        self._wall = wall

    def collect(self) -> Iterator[Metric]:
        """Yield every metric once, of one snapshot."""
        snapshot, now = self._read(), self._wall()
        for metric in METRICS:
            yield metric.family(snapshot, now)
        yield from process_metrics()


def process_metrics() -> Iterable[Metric]:
    """Return CPU time, memory, descriptors and start of this process."""
    return ProcessCollector(registry=None).collect()
