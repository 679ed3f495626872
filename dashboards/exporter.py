"""The dashboard of the exporters: whether the watching itself works.

If it does, the first row is all green. Below it, a table has the exporters, the worst ones first.
"""

import grafanalib.core as g  # type: ignore[import-untyped] # it carries no types

from azure_scheduled_events_exporter.alerts.series import BLIND

from . import titles
from .board import EXPORTER_BOARD, STATUS_LINK, board, manual, runbook, solid, stat, vm_link
from .grafana import Table, columns, instant, over_time, panel, variable
from .queries import (
    APPROVED,
    INSTANCE_INFO,
    JOB,
    MOST,
    NAMES,
    STARTED,
    blind,
    cells,
    last,
    metric,
    selector,
    watch_variables,
)
from .style import FAILED, FINE, UNKNOWN, Json, between, by_name, hidden, steps, values

_TARGET = JOB, 'instance=~"$instance"'
_IF_INSTANCE_CHOSEN = 'all!~"$instance"'
"""Selects all series if people have chosen an instance above the board, and none if not.

No series has a label ``all``, so Prometheus compares the empty text with ``$instance``. Without a
choice, that is ``.*``, which matches the empty text: nothing is selected. The name of an instance
does not match it.
"""
_LAST = metric("last_success_timestamp_seconds", *_TARGET)
_NO_JOURNAL = f"{metric('journal_up', *_TARGET)} == 0"
_DUE = metric("event_approval_due_timestamp_seconds", *_TARGET)

# ---- Numbers: how many exporters have each problem

# By the title of the panel: a query of the exporters with the problem, what it means, its alert.
_PROBLEMS = {
    titles.IMDS: (
        blind(*_TARGET),
        "Exporters that Prometheus cannot scrape, or whose last poll of IMDS failed or hangs.",
        "AzureScheduledEventExporterDown",
    ),
    titles.THROTTLING: (
        f"increase({metric('polls_total', *_TARGET, outcome='throttled')}[5m]) > 0",
        (
            "Exporters whose polls IMDS refused in the last five minutes: something else on the VM"
            " asks IMDS too often."
        ),
        "AzureScheduledEventThrottled",
    ),
    titles.JOURNAL: (
        _NO_JOURNAL,
        (
            "Exporters that cannot write their journal now. Entries wait in memory; a restart loses"
            " them."
        ),
        "AzureScheduledEventJournalNotOnDisk",
    ),
    titles.SPANS: (
        f"{metric('spans_queued', *_TARGET)} > 100",
        "Exporters with more than 100 trace spans that no collector accepted.",
        "AzureScheduledEventSpansNotDelivered",
    ),
    titles.PUSHES: (
        f"{metric('alertmanager_up', *_TARGET)} == 0",
        "Exporters whose last push of alerts was not accepted by every Alertmanager.",
        "AzureScheduledEventAlertsNotPushed",
    ),
    titles.APPROVALS: (
        (
            f"{_DUE} < time() - 60"
            f" unless on (event_id) {metric(APPROVED)} == 1"
            f" unless on (event_id) {metric(STARTED)}"
        ),
        (
            "Exporters whose policy should have approved an event a minute ago, which is neither"
            " approved nor Started."
        ),
        "AzureScheduledEventNotApproved",
    ),
}


def _problem(expression: str) -> str:
    """Return the query of how many exporters have the problem that ``expression`` selects.

    Its value is 0 if none of the known exporters has the problem, and :data:`.style.UNKNOWN` if no
    exporter is known.

    Known is an exporter that has a series of ``$sees``. But if the shipped rules are loaded,
    ``$sees`` is a recording (:func:`.queries.watch_variables`), in which the exporters that work
    are only a number for each job. So if people have chosen an instance, ``up`` is read too.
    """
    chosen = selector("up", *_TARGET, _IF_INSTANCE_CHOSEN)
    known = f"{selector('$sees', *_TARGET)} or {chosen}"
    found = f"count(group by (job, instance) ({expression}))"
    return f"{found} or on () 0 * count({known}) or on () vector({UNKNOWN:.0f})"


# ---- The table: the exporters that are down, those that fail, and those whose answers are oldest

# The numbers of the states, the worst first. The number of an exporter that sees IMDS is the time
# of its last answer: _SEES is only a lower bound of these times.
_DOWN, _IMDS_FAILS, _JOURNAL_FAILS, _SEES = range(4)
# The recording BLIND has the first two of these states, with the same numbers. Without the shipped
# rules, they follow from the two metrics that $scraped and $sees name (`queries.watch_variables`):
# each is 0 in its state. So $scraped, where it is 0, already has the number _DOWN. With the rules,
# both name a recording of the same exporters as BLIND: then `or` adds nothing to BLIND.
_IS_DOWN = f"{selector('$scraped', *_TARGET)} == {_DOWN}"
_SEES_NO_IMDS = f"{selector('$sees', *_TARGET)} == 0"
_BLIND = (
    f"{selector(BLIND, *_TARGET)}"
    f" or on (job, instance) {_IS_DOWN}"
    f" or {_IMDS_FAILS} + ({_SEES_NO_IMDS})"
)
_FAILING = f"{_BLIND} or on (job, instance) {_JOURNAL_FAILS} + ({_NO_JOURNAL})"
_ROWS = f"bottomk({MOST}, {_FAILING} or on (job, instance) {_LAST})"
"""The state of each row.

Of exporters that work, it is the time of the last answer, so that the oldest come first.
"""


def _table() -> list[str]:
    """Return the queries of the columns of the table.

    At 10,000 exporters each metric read is dear, so names are not looked up by ``_ROWS``, but by a
    query that does not read the state of the journal. An exporter whose journal fails has a name
    only if that query finds it, too.
    """
    named = f"bottomk({MOST}, {_BLIND} or on (job, instance) {_LAST})"
    infos = f"{last(INSTANCE_INFO, NAMES, *_TARGET)} and on (job, instance) {named}"
    # An exporter has a series more for each change of its VM's metadata.
    names = f"group by (job, instance, vm_name) ({infos})"
    return [
        f"sort({cells('State', _ROWS)})",
        cells("Answer age", f"time() - bottomk({MOST}, {_LAST})"),
        cells("row", names),
    ]


def exporter() -> Json:
    """Return the dashboard."""
    build = metric("build_info")
    return board(
        EXPORTER_BOARD,
        "Whether the exporters work: polling on time, answered by IMDS, writing their journal,"
        " sending spans and alerts.",
        [*_answer(), _exporters(), _over_time()],
        [
            variable("job", "Job", f"label_values({build}, job)"),
            variable(
                "instance",
                "Instance",
                f"label_values({metric('build_info', JOB)}, instance)",
                all_value=".*",
            ),
            *watch_variables(),
        ],
    )


def _answer() -> list[g.Panel]:
    """Return the first row: a number for each problem."""
    return [
        stat(
            title,
            text,
            4,
            _problem(expression),
            links=runbook(alert),
            unit="suffix: affected",
            thresholds=steps(FINE, (1, FAILED)),
            mappings=values({0: ("fine", FINE), UNKNOWN: ("no exporter", FAILED)}),
        )
        for title, (expression, text, alert) in _PROBLEMS.items()
    ]


_STATES = [
    *values(
        {
            _DOWN: ("down", FAILED),
            _IMDS_FAILS: ("IMDS fails", FAILED),
            _JOURNAL_FAILS: ("journal fails", FAILED),
        }
    ),
    between(_SEES, None, "sees IMDS", FINE),
]


def _exporters() -> g.Panel:
    """Return the table of exporters."""
    return panel(
        Table,
        titles.EXPORTERS,
        "At most 50 exporters: first those that are down, then those that do not see IMDS, those"
        " that cannot write their journal, and those whose last answer of IMDS is oldest.",
        (24, 14),
        instant(*_table()),
        links=manual("exporters"),
        transformations=columns(
            {
                "State": "State",
                "vm_name": "VM",
                "instance": "Status page",
                "Answer age": "Answer age",
            },
            "job",
            needed="State",
        ),
        custom={"minWidth": 60},
        defaults={
            "noValue": (
                "No exporter is known: none was scraped in this time range, or none is chosen"
                " above."
            )
        },
        overrides=[
            solid("State", mappings=_STATES, custom__width=115),
            by_name("VM", links=[vm_link("VM")], custom__minWidth=90),
            by_name("Status page", links=[STATUS_LINK], custom__minWidth=130),
            by_name("Answer age", unit="s", decimals=1, custom__width=97),
            *hidden("job"),
        ],
    )


def _over_time() -> g.Panel:
    """Return the graph of how many exporters were down or did not see IMDS."""
    return panel(
        g.TimeSeries,
        titles.NOT_CURRENT,
        "How many exporters Prometheus could not scrape, or did not see IMDS.",
        (24, 6),
        over_time(
            f"count({blind(JOB)}) or on () 0 * count({selector('$sees', JOB)})",
            "without current data",
        ),
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
            "color": {"mode": "fixed", "fixedColor": FAILED},
            "decimals": 0,
            "min": 0,
            "noValue": "No exporter was scraped in this time range.",
        },
    )
