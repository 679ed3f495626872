"""What the three dashboards share: the frame with its links, marks of events, the look of numbers.

The table of events is in ``events``.
"""

from collections.abc import Sequence

import grafanalib.core as g  # type: ignore[import-untyped] # it carries no types

from azure_scheduled_events_exporter import DOCUMENTATION

from . import titles
from .grafana import (
    DATASOURCE,
    SCHEMA_VERSION,
    cell_link,
    dashboard_link,
    datasource_variable,
    instant,
    laid_out,
    over_time,
    panel,
    plain,
    web_link,
)
from .queries import started_events
from .style import (
    FAILED,
    FINE,
    HAPPENING,
    NEUTRAL,
    QUIET,
    UNKNOWN,
    WAITING,
    Json,
    between,
    by_name,
    steps,
    values,
)

FLEET_BOARD = "azure-scheduled-events-fleet"
VM_BOARD = "azure-scheduled-events-vm"
EXPORTER_BOARD = "azure-scheduled-events-exporter"
SOON_SECONDS = 300  # from here on, a countdown has the color of what happens now
RUNBOOKS = f"{DOCUMENTATION}runbooks"
_LEAST_DOUBT = 2e5
"""From this number on, what a count shows means that some exporters are blind.

A smaller number is a real count: no fleet has so many VMs. If some exporters are blind and nothing
is counted, the query yields their share times :data:`.style.UNKNOWN` (:func:`.queries.or_quiet`).
That is 300,000 for one blind exporter among 100,000, so it is always larger than this number.
"""
# Of each dashboard, the end of its title, which is also the text of links to it, and the tooltip of
# these links.
_DESCRIPTIONS = {
    FLEET_BOARD: ("Fleet", "What Azure is about to do to which VMs"),
    VM_BOARD: ("VM", "The events of one VM"),
    EXPORTER_BOARD: ("Exporters", "Whether the exporters work"),
}
# What a link to another dashboard hands on: the data source and the time range.
_KEPT = "${datasource:queryparam}&${__url_time_range}"
_PORTAL = (
    "https://portal.azure.com/#@/resource/subscriptions/${__data.fields.subscription_id}"
    "/resourceGroups/${__data.fields.resource_group}"
    "/providers/Microsoft.Compute/${__data.fields.portal}"
)
PORTAL_LINK = cell_link("VM in the Azure portal", _PORTAL)
STATUS_LINK = cell_link("Status page of the exporter", "http://${__data.fields.instance}/")


def annotation(*matchers: str, not_on: Sequence[int] = ()) -> Json:
    """Return the marks on graphs of events that are Started, as Grafana 11 to 13 read them.

    ``matchers`` select the events. The panels with an id in ``not_on`` have no marks.
    """
    written: Json = {
        "name": "Azure Scheduled Events",
        "datasource": DATASOURCE,
        "enable": True,
        "iconColor": HAPPENING,
        "expr": started_events(*matchers),
        "step": "15s",
        "titleFormat": "{{event_type}}: {{vms}}",
        "tagKeys": "event_type",
    }
    if not_on:
        written["filter"] = {"exclude": True, "ids": list(not_on)}
    return written


def board(
    uid: str,
    description: str,
    panels: Sequence[g.Panel],
    variables: Sequence[g.Template],
    *,
    marked: Sequence[str] = (),
) -> Json:
    """Return a dashboard with the data source, the links and the marks of events that all have.

    ``marked`` are matchers of the events that are marked. A panel with a time range of its own has
    no marks.
    """
    # Panels get their ids in their order, from 1 on.
    own_range = [panel_id for panel_id, each in enumerate(panels, 1) if each.timeFrom]
    own_name, _ = _DESCRIPTIONS[uid]
    return plain(
        g.Dashboard(
            uid=uid,
            title=f"Azure Scheduled Events / {own_name}",
            description=description,
            panels=laid_out(panels),
            templating=g.Templating([datasource_variable(), *variables]),
            annotations=g.Annotations([annotation(*marked, not_on=own_range)]),
            links=[
                dashboard_link(name, other, tooltip)
                for other, (name, tooltip) in _DESCRIPTIONS.items()
                if other != uid
            ],
            tags=["azure-scheduled-events"],
            editable=False,
            graphTooltip=g.GRAPH_TOOLTIP_MODE_SHARED_CROSSHAIR,
            refresh="10s",
            schemaVersion=SCHEMA_VERSION,
            time=g.Time("now-24h", "now"),
            timezone="browser",
        )
    )


def runbook(alert: str) -> list[Json]:
    """Return the link of a panel to the runbook of one of our alerts."""
    return [web_link(f"Runbook: {alert}", f"{RUNBOOKS}/{alert}.md")]


def manual(part: str) -> list[Json]:
    """Return the link of a panel to the documentation of a part of a dashboard."""
    return [web_link("What this shows", f"{DOCUMENTATION}dashboards.md#{part}")]


def vm_link(field: str) -> Json:
    """Return the link of a cell to the dashboard of the VM that the column ``field`` names."""
    return cell_link(
        "Dashboard of the VM",
        f"/d/{VM_BOARD}?{_KEPT}&var-vm=${{__data.fields.{field}}}",
        inside=True,
    )


def stat(
    title: str,
    description: str,
    width: int,
    query: str,
    *,
    links: Sequence[Json],
    legend: str = "",
    text: str = "value",
    **look: object,
) -> g.Panel:
    """Return a panel with one number.

    ``text`` is Grafana's ``textMode``: it shows the number, the name of its series, or both.
    """
    queries = instant(query, legend=legend)
    return panel(
        g.Stat,
        title,
        description,
        (width, 4),
        queries,
        links=links,
        textMode=text,
        **look,  # type: ignore[arg-type]
    )


def in_doubt(none: str, quiet: float = 0) -> list[Json]:
    """Return the texts of a panel for the numbers of :func:`.queries.or_quiet`.

    Its query yields them in place of a result that is empty:

    - ``quiet``: all exporters see IMDS. The text is ``none``.
    - :data:`.style.UNKNOWN`: no exporter does.
    - A number between these two: some exporters do not. It is ``quiet``, plus the share of blind
      exporters times the difference of the two.

    ``quiet`` is 0 for a count, and :data:`.style.QUIET` (1e10) for a countdown; ``UNKNOWN`` is
    3e10. Real countdowns are below ``QUIET``, so their doubt begins directly above it.
    """
    least = _LEAST_DOUBT
    if quiet == QUIET:
        least = quiet + 1
    return [
        *values({quiet: (none, FINE), UNKNOWN: ("unknown", FAILED)}),
        between(
            least,
            UNKNOWN - 1,
            f"{none} known, some exporters are blind",
            FAILED,
        ),
    ]


def next_impact(query: str, description: str, width: int) -> g.Panel:
    """Return the countdown to the next event."""
    return stat(
        titles.NEXT_EVENT,
        description,
        width,
        query,
        links=manual("next-event"),
        unit="dtdhms",
        thresholds=steps(HAPPENING, (SOON_SECONDS, WAITING)),
        mappings=[between(None, 0, "any moment", HAPPENING), *in_doubt("none", QUIET)],
    )


def wrapped(name: str, **properties: object) -> Json:
    """Return the override of a column with lines of text.

    Grafana 12.2 and newer read the second property.
    """
    return by_name(
        name,
        custom__cellOptions={"type": "auto", "wrapText": True},
        custom__wrapText=True,
        **properties,
    )


def solid(name: str, **properties: object) -> Json:
    """Return the override of a column whose cells are painted by their value."""
    return by_name(
        name, custom__cellOptions={"type": "color-background", "mode": "basic"}, **properties
    )


def bars(query: str, width: int) -> g.Panel:
    """Return the events of the last 30 days, a bar a day."""
    return panel(
        g.TimeSeries,
        titles.EVENTS_A_DAY,
        "Events by the day (UTC) on which they were first seen, each once, as the exporters of"
        " their own VMs saw them.",
        (width, 8),
        over_time(query, "events"),
        links=manual("history"),
        timeFrom="30d",
        interval="1d",
        custom={
            "drawStyle": "bars",
            "barWidthFactor": 0.8,
            "fillOpacity": 100,
            "lineWidth": 0,
            "axisSoftMin": 0,
        },
        defaults={
            "color": {"mode": "fixed", "fixedColor": NEUTRAL},
            "decimals": 0,
            "min": 0,
            "noValue": "No exporter saw an event of its own VM.",
        },
    )
