"""The table of metrics: name, type, labels, help, and the function that reads each metric from a snapshot.

To add a metric, add a row to ``METRICS`` and to the README's table; a test prints missing names. A row's ``samples``
gets only the fields of the snapshot that its ``reads`` names, so its text can be cached while these are the same
objects. A scrape must not call IMDS or wait for a poll.
"""

import platform
from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import StrEnum

from prometheus_client import Metric, ProcessCollector
from prometheus_client.registry import Collector as PrometheusCollector

from azure_scheduled_events_exporter import __version__
from azure_scheduled_events_exporter.core.document import RESOURCES_SHOWN
from azure_scheduled_events_exporter.core.lifecycle import State
from azure_scheduled_events_exporter.polling.snapshot import Snapshot

from .samples import (
    INSTANCE_LABELS,
    VM_LABELS,
    approvals_due,
    count,
    each,
    ended,
    event_info,
    impact,
    instance_info,
    not_before,
    outcomes,
)
from .spec import MetricSpec

_EVENT = ("event_id", "event_type", "scope")


class SpanOutcome(StrEnum):
    """The outcomes of trace spans."""

    EXPORTED = "exported"
    FAILED = "failed"


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
        lambda polls: outcomes(polls.outcomes),
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
        not_shown="For diagnosis: it means nothing to who only runs VMs.",
    ),
    MetricSpec(
        "document_changes_total",
        "counter",
        (),
        "Number of documents that differed from the one before.",
        ("document_changes",),
        lambda changes: [((), changes)],
        not_shown="For diagnosis: the events that changed are shown.",
    ),
    MetricSpec(
        "instance_info",
        "gauge",
        INSTANCE_LABELS,
        "This VM, as the instance metadata describes it; always 1.",
        ("identity", "vm_name"),
        instance_info,
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
        ("shown", "vm_name"),
        count(lambda life: life.is_pending),
        not_shown="Dashboards show the events themselves.",
    ),
    MetricSpec(
        "started",
        "gauge",
        ("event_type", "scope"),
        "Current events that have started.",
        ("shown", "vm_name"),
        count(lambda life: life.state is State.STARTED),
        not_shown="Dashboards show the events themselves.",
    ),
    MetricSpec(
        "event_info",
        "gauge",
        (*_EVENT, "event_status", "event_source", "kind", "description", "resources"),
        f"A current event; always 1. Label 'resources' has the first {RESOURCES_SHOWN} VMs of Resources.",
        ("shown", "kinds"),
        event_info,
    ),
    MetricSpec(
        "event_resources",
        "gauge",
        _EVENT,
        "Number of VMs in the event's Resources.",
        ("shown",),
        each(lambda life: life.event.resource_count),
    ),
    MetricSpec(
        "event_not_before_timestamp_seconds",
        "gauge",
        _EVENT,
        "NotBefore, until the event starts.",
        ("shown",),
        not_before,
    ),
    MetricSpec(
        "event_seconds_until_not_before",
        "countdown",
        _EVENT,
        "Time left until NotBefore at the moment of the scrape; negative once overdue.",
        ("shown",),
        not_before,
    ),
    MetricSpec(
        "event_duration_seconds",
        "gauge",
        _EVENT,
        "Announced duration of the impact; absent when unknown.",
        ("shown",),
        each(lambda life: life.event.duration_seconds),
    ),
    MetricSpec(
        "event_first_seen_timestamp_seconds",
        "gauge",
        _EVENT,
        "When this exporter first saw the event.",
        ("shown",),
        each(lambda life: life.first_seen.wall),
    ),
    MetricSpec(
        "event_started_timestamp_seconds",
        "gauge",
        _EVENT,
        "When the event started, while it is Started.",
        ("shown",),
        each(lambda life: life.impact_at if life.state is State.STARTED else None),
    ),
    MetricSpec(
        "event_ended_timestamp_seconds",
        "gauge",
        (*_EVENT, "outcome"),
        "When the event ended, for an hour after its end; absent once it is current again.",
        ("ended",),
        ended,
    ),
    MetricSpec(
        "vm_impact_timestamp_seconds",
        "gauge",
        ("event_id", "event_type", *VM_LABELS),
        "When the impact of an event of this VM begins or began: its start, else its approval, else NotBefore. "
        "Absent for the kinds harmless and advisory.",
        ("shown", "kinds", "identity", "vm_name"),
        impact,
    ),
    MetricSpec(
        "event_approved",
        "gauge",
        _EVENT,
        "1 once IMDS accepted an approval by this exporter or an operator on this VM.",
        ("shown",),
        each(lambda life: life.approved_here),
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
        "When the approval policy here approves the event; absent if it does not or NotBefore is earlier.",
        ("shown", "approval_statuses"),
        approvals_due,
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
        "Alerts pushed to Alertmanager by its answer; an alert is pushed again while it holds.",
        ("pushes",),
        lambda pushes: outcomes(pushes.alerts),
    ),
    MetricSpec(
        "approval_requests_total",
        "counter",
        ("outcome",),
        "Requests to approve events by the answer of IMDS.",
        ("approval_requests",),
        outcomes,
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
        lambda spans: outcomes({SpanOutcome.EXPORTED: spans.exported, SpanOutcome.FAILED: spans.failed}),
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
