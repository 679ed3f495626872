"""What the three dashboards share: addresses, variables, marks, links, and the panel of events."""

from collections.abc import Iterable, Sequence

from . import event_queries
from .grafana import (
    annotation,
    dashboard,
    dashboard_link,
    datasource_variable,
    variable,
    web_link,
)
from .panel import Panel, Query, Row
from .selection import PREFIX
from .style import (
    APPROVALS,
    APPROVED,
    BLIND,
    FINE,
    IMPACT,
    NEUTRAL,
    STATES,
    WAITING,
    Json,
    by_name,
    hidden,
    pattern,
    steps,
    texts,
    values,
)

FLEET, VM, EXPORTER = (f"azure-scheduled-events-{name}" for name in ("fleet", "vm", "exporter"))
TAG = "azure-scheduled-events"
_DOCUMENTATION = "https://github.com/azure-scheduled-events-exporter/azure-scheduled-events-exporter/blob/main/docs"
SOON_SECONDS = 300
COUNTDOWN_UNIT = "dtdhms"
COUNTDOWN_STEPS = steps(IMPACT, (SOON_SECONDS, WAITING))
OVERDUE: Json = {
    "type": "range",
    "options": {"from": None, "to": -1, "result": {"text": "any moment", "color": IMPACT}},
}
_BUILD = f'{PREFIX}build_info{{job=~"$job"}}'
_PLACED = f'{PREFIX}instance_info{{job=~"$job", resource_group=~"$resource_group"'


def board(
    uid: str,
    title: str,
    description: str,
    parts: Iterable[Panel | Row],
    *,
    time_from: str,
    one_vm: bool = False,
    tracing: bool = True,
) -> Json:
    """Return a dashboard with the variables, marks and links that all have; ``one_vm`` lets only one be chosen."""
    vms = f'label_values({_PLACED}, scale_set=~"$scale_set"}}, vm_name)'
    traces = [datasource_variable("traces", "Traces", "tempo")] if tracing else []
    return dashboard(
        uid=uid,
        title=title,
        description=description,
        parts=parts,
        time_from=time_from,
        refresh="30s",
        tags=[TAG],
        variables=[
            datasource_variable("datasource", "Data source", "prometheus"),
            *traces,
            variable("job", "Job", f"label_values({PREFIX}build_info, job)", all_value=".+"),
            variable(
                "resource_group",
                "Resource group",
                f'label_values({PREFIX}instance_info{{job=~"$job"}}, resource_group)',
                all_value=".*",
            ),
            variable("scale_set", "Scale set", f"label_values({_PLACED}}}, scale_set)", all_value=".*"),
            variable("vm", "VM", vms, all_value=None if one_vm else ".+"),
            variable("instance", "Instance", f"label_values({_BUILD}, instance)", all_value=".+"),
        ],
        annotations=[
            annotation("Detected", event_queries.DETECTED, WAITING, "{{event_type}} announced"),
            annotation("Started", event_queries.BEGUN, IMPACT, "{{event_type}} started"),
            annotation("Ended", event_queries.ENDED, NEUTRAL, "{{event_type}} ended"),
        ],
        links=[
            *(
                dashboard_link(name, other, tooltip)
                for name, other, tooltip in (
                    ("Fleet", FLEET, "What is about to happen to which VMs"),
                    ("VM", VM, "One machine"),
                    ("Exporters", EXPORTER, "Is the watcher well"),
                )
                if other != uid
            ),
        ],
    )


def runbook(alert: str) -> list[Json]:
    """Return the link to the runbook of one of our alerts."""
    return [web_link(f"Runbook: {alert}", f"{_DOCUMENTATION}/runbooks/{alert}.md")]


def manual(part: str) -> list[Json]:
    """Return the link to what the documentation says about a part of a dashboard."""
    return [web_link("What this shows", f"{_DOCUMENTATION}/dashboards.md#{part}")]


def vm_link(field: str) -> list[Json]:
    """Return the link from a table cell to the dashboard of the VM that stands in another field of the row."""
    kept = "${datasource:queryparam}&${job:queryparam}&${__url_time_range}"
    return [{"title": "VM dashboard", "url": f"/d/{VM}?{kept}&var-vm=${{__data.fields.{field}}}"}]


def trace_link() -> list[Json]:
    """Return the link from a table cell to the trace of the event in Explore."""
    panes = (
        '{"t":{"datasource":"${traces}","queries":[{"refId":"A","datasource":{"type":"tempo","uid":"${traces}"},'
        '"queryType":"traceql","query":"${__data.fields.trace_id}"}],"range":{"from":"now-7d","to":"now"}}}'
    )
    return [{"title": "Trace of the event", "url": f"/explore?schemaVersion=1&panes={panes}", "targetBlank": True}]


def solid(name: str, *, mappings: Sequence[Json], width: int) -> Json:
    """Return the override of a column whose cells are painted by their value."""
    return by_name(
        name,
        mappings=list(mappings),
        custom__cellOptions={"type": "color-background", "mode": "basic"},
        custom__width=width,
    )


def countdown(name: str, width: int = 110, *, without: str = "now") -> Json:
    """Return the override of a column of seconds until NotBefore; ``without`` is said where there is none."""
    return by_name(
        name,
        unit=COUNTDOWN_UNIT,
        thresholds=COUNTDOWN_STEPS,
        mappings=[OVERDUE, {"type": "special", "options": {"match": "null", "result": {"text": without}}}],
        custom__cellOptions={"type": "color-background", "mode": "basic"} if without == "now" else {"type": "auto"},
        custom__width=width,
    )


def columns(names: dict[str, str], *dropped: str) -> list[Json]:
    """Return the transformations that make one table of all queries, with ``names`` for its columns, in their order."""
    return [
        {"id": "merge", "options": {}},
        {
            "id": "organize",
            "options": {
                "excludeByName": dict.fromkeys(("Time", *dropped), True),
                "indexByName": {name: index for index, name in enumerate(names)},
                "renameByName": {name: title for name, title in names.items() if title},
            },
        },
    ]


def events_panel(at: tuple[int, int, int, int], queries: Sequence[str], empty: str) -> Panel:
    """Return the table of current events: a query that gives its rows, then those of ``event_columns``."""
    return Panel(
        "table",
        "Events now",
        "Every event that IMDS announces or that has started, once, whoever sees it. 'Unwatched' counts the VMs it "
        "hits whose own exporter does not show it; 'Seen by' the exporters that see IMDS now and show it. When only "
        "blind ones remember it, it may be over. The VMs lead to the first one's dashboard, the EventId to the trace.",
        at,
        [Query(expr, table=True) for expr in queries],
        "none",
        links=manual("events-now"),
        transformations=columns(
            {
                "Value #A": "State",
                "event_type": "Type",
                "Value #B": "Starts in",
                "resources": "VMs",
                "Value #D": "VMs hit",
                "Value #F": "Impact",
                "Value #C": "NotBefore",
                "Value #G": "Approved",
                "approver": "By exporter of",
                "event_source": "Source",
                "Value #E": "Unwatched",
                "Value #I": "Seen by",
                "description": "Description",
                "event_id": "EventId",
                "first_vm": "",
                "trace_id": "",
            },
            "Value #H",
            "vm_name",
        ),
        options={"sortBy": [{"displayName": "Starts in", "desc": False}]},
        defaults={"noValue": empty},
        overrides=[
            solid("State", mappings=values(STATES), width=90),
            by_name("Type", custom__width=95),
            countdown("Starts in"),
            by_name("VMs", links=vm_link("first_vm"), custom__minWidth=150),
            by_name("VMs hit", custom__width=70),
            by_name("Impact", unit="s", noValue="unknown", mappings=_NO_IMPACT, custom__width=80),
            by_name("NotBefore", unit="dateTimeAsIsoNoDateIfToday", noValue="past", custom__width=155),
            by_name(
                "Approved",
                mappings=values(APPROVALS),
                custom__cellOptions={"type": "color-text"},
                custom__width=175,
            ),
            by_name("By exporter of", custom__width=110, noValue=" "),
            by_name("Source", custom__width=75),
            by_name(
                "Unwatched",
                thresholds=steps(NEUTRAL, (1, BLIND)),
                custom__cellOptions={"type": "color-text"},
                custom__width=90,
            ),
            by_name(
                "Seen by",
                mappings=values({0: ("blind only", BLIND)}),
                custom__cellOptions={"type": "color-text"},
                thresholds=steps(NEUTRAL),
                custom__width=85,
            ),
            by_name("EventId", links=trace_link(), mappings=pattern("^(.{8}).*", "$1 …"), custom__width=105),
            by_name("Description", custom__minWidth=150),
            *hidden("first_vm", "trace_id"),
        ],
    )


_NO_IMPACT = [{"type": "value", "options": {"0": {"text": "none", "color": FINE, "index": 0}}}]
APPROVED_BY = texts(
    {
        "exporter": ("an exporter", APPROVED),
        "operator": ("an operator", APPROVED),
        "external": ("elsewhere", APPROVED),
        "deadline": ("nobody: NotBefore came", IMPACT),
    }
)
