"""What Grafana 11 to 13 write themselves, made of what grafanalib writes.

grafanalib knows the shape of dashboards of many years ago. This module keeps of its output what Grafana still reads
and writes the rest as Grafana does today: classic JSON of schema version 39, the data source as ``{type, uid}``, no
nulls but in the first step of thresholds. It knows nothing of metrics.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import grafanalib.core as g  # type: ignore[import-untyped] # it carries no types
from grafanalib._gen import DashboardEncoder  # type: ignore[import-untyped] # the same

from .panel import Panel, Query, Row
from .style import Json

SCHEMA_VERSION = 39
PROMETHEUS: Mapping[str, str] = {"type": "prometheus", "uid": "${datasource}"}
_PANEL = (
    "description",
    "gridPos",
    "interval",
    "links",
    "maxDataPoints",
    "targets",
    "timeFrom",
    "title",
    "transformations",
    "type",
)
_TOOLTIP = {"mode": "multi", "sort": "desc"}
_LEGEND = {"showLegend": True, "displayMode": "list", "placement": "bottom", "calcs": []}
_REDUCED = {"calcs": ["lastNotNull"], "fields": "", "values": False}
_KINDS: Mapping[str, tuple[Any, Json, Json]] = {  # class of grafanalib; options and custom field options of today
    "stat": (
        g.Stat,
        {
            "reduceOptions": _REDUCED,
            "orientation": "auto",
            "textMode": "value",
            "colorMode": "background_solid",
            "graphMode": "none",
            "justifyMode": "center",
            "wideLayout": True,
        },
        {},
    ),
    "bargauge": (
        g.BarGauge,
        {
            "reduceOptions": _REDUCED,
            "orientation": "horizontal",
            "displayMode": "basic",
            "valueMode": "text",
            "showUnfilled": True,
            "namePlacement": "left",
            "sizing": "auto",
            "text": {"titleSize": 14, "valueSize": 18},
        },
        {},
    ),
    "table": (g.Table, {"showHeader": True, "cellHeight": "sm"}, {"align": "left", "cellOptions": {"type": "auto"}}),
    "timeseries": (
        g.TimeSeries,
        {"legend": _LEGEND, "tooltip": _TOOLTIP},
        {"drawStyle": "line", "lineWidth": 2, "fillOpacity": 0, "showPoints": "auto", "spanNulls": False},
    ),
    "state-timeline": (
        g.StateTimeline,
        {
            "legend": _LEGEND,
            "tooltip": {"mode": "single", "sort": "none"},
            "mergeValues": True,
            "showValue": "auto",
            "alignValue": "left",
            "rowHeight": 0.8,
        },
        {"lineWidth": 0, "fillOpacity": 90},
    ),
    "barchart": (
        g.BarChart,
        {
            "legend": _LEGEND,
            "tooltip": _TOOLTIP,
            "orientation": "auto",
            "stacking": "normal",
            "showValue": "auto",
            "barWidth": 0.8,
            "groupWidth": 0.7,
            "xTickLabelRotation": 0,
            "xTickLabelSpacing": 0,
            "fullHighlight": False,
        },
        {"lineWidth": 0, "fillOpacity": 90, "gradientMode": "none"},
    ),
}


def dashboard(
    *,
    uid: str,
    title: str,
    description: str,
    parts: Iterable[Panel | Row],
    variables: Sequence[Json],
    annotations: Sequence[Json],
    links: Sequence[Json],
    tags: Sequence[str],
    time_from: str,
    refresh: str,
) -> Json:
    """Return the JSON of a dashboard."""
    classic = _plain(
        g.Dashboard(
            title=title,
            description=description,
            uid=uid,
            editable=False,
            graphTooltip=1,
            refresh=refresh,
            tags=list(tags),
            time=g.Time(time_from, "now"),
            timezone="browser",
            schemaVersion=SCHEMA_VERSION,
        )
    )
    kept = ("description", "editable", "graphTooltip", "refresh", "schemaVersion", "tags", "time", "timezone")
    return {
        "uid": uid,
        "title": title,
        **{name: classic[name] for name in kept},
        "fiscalYearStartMonth": 0,
        "liveNow": False,
        "timepicker": {},
        "links": list(links),
        "annotations": {"list": [_BUILT_IN_ANNOTATIONS, *annotations]},
        "templating": {"list": list(variables)},
        "panels": [_part(part, number) for number, part in enumerate(parts, 1)],
    }


def _part(part: Panel | Row, number: int) -> Json:
    if isinstance(part, Row):
        row = _plain(g.RowPanel(title=part.title, gridPos=g.GridPos(h=1, w=24, x=0, y=part.y)))
        return {"id": number, **{name: row[name] for name in ("type", "title", "gridPos", "collapsed", "panels")}}
    kind, options, custom = _KINDS[part.kind]
    x, y, w, h = part.at
    classic = _plain(
        kind(
            title=part.title,
            description=part.description,
            gridPos=g.GridPos(h=h, w=w, x=x, y=y),
            targets=[g.Target(expr=query.expr, legendFormat=query.legend) for query in part.queries],
            transformations=list(part.transformations),
            links=list(part.links),
            timeFrom=part.time_from,
            interval=part.interval,
            maxDataPoints=part.points,
        )
    )
    classic["targets"] = [
        _target(target, query, "ABCDEFGHIJKLM"[index])
        for index, (target, query) in enumerate(zip(classic["targets"], part.queries, strict=True))
    ]
    defaults: Json = {
        "unit": part.unit,
        "color": {"mode": "thresholds"},
        "mappings": list(part.mappings),
        "thresholds": part.thresholds,
        "custom": {**custom, **part.custom},
        **part.defaults,
    }
    return {
        "id": number,
        "datasource": dict(PROMETHEUS),
        **{name: classic[name] for name in _PANEL if classic.get(name) not in (None, [])},
        "fieldConfig": {"defaults": defaults, "overrides": list(part.overrides)},
        "options": {**options, **part.options},
    }


def _target(classic: Json, query: Query, ref: str) -> Json:
    once = query.instant or query.table
    return {
        "refId": ref,
        "datasource": dict(PROMETHEUS),
        "editorMode": "code",
        "expr": classic["expr"],
        "format": "table" if query.table else "time_series",
        "instant": once,
        "range": not once,
        "legendFormat": classic["legendFormat"] or "__auto",
    }


def variable(name: str, label: str, query: str, *, all_value: str | None, hide: int = 0) -> Json:
    """Return a variable of label values; with ``all_value`` one may choose several, and All is chosen at first."""
    many = all_value is not None
    classic = _plain(g.Template(name=name, query=query, label=label, allValue=all_value, multi=many, includeAll=many))
    chosen = {"current": {"selected": True, "text": ["All"], "value": ["$__all"]}, "allValue": all_value}
    return {
        **{key: classic[key] for key in ("name", "label", "type", "includeAll", "multi")},
        **(chosen if many else {}),
        "hide": hide,
        "datasource": dict(PROMETHEUS),
        "definition": query,
        "query": {"query": query, "refId": name},
        "refresh": 2,  # when the time range changes, since VMs come and go
        "regex": "",
        "sort": 1,
        "options": [],
        "skipUrlSync": False,
    }


def datasource_variable(name: str, label: str, plugin: str) -> Json:
    """Return a variable of the data sources of one type."""
    classic = _plain(g.Template(name=name, query=plugin, label=label, type="datasource"))
    return {
        **{key: classic[key] for key in ("name", "label", "type", "query", "includeAll", "multi")},
        "hide": 0,
        "refresh": 1,
        "regex": "",
        "options": [],
        "skipUrlSync": False,
    }


def annotation(name: str, expr: str, colour: str, title: str) -> Json:
    """Return marks on all graphs wherever ``expr`` has a value, looked at once a minute."""
    return {
        "name": name,
        "datasource": dict(PROMETHEUS),
        "enable": True,
        "hide": False,
        "iconColor": colour,
        "expr": expr,
        "step": "60s",
        "titleFormat": title,
        "textFormat": "{{vms}}",
        "tagKeys": "event_type",
    }


def dashboard_link(title: str, uid: str, tooltip: str) -> Json:
    """Return a link at the top to another dashboard, which keeps the time range and the variables."""
    link = g.DashboardLink(title=title, uri=f"/d/{uid}", type="link", icon="dashboard", tooltip=tooltip)
    return {**_plain(link), "includeVars": True, "keepTime": True}


def web_link(title: str, url: str) -> Json:
    """Return a link to a page outside of Grafana."""
    return _plain(g.DashboardLink(title=title, uri=url, type="link", icon="doc", keepTime=False, targetBlank=True))


_BUILT_IN_ANNOTATIONS: Json = {
    "builtIn": 1,
    "datasource": {"type": "grafana", "uid": "-- Grafana --"},
    "enable": True,
    "hide": True,
    "iconColor": "rgba(0, 211, 255, 1)",
    "name": "Annotations & Alerts",
    "type": "dashboard",
}


def _plain(thing: object) -> Json:
    """What grafanalib writes, as plain JSON."""
    plain: Json = json.loads(json.dumps(thing, cls=DashboardEncoder))
    return plain
