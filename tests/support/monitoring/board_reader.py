"""Reads the dashboards as Grafana does: asks their queries with the variables filled in, and says
what panels show.

Of Grafana's transformations, it does what :func:`dashboards.grafana.columns` uses.
"""

import json
import re
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode

from support.monitoring.engines import answer
from support.paths import ROOT
from support.programs import fetch

JSON = ROOT / "dashboards" / "json"
BOARDS = ("fleet", "vm", "exporter")
DAY = 86_400
# The values of variables with which nothing is left out.
EVERYTHING = {"$job": ".+", "$instance": ".*", "$resource_group": ".*", "$traces": ""}
EVERYTHING["$__range"] = "86400s"
EVERYTHING |= {"$scraped": "up", "$sees": "azure_scheduled_events_up"}  # without rules
Json = dict[str, Any]
Row = dict[str, str]


def load(board: str) -> Json:
    """Return a dashboard as committed."""
    loaded: Json = json.loads((JSON / f"azure-scheduled-events-{board}.json").read_text("utf-8"))
    return loaded


def filled(expression: str, variables: Mapping[str, str]) -> str:
    """Return a query with its variables replaced, the longest names first."""
    for name in sorted(variables, key=len, reverse=True):
        expression = expression.replace(name, variables[name])
    return expression


def of_vm(name: str, instances: str = ".+") -> dict[str, str]:
    """Return the variables of the dashboard of one VM; ``instances`` is a regular expression."""
    return {"$vm": name, "${vm:regex}": name, "$instance": instances}


@dataclass(frozen=True, slots=True)
class BoardReader:
    """A dashboard over the server at ``url``, at the time ``at`` (seconds; now, if it is 0)."""

    board: str
    url: str
    variables: Mapping[str, str] = field(default_factory=dict)
    at: float = 0.0

    def names(self) -> dict[str, str]:
        """Return the values of variables that are names of metrics: the first of each."""
        found = {}
        for each in load(self.board)["templating"]["list"]:
            if match := re.fullmatch(
                r"label_values\((.+), __name__\)",
                str(each["query"]["query"] if each["type"] == "query" else ""),
            ):
                asked = fetch(
                    f"{self.url}/api/v1/label/__name__/values?{urlencode({'match[]': match[1]})}"
                )
                found[f"${each['name']}"] = min(json.loads(asked.body)["data"])
        return found

    def queries(self) -> Iterator[tuple[str, str, str, dict[str, str]]]:
        """Yield name and text of each query, the path of the API, and the times to ask for."""
        now = self.at or time.time()
        once = {"time": f"{now}"}
        board = load(self.board)
        values = {**EVERYTHING, **self.variables}
        for panel in board["panels"]:
            over_time = _times(now, *_STEPS.get(panel["type"], _SHORT))
            if panel.get("interval") == "1d":
                over_time = _times(now, *_DAYS)
            for target in panel["targets"]:
                query = filled(target["expr"], values)
                path, times = ("query", once) if target["instant"] else ("query_range", over_time)
                yield f"{panel['title']} {target['refId']}", query, path, times
        for marks in board["annotations"]["list"]:
            query = filled(marks["expr"], values)
            yield f"{marks['name']} A", query, "query_range", _times(now, *_MARKS)

    def answers(self) -> dict[str, list[Json]]:
        """Return the series of every query, by the name of the query."""
        return {
            name: answer(self.url, path, {"query": query, **times})
            for name, query, path, times in self.queries()
        }

    def stat(self, title: str) -> str:
        """Return the text of a panel with one number."""
        panel = self._panel(title)
        series = self._series(title)
        assert len(series) == 1, f"{title}: {series}"
        name = filled(
            panel["targets"][0]["legendFormat"],
            {f"{{{{{k}}}}}": v for k, v in series[0]["metric"].items()},
        )
        field = panel["fieldConfig"]["defaults"]
        text = _text(float(series[0]["value"][1]), field["mappings"], field["unit"])
        return {"value": text, "name": name}.get(panel["options"]["textMode"], f"{name} {text}")

    def timeline(self, title: str) -> dict[str, list[str]]:
        """Return the different states of each row of a timeline, in their order."""
        panel = self._panel(title)
        field = panel["fieldConfig"]["defaults"]
        rows: dict[str, list[str]] = {}
        for series in self._series(title):
            names = {f"{{{{{label}}}}}": text for label, text in series["metric"].items()}
            states = rows.setdefault(filled(panel["targets"][0]["legendFormat"], names), [])
            for _, value in series["values"]:
                text = _text(float(value), field["mappings"], field["unit"])
                if states[-1:] != [text]:
                    states.append(text)
        return rows

    def table(self, title: str) -> list[Row]:
        """Return the rows of a table: the texts of its cells by the title of the column, numbers as
        they are.
        """
        panel = self._panel(title)
        options = {each["id"]: each["options"] for each in panel["transformations"]}
        kept = options["labelsToFields"]["keepLabels"]
        rows = _joined(self._series(title), kept, options["labelsToFields"]["valueLabel"])
        filters = options.get("filterByValue", {"filters": []})["filters"]
        rows = [row for row in rows if all(row.get(each["fieldName"]) for each in filters)]
        if copied := options.get("calculateField"):
            (source,) = copied["reduce"]["include"]
            rows = [{**row, copied["alias"]: row[source]} for row in rows]
        names = {**{name: name for name in kept}, **options["organize"]["renameByName"]}
        mappings = {
            rule["matcher"]["options"]: each["value"]
            for rule in panel["fieldConfig"]["overrides"]
            for each in rule["properties"]
            if each["id"] == "mappings"
        }
        return [
            {
                names[name]: _cell(text, mappings.get(names[name], []))
                for name, text in row.items()
                if name in names
            }
            for row in rows
        ]

    def _panel(self, title: str) -> Json:
        found: Json = next(panel for panel in load(self.board)["panels"] if panel["title"] == title)
        return found

    def _series(self, title: str) -> list[Json]:
        asked = [each for each in self.queries() if each[0].rpartition(" ")[0] == title]
        return [
            series
            for _, query, path, times in asked
            for series in answer(self.url, path, {"query": query, **times})
        ]


# Span and step of what is asked over time, in seconds: of panels with a bar for each day, of other
# panels by their type, and of annotations.
_DAYS = (31 * DAY, DAY)
_STEPS = {"state-timeline": (DAY, 60)}
_SHORT = (300, 15)  # of panels of every other type
_MARKS = (DAY, 15)


def _times(now: float, span: int, step: int) -> dict[str, str]:
    """Return the parameters of a query over time, at multiples of the step."""
    end = now // step * step
    return {"start": f"{end - span}", "end": f"{end}", "step": f"{step}"}


def _joined(every: list[Json], kept: list[str], value_label: str) -> list[Row]:
    """Return the rows that Grafana makes of series: the labels that are kept, and each value under
    the text of its label ``value_label``. Rows that agree are one.
    """
    if not every:
        return []
    keys = set.intersection(*(set(series["metric"]) for series in every)) & set(kept)
    rows: list[Row] = []
    for series in every:
        labels = series["metric"]
        found = {name: text for name, text in labels.items() if name in kept}
        found.pop(value_label, None)
        found[labels[value_label]] = series["value"][1]
        _merge(rows, found, keys)
    return rows


def _merge(rows: list[Row], found: Row, keys: set[str]) -> None:
    """Join ``found`` to every row that it does not contradict, as Grafana's transformation merge;
    else add it.
    """
    joined = False
    for row in rows:
        if all(row.get(key) == found.get(key) for key in keys) and all(
            row.get(name, text) == text for name, text in found.items()
        ):
            row.update(found)
            joined = True
    if not joined:
        rows.append(dict(found))


def _cell(text: str, mappings: list[Json]) -> str:
    for mapping in mappings:
        if mapping["type"] == "regex" and re.search(mapping["options"]["pattern"], text):
            replacement = mapping["options"]["result"]["text"].replace("$", "\\")
            return re.sub(mapping["options"]["pattern"], replacement, text)
        if mapping["type"] == "value" and text in mapping["options"]:
            return str(mapping["options"][text]["text"])
        if mapping["type"] == "range" and (found := _in_range(float(text), mapping["options"])):
            return found
    return text


def _text(number: float, mappings: list[Json], unit: str) -> str:
    for mapping in mappings:
        if mapping["type"] == "value":
            for value, result in mapping["options"].items():
                if float(value) == number:
                    return str(result["text"])
        elif found := _in_range(number, mapping["options"]):
            return found
    return (
        f"{number:g} {unit.removeprefix('suffix: ')}"
        if unit.startswith("suffix")
        else f"{number:g}"
    )


def _in_range(number: float, options: Json) -> str:
    least = options["from"]
    most = options["to"]
    return (
        str(options["result"]["text"])
        if (least is None or number >= least) and (most is None or number <= most)
        else ""
    )
