"""The dashboards as they are committed: the rules of Grafana's dashboard-linter, and those of this project."""

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from alerts import Settings, resolve
from alerts.groups import alerts, groups
from azure_scheduled_events_exporter.core.event_types import EventType
from azure_scheduled_events_exporter.metrics.collector import SPECS
from support.paths import ROOT

JSON = ROOT / "dashboards" / "json"
GOLDEN = ROOT / "tests" / "data" / "golden" / "exposition.txt"
UIDS = ("azure-scheduled-events-fleet", "azure-scheduled-events-vm", "azure-scheduled-events-exporter")
DATASOURCE = {"type": "prometheus", "uid": "${datasource}"}
PREFIX = "azure_scheduled_events_"
Json = dict[str, Any]
# A histogram that appears with its first value has not increased: what it was at first is added with these.
FIRST_VALUE = ("min_over_time", "last_over_time")
UNITS = {  # those of Grafana that are used here; Grafana shows an unknown one as a text behind the number
    "none",
    "s",
    "bytes",
    "percentunit",
    "reqps",
    "wps",
    "cps",
    "suffix: without data",
    "dtdhms",
    "dateTimeAsIso",
    "dateTimeAsIsoNoDateIfToday",
}
RECORDINGS = {rule.record: rule.expression for group in groups(resolve({})) for rule in group.recordings()}
TRANSFORMATIONS = {"merge", "organize"}


def load(uid: str) -> Json:
    """Return one dashboard as committed."""
    loaded: Json = json.loads((JSON / f"{uid}.json").read_text("utf-8"))
    return loaded


@pytest.fixture(params=UIDS)
def board(request: pytest.FixtureRequest) -> Json:
    """Each dashboard in turn."""
    return load(request.param)


def panels(board: Json) -> list[Json]:
    """Return its panels without the headings of rows."""
    return [panel for panel in board["panels"] if panel["type"] != "row"]


def expressions(board: Json) -> Iterator[tuple[str, str]]:
    """Yield every query with its panel."""
    for panel in panels(board):
        for target in panel["targets"]:
            yield f"{panel['title']} {target['refId']}", target["expr"]
    for annotation in board["annotations"]["list"]:
        if "expr" in annotation:
            yield f"annotation {annotation['name']}", annotation["expr"]


def selectors(expr: str) -> list[tuple[str, str]]:
    """Return the metrics of an expression with their matchers."""
    return re.findall(r"\b([a-z][a-z0-9_:]*)\{([^}]*(?:\{[^}]*\}[^}]*)*)\}", expr)


def walk(value: object) -> Iterator[object]:
    """Yield all values inside of JSON."""
    yield value
    if isinstance(value, dict):
        for each in value.values():
            yield from walk(each)
    elif isinstance(value, list):
        for each in value:
            yield from walk(each)


def test_the_committed_json_is_what_the_code_says() -> None:
    """A dashboard whose code was changed without regenerating its JSON fails the check."""
    done = subprocess.run([sys.executable, "-m", "dashboards", "--check"], cwd=ROOT, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()


def test_check_names_the_file_that_differs(tmp_path: Path) -> None:
    """--check fails and names each file that differs, is missing or is not generated."""
    (tmp_path / "json").mkdir()
    (tmp_path / "json" / "stray.json").write_text("{}")
    code = (
        "import pathlib, sys, dashboards.__main__ as main\n"
        "main.FOLDER = pathlib.Path(sys.argv.pop(1))\n"
        "sys.exit(main.main())"
    )
    arguments = [sys.executable, "-c", code, str(tmp_path / "json"), "--check"]
    done = subprocess.run(arguments, cwd=ROOT, capture_output=True, check=False)
    said = done.stderr.decode()
    assert done.returncode == 1
    assert all(name in said for name in (*UIDS, "stray.json"))


def test_uid_title_and_description_are_fixed(board: Json) -> None:
    """A dashboard keeps its address when it is imported again, and has a description."""
    assert board["uid"] in UIDS
    assert (JSON / f"{board['uid']}.json").exists()
    assert board["title"].startswith("Azure Scheduled Events / ")
    assert board["description"].endswith(".")
    assert board["schemaVersion"] == 39
    assert "id" not in board


def test_it_cannot_be_edited_by_accident(board: Json) -> None:
    """dashboard-linter: uneditable-dashboard-rule. Provisioned dashboards would lose what somebody changed."""
    assert board["editable"] is False


def test_no_null_but_the_first_step_of_thresholds(board: Json) -> None:
    """Grafana leaves out what is not set; only the lowest threshold has no value, and an open range no end."""
    for value in walk(board):
        if isinstance(value, dict):
            nulls = {key for key, each in value.items() if each is None}
            assert nulls <= {"value", "to", "from"}, value
            assert nulls != {"value"} or set(value) == {"value", "color"}
            assert not nulls & {"from", "to"} or set(value) == {"from", "to", "result"}
            assert value.get("value") != "null"


def test_thresholds_begin_without_limit_and_ascend(board: Json) -> None:
    """Every number has a color."""
    for value in walk(board):
        if isinstance(value, dict) and "steps" in value:
            first, *rest = [step["value"] for step in value["steps"]]
            assert first is None
            assert rest == sorted(rest)


def test_every_datasource_is_the_variable(board: Json) -> None:
    """dashboard-linter: template-datasource-rule and panel-datasource-rule. One chooses the data source once."""
    variables = {each["name"]: each for each in board["templating"]["list"]}
    assert variables["datasource"]["type"] == "datasource"
    assert variables["datasource"]["query"] == "prometheus"
    assert variables["datasource"]["label"] == "Data source"
    for panel in panels(board):
        assert panel["datasource"] == DATASOURCE
        assert all(target["datasource"] == DATASOURCE for target in panel["targets"])
    assert all(
        each["datasource"] == DATASOURCE
        for each in board["annotations"]["list"]
        if each["name"] != "Annotations & Alerts"
    )


def test_the_exporters_dashboard_chooses_job_and_instance() -> None:
    """dashboard-linter: template-job-rule and template-instance-rule. Several can be chosen, or all."""
    for variable in load("azure-scheduled-events-exporter")["templating"]["list"]:
        if variable["type"] == "query":
            assert variable["label"] == variable["name"].capitalize()
            assert variable["datasource"] == DATASOURCE
            assert variable["multi"]
            assert variable["includeAll"]
            assert variable["allValue"] == ".+"


def test_variables_are_those_that_the_recordings_can_be_chosen_by(board: Json) -> None:
    """The order is that in which they depend on each other; VMs without scale set are in All."""
    names = [each["name"] for each in board["templating"]["list"] if each["name"] not in {"datasource", "traces"}]
    places = ["resource_group", "scale_set"]
    assert (
        names
        == {
            "azure-scheduled-events-fleet": places,
            "azure-scheduled-events-vm": [*places, "vm", "job", "instance"],
            "azure-scheduled-events-exporter": ["job", "instance"],
        }[board["uid"]]
    )
    every = {each["name"]: each.get("allValue") for each in board["templating"]["list"]}
    assert all(every[place] == ".*" for place in places if place in every)


def test_variables_are_asked_again_when_the_time_range_changes(board: Json) -> None:
    """dashboard-linter: template-on-time-change-reload-rule. VMs come and go."""
    queries = [each for each in board["templating"]["list"] if each["type"] == "query"]
    assert all(each["refresh"] == 2 for each in queries)
    assert all(re.fullmatch(r"label_values\(.+, \w+\)", each["query"]["query"]) for each in queries)


def test_a_variable_with_one_value_is_compared_as_it_is(board: Json) -> None:
    """Grafana escapes a value for a regular expression only where several can be chosen."""
    variables = [each for each in board["templating"]["list"] if each["type"] == "query"]
    single = "|".join(each["name"] for each in variables if not (each["multi"] or each["includeAll"]))
    queries = [*expressions(board), *((each["name"], each["query"]["query"]) for each in variables)]
    assert single or not board["uid"].endswith("-vm")
    assert [where for where, expr in queries if single and re.search(rf'[=!]~"\$({single})"', expr)] == []


def test_a_person_can_read_every_query(board: Json) -> None:
    """No query has more than 600 characters."""
    assert {where: len(expr) for where, expr in expressions(board) if len(expr) > 600} == {}


def test_the_page_says_how_many_queries_there_are_and_how_long_the_longest_is(board: Json) -> None:
    """The table of costs has the number of queries of each dashboard, and the length of its longest one."""
    page = (ROOT / "docs" / "dashboards.md").read_text("utf-8")
    name = {"fleet": "Fleet", "vm": "VM", "exporter": "Exporters"}[board["uid"].rpartition("-")[2]]
    (row,) = re.findall(rf"^\| {name} \| (\d+) \|.* (\d+) characters \|$", page, re.MULTILINE)
    lengths = [len(expr) for _, expr in expressions(board)]
    assert row == (str(len(lengths)), str(max(lengths)))


def test_graphs_stand_on_recordings(board: Json) -> None:
    """Over time, a query reads recordings, or scraped series of one chosen exporter."""
    for panel in panels(board):
        for target in panel["targets"]:
            for metric, matchers in selectors(target["expr"]) if target["range"] else ():
                one = board["uid"].endswith("-vm") and 'instance="$instance"' in matchers
                assert ":" in metric or one, f"{panel['title']}: {metric}"


def test_rates_look_at_more_than_one_scrape(board: Json) -> None:
    """Rate looks at five minutes, as the recordings do; increase at whole ranges."""
    for where, expr in expressions(board):
        for function, window in re.findall(r"\b(rate|irate|increase|delta)\([^\[]*\[([^\]]*)\]", expr):
            assert window in {"rate": {"5m"}, "increase": {"$__range", "$__rate_interval", "1h"}}[function], where


def test_counters_stand_only_inside_of_rate_or_increase(board: Json) -> None:
    """dashboard-linter: target-counter-agg-rule. A counter restarts at 0 with its process, if no journal keeps it."""
    for where, expr in expressions(board):
        for function, metric in re.findall(r"(?:\b(\w+)\()?\b([a-z_]+_(?:total|bucket|count|sum))\{", expr):
            if metric.endswith("_total") and metric != "azure_scheduled_events_transitions_total":
                assert function in {"rate", "increase"}, f"{where}: {metric}"
            else:
                assert function in {"rate", "increase", *FIRST_VALUE}, f"{where}: {metric}"


def test_every_metric_is_one_that_an_exporter_has_or_a_rule_records(board: Json) -> None:
    """A renamed metric or recording does not leave an empty panel behind."""
    known = set(re.findall(r"^([a-z_]+)[ {]", GOLDEN.read_text(), re.MULTILINE)) | RECORDINGS.keys()
    known |= {"up", "process_cpu_seconds_total", "process_resident_memory_bytes"}  # Prometheus's, and of the process
    for where, expr in expressions(board):
        used = {metric for metric, _ in selectors(expr)} | set(re.findall(r"\bazure_scheduled_events[_:][\w:]+", expr))
        assert used, where
        assert used <= known, where


def test_every_label_is_one_that_the_metric_has(board: Json) -> None:
    """A matcher on a label that a metric does not have selects nothing, or everything."""
    for where, expr in expressions(board):
        for metric, matchers in selectors(expr):
            if ":" in metric:
                continue
            name = re.sub(r"_(bucket|sum|count)$", "", metric.removeprefix(PREFIX))
            labels = {"job", "instance", *(SPECS[name].labels if metric.startswith(PREFIX) else ())}
            used = set(re.findall(r"(\w+)\s*(?:=~|!~|!=|=)", re.sub(r'"[^"]*"|`[^`]*`', "", matchers)))
            assert used <= labels, f"{where}: {metric}"


def test_every_metric_of_the_exporter_is_looked_at_somewhere() -> None:
    """Each metric is on a dashboard or in an alert, or its row of the table gives the reason why not."""
    shown = [expr for uid in UIDS for _, expr in expressions(load(uid))]
    alerting = [alert.expression for alert in alerts(Settings())]
    text = " ".join(
        [*shown, *alerting, *(expr for name, expr in RECORDINGS.items() if any(name in each for each in shown))]
    )
    unseen = [
        name for name, spec in SPECS.items() if not re.search(rf"\b{spec.full_name}(_bucket|_sum|_count)?\b", text)
    ]
    excused = [name for name, spec in SPECS.items() if spec.not_shown]
    assert unseen == excused, "show the metric on a dashboard, or say in its row why not: not_shown"


def test_every_panel_says_what_it_shows(board: Json) -> None:
    """dashboard-linter: panel-title-description-rule. Also its unit, a runbook or manual page, and no title twice."""
    for panel in panels(board):
        assert panel["title"]
        assert panel["description"].endswith("."), panel["title"]
        assert panel["links"], panel["title"]
        units = [panel["fieldConfig"]["defaults"]["unit"]]
        for override in panel["fieldConfig"]["overrides"]:
            units += [each["value"] for each in override["properties"] if each["id"] == "unit"]
        assert set(units) <= UNITS, panel["title"]
    titles = [panel["title"] for panel in panels(board)]
    assert len(titles) == len(set(titles))


def test_nothing_is_green_or_blank_because_it_is_silent(board: Json) -> None:
    """Every panel has a text for the case without data."""
    for panel in panels(board):
        queries = [target["expr"] for target in panel["targets"]]
        by_query = all(expr.endswith(("vector(3e+10)", "vector(0)")) for expr in queries)
        assert by_query or panel["fieldConfig"]["defaults"].get("noValue"), panel["title"]


def test_panels_do_not_overlap_and_fill_the_grid(board: Json) -> None:
    """24 columns hold, ids are unique, and no panel covers another."""
    taken: dict[tuple[int, int], str] = {}
    ids = [panel["id"] for panel in board["panels"]]
    assert len(ids) == len(set(ids))
    for panel in board["panels"]:
        box = panel["gridPos"]
        assert box["x"] + box["w"] <= 24, panel["title"]
        for x in range(box["x"], box["x"] + box["w"]):
            for y in range(box["y"], box["y"] + box["h"]):
                assert (x, y) not in taken, f"{panel['title']} covers {taken.get((x, y))}"
                taken[x, y] = panel["title"]
    height = max(y for _, y in taken) + 1
    assert len(taken) == 24 * height, "a hole in the grid: Grafana would move panels up"


def test_queries_of_a_panel_have_names_of_their_own(board: Json) -> None:
    """Table columns are addressed by the name of the query: the n-th letter for the n-th."""
    for panel in panels(board):
        names = [target["refId"] for target in panel["targets"]]
        assert names == list("ABCDEFGHIJKLM"[: len(names)])
        for target in panel["targets"]:
            assert target["instant"] is not target["range"]


def test_tables_rename_only_columns_that_their_queries_give(board: Json) -> None:
    """A column that no query gives would be missing without a word."""
    for panel in panels(board):
        known = {transformation["id"] for transformation in panel.get("transformations", [])}
        assert known <= TRANSFORMATIONS
        if not known:
            continue
        queries = panel["targets"]
        values = {"Value"} if len(queries) == 1 else {f"Value #{target['refId']}" for target in queries}
        options = panel["transformations"][-1]["options"]
        named = {name for name in options["indexByName"] if name.startswith("Value")}
        dropped = {name for name in options["excludeByName"] if name.startswith("Value")}
        if values != {"Value"}:
            assert named | dropped == values, panel["title"]
        titles = list(options["renameByName"].values())
        assert len(titles) == len(set(titles))
        shown = {*titles, *(name for name in options["indexByName"] if name not in options["renameByName"])}
        overridden = {each["matcher"]["options"] for each in panel["fieldConfig"]["overrides"]}
        assert overridden <= shown | {"completed", "cancelled", "lost", "current"}, panel["title"]


def test_a_color_has_one_meaning() -> None:
    """Every color is one of the palette; none of the default names slips in."""
    from_code = (ROOT / "dashboards" / "style.py").read_text()
    palette = {*re.findall(r"#[0-9A-F]{6}", from_code), *(event_type.facts.color for event_type in EventType)}
    for uid in UIDS:
        for value in walk(load(uid)["panels"]):
            if isinstance(value, dict):
                for key in ("color", "fixedColor"):
                    if isinstance(value.get(key), str):
                        assert value[key] in palette, f"{uid}: {value}"
                assert value.get("mode") not in {"palette-classic", "palette-classic-by-name"}, uid


def test_links_between_dashboards_keep_time_and_variables(board: Json) -> None:
    """Each dashboard leads to the other two, at the same time range and selection."""
    targets = {link["url"].removeprefix("/d/") for link in board["links"]}
    assert targets == set(UIDS) - {board["uid"]}
    assert all(link["keepTime"] and link["includeVars"] for link in board["links"])


def test_the_marks_on_graphs_are_detected_started_and_ended(board: Json) -> None:
    """The graphs say when an event was announced, began and was over."""
    names = [each["name"] for each in board["annotations"]["list"] if not each.get("builtIn")]
    assert names == ["Detected", "Started", "Ended"]


def test_every_panel_links_into_the_documentation(board: Json) -> None:
    """A link to the manual leads to a heading that exists; a link to a runbook to a page of ours."""
    manual = (ROOT / "docs" / "dashboards.md").read_text("utf-8")
    anchors = {
        re.sub(r"[^a-z0-9 -]", "", title.lower()).strip().replace(" ", "-")
        for title in re.findall(r"^#+ (.+)$", manual, re.MULTILINE)
    }
    for panel in panels(board):
        for link in panel["links"]:
            page = link["url"].rsplit("/docs/", 1)[1]
            if page.startswith("runbooks/"):
                assert (ROOT / "docs" / page).exists(), panel["title"]
            else:
                assert page.removeprefix("dashboards.md#") in anchors, panel["title"]


def test_the_provisioning_file_is_one_that_grafana_reads() -> None:
    """The manual, the file and the folder of the dashboards speak of the same place."""
    file = yaml.safe_load((ROOT / "dashboards" / "json" / "provisioning.yaml").read_text())
    (provider,) = file["providers"]
    assert file["apiVersion"] == 1
    assert provider["type"] == "file"
    assert provider["allowUiUpdates"] is False
    assert provider["options"]["path"] in (ROOT / "docs" / "dashboards.md").read_text("utf-8")


def test_every_picture_of_the_manual_exists_and_is_small() -> None:
    """The manual loads quickly, and shows what it promises."""
    pictures = re.findall(r"!\[[^\]]+\]\(([^)]+)\)", (ROOT / "docs" / "dashboards.md").read_text("utf-8"))
    assert len(pictures) >= 5
    for picture in pictures:
        assert (ROOT / "docs" / picture).stat().st_size < 400_000, picture
