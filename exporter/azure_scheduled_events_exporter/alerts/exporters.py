"""The alerts of exporters that do not work.

Their texts have placeholders, such as ``{vm}``: ``formats.texts`` explains them.
"""

from .rule import PREFIX, Alert, promql
from .series import (
    APPROVAL_DUE,
    APPROVED,
    INSTANCE,
    METRIC,
    STARTED,
    UP,
    VM,
    VM_ANSWERS,
    VM_AWAY,
    VM_KEY,
    VM_MISSING,
)
from .settings import Settings
from .vms import NOT_BACK

NO_EXPORTERS = f"{PREFIX}NoExporters"
SEEING = f"unless on (job, instance) max_over_time({UP}[2m]) == 0"
"""Appended to a series: leaves out exporters of which no poll of IMDS has worked for 2 minutes."""
_CLOCK = 30
"""Seconds: synchronized clocks differ by far less."""
_BOARD = "exporter?job=job&instance=instance"
_LABELS = {"component": "exporter"}


def exporter_alerts(settings: Settings) -> tuple[Alert, ...]:
    """Return the alerts of exporters.

    Their expressions count failures over minutes, so they also report an exporter that fails now
    and then. Exporters of VMs that are away because of an event are not reported as down.
    """
    return (
        _imds_unreachable(),
        _document_invalid(),
        _throttled(),
        _exporter_down(settings),
        _no_exporters(settings),
        _journal_not_on_disk(),
        _approval_refused(),
        _alerts_not_pushed(),
        _spans_not_delivered(),
        _clock_off(),
        _hook_failed(),
    )


def _imds_unreachable() -> Alert:
    return Alert(
        name=f"{PREFIX}ImdsUnreachable",
        # The second line: IMDS tells the events, but not which VM this is.
        expression=promql(f"""
            avg_over_time({UP}[2m]) < 0.6
            or {UP} == 1 unless on (job, instance) {INSTANCE}
        """),
        severity="warning",
        summary="The Scheduled Events exporter of {vm} lacks an answer of IMDS.",
        description=(
            "IMDS is Azure's metadata service of the VM. Without its events, the exporter sees no"
            " new ones, and shows the last known ones. Without the VM's name, it does not know"
            " which events are this VM's: it pushes and approves none, and no hook prepares."
        ),
        advice=(
            "If the alert still fires five minutes after its start, run"
            " `azure-scheduled-events-exporter doctor` on the VM."
        ),
        dashboard=_BOARD,
        meaning=(
            "For 3 minutes, more than 40 % of the polls of IMDS have failed, or IMDS has not told"
            " the VM's name. The first answer after Scheduled Events were enabled can take 2"
            " minutes."
        ),
        ends=(
            "The alert resolves when 60 % of the polls of the last 2 minutes have succeeded, and"
            " the exporter knows the VM's name; or when its scrapes have failed for 2 minutes."
        ),
        pending_for="3m",
        labels=_LABELS,
    )


def _document_invalid() -> Alert:
    return Alert(
        name=f"{PREFIX}DocumentInvalid",
        expression=promql(f"""
            avg_over_time({UP}[2m]) < 0.6
            and on (job, instance)
            increase({METRIC}polls_total{{outcome="invalid_document"}}[2m]) > 0
        """),
        severity="warning",
        summary="The Scheduled Events exporter of {vm} cannot read the answer of IMDS.",
        description="It sees no new events, and shows the last known ones.",
        advice="Read the reason in the log of the exporter.",
        dashboard=_BOARD,
        meaning="IMDS has answered for 2 minutes, but the exporter cannot read its answers.",
        ends=(
            "The alert resolves about two minutes after the exporter can read the answers again."
            " That is when 60 % of the polls of the last 2 minutes have succeeded."
        ),
        pending_for="2m",
        labels=_LABELS,
    )


def _throttled() -> Alert:
    # A Prometheus that converts histograms to native ones has no _count. Then the polls are counted
    # by their outcomes.
    polls = promql(f"""
        increase({METRIC}poll_duration_seconds_count[5m])
        or sum without (outcome) (increase({METRIC}polls_total[5m]))
    """)
    return Alert(
        name=f"{PREFIX}Throttled",
        expression=(
            f'(increase({METRIC}polls_total{{outcome="throttled"}}[5m]) > 0)\n'
            f"/ ignoring (outcome) ({polls}) > 0.2"
        ),
        severity="warning",
        summary="IMDS throttles {value humanizePercentage} of the polls of {vm}.",
        description=(
            "The exporter may see events late. All clients of IMDS on this VM together send more"
            " than 5 requests a second."
        ),
        advice="Find the other clients, and have them ask less often.",
        dashboard=_BOARD,
        meaning="IMDS has refused more than 20 % of the polls for 5 minutes, with status 429.",
        ends=(
            "The alert resolves when IMDS has refused at most 20 % of the polls of the"
            " last 5 minutes."
        ),
        pending_for="5m",
        labels=_LABELS,
    )


def _exporter_down(settings: Settings) -> Alert:
    job = _job(settings)
    # From the third line on: the targets of VMs that are left out. Such a VM is away because of an
    # event, or it is missing (has not come back from one) and has not answered within 5 minutes:
    # then it has an alert of its own, unless the team has disabled that one.
    left_out = VM_AWAY
    disabled = [PREFIX + name.removeprefix(PREFIX) for name in settings.items("alerts.disabled")]
    if NOT_BACK not in disabled:
        not_back = f"({VM_MISSING} unless on ({VM_KEY}) last_over_time({VM_ANSWERS}[5m]))"
        left_out = f"{VM_AWAY} or {not_back}"
    return Alert(
        name=f"{PREFIX}ExporterDown",
        expression=promql(f"""
            avg_over_time((
              up{job}
              unless on (job, instance) (
                last_over_time({VM}[1h])
                and on ({VM_KEY}) (
                  {left_out}
                )
              )
            )[3m:15s]) < 0.8
        """),
        severity="warning",
        summary="The Scheduled Events exporter of {vm} does not answer.",
        description=(
            "Events of its VM are not seen, unless other VMs of the same scale set or availability"
            " set show them."
        ),
        advice="If the VM is down, start it. If it is up, restart the exporter.",
        dashboard=_BOARD,
        meaning=(
            "For 10 minutes, Prometheus could not read an exporter: more than 20 % of its scrapes"
            " failed. The alert leaves out VMs that are away because of an event, or have not come"
            " back from one."
        ),
        ends=(
            "The alert resolves a few minutes after the exporter answers again, or its scrape"
            " target is removed, or an event takes its VM away. The exporter counts as answering"
            " when 80 % of the scrapes of the last 3 minutes have succeeded."
        ),
        pending_for="10m",
        labels=_LABELS,
    )


def _no_exporters(settings: Settings) -> Alert:
    job = _job(settings)
    return Alert(
        name=NO_EXPORTERS,
        expression=f"absent(up{job})\nunless on () {VM_AWAY}",
        severity="warning",
        summary="Prometheus scrapes no exporter.",
        description="No event is seen.",
        advice=(
            "Check that Prometheus has a scrape job with the exporters, and that the setting job of"
            " these rules matches its name."
        ),
        dashboard="exporter",
        meaning=(
            "The scrape job has had no target for 10 minutes, and no VM is away because of an"
            " event."
        ),
        ends="The alert resolves when the scrape job has a target.",
        pending_for="10m",
        labels=_LABELS,
    )


def _journal_not_on_disk() -> Alert:
    return Alert(
        name=f"{PREFIX}JournalNotOnDisk",
        expression=f"avg_over_time({METRIC}journal_up[2m]) < 0.9",
        severity="warning",
        summary="The Scheduled Events exporter of {vm} cannot write its journal.",
        description=(
            "Events are still seen and alerted on. The exporter's records of them wait in memory"
            " until the disk works again."
        ),
        advice=(
            "Free space on the disk of the journal, or mount it again. Do not restart the exporter"
            " before that: it would lose the records that wait in memory."
        ),
        dashboard=_BOARD,
        meaning="The exporter has not been able to write its journal for 5 minutes.",
        ends=(
            "The alert resolves when the exporter has been able to write its journal for 2 minutes."
        ),
        pending_for="5m",
        labels=_LABELS,
    )


def _approval_refused() -> Alert:
    return Alert(
        name=f"{PREFIX}ApprovalRefused",
        expression=promql(f"""
            max by (job, instance) (
              {APPROVAL_DUE} < time()
              unless on (event_id) {APPROVED} == 1
              unless on (event_id) {STARTED}
            )
            and on (job, instance)
            increase({METRIC}approval_requests_total{{outcome="rejected"}}[5m]) > 0
        """),
        severity="warning",
        summary="IMDS refused an approval by the Scheduled Events exporter of {vm}.",
        description="{refused}",
        advice=(
            "Drain each VM that the event names, before the event begins. The refusal itself needs"
            " nothing from you: the exporter asks again. The exporter's log says why IMDS refused."
            " IMDS is Azure's metadata service of the VM."
        ),
        dashboard=_BOARD,
        meaning=(
            "IMDS has refused an approval in the last 5 minutes, and the event is still not"
            " approved."
        ),
        ends=(
            "The alert resolves 5 minutes after the last refusal,"
            " or when the event is approved or starts."
        ),
        labels=_LABELS,
    )


def _alerts_not_pushed() -> Alert:
    return Alert(
        name=f"{PREFIX}AlertsNotPushed",
        expression=f"avg_over_time({METRIC}alertmanager_up[2m]) < 0.9",
        severity="warning",
        summary="The Scheduled Events exporter of {vm} cannot push alerts.",
        description="What its Alertmanager does not get is raised by the rules of Prometheus only.",
        advice="Run `azure-scheduled-events-exporter doctor` on the VM: it tests the connection.",
        dashboard=_BOARD,
        meaning="Alertmanager has not accepted the alerts of an exporter for 5 minutes.",
        ends="The alert resolves when Alertmanager has accepted the alerts for 2 minutes.",
        pending_for="5m",
        labels=_LABELS,
    )


def _spans_not_delivered() -> Alert:
    # No ``increase``, as in HookFailed. The counter begins at 0 at each start of the exporter.
    failed = f'{METRIC}spans_total{{outcome="failed"}}'
    refused = f"last_over_time({failed}[20m]) > min_over_time({failed}[20m])"
    return Alert(
        name=f"{PREFIX}SpansNotDelivered",
        expression=promql(f"""
            last_over_time({METRIC}spans_queued[2m]) > 0
            or max without (outcome) ({refused})
        """),
        severity="warning",
        summary="Trace spans of {vm} do not reach the collector.",
        description=(
            "Spans that wait are delivered later. Those that the collector refused are lost."
        ),
        advice="Check the collector, and the address in --otlp.endpoint.",
        dashboard=_BOARD,
        meaning=(
            "Trace spans have waited for the collector for 15 minutes, or the collector refuses"
            " them."
        ),
        ends="The alert resolves when no span waits, and the last refusal was 20 minutes ago.",
        pending_for="15m",
        labels=_LABELS,
    )


def _clock_off() -> Alert:
    offset = f"{METRIC}clock_offset_seconds"
    # A scrape just before the next poll shows a success that is one interval old. After a poll that
    # failed, it is older than that, whatever the clocks show: so the last line of the expression
    # leaves such moments out.
    last = f"{METRIC}last_success_timestamp_seconds"
    interval = f"{METRIC}poll_interval_seconds"
    return Alert(
        name=f"{PREFIX}ClockOff",
        expression=promql(f"""
            (
              abs({offset}) > {_CLOCK}
              or {last} - timestamp({last}) > {_CLOCK}
              or timestamp({last}) - {last} - {interval} > {_CLOCK}
            )
            and on (job, instance) {UP} == 1
        """),
        severity="warning",
        summary="The clock of {vm}, or that of Prometheus, is off by {seconds}.",
        description=(
            "If it is the clock of the VM, the times of its log lines are wrong. If it is that of"
            " Prometheus, alerts end early or late. The runbook says how to see which one it is."
        ),
        advice="Correct the clock that is wrong: check the time service there.",
        dashboard=_BOARD,
        meaning=(
            "The clock of a VM, or that of Prometheus, has differed from that of IMDS, which is"
            f" Azure's, by more than {_CLOCK} s for 5 minutes."
        ),
        ends=(
            f"The alert resolves when both clocks differ from that of IMDS by at most {_CLOCK} s,"
            " and while the exporter cannot be scraped or cannot read IMDS."
        ),
        pending_for="5m",
        labels=_LABELS,
    )


def _hook_failed() -> Alert:
    # ``increase`` of VictoriaMetrics also counts the first sample of a series, and the first one
    # after a gap. So it would tell of an old failure when its exporter is back: the counts come
    # from the journal. A count that is lower than before has begun again with a new failure.
    #
    # The first failure is the first sample of its series, so it is no difference. An evicted VM,
    # whose script had one run, is gone before the rule is evaluated: so the sample may be up to 15
    # minutes old. The exporter must have been scraped 15 minutes ago: else all its series are new
    # to Prometheus, and the failure may be an old one.
    failed = f'{METRIC}hook_runs_total{{outcome=~"failed|timeout|too_late"}}'
    return Alert(
        name=f"{PREFIX}HookFailed",
        expression=promql(f"""
            sum by (job, instance, event_type, phase, outcome) (
              (max_over_time({failed}[15m]) != min_over_time({failed}[15m]))
              or (
                (last_over_time({failed}[15m]) unless {failed} offset 15m)
                and on (job, instance) {UP} offset 15m
              )
            )
        """),
        severity="warning",
        summary="{hook_vm} {hook_state}: its hook {hook_outcome} {hook_event}.",
        description=(
            "The hook is the command that drains the VM and puts it back into service. Its log says"
            " what went wrong."
        ),
        advice=(
            "If the hook failed before the event, drain the VM by hand, or hand the role of its"
            " database over, before the event begins. If it failed after the event, put the VM back"
            " into service by hand."
        ),
        advice_placeholder="{by_hand}",
        dashboard=_BOARD,
        meaning=(
            "A run of the command `hook` failed, timed out, or came too late in the last 15"
            " minutes."
        ),
        ends="The alert resolves 15 minutes after the last run that failed.",
        labels=_LABELS,
    )


def _job(settings: Settings) -> str:
    """Return the matcher of the scrape job of exporters."""
    return f'{{job=~"{settings.text("job")}"}}'
