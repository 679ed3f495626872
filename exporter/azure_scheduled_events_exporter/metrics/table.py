"""The table of metrics: type, name, help, the function that reads the metric, and labels.

To add a metric, add a row to ``METRICS`` and to the table of docs/metrics.md; a test prints missing
names. A row that neither a dashboard nor an alert uses says why (``not_shown``). A row's function
gets a snapshot, and must read nothing else (``readers`` says why). A scrape must not call IMDS or
wait for a poll.

The text of a row is kept until what its function has read changes. If only the values change with
each poll or with time, the row has ``at_scrape``: a second function, which makes the values at each
scrape. In the place of a value, the first one then gives what the second one needs for it, such as
an EventId. The second one gets the snapshot, that object and the time.
"""

import platform
from collections.abc import Mapping
from functools import partial

from azure_scheduled_events_exporter import __version__
from azure_scheduled_events_exporter.core.document import RESOURCES_SHOWN
from azure_scheduled_events_exporter.core.lifecycle import State

from .readers import (
    EVENT,
    EVENT_AND_KIND,
    METADATA,
    SCALE_SET,
    VM,
    approvals_due,
    counted,
    ended,
    event_impact,
    event_info,
    event_seen,
    host_info,
    instance_info,
    measured,
    not_before,
    of_each,
    paused_longer,
    peer_impact,
    started,
    vm_impact,
)
from .spec import MetricSpec

_TYPE = ("event_type",)
_FOR_QUERIES = "For queries over a fleet: docs/observed-pause.md."
_EVENTS_SHOWN = "Dashboards show the events themselves."

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
        "clock_offset_seconds",
        "By how much the clock of this VM is ahead of that of IMDS, negative if it is behind; 0"
        " while they agree, and before the first answer.",
        lambda snapshot: snapshot.clock_ahead,
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
        instance_info,
        (*METADATA, "computer_name"),
    ),
    _gauge(
        "host_info",
        "The computer name of this VM, which its operating system and other exporters show;"
        " always 1.",
        host_info,
        ("computer_name",),
        not_shown="for joins with the metrics of other exporters",
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
        counted(lambda life: life.is_pending),
        ("event_type", "scope"),
        not_shown=_EVENTS_SHOWN,
    ),
    _gauge(
        "started",
        "Current events that have started.",
        counted(lambda life: life.state is State.STARTED),
        ("event_type", "scope"),
        not_shown=_EVENTS_SHOWN,
    ),
    _gauge(
        "event_info",
        f"A current event; always 1. Label 'resources' has the first {RESOURCES_SHOWN} VMs of"
        " Resources, 'vms' all of them in words.",
        event_info,
        (
            *EVENT,
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
        event_seen,
        EVENT_AND_KIND,
        at_scrape=lambda snapshot, event_id, _: snapshot.seen[event_id],
    ),
    _gauge(
        "event_impact_timestamp_seconds",
        "When the impact of a current event begins or began: its start, else its approval, else"
        " NotBefore; whole seconds. Absent while unknown.",
        event_impact,
        EVENT_AND_KIND,
    ),
    _gauge(
        "event_resources",
        "Number of VMs in the event's Resources.",
        of_each(lambda life: life.event.resource_count),
        EVENT,
    ),
    _gauge(
        "event_not_before_timestamp_seconds",
        "NotBefore, until the event starts.",
        of_each(not_before),
        EVENT,
    ),
    _gauge(
        "event_seconds_until_not_before",
        "Time left until NotBefore at the moment of the scrape; negative once overdue.",
        of_each(not_before),
        EVENT,
        not_shown="for people who look at the metrics; boards subtract the present from NotBefore",
        at_scrape=lambda _, moment, now: float(moment - now),
    ),
    _gauge(
        "event_duration_seconds",
        "Announced duration of the impact; absent when unknown.",
        of_each(lambda life: life.event.duration_seconds),
        EVENT,
    ),
    _gauge(
        "event_first_seen_timestamp_seconds",
        "When this exporter first saw the event.",
        of_each(lambda life: life.first_seen.wall),
        EVENT,
    ),
    _gauge(
        "event_started_timestamp_seconds",
        "When the event started, while it is Started.",
        of_each(started),
        EVENT,
    ),
    _gauge(
        "event_ended_timestamp_seconds",
        "When the event ended, for an hour after its end; absent once it is current again.",
        ended,
        (*EVENT, "outcome"),
    ),
    _gauge(
        "vm_impact_timestamp_seconds",
        "When the impact of an event of this VM begins or began: its start, else its approval, else"
        " NotBefore. Absent for the kinds harmless and advisory.",
        vm_impact,
        ("event_id", "event_type", *VM),
    ),
    _gauge(
        "peer_impact_timestamp_seconds",
        "When the impact of a Started event of other VMs began, for each of its first"
        f" {RESOURCES_SHOWN} VMs. Absent for the kinds harmless and advisory.",
        peer_impact,
        ("event_id", "event_type", "vm_name", *SCALE_SET),
    ),
    _gauge(
        "event_observed_pause_seconds",
        "Longest pause of this VM while the event was Started, so far; also for an hour after its"
        " end.",
        measured("observed_pause_seconds"),
        EVENT,
    ),
    _gauge(
        "event_tcp_retransmitted_segments",
        "TCP segments sent again since this VM's event started; also for an hour after its end.",
        measured("tcp_retransmitted_segments"),
        EVENT,
    ),
    _gauge(
        "event_tcp_timeouts",
        "TCP retransmission timeouts since this VM's event started; also for an hour after its"
        " end.",
        measured("tcp_timeouts"),
        EVENT,
    ),
    _gauge(
        "event_clock_step_seconds",
        "By how much this VM's clock was set forward since its event started, negative if backward;"
        " also for an hour after its end.",
        measured("clock_step_seconds"),
        EVENT,
    ),
    _gauge(
        "event_paused_longer_seconds",
        "Longest pause of this VM during its event, if it is longer than announced (label"
        " 'announced', seconds) and than --freeze.harmless-below; also for an hour after its end.",
        paused_longer,
        (*EVENT, "vm_name", "announced"),
    ),
    _gauge(
        "event_approved",
        "1 once IMDS accepted an approval by this exporter or an operator on this VM.",
        of_each(lambda life: life.approved_here),
        EVENT,
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
        "Time from first seen to NotBefore, of events of this VM: the announced notice.",
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
        not_shown="The table of pauses shows the longest of each event, which a user notices.",
    ),
    _counter(
        "tcp_retransmitted_segments_total",
        "TCP segments that this VM sent again while an event of it was Started.",
        lambda snapshot: snapshot.statistics.retransmitted,
        _TYPE,
        not_shown=_FOR_QUERIES,
    ),
    _counter(
        "tcp_timeouts_total",
        "TCP retransmission timeouts of this VM while an event of it was Started.",
        lambda snapshot: snapshot.statistics.timeouts,
        _TYPE,
        not_shown=_FOR_QUERIES,
    ),
    _gauge(
        "event_approval_due_timestamp_seconds",
        "When the approval policy here approves the event; absent if it does not or NotBefore is"
        " earlier.",
        approvals_due,
        EVENT,
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
        not_shown="For diagnosis: alertmanager_up says whether the last push was accepted.",
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
        not_shown="For the owner of the script, who knows how long it may take.",
    ),
    _histogram(
        "hook_seconds_left",
        "Time left to NotBefore when the hook had prepared; negative when late.",
        lambda snapshot: snapshot.hooks.seconds_left,
        _TYPE,
        not_shown="See hook_duration_seconds; a late run raises AzureScheduledEventHookFailed.",
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
"""The rows by name, without the prefix."""
