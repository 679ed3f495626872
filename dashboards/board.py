"""What the three dashboards share: variables, marks, links, and how tables look."""

from collections.abc import Mapping, Sequence

import grafanalib.core as g  # type: ignore[import-untyped] # it carries no types

from alerts import resolve
from alerts.rule import Dashboard

from . import fleet_queries
from .grafana import (
    SCHEMA_VERSION,
    annotation,
    dashboard_link,
    datasource_variable,
    laid_out,
    plain,
    web_link,
)
from .recorded import EXPORTER_INFO
from .style import BLIND, FINE, IMPACT, NEUTRAL, STATES, WAITING, Json, by_name, hidden, pattern, steps, values

FLEET, VM, EXPORTER = (str(uid) for uid in (Dashboard.FLEET, Dashboard.VM, Dashboard.EXPORTER))
HISTORY = "30d"
SOON_SECONDS = 300
COUNTDOWN_UNIT = "dtdhms"
COUNTDOWN_STEPS = steps(IMPACT, (SOON_SECONDS, WAITING))
OVERDUE: Json = {
    "type": "range",
    "options": {"from": None, "to": -1, "result": {"text": "any moment", "color": IMPACT}},
}
_RUNBOOKS = resolve({}).text("runbooks.url")
_DESCRIPTIONS = {
    FLEET: ("Fleet", "What Azure is about to do to which VMs"),
    VM: ("VM", "The events of one VM"),
    EXPORTER: ("Exporters", "Whether the exporters work"),
}


def board(
    uid: str, description: str, panels: Sequence[g.Panel], variables: Sequence[g.Template], *, time_from: str
) -> Json:
    """Return a dashboard with the data source, marks and links that all have."""
    marks = (
        annotation("Detected", fleet_queries.DETECTED, WAITING, "{{event_type}} announced"),
        annotation("Started", fleet_queries.STARTED, IMPACT, "{{event_type}} started"),
        annotation("Ended", fleet_queries.ENDED, NEUTRAL, "{{event_type}} ended"),
    )
    return plain(
        g.Dashboard(
            uid=uid,
            title=f"Azure Scheduled Events / {_DESCRIPTIONS[uid][0]}",
            description=description,
            panels=laid_out(panels),
            templating=g.Templating([datasource_variable("datasource", "Data source", "prometheus"), *variables]),
            annotations=g.Annotations([_BUILT_IN_ANNOTATIONS, *marks]),
            links=[
                dashboard_link(name, other, tooltip) for other, (name, tooltip) in _DESCRIPTIONS.items() if other != uid
            ],
            tags=["azure-scheduled-events"],
            editable=False,
            graphTooltip=g.GRAPH_TOOLTIP_MODE_SHARED_CROSSHAIR,
            refresh="30s",
            schemaVersion=SCHEMA_VERSION,
            time=g.Time(time_from, "now"),
            timezone="browser",
        )
    )


def values_of(label: str, *matchers: str) -> str:
    """Return the query of a variable: the values of a label of the recorded exporters."""
    return f"label_values({EXPORTER_INFO}{{{', '.join(matchers)}}}, {label})"


def runbook(alert: str) -> list[Json]:
    """Return the link to the runbook of one of our alerts."""
    return [web_link(f"Runbook: {alert}", f"{_RUNBOOKS}/{alert}.md")]


def manual(part: str) -> list[Json]:
    """Return the link to the documentation of a part of a dashboard."""
    return [web_link("What this shows", f"{_RUNBOOKS.rpartition('/')[0]}/dashboards.md#{part}")]


def vm_link(field: str) -> list[Json]:
    """Return the link from a table cell to the dashboard of the VM in another field of the row."""
    kept = "${datasource:queryparam}&${__url_time_range}"
    return [{"title": "VM dashboard", "url": f"/d/{VM}?{kept}&var-vm=${{__data.fields.{field}}}"}]


def trace_link() -> list[Json]:
    """Return the link from a table cell to the trace of the event in Explore."""
    panes = (
        '{"t":{"datasource":"${traces}","queries":[{"refId":"A","datasource":{"type":"tempo","uid":"${traces}"},'
        '"queryType":"traceql","query":"${__data.fields.trace_id}"}],"range":{"from":"now-7d","to":"now"}}}'
    )
    return [{"title": "Trace of the event", "url": f"/explore?schemaVersion=1&panes={panes}", "targetBlank": True}]


def columns(names: Mapping[str, str], *dropped: str) -> list[Json]:
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


def solid(name: str, *, mappings: Sequence[Json], width: int) -> Json:
    """Return the override of a column whose cells are painted by their value."""
    return by_name(
        name,
        mappings=list(mappings),
        custom__cellOptions={"type": "color-background", "mode": "basic"},
        custom__width=width,
    )


def colored(name: str, width: int, **properties: object) -> Json:
    """Return the override of a column whose texts are colored by their value."""
    return by_name(name, custom__cellOptions={"type": "color-text"}, custom__width=width, **properties)


def countdown(name: str, width: int = 110, *, without: str = "now") -> Json:
    """Return the override of a column of seconds until NotBefore; ``without`` is shown where there is none."""
    return by_name(
        name,
        unit=COUNTDOWN_UNIT,
        thresholds=COUNTDOWN_STEPS,
        mappings=[OVERDUE, {"type": "special", "options": {"match": "null", "result": {"text": without}}}],
        custom__cellOptions={"type": "color-background", "mode": "basic"} if without == "now" else {"type": "auto"},
        custom__width=width,
    )


EVENT_COLUMNS = {
    "VMs": by_name("VMs", links=vm_link("first_vm"), custom__minWidth=150),
    "VMs hit": by_name("VMs hit", custom__width=75),
    "Unwatched": colored("Unwatched", 95, thresholds=steps(NEUTRAL, (1, BLIND))),
    "Impact": by_name(
        "Impact",
        unit="s",
        noValue="unknown",
        mappings=[{"type": "value", "options": {"0": {"text": "none", "color": FINE, "index": 0}}}],
        custom__width=80,
    ),
    "NotBefore": by_name("NotBefore", unit="dateTimeAsIsoNoDateIfToday", noValue="past or none", custom__width=155),
    "Shown by": colored("Shown by", 90, mappings=values({0: ("outdated", BLIND)}), thresholds=steps(NEUTRAL)),
}
EVENT_LOOKS = (
    solid("State", mappings=values(STATES), width=90),
    by_name("Type", custom__width=95),
    by_name("Source", custom__width=80),
    by_name("Description", custom__minWidth=150),
    by_name("EventId", links=trace_link(), mappings=pattern("^(.{8}).*", "$1 …"), custom__width=105),
    *hidden("first_vm", "trace_id"),
)
"""Columns that every table of events has."""

_BUILT_IN_ANNOTATIONS: Json = {
    "builtIn": 1,
    "datasource": {"type": "grafana", "uid": "-- Grafana --"},
    "enable": True,
    "hide": True,
    "iconColor": "rgba(0, 211, 255, 1)",
    "name": "Annotations & Alerts",
    "type": "dashboard",
}
