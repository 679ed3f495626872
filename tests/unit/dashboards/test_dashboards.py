"""The dashboards as they are committed: the rules of Grafana's dashboard-linter, and those of this
project.
"""

import json
import re
from collections.abc import Iterator
from itertools import pairwise

import pytest
import yaml

from azure_scheduled_events_exporter.alerts.series import BLIND
from azure_scheduled_events_exporter.core.lifecycle import State, Transition
from azure_scheduled_events_exporter.metrics.spec import PREFIX
from azure_scheduled_events_exporter.metrics.table import SPECS
from dashboards.style import QUIET, STATES, UNKNOWN
from support.monitoring.board_reader import BOARDS, EVERYTHING, JSON, Json, filled, load
from support.paths import ROOT

DATASOURCE = {"type": "prometheus", "uid": "${datasource}"}
MANUAL = (ROOT / "docs" / "dashboards.md").read_text("utf-8")
# The units of Grafana that are used here; it shows an unknown one as a text behind the number.
UNITS = {
    "none",
    "s",
    "bytes",
    "percentunit",
    "suffix: blind",
    "suffix: affected",
    "dtdhms",
    "dateTimeFromNow",
    "dateTimeAsIsoNoDateIfToday",
    "dateTimeAsIso",
}
# Prometheus' own, and of the process.
OTHERS = {"up", "process_cpu_seconds_total", "process_resident_memory_bytes"}
WINDOWS = {"rate": {"5m"}, "increase": {"5m"}}


@pytest.fixture(params=BOARDS)
def board(request: pytest.FixtureRequest) -> Json:
    """Each dashboard in turn."""
    return load(request.param)


def expressions(board: Json) -> Iterator[tuple[str, str]]:
    """Yield every query with its panel, or with the annotations that it is for."""
    for panel in board["panels"]:
        for target in panel["targets"]:
            yield f"{panel['title']} {target['refId']}", target["expr"]
    for marks in board["annotations"]["list"]:
        if "expr" in marks:
            yield marks["name"], marks["expr"]


def walk(value: object) -> Iterator[object]:
    """Yield all values inside of JSON."""
    yield value
    if isinstance(value, dict):
        for each in value.values():
            yield from walk(each)
    elif isinstance(value, list):
        for each in value:
            yield from walk(each)


def properties(panel: Json, name: str) -> list[object]:
    """Return the values of one property of all columns of a panel."""
    return [
        each["value"]
        for rule in panel["fieldConfig"]["overrides"]
        for each in rule["properties"]
        if each["id"] == name
    ]


def test_the_board_keeps_its_address_and_cannot_be_edited_by_accident(board: Json) -> None:
    """dashboard-linter: uneditable-dashboard-rule.

    Importing it again replaces it; it leads to the other two.
    """
    uids = {f"azure-scheduled-events-{each}" for each in BOARDS}
    assert board["uid"] in uids
    assert board["title"].startswith("Azure Scheduled Events / ")
    assert board["description"].endswith(".")
    assert board["editable"] is False
    assert "id" not in board
    assert {link["url"].removeprefix("/d/") for link in board["links"]} == uids - {board["uid"]}
    assert all(link["keepTime"] and link["includeVars"] for link in board["links"])


def test_no_null_but_the_first_step_of_thresholds(board: Json) -> None:
    """Grafana leaves out what is not set; only the lowest threshold has no value, and an open range
    no end.
    """
    for value in walk(board):
        if isinstance(value, dict):
            nulls = {key for key, each in value.items() if each is None}
            assert nulls <= {"value", "to", "from"}, value
            assert nulls != {"value"} or set(value) == {"value", "color"}
        if isinstance(value, dict) and "steps" in value:
            first, *rest = [step["value"] for step in value["steps"]]
            assert first is None
            assert rest == sorted(rest)


def test_alerts_fill_in_variables_that_the_boards_have() -> None:
    """A variable that a link of an alert fills in can be set by a link: it exists and is shown."""
    rules = ROOT / "alerts" / "generated" / "prometheus" / "prometheus-rules.yml"
    filled_in = re.findall(r"\bvar-(\w+)=", rules.read_text("utf-8"))
    variables = [each for board in BOARDS for each in load(board)["templating"]["list"]]
    linkable = {each["name"] for each in variables if "skipUrlSync" not in each}
    assert filled_in
    assert set(filled_in) <= linkable


def test_cells_of_tables_keep_their_colors(board: Json) -> None:
    """Grafana 11 and newer ignore ``cellOptions`` of a table that has the old ``displayMode``."""
    tables = [panel for panel in board["panels"] if panel["type"] == "table"]
    assert not any("displayMode" in panel["fieldConfig"]["defaults"]["custom"] for panel in tables)


def test_events_are_marked_on_graphs(board: Json) -> None:
    """A graph with the board's time range has marks where events begin and end; a graph with a
    time range of its own has none. The page has the query to paste.
    """
    (marks,) = board["annotations"]["list"]
    graphs = {panel["id"]: panel for panel in board["panels"] if panel["type"] == "timeseries"}
    hidden = set(marks.get("filter", {"ids": []})["ids"])
    assert hidden == {number for number, panel in graphs.items() if "timeFrom" in panel}
    if board["uid"].endswith("-exporter"):
        assert f"```promql\n{marks['expr']}\n```" in MANUAL
        assert f"`{marks['titleFormat']}`" in MANUAL


def test_the_data_source_is_chosen_once(board: Json) -> None:
    """dashboard-linter: template-datasource-rule and panel-datasource-rule."""
    variables = {each["name"]: each for each in board["templating"]["list"]}
    assert (variables["datasource"]["type"], variables["datasource"]["query"]) == (
        "datasource",
        "prometheus",
    )
    for panel in board["panels"]:
        assert all(each["datasource"] == DATASOURCE for each in (panel, *panel["targets"]))


def test_variables_are_asked_again_when_the_time_range_changes(board: Json) -> None:
    """dashboard-linter: template-on-time-change-reload-rule.

    VMs come and go; one value is compared with =.
    """
    queries = [each for each in board["templating"]["list"] if each["type"] == "query"]
    on_time_range_change = 2  # Grafana's number for it
    assert all(each["refresh"] == on_time_range_change for each in queries)
    assert all(re.fullmatch(r"label_values\(.+, \w+\)", each["query"]["query"]) for each in queries)
    single = [each["name"] for each in queries if not each["multi"] and not each["hide"]]
    assert single == (["vm"] if board["uid"].endswith("-vm") else [])
    assert not any(
        re.search(rf'~"\${name}"', expr) for name in single for _, expr in expressions(board)
    )


def test_a_person_can_read_every_query(board: Json) -> None:
    """No query has more than 600 characters, and the page says how many there are and how long the
    longest is.
    """
    lengths = [len(expr) for _, expr in expressions(board)]
    assert max(lengths) <= 600
    name = {"fleet": "Fleet", "vm": "VM", "exporter": "Exporters"}[board["uid"].rpartition("-")[2]]
    columns = rf"^\| {name} \| (\d+) \|.* (\d+) characters \| \d+ \|$"
    (row,) = re.findall(columns, MANUAL, re.MULTILINE)
    assert row == (str(len(lengths)), str(max(lengths)))


def test_queries_read_scraped_series_of_the_exporter(board: Json) -> None:
    """A recording (with a colon) has scraped series behind it; a renamed metric or label leaves no
    panel empty.
    """
    for where, expr in expressions(board):
        # Without the content of quotes, and without the one recording that is asked for first.
        texts = re.sub(r'"[^"]*"|`[^`]*`', '""', filled(expr, EVERYTHING))
        texts = re.sub(rf"{BLIND}(\{{[^}}]*\}})? or ", "", texts)
        assert not re.search(r"[a-z_]:[a-z_]", texts), where
        # Names that are no functions, with the matchers in braces behind them.
        found = re.findall(r"\b([a-z][a-z_]+)(?:\{([^}]*)\})?(?=[^a-z_(]|$)", texts)
        used = [
            (name, labels) for name, labels in found if name.startswith(PREFIX) or name in OTHERS
        ]
        assert used, where
        for name, matchers in used:
            if name in OTHERS:
                continue
            spec = (
                SPECS.get(name.removeprefix(PREFIX))
                or SPECS[re.sub(r"_(sum|count)$", "", name.removeprefix(PREFIX))]
            )
            labels = set(re.findall(r"(\w+)\s*(?:=~|!~|!=|=)", matchers))
            assert labels <= {"job", "instance", *spec.labels}, f"{where}: {name}"


def test_counters_stand_only_inside_of_rate_or_increase(board: Json) -> None:
    """dashboard-linter: target-counter-agg-rule, but for the counts that the journal keeps."""
    kept = {"transitions_total"}
    for where, expr in expressions(board):
        for function, name in re.findall(
            r"(?:\b(\w+)\()?\bazure_scheduled_events_(\w+_(?:total|count|sum))\b", expr
        ):
            assert function in {"rate", "increase", "last_over_time"} or name in kept, (
                f"{where}: {name}"
            )
        for function, window in re.findall(r"\b(rate|increase)\([^\[]*\[([^\]]*)\]", expr):
            assert window in WINDOWS[function], where


def test_every_panel_says_what_it_shows_and_why_it_is_empty(board: Json) -> None:
    """dashboard-linter: panel-title-description-rule.

    Also a unit of Grafana, a link, and a text for no data.
    """
    titles = [panel["title"] for panel in board["panels"]]
    assert len(titles) == len(set(titles))
    runbooks = {f"runbooks/{path.name}" for path in (ROOT / "docs" / "runbooks").glob("*.md")}
    anchors = {
        re.sub(r"[^a-z0-9 -]", "", title.lower()).strip().replace(" ", "-")
        for title in re.findall(r"^#+ (.+)$", MANUAL, re.MULTILINE)
    }
    for panel in board["panels"]:
        assert panel["description"].endswith("."), panel["title"]
        assert {panel["fieldConfig"]["defaults"]["unit"], *properties(panel, "unit")} <= UNITS, (
            panel["title"]
        )
        answered = all(
            re.search(r" or on \(\) (label_replace\()?vector\(", each["expr"])
            for each in panel["targets"]
        )
        assert answered or panel["fieldConfig"]["defaults"].get("noValue", " ") != " ", panel[
            "title"
        ]
        (link,) = panel["links"]
        page = link["url"].rsplit("/docs/", 1)[1]
        assert page.removeprefix("dashboards.md#") in anchors or page in runbooks, (
            f"{panel['title']}: {page}"
        )


def test_panels_fill_the_grid_from_top_to_bottom(board: Json) -> None:
    """Panels fill the 24 columns. None covers another one or leaves a hole, which Grafana would
    close by moving panels.
    """
    boxes = [panel["gridPos"] for panel in board["panels"]]
    taken = [
        (x, y)
        for box in boxes
        for x in range(box["x"], box["x"] + box["w"])
        for y in range(box["y"], box["y"] + box["h"])
    ]
    columns = 24
    rows = max(y for _, y in taken) + 1
    assert len(taken) == len(set(taken)) == columns * rows
    assert max(x for x, _ in taken) == columns - 1
    assert all(one["y"] <= other["y"] for one, other in pairwise(boxes))


def test_tables_show_only_columns_that_their_queries_give(board: Json) -> None:
    """A column that no query gives would be missing without a word, and an override without a
    column has no effect.
    """
    for panel in board["panels"]:
        if panel["type"] != "table":
            continue
        options = {each["id"]: each["options"] for each in panel["transformations"]}
        kept = options["labelsToFields"]["keepLabels"]
        written = " ".join(target["expr"] for target in panel["targets"])
        # A query names its column by a label_replace that sets the label ``column``.
        helpers = {"row", "order", "traced"}  # which no table shows
        named = set(re.findall(r'"column", "([^"]+)", "", ""', written)) - helpers
        assert named <= set(kept), panel["title"]
        named |= {options["calculateField"]["alias"]} if "calculateField" in options else set()
        labels = {label for spec in SPECS.values() for label in spec.labels} | {
            "instance",
            "job",
            "column",
        }
        # Labels that a label_replace makes.
        made = set(re.findall(r'label_replace\(.*?"(\w+)", "', written)) | set(
            re.findall(r', "(\w+)", "\$1', written)
        )
        assert set(kept) <= named | labels | made, panel["title"]
        titles = {*kept, *options["organize"]["renameByName"].values()}
        overridden = {each["matcher"]["options"] for each in panel["fieldConfig"]["overrides"]} - {
            ".*"
        }
        assert overridden <= titles, panel["title"]


def test_states_are_azures_and_the_exporters_words() -> None:
    """The boards show the words of IMDS, of the status page and of traces, and each has a color."""
    current = {str(each) for each in State if each is not State.OTHER}
    ends = {
        str(each)
        for each in (
            Transition.COMPLETED,
            Transition.CANCELLED,
            Transition.LOST,
            Transition.WITHDRAWN,
        )
    }
    assert set(STATES) == current | ends | {"not seen"}


def test_no_other_provider_reads_the_folder() -> None:
    """The folder is outside the one that the most common provider file reads recursively."""
    (provider,) = yaml.safe_load((JSON / "provisioning.yaml").read_text())["providers"]
    assert not provider["options"]["path"].startswith("/var/lib/grafana/dashboards")


def test_the_provisioning_file_is_one_that_grafana_reads() -> None:
    """The manual, the file and the folder of the dashboards speak of the same place."""
    file = yaml.safe_load((JSON / "provisioning.yaml").read_text())
    (provider,) = file["providers"]
    assert (file["apiVersion"], provider["type"], provider["allowUiUpdates"]) == (1, "file", False)
    assert provider["options"]["path"] in MANUAL


def test_every_metric_of_the_exporter_is_looked_at_somewhere() -> None:
    """Each metric is on a dashboard or in an alert, or its row of the table gives the reason why
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


def test_one_blind_exporter_of_a_large_fleet_is_doubt() -> None:
    """A number that is empty while one exporter of 100,000 does not see IMDS is told as doubt, not
    as a count.
    """
    values = [value for board in BOARDS for value in walk(load(board)) if isinstance(value, dict)]
    ranges = [value["options"] for value in values if value.get("type") == "range"]
    told = [each for each in ranges if "some exporters are blind" in each["result"]["text"]]
    # From QUIET on, a value stands for no event in a countdown, which is no number of VMs.
    doubts = [each for each in told if each["from"] < QUIET]
    assert all(each["from"] <= UNKNOWN / 100_000 <= each["to"] for each in doubts)
    assert doubts
