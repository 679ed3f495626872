"""Recordings about exporters for the dashboards: whether their data is current, their polls, and their processes."""

from types import MappingProxyType

from azure_scheduled_events_exporter.metrics.spec import PREFIX as METRIC
from azure_scheduled_events_exporter.times import format_duration, parse_duration

from ...settings import Settings
from ..fragments import over_scrapes
from ..rule import Group, Recording, expression
from ..series import INSTANCE, UP
from .parts import BY_TARGET, PLACE, board_groups

EXPORTER_INFO = "azure_scheduled_events:exporter_info"
BLIND = "azure_scheduled_events:exporter_blind"
BLIND_SECONDS = "azure_scheduled_events:exporter_blind_seconds"
BLIND_SHARE = "azure_scheduled_events:exporters_blind:ratio"
POLLS = "azure_scheduled_events:polls:rate"
FAILED_POLLS = "azure_scheduled_events:exporter_failed_polls:ratio"
THROTTLED_POLLS = "azure_scheduled_events:exporter_throttled_polls:rate"
POLL_DURATION = "azure_scheduled_events:poll_duration_seconds:quantile"
POLL_PACE = "azure_scheduled_events:poll_pace:min"
ANSWER_AGE = "azure_scheduled_events:answer_age_seconds:quantile"
MEMORY = "azure_scheduled_events:process_resident_memory_bytes:quantile"
CPU = "azure_scheduled_events:process_cpu_seconds:quantile"
JOURNAL_OFF = "azure_scheduled_events:exporter_journal_off"
SPANS_QUEUED = "azure_scheduled_events:spans_queued:sum"
SPANS = "azure_scheduled_events:spans:rate"
PUSHED_ALERTS = "azure_scheduled_events:alertmanager_alerts:rate"
APPROVAL_REQUESTS = "azure_scheduled_events:approval_requests:increase5m"

SILENT_SECONDS = 120
"""An exporter whose last answer is older than this plus three poll intervals has stopped polling."""
LONGEST_INTERVAL = 120
"""The most seconds between recordings. Prometheus shows a sample for five minutes, and an evaluation may be missed."""
QUANTILES = {"0.5": "median", "0.99": "99 %", "1": "worst"}


def exporter_groups(settings: Settings) -> tuple[Group, ...]:
    """Return the groups about exporters.

    All but the exporters' state are evaluated half as often as it: boards show them over hours. No interval is longer
    than :data:`LONGEST_INTERVAL`.
    """
    watcher, slow = (format_duration(_watcher_seconds(settings, times)) for times in (1, 2))
    job = f'{{job=~"{settings.text("job")}"}}'
    window = over_scrapes(settings, 60)
    return board_groups(
        {
            "blind": (watcher, _blind(settings)),
            "exporters": (slow, _exporters(settings)),
            "shares": (slow, _shares()),
            **{name: (slow, (each,)) for name, each in _polls(window).items()},
            "failures": (slow, _failed_polls(window)),
            **{f"poll-{share}": (slow, (each,)) for share, each in _poll_times(window).items()},
            "pace": (slow, _pace(window)),
            "answers": (slow, tuple(_answer_ages().values())),
            "memory": (slow, tuple(_memory(job).values())),
            **{f"cpu-{share}": (slow, (each,)) for share, each in _cpu(job, window).items()},
            "spans": (slow, _spans(window)),
            "requests": (slow, _requests(settings, window)),
        }
    )


def _watcher_seconds(settings: Settings, times: int = 1) -> float:
    """Return ``times`` the interval of rules that warn, but at most what boards can bear."""
    return min(times * settings.seconds("evaluation.watcher-interval"), LONGEST_INTERVAL)


def _blind(settings: Settings) -> tuple[Recording, ...]:
    job, interval = f'job=~"{settings.text("job")}"', f"{_watcher_seconds(settings):.15g}"
    return (
        Recording(
            BLIND,
            f"max by (job, instance) ({_reason(job)})",
            "exporters without current data, and why: 1 not scraped, 2 IMDS does not answer, 3 polling has stopped",
        ),
        Recording(
            BLIND_SECONDS,
            f"{interval} * {BLIND} ^ 0",
            "the seconds that one sample stands for: the sum over time is how long an exporter had no current data",
        ),
    )


def _exporters(settings: Settings) -> tuple[Recording, ...]:
    job = f'job=~"{settings.text("job")}"'
    return (
        Recording(
            EXPORTER_INFO,
            expression(f"""
                max by (job, instance, vm_name, {PLACE}) ({INSTANCE})
                or {BY_TARGET}
                ({EXPORTER_INFO} and {BY_TARGET} up{{{job}}} == 0)
                or {BY_TARGET}
                group by (job, instance) (up{{{job}}} or {UP})
            """),
            "every exporter with its VM and place; one that is down keeps its last, and one without a VM has none",
        ),
    )


def _shares() -> tuple[Recording, ...]:
    return (
        Recording(
            BLIND_SHARE,
            expression(f"""
                avg by (job, {PLACE}) (
                  {EXPORTER_INFO} and {BY_TARGET} {BLIND}
                  or {BY_TARGET} 0 * {EXPORTER_INFO}
                )
            """),
            "the share of the exporters of a place that have no current data",
        ),
    )


def _reason(job: str) -> str:
    """The exporters without current data, by why."""
    age, allowed = f"time() - {METRIC}last_success_timestamp_seconds", f"3 * {METRIC}poll_interval_seconds"
    silent = f"({age} > {SILENT_SECONDS}) > {SILENT_SECONDS} + {allowed}"
    return f"(up{{{job}}} == 0) + 1 or {BY_TARGET} ({UP} == 0) + 2 or {BY_TARGET} 0 * ({silent}) + 3"


def _polls(window: str) -> dict[str, Recording]:
    """Two groups share the outcomes, which are six series of each exporter."""
    lost = "timeout|connection_error"
    outcomes = {"polls": ("yes", f'outcome!~"{lost}"'), "lost-polls": ("no", f'outcome=~"{lost}"')}
    return {
        name: Recording(
            POLLS,
            f"sum by (job, outcome) (rate({METRIC}polls_total{{{matcher}}}[{window}]))",
            "polls by outcome, of all exporters; whether IMDS answered them",
            MappingProxyType({"answered": answered}),
        )
        for name, (answered, matcher) in outcomes.items()
    }


def _failed_polls(window: str) -> tuple[Recording, ...]:
    polls, every = f"{METRIC}polls_total", f"{METRIC}poll_duration_seconds_count"
    return (
        Recording(
            FAILED_POLLS,
            f'1 - rate({polls}{{outcome="ok"}}[{window}]) / ignoring (outcome) rate({every}[{window}]) > 0.001',
            "the share of polls that failed, of exporters with failed polls",
        ),
        Recording(
            THROTTLED_POLLS,
            f'rate({polls}{{outcome="throttled"}}[{window}]) > 0',
            "polls that IMDS refused because of their number, of exporters with such polls",
        ),
    )


def _poll_times(window: str) -> dict[str, Recording]:
    mean = " / ".join(f"rate({METRIC}poll_duration_seconds_{each}[{window}])" for each in ("sum", "count"))
    return _quantiles(POLL_DURATION, mean, "how long polls take, over the exporters' means")


def _pace(window: str) -> tuple[Recording, ...]:
    made, running = f"rate({METRIC}poll_duration_seconds_count[{window}])", "time() - process_start_time_seconds"
    return (
        Recording(
            POLL_PACE,
            f"min by (job) ({made} * {METRIC}poll_interval_seconds"
            f" and {BY_TARGET} ({running} > {parse_duration(window):g}))",
            "polls made for each poll that was due, of the slowest exporter",
        ),
    )


def _answer_ages() -> dict[str, Recording]:
    age = f"time() - {METRIC}last_success_timestamp_seconds"
    return _quantiles(ANSWER_AGE, age, "the age of the last valid answer of IMDS, over the exporters")


def _memory(job: str) -> dict[str, Recording]:
    return _quantiles(MEMORY, f"process_resident_memory_bytes{job}", "memory, over the exporters")


def _cpu(job: str, window: str) -> dict[str, Recording]:
    return _quantiles(CPU, f"rate(process_cpu_seconds_total{job}[{window}])", "CPU time, over the exporters")


def _spans(window: str) -> tuple[Recording, ...]:
    return (
        Recording(JOURNAL_OFF, f"{METRIC}journal_up == 0", "exporters whose journal is not on disk"),
        Recording(SPANS_QUEUED, f"sum by (job) ({METRIC}spans_queued)", "trace spans that wait for the collector"),
        Recording(SPANS, f"sum by (job, outcome) (rate({METRIC}spans_total[{window}]))", "trace spans by outcome"),
    )


def _requests(settings: Settings, window: str) -> tuple[Recording, ...]:
    requested, pushed = over_scrapes(settings, 300), f"rate({METRIC}alertmanager_alerts_total[{window}])"
    return (
        Recording(
            PUSHED_ALERTS,
            f"sum by (job, outcome) ({pushed} and {BY_TARGET} {METRIC}alertmanager_up)",
            "alerts that exporters push, by outcome; only of exporters with an Alertmanager",
        ),
        Recording(
            APPROVAL_REQUESTS,
            f"sum by (job, outcome) (increase({METRIC}approval_requests_total[{requested}]))",
            "approvals requested from IMDS, by answer",
        ),
    )


def _quantiles(record: str, vector: str, why: str) -> dict[str, Recording]:
    """Return the quantiles of ``vector``, by share. Each is a rule of its own, because each reads all exporters."""
    return {
        share: Recording(record, f"quantile by (job) ({share}, {vector})", why, MappingProxyType({"quantile": name}))
        for share, name in QUANTILES.items()
    }
