"""The table of metrics: name, type, labels, help, and the function that reads each metric from a snapshot.

To add a metric, add a row to ``METRICS`` and to the table of docs/metrics.md; a test prints missing names. A row's
``samples`` gets only the fields of the snapshot that its ``reads`` names, so its text can be cached while these are the
same objects. A scrape must not call IMDS or wait for a poll.
"""

import platform
from collections.abc import Callable, Iterable, Mapping
from operator import attrgetter
from typing import Any

from azure_scheduled_events_exporter import __version__
from azure_scheduled_events_exporter.core.document import RESOURCES_SHOWN
from azure_scheduled_events_exporter.core.lifecycle import Lifecycle, State

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
)
from .spec import Labels, MetricSpec

_EVENT = ("event_id", "event_type", "scope")
_EVENTS_SHOWN = "Dashboards show the events themselves."


def _value(name: str, kind: str, text: str, path: str, not_shown: str = "") -> MetricSpec:
    """Return a row of one series, the value at ``path`` in the snapshot; None for no series."""
    field, read = _reader(path)

    def samples(value: object) -> Iterable[tuple[Labels, Any]]:
        number = read(value)
        return [] if number is None else [((), number)]

    return MetricSpec(name, kind, (), text, (field,), samples, not_shown)


def _event(name: str, text: str, value: Callable[[Lifecycle], float | None]) -> MetricSpec:
    """Return a row of a gauge with a series for each current event; none for an event whose value is None."""
    return MetricSpec(name, "gauge", _EVENT, text, ("shown",), each(value))


def _tally(name: str, kind: str, labels: Labels, text: str, path: str, not_shown: str = "") -> MetricSpec:
    """Return a row whose series are the entries of the mapping at ``path`` in the snapshot."""
    field, read = _reader(path)
    return MetricSpec(name, kind, labels, text, (field,), lambda value: read(value).items(), not_shown)


def _outcomes(name: str, text: str, path: str) -> MetricSpec:
    """Return a row of a counter by outcome."""
    field, read = _reader(path)

    def samples(value: object) -> Iterable[tuple[Labels, int]]:
        return (((str(outcome),), number) for outcome, number in read(value).items())

    return MetricSpec(name, "counter", ("outcome",), text, (field,), samples)


def _reader(path: str) -> tuple[str, Callable[[Any], Any]]:
    """Return the field of the snapshot in which ``path`` begins, and the function that reads the rest of it."""
    field, _, rest = path.partition(".")
    return field, attrgetter(rest) if rest else lambda value: value


METRICS = (
    _value("up", "gauge", "1 if the last poll got a valid answer, 0 if it failed.", "polls.up"),
    _value("poll_interval_seconds", "gauge", "Configured time between polls.", "poll_interval"),
    _outcomes("polls_total", "Polls of IMDS by outcome.", "polls.outcomes"),
    _value("poll_duration_seconds", "histogram", "Duration of a poll, whatever its outcome.", "polls.durations"),
    MetricSpec(
        "last_success_timestamp_seconds",
        "gauge",
        (),
        "Time of the last valid answer; 0 before the first.",
        ("polls",),
        lambda polls: [((), polls.last_success or 0)],
    ),
    _value(
        "document_incarnation",
        "gauge",
        "DocumentIncarnation of the newest document; absent if it has none.",
        "incarnation",
        "For diagnosis: it means nothing to who only runs VMs.",
    ),
    _value(
        "document_changes_total",
        "counter",
        "Number of documents that differed from the one before.",
        "document_changes",
        "For diagnosis: the events that changed are shown.",
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
        "for joins with the metrics of other exporters",
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
        _EVENTS_SHOWN,
    ),
    MetricSpec(
        "started",
        "gauge",
        ("event_type", "scope"),
        "Current events that have started.",
        ("shown", "vm_name"),
        count(lambda life: life.state is State.STARTED),
        _EVENTS_SHOWN,
    ),
    MetricSpec(
        "event_info",
        "gauge",
        (*_EVENT, "event_status", "event_source", "kind", "description", "resources"),
        f"A current event; always 1. Label 'resources' has the first {RESOURCES_SHOWN} VMs of Resources.",
        ("shown", "kinds"),
        event_info,
    ),
    _event("event_resources", "Number of VMs in the event's Resources.", lambda life: life.event.resource_count),
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
        "for people who look at the metrics; boards subtract the present from NotBefore",
    ),
    _event(
        "event_duration_seconds",
        "Announced duration of the impact; absent when unknown.",
        lambda life: life.event.duration_seconds,
    ),
    _event(
        "event_first_seen_timestamp_seconds",
        "When this exporter first saw the event.",
        lambda life: life.first_seen.wall,
    ),
    _event(
        "event_started_timestamp_seconds",
        "When the event started, while it is Started.",
        lambda life: life.impact_at if life.state is State.STARTED else None,
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
    _event(
        "event_approved",
        "1 once IMDS accepted an approval by this exporter or an operator on this VM.",
        lambda life: life.approved_here,
    ),
    _tally(
        "transitions_total",
        "counter",
        ("event_type", "event_source", "scope", "transition"),
        "Transitions in the life of events.",
        "statistics.transitions",
    ),
    _tally(
        "approval_latency_seconds",
        "histogram",
        ("event_type", "approved_by"),
        "Time from first seen to approved, of events of this VM and of approvals given here; approved_by is deadline "
        "if NotBefore came without an approval.",
        "statistics.approval_latency",
    ),
    _tally(
        "notice_seconds",
        "histogram",
        ("event_type",),
        "Time from first seen to NotBefore, of events of this VM: the notice really given.",
        "statistics.notice",
    ),
    _tally(
        "phase_duration_seconds",
        "histogram",
        ("event_type", "phase"),
        "Time that events of this VM spent in a phase.",
        "statistics.phases",
    ),
    _tally(
        "observed_pause_seconds",
        "histogram",
        ("event_type",),
        "Longest pause of this VM while an event of it was Started.",
        "statistics.pauses",
    ),
    _tally(
        "observed_pauses_total",
        "counter",
        ("event_type",),
        "Pauses of this VM of 0.1 s or more while an event of it was Started.",
        "statistics.pause_counts",
        "The table of pauses shows the longest one of each event, which is what a user notices.",
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
    _value(
        "alertmanager_up",
        "gauge",
        "1 if every Alertmanager accepted the last push of alerts; absent without an Alertmanager.",
        "pushes.up",
    ),
    _outcomes(
        "alertmanager_alerts_total",
        "Alerts pushed to Alertmanager by its answer; an alert is pushed again while it holds.",
        "pushes.alerts",
    ),
    _outcomes("approval_requests_total", "Requests to approve events by the answer of IMDS.", "approval_requests"),
    _tally(
        "hook_runs_total",
        "counter",
        ("event_type", "phase", "outcome"),
        "Runs of the hook's command on this VM: ok, failed, timeout, or too_late.",
        "hooks.runs",
    ),
    _tally(
        "hook_duration_seconds",
        "histogram",
        ("event_type", "phase"),
        "How long the hook's command ran.",
        "hooks.durations",
        "For the owner of the script, who knows how long it may take.",
    ),
    _tally(
        "hook_seconds_left",
        "histogram",
        ("event_type",),
        "Time left to NotBefore when the hook had prepared; negative when late.",
        "hooks.seconds_left",
        "As the duration; a run that is late raises AzureScheduledEventHookFailed.",
    ),
    _value("journal_up", "gauge", "1 while transitions are written to disk before they are reported.", "journal.up"),
    _value("journal_errors_total", "counter", "Failed attempts to write the journal.", "journal.errors"),
    MetricSpec(
        "spans_total",
        "counter",
        ("outcome",),
        "Trace spans by the answer of the collector.",
        ("deliveries",),
        lambda spans: [(("exported",), spans.exported), (("failed",), spans.failed)],
    ),
    _value("spans_queued", "gauge", "Trace spans that no collector has accepted yet.", "deliveries.queued"),
)
SPECS: Mapping[str, MetricSpec] = {spec.name: spec for spec in METRICS}
