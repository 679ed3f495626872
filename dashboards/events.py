"""The table of events of two dashboards: its rows, its columns and how they look.

Hidden variables find the rows, one query each that reads what all exporters show. The queries of the columns read the
series of these events alone, so their cost does not grow with the fleet.
"""

from collections.abc import Sequence

import grafanalib.core as g  # type: ignore[import-untyped] # it carries no types

from .board import RUNBOOKS, solid, vm_link, wrapped
from .grafana import cell_link, columns, found_variable, table
from .queries import (
    APPROVED,
    ENDED,
    FIRST_SEEN,
    HELD,
    IMPACT,
    INFO,
    MOST,
    NOT_BEFORE,
    PAST,
    STARTED,
    cells,
    last,
    metric,
    times,
)
from .style import APPROVED as APPROVALS
from .style import NO_TIME, STATES, Json, by_name, colors, hidden, pattern, values

_ROWS = MOST // 2
_NOW, _AWAY, _OVER, _ALL = (f'event_id=~"{rows}"' for rows in ("$now", "$away", "$over", "$now|$away|$over"))


def row_variables(current: str, impact: str, ended: str) -> list[g.Template]:
    """Return the variables with the ids of the events that have a row, at most 25 each.

    Args:
        current: times of current events.
        impact: times of the impact, as of late; events that nobody shows any more and nobody saw end are away.
        ended: times of ends of the last 30 days; an event may have returned since.
    """
    ends = f"unless on (event_id) {metric(ENDED)}"
    shown = f"unless on (event_id) {metric(FIRST_SEEN)} unless on (event_id) {last(ENDED, HELD)}"
    return [
        found_variable("now", f"bottomk({_ROWS}, min by (event_id) ({current}) {ends})", "event_id"),
        found_variable("away", f"topk({_ROWS}, max by (event_id) ({impact}) {shown})", "event_id"),
        found_variable("over", f"topk({_ROWS}, max by (event_id) ({ended}))", "event_id"),
    ]


def _one(vector: str) -> str:
    """One series of each event."""
    return f"topk by (event_id) (1, {vector})"


def _with_trace(events: str) -> str:
    """``events`` with the label ``trace_id``, the 128 bits of the EventId, if traces are chosen."""
    guid = "-".join(f"([0-9a-fA-F]{{{digits}}})" for digits in (8, 4, 4, 4, 12))
    chosen = 'label_replace(vector(1), "chosen", "$traces", "", "") unless on (chosen) vector(1)'
    return f'label_replace({events} and on () ({chosen}), "trace_id", "$1$2$3$4$5", "event_id", "{guid}")'


def _row(events: str) -> str:
    """``events`` with the label ``vm``, the first of their ``resources``."""
    return cells("row", f'label_replace({_one(events)}, "vm", "$1", "resources", "([^,]*).*")')


def _queries(own: Sequence[str]) -> list[str]:
    """The cells of all rows; past ones as the exporters saw them that ``own`` selects."""

    def was(name: str, window: str = PAST, rows: str = _OVER) -> str:
        return last(name, window, rows, *own)

    happens = f"min by (event_id) ({times(_NOW)})"
    returned = f"({metric(FIRST_SEEN, _OVER)} unless on (event_id) {metric(ENDED, _OVER)})"
    over = f"{_one(f'max by (event_id, outcome) ({was(ENDED)})')} unless on (event_id) {returned}"
    approved = metric(APPROVED, _NOW)
    policy = metric("event_approval_due_timestamp_seconds", _NOW)
    return [
        f"sort({cells('When', f'1000 * {happens}')})",
        f"sort({cells('When', f'1000 * max by (event_id) ({last(IMPACT, HELD, _AWAY)})')})",
        f'sort_desc(label_replace({cells("When", f"1000 * ({over})")}, "event_status", "$1", "outcome", "(.*)"))',
        _row(f"({metric(INFO, _NOW, event_status='Started')} or on (event_id) {metric(INFO, _NOW)})"),
        f'label_replace({_row(was(INFO, HELD, _AWAY))}, "event_status", "not seen", "", "")',
        _row(f"group by (event_id, event_type, resources, description) ({was(INFO)})"),
        cells("traced", _with_trace(f"max by (event_id) ({last(INFO, PAST, _ALL)})")),
        cells("At", f"1000 * ({happens} or max by (event_id) ({was(ENDED)}))"),
        cells("Approved", f"max by (event_id) ({approved} + 2 * {metric(STARTED, _NOW)} ^ 0 or {approved})"),
        cells("Approved", f"2 + max by (event_id) (max_over_time({metric(APPROVED, _OVER, *own)}{PAST}))"),
        cells("Policy", f"1000 * min by (event_id) ({policy})"),
        cells("Impact", f"max by (event_id) ({last('event_duration_seconds', PAST, _ALL)})"),
    ]


def _durations(own: Sequence[str]) -> list[str]:
    """How long past events were announced and Started."""
    seen, not_before, started, ended = (
        f"max by (event_id) ({last(name, PAST, _OVER, *own)})" for name in (FIRST_SEEN, NOT_BEFORE, STARTED, ENDED)
    )
    return [
        cells("Notice", f"clamp_min({not_before} - {seen}, 0)"),
        cells("Started for", f"{ended} - {started}"),
    ]


_TYPE_LINK = cell_link("Runbook of the type", f"{RUNBOOKS}/AzureScheduledEvent${{__data.fields.Type}}.md")
_TRACE_PANES = (
    '{"t":{"datasource":"$traces","queries":[{"refId":"A","datasource":{"type":"tempo","uid":"$traces"},'
    '"queryType":"traceql","query":"${__data.fields.trace_id}"}],"range":{"from":"now-7d","to":"now"}}}'
)
_TRACE_LINK = cell_link("Trace of the event", f"/explore?schemaVersion=1&panes={_TRACE_PANES}")
_NO_TIME = values({1000 * NO_TIME: ("no time given", "")})
_COLUMNS = {
    "event_status": "State",
    "event_type": "Type",
    "When": "When",
    "At": "At",
    "resources": "VMs",
    "Approved": "Approved",
    "Policy": "Policy approves",
    "Notice": "Notice",
    "Started for": "Started for",
    "Impact": "Impact",
    "kind": "Kind",
    "description": "Description",
    "trace_id": "Trace",
}
_LOOKS = [
    solid("State", mappings=colors(STATES), custom__width=105, custom__filterable=True),
    by_name("Type", links=[_TYPE_LINK], custom__width=100, custom__filterable=True),
    by_name("When", unit="dateTimeFromNow", mappings=_NO_TIME, custom__width=142),
    by_name("At", unit="dateTimeAsIsoNoDateIfToday", mappings=_NO_TIME, custom__width=155),
    wrapped("VMs", links=[vm_link("vm")], custom__width=140, custom__filterable=True),
    by_name("Approved", mappings=values({code: (text, "") for code, text in APPROVALS.items()}), custom__width=120),
    by_name("Policy approves", unit="dateTimeFromNow", custom__width=140),
    by_name("Impact", unit="s", mappings=values({0: ("none", "")}), custom__width=75),
    by_name("Kind", mappings=pattern("(.*)_(.*)", "$1 $2"), custom__width=105),
    wrapped("Description", custom__minWidth=170),
    *(by_name(name, unit="s", decimals=0, custom__width=90) for name in ("Notice", "Started for")),
    by_name("Trace", links=[_TRACE_LINK], mappings=pattern(".+", "open"), custom__width=70),
]


def events_table(
    description: str, height: int, links: Sequence[Json], own: Sequence[str], *, one_vm: bool = False
) -> g.Panel:
    """Return the table; past events are as the exporters saw them that ``own`` selects."""
    left_out = {"resources"} if one_vm else {"Notice", "Started for"}
    names = {name: title for name, title in _COLUMNS.items() if name not in left_out}
    return table(
        "Events: now, next, and the last 30 days",
        description,
        (24, height),
        [*_queries(own), *(_durations(own) if one_vm else ())],
        columns(names, "event_id", "vm", needed="When"),
        links=links,
        noValue="No event now, and none in the last 30 days, as far as exporters saw.",
        overrides=[
            *(look for look in _LOOKS if look["matcher"]["options"] in names.values()),
            *hidden("event_id", "vm"),
        ],
    )
