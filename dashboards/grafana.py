"""Builds the JSON of dashboards for Grafana 11 to 13 with grafanalib's public classes.

grafanalib also writes keys that Grafana dropped long ago. Serialization leaves those out, as well
as what is not set. Must not know metrics.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import attr
import grafanalib.core as g  # type: ignore[import-untyped] # it carries no types

from .style import FINE, Json, steps

SCHEMA_VERSION = 39
DATASOURCE = {"type": "prometheus", "uid": "${datasource}"}
COLUMN = "column"
"""The label that names the table column which a series' value belongs to."""
_COLUMNS = 24  # in which Grafana divides the width of a dashboard
# The keys that Grafana has dropped, by the class of grafanalib that writes them.
_OBSOLETE: Mapping[type, frozenset[str]] = {
    g.Dashboard: frozenset(
        {"__inputs", "hideControls", "rows", "sharedCrosshair", "style", "version"}
    ),
    g.Panel: frozenset({"editable", "error", "hideTimeOverride", "span"}),
    g.Table: frozenset({"color", "columns", "fontSize", "mappings"}),
    g.TimePicker: frozenset({"time_options"}),
    g.Template: frozenset({"auto", "auto_count", "auto_min", "useTags"}),
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


class Table(g.Table):  # type: ignore[misc] # untyped
    """A table without ``displayMode``, the old look of cells: it hides ``cellOptions``."""

    def to_json_data(self) -> Json:
        """Return the panel."""
        written: Json = super().to_json_data()
        del written["fieldConfig"]["defaults"]["custom"]["displayMode"]
        return written


class Variable(g.Template):  # type: ignore[misc] # untyped
    """A variable, written as Grafana writes it.

    Where one may choose several values, All is chosen at first.
    """

    def to_json_data(self) -> Json:
        """Return the variable."""
        written: Json = super().to_json_data()
        written["query"] = self.query
        if self.type == "query":
            written["query"] = {"query": self.query, "refId": self.name}
        written["current"] = None
        if self.includeAll:
            written["current"] = {"selected": True, "text": ["All"], "value": ["$__all"]}
        written["skipUrlSync"] = None
        if self.hide == g.HIDE_VARIABLE:  # what follows from the data does not belong into links
            written["skipUrlSync"] = True
        return written


_BLANK = {
    "matcher": {"id": "byRegexp", "options": ".*"},
    "properties": [{"id": "noValue", "value": " "}],
}
"""Empty cells show nothing. Without this, they would show the text for an empty table."""


@dataclass(frozen=True, slots=True)
class _Look:
    """What all panels of a class share.

    Attributes:
        arguments: of grafanalib's class.
        custom: how fields are drawn, which grafanalib has no argument for.
        options: of the panel, likewise.
        overrides: of fields.
        base: the color of a number below all thresholds.
    """

    arguments: Json = field(default_factory=dict)
    custom: Json = field(default_factory=dict)
    options: Json = field(default_factory=dict)
    overrides: tuple[Json, ...] = ()
    base: str = FINE


_LOOKS: Mapping[type, _Look] = {
    g.Stat: _Look(
        arguments={
            "alignment": "center",
            "colorMode": "background_solid",
            "graphMode": "none",
            "reduceCalc": "lastNotNull",
        },
        options={"wideLayout": True},
    ),
    Table: _Look(
        arguments={"align": "left"},
        custom={"cellOptions": {"type": "auto"}},
        options={"cellHeight": "sm"},
        overrides=(_BLANK,),
        base="transparent",
    ),
    g.TimeSeries: _Look(options={"legend": {"showLegend": False}}),
    g.StateTimeline: _Look(
        arguments={"fillOpacity": 100},
        options={
            "legend": {"showLegend": False, "calcs": []},
            "tooltip": {"sort": "none"},
        },
    ),
}


def instant(*expressions: str, legend: str = "") -> list[Query]:
    """Return queries for one moment."""
    return [Query(expr=expr, legendFormat=legend, instant=True) for expr in expressions]


def over_time(expr: str, legend: str) -> list[Query]:
    """Return a query over the time range."""
    return [Query(expr=expr, legendFormat=legend)]


def panel(
    kind: type,
    title: str,
    description: str,
    size: tuple[int, int],
    queries: Sequence[Query],
    *,
    links: Sequence[Json],
    unit: str = "none",
    thresholds: Json | None = None,
    mappings: Sequence[Json] = (),
    overrides: Sequence[Json] = (),
    transformations: Sequence[Json] = (),
    defaults: Mapping[str, object] | None = None,
    custom: Mapping[str, object] | None = None,
    **more: object,
) -> g.Panel:
    """Return a panel of one of grafanalib's classes.

    ``size`` is its width, of 24 columns, and its height. ``defaults`` and ``custom`` are how its
    fields are shown and drawn, and ``more`` are arguments of the class. It has no position yet:
    :func:`laid_out` gives it one.
    """
    look = _LOOKS[kind]
    width, height = size
    fields = _fields(look, unit, thresholds, mappings, defaults or {}, custom or {})
    return kind(
        title=title,
        description=description,
        dataSource=DATASOURCE,
        gridPos=g.GridPos(w=width, h=height, x=0, y=0),
        targets=_lettered(queries),
        links=list(links),
        overrides=[*look.overrides, *overrides],
        transformations=list(transformations),
        extraJson={"fieldConfig": {"defaults": fields}, "options": look.options},
        **look.arguments,
        **more,
    )


def _fields(
    look: _Look,
    unit: str,
    thresholds: Json | None,
    mappings: Sequence[Json],
    defaults: Mapping[str, object],
    custom: Mapping[str, object],
) -> Json:
    """Return how the fields of a panel are shown, unless an override says otherwise."""
    return {
        "unit": unit,
        "color": {"mode": "thresholds"},
        "thresholds": thresholds or steps(look.base),
        "mappings": list(mappings),
        **defaults,
        "custom": {**look.custom, **custom},
    }


def _lettered(queries: Sequence[Query]) -> list[Query]:
    """Give the queries A, B and so on as their ids, and return them."""
    for number, query in enumerate(queries):
        query.refId = chr(ord("A") + number)
    return list(queries)


def columns(names: Mapping[str, str], *kept: str, needed: str = "", again: str = "") -> list[Json]:
    """Return the transformations that make one table of all queries.

    A series is a cell: its label :data:`COLUMN` names the column of its value, and its other labels
    are cells of the same row. Rows have the order in which the queries return them first.

    Args:
        names: the columns that are shown, in their order: labels, and values of :data:`COLUMN`,
            with their titles.
        kept: further columns, which only links read.
        needed: a column without whose value a row is left out.
        again: another column with the value of ``needed``, to be shown in another unit.
    """
    shown = [*names, *kept]
    chosen: list[Json] = []
    if needed:
        filled = {"fieldName": needed, "config": {"id": "isNotNull", "options": {}}}
        filters = {"type": "include", "match": "any", "filters": [filled]}
        chosen.append({"id": "filterByValue", "options": filters})
    if again:
        copied = {
            "mode": "reduceRow",
            "reduce": {"reducer": "sum", "include": [needed]},
            "alias": again,
        }
        chosen.append({"id": "calculateField", "options": copied})
    return [
        {
            "id": "labelsToFields",
            "options": {"valueLabel": COLUMN, "keepLabels": [*shown, COLUMN], "mode": "columns"},
        },
        {"id": "merge", "options": {}},
        *chosen,
        {"id": "filterFieldsByName", "options": {"include": {"names": shown}}},
        {
            "id": "organize",
            "options": {
                "excludeByName": {},
                "indexByName": {name: index for index, name in enumerate(shown)},
                "renameByName": {name: title for name, title in names.items() if title != name},
            },
        },
    ]


def laid_out(panels: Iterable[g.Panel]) -> list[g.Panel]:
    """Return the panels placed from left to right, in lines from top to bottom.

    The widths of the panels of a line add up to that of the dashboard, and their heights are equal.
    """
    placed = []
    x = 0
    y = 0
    for each in panels:
        size = each.gridPos
        placed.append(attr.evolve(each, gridPos=attr.evolve(size, x=x, y=y)))
        x += size.w
        if x >= _COLUMNS:
            x = 0
            y += size.h
    return placed


def variable(
    name: str, label: str, query: str, *, all_value: str | None = None, many: bool = True
) -> g.Template:
    """Return a variable of label values, of which people choose one, or several if ``many``.

    ``all_value`` is what queries get for the choice All, instead of a list of all values.
    """
    return Variable(
        name=name,
        label=label,
        query=query,
        dataSource=DATASOURCE,
        allValue=all_value,
        includeAll=many,
        multi=many,
        refresh=g.REFRESH_ON_TIME_RANGE_CHANGE,  # VMs come and go
        regex="",
    )


def hidden_variable(name: str, query: str) -> g.Template:
    """Return a variable that nobody sees; its value is always all label values of ``query``."""
    return attr.evolve(variable(name, name.capitalize(), query), hide=g.HIDE_VARIABLE)


def first_variable(name: str, query: str) -> g.Template:
    """Return a hidden variable with one value: the first in the alphabet."""
    return attr.evolve(variable(name, name.capitalize(), query, many=False), hide=g.HIDE_VARIABLE)


def datasource_variable() -> g.Template:
    """Return the variable of the data source."""
    return Variable(
        name="datasource", label="Data source", query="prometheus", type="datasource", regex=""
    )


def text_variable(name: str, label: str) -> g.Template:
    """Return a variable that people write; it is empty at first."""
    return Variable(name=name, label=label, query="", type="textbox")


def dashboard_link(title: str, uid: str, tooltip: str) -> g.DashboardLink:
    """Return a link at the top to another dashboard; it keeps the time range and the variables."""
    return g.DashboardLink(
        title=title,
        uri=f"/d/{uid}",
        type="link",
        icon="dashboard",
        tooltip=tooltip,
        includeVars=True,
        keepTime=True,
    )


def web_link(title: str, url: str) -> Json:
    """Return a link of a panel to a page outside of Grafana."""
    link: Json = g.DashboardLink(
        title=title, uri=url, type="link", icon="doc", keepTime=False, targetBlank=True
    ).to_json_data()
    return link


def cell_link(title: str, url: str, *, inside: bool = False) -> Json:
    """Return a link of a cell, which opens a new tab unless its page is ``inside`` of Grafana."""
    link: Json = {"title": title, "url": url}
    if not inside:
        link["targetBlank"] = True
    return link


def plain(dashboard: g.Dashboard) -> Json:
    """Return the dashboard as plain JSON, without obsolete keys and without what is not set."""
    written = json.dumps(dashboard.auto_panel_ids(), default=_plain_object)
    decoded: Json = json.loads(written)
    return decoded


def _plain_object(thing: object) -> object:
    """Return what an object of grafanalib writes, without keys that are obsolete or not set."""
    obsolete: set[str] = set()
    for known, keys in _OBSOLETE.items():
        if isinstance(thing, known):
            obsolete |= keys
    # Each of grafanalib's classes has this method.
    written = thing.to_json_data()  # type: ignore[attr-defined]
    return _without_unset({key: value for key, value in written.items() if key not in obsolete})


def _without_unset(value: object) -> object:
    """Return the value without keys whose value is None, at any depth.

    Three keys keep theirs: the lowest step of thresholds and open ranges of mappings need null.
    """
    if isinstance(value, dict):
        kept = {}
        for key, each in value.items():
            if each is not None or key in {"value", "from", "to"}:
                kept[key] = _without_unset(each)
        return kept
    if isinstance(value, list):
        return [_without_unset(each) for each in value]
    return value
