"""Who watches the watcher: an exporter that cannot see events cannot page for one."""

from collections.abc import Mapping
from types import MappingProxyType

from .event_recordings import INFO
from .rule import PREFIX, Alert, Dashboard, Group, expression
from .settings import Settings

IMDS_UNREACHABLE = f"{PREFIX}ImdsUnreachable"
IMDS_EXPLAINED = (f"{PREFIX}DocumentInvalid", f"{PREFIX}Throttled")
EXPORTER_DOWN = f"{PREFIX}ExporterDown"

_COMPONENT: Mapping[str, str] = MappingProxyType({"component": "exporter"})
_UP = "azure_scheduled_events_up"
_POLLS = "azure_scheduled_events_polls_total"
_SUCCESS = "azure_scheduled_events_last_success_timestamp_seconds"


def watcher_groups(settings: Settings) -> tuple[Group, ...]:
    """Return the groups of the exporters' own health.

    They are many, since a group is evaluated by one core, at once, and none of these needs another.
    """
    interval = settings.duration("evaluation.watcher-interval")
    groups = {
        "imds": (_imds_unreachable(settings), _never_ready(settings)),
        "documents": (_document_invalid(settings),),
        "throttling": (_throttled(settings),),
        "exporters": (_exporter_down(settings),),
        "upkeep": (_journal(settings), _spans(settings)),
        "clock": (_clock(settings),),
    }
    return tuple(Group(f"azure-scheduled-events-{name}", interval, rules) for name, rules in groups.items())


def _alert(name: str, text: str, summary: str, description: str, holds: str) -> Alert:
    return Alert(
        f"{PREFIX}{name}", text, "warning", summary, description, Dashboard.EXPORTER, holds=holds, labels=_COMPONENT
    )


def _exporter_down(settings: Settings) -> Alert:
    return _alert(
        "ExporterDown",
        expression(f"""
            up{{job=~"{settings.text("job")}"}} == 0
            unless on (job, instance)
            last_over_time({INFO}{{scope="self"}}[{settings.duration("memory")}])
        """),
        "An exporter does not answer, and no event explains it.",
        "{{ $labels.instance }} has not been scraped for " + settings.duration("exporter-down.for") + ": "
        "events that only this VM would report are not seen.",
        settings.duration("exporter-down.for"),
    )


def _imds_unreachable(settings: Settings) -> Alert:
    return _alert(
        "ImdsUnreachable",
        f"{_UP} == 0 unless {_SUCCESS} == 0",
        "The metadata service does not answer an exporter.",
        "{{ $labels.instance }} gets no answer from IMDS: new events are not seen, and the last known ones stay shown.",
        settings.duration("imds.for"),
    )


def _throttled(settings: Settings) -> Alert:
    return _alert(
        "Throttled",
        expression(f"""
            sum without (outcome) (rate({_POLLS}{{outcome="throttled"}}[5m]))
            * azure_scheduled_events_poll_interval_seconds
            > {settings.number("throttled.share")}
        """),
        "The metadata service throttles an exporter.",
        "{{ $value | humanizePercentage }} of the polls of {{ $labels.instance }} are throttled: "
        "the clients of IMDS on this VM ask more than 5 times a second together.",
        settings.duration("throttled.for"),
    )


def _document_invalid(settings: Settings) -> Alert:
    return _alert(
        "DocumentInvalid",
        expression(f"""
            {_UP} == 0
            and on (job, instance) increase({_POLLS}{{outcome="invalid_document"}}[2m]) > 0
        """),
        "The metadata service answers with something that is no document of events.",
        "{{ $labels.instance }} cannot read what IMDS answers: new events are not seen.",
        settings.duration("imds.for"),
    )


def _never_ready(settings: Settings) -> Alert:
    return _alert(
        "NeverReady",
        f"{_SUCCESS} == 0",
        "An exporter has not had one valid answer since it started.",
        "{{ $labels.instance }} has never had a valid answer from IMDS: no event of this VM is seen.",
        settings.duration("never-ready.for"),
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


def _spans(settings: Settings) -> Alert:
    return _alert(
        "SpansPilingUp",
        f"azure_scheduled_events_spans_queued > {settings.number('spans.limit')}",
        "Trace spans wait for a collector that does not take them.",
        "{{ $value }} spans wait on {{ $labels.instance }}: traces are late, and nothing else is lost.",
        settings.duration("spans.for"),
    )


def _clock(settings: Settings) -> Alert:
    return _alert(
        "ClockOff",
        expression(f"""
            abs({_SUCCESS} - timestamp({_SUCCESS})) > {settings.number("clock.tolerance")}
            unless {_UP} == 0
        """),
        "The clock of a VM differs from that of Prometheus.",
        "The clock of {{ $labels.instance }} is {{ $value | humanizeDuration }} off: "
        "countdowns and moments of events are wrong by as much.",
        settings.duration("clock.for"),
    )
