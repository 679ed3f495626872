"""The dashboard of the exporters: whether they work."""

from collections.abc import Mapping, Sequence

import grafanalib.core as g  # type: ignore[import-untyped] # it carries no types

from . import exporter_queries as q
from .board import COUNTDOWN_UNIT, EXPORTER, board, columns, manual, runbook, solid, values_of, vm_link
from .grafana import Query, graph, instant, panel, row, tables, variable
from .style import (
    BLIND,
    FINE,
    FIXED,
    MISSING,
    NO_RULES,
    POLLS,
    QUANTILES,
    REASONS,
    REQUEST_COLORS,
    SHADES,
    UNKNOWN,
    Json,
    between,
    by_name,
    painted,
    steps,
    values,
)

_DOWN = "AzureScheduledEventExporterDown"
_UNREACHABLE = "AzureScheduledEventImdsUnreachable"
_JOURNAL = "AzureScheduledEventJournalNotOnDisk"
_STACKED = {"stacking": {"mode": "normal", "group": "A"}, "fillOpacity": 60, "lineWidth": 1}


def exporter() -> Json:
    """Return the dashboard."""
    everything = ".+"
    return board(
        EXPORTER,
        "Whether the exporters work: polling on time, answered by IMDS, writing their journal, sending their traces.",
        [
            *_answer(),
            *_sight(),
            row("Polls of IMDS"),
            *_polls(),
            row("Journal, traces, approvals"),
            *_delivery(),
            row("Process"),
            *_process(),
        ],
        [
            variable("job", "Job", values_of("job"), all_value=everything),
            variable("instance", "Instance", values_of("instance", 'job=~"$job"'), all_value=everything),
        ],
        time_from="now-3h",
    )


def _stat(
    title: str, text: str, expr: str, unit: str, look: Json, mappings: Sequence[Json] = (), links: Sequence[Json] = ()
) -> g.Panel:
    return panel(
        g.Stat,
        title,
        text,
        (4, 4),
        [instant(expr)],
        unit=unit,
        thresholds=look,
        mappings=mappings,
        defaults={"noValue": "unknown", "decimals": 0},
        links=links or manual("exporters"),
    )


def _answer() -> list[g.Panel]:
    return [
        _stat(
            "Without current data",
            "Prometheus cannot scrape them, IMDS does not answer them, or they stopped polling.",
            q.TRUST,
            "none",
            steps(FINE, (1, BLIND)),
            values({0: ("none", FINE), UNKNOWN: ("no exporter", BLIND), MISSING: NO_RULES}),
            runbook(_DOWN),
        ),
        _stat(
            "With current data",
            "Exporters whose last poll was answered recently.",
            q.WATCHING,
            "none",
            steps(BLIND, (1, FINE)),
        ),
        _stat(
            "Oldest answer of IMDS",
            "The age of the last valid answer, of the exporter where it is oldest, with the time since the scrape. "
            "Exporters that are down are not included.",
            q.OLDEST_ANSWER,
            "s",
            steps(FINE, (120, BLIND)),
            [*values({UNKNOWN: ("unknown", BLIND)}), between(1e9, UNKNOWN - 1, "never", BLIND)],
        ),
        _stat(
            "Slowest poll rate",
            "Polls made for each poll that was due, of the slowest exporter of the chosen jobs.",
            q.PACE,
            "percentunit",
            steps(BLIND, (0.9, FINE)),
        ),
        _stat(
            "Without journal",
            "Exporters whose journal is not on disk: a restart loses what they counted.",
            q.JOURNALS_OFF,
            "none",
            steps(FINE, (1, BLIND)),
            links=runbook(_JOURNAL),
        ),
        _stat(
            "Spans queued",
            "Trace spans that no collector has accepted yet, of all exporters of the chosen jobs.",
            q.SPANS_WAITING,
            "none",
            steps(FINE, (100, BLIND)),
        ),
    ]


def _sight() -> list[g.Panel]:
    return [
        panel(
            g.StateTimeline,
            "Without current data, over time",
            "Ten exporters that had no current data in this time range, and why.",
            (16, 8),
            [graph(q.SIGHT, "{{instance}}")],
            mappings=values(REASONS),
            links=runbook(_DOWN),
            defaults={"color": FIXED, "noValue": "none is known"},
        ),
        panel(
            g.Table,
            "Without current data now",
            "At most 50 exporters, why they have no current data, and for how long they had none in the last 24 hours.",
            (8, 8),
            tables(q.BLIND_NOW, q.BLIND_FOR),
            links=runbook(_DOWN),
            transformations=columns(
                {"Value #A": "Why", "vm_name": "VM", "Value #B": "In last 24 h", "instance": "Instance"}, "job"
            ),
            options={"sortBy": [{"displayName": "In last 24 h", "desc": True}]},
            defaults={"noValue": "None is known."},
            overrides=[
                solid("Why", mappings=values(REASONS), width=115),
                by_name("VM", links=vm_link("VM"), custom__minWidth=80),
                by_name("In last 24 h", unit=COUNTDOWN_UNIT, custom__width=110),
            ],
        ),
    ]


def _graph(
    title: str,
    text: str,
    width: int,
    queries: Sequence[Query],
    unit: str,
    *,
    overrides: Sequence[Json] = (),
    custom: Mapping[str, object] | None = None,
    defaults: Mapping[str, object] | None = None,
    links: Sequence[Json] = (),
) -> g.Panel:
    return panel(
        g.TimeSeries,
        title,
        text,
        (width, 8),
        queries,
        unit=unit,
        links=links or manual("exporters"),
        overrides=overrides,
        custom=custom,
        defaults={"min": 0, "color": SHADES, "noValue": "no exporter answers", **(defaults or {})},
    )


def _quantiles(
    title: str, text: str, width: int, expr: str, unit: str, links: Sequence[Json] = (), **defaults: str
) -> g.Panel:
    """A graph of the median, the 99th percentile and the maximum over the exporters."""
    queries, overrides = [graph(expr, "{{quantile}}")], painted(QUANTILES)
    return _graph(title, text, width, queries, unit, overrides=overrides, links=links, defaults=defaults)


def _top(title: str, text: str, width: int, expr: str, unit: str, column: str, empty: str, link: str = "") -> g.Panel:
    """A table of the ten exporters with the highest value."""
    return panel(
        g.Table,
        title,
        text,
        (width, 8),
        tables(expr),
        unit=unit,
        links=runbook(link) if link else manual("exporters"),
        transformations=columns({"vm_name": "VM", "Value": column, "instance": "Instance"}, "job", "quantile"),
        options={"sortBy": [{"displayName": column, "desc": True}]},
        defaults={"noValue": empty},
        overrides=[by_name("VM", links=vm_link("VM"), custom__minWidth=80), by_name(column, custom__width=95)],
    )


def _polls() -> list[g.Panel]:
    return [
        _graph(
            "Polls by outcome",
            "Polls of all exporters of the chosen jobs by outcome. 'throttled': more than five requests a second from "
            "one VM.",
            12,
            [graph(q.POLLS_BY_OUTCOME, "{{outcome}}")],
            "reqps",
            overrides=painted(POLLS),
            custom=_STACKED,
            links=runbook(_UNREACHABLE),
        ),
        _graph(
            "Failed polls",
            "The share of its polls that failed, of the ten exporters where it was highest.",
            12,
            [graph(q.FAILED, "{{instance}}")],
            "percentunit",
            defaults={"max": 1, "noValue": "no failed poll is known"},
            links=runbook(_UNREACHABLE),
        ),
        _quantiles(
            "Time of a poll",
            "The mean duration of an exporter's polls: the median, the 99th percentile and the slowest exporter.",
            8,
            q.POLL_TIMES,
            "s",
        ),
        _quantiles(
            "Age of the last answer",
            "Time since the last valid answer of IMDS: the median, the 99th percentile and the oldest.",
            8,
            q.ANSWER_AGES,
            "s",
            runbook(_UNREACHABLE),
        ),
        _graph(
            "Throttled polls",
            "Polls that IMDS refused because this VM sends too many requests, of the ten exporters with the most. "
            "Another program on the VM queries IMDS too.",
            8,
            [graph(q.THROTTLED, "{{instance}}")],
            "reqps",
            defaults={"noValue": "no throttled poll is known"},
            links=runbook("AzureScheduledEventThrottled"),
        ),
    ]


def _delivery() -> list[g.Panel]:
    return [
        panel(
            g.StateTimeline,
            "Journals that are not on disk",
            "Ten exporters that could not write their transitions to disk, and when.",
            (8, 8),
            [graph(q.JOURNALS, "{{instance}}")],
            mappings=values({0: ("in memory", BLIND)}),
            links=runbook(_JOURNAL),
            defaults={"color": FIXED, "noValue": "none is known"},
        ),
        _top(
            "Failed writes of the journal",
            "Writes that failed in the last hour, of the ten exporters with the most.",
            8,
            q.JOURNAL_ERRORS,
            "none",
            "Failed writes",
            "none is known",
            _JOURNAL,
        ),
        _top(
            "Spans queued by exporter",
            "Trace spans that wait for the collector, of the ten exporters with the most.",
            8,
            q.MOST_SPANS,
            "none",
            "Spans",
            "no span waits, as far as exporters answer",
            "AzureScheduledEventSpansPilingUp",
        ),
        _graph(
            "Spans by outcome",
            "Trace spans by what the collector answered.",
            4,
            [graph(q.SPANS_BY_OUTCOME, "{{outcome}}")],
            "cps",
            overrides=painted({"exported": FINE, "failed": BLIND}),
        ),
        _graph(
            "Spans queued over time",
            "Trace spans that wait for the collector, of all exporters of the chosen jobs.",
            4,
            [graph(q.SPANS_OVER_TIME, "queued")],
            "none",
        ),
        _graph(
            "Requests to approve",
            "Approvals that exporters requested from IMDS in five minutes, by answer.",
            4,
            [graph(q.REQUESTS, "{{outcome}}")],
            "none",
            overrides=painted(REQUEST_COLORS),
            links=runbook("AzureScheduledEventApprovalRefused"),
        ),
        _graph(
            "Pushed alerts by outcome",
            "Alerts that exporters push to Alertmanager, by its answer. Empty without --alertmanager.url.",
            4,
            [graph(q.PUSHED_BY_OUTCOME, "{{outcome}}")],
            "cps",
            overrides=painted({"accepted": FINE, "rejected": BLIND, "error": BLIND}),
            defaults={"noValue": "no exporter that pushes is known"},
            links=runbook("AzureScheduledEventAlertsNotPushed"),
        ),
        panel(
            g.Table,
            "Versions and policies",
            "How many exporters run which version on which Python, and which approval policy.",
            (8, 8),
            tables(q.VERSIONS, q.POLICIES),
            links=manual("exporters"),
            transformations=columns(
                {
                    "version": "Version",
                    "python_version": "Python",
                    "policy": "Policy",
                    "Value #A": "Exporters",
                    "Value #B": "Exporters ",
                }
            ),
            defaults={"noValue": " "},
        ),
    ]


def _process() -> list[g.Panel]:
    none = "no process metrics are known; Windows has none"
    return [
        _quantiles(
            "CPU",
            "CPU time of an exporter: the median, the 99th percentile and the highest.",
            6,
            q.CPU_OVER_TIME,
            "percentunit",
            noValue=none,
        ),
        _top("Most CPU", "The ten exporters with the most CPU time.", 6, q.MOST_CPU, "percentunit", "CPU", none),
        _quantiles(
            "Memory",
            "Resident memory of an exporter: the median, the 99th percentile and the highest. It should stay flat.",
            6,
            q.MEMORY_OVER_TIME,
            "bytes",
            noValue=none,
        ),
        _top(
            "Most memory", "The ten exporters with the most resident memory.", 6, q.MOST_MEMORY, "bytes", "Memory", none
        ),
    ]
