"""The alerts of events that are late, and of exporters that do not work."""

from collections.abc import Iterator

from .rule import PREFIX, Alert, promql
from .series import (
    APPROVAL_DUE,
    APPROVED,
    METRIC,
    NOT_BEFORE,
    PAUSED_LONGER,
    RECORDED_END,
    RECORDED_SEEN,
    STARTED,
    UP,
    VM,
    VM_AWAY,
    VM_MISSING,
)
from .settings import Settings
from .vms import VM_KEY

NO_EXPORTERS = f"{PREFIX}NoExporters"
_OVERDUE = 600
"""Seconds: NotBefore may be late by minutes."""
_TOO_LONG = 1800
"""Seconds: an event usually stays Started for ten minutes."""
_NOT_APPROVED = 60
"""Seconds: an approval is sent within a poll."""
_CLOCK = 30
"""Seconds: far more than clocks differ that are synchronized."""
_SEEING = f"unless on (job, instance) max_over_time({UP}[2m]) == 0"
"""What exporters say that have had access to IMDS lately: polls may fail now and then."""


def late_alerts() -> Iterator[Alert]:
    """Yield the alerts of events that are late, or did more than was announced.

    An exporter without access to IMDS does not see what has happened.
    """
    yield _late(
        "Overdue",
        expression=promql(f"""
            time() - max by (event_id, event_type) ({NOT_BEFORE} {_SEEING}) > {_OVERDUE}
            and on (event_id) {RECORDED_SEEN}{{kind!="harmless"}}
            unless on (event_id) {STARTED}
            unless on (event_id) {RECORDED_END}
        """),
        summary=(
            "A {event_type} of {vms} has not started {value humanizeDuration} after its NotBefore."
        ),
        description="It may start at any moment.",
        advice="Keep the VM drained.",
        meaning=f"An event is still Scheduled {_OVERDUE // 60} minutes after its NotBefore.",
        ends="Resolves when the event starts, gets a later NotBefore, or ends.",
    )
    yield _late(
        "StartedTooLong",
        expression=promql(f"""
            time() - min by (event_id, event_type) ({STARTED} {_SEEING}) > {_TOO_LONG}
            unless on (event_id) {RECORDED_END}
        """),
        summary="A {event_type} of {vms} started {value humanizeDuration} ago and has not ended.",
        description="The VM may be stuck, or another impact may follow.",
        advice="Check that the VM works. If it does not, restart it.",
        meaning=(
            f"An exporter that can read IMDS has shown an event as Started for {_TOO_LONG // 60}"
            " minutes."
        ),
        ends="Resolves when the event has ended.",
    )
    yield _late(
        "NotApproved",
        expression=promql(f"""
            time() - min by (event_id, event_type) ({APPROVAL_DUE}) > {_NOT_APPROVED}
            unless on (event_id) {APPROVED} == 1
            unless on (event_id) {STARTED}
            unless on (event_id) {RECORDED_END}
        """),
        summary=(
            "The policy should have approved a {event_type} of {vms} {value humanizeDuration} ago."
        ),
        description="Without an approval it starts at its NotBefore or later.",
        advice="If the VM is drained, approve the event yourself.",
        meaning=(
            f"The approval policy should have approved an event {_NOT_APPROVED} s ago. The event"
            " is not approved, and has not started."
        ),
        ends="Resolves when the event is approved, starts, or ends.",
    )


def pause_alert() -> Alert:
    """Return the alert of a VM that stood still for longer than announced."""
    return _late(
        "PausedLonger",
        expression=f"max by (event_id, event_type, job, instance) ({PAUSED_LONGER})",
        summary="{paused_vm} stood still for {seconds}; Azure had announced {announced}.",
        description="What ran on it did not answer for so long: sessions and leases may be lost.",
        advice=(
            "Check the services of the VM. If they do not survive such a pause, do not rely on"
            " announced durations."
        ),
        meaning=(
            "An event paused a VM for longer than Azure had announced, and than the exporter's"
            " `--freeze.harmless-below` (9 s)."
        ),
        ends="Resolves an hour after the event has ended.",
    )


def exporter_alerts(settings: Settings) -> Iterator[Alert]:
    """Yield the alerts of exporters.

    They count over minutes, so that one that fails now and then is reported as well. Those that are
    expected to be away during an event are left out.
    """
    yield from _about_polls()
    yield from _about_targets(settings)
    yield from _about_deliveries()
    yield from _about_the_vm()


def _about_polls() -> Iterator[Alert]:
    yield _alert(
        "ImdsUnreachable",
        expression=f"avg_over_time({UP}[2m]) < 0.6",
        summary="The exporter of {vm} gets no answer from IMDS.",
        description="It sees no new events, and shows the last known ones.",
        advice="Wait five minutes. If it stays, run doctor on the VM.",
        meaning=(
            "More than 40 % of the polls of IMDS have failed for 3 minutes. The first answer after"
            " Scheduled Events were enabled can take 2 minutes."
        ),
        ends="Resolves when 60 % of the polls of the last 2 minutes have succeeded.",
        holds="3m",
    )
    yield _alert(
        "DocumentInvalid",
        expression=promql(f"""
            avg_over_time({UP}[2m]) < 0.6
            and on (job, instance)
            increase({METRIC}polls_total{{outcome="invalid_document"}}[2m]) > 0
        """),
        summary="The exporter of {vm} cannot read the answer of IMDS.",
        description="It sees no new events, and shows the last known ones.",
        advice="Read the reason in the log of the exporter.",
        meaning="IMDS has answered for 2 minutes, but the exporter cannot read its answers.",
        ends="Resolves when 60 % of the polls of the last 2 minutes have succeeded.",
        holds="2m",
    )
    # With native histograms with custom buckets there is no _count.
    polls = promql(f"""
        increase({METRIC}poll_duration_seconds_count[5m])
        or sum without (outcome) (increase({METRIC}polls_total[5m]))
    """)
    yield _alert(
        "Throttled",
        expression=(
            f'(increase({METRIC}polls_total{{outcome="throttled"}}[5m]) > 0)\n'
            f"/ ignoring (outcome) ({polls}) > 0.2"
        ),
        summary="IMDS throttles {value humanizePercentage} of the polls of {vm}.",
        description=("All clients of IMDS on this VM together send more than 5 requests a second."),
        advice="Find the other clients, and have them ask less often.",
        meaning="IMDS has refused more than 20 % of the polls for 5 minutes, with status 429.",
        ends="Resolves when IMDS has refused at most 20 % of the polls of the last 5 minutes.",
        holds="5m",
    )


def _about_targets(settings: Settings) -> Iterator[Alert]:
    job = f'{{job=~"{settings.text("job")}"}}'
    yield _alert(
        "ExporterDown",
        expression=promql(f"""
            avg_over_time((
              up{job}
              unless on (job, instance) (
                last_over_time({VM}[1h])
                and on ({VM_KEY}) ({VM_AWAY} or {VM_MISSING})
              )
            )[3m:15s]) < 0.8
        """),
        summary="The exporter of {vm} does not answer.",
        description="Events of its VM are not seen, unless other VMs of its set show them.",
        advice="Check that the VM is up, then restart the exporter.",
        meaning=(
            "More than 20 % of the scrapes of an exporter have failed for 10 minutes. The alert"
            " leaves out VMs that are away because of an event, or have not come back from one."
        ),
        ends=(
            "Resolves when 80 % of the scrapes of the last 3 minutes have succeeded, or when the"
            " scrape target is removed."
        ),
        holds="10m",
    )
    yield _alert(
        "NoExporters",
        expression=f"absent(up{job})\nunless on () {VM_AWAY}",
        summary="Prometheus scrapes no exporter.",
        description="No event is seen.",
        advice="Check the scrape job, and the setting job of these rules.",
        meaning=(
            "The scrape job has had no target for 10 minutes, and no VM is away because of an"
            " event."
        ),
        ends="Resolves when the scrape job has a target.",
        holds="10m",
    )


def _about_deliveries() -> Iterator[Alert]:
    yield _alert(
        "JournalNotOnDisk",
        expression=f"avg_over_time({METRIC}journal_up[2m]) < 0.9",
        summary="The exporter of {vm} cannot write its journal.",
        description=(
            "Entries wait in memory until the disk works again. A restart before that loses them."
        ),
        advice="Free space on the disk, or mount it again.",
        meaning="The exporter has not been able to write its journal for 5 minutes.",
        ends="Resolves when the exporter has been able to write its journal for 2 minutes.",
        holds="5m",
    )
    yield _alert(
        "ApprovalRefused",
        expression=promql(f"""
            max by (job, instance) (
              {APPROVAL_DUE} < time()
              unless on (event_id) {APPROVED} == 1
              unless on (event_id) {STARTED}
            )
            and on (job, instance)
            increase({METRIC}approval_requests_total{{outcome="rejected"}}[5m]) > 0
        """),
        summary="IMDS refused an approval of {vm}.",
        description=(
            "The policy asks again. Without an approval the event starts at its NotBefore or later."
        ),
        advice="Read the answer of IMDS in the log of the exporter.",
        meaning=(
            "IMDS has refused an approval in the last 5 minutes, and the event is still not"
            " approved."
        ),
        ends=(
            "Resolves 5 minutes after the last refusal, or when the event is approved or starts."
        ),
    )
    yield _alert(
        "AlertsNotPushed",
        expression=f"avg_over_time({METRIC}alertmanager_up[2m]) < 0.9",
        summary="The exporter of {vm} cannot push alerts to an Alertmanager.",
        description="What that Alertmanager does not get is raised by the rules only.",
        advice="Run doctor on the VM: it tests the connection.",
        meaning="Alertmanager has not accepted the alerts of an exporter for 5 minutes.",
        ends="Resolves when Alertmanager has accepted the alerts for 2 minutes.",
        holds="5m",
    )
    refused = f'increase({METRIC}spans_total{{outcome="failed"}}[20m]) > 0'
    yield _alert(
        "SpansNotDelivered",
        expression=promql(f"""
            last_over_time({METRIC}spans_queued[2m]) > 0
            or max without (outcome) ({refused})
        """),
        summary="Trace spans of {vm} do not reach the collector.",
        description=(
            "Spans that wait are delivered later. Those that the collector refused are lost."
        ),
        advice="Check the collector, and the address in --otlp.endpoint.",
        meaning=(
            "Trace spans have waited for the collector for 15 minutes, or the collector refuses"
            " them."
        ),
        ends="Resolves when no span waits, and the last refusal was 20 minutes ago.",
        holds="15m",
    )


def _about_the_vm() -> Iterator[Alert]:
    last = f"{METRIC}last_success_timestamp_seconds"
    interval = f"{METRIC}poll_interval_seconds"
    yield _alert(
        "ClockOff",
        expression=promql(f"""
            (
              {last} - timestamp({last}) > {_CLOCK}
              or timestamp({last}) - {last} - {interval} > {_CLOCK}
            )
            {_SEEING}
        """),
        summary="The clock of {vm} is off by {value humanizeDuration}.",
        description="Times of events in the log of this VM are wrong by as much.",
        advice="Check the time service of the VM.",
        meaning=(
            f"The clock of a VM has differed from that of Prometheus by more than {_CLOCK} s for"
            " 5 minutes."
        ),
        ends=f"Resolves when the clocks differ by at most {_CLOCK} s.",
        holds="5m",
    )
    # The first failure is the first sample of its series, which ``increase`` of Prometheus does not
    # count.
    failed = f'{METRIC}hook_runs_total{{outcome=~"failed|timeout|too_late"}}'
    yield _alert(
        "HookFailed",
        expression=promql(f"""
            sum by (job, instance, event_type, phase, outcome) (
              increase({failed}[15m]) > 0
              or ({failed} unless {failed} offset 15m) and on (job, instance) {UP} offset 15m
            )
        """),
        summary="The hook of {vm} ended with {outcome} in phase {phase} of a {event_type}.",
        description=(
            "After prepare, the VM goes into the event without being drained. After recover, it may"
            " still be out of service."
        ),
        advice="Read the log of the hook, and do its work by hand.",
        meaning=(
            "A run of the command `hook` failed, timed out, or came too late in the last 15"
            " minutes."
        ),
        ends="Resolves 15 minutes after the last run that failed.",
    )


def _late(
    name: str,
    *,
    expression: str,
    summary: str,
    description: str,
    advice: str,
    meaning: str,
    ends: str,
) -> Alert:
    return Alert(
        name=PREFIX + name,
        expression=expression,
        severity="warning",
        summary=summary,
        description=description,
        advice=advice,
        dashboard="event",
        meaning=meaning,
        ends=ends,
    )


def _alert(
    name: str,
    *,
    expression: str,
    summary: str,
    description: str,
    advice: str,
    meaning: str,
    ends: str,
    holds: str = "",
) -> Alert:
    return Alert(
        name=PREFIX + name,
        expression=expression,
        severity="warning",
        summary=summary,
        description=description,
        advice=advice,
        dashboard="exporter?job=job&instance=instance",
        meaning=meaning,
        ends=ends,
        holds=holds,
        labels={"component": "exporter"},
    )
