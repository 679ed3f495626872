"""The metrics: one table of what they are, and one collector that reads them off a snapshot.

A scrape never calls IMDS and never waits for a poll. Three groups, because they age differently and so their
renderings can be kept for different times: :func:`settled` changes with a document, an identity or a transition,
:func:`polled` and :func:`process_metrics` with every poll, :func:`countdown` with every scrape.
"""

import platform
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

from prometheus_client import Metric, ProcessCollector
from prometheus_client.registry import Collector as PrometheusCollector
from prometheus_client.utils import floatToGoString

from azure_scheduled_events_exporter import __version__
from azure_scheduled_events_exporter.core.document import Scope
from azure_scheduled_events_exporter.core.event_types import EventType
from azure_scheduled_events_exporter.core.instance import Instance
from azure_scheduled_events_exporter.core.lifecycle import Lifecycle, State
from azure_scheduled_events_exporter.core.statistics import Histogram
from azure_scheduled_events_exporter.polling.snapshot import Snapshot

PREFIX = "azure_scheduled_events_"
RESOURCES_SHOWN = 10
DESCRIPTION_SHOWN = 1024  # characters; a hostile description must not fill the memory of who scrapes it


class SpanOutcome(StrEnum):
    """How the collector took a span."""

    EXPORTED = "exported"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Spec:
    """One row of the table: a metric without its prefix. ``type`` is gauge, counter or histogram."""

    name: str
    type: str
    labels: tuple[str, ...]
    help: str

    @property
    def full_name(self) -> str:
        """The name as it is scraped."""
        return PREFIX + self.name


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

SPECS: Mapping[str, Spec] = {
    name: Spec(name, kind, labels, text)
    for name, kind, labels, text in (
        ("up", "gauge", (), "1 when the last poll gave a valid answer, 0 while IMDS cannot be asked."),
        ("poll_interval_seconds", "gauge", (), "Time between polls as configured."),
        ("polls_total", "counter", ("outcome",), "Polls of IMDS by how they ended."),
        ("poll_duration_seconds", "histogram", (), "Time a poll took, whatever its outcome."),
        ("last_success_timestamp_seconds", "gauge", (), "When a poll last gave a valid answer; 0 before the first."),
        ("document_incarnation", "gauge", (), "DocumentIncarnation of the newest document, if it carried one."),
        ("document_changes_total", "counter", (), "How often a document differed from the one before."),
        ("instance_info", "gauge", _INSTANCE, "This VM, as the instance metadata names it; always 1."),
        ("build_info", "gauge", ("version", "python_version"), "This exporter; always 1."),
        ("pending", "gauge", ("event_type", "scope"), "Events that are Scheduled now."),
        ("started", "gauge", ("event_type", "scope"), "Events that are Started now."),
        (
            "event_info",
            "gauge",
            ("event_id", "event_type", "event_status", "event_source", "scope", "description", "resources"),
            f"A current event; always 1. The first {RESOURCES_SHOWN} VMs of Resources stand in 'resources'.",
        ),
        ("event_resources", "gauge", _EVENT, "Number of VMs in the event's Resources."),
        ("event_not_before_timestamp_seconds", "gauge", _EVENT, "NotBefore, while the event is Scheduled."),
        (
            "event_seconds_until_not_before",
            "gauge",
            _EVENT,
            "Time left to NotBefore at the moment of the scrape; negative once overdue.",
        ),
        ("event_duration_seconds", "gauge", _EVENT, "Announced length of the impact; absent when unknown."),
        ("event_first_seen_timestamp_seconds", "gauge", _EVENT, "When this exporter first saw the event."),
        ("event_approved", "gauge", _EVENT, "1 once IMDS accepted an approval by this exporter or an operator here."),
        (
            "transitions_total",
            "counter",
            ("event_type", "event_source", "scope", "transition"),
            "What happened to events.",
        ),
        (
            "approval_latency_seconds",
            "histogram",
            ("event_type", "approved_by"),
            "Time from first seen to approved; by the deadline when nobody approved.",
        ),
        (
            "notice_seconds",
            "histogram",
            ("event_type",),
            "Time from first seen to NotBefore: the warning really given.",
        ),
        ("phase_duration_seconds", "histogram", ("event_type", "phase"), "Time that events spent in a phase."),
        (
            "observed_pause_seconds",
            "histogram",
            ("event_type",),
            "Longest time that this VM really stood still while an event of it was Started.",
        ),
        (
            "approval_policy_info",
            "gauge",
            ("policy",),
            "What approves events here: off, documented or file; always 1.",
        ),
        ("approval_requests_total", "counter", ("outcome",), "Requests to approve events, by how IMDS took them."),
        ("journal_up", "gauge", (), "1 while transitions are on disk before they are told."),
        ("journal_errors_total", "counter", (), "Failed attempts to write the journal."),
        ("spans_total", "counter", ("outcome",), "Trace spans by how the collector took them."),
        ("spans_queued", "gauge", (), "Trace spans that no collector has accepted yet."),
    )
}


class Collector(PrometheusCollector):
    """All metrics, for a registry of prometheus_client; ``read`` returns the newest snapshot."""

    def __init__(self, read: Callable[[], Snapshot], wall: Callable[[], float]) -> None:
        self._read = read
        self._wall = wall

    def collect(self) -> Iterator[Metric]:
        """Yield every metric once, of one snapshot."""
        snapshot = self._read()
        yield from settled(snapshot)
        yield countdown(snapshot, self._wall())
        yield from polled(snapshot)
        yield from process_metrics()


def settled(snapshot: Snapshot) -> Iterator[Metric]:
    """Yield the metrics that stay the same while ``snapshot.revision`` does."""
    yield _metric("poll_interval_seconds", [((), snapshot.poll_interval)])
    incarnation = [] if snapshot.incarnation is None else [((), snapshot.incarnation)]
    yield _metric("document_incarnation", incarnation)
    yield _metric("document_changes_total", [((), snapshot.document_changes)])
    yield _metric("instance_info", _instance(snapshot))
    yield _metric("build_info", [((__version__, platform.python_version()), 1)])
    lives = list(snapshot.current.values())
    yield _metric("pending", _count(lives, State.SCHEDULED))
    yield _metric("started", _count(lives, State.STARTED))
    yield from _events(lives)
    statistics = snapshot.statistics
    yield _metric("transitions_total", statistics.transitions.items())
    yield _histograms("approval_latency_seconds", statistics.approval_latency.items())
    yield _histograms("notice_seconds", statistics.notice.items())
    yield _histograms("phase_duration_seconds", statistics.phases.items())
    yield _histograms("observed_pause_seconds", statistics.pauses.items())
    yield _metric("approval_policy_info", [((snapshot.approval_policy,), 1)])
    requests = snapshot.approval_requests.items()
    yield _metric("approval_requests_total", (((str(outcome),), count) for outcome, count in requests))


def countdown(snapshot: Snapshot, now: float) -> Metric:
    """Return the one event metric that no two scrapes agree on; ``now`` is wall-clock seconds."""
    return _metric(
        "event_seconds_until_not_before",
        ((_key(life), until - now) for life, until in announced(snapshot.current.values())),
    )


def announced(lives: Iterable[Lifecycle]) -> Iterator[tuple[Lifecycle, float]]:
    """Yield the lives whose NotBefore stands, with it: a countdown ends when the event starts."""
    for life in lives:
        if life.state is not State.STARTED and life.event.not_before is not None:
            yield life, life.event.not_before


def polled(snapshot: Snapshot) -> Iterator[Metric]:
    """Yield the metrics that change with every poll."""
    polls = snapshot.polls
    yield _metric("up", [((), polls.up)])
    yield _metric("polls_total", (((str(outcome),), count) for outcome, count in polls.outcomes.items()))
    yield _histograms("poll_duration_seconds", [((), polls.durations)])
    yield _metric("last_success_timestamp_seconds", [((), polls.last_success or 0)])
    yield _metric("journal_up", [((), snapshot.journal.up)])
    yield _metric("journal_errors_total", [((), snapshot.journal.errors)])
    deliveries = snapshot.deliveries
    spans = ((SpanOutcome.EXPORTED, deliveries.exported), (SpanOutcome.FAILED, deliveries.failed))
    yield _metric("spans_total", (((str(outcome),), count) for outcome, count in spans))
    yield _metric("spans_queued", [((), deliveries.queued)])


def process_metrics() -> Iterable[Metric]:
    """Return the figures of this process: CPU time, memory, descriptors, start."""
    return ProcessCollector(registry=None).collect()


def _metric(name: str, samples: Iterable[tuple[tuple[str, ...], float]]) -> Metric:
    spec = SPECS[name]
    # The library's own name of a counter has no suffix.
    metric = Metric(spec.full_name.removesuffix("_total"), spec.help, spec.type)
    for values, value in samples:
        metric.add_sample(spec.full_name, dict(zip(spec.labels, values, strict=True)), value)
    return metric


def _histograms(name: str, histograms: Iterable[tuple[tuple[str, ...], Histogram]]) -> Metric:
    spec = SPECS[name]
    metric = Metric(spec.full_name, spec.help, "histogram")
    for values, histogram in histograms:
        labels = dict(zip(spec.labels, values, strict=True))
        seen = 0
        for bound, count in zip((*histogram.bounds, float("inf")), histogram.counts, strict=True):
            seen += count
            metric.add_sample(f"{spec.full_name}_bucket", labels | {"le": floatToGoString(bound)}, seen)  # type: ignore[no-untyped-call]
        metric.add_sample(f"{spec.full_name}_count", labels, seen)
        metric.add_sample(f"{spec.full_name}_sum", labels, histogram.total)
    return metric


def _instance(snapshot: Snapshot) -> list[tuple[tuple[str, ...], float]]:
    if snapshot.identity is None and snapshot.vm_name is None:
        return []
    identity = snapshot.identity or Instance("")
    values = [str(getattr(identity, label)) for label in _INSTANCE]
    return [((snapshot.vm_name or identity.vm_name, *values[1:]), 1)]


def _count(lives: Iterable[Lifecycle], state: State) -> Iterable[tuple[tuple[str, ...], float]]:
    """The number of events in ``state``; every documented type and scope is there from the start, as 0."""
    counts = {(str(event_type), str(scope)): 0 for event_type in EventType for scope in Scope}
    for life in lives:
        if life.state is state:
            key = (life.event.event_type, str(life.scope))
            counts[key] = counts.get(key, 0) + 1
    return counts.items()


def _key(life: Lifecycle) -> tuple[str, ...]:
    return (life.event_id, life.event.event_type, str(life.scope))


def _events(lives: list[Lifecycle]) -> Iterator[Metric]:
    infos = []
    for life in lives:
        event = life.event
        status = life.state if life.state is State.STARTED else event.status
        names = ",".join(event.resources[:RESOURCES_SHOWN])
        description = event.description[:DESCRIPTION_SHOWN]
        infos.append(
            ((event.event_id, event.event_type, str(status), event.source, str(life.scope), description, names), 1.0)
        )
    yield _metric("event_info", infos)
    yield _metric("event_resources", ((_key(life), len(life.event.resources)) for life in lives))
    yield _metric("event_not_before_timestamp_seconds", ((_key(life), until) for life, until in announced(lives)))
    durations = ((life, life.event.duration_seconds) for life in lives)
    yield _metric("event_duration_seconds", ((_key(life), value) for life, value in durations if value is not None))
    yield _metric("event_first_seen_timestamp_seconds", ((_key(life), life.first_seen.wall) for life in lives))
    yield _metric("event_approved", ((_key(life), life.approved_here) for life in lives))
