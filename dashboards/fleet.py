"""The dashboard of the fleet: what happens now and next, to which VMs, and what happened."""

import grafanalib.core as g  # type: ignore[import-untyped] # it carries no types

from azure_scheduled_events_exporter.metrics.spec import PREFIX

from . import titles
from .board import (
    FLEET_BOARD,
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
from .events import Events, table
from .grafana import Table, columns, hidden_variable, instant, panel, text_variable, variable
from .queries import (
    DAY,
    ENDED,
    EVENT_IMPACT,
    EVENT_INFO,
    FIRST_SEEN,
    HELD,
    INSTANCE_INFO,
    JOB,
    MOST,
    NAMES,
    NOT_ADVISORY,
    NOT_BEFORE,
    OVER,
    OWN,
    PAST,
    SEEN,
    SELF,
    STARTED,
    UNENDED,
    VM_IMPACT,
    blind,
    cells,
    countdown,
    impacts,
    last,
    metric,
    or_quiet,
    selector,
    watch_variables,
    with_portal,
)
from .style import (
    FAILED,
    FINE,
    HAPPENING,
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
from .timeline import fleet_query, timeline

# Series of the chosen groups and, because of the last "|", those without a resource group: their
# exporters do not know theirs yet.
_GROUP = 'resource_group=~"$resource_group|"'
# Leaves out the series of exporters of other groups.
_ELSEWHERE = f"unless on (job, instance) {metric(INSTANCE_INFO, _GROUP.replace('=~', '!~'))}"
_CURRENT = metric(EVENT_INFO, _GROUP)
_TIMED = f"{metric(EVENT_IMPACT)} and on (event_id) {_CURRENT}"
# `few` has the most urgent events, and of those without a time as many as there is room for;
# `few_timed` has only events with a time, which makes the query shorter. `away` says which VMs the
# board shows.
_EVENTS = Events(
    current=_CURRENT,
    few=f"bottomk({MOST}, min by (event_id) ({impacts()}) and on (event_id) {_CURRENT})",
    few_timed=f"bottomk({MOST}, min by (event_id) ({_TIMED}))",
    info=[_GROUP],
    away=[_GROUP],
    past=[OWN],
    elsewhere=_ELSEWHERE,
)

# ---- VMs

_OWN_TIMES = selector("", f'__name__=~"{PREFIX}event_(started|seen).+"', SELF)
_OWN_EVENTS = f"count by (job, instance, event_id, event_type) ({_OWN_TIMES})"
"""1 for each current event, which has been seen; 2 for a Started one, which has a start too."""
# Exporters without an event. A blind one has the value 0 by blind(), so its state is 2 + 0. The
# others are quiet: their state is 1, the value of instance_info.
_QUIET = f"topk({MOST}, {metric(INSTANCE_INFO, _GROUP, JOB)})"
_OTHERS = (
    f"(2 + ({blind(JOB)}) or on (job, instance) {_QUIET})"
    f" unless on (job, instance) {metric(SEEN, SELF)}"
)
_VMS = f"topk({MOST}, (2 + {_OWN_EVENTS} or {_OTHERS}) {_ELSEWHERE})"
"""The rows of the table: for each event of a VM, and for each other VM, a number of ``_STATES``.

An event that is Scheduled has 2 + 1, and a Started one has 2 + 2.

Events are not joined by ``or on``: in VictoriaMetrics, an event that has just ended would get the
value of the other side.
"""
_WITH_EVENT_OR_BLIND = (
    f"and on (job, instance) topk({MOST}, ({_OWN_EVENTS} or on (job, instance) {blind(JOB)})"
    f" {_ELSEWHERE})"
)
"""Keeps only the VMs that have an event or a blind exporter.

Their rows lack the names, which further queries add. The row of a quiet VM needs none: its series
in ``_VMS`` is one of ``instance_info``, which has the names as labels.
"""
_STATES = {
    4: ("Started", HAPPENING),
    3: ("Scheduled", WAITING),
    2: ("no data", FAILED),
    1: ("quiet", FINE),
}


def _vms() -> list[str]:
    """Return the queries of the table of VMs: its rows, their names, and when events begin."""
    ended = f"unless on (event_id, job, instance) {last(ENDED, HELD)}"
    current = f"1000 * {last(VM_IMPACT, HELD)} {ended}"
    return [
        f"sort_desc({cells('Now', _VMS)})",
        cells("row", with_portal(f"{last(INSTANCE_INFO, NAMES)} {_WITH_EVENT_OR_BLIND}")),
        cells("When", f"topk({MOST}, {current} {_WITH_EVENT_OR_BLIND})"),
    ]


# ---- Numbers

_BLIND = f"(count({blind(JOB)}) or on () vector(0))"
# A series with the number of exporters as its label "all", which the panel shows as its name.
_ALL = f'count_values("all", sum({selector("$sees", JOB)}) + {_BLIND})'
# The events that have not started and have not ended.
_WAITING = (
    f"{metric(EVENT_INFO, _GROUP, NOT_ADVISORY)} unless on (event_id) ({metric(STARTED)} or {OVER})"
)


def _count_vms(events: str) -> str:
    """Return the query of how many VMs some events name in Resources.

    ``events`` is an expression whose series have the EventIds of these events.
    """
    return or_quiet(
        f"sum(max by (event_id) ({metric('event_resources')} and on (event_id) ({events})))"
    )


def _by_type(outcome: str) -> str:
    """Return the query of how many events of each type ended with ``outcome``, a matcher."""
    ended = f"{last(ENDED, PAST, OWN, outcome)} {_ELSEWHERE}"
    return f"count by (event_type) (group by (event_id, event_type) ({ended}))"


def _notice() -> str:
    """Return the query of the least notice of each type, in seconds."""
    not_before = f"max by (event_id, event_type) ({last(NOT_BEFORE, PAST, OWN)})"
    first_seen = f"max by (event_id, event_type) ({last(FIRST_SEEN, PAST, OWN)})"
    return f"min by (event_type) (clamp_min({not_before} - {first_seen}, 0))"


# How many events were first seen in each day. DAY reads the day that begins at the moment of the
# query, time(). Events that were first seen before it have series in that day, too: the comparison
# leaves them out.
_DAYS = (
    f"count(max by (event_id) (max_over_time({metric(FIRST_SEEN, OWN)}{DAY}) {_ELSEWHERE})"
    " >= time())"
)


def fleet() -> Json:
    """Return the dashboard."""
    return board(
        FLEET_BOARD,
        "What Azure is about to do to which VMs, when, who approved it, what happened, and whether"
        " exporters see IMDS.",
        [
            *_numbers(),
            _table_of_events(),
            _timeline(),
            _table_of_vms(),
            bars(_DAYS, width=12),
            _types(),
        ],
        [
            variable(
                "resource_group",
                "Resource group",
                f"label_values({metric(INSTANCE_INFO)}, resource_group)",
                all_value=".*",
            ),
            hidden_variable("job", f"label_values({metric('build_info')}, job)"),
            *watch_variables(),
            text_variable("traces", "Traces (UID of Tempo)"),
        ],
        marked=[_GROUP],
    )


_COUNTED = "A VM counts for each event that names it, whether it has an exporter or not."


def _numbers() -> list[g.Panel]:
    """Return the first row: what comes next, how many VMs it concerns, and whether that is all."""
    return [
        next_impact(
            countdown(f"{metric(EVENT_IMPACT)} and on (event_id) {_WAITING}"),
            "Time to the earliest NotBefore of all Scheduled events, or any moment once one is"
            " approved. Azure starts no event before its NotBefore, unless it is approved.",
            6,
        ),
        stat(
            titles.VMS_STARTED,
            f"VMs with an event that has started. {_COUNTED}",
            6,
            _count_vms(f"{metric(STARTED)} and on (event_id) {_CURRENT} {UNENDED}"),
            links=manual("vms"),
            thresholds=steps(NEUTRAL, (1, HAPPENING)),
            mappings=in_doubt("0"),
        ),
        stat(
            titles.VMS_SCHEDULED,
            f"VMs with an event that has not started. {_COUNTED}",
            6,
            _count_vms(_WAITING),
            links=manual("vms"),
            thresholds=steps(NEUTRAL, (1, WAITING)),
            mappings=in_doubt("0"),
        ),
        stat(
            titles.ALL_SEE_IMDS,
            "Exporters that Prometheus cannot scrape, or whose last poll of IMDS failed. Their VMs'"
            " events may be missing.",
            6,
            f"{_BLIND} * on () group_left (all) ({_ALL}) or on () vector({UNKNOWN:.0f})",
            legend="{{all}} exporters:",
            text="value_and_name",
            unit="suffix: blind",
            links=runbook("AzureScheduledEventExporterDown"),
            thresholds=steps(FINE, (1, FAILED)),
            mappings=values({0: ("all", FINE), UNKNOWN: ("none known", FAILED)}),
        ),
    ]


def _table_of_events() -> g.Panel:
    """Return the table of current and past events."""
    return table(
        "Current events first, the most urgent on top, then those that ended in the last 30 days."
        " When: the start of the impact, its approval, or NotBefore; the end of a past event."
        " Announced, Paused: how long Azure said, and the longest pause that a VM measured."
        " not seen: no exporter sees the event any more, and none saw its end; its VM may be away"
        " with it.",
        11,
        _EVENTS.queries(),
        part="events",
    )


def _timeline() -> g.Panel:
    """Return the timeline of VMs with an event."""
    return timeline(
        "At most 50 VMs that had an event in the time range. An event of kind harmless is on the"
        " board of its VM only.",
        6,
        fleet_query(_GROUP),
        "{{vm_name}}",
    )


_VM_COLUMNS = {
    "Now": "Now",
    "vm_name": "VM",
    "event_type": "Event",
    "When": "When",
    "scale_set": "Scale set",
    "zone": "Zone",
    "resource_group": "Resource group",
    "instance": "Status page",
    "portal": "Azure portal",
}


def _table_of_vms() -> g.Panel:
    """Return the table of VMs."""
    return panel(
        Table,
        titles.VMS,
        "VMs with an event first, then those whose exporter has no current data, then quiet ones;"
        " at most 50 rows. When: the start of the event, its approval, or NotBefore.",
        (24, 9),
        instant(*_vms()),
        links=manual("vms"),
        transformations=columns(_VM_COLUMNS, "subscription_id", "event_id", needed="Now"),
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
    """Return the table of how the events of each type ended."""
    outcomes = ("Completed", "Cancelled", "Lost")
    return panel(
        Table,
        titles.BY_TYPE,
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
