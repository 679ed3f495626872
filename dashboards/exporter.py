"""The dashboard of the exporters: is the watcher well."""

from . import exporter_queries as q
from .board import EXPORTER, board, columns, manual, runbook
from .panel import Panel, Query, Row
from .style import (
    APPROVED,
    BLIND,
    DOUBTFUL,
    FINE,
    NEUTRAL,
    POLLS,
    QUANTILES,
    SHADES,
    SIGHT,
    TRANSITIONS,
    UNKNOWN,
    Json,
    above,
    painted,
    steps,
    values,
)

_MAPPED = {"mode": "fixed", "fixedColor": NEUTRAL}  # not by thresholds, which would hide the texts of values
_UNKNOWN = values({UNKNOWN: ("unknown", BLIND), DOUBTFUL: ("0, some blind", BLIND)})
_MANY = {"legend": {"showLegend": True, "displayMode": "list", "placement": "right", "calcs": []}}


def exporter() -> Json:
    """Return the dashboard."""
    return board(
        EXPORTER,
        "Azure Scheduled Events / Exporters",
        "Whether the exporters are well: polling in time, answered by IMDS, journalling, delivering their traces.",
        [
            *_answer(),
            *_sight(),
            Row("Polls of IMDS", 12),
            *(panel.below(13) for panel in _polls()),
            Row("Journal, traces, approvals", 29),
            *(panel.below(30) for panel in _delivery()),
            Row("Process", 46),
            *(panel.below(47) for panel in _process()),
        ],
        time_from="now-3h",
        tracing=False,
    )


def _stat(title: str, text: str, x: int, expr: str, unit: str, look: Json, mappings: list[Json]) -> Panel:
    return Panel(
        "stat",
        title,
        text,
        (x, 0, 4, 4),
        [Query(expr, instant=True)],
        unit,
        look,
        mappings,
        defaults={"noValue": "unknown", "decimals": 0},
        links=manual("exporters"),
    )


def _answer() -> list[Panel]:
    return [
        _stat(
            "Exporters that cannot see",
            "Not to be scraped, refused by IMDS, or no longer polling.",
            0,
            q.TRUST,
            "suffix: blind",
            steps(FINE, (1, BLIND)),
            values({0: ("none: all see", FINE), UNKNOWN: ("nobody sees", BLIND)}),
        ),
        _stat(
            "Exporters that see",
            "Exporters whose last poll was answered and is recent.",
            4,
            q.WATCHING,
            "none",
            steps(BLIND, (1, FINE)),
            [],
        ),
        _stat(
            "Oldest answer of IMDS",
            "The age of the last valid answer, of the exporter where it is oldest, with the time since the scrape.",
            8,
            q.OLDEST_ANSWER,
            "s",
            steps(FINE, (120, BLIND)),
            [above(1e9, "never", BLIND)],
        ),
        _stat(
            "Slowest pace",
            "Polls made for each poll that was due, of the slowest exporter.",
            12,
            q.PACE,
            "percentunit",
            steps(BLIND, (0.9, FINE)),
            [],
        ),
        _stat(
            "Without journal",
            "Exporters that cannot write their journal, or run without one: a restart forgets what they counted.",
            16,
            q.JOURNALS_DOWN,
            "none",
            steps(FINE, (1, BLIND)),
            _UNKNOWN,
        ),
        _stat(
            "Spans queued",
            "Trace spans that no collector has accepted yet, of all exporters.",
            20,
            q.SPANS_WAITING,
            "none",
            steps(FINE, (100, BLIND)),
            [],
        ),
    ]


def _sight() -> list[Panel]:
    return [
        Panel(
            "state-timeline",
            "Who could see, when",
            "Each exporter: whether Prometheus could scrape it and whether IMDS answered it. A gap: it was no target.",
            (0, 4, 16, 8),
            [Query(q.SIGHT, "{{instance}}")],
            "none",
            mappings=values(SIGHT),
            links=runbook("AzureScheduledEventExporterDown"),
            defaults={"color": _MAPPED, "noValue": "no exporter known"},
        ),
        Panel(
            "table",
            "Versions",
            "How many exporters run which version, on which Python.",
            (16, 4, 8, 4),
            [Query(q.VERSIONS, table=True)],
            "none",
            links=manual("exporters"),
            transformations=columns({"version": "Version", "python_version": "Python", "Value": "Exporters"}),
            defaults={"noValue": "no exporter answers"},
        ),
        Panel(
            "table",
            "Approval policies",
            "How many exporters approve events by which policy.",
            (16, 8, 8, 4),
            [Query(q.POLICIES, table=True)],
            "none",
            links=manual("exporters"),
            transformations=columns({"policy": "Policy", "Value": "Exporters"}),
            defaults={"noValue": "no exporter answers"},
        ),
    ]


def _graph(
    title: str,
    text: str,
    at: tuple[int, int, int, int],
    queries: list[Query],
    unit: str,
    *,
    overrides: list[Json] | None = None,
    custom: Json | None = None,
    defaults: Json | None = None,
    links: list[Json] | None = None,
    options: Json | None = None,
) -> Panel:
    return Panel(
        "timeseries",
        title,
        text,
        at,
        queries,
        unit,
        links=links or manual("exporters"),
        overrides=overrides or [],
        custom=custom or {},
        options=options or {},
        defaults={"min": 0, "color": SHADES, "noValue": "no exporter answers", **(defaults or {})},
    )


_STACKED = {"stacking": {"mode": "normal", "group": "A"}, "fillOpacity": 60, "lineWidth": 1}


def _polls() -> list[Panel]:
    shares = dict(zip(("half", "95 %", "99 %"), QUANTILES, strict=True))
    return [
        _graph(
            "Polls by outcome",
            "Polls of all exporters by how they ended. 'throttled': more than five requests a second from one VM.",
            (0, 0, 12, 8),
            [Query(q.POLLS_BY_OUTCOME, "{{outcome}}")],
            "reqps",
            overrides=painted(POLLS),
            custom=_STACKED,
            links=runbook("AzureScheduledEventImdsUnreachable"),
        ),
        _graph(
            "Failed polls",
            "The share of its polls that failed, by exporter.",
            (12, 0, 12, 8),
            [Query(q.FAILED_POLLS, "{{vm_name}}")],
            "percentunit",
            defaults={"max": 1},
            options=_MANY,
            links=runbook("AzureScheduledEventImdsUnreachable"),
        ),
        _graph(
            "Time a poll takes",
            "Within which time half, 95 % and 99 % of all polls ended, whatever their outcome.",
            (0, 8, 8, 8),
            [Query(q.poll_duration(share), name) for share, name in zip((0.5, 0.95, 0.99), shares, strict=True)],
            "s",
            overrides=painted(shares),
        ),
        _graph(
            "Age of the last answer",
            "Time since the last valid answer of IMDS, of the ten exporters where it is longest.",
            (8, 8, 8, 8),
            [Query(q.ANSWER_AGES, "{{vm_name}}")],
            "s",
            custom={"thresholdsStyle": {"mode": "off"}},
            links=runbook("AzureScheduledEventImdsUnreachable"),
        ),
        _graph(
            "Throttled polls",
            "Polls that IMDS refused because this VM asks too often. Another program on it asks as well.",
            (16, 8, 8, 8),
            [Query(q.THROTTLED, "{{vm_name}}")],
            "reqps",
            links=runbook("AzureScheduledEventThrottled"),
        ),
    ]


def _delivery() -> list[Panel]:
    return [
        Panel(
            "state-timeline",
            "Journals",
            "Whether each exporter writes transitions to disk before it tells them.",
            (0, 0, 8, 8),
            [Query(q.JOURNALS, "{{vm_name}}")],
            "none",
            mappings=values({0: ("in memory", BLIND), 1: ("on disk", FINE)}),
            links=runbook("AzureScheduledEventJournalNotOnDisk"),
            defaults={"color": _MAPPED, "noValue": "no exporter answers"},
        ),
        _graph(
            "Failed writes of the journal",
            "Attempts to write that failed, by exporter.",
            (8, 0, 8, 8),
            [Query(q.JOURNAL_ERRORS, "{{vm_name}}")],
            "wps",
            links=runbook("AzureScheduledEventJournalNotOnDisk"),
        ),
        _graph(
            "Spans queued by exporter",
            "Trace spans that wait for the collector, of the ten exporters with the most.",
            (16, 0, 8, 8),
            [Query(q.SPANS_QUEUED, "{{vm_name}}")],
            "none",
            links=runbook("AzureScheduledEventSpansPilingUp"),
        ),
        _graph(
            "Spans by outcome",
            "How the collector took trace spans.",
            (0, 8, 6, 8),
            [Query(q.SPANS_BY_OUTCOME, "{{outcome}}")],
            "cps",
            overrides=painted({"exported": FINE, "failed": BLIND}),
        ),
        _graph(
            "Requests to approve",
            "What exporters asked of IMDS, by answer.",
            (6, 8, 6, 8),
            [Query(q.APPROVAL_REQUESTS, "{{outcome}}")],
            "none",
            overrides=painted({"accepted": APPROVED, "rejected": BLIND, "error": POLLS["http_error"]}),
            links=runbook("AzureScheduledEventApprovalRefused"),
        ),
        _graph(
            "Transitions",
            "What the exporters noticed, by transition. An event counts on every exporter that sees it.",
            (12, 8, 6, 8),
            [Query(q.TRANSITIONS, "{{transition}}")],
            "none",
            overrides=painted(TRANSITIONS),
        ),
        _graph(
            "Changes of the document",
            "How often the answer of IMDS differed from the one before, of all exporters.",
            (18, 8, 6, 8),
            [Query(q.DOCUMENT_CHANGES, "changes")],
            "cps",
            defaults={"color": {"mode": "fixed", "fixedColor": NEUTRAL}},
        ),
    ]


def _process() -> list[Panel]:
    return [
        _graph(
            "CPU",
            "CPU time that each exporter uses; some tenths of a percent of a core are usual.",
            (0, 0, 12, 8),
            [Query(q.CPU, "{{vm_name}}")],
            "percentunit",
            options=_MANY,
        ),
        _graph(
            "Memory",
            "Resident memory of each exporter; it should stay flat, whatever happens.",
            (12, 0, 12, 8),
            [Query(q.MEMORY, "{{vm_name}}")],
            "bytes",
            options=_MANY,
        ),
    ]
