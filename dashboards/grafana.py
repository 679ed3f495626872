"""Builds the JSON of dashboards for Grafana 11 to 13 with grafanalib's public classes and their ``extraJson``.

grafanalib also writes keys that Grafana dropped long ago. Serialization leaves those out, as well as what is not set.
This module uses no metric.
"""

import json
from collections.abc import Iterable, Mapping, Sequence

import attr
import grafanalib.core as g  # type: ignore[import-untyped] # it carries no types

from .style import FINE, Json, steps

SCHEMA_VERSION = 39
DATASOURCE = {"type": "prometheus", "uid": "${datasource}"}
_COLUMNS = 24
_OBSOLETE: Mapping[type, frozenset[str]] = {
    g.Dashboard: frozenset({"__inputs", "hideControls", "rows", "sharedCrosshair", "style", "version"}),
    g.Panel: frozenset({"editable", "error", "hideTimeOverride", "span"}),
    g.RowPanel: frozenset({"fieldConfig", "maxDataPoints", "links", "targets", "transformations", "transparent"}),
    g.Table: frozenset({"color", "columns", "fontSize", "mappings"}),
    g.TimePicker: frozenset({"time_options"}),
    g.Template: frozenset({"auto", "auto_count", "auto_min", "useTags"}),
}
_LOOKS: Mapping[type, Json] = {  # arguments that all panels of a class share, and what grafanalib has no argument for
    g.Stat: {
        "alignment": "center",
        "colorMode": "background_solid",
        "graphMode": "none",
        "reduceCalc": "lastNotNull",
        "textMode": "value",
        "extraJson": {"options": {"wideLayout": True}},
    },
    g.Table: {
        "align": "left",
        "extraJson": {
            "fieldConfig": {"defaults": {"custom": {"cellOptions": {"type": "auto"}}}},
            "options": {"cellHeight": "sm"},
        },
    },
    g.TimeSeries: {
        "lineWidth": 2,
        "tooltipMode": "multi",
        "tooltipSort": "desc",
        "extraJson": {"options": {"legend": {"showLegend": True}}},
    },
    g.StateTimeline: {
        "fillOpacity": 90,
        "rowHeight": 0.8,
        "extraJson": {"options": {"legend": {"calcs": [], "showLegend": True}, "tooltip": {"sort": "none"}}},
    },
    g.BarChart: {
        "barWidth": 0.8,
        "fillOpacity": 90,
        "lineWidth": 0,
        "stacking": "normal",
        "tooltipMode": "multi",
        "tooltipSort": "desc",
    },
}


class Query(g.Target):  # type: ignore[misc] # untyped
    """One query, written as Grafana writes it."""

    def to_json_data(self) -> Json:
        """Return the target."""
        return {
            "refId": self.refId,
            "datasource": DATASOURCE,
            "editorMode": "code",
            "expr": self.expr,
            "format": self.format,
            "instant": self.instant,
            "range": not self.instant,
            "legendFormat": self.legendFormat or "__auto",
        }


class Variable(g.Template):  # type: ignore[misc] # untyped
    """A variable, written as Grafana writes it; where one may choose several values, All is chosen at first."""

    def to_json_data(self) -> Json:
        """Return the variable."""
        chosen = {"selected": True, "text": ["All"], "value": ["$__all"]} if self.includeAll else None
        query = {"query": self.query, "refId": self.name} if self.type == "query" else self.query
        return {**super().to_json_data(), "query": query, "current": chosen}


def instant(expr: str, legend: str = "") -> Query:
    """Return a query for one moment."""
    return Query(expr=expr, legendFormat=legend, instant=True)


def tables(*expressions: str) -> list[Query]:
    """Return queries for one moment that give a table with a row per series."""
    return [Query(expr=expr, format=g.TABLE_TARGET_FORMAT, instant=True) for expr in expressions]


def graph(expr: str, legend: str) -> Query:
    """Return a query over the time range."""
    return Query(expr=expr, legendFormat=legend)


def panel(
    kind: type,
    title: str,
    description: str,
    size: tuple[int, int],
    queries: Sequence[Query],
    *,
    unit: str = "none",
    links: Sequence[Json],
    thresholds: Json | None = None,
    mappings: Sequence[Json] = (),
    overrides: Sequence[Json] = (),
    transformations: Sequence[Json] = (),
    time_from: str | None = None,
    interval: str | None = None,
    points: int | None = None,
    defaults: Mapping[str, object] | None = None,
    custom: Mapping[str, object] | None = None,
    options: Mapping[str, object] | None = None,
) -> g.Panel:
    """Return a panel of one of grafanalib's classes; ``size`` is its width, of 24 columns, and its height."""
    look = dict(_LOOKS[kind])
    extra = look.pop("extraJson", {})
    shared_custom = extra.get("fieldConfig", {}).get("defaults", {}).get("custom", {})
    field = {
        "unit": unit,
        "color": {"mode": "thresholds"},
        "thresholds": thresholds or steps(FINE),
        "mappings": list(mappings),
        **(defaults or {}),
        "custom": {**shared_custom, **(custom or {})},
    }
    return kind(
        title=title,
        description=description,
        dataSource=DATASOURCE,
        gridPos=g.GridPos(w=size[0], h=size[1], x=0, y=0),
        targets=[_named(query, chr(ord("A") + index)) for index, query in enumerate(queries)],
        links=list(links),
        overrides=list(overrides),
        transformations=list(transformations),
        timeFrom=time_from,
        interval=interval,
        maxDataPoints=points,
        **look,
        extraJson={"fieldConfig": {"defaults": field}, "options": {**extra.get("options", {}), **(options or {})}},
    )


def _named(query: Query, name: str) -> Query:
    query.refId = name
    return query


def row(title: str) -> g.RowPanel:
    """Return a heading over the panels that follow."""
    return g.RowPanel(title=title, gridPos=g.GridPos(w=_COLUMNS, h=1, x=0, y=0))


def laid_out(panels: Iterable[g.Panel]) -> list[g.Panel]:
    """Return the panels placed from left to right, in lines from top to bottom."""
    placed, x, y = [], 0, 0
    for each in panels:
        size = each.gridPos
        placed.append(attr.evolve(each, gridPos=attr.evolve(size, x=x, y=y)))
        x += size.w
        if x >= _COLUMNS:
            x, y = 0, y + size.h
    return placed


def variable(name: str, label: str, query: str, *, all_value: str | None, hide: int = g.SHOW) -> g.Template:
    """Return a variable of label values; with ``all_value`` one may choose several, and All is chosen at first."""
    many = all_value is not None
    return Variable(
        name=name,
        label=label,
        query=query,
        dataSource=DATASOURCE,
        allValue=all_value,
        includeAll=many,
        multi=many,
        hide=hide,
        refresh=g.REFRESH_ON_TIME_RANGE_CHANGE,  # VMs come and go
        regex="",
    )


def datasource_variable(name: str, label: str, plugin: str) -> g.Template:
    """Return a variable of the data sources of one type."""
    return Variable(name=name, label=label, query=plugin, type="datasource", regex="")


def annotation(name: str, expr: str, color: str, title: str) -> Json:
    """Return marks on all graphs wherever ``expr`` has a value, checked once a minute."""
    return {
        "name": name,
        "datasource": DATASOURCE,
        "enable": True,
        "hide": False,
        "iconColor": color,
        "expr": expr,
        "step": "60s",
        "titleFormat": title,
        "tagKeys": "event_type",
    }


def dashboard_link(title: str, uid: str, tooltip: str) -> g.DashboardLink:
    """Return a link at the top to another dashboard; it keeps the time range and the variables."""
    return g.DashboardLink(
        title=title, uri=f"/d/{uid}", type="link", icon="dashboard", tooltip=tooltip, includeVars=True, keepTime=True
    )


def web_link(title: str, url: str) -> Json:
    """Return a link to a page outside of Grafana."""
    link: Json = g.DashboardLink(
        title=title, uri=url, type="link", icon="doc", keepTime=False, targetBlank=True
    ).to_json_data()
    return link


def plain(dashboard: g.Dashboard) -> Json:
    """Return the dashboard as plain JSON, without obsolete keys and without what is not set."""
    decoded: Json = json.loads(json.dumps(dashboard.auto_panel_ids(), default=_current))
    return decoded


def _current(thing: object) -> object:
    """Return the output of a class of grafanalib, without the keys that Grafana no longer supports."""
    obsolete = {key for known, keys in _OBSOLETE.items() if isinstance(thing, known) for key in keys}
    written = thing.to_json_data()  # type: ignore[attr-defined] # each of grafanalib's classes has it
    return _set({key: value for key, value in written.items() if key not in obsolete})


def _set(value: object) -> object:
    """The value without unset keys; the lowest step of thresholds and open ranges of mappings have null as value."""
    if isinstance(value, dict):
        return {key: _set(each) for key, each in value.items() if each is not None or key in {"value", "from", "to"}}
    return [_set(each) for each in value] if isinstance(value, list) else value
