"""The dashboard of the fleet: what happens now and next, to which VMs and when, and what happened."""

import grafanalib.core as g  # type: ignore[import-untyped] # it carries no types

from azure_scheduled_events_exporter.metrics.spec import PREFIX

from .board import (
    FLEET,
    PORTAL_LINK,
    STATUS_LINK,
    bars,
    board,
    events,
    in_doubt,
    manual,
    next_impact,
    runbook,
    solid,
    stat,
    vm_link,
)
from .grafana import Table, columns, hidden_variable, instant, panel, text_variable, variable
from .queries import (
    DAY,
    ENDED,
    FIRST_SEEN,
    HAPPENS_AT,
    HELD,
    IMPACT,
    INFO,
    JOB,
    MOST,
    NAMES,
    NOT_BEFORE,
    OWN,
    PAST,
    STARTED,
    STARTED_FIRST,
    TRACED,
    VM,
    approval,
    blind,
    cells,
    countdown,
    first_vm,
    last,
    metric,
    one,
    or_quiet,
    selector,
    times,
    watch_variables,
    with_portal,
    with_trace,
)
from .style import (
    BLIND,
    FINE,
    NEUTRAL,
    UNKNOWN,
    WAITING,
    Json,
    by_name,
    hidden,
    pattern,
    steps,
    values,
)
from .style import IMPACT as HAPPENS

_ROWS = MOST // 2
_GROUP = 'resource_group=~"$resource_group|"'
_ELSEWHERE = f"unless on (job, instance) {metric(VM, _GROUP.replace('=~', '!~'))}"
_ENDED = f"unless on (event_id) {metric(ENDED)}"

# ---- Events: the rows of each part of the table, and its columns
# ----------------------------------------------------


def _times(*matchers: str) -> str:
    return f"min by (event_id) (({times(*matchers)}) {_ELSEWHERE})"


_NOW = f"bottomk({_ROWS}, {_times()} {_ENDED})"
_TIMED = f"bottomk({_ROWS}, min by (event_id) ({selector('', HAPPENS_AT)} {_ELSEWHERE}))"
"""Those of which IMDS gives a time."""
_AWAY = (
    f"topk({_ROWS}, max by (event_id) ({last(IMPACT, HELD, _GROUP)}) unless on (event_id)"
    f" {metric(FIRST_SEEN)} unless on (event_id) {last(ENDED, HELD)})"
)
"""Events that nobody shows any more and nobody saw end: their VMs may be away with them."""


def _rows_over(*matchers: str) -> str:
    return f"topk({_ROWS}, max by (event_id) ({last(ENDED, PAST, OWN, *matchers)} {_ELSEWHERE}))"


_ROWS_OVER = _rows_over()
_OVER = f"{_ROWS_OVER} unless on (event_id) ({metric(FIRST_SEEN, OWN)} {_ENDED})"
"""Without those that have returned, as far as own exporters see."""
_TEXTS = "group by (event_id, event_type, resources, description)"
_SELF = 'scope="self"'


def _of(rows: str, column: str, vector: str) -> str:
    return cells(column, f"({vector}) and on (event_id) {rows}")


def _when(rows: str, texts: str) -> str:
    """Return the column When of current events, sorted by it: ``rows`` has the times, ``texts`` the value 1."""
    return f"sort({cells('When', f'1000 * {texts} * on (event_id) group_left () {rows}')})"


def _events() -> list[str]:
    not_seen = f'label_replace({one(last(INFO, HELD, _SELF))}, "event_status", "not seen", "", "")'
    outcome = (
        f"{one(f'group by (event_id, outcome) ({last(ENDED, PAST, OWN)})')} and on (event_id)"
        f" {_ROWS_OVER}"
    )
    policy = cells(
        "Policy", f"1000 * min by (event_id) ({metric('event_approval_due_timestamp_seconds')})"
    )
    impact = cells("Impact", f"max by (event_id) ({metric('event_duration_seconds')})")
    return [
        _when(_NOW, first_vm(one(STARTED_FIRST))),
        _when(_AWAY, not_seen),
        f"sort_desc({cells('When', f'1000 * ({_OVER})')})",
        _of(_ROWS_OVER, "row", first_vm(one(f"{_TEXTS} ({last(INFO, PAST, OWN)})"))),
        f'label_replace({cells("row", outcome)}, "event_status", "$1", "outcome", "(.*)")',
        cells("traced", with_trace(f"bottomk({_ROWS}, {_times(TRACED)})")),
        cells("traced", with_trace(_rows_over(TRACED))),
        _of(_TIMED, "Approved", approval()),
        _of(_ROWS_OVER, "Approved", approval(PAST, OWN)),
        f"({policy} or {impact}) and on (event_id) {_TIMED}",
        _of(
            _ROWS_OVER, "Impact", f"max by (event_id) ({last('event_duration_seconds', PAST, OWN)})"
        ),
    ]


# ---- VMs
# ------------------------------------------------------------------------------------------------------------

_OWN_TIMES = selector("", f'__name__=~"{PREFIX}event_(started|first_seen).+"', _SELF)
_OWN_EVENTS = f"count by (job, instance, event_id, event_type) ({_OWN_TIMES})"
"""A current event has one of the times, a Started one both."""
_QUIET = f"topk({MOST}, {metric(VM, _GROUP, JOB)})"
_OTHERS = (
    f"(2 + ({blind(JOB)}) or on (job, instance) {_QUIET}) unless on (job, instance) {_OWN_TIMES}"
)
_VMS = f"topk({MOST}, (2 + {_OWN_EVENTS} or {_OTHERS}) {_ELSEWHERE})"
"""Events are not joined by ``or on``: in VictoriaMetrics, one that has just ended would get the other side's value."""
_FIRST = (
    f"and on (job, instance) topk({MOST}, ({_OWN_EVENTS} or on (job, instance) {blind(JOB)})"
    f" {_ELSEWHERE})"
)
"""Without quiet VMs, which bring their names along."""
_STATES = {
    4: ("Started", HAPPENS),
    3: ("Scheduled", WAITING),
    2: ("no data", BLIND),
    1: ("quiet", FINE),
}


def _vms() -> list[str]:
    current = f"1000 * {last(IMPACT, HELD)} unless on (event_id, job, instance) {last(ENDED, HELD)}"
    return [
        f"sort_desc({cells('Now', _VMS)})",
        cells("row", with_portal(f"{last(VM, NAMES)} {_FIRST}")),
        cells("When", f"topk({MOST}, {current} {_FIRST})"),
    ]


# ---- Numbers
# --------------------------------------------------------------------------------------------------------


def _first(name: str) -> str:
    """One value of each event: what is combined afterwards are events, not what each of 10,000 exporters shows."""
    return f"min by (event_id) ({metric(name)} {_ELSEWHERE})"


_BLIND = f"(count({blind(JOB)}) or on () vector(0))"
_ALL = f'count_values("all", sum({selector("$sees", JOB)}) + {_BLIND})'
_WAITING = f"{_first(NOT_BEFORE)} unless on (event_id) {metric(STARTED)} {_ENDED}"


def _count(of: str) -> str:
    """The number of VMs in Resources of the events ``of``."""
    return or_quiet(
        f"sum(max by (event_id) ({metric('event_resources')}) and on (event_id) ({of}))"
    )


def _by_type(outcome: str) -> str:
    ended = f"{last(ENDED, PAST, OWN, outcome)} {_ELSEWHERE}"
    return f"count by (event_type) (group by (event_id, event_type) ({ended}))"


def _notice() -> str:
    both = (
        f"max by (event_id, event_type) ({each})"
        for each in (last(NOT_BEFORE, PAST, OWN), last(FIRST_SEEN, PAST, OWN))
    )
    return f"min by (event_type) (clamp_min({' - '.join(both)}, 0))"


_DAYS = (
    f"count(max by (event_id) (max_over_time({metric(FIRST_SEEN, OWN)}{DAY}) {_ELSEWHERE}) >="
    " time())"
)


def fleet() -> Json:
    """Return the dashboard."""
    return board(
        FLEET,
        "What Azure is about to do to which VMs, when, who approved it, what happened, and whether"
        " exporters see IMDS.",
        [*_answer(), _table_of_events(), _table_of_vms(), bars(_DAYS, 12), _types()],
        [
            variable(
                "resource_group",
                "Resource group",
                f"label_values({metric(VM)}, resource_group)",
                all_value=".*",
            ),
            hidden_variable("job", f"label_values({metric('build_info')}, job)"),
            *watch_variables(),
            text_variable("traces", "Traces (UID of Tempo)"),
        ],
    )


def _answer() -> list[g.Panel]:
    vms = "A VM counts for each event that names it, whether it has an exporter or not."
    return [
        next_impact(
            countdown(_WAITING),
            "Time to the earliest NotBefore of all Scheduled events. Azure starts no event before"
            " its NotBefore, unless it is approved.",
            6,
        ),
        stat(
            "VMs, event Started",
            f"VMs with an event that has started. {vms}",
            6,
            _count(f"{_first(STARTED)} {_ENDED}"),
            links=manual("vms"),
            thresholds=steps(NEUTRAL, (1, HAPPENS)),
            mappings=in_doubt("0"),
        ),
        stat(
            "VMs, event Scheduled",
            f"VMs with an event that has not started. {vms}",
            6,
            _count(_WAITING),
            links=manual("vms"),
            thresholds=steps(NEUTRAL, (1, WAITING)),
            mappings=in_doubt("0"),
        ),
        stat(
            "Do exporters see IMDS?",
            "Exporters that Prometheus cannot scrape, or whose last poll of IMDS failed. Their VMs'"
            " events may be missing.",
            6,
            f"{_BLIND} * on () group_left (all) ({_ALL}) or on () vector({UNKNOWN:.0f})",
            legend="{{all}} exporters:",
            text="value_and_name",
            unit="suffix: blind",
            links=runbook("AzureScheduledEventExporterDown"),
            thresholds=steps(FINE, (1, BLIND)),
            mappings=values({0: ("all", FINE), UNKNOWN: ("none known", BLIND)}),
        ),
    ]


def _table_of_events() -> g.Panel:
    return events(
        "Current events first, the most urgent on top, then those that ended in the last 30 days."
        " When: NotBefore of a Scheduled event, the start of a Started one, the end of a past one."
        " not seen: no exporter shows the event, and none saw its end; its VM may be away with it.",
        11,
        _events(),
        manual("events"),
    )


def _table_of_vms() -> g.Panel:
    return panel(
        Table,
        "VMs",
        "VMs with an event first, then those whose exporter has no current data, then quiet ones;"
        " at most 50 rows. When: the start of the event, its approval, or NotBefore.",
        (24, 9),
        instant(*_vms()),
        links=manual("vms"),
        transformations=columns(
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
        defaults={
            "noValue": (
                "No exporter is known: Prometheus scrapes none, or none of the chosen resource"
                " group."
            )
        },
        overrides=[
            solid("Now", mappings=values(_STATES), custom__width=110),
            by_name("VM", links=[vm_link("VM")], custom__minWidth=120, custom__filterable=True),
            by_name("Event", custom__width=100),
            by_name("When", unit="dateTimeFromNow", custom__width=140),
            by_name("Scale set", custom__filterable=True),
            by_name("Zone", custom__width=70),
            by_name("Status page", links=[STATUS_LINK], custom__minWidth=150),
            by_name(
                "Azure portal",
                links=[PORTAL_LINK],
                mappings=pattern(".+", "open"),
                custom__width=120,
            ),
            *hidden("subscription_id", "event_id"),
        ],
    )


def _types() -> g.Panel:
    outcomes = ("Completed", "Cancelled", "Lost")
    return panel(
        Table,
        "By type, last 30 days",
        "Events that ended in the last 30 days, each once, by how they ended: lost means that"
        " nobody was polling when it disappeared. Least notice: from first seen to NotBefore.",
        (12, 8),
        instant(
            *(cells(title, _by_type(f'outcome="{title.lower()}"')) for title in outcomes),
            cells("Least notice", _notice()),
        ),
        links=manual("history"),
        transformations=columns(
            {
                "event_type": "Type",
                **{title: title for title in outcomes},
                "Least notice": "Least notice",
            }
        ),
        defaults={
            "decimals": 0,
            "noValue": "No event of a VM with an exporter ended in the last 30 days.",
        },
        overrides=[
            by_name("Type", custom__minWidth=90),
            *(by_name(title, noValue="0", custom__width=95) for title in outcomes),
            by_name("Least notice", unit="s", noValue="none given", custom__minWidth=100),
        ],
    )
