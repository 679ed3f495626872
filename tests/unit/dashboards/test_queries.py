"""The queries and variables of the dashboards as they are committed: the rules of Grafana's
dashboard-linter, and those of this project.
"""

import json
import re
from collections.abc import Iterator

from azure_scheduled_events_exporter.alerts.series import BLIND
from azure_scheduled_events_exporter.metrics.spec import PREFIX
from azure_scheduled_events_exporter.metrics.table import SPECS
from support.monitoring.board_reader import BOARDS, EVERYTHING, Json, filled, load
from support.paths import ROOT

MANUAL = (ROOT / "docs" / "dashboards.md").read_text("utf-8")
OTHER_METRICS = {"up", "process_cpu_seconds_total", "process_resident_memory_bytes"}
"""Metrics of Prometheus and of every Python process, which have no prefix of the exporter."""
RATE_WINDOW = "5m"
"""The range over which each rate and increase is taken."""
LONGEST_QUERY = 600
"""Characters that a person still reads."""


def expressions(board: Json) -> Iterator[tuple[str, str]]:
    """Yield every query with its panel, or with the annotations that it is for."""
    for panel in board["panels"]:
        for target in panel["targets"]:
            yield f"{panel['title']} {target['refId']}", target["expr"]
    for marks in board["annotations"]["list"]:
        if "expr" in marks:
            yield marks["name"], marks["expr"]


def queried_variables(board: Json) -> list[Json]:
    """Return the variables whose values are asked for by a query."""
    return [each for each in board["templating"]["list"] if each["type"] == "query"]


def test_variables_are_asked_again_when_the_time_range_changes(board: Json) -> None:
    """dashboard-linter: template-on-time-change-reload-rule. VMs come and go."""
    on_time_range_change = 2  # Grafana's number for it
    for variable in queried_variables(board):
        assert variable["refresh"] == on_time_range_change
        assert re.fullmatch(r"label_values\(.+, \w+\)", variable["query"]["query"])


def test_a_variable_with_one_value_is_compared_by_equality(board: Json) -> None:
    """Only the board of a VM has a variable of which one value is chosen. Its value, a name, is no
    regular expression, so no query has it behind ``=~``.
    """
    single = [
        each["name"] for each in queried_variables(board) if not each["multi"] and not each["hide"]
    ]
    assert single == (["vm"] if board["uid"].endswith("-vm") else [])
    for name in single:
        assert not any(f'~"${name}"' in expr for _, expr in expressions(board))


def test_a_person_can_read_every_query(board: Json) -> None:
    """No query is longer than LONGEST_QUERY, and the page says how many there are and how long the
    longest is.
    """
    lengths = [len(expr) for _, expr in expressions(board)]
    assert max(lengths) <= LONGEST_QUERY
    _, _, board_name = board["uid"].rpartition("-")
    name = {"fleet": "Fleet", "vm": "VM", "exporter": "Exporters"}[board_name]
    columns = rf"^\| {name} \| (\d+) \|.* (\d+) characters \| \d+ \|$"
    (row,) = re.findall(columns, MANUAL, re.MULTILINE)
    assert row == (str(len(lengths)), str(max(lengths)))


def selectors(expr: str) -> list[tuple[str, str]]:
    """Return the series that a query without texts in quotes reads: names and their matchers."""
    names_that_are_no_functions = r"\b([a-z][a-z_]+)(?:\{([^}]*)\})?(?=[^a-z_(]|$)"
    return [
        (name, matchers)
        for name, matchers in re.findall(names_that_are_no_functions, expr)
        if name.startswith(PREFIX) or name in OTHER_METRICS
    ]


def test_queries_read_scraped_series_of_the_exporter(board: Json) -> None:
    """Every query reads metrics that the exporter has, by labels that these metrics have, and works
    without recording rules: the one recording that is read has scraped series behind its ``or``.
    """
    name_of_a_recording = r"[a-z_]:[a-z_]"
    for where, expr in expressions(board):
        without_texts = re.sub(r'"[^"]*"|`[^`]*`', '""', filled(expr, EVERYTHING))
        scraped = re.sub(rf"{BLIND}(\{{[^}}]*\}})? or ", "", without_texts)
        assert not re.search(name_of_a_recording, scraped), f"{where} needs a recording"
        used = selectors(scraped)
        assert used, where
        for name, matchers in used:
            if name in OTHER_METRICS:
                continue
            short = name.removeprefix(PREFIX)
            histogram = re.sub(r"_(sum|count)$", "", short)  # if it is a series of one
            spec = SPECS.get(short) or SPECS[histogram]
            compared_labels = set(re.findall(r"(\w+)\s*(?:=~|!~|!=|=)", matchers))
            assert compared_labels <= {"job", "instance", *spec.labels}, f"{where}: {name}"


def test_counters_stand_only_inside_of_rate_or_increase(board: Json) -> None:
    """dashboard-linter: target-counter-agg-rule.

    There are two exceptions. A count that the journal keeps goes on after a restart, and may be
    read by itself. Of any counter, ``last_over_time`` may read the last value, which an exporter
    that is down has still. Each rate and each increase is over RATE_WINDOW.
    """
    counters = r"(?:\b(\w+)\()?\bazure_scheduled_events_(\w+_(?:total|count|sum))\b"
    kept_by_the_journal = {"transitions_total"}
    for where, expr in expressions(board):
        for function, name in re.findall(counters, expr):
            is_within_a_range = function in {"rate", "increase", "last_over_time"}
            assert is_within_a_range or name in kept_by_the_journal, f"{where}: {name}"
        for window in re.findall(r"\b(?:rate|increase)\([^\[]*\[([^\]]*)\]", expr):
            assert window == RATE_WINDOW, where


def test_every_metric_of_the_exporter_is_looked_at_somewhere() -> None:
    """Each metric is on a dashboard or in a rule, or its row of the table gives the reason why
    not.
    """
    rules = (ROOT / "alerts" / "generated" / "prometheus" / "prometheus-rules.yml").read_text(
        "utf-8"
    )
    text = rules + " ".join(json.dumps(load(each)) for each in BOARDS)
    shown = {
        name
        for name, spec in SPECS.items()
        if re.search(rf"\b{spec.full_name}(_bucket|_sum|_count)?\b", text)
    }
    assert SPECS.keys() - shown <= {name for name, spec in SPECS.items() if spec.not_shown}
