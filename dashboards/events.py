"""The table of events that the boards of the fleet and of a VM have: now, next, and past.

It has three kinds of rows: current events, events that are away (no exporter shows them any more,
and none saw their end), and past events. For each kind, one of the first three queries returns the
rows in their order. The other queries return cells for these rows only.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import grafanalib.core as g  # type: ignore[import-untyped] # it carries no types

from . import titles
from .board import RUNBOOKS, manual, solid, vm_link, wrapped
from .grafana import Table, cell_link, columns, instant, panel
from .queries import (
    ENDED,
    EVENT_INFO,
    FIRST_SEEN,
    HELD,
    MOST,
    OWN,
    PAST,
    PAUSE,
    SEEN,
    SELF,
    STALE_SECONDS,
    TRACED,
    UNENDED,
    VM_IMPACT,
    cells,
    current_approval,
    first_vm,
    impacts,
    last,
    metric,
    newest,
    one_per_event,
    past_approval,
    with_status,
    with_trace,
)
from .style import APPROVED, NO_TIME, STATES, Json, by_name, colors, hidden, pattern, values

_ROWS = MOST // 2
"""The most rows of current events, and of past ones."""
_GROUP_BY_TEXTS = "group by (event_id, event_type, resources, description)"
"""The aggregation of past events that keeps the labels which the table shows as texts."""
_TYPE_LINK = cell_link(
    "Runbook of the type", f"{RUNBOOKS}/AzureScheduledEvent${{__data.fields.Type}}.md"
)
_TRACE_PANES = (
    '{"t":{"datasource":"$traces","queries":[{"refId":"A",'
    '"datasource":{"type":"tempo","uid":"$traces"},"queryType":"traceql",'
    '"query":"${__data.fields.trace_id}"}],"range":{"from":"now-7d","to":"now"}}}'
)
_TRACE_LINK = cell_link("Trace of the event", f"/explore?schemaVersion=1&panes={_TRACE_PANES}")


@dataclass(frozen=True, slots=True)
class Events:
    """Which events the table of a board has, as parts of its queries.

    Attributes:
        current: a query whose series have the EventIds of the current events. It is an operand of
            ``and``, so one with ``or`` is in parentheses.
        few: the same for at most 50 of them, with the most urgent ones among them. Only for these
            are the other columns read.
        few_timed: ``few`` without the events that have no time. Most columns are read only for
            these events, because their query is shorter.
        info: matchers of the series with the texts of current events.
        away: matchers of the impacts on the VMs that the board shows.
        past: matchers of the series of past events.
        elsewhere: what leaves out past series of VMs that the board does not show.
        past_condition: a further condition of past events.
        returned: what leaves out past events that are current again.
    """

    current: str
    few: str
    few_timed: str
    info: Sequence[str]
    away: Sequence[str]
    past: Sequence[str]
    elsewhere: str = ""
    past_condition: str = ""
    returned: str = f"unless on (event_id) ({metric(SEEN, OWN)} {UNENDED})"

    @property
    def rows_now(self) -> str:
        """The rows of current events, at most 25; the value is when the impact begins or began.

        They are those whose impact comes first.
        """
        moments = f"min by (event_id) ({impacts(*self.info)})"
        return f"bottomk({_ROWS}, {moments} {UNENDED} and on (event_id) {self.current})"

    @property
    def rows_away(self) -> str:
        """The rows of events that are away, at most 25; the value is when the impact began."""
        moments = f"max by (event_id) ({last(VM_IMPACT, HELD, *self.away)})"
        ended = f"unless on (event_id) {last(ENDED, HELD)}"
        return f"topk({_ROWS}, {moments} unless on (event_id) {metric(SEEN)} {ended})"

    @property
    def rows_past(self) -> str:
        """The rows of the 25 events that ended last; the value is when they ended."""
        ended = f"{last(ENDED, PAST, *self.past)} {self.elsewhere}".strip()
        return f"topk({_ROWS}, max by (event_id) ({ended}))"

    def queries(self) -> list[str]:
        """Return the queries of the table: first those that order its rows."""
        gone = f"{self.rows_past} {self.past_condition}".strip()
        # 1000: the times of metrics are seconds, those of Grafana milliseconds.
        return [
            f"sort({cells('When', f'1000 * {self.rows_now}')})",
            cells("When", f"1000 * {self.rows_away}"),
            f"sort_desc({cells('When', f'1000 * ({gone} {self.returned})')})",
            *self._texts(),
            *self._numbers(),
        ]

    def _texts(self) -> list[str]:
        """Return the queries of the columns with texts, for each kind of rows.

        The texts are labels of the results. Their values are not shown: no column of the table is
        called ``row`` or ``traced``.
        """
        with_moment = newest()  # the texts of current events; the value is when each was last seen
        seen = f"{with_moment} >= time() - {STALE_SECONDS}"
        unseen = f"{with_moment} < time() - {STALE_SECONDS} unless on (event_id) {metric(ENDED)}"
        away = one_per_event(last(EVENT_INFO, HELD, SELF))
        past = one_per_event(f"{_GROUP_BY_TEXTS} ({last(EVENT_INFO, PAST, *self.past)})")
        ended = one_per_event(f"group by (event_id, outcome) ({last(ENDED, PAST, *self.past)})")
        outcome = cells("row", f"{ended} and on (event_id) {self.rows_past}")
        traced_past = f"{self.rows_past} and on (event_id) {last(ENDED, PAST, *self.past, TRACED)}"
        traced_now = f"max by (event_id) ({metric(EVENT_INFO, *self.info, TRACED)})"
        return [
            # Current events: those that an exporter sees, and those that none has seen lately,
            # although an exporter without a valid document goes on showing them.
            _cells_for(self.few, "row", first_vm(seen)),
            _cells_for(self.few_timed, "row", first_vm(with_status("not seen", unseen))),
            # Events that are away.
            _cells_for(self.rows_away, "row", first_vm(with_status("not seen", away))),
            # Past events: their texts, and how they ended, which is shown as their state.
            _cells_for(self.rows_past, "row", first_vm(past)),
            f'label_replace({outcome}, "event_status", "$1", "outcome", "(.*)")',
            # The traces of current and of past events, if a source of traces is chosen.
            cells("traced", with_trace(f"topk({MOST}, {traced_now})")),
            cells("traced", with_trace(traced_past)),
        ]

    def _numbers(self) -> list[str]:
        """Return the queries of the columns with numbers, for current and for past events."""
        due = f"1000 * min by (event_id) ({metric('event_approval_due_timestamp_seconds')})"
        announced = f"max by (event_id) ({metric('event_duration_seconds')})"
        was_announced = self.latest("event_duration_seconds")
        return [
            _cells_for(self.few_timed, "Approved", current_approval()),
            _cells_for(self.rows_past, "Approved", past_approval(*self.past)),
            _cells_for(self.few_timed, "Policy", due),
            _cells_for(self.few_timed, "Announced", announced),
            _cells_for(self.rows_past, "Announced", was_announced),
            _cells_for(self.few_timed, "Paused", f"max by (event_id) ({metric(PAUSE)})"),
            _cells_for(self.rows_past, "Paused", self.latest(PAUSE)),
        ]

    def of_past(self, column: str, vector: str) -> str:
        """Return the query of a column of past events."""
        return _cells_for(self.rows_past, column, vector)

    def latest(self, name: str) -> str:
        """Return the last value of a metric of each past event."""
        return f"max by (event_id) ({last(name, PAST, *self.past)})"


def _cells_for(rows: str, column: str, vector: str) -> str:
    """Return ``vector`` as cells of a column, for the events in ``rows`` only."""
    return cells(column, f"({vector}) and on (event_id) {rows}")


def notice(events: Events) -> str:
    """Return the query of the column Notice: the time from first seen to the last NotBefore."""
    given = f"{events.latest('event_not_before_timestamp_seconds')} - {events.latest(FIRST_SEEN)}"
    return events.of_past("Notice", f"clamp_min({given}, 0)")


def table(
    description: str, height: int, queries: Sequence[str], *, own: Sequence[str] = (), part: str
) -> g.Panel:
    """Return the table of the results of ``queries``.

    ``own``: titles of more columns, for the board of one VM, which has no column of VMs. ``part``
    is the section of the documentation that explains the table.
    """
    return panel(
        Table,
        titles.EVENTS,
        description,
        (24, height),
        instant(*queries),
        links=manual(part),
        # "At" is the moment of "When" once more: as a date, and not as the time until then.
        transformations=columns(_titles(own), "event_id", "vm", needed="When", again="At"),
        defaults={
            "noValue": "No event now, and none in the last 30 days, as far as exporters saw."
        },
        overrides=[*_overrides(), *_own_overrides(own)],
    )


def _titles(own: Sequence[str]) -> Mapping[str, str]:
    """Return the columns in their order, with their titles."""
    names = {
        "event_status": "State",
        "event_type": "Type",
        "When": "When",
        "At": "At",
    }
    if not own:
        names["resources"] = "VMs"
    names["Approved"] = "Approved"
    names["Policy"] = "Policy approves"
    names |= {name: name for name in own}
    return names | {
        "Announced": "Announced",
        "Paused": "Paused",
        "kind": "Kind",
        "description": "Description",
        "trace_id": "Trace",
    }


def _overrides() -> list[Json]:
    """Return the look of the columns that both boards have."""
    no_time = values({1000 * NO_TIME: ("no time given", "")})
    approved = values({code: (text, "") for code, text in APPROVED.items()})
    return [
        solid("State", mappings=colors(STATES), custom__width=95, custom__filterable=True),
        by_name("Type", links=[_TYPE_LINK], custom__width=90, custom__filterable=True),
        by_name("When", unit="dateTimeFromNow", mappings=no_time, custom__width=130),
        by_name("At", unit="dateTimeAsIsoNoDateIfToday", mappings=no_time, custom__width=150),
        by_name("Approved", mappings=approved, custom__width=115),
        by_name("Policy approves", unit="dateTimeFromNow", custom__width=118),
        by_name("Announced", unit="s", mappings=values({0: ("none", "")}), custom__width=90),
        by_name("Paused", unit="s", decimals=1, custom__width=70),
        by_name("Kind", mappings=pattern("(.*)_(.*)", "$1 $2"), custom__width=95),
        wrapped("Description", custom__minWidth=160),
        by_name("Trace", links=[_TRACE_LINK], mappings=pattern(".+", "open"), custom__width=60),
        *hidden("event_id", "vm"),
    ]


def _own_overrides(own: Sequence[str]) -> list[Json]:
    """Return the look of the columns that only one of the boards has."""
    if own:
        return [by_name(name, unit="s", decimals=0, custom__width=90) for name in own]
    return [wrapped("VMs", links=[vm_link("vm")], custom__width=130, custom__filterable=True)]
