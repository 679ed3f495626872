"""The dashboard of the exporters: whether the watching itself works. One row of green and one table if it does."""

import grafanalib.core as g  # type: ignore[import-untyped] # it carries no types

from .board import EXPORTER, STATUS_LINK, board, manual, runbook, solid, stat, vm_link
from .grafana import columns, instant, over_time, panel, variable
from .queries import JOB, MOST, NAMES, blind, cells, last, metric, selector, watch_variables
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
        blind(*_TARGET),
        "Exporters that Prometheus cannot scrape, or whose last poll of IMDS failed.",
        "AzureScheduledEventExporterDown",
    ),
    "Polls": (
        f"time() - {_LAST} > bool on (job, instance) 60 + 3 * {metric('poll_interval_seconds', *_TARGET)}",
        "Exporters whose last valid answer of IMDS is older than a minute and three poll intervals.",
        "AzureScheduledEventImdsUnreachable",
    ),
    "Throttling": (
        f"{_polls('throttled', '[10m]')} > bool 0",
        "Exporters whose polls IMDS refused in the last ten minutes: something else on the VM asks IMDS too often.",
        "AzureScheduledEventThrottled",
    ),
    "Documents": (
        f"{_polls('invalid_document', '[10m]')} > bool 0",
        "Exporters that got a document from IMDS in the last ten minutes that they could not read.",
        "AzureScheduledEventDocumentInvalid",
    ),
    "Journal": (
        f"{metric('journal_up', *_TARGET)} == bool 0",
        "Exporters that cannot write their journal now. Entries wait in memory; a restart loses them.",
        "AzureScheduledEventJournalNotOnDisk",
    ),
    "Spans": (
        f"{metric('spans_queued', *_TARGET)} > bool 100",
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
    """How many exporters have a problem; 0 while others answer. A comparison of all of them is read once."""
    if "> bool" in expression or "== bool" in expression:
        return f"sum({expression}) or on () vector({UNKNOWN:.0f})"
    found = f"count(group by (job, instance) ({expression}))"
    return f"{found} or on () 0 * count({metric('up', *_TARGET)}) or on () vector({UNKNOWN:.0f})"


# ---- The table: the exporters that are down, those without a journal on disk, and those whose answers are oldest ----

_DOWN = f"topk({MOST}, {selector('up', *_TARGET)} == 0)"
_NO_JOURNAL = f"topk({MOST}, {metric('journal_up', *_TARGET)} == 0)"
_OLDEST = f"bottomk({MOST}, {_LAST})"
"""With 10,000 exporters, every query for these rows reads all of them once more, so one has most columns."""
_OK, _ALL = metric("polls_total", *_TARGET, outcome="ok"), metric("poll_duration_seconds_count", *_TARGET)
_FAILED = f"clamp_min(1 - rate({_OK}{_RECENT}) / on (job, instance) rate({_ALL}{_RECENT}), 0)"


def _worst(column: str, query: str) -> str:
    """A column that is empty where there is no problem."""
    return cells(column, f"topk({MOST}, {query} > 0)")


def _table() -> list[str]:
    answers = f"(1 - {metric('up', *_TARGET)} and on (job, instance) ({_NO_JOURNAL} or {_OLDEST}))"
    vm = f"on (job, instance) group_left (vm_name) {metric(IDENTITY, *_TARGET)}"
    version = f"on (job, instance) group_left (version) {metric('build_info', *_TARGET)}"
    return [
        cells("State", f"topk({MOST}, 2 + ({selector('up', *_TARGET)} == 0) or 1 + ({metric('up', *_TARGET)} == 0))"),
        cells("Journal", _NO_JOURNAL),
        f"sort_desc({cells('Answer age', f'time() - {_OLDEST}')})",
        cells("State", f"{answers} * {vm} * {version}"),
        _worst("Failed polls", _FAILED),
        _worst("Failed writes", metric("journal_errors_total", *_TARGET)),
        _worst("Spans", metric("spans_queued", *_TARGET)),
        cells("row", f"{last(IDENTITY, NAMES, *_TARGET)} and on (job, instance) {_DOWN}"),
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
            *watch_variables(),
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
        "Exporters that are down first, then those without a journal on disk, then the 50 whose last answer of IMDS "
        "is oldest. Failed polls: of the last five minutes. Failed writes: since the start. Empty: no problem.",
        (24, 14),
        instant(*_table()),
        links=manual("exporters"),
        transformations=columns(
            {
                "State": "State",
                "vm_name": "VM",
                "instance": "Status page",
                **{name: name for name in ("Answer age", "Failed polls", "Journal", "Failed writes", "Spans")},
                "version": "Version",
            },
            "job",
            needed="State",
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
            by_name("Answer age", unit="s", decimals=1, custom__width=97),
            by_name("Failed polls", unit="percentunit", decimals=0, custom__width=95),
            solid("Journal", mappings=values({0: ("in memory", BLIND)}), custom__width=95),
            by_name("Failed writes", custom__width=102),
            by_name("Spans", custom__width=65),
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
        over_time(f"count({blind(JOB)}) or on () 0 * count({selector('$sees', JOB)})", "without current data"),
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
