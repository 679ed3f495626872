"""The dashboards as they are committed, but for their queries: the rules of Grafana's
dashboard-linter, and those of this project.
"""

import re
from collections.abc import Iterator
from itertools import pairwise

import yaml

from azure_scheduled_events_exporter.core.lifecycle import State, Transition
from azure_scheduled_events_exporter.metrics.table import SPECS
from dashboards.__main__ import problems
from dashboards.style import QUIET, STATES, UNKNOWN
from support.monitoring.board_reader import BOARDS, JSON, Json, load
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
    """Return the values that the overrides of a panel give to one property, such as its unit."""
    return [
        each["value"]
        for rule in panel["fieldConfig"]["overrides"]
        for each in rule["properties"]
        if each["id"] == name
    ]


def test_the_board_keeps_its_address_and_cannot_be_edited_by_accident(board: Json) -> None:
    """dashboard-linter: uneditable-dashboard-rule.

    The uid of a board is its address. A board has no ``id``, so that an import replaces the board
    with the same uid. It links to the other two boards, which then show the same time and values.
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
    """Grafana leaves out what is not set. It writes null only for the value of the lowest
    threshold, and for the end of an open range.
    """
    for value in walk(board):
        if not isinstance(value, dict):
            continue
        nulls = {key for key, each in value.items() if each is None}
        assert nulls <= {"value", "to", "from"}, value
        if "value" in nulls:
            keys_of_a_step = {"value", "color"}
            assert set(value) == keys_of_a_step
        if "steps" in value:
            lowest, *others = [step["value"] for step in value["steps"]]
            assert lowest is None
            assert others == sorted(others)


def test_alerts_fill_in_variables_that_the_boards_have() -> None:
    """A variable that a link of an alert fills in exists, and Grafana takes it from the address."""
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
    without_marks = set()
    if "filter" in marks:
        assert marks["filter"]["exclude"], "the ids are those of graphs without marks"
        without_marks = set(marks["filter"]["ids"])
    assert without_marks == {number for number, panel in graphs.items() if "timeFrom" in panel}
    if board["uid"].endswith("-exporter"):  # the page has the query of this board alone
        assert f"```promql\n{marks['expr']}\n```" in MANUAL
        assert f"`{marks['titleFormat']}`" in MANUAL


def test_the_data_source_is_chosen_once(board: Json) -> None:
    """A variable of the board has the data source, and every panel and query takes that.

    dashboard-linter: template-datasource-rule and panel-datasource-rule.
    """
    variables = {each["name"]: each for each in board["templating"]["list"]}
    assert (variables["datasource"]["type"], variables["datasource"]["query"]) == (
        "datasource",
        "prometheus",
    )
    for panel in board["panels"]:
        assert all(each["datasource"] == DATASOURCE for each in (panel, *panel["targets"]))


def test_every_panel_says_what_it_shows_and_why_it_is_empty(board: Json) -> None:
    """dashboard-linter: panel-title-description-rule.

    A panel also has units that Grafana knows, and a text for no data unless its queries always
    have an answer.
    """
    titles = [panel["title"] for panel in board["panels"]]
    assert len(titles) == len(set(titles))
    for panel in board["panels"]:
        title = panel["title"]
        assert panel["description"].endswith("."), title
        defaults = panel["fieldConfig"]["defaults"]
        assert {defaults["unit"], *properties(panel, "unit")} <= UNITS, title
        always_answered = all(
            re.search(r" or on \(\) (label_replace\()?vector\(", each["expr"])
            for each in panel["targets"]
        )
        text_for_no_data = defaults.get("noValue", "").strip()
        assert always_answered or text_for_no_data, title


def test_every_panel_links_to_a_page(board: Json) -> None:
    """The one link of a panel leads to a section of the page about dashboards, or to a runbook."""
    runbooks = {f"runbooks/{path.name}" for path in (ROOT / "docs" / "runbooks").glob("*.md")}
    sections = {
        re.sub(r"[^a-z0-9 -]", "", heading.lower()).strip().replace(" ", "-")
        for heading in re.findall(r"^#+ (.+)$", MANUAL, re.MULTILINE)
    }
    targets = runbooks | {f"dashboards.md#{section}" for section in sections}
    for panel in board["panels"]:
        (link,) = panel["links"]
        assert link["url"].rsplit("/docs/", 1)[1] in targets, panel["title"]


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


LABELS = {label for spec in SPECS.values() for label in spec.labels} | {"instance", "job"}
"""The labels of all series that are scraped from exporters."""


def columns_by_name(queries: str) -> set[str]:
    """Return the columns that queries name by a label_replace that sets the label ``column``,
    without those that tables use only to build, order and link their rows.
    """
    not_shown = {"row", "order", "traced"}
    return set(re.findall(r'"column", "([^"]+)", "", ""', queries)) - not_shown


def labels_made(queries: str) -> set[str]:
    """Return the labels that a label_replace in the queries makes."""
    by_outermost_call = re.findall(r'label_replace\(.*?"(\w+)", "', queries)
    by_copy_of_another = re.findall(r', "(\w+)", "\$1', queries)
    return {*by_outermost_call, *by_copy_of_another}


def test_tables_show_the_columns_that_their_queries_give(board: Json) -> None:
    """A table keeps each column that its queries name. What it keeps is one of these columns or a
    label that its queries give: anything else would be missing without a word. Each override is
    of a column of the table: any other has no effect.
    """
    for panel in board["panels"]:
        if panel["type"] != "table":
            continue
        options = {each["id"]: each["options"] for each in panel["transformations"]}
        kept = set(options["labelsToFields"]["keepLabels"])
        queries = " ".join(target["expr"] for target in panel["targets"])
        named = columns_by_name(queries)
        assert named <= kept, panel["title"]
        available = named | LABELS | labels_made(queries) | {"column"}
        if "calculateField" in options:
            available.add(options["calculateField"]["alias"])
        assert kept <= available, panel["title"]
        titles = {*kept, *options["organize"]["renameByName"].values()}
        overridden = {each["matcher"]["options"] for each in panel["fieldConfig"]["overrides"]}
        all_columns = ".*"
        assert overridden - {all_columns} <= titles, panel["title"]


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
    """The provider file has Grafana read the boards from a folder of their own.

    It is outside the folder that most installations have a provider for already, which reads all
    folders below it, too.
    """
    read_by_most_providers = "/var/lib/grafana/dashboards"
    (provider,) = yaml.safe_load((JSON / "provisioning.yaml").read_text())["providers"]
    assert not provider["options"]["path"].startswith(read_by_most_providers)


def test_the_provisioning_file_is_one_that_grafana_reads() -> None:
    """The file is of the version and type that Grafana reads, and its folder is the manual's."""
    file = yaml.safe_load((JSON / "provisioning.yaml").read_text())
    (provider,) = file["providers"]
    assert (file["apiVersion"], provider["type"], provider["allowUiUpdates"]) == (1, "file", False)
    assert provider["options"]["path"] in MANUAL


def test_one_blind_exporter_of_a_large_fleet_is_doubt() -> None:
    """A panel that counts VMs says that some exporters are blind if it counts none and one of
    100,000 exporters does not see IMDS: the value of its query is in the range with that text.
    """
    # A query that finds no VM returns UNKNOWN, which is 3e10, times the share of blind exporters:
    # here 300,000, which is far above any number of VMs.
    one_of_many_is_blind = UNKNOWN / 100_000
    values = [value for board in BOARDS for value in walk(load(board)) if isinstance(value, dict)]
    ranges = [value["options"] for value in values if value.get("type") == "range"]
    doubts = [each for each in ranges if "some exporters are blind" in each["result"]["text"]]
    # The ranges from QUIET on, which is 1e10, are those of countdowns.
    of_counts = [each for each in doubts if each["from"] < QUIET]
    assert of_counts
    assert all(each["from"] <= one_of_many_is_blind <= each["to"] for each in of_counts)


def test_a_file_that_nothing_generates_is_to_be_removed() -> None:
    """``problems`` names each committed file that the generator does not make: to generate the
    dashboards again would leave it where it is.
    """
    found = problems({})  # no file is generated, so each that is there is surplus
    assert len(found) == len(BOARDS)
    assert all(each.endswith("is generated by nothing: remove it") for each in found)
