"""The table of metrics.

A row has type, name, help, the function that reads the metric, labels, and, if neither a dashboard
nor an alert uses it, the reason.

To add a metric, add a row to ``METRICS`` and to the table of docs/metrics.md; a test prints missing
names. A row's function gets a snapshot. Its text is kept while the fields that the function has
read are the same objects, so it must read nothing else. A scrape must not call IMDS or wait for a
poll.

Longer than other modules, because it is one table: each row, and the function that reads it.
"""

import math
import platform
from collections.abc import Callable, Iterator, Mapping
from functools import partial

from azure_scheduled_events_exporter import __version__
from azure_scheduled_events_exporter.core.document import RESOURCES_SHOWN, Scope
from azure_scheduled_events_exporter.core.event_types import EventType
from azure_scheduled_events_exporter.core.instance import Instance
from azure_scheduled_events_exporter.core.kinds import Kind
from azure_scheduled_events_exporter.core.lifecycle import Lifecycle, State, impact_values
from azure_scheduled_events_exporter.snapshot.snapshot import Snapshot

from .spec import Labels, MetricSpec, Sample

_TYPE = ("event_type",)
_EVENT = ("event_id", "event_type", "scope")
_EVENT_KIND = ("event_id", "event_type", "kind", "scope")
_SET = ("subscription_id", "resource_group", "scale_set")
"""The labels that VMs of one scale set share; in lower case, as Azure spells them in many ways."""
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
_VM = ("vm_id", "vm_name", "computer_name", *_SET, "zone")
_FOR_QUERIES = "For queries over a fleet: docs/observed-pause.md."
_EVENTS_SHOWN = "Dashboards show the events themselves."
_WITHOUT_IMPACT = frozenset({Kind.HARMLESS, Kind.ADVISORY})
"""Kinds of events during which nobody has to expect that a VM goes away."""


def _event_labels(life: Lifecycle) -> Labels:
    """Return the values of the labels ``_EVENT``."""
    return life.event_id, life.event.event_type, str(life.scope)


def _event_kind_labels(life: Lifecycle) -> Labels:
    """Return the values of the labels ``_EVENT_KIND``."""
    return life.event_id, life.event.event_type, str(life.kind), str(life.scope)


def _each(value: Callable[[Lifecycle], float | None]) -> Callable[[Snapshot], Iterator[Sample]]:
    """Return a reader of one value for each current event; None is no series."""

    def read(snapshot: Snapshot) -> Iterator[Sample]:
        for life in snapshot.shown.values():
            number = value(life)
            if number is not None:
                yield Sample(_event_labels(life), number)

    return read


@_each
def _not_before(life: Lifecycle) -> float | None:
    """Return NotBefore, wall-clock seconds, of an event that has not started."""
    return life.event.not_before if life.is_pending else None


def _count(which: Callable[[Lifecycle], bool]) -> Callable[[Snapshot], Mapping[Labels, int]]:
    """Return a reader of the number of events by type and scope.

    Documented types exist from the start as 0. Scope unknown exists only while this VM's name is
    unknown.
    """

    def read(snapshot: Snapshot) -> Mapping[Labels, int]:
        is_named = snapshot.vm_name is not None
        scopes = [scope for scope in Scope if scope is not Scope.UNKNOWN or not is_named]
        counts: dict[Labels, int] = {
            (str(event_type), str(scope)): 0 for event_type in EventType for scope in scopes
        }
        for life in filter(which, snapshot.shown.values()):
            key = (life.event.event_type, str(life.scope))
            counts[key] = counts.get(key, 0) + 1
        return counts

    return read


def _approvals_due(snapshot: Snapshot) -> Iterator[Sample]:
    """Yield when the policy approves each current event; nothing for an event that it holds."""
    for event_id, status in snapshot.approval_statuses.items():
        life = snapshot.shown.get(event_id)
        if life is not None and status.due is not None:
            yield Sample(_event_labels(life), status.due)


def _event_info(snapshot: Snapshot) -> Iterator[Sample]:
    """Yield 1 for each current event, with its kind and its texts as labels."""
    (resource_group,) = _of_vm(snapshot, ("resource_group",))
    for life in snapshot.shown.values():
        event = life.event
        # An outdated document may show it as Scheduled again.
        status = str(life.state) if life.state is State.STARTED else event.status
        labels = (
            *_event_labels(life),
            status,
            event.source,
            str(life.kind),
            event.description,
            ",".join(event.resources[:RESOURCES_SHOWN]),
            event.vms,
            resource_group,
        )
        yield Sample(labels, 1)


def _event_seen(snapshot: Snapshot) -> Iterator[Sample]:
    """Yield each current event; its value is its EventId.

    ``at_scrape`` of the metric looks up the time by it: the time changes with each poll, while
    these samples stay as they are until an event changes.
    """
    for life in snapshot.shown.values():
        yield Sample(_event_kind_labels(life), life.event_id)


def _event_impact(snapshot: Snapshot) -> Iterator[Sample]:
    """Yield when the impact of each current event begins or began, whole wall-clock seconds."""
    for life in snapshot.shown.values():
        if life.impact_at is not None:
            yield Sample(_event_kind_labels(life), math.floor(life.impact_at))


def _vm_impact(snapshot: Snapshot) -> Iterator[Sample]:
    """Yield when the impact of each event of this VM begins or began, wall-clock seconds."""
    vm = _of_vm(snapshot, _VM)
    for life in snapshot.shown.values():
        has_impact = life.kind not in _WITHOUT_IMPACT
        if life.is_mine and has_impact and life.impact_at is not None:
            yield Sample((life.event_id, life.event.event_type, *vm), life.impact_at)


def _peer_impact(snapshot: Snapshot) -> Iterator[Sample]:
    """Yield when the impact of each Started event of other VMs began, for each of its VMs.

    A VM whose host fails cannot say so itself.
    """
    place = _of_vm(snapshot, _SET)
    for life in snapshot.shown.values():
        has_impact = life.kind not in _WITHOUT_IMPACT
        is_peer = life.scope is Scope.PEER
        if is_peer and has_impact and life.started_at is not None:
            for name in life.event.resources[:RESOURCES_SHOWN]:
                # api-version 2017-03-01 prefixes names with an underscore.
                labels = (life.event_id, life.event.event_type, name.lstrip("_"), *place)
                yield Sample(labels, life.started_at.wall)


def _measured(name: str) -> Callable[[Snapshot], Iterator[Sample]]:
    """Return a reader of a value of :func:`impact_values` for each event, current or ended."""

    def read(snapshot: Snapshot) -> Iterator[Sample]:
        for life in (*snapshot.shown.values(), *snapshot.ended):
            number = impact_values(life)[name]
            if number is not None:
                yield Sample(_event_labels(life), number)

    return read


def _paused_longer(snapshot: Snapshot) -> Iterator[Sample]:
    """Yield the pauses that were longer than announced, and than what is called harmless."""
    (vm_name,) = _of_vm(snapshot, ("vm_name",))
    for life in (*snapshot.shown.values(), *snapshot.ended):
        announced = life.event.duration_seconds
        if life.paused_longer and life.observed_pause is not None and announced is not None:
            labels = (*_event_labels(life), vm_name, f"{announced:g}")
            yield Sample(labels, life.observed_pause)


def _ended(snapshot: Snapshot) -> Iterator[Sample]:
    """Yield when each of the events that ended within the last hour did, wall-clock seconds."""
    for life in snapshot.ended:
        if life.ended_at is not None:
            yield Sample((*_event_labels(life), str(life.outcome)), life.ended_at.wall)


def _instance_info(snapshot: Snapshot) -> Mapping[Labels, int]:
    """Return 1 for this VM, once its name or its metadata is known."""
    if snapshot.identity is None and snapshot.vm_name is None:
        return {}
    return {_of_vm(snapshot, (*_INSTANCE, "computer_name")): 1}


def _host_info(snapshot: Snapshot) -> Mapping[str, int]:
    """Return 1 for this VM, once its computer name is known."""
    identity = snapshot.identity
    return {identity.host_name: 1} if identity is not None and identity.host_name else {}


def _of_vm(snapshot: Snapshot, labels: Labels) -> Labels:
    """Return the values of ``labels`` for this VM; empty ones while they are unknown."""
    known = snapshot.identity or Instance("")
    values = {label: str(getattr(known, label)) for label in _INSTANCE}
    values |= {label: values[label].lower() for label in _SET}
    values["vm_name"] = snapshot.vm_name or known.vm_name
    values["computer_name"] = known.host_name
    return tuple(values[label] for label in labels)


_gauge = partial(MetricSpec, "gauge")
_counter = partial(MetricSpec, "counter")
_histogram = partial(MetricSpec, "histogram")

METRICS: tuple[MetricSpec, ...] = (
    _gauge(
        "up",
        "1 if the last poll got a valid answer, 0 if it failed.",
        lambda snapshot: snapshot.polls.up,
    ),
    _gauge(
        "poll_interval_seconds",
        "Configured time between polls.",
        lambda snapshot: snapshot.poll_interval,
        not_shown="A setting: polls that are late turn up to 0.",
    ),
    _counter(
        "polls_total",
        "Polls of IMDS by outcome.",
        lambda snapshot: snapshot.polls.outcomes,
        ("outcome",),
    ),
    _histogram(
        "poll_duration_seconds",
        "Duration of a poll, whatever its outcome.",
        lambda snapshot: snapshot.polls.durations,
    ),
    _gauge(
        "last_success_timestamp_seconds",
        "Time of the last valid answer; 0 before the first.",
        lambda snapshot: snapshot.polls.last_success or 0,
    ),
    _gauge(
        "document_incarnation",
        "DocumentIncarnation of the newest document; absent if it has none.",
        lambda snapshot: snapshot.incarnation,
        not_shown="For diagnosis: it means nothing to who only runs VMs.",
    ),
    _counter(
        "document_changes_total",
        "Number of documents that differed from the one before.",
        lambda snapshot: snapshot.document_changes,
        not_shown="For diagnosis: the events that changed are shown.",
    ),
    _counter(
        "events_dropped_total",
        "Events of documents that were left out, because 1,000 of other VMs, or of this VM, were"
        " known.",
        lambda snapshot: snapshot.events_dropped,
        not_shown="For diagnosis: Azure shows one VM a few events at a time.",
    ),
    _gauge(
        "instance_info",
        "This VM, as the instance metadata describes it; always 1.",
        _instance_info,
        (*_INSTANCE, "computer_name"),
    ),
    _gauge(
        "host_info",
        "The computer name of this VM, which its operating system and other exporters show;"
        " always 1.",
        _host_info,
        ("computer_name",),
        "for joins with the metrics of other exporters",
    ),
    _gauge(
        "build_info",
        "Version of this exporter; always 1.",
        lambda _: {(__version__, platform.python_version()): 1},
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
        " Resources, 'vms' all of them in words.",
        _event_info,
        (
            *_EVENT,
            "event_status",
            "event_source",
            "kind",
            "description",
            "resources",
            "vms",
            "resource_group",
        ),
    ),
    _gauge(
        "event_seen_timestamp_seconds",
        "When the newest valid document showed the event, by the clock of IMDS.",
        _event_seen,
        _EVENT_KIND,
        at_scrape=lambda snapshot, event_id, _: snapshot.seen[event_id],
    ),
    _gauge(
        "event_impact_timestamp_seconds",
        "When the impact of a current event begins or began: its start, else its approval, else"
        " NotBefore; whole seconds. Absent while unknown.",
        _event_impact,
        _EVENT_KIND,
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
        at_scrape=lambda _, moment, now: float(moment - now),
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
        # The impact of a Started event begins with its start.
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
        _vm_impact,
        ("event_id", "event_type", *_VM),
    ),
    _gauge(
        "peer_impact_timestamp_seconds",
        "When the impact of a Started event of other VMs began, for each of its first"
        f" {RESOURCES_SHOWN} VMs. Absent for the kinds harmless and advisory.",
        _peer_impact,
        ("event_id", "event_type", "vm_name", *_SET),
    ),
    _gauge(
        "event_observed_pause_seconds",
        "Longest pause of this VM while the event was Started, so far; also for an hour after its"
        " end.",
        _measured("observed_pause_seconds"),
        _EVENT,
    ),
    _gauge(
        "event_tcp_retransmitted_segments",
        "TCP segments sent again since this VM's event started; also for an hour after its end.",
        _measured("tcp_retransmitted_segments"),
        _EVENT,
    ),
    _gauge(
        "event_tcp_timeouts",
        "TCP retransmission timeouts since this VM's event started; also for an hour after its"
        " end.",
        _measured("tcp_timeouts"),
        _EVENT,
    ),
    _gauge(
        "event_clock_step_seconds",
        "By how much this VM's clock was set forward since its event started, negative if backward;"
        " also for an hour after its end.",
        _measured("clock_step_seconds"),
        _EVENT,
    ),
    _gauge(
        "event_paused_longer_seconds",
        "Longest pause of this VM during its event, if it is longer than announced (label"
        " 'announced', seconds) and than --freeze.harmless-below; also for an hour after its end.",
        _paused_longer,
        (*_EVENT, "vm_name", "announced"),
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
        lambda snapshot: snapshot.statistics.transitions,
        ("event_type", "event_source", "scope", "transition"),
    ),
    _histogram(
        "approval_latency_seconds",
        "Time from first seen to approved, of events of this VM and of approvals given here;"
        " approved_by is deadline if NotBefore came and no approval is known.",
        lambda snapshot: snapshot.statistics.approval_latency,
        ("event_type", "approved_by"),
    ),
    _histogram(
        "notice_seconds",
        "Time from first seen to NotBefore, of events of this VM: the notice really given.",
        lambda snapshot: snapshot.statistics.notice,
        _TYPE,
    ),
    _histogram(
        "phase_duration_seconds",
        "Time that events of this VM spent in a phase.",
        lambda snapshot: snapshot.statistics.time_in_state,
        ("event_type", "phase"),
    ),
    _histogram(
        "observed_pause_seconds",
        "Longest pause of this VM while an event of it was Started.",
        lambda snapshot: snapshot.statistics.pauses,
        _TYPE,
    ),
    _counter(
        "observed_pauses_total",
        "Pauses of this VM of 0.1 s or more while an event of it was Started.",
        lambda snapshot: snapshot.statistics.pause_counts,
        _TYPE,
        "The table of pauses shows the longest one of each event, which is what a user notices.",
    ),
    _counter(
        "tcp_retransmitted_segments_total",
        "TCP segments that this VM sent again while an event of it was Started.",
        lambda snapshot: snapshot.statistics.retransmitted,
        _TYPE,
        _FOR_QUERIES,
    ),
    _counter(
        "tcp_timeouts_total",
        "TCP retransmission timeouts of this VM while an event of it was Started.",
        lambda snapshot: snapshot.statistics.timeouts,
        _TYPE,
        _FOR_QUERIES,
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
        lambda snapshot: {snapshot.approval_policy: 1},
        ("policy",),
    ),
    _gauge(
        "alertmanager_up",
        "1 if every Alertmanager accepted the last push of alerts; absent without an Alertmanager.",
        lambda snapshot: snapshot.pushes.up,
    ),
    _counter(
        "alertmanager_alerts_total",
        "Alerts pushed to Alertmanager by its answer; an alert is pushed again while it holds.",
        lambda snapshot: snapshot.pushes.alerts,
        ("outcome",),
        "For diagnosis: alertmanager_up says whether the last push was accepted.",
    ),
    _counter(
        "approval_requests_total",
        "Requests to approve events by the answer of IMDS.",
        lambda snapshot: snapshot.approval_requests,
        ("outcome",),
    ),
    _counter(
        "hook_runs_total",
        "Runs of the hook's command on this VM: ok, failed, timeout, too_late, or cancelled.",
        lambda snapshot: snapshot.hooks.runs,
        ("event_type", "phase", "outcome"),
    ),
    _histogram(
        "hook_duration_seconds",
        "How long the hook's command ran.",
        lambda snapshot: snapshot.hooks.durations,
        ("event_type", "phase"),
        "For the owner of the script, who knows how long it may take.",
    ),
    _histogram(
        "hook_seconds_left",
        "Time left to NotBefore when the hook had prepared; negative when late.",
        lambda snapshot: snapshot.hooks.seconds_left,
        _TYPE,
        "As the duration; a run that is late raises AzureScheduledEventHookFailed.",
    ),
    _gauge(
        "journal_up",
        "1 while transitions are written to disk before they are reported, and none was lost"
        " lately; absent if the journal was asked to be in memory.",
        lambda snapshot: snapshot.journal.up,
    ),
    _counter(
        "journal_errors_total",
        "Failed attempts to write the journal.",
        lambda snapshot: snapshot.journal.errors,
        not_shown="For diagnosis: journal_up says whether the journal can be written.",
    ),
    _counter(
        "spans_total",
        "Trace spans by the answer of the collector.",
        lambda snapshot: {
            "exported": snapshot.deliveries.exported,
            "failed": snapshot.deliveries.failed,
        },
        ("outcome",),
    ),
    _gauge(
        "spans_queued",
        "Trace spans that no collector has accepted yet.",
        lambda snapshot: snapshot.deliveries.queued,
    ),
)
SPECS: Mapping[str, MetricSpec] = {spec.name: spec for spec in METRICS}
