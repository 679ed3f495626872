"""Alerts about exporters: one without current data cannot page for an event."""

from collections.abc import Mapping
from types import MappingProxyType

from azure_scheduled_events_exporter.times import format_duration

from ..settings import Settings
from .fragments import at_least_two_scrapes, over_scrapes
from .rule import PREFIX, Alert, Dashboard, Group, expression
from .series import (
    DELETING,
    EVENT,
    EVERY_POLL,
    JOB_TARGETS,
    LAST_SUCCESS,
    POLLS,
    UP,
    VM_EVENT,
    VM_MAINTENANCE,
    VM_SURVIVED,
    WITHOUT_IMDS,
)

IMDS_UNREACHABLE = f"{PREFIX}ImdsUnreachable"
DOCUMENT_INVALID = f"{PREFIX}DocumentInvalid"
EXPORTER_DOWN = f"{PREFIX}ExporterDown"

_COMPONENT: Mapping[str, str] = MappingProxyType({"component": "exporter"})


def watcher_groups(settings: Settings) -> tuple[Group, ...]:
    """Return the groups of the exporters' own health.

    They are many, since a group is evaluated by one core, at once, and none of these needs another.
    """
    interval = settings.duration("evaluation.watcher-interval")
    groups: dict[str, tuple[Alert, ...]] = {
        "imds": (_imds_unreachable(settings), _never_ready(settings)),
        "documents": (_document_invalid(settings),),
        "throttling": (_throttled(settings),),
        "exporters": (_exporter_down(settings),),
        "discovery": (_no_exporters(settings),),
        "refusals": (_approval_refused(settings),),
        "upkeep": (_journal(settings), _alertmanager(settings), _spans(settings)),
        "clock": (_clock(settings),),
    }
    return tuple(Group(f"azure-scheduled-events-{name}", interval, rules) for name, rules in groups.items())


def _alert(name: str, text: str, summary: str, description: str, holds: str) -> Alert:
    return Alert(
        f"{PREFIX}{name}", text, "warning", summary, description, Dashboard.EXPORTER, holds=holds, labels=_COMPONENT
    )


def _lasting(name: str, settings: Settings) -> str:
    return format_duration(at_least_two_scrapes(name, settings))


def _exporter_down(settings: Settings) -> Alert:
    """Scrapes that fail for more than half of the time are a failure too: a loop of restarts never stays down.

    So are scrapes that another program answers on the exporter's port.
    """
    jobs, period = f'up{{job=~"{settings.text("job")}"}}', _lasting("exporter-down.for", settings)
    away = f'last_over_time({VM_MAINTENANCE}{{event_type!~"{DELETING}"}}[{settings.duration("memory")}])'
    started = f'last_over_time({VM_EVENT}{{event_status="Started"}}[{settings.duration("longest")}])'
    deleted = f'max by (job, instance) (last_over_time({VM_EVENT}{{event_type=~"{DELETING}"}}[1d]))'
    return _alert(
        "ExporterDown",
        expression(f"""
            (
              {jobs} == 0
              or
              ({jobs} unless on (job, instance) {UP})
              or
              ({jobs} and avg_over_time({jobs}[{period}]) < 0.5)
            )
            unless on (job, instance) ({started} and on (event_id) {EVENT})
            unless on (job, instance) {away}
            unless on (job, instance)
            (
              ({deleted} or on (job, instance) {VM_MAINTENANCE}{{event_type=~"{DELETING}"}})
              unless on (job, instance)
              max by (job, instance) (last_over_time({VM_SURVIVED}[1d])) > on (job, instance) {deleted}
            )
        """),
        "An exporter does not answer, and no event explains it.",
        f"For {period}, most scrapes of {{{{ $labels.instance }}}} have failed, or got no metrics of the exporter. "
        "Events that only this VM would report are not seen.",
        period,
    )


def _no_exporters(settings: Settings) -> Alert:
    """The jobs come from a recording, so that a job is reported, too, that had targets for only a few minutes."""
    jobs = f'up{{job=~"{settings.text("job")}"}}'
    return _alert(
        "NoExporters",
        expression(f"""
            absent({jobs})
            or on ()
            (last_over_time({JOB_TARGETS}{{job=~"{settings.text("job")}"}}[1h]) unless on (job) {jobs})
        """),
        "No exporter is scraped.",
        "Prometheus has no targets{{ with $labels.job }} in job {{ . }}{{ end }}: "
        "no event of {{ if $labels.job }}its VMs{{ else }}any VM{{ end }} is seen.",
        _lasting("exporter-down.for", settings),
    )


def _imds_unreachable(settings: Settings) -> Alert:
    """An exporter that never had an answer is left to NeverReady, one that is restarted until that alert fires."""
    down = at_least_two_scrapes("exporter-down.for", settings)
    until = format_duration(down + settings.seconds("never-ready.for"))
    return _alert(
        "ImdsUnreachable",
        f"{WITHOUT_IMDS} unless on (job, instance) max_over_time({LAST_SUCCESS}[{until}]) == 0",
        "The metadata service does not answer an exporter.",
        "{{ $labels.instance }} gets no answer from IMDS: new events are not seen, and the last known ones stay shown.",
        _lasting("imds.for", settings),
    )


def _throttled(settings: Settings) -> Alert:
    """The share of polls, not their rate: a throttled exporter polls less often."""
    window = over_scrapes(settings, 300)
    return _alert(
        "Throttled",
        expression(f"""
            sum without (outcome) (increase({POLLS}{{outcome="throttled"}}[{window}]))
            / increase({EVERY_POLL}[{window}])
            > {settings.number("throttled.share")}
        """),
        "The metadata service throttles an exporter.",
        "{{ $value | humanizePercentage }} of the polls of {{ $labels.instance }} are throttled: "
        "the clients of IMDS on this VM send more than 5 requests a second together.",
        settings.duration("throttled.for"),
    )


def _document_invalid(settings: Settings) -> Alert:
    return _alert(
        "DocumentInvalid",
        expression(f"""
            {WITHOUT_IMDS}
            and on (job, instance) increase({POLLS}{{outcome="invalid_document"}}[{over_scrapes(settings, 120)}]) > 0
        """),
        "An exporter cannot read the answer of the metadata service.",
        "{{ $labels.instance }} cannot read the answer of IMDS, or a part of it: events in that part are not seen.",
        _lasting("imds.for", settings),
    )


def _never_ready(settings: Settings) -> Alert:
    return _alert(
        "NeverReady",
        f"max_over_time({LAST_SUCCESS}[{_lasting('exporter-down.for', settings)}]) == 0",
        "An exporter has not had one valid answer since it started.",
        "{{ $labels.instance }} has never had a valid answer from IMDS: no event of this VM is seen.",
        settings.duration("never-ready.for"),
    )


def _approval_refused(settings: Settings) -> Alert:
    refused = 'azure_scheduled_events_approval_requests_total{outcome=~"rejected|error"}'
    return _alert(
        "ApprovalRefused",
        expression(f"""
            sum without (outcome) (
              increase({refused}[{over_scrapes(settings, 300)}])
            ) > 0
        """),
        "The metadata service refused an approval.",
        "IMDS refused an approval from {{ $labels.instance }}, or did not answer it. "
        "A policy asks again; without an approval the event starts at its NotBefore or later.",
        "",
    )


def _journal(settings: Settings) -> Alert:
    return _alert(
        "JournalNotOnDisk",
        "azure_scheduled_events_journal_errors_total > 0 and azure_scheduled_events_journal_up == 0",
        "An exporter cannot write its journal.",
        "{{ $labels.instance }} keeps its journal in memory because the disk fails: "
        "a restart loses the history of events and the spans that wait.",
        settings.duration("journal.for"),
    )


def _alertmanager(settings: Settings) -> Alert:
    return _alert(
        "AlertsNotPushed",
        "azure_scheduled_events_alertmanager_up == 0",
        "Alertmanager does not accept alerts of an exporter.",
        "{{ $labels.instance }} cannot push alerts to at least one of its Alertmanagers: "
        "what that one does not get pages only by scrapes and rules.",
        settings.duration("alertmanager.for"),
    )


def _spans(settings: Settings) -> Alert:
    return _alert(
        "SpansPilingUp",
        f"azure_scheduled_events_spans_queued > {settings.number('spans.limit')}",
        "Trace spans wait for a collector that does not take them.",
        "{{ $value }} spans wait on {{ $labels.instance }}: traces are late. "
        "Nothing is lost while the journal is on disk.",
        settings.duration("spans.for"),
    )


def _clock(settings: Settings) -> Alert:
    return _alert(
        "ClockOff",
        expression(f"""
            round(abs({LAST_SUCCESS} - timestamp({LAST_SUCCESS})) > {settings.number("clock.tolerance")})
            unless on (job, instance) {WITHOUT_IMDS}
        """),
        "The clock of a VM differs from that of Prometheus.",
        "The clock of {{ $labels.instance }} is {{ $value | humanizeDuration }} off: "
        "countdowns and moments of events are wrong by as much.",
        settings.duration("clock.for"),
    )
