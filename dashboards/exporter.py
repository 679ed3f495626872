"""The dashboard of the exporters: whether the watching itself works. One row of green and one table if it does."""

import grafanalib.core as g  # type: ignore[import-untyped] # it carries no types

from .board import EXPORTER, STATUS_LINK, board, manual, runbook, solid, stat, vm_link
from .grafana import columns, instant, over_time, panel, variable
from .queries import JOB, MOST, NAMES, cells, last, metric, sees, selector
from .queries import VM as IDENTITY
from .style import BLIND, FINE, UNKNOWN, Json, by_name, hidden, steps, values

_TARGET = JOB, 'instance=~"$instance"'
_REFUSED = 'outcome!="accepted"'
_LAST = metric("last_success_timestamp_seconds", *_TARGET)
_RECENT = "[5m]"


def _polls(outcome: str, window: str) -> str:
    return f"increase({metric('polls_total', *_TARGET, outcome=outcome)}{window})"


# ---- Numbers: how many exporters have each problem ------------------------------------------------------------------

_PROBLEMS = {
    "IMDS": (
        f"{sees(*_TARGET)} == 0",
        "Exporters that Prometheus cannot scrape, or whose last poll of IMDS failed.",
        "AzureScheduledEventExporterDown",
    ),
    "Polls": (
        f"time() - {_LAST} > 60 + 3 * {metric('poll_interval_seconds', *_TARGET)}",
        "Exporters whose last valid answer of IMDS is older than a minute and three poll intervals.",
        "AzureScheduledEventImdsUnreachable",
    ),
    "Throttling": (
        f"{_polls('throttled', '[10m]')} > 0",
        "Exporters whose polls IMDS refused in the last ten minutes: something else on the VM asks IMDS too often.",
        "AzureScheduledEventThrottled",
    ),
    "Documents": (
        f"{_polls('invalid_document', '[10m]')} > 0",
        "Exporters that got a document from IMDS in the last ten minutes that they could not read.",
        "AzureScheduledEventDocumentInvalid",
    ),
    "Journal": (
        f"{metric('journal_up', *_TARGET)} == 0",
        "Exporters that cannot write their journal now. Entries wait in memory; a restart loses them.",
        "AzureScheduledEventJournalNotOnDisk",
    ),
    "Spans": (
        f"{metric('spans_queued', *_TARGET)} > 100",
        "Exporters with more than 100 trace spans that no collector accepted.",
        "",
    ),
    "Alert pushes": (
        (
            f"{metric('alertmanager_up', *_TARGET)} == 0"
            f" or increase({metric('alertmanager_alerts_total', *_TARGET, _REFUSED)}[10m]) > 0"
        ),
        "Exporters whose last push of alerts, or any in the last ten minutes, was not accepted by every Alertmanager.",
        "AzureScheduledEventAlertsNotPushed",
    ),
    "Approvals": (
        f"increase({metric('approval_requests_total', *_TARGET, _REFUSED)}[1h]) > 0",
        "Exporters with a request to approve in the last hour that IMDS did not accept.",
        "AzureScheduledEventApprovalRefused",
    ),
}


def _problem(expression: str) -> str:
    """How many exporters have a problem; 0 while others answer."""
    found = f"count(group by (job, instance) ({expression}))"
    return f"{found} or on () 0 * count({sees(*_TARGET)}) or on () vector({UNKNOWN:.0f})"


# ---- The table: the exporters whose last answer is oldest, and those without a journal on disk, first ---------------

_WORST = f"bottomk({MOST}, {metric('journal_up', *_TARGET)} == 0 or {_LAST} or {selector('up', *_TARGET)} == 0)"
"""The time of the last answer, or 0. Every column needs it: it must be cheap with 10,000 exporters."""
_OK, _ALL = metric("polls_total", *_TARGET, outcome="ok"), metric("poll_duration_seconds_count", *_TARGET)
_TIME = metric("poll_duration_seconds_sum", *_TARGET)
_COLUMNS = {
    "State": f"2 * ({selector('up', *_TARGET)} == 0) ^ 0 or on (job, instance) 1 - {metric('up', *_TARGET)}",
    "Last answer": f"time() - {_LAST}",
    "Failed polls": f"clamp_min(1 - rate({_OK}{_RECENT}) / on (job, instance) rate({_ALL}{_RECENT}), 0)",
    "Time of a poll": f"rate({_TIME}{_RECENT}) / rate({_ALL}{_RECENT})",
    "Journal": metric("journal_up", *_TARGET),
    "Failed writes": metric("journal_errors_total", *_TARGET),
    "Spans": metric("spans_queued", *_TARGET),
    "CPU": f"rate({selector('process_cpu_seconds_total', *_TARGET)}{_RECENT})",
    "Memory": selector("process_resident_memory_bytes", *_TARGET),
}


def _table() -> list[str]:
    texts = {
        "vm": f"topk by (job, instance) (1, {last(IDENTITY, NAMES, *_TARGET)})",
        "version": metric("build_info", *_TARGET),
        "policy": metric("approval_policy_info", *_TARGET),
    }
    return [
        f"sort({cells('order', _WORST)})",
        *(cells(name, f"({query}) and on (job, instance) {_WORST}") for name, query in _COLUMNS.items()),
        *(cells("row", f"{query} and on (job, instance) {_WORST}") for query in texts.values()),
    ]


def exporter() -> Json:
    """Return the dashboard."""
    build = metric("build_info")
    return board(
        EXPORTER,
        "Whether the exporters work: polling on time, answered by IMDS, writing their journal, sending spans and "
        "alerts.",
        [*_answer(), _exporters(), _over_time()],
        [
            variable("job", "Job", f"label_values({build}, job)"),
            variable(
                "instance", "Instance", f"label_values({metric('build_info', _TARGET[0])}, instance)", all_value=".*"
            ),
        ],
    )


def _answer() -> list[g.Panel]:
    return [
        stat(
            title,
            text,
            3,
            _problem(expression),
            links=runbook(alert) if alert else manual("exporters"),
            unit="suffix: affected",
            thresholds=steps(FINE, (1, BLIND)),
            mappings=values({0: ("fine", FINE), UNKNOWN: ("no exporter", BLIND)}),
        )
        for title, (expression, text, alert) in _PROBLEMS.items()
    ]


def _exporters() -> g.Panel:
    return panel(
        g.Table,
        "Exporters",
        "At most 50 exporters: those that are down or have no journal on disk first, then those whose last "
        "answer of IMDS is oldest. Failed polls and CPU: of the last five minutes. Failed writes: since the start.",
        (24, 14),
        instant(*_table()),
        links=manual("exporters"),
        transformations=columns(
            {
                "State": "State",
                "vm_name": "VM",
                "instance": "Status page",
                **{name: name for name in list(_COLUMNS)[1:]},
                "policy": "Policy",
                "version": "Version",
            },
            "job",
        ),
        custom={"minWidth": 60},
        defaults={"noValue": "No exporter is known: none was scraped in this time range, or none is chosen above."},
        overrides=[
            solid(
                "State",
                mappings=values({0: ("sees IMDS", FINE), 1: ("IMDS fails", BLIND), 2: ("down", BLIND)}),
                custom__width=105,
            ),
            by_name("VM", links=[vm_link("VM")], custom__minWidth=90),
            by_name("Status page", links=[STATUS_LINK], custom__minWidth=130),
            by_name("Last answer", unit="s", decimals=1, custom__width=97),
            by_name("Failed polls", unit="percentunit", decimals=0, custom__width=95),
            by_name("Time of a poll", unit="s", custom__width=105),
            solid("Journal", mappings=values({0: ("in memory", BLIND), 1: ("on disk", FINE)}), custom__width=95),
            by_name("Failed writes", custom__width=102),
            by_name("Policy", custom__width=102),
            by_name("Spans", custom__width=65),
            by_name("CPU", unit="percentunit", decimals=1, custom__width=65),
            by_name("Memory", unit="bytes", custom__width=90),
            by_name("Version", custom__width=75),
            *hidden("job"),
        ],
    )


def _over_time() -> g.Panel:
    return panel(
        g.TimeSeries,
        "Exporters without current data",
        "How many exporters Prometheus could not scrape, or did not see IMDS.",
        (24, 6),
        over_time(f"count({sees(JOB)} == 0) or on () 0 * count({sees(JOB)})", "without current data"),
        links=runbook("AzureScheduledEventExporterDown"),
        maxDataPoints=120,
        custom={
            "lineInterpolation": "stepAfter",
            "fillOpacity": 100,
            "lineWidth": 0,
            "axisSoftMax": 1,
            "showPoints": "never",
        },
        defaults={
            "color": {"mode": "fixed", "fixedColor": BLIND},
            "decimals": 0,
            "min": 0,
            "noValue": "No exporter was scraped in this time range.",
        },
    )
