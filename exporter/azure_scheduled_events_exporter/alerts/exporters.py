"""The alerts of events that are late, and of exporters that do not work."""

from collections.abc import Iterator

from azure_scheduled_events_exporter.times import format_duration

from .rule import PREFIX, Alert, promql
from .series import (
    APPROVAL_DUE,
    APPROVED,
    BLIND,
    EVENT,
    EVENT_ENDED,
    METRIC,
    NOT_BEFORE,
    STARTED,
    UP,
    VM_AWAY,
)
from .settings import Settings
from .vms import NOT_BACK

NO_EXPORTERS = f"{PREFIX}NoExporters"
_OVERDUE, _TOO_LONG, _NOT_APPROVED = 600, 1800, 60
"""Seconds: NotBefore may be late by minutes; Started usually lasts ten; an approval is sent within a poll."""
_CLOCK = 30
"""Seconds: after a pause, a guest's clock may lag as much until it is corrected."""
_SEEING = f"unless on (job, instance) {BLIND}"
_PLAIN = f'and on (event_id) {EVENT}{{kind!="harmless"}}'


def late_alerts() -> Iterator[Alert]:
    """Yield the alerts of events that are late.

    An exporter without access to IMDS does not see what has happened.
    """
    yield _late(
        "Overdue",
        f"time() - max by (event_id, event_type) ({NOT_BEFORE} {_SEEING}) > {_OVERDUE}\n{_PLAIN}\n"
        f"unless on (event_id) {STARTED}\nunless on (event_id) {EVENT_ENDED}",
        "A {event_type} has not started {value humanizeDuration} after its NotBefore.",
        "It may start at any moment.",
        f"An event is still Scheduled {format_duration(_OVERDUE)} after its NotBefore.",
    )
    yield _late(
        "StartedTooLong",
        f"time() - min by (event_id, event_type) ({STARTED} {_SEEING}) > {_TOO_LONG}\n{_PLAIN}\n"
        f"unless on (event_id) {EVENT_ENDED}",
        "A {event_type} started {value humanizeDuration} ago and has not ended.",
        "The VM may be stuck, or another impact may follow.",
        "An exporter with access to IMDS has shown an event as Started for"
        f" {format_duration(_TOO_LONG)}.",
    )
    yield _late(
        "NotApproved",
        f"time() - min by (event_id, event_type) ({APPROVAL_DUE}) > {_NOT_APPROVED}\nunless on"
        f" (event_id) {APPROVED} == 1\nunless on (event_id) {STARTED}\nunless on (event_id)"
        f" {EVENT_ENDED}",
        "The policy should have approved a {event_type} {value humanizeDuration} ago.",
        "Without an approval it starts at its NotBefore or later.",
        f"The approval that a policy gives is {format_duration(_NOT_APPROVED)} late, and the event"
        " has not started.",
    )


def exporter_alerts(settings: Settings) -> Iterator[Alert]:
    """Yield the alerts of exporters.

    Those that are expected to be away during an event are left out.
    """
    yield _alert(
        "ImdsUnreachable",
        f"{UP} == 0",
        "{instance} gets no answer from IMDS.",
        "It sees no new events, and shows the last known ones.",
        "The last poll failed, for 3 minutes. The first answer after Scheduled Events were enabled"
        " may take 2.",
        "3m",
    )
    yield _alert(
        "DocumentInvalid",
        f"{UP} == 0\nand on (job, instance)"
        f' increase({METRIC}polls_total{{outcome="invalid_document"}}[2m]) > 0',
        "{instance} cannot read the answer of IMDS.",
        "It sees no new events, and shows the last known ones.",
        "IMDS answers, but not with a document that can be read, for 2 minutes.",
        "2m",
    )
    yield _alert(
        "Throttled",
        f'(increase({METRIC}polls_total{{outcome="throttled"}}[5m]) > 0)\n'
        f"/ ignoring (outcome) increase({METRIC}poll_duration_seconds_count[5m]) > 0.2",
        "IMDS throttles {value humanizePercentage} of the polls of {instance}.",
        "All clients of IMDS on this VM together send more than 5 requests a second.",
        "More than 20 % of the polls of 5 minutes are throttled, for 5 minutes.",
        "5m",
    )
    yield _alert(
        "ExporterDown",
        f"{BLIND} == 0\nunless on (job, instance) {VM_AWAY}\n"
        f'unless on (job, instance) ALERTS{{alertname="{NOT_BACK}"}}',
        "The exporter {instance} does not answer.",
        "Events of its VM are not seen, unless other VMs of its set show them.",
        "A target does not answer for 10 minutes, its VM is not away with an event, and VmNotBack"
        " is not raised.",
        "10m",
    )
    yield _alert(
        "NoExporters",
        f'absent(up{{job=~"{settings.text("job")}"}})\nunless on () {VM_AWAY}',
        "Prometheus scrapes no exporter.",
        "No event is seen. Check the scrape job and the setting job of these rules.",
        "No target of the scrape job exists for 10 minutes, and no VM is away with an event.",
        "10m",
    )
    yield _alert(
        "JournalNotOnDisk",
        f"{METRIC}journal_up == 0",
        "{instance} cannot write its journal.",
        "Entries wait in memory until the disk works again. A restart before that loses them.",
        "The journal could not be written for 5 minutes.",
        "5m",
    )
    yield _alert(
        "ApprovalRefused",
        promql(f"""
            max by (job, instance) (
              {APPROVAL_DUE} < time()
              unless on (event_id) {APPROVED} == 1
              unless on (event_id) {STARTED}
            )
            and on (job, instance) increase({METRIC}approval_requests_total{{outcome=~"rejected|error"}}[5m]) > 0
        """),
        "IMDS refused an approval of {instance}.",
        "The policy asks again. Without an approval the event starts at its NotBefore or later.",
        "IMDS refused an approval within 5 minutes, and nobody else has approved the event.",
    )
    yield _alert(
        "AlertsNotPushed",
        f"{METRIC}alertmanager_up == 0",
        "{instance} cannot push alerts to an Alertmanager.",
        "What that Alertmanager does not get is raised by the rules only.",
        "A push has failed for 5 minutes.",
        "5m",
    )
    yield _alert(
        "SpansNotDelivered",
        f"{METRIC}spans_queued > 0 "
        f'or max without (outcome) (increase({METRIC}spans_total{{outcome="failed"}}[20m]) > 0)',
        "Trace spans of {instance} do not reach the collector.",
        "Spans that wait are delivered later. Those that the collector refused are lost.",
        "Spans wait, or the collector refused some within 20 minutes, for 15 minutes.",
        "15m",
    )
    last = f"{METRIC}last_success_timestamp_seconds"
    yield _alert(
        "ClockOff",
        f"abs({last} - timestamp({last})) > {_CLOCK}\n{_SEEING}",
        "The clock of {instance} is off by {value humanizeDuration}.",
        "Countdowns and times of events are wrong by as much.",
        f"The clock of a VM differs from Prometheus' by more than {_CLOCK} s, for 5 minutes.",
        "5m",
    )
    # The first failure is the first sample of its series, which ``increase`` of Prometheus does not
    # count.
    failed = f'{METRIC}hook_runs_total{{outcome=~"failed|timeout|too_late"}}'
    yield _alert(
        "HookFailed",
        promql(f"""
            sum by (job, instance, event_type, phase, outcome) (
              increase({failed}[15m]) > 0
              or ({failed} unless {failed} offset 15m) and on (job, instance) {UP} offset 15m
            )
        """),
        "The hook of {instance} ended with {outcome}.",
        "A {event_type} began, or will begin, with the work of the hook undone.",
        "A run of the command hook failed, timed out or came too late within 15 minutes.",
    )


def _late(name: str, expression: str, summary: str, description: str, meaning: str) -> Alert:
    return Alert(PREFIX + name, expression, "warning", summary, description, "vm", meaning)


def _alert(
    name: str, expression: str, summary: str, description: str, meaning: str, holds: str = ""
) -> Alert:
    return Alert(
        PREFIX + name,
        expression,
        "warning",
        summary,
        description,
        "",
        meaning,
        holds,
        {"component": "exporter"},
    )
