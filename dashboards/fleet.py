"""The dashboard of the fleet: what happens now and next, to which VMs and when, and what happened."""

import grafanalib.core as g  # type: ignore[import-untyped] # it carries no types

from .board import (
    FLEET,
    PORTAL_LINK,
    STATUS_LINK,
    bars,
    board,
    in_doubt,
    manual,
    next_impact,
    runbook,
    solid,
    stat,
    vm_link,
)
from .events import events_table, row_variables
from .grafana import COLUMN, columns, found_variable, hidden_variable, table, text_variable, variable
from .queries import (
    DAY,
    DOUBT,
    ENDED,
    FIRST_SEEN,
    HELD,
    IMPACT,
    JOB,
    MOST,
    NAMES,
    NOT_BEFORE,
    OWN,
    PAST,
    STARTED,
    VM,
    blindness,
    cells,
    countdown,
    last,
    metric,
    or_quiet,
    selector,
    times,
    with_portal,
)
from .style import BLIND, FINE, NEUTRAL, UNKNOWN, WAITING, Json, by_name, hidden, pattern, steps, values
from .style import IMPACT as HAPPENS

_GROUP = 'resource_group=~"$resource_group|"'
_ELSEWHERE = f"unless on (job, instance) {metric(VM, _GROUP.replace('=~', '!~'))}"
_ENDED = f"unless on (event_id) {metric(ENDED)}"

# ---- Rows of the tables ---------------------------------------------------------------------------------------------

_EVENTS = row_variables(
    f"({times()}) {_ELSEWHERE}", last(IMPACT, HELD, _GROUP), f"{last(ENDED, PAST, OWN)} {_ELSEWHERE}"
)
_ROWS = 'instance=~"$rows"'
_SELF = 'scope="self"'


def _states(*matchers: str) -> str:
    """The state of each VM, one of :data:`_STATES`."""
    event = f"4 * {metric(STARTED, _SELF, *matchers)} ^ 0 or 3 + 0 * {metric(FIRST_SEEN, _SELF, *matchers)}"
    other = f"2 - {metric('up', JOB, *matchers)} or on (job, instance) 2 + 0 * {selector('up', JOB, *matchers)}"
    return f"topk({MOST}, ({event} or on (job, instance) ({other})) {_ELSEWHERE})"


_STATES = {4: ("Started", HAPPENS), 3: ("Scheduled", WAITING), 2: ("no data", BLIND), 1: ("quiet", FINE)}


def _vms() -> list[str]:
    impact = f"1000 * max by (event_id, event_type, job, instance) ({last(IMPACT, HELD, _ROWS)})"
    current = f"{impact} unless on (event_id, job, instance) {last(ENDED, HELD, _ROWS)}"
    return [
        f"sort_desc({cells('Now', _states(_ROWS))})",
        cells("row", with_portal(f"topk by (job, instance) (1, {last(VM, NAMES, _ROWS)})")),
        cells("When", f"topk({MOST}, {current})"),
    ]


# ---- Numbers --------------------------------------------------------------------------------------------------------


def _first(name: str) -> str:
    """One value of each event: what is combined afterwards are events, not what each of 10,000 exporters shows."""
    return f"min by (event_id) ({metric(name)} {_ELSEWHERE})"


_BLIND = f'sum({blindness(JOB)}) * on () group_left (all) count_values("all", count({blindness(JOB)}))'
_WAITING = f"{_first(NOT_BEFORE)} unless on (event_id) min by (event_id) ({metric(STARTED)}) {_ENDED}"


def _by_type() -> str:
    """The number of events of each type in a column for each outcome."""
    ended = last(ENDED, PAST, OWN, 'outcome!="withdrawn"')
    count = f"count by (event_type, outcome) (group by (event_id, event_type, outcome) ({ended} {_ELSEWHERE}))"
    return f'label_replace({count}, "{COLUMN}", "$1", "outcome", "(.*)")'


_OUTCOMES = {"completed": "Completed", "cancelled": "Cancelled", "lost": "Lost"}


def _notice() -> str:
    both = (
        f"max by (event_id, event_type) ({each})" for each in (last(NOT_BEFORE, PAST, OWN), last(FIRST_SEEN, PAST, OWN))
    )
    return f"min by (event_type) (clamp_min({' - '.join(both)}, 0))"


_DAYS = f"count(max by (event_id) (max_over_time({metric(FIRST_SEEN, OWN)}{DAY}) {_ELSEWHERE}) >= time())"


def fleet() -> Json:
    """Return the dashboard."""
    return board(
        FLEET,
        "What Azure is about to do to which VMs, when, who approved it, what happened, and whether exporters see IMDS.",
        [*_answer(), _events(), _table_of_vms(), bars(_DAYS, 12), _types()],
        [
            variable("resource_group", "Resource group", f"label_values({metric(VM)}, resource_group)", all_value=".*"),
            hidden_variable("job", f"label_values({metric('build_info')}, job)"),
            *_EVENTS,
            found_variable("rows", f"group by (instance) ({_states()})", "instance"),
            found_variable("doubt", DOUBT),
            text_variable("traces", "Traces (UID of Tempo)"),
        ],
    )


def _answer() -> list[g.Panel]:
    return [
        next_impact(
            countdown(_WAITING),
            "Time to the earliest NotBefore of all Scheduled events. Azure starts no event before its NotBefore, "
            "unless it is approved.",
        ),
        *(
            stat(
                f"VMs, event {state}",
                f"VMs with an event that has {what}. A VM counts for each event that names it, whether it has an "
                "exporter or not.",
                6,
                or_quiet(f"sum(max by (event_id) ({metric('event_resources')}) and on (event_id) ({of}))"),
                links=manual("vms"),
                thresholds=steps(NEUTRAL, (1, color)),
                mappings=in_doubt("0"),
            )
            for state, what, of, color in (
                ("Started", "started", f"{_first(STARTED)} {_ENDED}", HAPPENS),
                ("Scheduled", "not started", _WAITING, WAITING),
            )
        ),
        stat(
            "Do exporters see IMDS?",
            "Exporters that Prometheus cannot scrape, or whose last poll of IMDS failed. Their VMs' events may be "
            "missing.",
            6,
            f"{_BLIND} or on () vector({UNKNOWN:.0f})",
            legend="{{all}} exporters:",
            text="value_and_name",
            unit="suffix: blind",
            links=runbook("AzureScheduledEventExporterDown"),
            thresholds=steps(FINE, (1, BLIND)),
            mappings=values({0: ("all", FINE), UNKNOWN: ("none known", BLIND)}),
        ),
    ]


def _events() -> g.Panel:
    return events_table(
        "Current events first, the most urgent on top, then those that ended in the last 30 days. When: NotBefore of a "
        "Scheduled event, the start of a Started one, the end of a past one. not seen: no exporter shows the event, "
        "and none saw its end; its VM may be away with it.",
        11,
        manual("events"),
        [OWN],
    )


def _table_of_vms() -> g.Panel:
    return table(
        "VMs",
        "VMs with an event first, then those whose exporter has no current data, then quiet ones; at most 50 rows. "
        "When: the start of the event, its approval, or NotBefore.",
        (24, 9),
        _vms(),
        columns(
            {
                "Now": "Now",
                "vm_name": "VM",
                "event_type": "Event",
                "When": "When",
                "scale_set": "Scale set",
                "zone": "Zone",
                "resource_group": "Resource group",
                "instance": "Status page",
                "portal": "Azure portal",
            },
            "subscription_id",
            "event_id",
            needed="Now",
        ),
        links=manual("vms"),
        noValue="No exporter is known: Prometheus scrapes none, or none of the chosen resource group.",
        overrides=[
            solid("Now", mappings=values(_STATES), custom__width=110),
            by_name("VM", links=[vm_link("VM")], custom__minWidth=120, custom__filterable=True),
            by_name("Event", custom__width=100),
            by_name("When", unit="dateTimeFromNow", custom__width=140),
            by_name("Scale set", custom__filterable=True),
            by_name("Zone", custom__width=70),
            by_name("Status page", links=[STATUS_LINK], custom__minWidth=150),
            by_name("Azure portal", links=[PORTAL_LINK], mappings=pattern(".+", "open"), custom__width=120),
            *hidden("subscription_id", "event_id"),
        ],
    )


def _types() -> g.Panel:
    return table(
        "By type, last 30 days",
        "Events that ended in the last 30 days, each once, by how they ended: lost means that nobody was polling "
        "when it disappeared. Least notice: from first seen to NotBefore.",
        (12, 8),
        [_by_type(), cells("Least notice", _notice())],
        columns(
            {
                "event_type": "Type",
                **_OUTCOMES,
                "Least notice": "Least notice",
            }
        ),
        links=manual("history"),
        decimals=0,
        noValue="No event of a VM with an exporter ended in the last 30 days.",
        overrides=[
            by_name("Type", custom__minWidth=90),
            *(by_name(title, noValue="0", custom__width=95) for title in _OUTCOMES.values()),
            by_name("Least notice", unit="s", noValue="none given", custom__minWidth=100),
        ],
    )
