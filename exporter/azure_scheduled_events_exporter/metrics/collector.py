"""The table of metrics: type, name, help, the function that reads each metric from a snapshot, and labels.

To add a metric, add a row to ``METRICS`` and to the table of docs/metrics.md; a test prints missing
names. A row's function gets only the fields of the snapshot that its parameters name, so its text
can be cached while these are the same objects. A scrape must not call IMDS or wait for a poll.
"""

import platform
from collections.abc import Callable, Iterable, Mapping
from functools import partial

from azure_scheduled_events_exporter import __version__
from azure_scheduled_events_exporter.core.document import RESOURCES_SHOWN, Scope
from azure_scheduled_events_exporter.core.event_types import EventType
from azure_scheduled_events_exporter.core.instance import Instance
from azure_scheduled_events_exporter.core.kinds import Kind
from azure_scheduled_events_exporter.core.lifecycle import Lifecycle, State
from azure_scheduled_events_exporter.snapshot.approvals import Decision

from .spec import Labels, MetricSpec, Samples

_TYPE = ("event_type",)
_EVENT = ("event_id", "event_type", "scope")
_INSTANCE = (
    *(
        "vm_name",
        "vm_id",
        "scale_set",
        "location",
        "zone",
        "fault_domain",
        "resource_group",
        "subscription_id",
    ),
    *("vm_size", "priority"),
)
_VM = (
    "vm_id",
    "vm_name",
    "computer_name",
    "subscription_id",
    "resource_group",
    "scale_set",
    "zone",
)
_EVENTS_SHOWN = "Dashboards show the events themselves."

_Lives = Mapping[str, Lifecycle]


def _event_labels(life: Lifecycle) -> Labels:
    """Return the values of the labels ``_EVENT``."""
    return life.event_id, life.event.event_type, str(life.scope)


def _each(value: Callable[[Lifecycle], float | None]) -> Callable[[_Lives], Samples]:
    """Return a reader of one value for each current event; an event whose value is None has no series."""

    def read(shown: _Lives) -> Samples:
        found = ((life, value(life)) for life in shown.values())
        return ((_event_labels(life), number) for life, number in found if number is not None)

    return read


@_each
def _not_before(life: Lifecycle) -> float | None:
    """Return NotBefore, wall-clock seconds, of an event that has not started."""
    return life.event.not_before if life.is_pending else None


def _count(
    which: Callable[[Lifecycle], bool],
) -> Callable[[_Lives, str | None], Mapping[Labels, int]]:
    """Return a reader of the number of events by type and scope; documented types exist from the start as 0.

    Scope unknown exists only while this VM's name is unknown.
    """

    def read(shown: _Lives, vm_name: str | None) -> Mapping[Labels, int]:
        scopes = [scope for scope in Scope if scope is not Scope.UNKNOWN or vm_name is None]
        counts: dict[Labels, int] = {
            (str(event_type), str(scope)): 0 for event_type in EventType for scope in scopes
        }
        for life in filter(which, shown.values()):
            key = (life.event.event_type, str(life.scope))
            counts[key] = counts.get(key, 0) + 1
        return counts

    return read


def _approvals_due(shown: _Lives, approval_statuses: Mapping[str, Decision]) -> Samples:
    """Return when the policy approves each current event, wall-clock seconds; none for an event that it holds."""
    due = ((shown.get(event_id), status.due) for event_id, status in approval_statuses.items())
    return (
        (_event_labels(life), moment)
        for life, moment in due
        if life is not None and moment is not None
    )


def _event_info(shown: _Lives, kinds: Mapping[str, Kind]) -> Samples:
    """Return 1 for each current event, with its kind and its texts as labels."""
    for life in shown.values():
        event = life.event
        status = str(life.state) if life.state is State.STARTED else event.status
        names = ",".join(event.resources[:RESOURCES_SHOWN])
        kind = str(kinds[event.event_id])
        yield (*_event_labels(life), status, event.source, kind, event.description, names), 1


def _ended(ended: Iterable[Lifecycle]) -> Samples:
    """Return when each of these events ended, wall-clock seconds."""
    return (
        ((*_event_labels(life), str(life.outcome)), life.ended_at.wall)
        for life in ended
        if life.ended_at
    )


def _impact(
    shown: _Lives, kinds: Mapping[str, Kind], identity: Instance | None, vm_name: str | None
) -> Samples:
    """Return when the impact of each event of this VM begins or began, wall-clock seconds."""
    vm = _of_vm(identity, vm_name, _VM)
    for life in shown.values():
        moment = life.impact_at
        if (
            life.is_mine
            and moment is not None
            and kinds[life.event_id] not in {Kind.HARMLESS, Kind.ADVISORY}
        ):
            yield (life.event_id, life.event.event_type, *vm), moment


def _instance_info(identity: Instance | None, vm_name: str | None) -> Mapping[Labels, int]:
    """Return 1 for this VM, once its name or its metadata is known."""
    return {} if identity is None and vm_name is None else {_of_vm(identity, vm_name, _INSTANCE): 1}


def _of_vm(identity: Instance | None, vm_name: str | None, labels: Labels) -> Labels:
    """Return the values of ``labels`` for this VM.

    Azure spells places differently in its answers: lower case here.
    """
    known = identity or Instance("")
    values = {label: str(getattr(known, label)) for label in _INSTANCE}
    lowered = {
        label: values[label].lower() for label in ("resource_group", "subscription_id", "scale_set")
    }
    values |= {**lowered, "vm_name": vm_name or known.vm_name, "computer_name": known.host_name}
    return tuple(values[label] for label in labels)


_gauge = partial(MetricSpec, "gauge")
_counter = partial(MetricSpec, "counter")
_histogram = partial(MetricSpec, "histogram")

METRICS: tuple[MetricSpec, ...] = (
    _gauge("up", "1 if the last poll got a valid answer, 0 if it failed.", lambda polls: polls.up),
    _gauge(
        "poll_interval_seconds",
        "Configured time between polls.",
        lambda poll_interval: poll_interval,
        not_shown="A setting: polls that are late turn up to 0.",
    ),
    _counter(
        "polls_total", "Polls of IMDS by outcome.", lambda polls: polls.outcomes, ("outcome",)
    ),
    _histogram(
        "poll_duration_seconds",
        "Duration of a poll, whatever its outcome.",
        lambda polls: polls.durations,
    ),
    _gauge(
        "last_success_timestamp_seconds",
        "Time of the last valid answer; 0 before the first.",
        lambda polls: polls.last_success or 0,
    ),
    _gauge(
        "document_incarnation",
        "DocumentIncarnation of the newest document; absent if it has none.",
        lambda incarnation: incarnation,
        not_shown="For diagnosis: it means nothing to who only runs VMs.",
    ),
    _counter(
        "document_changes_total",
        "Number of documents that differed from the one before.",
        lambda document_changes: document_changes,
        not_shown="For diagnosis: the events that changed are shown.",
    ),
    _gauge(
        "instance_info",
        "This VM, as the instance metadata describes it; always 1.",
        _instance_info,
        _INSTANCE,
    ),
    _gauge(
        "host_info",
        "The computer name of this VM, which its operating system and other exporters show;"
        " always 1.",
        lambda identity: (
            {identity.host_name: 1} if identity is not None and identity.host_name else {}
        ),
        ("computer_name",),
        "for joins with the metrics of other exporters",
    ),
    _gauge(
        "build_info",
        "Version of this exporter; always 1.",
        lambda: {(__version__, platform.python_version()): 1},
        ("version", "python_version"),
    ),
    _gauge(
        "pending",
        "Current events that have not started: Scheduled, or with an unknown status.",
        _count(lambda life: life.is_pending),
        ("event_type", "scope"),
        _EVENTS_SHOWN,
    ),
    _gauge(
        "started",
        "Current events that have started.",
        _count(lambda life: life.state is State.STARTED),
        ("event_type", "scope"),
        _EVENTS_SHOWN,
    ),
    _gauge(
        "event_info",
        f"A current event; always 1. Label 'resources' has the first {RESOURCES_SHOWN} VMs of"
        " Resources.",
        _event_info,
        (*_EVENT, "event_status", "event_source", "kind", "description", "resources"),
    ),
    _gauge(
        "event_resources",
        "Number of VMs in the event's Resources.",
        _each(lambda life: life.event.resource_count),
        _EVENT,
    ),
    _gauge(
        "event_not_before_timestamp_seconds",
        "NotBefore, until the event starts.",
        _not_before,
        _EVENT,
    ),
    _gauge(
        "event_seconds_until_not_before",
        "Time left until NotBefore at the moment of the scrape; negative once overdue.",
        _not_before,
        _EVENT,
        "for people who look at the metrics; boards subtract the present from NotBefore",
        is_countdown=True,
    ),
    _gauge(
        "event_duration_seconds",
        "Announced duration of the impact; absent when unknown.",
        _each(lambda life: life.event.duration_seconds),
        _EVENT,
    ),
    _gauge(
        "event_first_seen_timestamp_seconds",
        "When this exporter first saw the event.",
        _each(lambda life: life.first_seen.wall),
        _EVENT,
    ),
    _gauge(
        "event_started_timestamp_seconds",
        "When the event started, while it is Started.",
        _each(lambda life: life.impact_at if life.state is State.STARTED else None),
        _EVENT,
    ),
    _gauge(
        "event_ended_timestamp_seconds",
        "When the event ended, for an hour after its end; absent once it is current again.",
        _ended,
        (*_EVENT, "outcome"),
    ),
    _gauge(
        "vm_impact_timestamp_seconds",
        "When the impact of an event of this VM begins or began: its start, else its approval, else"
        " NotBefore. Absent for the kinds harmless and advisory.",
        _impact,
        ("event_id", "event_type", *_VM),
    ),
    _gauge(
        "event_approved",
        "1 once IMDS accepted an approval by this exporter or an operator on this VM.",
        _each(lambda life: life.approved_here),
        _EVENT,
    ),
    _counter(
        "transitions_total",
        "Transitions in the life of events.",
        lambda statistics: statistics.transitions,
        ("event_type", "event_source", "scope", "transition"),
    ),
    _histogram(
        "approval_latency_seconds",
        "Time from first seen to approved, of events of this VM and of approvals given here;"
        " approved_by is deadline if NotBefore came without an approval.",
        lambda statistics: statistics.approval_latency,
        ("event_type", "approved_by"),
    ),
    _histogram(
        "notice_seconds",
        "Time from first seen to NotBefore, of events of this VM: the notice really given.",
        lambda statistics: statistics.notice,
        _TYPE,
    ),
    _histogram(
        "phase_duration_seconds",
        "Time that events of this VM spent in a phase.",
        lambda statistics: statistics.phases,
        ("event_type", "phase"),
    ),
    _histogram(
        "observed_pause_seconds",
        "Longest pause of this VM while an event of it was Started.",
        lambda statistics: statistics.pauses,
        _TYPE,
    ),
    _counter(
        "observed_pauses_total",
        "Pauses of this VM of 0.1 s or more while an event of it was Started.",
        lambda statistics: statistics.pause_counts,
        _TYPE,
        "The table of pauses shows the longest one of each event, which is what a user notices.",
    ),
    _gauge(
        "event_approval_due_timestamp_seconds",
        "When the approval policy here approves the event; absent if it does not or NotBefore is"
        " earlier.",
        _approvals_due,
        _EVENT,
    ),
    _gauge(
        "approval_policy_info",
        "Approval policy in effect: off, a named policy, or file; always 1.",
        lambda approval_policy: {approval_policy: 1},
        ("policy",),
    ),
    _gauge(
        "alertmanager_up",
        "1 if every Alertmanager accepted the last push of alerts; absent without an Alertmanager.",
        lambda pushes: pushes.up,
    ),
    _counter(
        "alertmanager_alerts_total",
        "Alerts pushed to Alertmanager by its answer; an alert is pushed again while it holds.",
        lambda pushes: pushes.alerts,
        ("outcome",),
        "For diagnosis: alertmanager_up says whether the last push was accepted.",
    ),
    _counter(
        "approval_requests_total",
        "Requests to approve events by the answer of IMDS.",
        lambda approval_requests: approval_requests,
        ("outcome",),
    ),
    _counter(
        "hook_runs_total",
        "Runs of the hook's command on this VM: ok, failed, timeout, or too_late.",
        lambda hooks: hooks.runs,
        ("event_type", "phase", "outcome"),
    ),
    _histogram(
        "hook_duration_seconds",
        "How long the hook's command ran.",
        lambda hooks: hooks.durations,
        ("event_type", "phase"),
        "For the owner of the script, who knows how long it may take.",
    ),
    _histogram(
        "hook_seconds_left",
        "Time left to NotBefore when the hook had prepared; negative when late.",
        lambda hooks: hooks.seconds_left,
        _TYPE,
        "As the duration; a run that is late raises AzureScheduledEventHookFailed.",
    ),
    _gauge(
        "journal_up",
        "1 while transitions are written to disk before they are reported.",
        lambda journal: journal.up,
    ),
    _counter(
        "journal_errors_total",
        "Failed attempts to write the journal.",
        lambda journal: journal.errors,
        not_shown="For diagnosis: journal_up says whether the journal can be written.",
    ),
    _counter(
        "spans_total",
        "Trace spans by the answer of the collector.",
        lambda deliveries: {"exported": deliveries.exported, "failed": deliveries.failed},
        ("outcome",),
    ),
    _gauge(
        "spans_queued",
        "Trace spans that no collector has accepted yet.",
        lambda deliveries: deliveries.queued,
    ),
)
SPECS: Mapping[str, MetricSpec] = {spec.name: spec for spec in METRICS}
