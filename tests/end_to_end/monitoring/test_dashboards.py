"""Every query of the dashboards returns data from a real Prometheus, which scrapes exporters that poll the simulator.

A VictoriaMetrics that Prometheus writes everything to, the recordings too, answers the same.
The fleet plays one story, and its tests look at the end of it: events that were completed, cancelled and lost are over,
and there are current ones in each state, approved by each that may approve. One exporter is down.
"""

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from alerts import resolve
from dashboards.recorded import BLIND, EVENT, FIRST_SEEN, STATE
from support.monitoring.engines import PRECISION, VictoriaMetrics, answer, difference
from support.monitoring.fleet import Fleet, Group
from support.monitoring.paging import write
from support.paths import ROOT
from support.programs import Prometheus, eventually, fetch

JSON = ROOT / "dashboards" / "json"
SCHEDULED_EVENTS = "/metadata/scheduledevents?api-version=2020-07-01"
UNKNOWN, MISSING = 3e10, 4e10
WITHOUT_DATA = {
    "fleet": {},
    "vm": {},
    "exporter": {
        "Failed polls A": "no poll failed",
        "Slowest poll rate A": "no exporter has run for a minute",
        "Throttled polls A": "no poll was throttled",
        "Failed writes of the journal A": "every write succeeded",
        "Spans queued by exporter A": "nothing is traced",
        "Journals that are not on disk A": "every journal is on disk",
        "Pushed alerts by outcome A": "no exporter pushes",
    },
}
"""Queries that may find nothing, as ``panel ref``, each with the reason: they show problems only."""
TOLERATED = {
    # Prometheus scales an increase() up to the whole window; VictoriaMetrics returns whole numbers, and counts the step
    # from the last value before the window. The panels show no decimals.
    "Requests to approve A": 0.5,
    "DocumentIncarnation B": 2,
    # A rate() over the five minutes before, of exporters that have run for less: VictoriaMetrics divides by their age.
    "Most CPU A": 0.5,
}
"""By how much the engines may differ in what a query, as ``panel ref``, answers."""
SECOND = {
    "job": "exporter",
    "scrape.interval": "1s",
    "evaluation.interval": "1s",
    "evaluation.slow-interval": "3s",
    "evaluation.watcher-interval": "1s",
}
"""The settings of the rules: everything once a second, so that a test need not wait."""
Json = dict[str, Any]

WEB = Group(
    "web",
    ("1", "2", "2"),
    (
        {"type": "Freeze", "resources": ["web_0"], "announced_at": "6s", "notice": "4s", "started_for": "4s"},
        {"type": "Preempt", "resources": ["web_1"], "announced_at": "7s", "notice": "1h", "cancelled_at": "12s"},
        {"type": "Redeploy", "resources": ["web_0"], "announced_at": "7s", "notice": "8s", "cancelled_at": "14s"},
        {"type": "Reboot", "resources": ["web_0"], "announced_at": "9s", "notice": "1h", "started_for": "1h"},
        {"type": "Freeze", "announced_at": "10s", "notice": "1h", "duration": "30s"},
        {
            "type": "Reboot",
            "resources": ["web_0", "web_1"],
            "announced_at": "11s",
            "notice": "1h",
            "source": "User",
            "approval_delay": "1h",
        },
        {"type": "Terminate", "resources": ["web_0"], "announced_at": "13s", "notice": "3s"},
    ),
)

DATABASE = Group("db", ("1",), ({"type": "Freeze", "announced_at": "6s", "notice": "1h", "duration": "30s"},))


@dataclass(frozen=True)
class Stage:
    """A Prometheus, and what Grafana would put in for its variables: at first everything is selected."""

    prometheus: Prometheus
    began: float
    selection: dict[str, str] = field(default_factory=dict)

    def expression(self, expr: str) -> str:
        """Return ``expr`` with the variables replaced, the longest names first."""
        macros = {
            "$__range": f"{int(time.time() - self.began) + 1}s",
            "$__rate_interval": "8s",
            "$__interval": "5s",
            "$job": ".+",
            "$instance": ".+",
            "$resource_group": ".*",
            "$scale_set": ".*",
            **self.selection,
        }
        for name, value in macros.items():
            expr = expr.replace(name, value)
        return expr

    def of_vm(self, name: str) -> "Stage":
        """Return it with the variables of the dashboard of one VM, as Grafana finds them."""
        known = f'last_over_time(azure_scheduled_events_instance_info{{vm_name="{name}"}}[1h])'
        (target,) = (series["metric"] for series in self.ask(known))
        vm = {"${vm:regex}": name, "$vm": name, "$job": target["job"], "$instance": target["instance"]}
        return Stage(self.prometheus, self.began, vm)

    def chosen(self, uid: str) -> "Stage":
        """Return it with a selection for one of the dashboards."""
        return self.of_vm("web_0") if uid == "vm" else self

    def ask(self, expr: str) -> list[Json]:
        """Return the series of ``expr`` now."""
        return self._get("query", query=self.expression(expr), time=f"{time.time()}")

    def ask_range(self, expr: str, start: float, end: float, step: float) -> list[Json]:
        """Return the series of ``expr`` over time."""
        return self._get("query_range", query=self.expression(expr), start=f"{start}", end=f"{end}", step=f"{step}")

    def _get(self, path: str, **parameters: str) -> list[Json]:
        return answer(self.prometheus.url, path, parameters)

    def value(self, uid: str, title: str) -> float:
        """Return what a panel of one number shows."""
        (series,) = self.ask(_panel(uid, title)["targets"][0]["expr"])
        return float(series["value"][1])

    def table(self, uid: str, title: str, ref: str) -> list[tuple[dict[str, str], float]]:
        """Return the rows that one query gives to a table."""
        target = next(target for target in _panel(uid, title)["targets"] if target["refId"] == ref)
        return [(series["metric"], float(series["value"][1])) for series in self.ask(target["expr"])]


def _rules(folder: Path) -> Path:
    """Write the shipped rules into ``folder``; return the file of the rules."""
    write(folder, "prometheus/", resolve(SECOND))
    return folder / "prometheus" / "prometheus-rules.yml"


def _board(uid: str) -> Json:
    board: Json = json.loads((JSON / f"azure-scheduled-events-{uid}.json").read_text("utf-8"))
    return board


def _panel(uid: str, title: str) -> Json:
    found: Json = next(panel for panel in _board(uid)["panels"] if panel["title"] == title)
    return found


@pytest.fixture(scope="module")
def victoria(tmp_path_factory: pytest.TempPathFactory) -> Iterator[VictoriaMetrics]:
    """A VictoriaMetrics, to which the Prometheus of :func:`stage` writes everything."""
    with VictoriaMetrics(tmp_path_factory.mktemp("victoria")) as program:
        yield program


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory, victoria: VictoriaMetrics) -> Iterator[Stage]:
    """The fleet at the end of its story."""
    began = time.time()
    folder = tmp_path_factory.mktemp("fleet")
    flags = ("--approval.policy", "documented")
    with Fleet(folder, (WEB, DATABASE), flags=flags, rules=_rules(folder), copy_to=victoria.url) as fleet:
        simulator, exporters = fleet.simulators[0], fleet.exporters

        def current(kind: str, status: str) -> list[str]:
            shown = exporters["web_0"].scrape().series("event_info", event_type=kind, event_status=status)
            return [labels["event_id"] for labels, _ in shown if labels["event_source"] == "Platform"]

        reboot = eventually(lambda: current("Reboot", "Scheduled"), "the reboot is announced")[0]
        eventually(lambda: fleet.prometheus.query(f'{{event_id="{reboot}",event_status="Scheduled"}}'), "a scrape")
        approval = json.dumps({"StartRequests": [{"EventId": reboot}]}).encode()
        assert fetch(simulator.url + SCHEDULED_EVENTS, "POST", approval, Metadata="true").status == 200
        eventually(lambda: current("Terminate", "Started"), "the last event starts")
        started = f'{STATE}{{event_type="Terminate"}} == 3'
        eventually(lambda: fleet.prometheus.query(started), "its start is recorded")
        ended = f"last_over_time({FIRST_SEEN}[2m]) unless on (event_id) {EVENT}"
        eventually(lambda: fleet.prometheus.query(f"count({ended}) >= 3"), "three ends are recorded")
        exporters["web_2"].kill()
        eventually(lambda: fleet.prometheus.one(f"count({BLIND})"), "an exporter is recorded as down")
        yield Stage(fleet.prometheus, began)


def _without_data(stage: Stage, board: Json) -> Iterator[str]:
    now = time.time()
    for panel in board["panels"]:
        for target in panel.get("targets", []):
            if target["instant"]:
                found = stage.ask(target["expr"])
            elif panel.get("interval") == "1d":
                today = now // 86400 * 86400
                found = stage.ask_range(target["expr"], today - 86400, today, 86400)
            else:
                found = stage.ask_range(target["expr"], now - 20, now, 1)
            numbers = [float(pair[1]) for series in found for pair in series.get("values", [series.get("value")])]
            if not any(number == number for number in numbers):  # noqa: PLR0124 - NaN is no data
                yield f"{panel['title']} {target['refId']}"
    for mark in board["annotations"]["list"]:
        # What ended in the last minute is marked when that minute is over.
        if "expr" in mark and not stage.ask_range(mark["expr"], stage.began, now + 60, 5):
            yield f"annotation {mark['name']}"


@pytest.mark.parametrize("uid", ["fleet", "vm", "exporter"])
def test_every_query_returns_data(stage: Stage, uid: str) -> None:
    """No panel is empty when there is something to show."""
    assert set(_without_data(stage.chosen(uid), _board(uid))) == set(WITHOUT_DATA[uid])


@pytest.fixture(scope="module")
def copied(stage: Stage, victoria: VictoriaMetrics) -> int:
    """A moment, in whole seconds, that VictoriaMetrics knows as much of as Prometheus."""
    moment = int(time.time())
    victoria.wait_for_copy(stage.prometheus.url, moment)
    return moment


def _asked(board: Json, moment: int) -> Iterator[tuple[str, str, str, dict[str, str]]]:
    """Yield every query by name, with the path of the API and the times for it."""
    once = {"time": f"{moment}"}
    over_time = {"start": f"{moment // 5 * 5 - 20}", "end": f"{moment // 5 * 5}", "step": "5"}
    days = {"start": f"{moment // 86400 * 86400 - 86400}", "end": f"{moment // 86400 * 86400}", "step": "86400"}
    for panel in board["panels"]:
        for target in panel.get("targets", []):
            path, times = ("query", once) if target["instant"] else ("query_range", over_time)
            times = days if panel.get("interval") == "1d" else times
            yield f"{panel['title']} {target['refId']}", target["expr"], path, times
    for mark in board["annotations"]["list"]:
        if "expr" in mark:  # it compares with a minute before, but the story has taken less
            yield f"annotation {mark['name']}", mark["expr"].replace("offset 1m", "offset 5s"), "query_range", over_time
    for variable in board["templating"]["list"]:
        if variable["type"] == "query":
            selector, _, _ = variable["query"]["query"].removeprefix("label_values(")[:-1].rpartition(", ")
            yield f"variable {variable['name']}", selector, "query", once


@pytest.mark.parametrize("uid", ["fleet", "vm", "exporter"])
def test_victoria_metrics_answers_the_same(stage: Stage, victoria: VictoriaMetrics, copied: int, uid: str) -> None:
    """Every query gets the same series, names of metrics included, with the same values from both engines."""
    chosen = stage.chosen(uid)
    found = {}
    for name, written, path, times in _asked(_board(uid), copied):
        parameters = {"query": chosen.expression(written), **times}
        one, other = (answer(url, path, parameters) for url in (stage.prometheus.url, victoria.url))
        found[name] = difference(one, other, TOLERATED.get(name, PRECISION))
    assert {name: differs for name, differs in found.items() if differs} == {}


@pytest.mark.parametrize("uid", ["fleet", "vm", "exporter"])
def test_tables_have_one_row_for_each_event_or_vm(stage: Stage, uid: str) -> None:
    """No query of a table leaves the name of its metric in the rows, by which Grafana would tear them apart."""
    chosen = stage.chosen(uid)
    for panel in _board(uid)["panels"]:
        for target in panel.get("targets", []):
            if panel["type"] == "table" and len(panel["targets"]) > 1:
                names = {series["metric"].get("__name__") for series in chosen.ask(target["expr"])}
                assert names <= {None}, f"{panel['title']} {target['refId']}"


@pytest.mark.parametrize("uid", ["fleet", "vm", "exporter"])
def test_every_variable_has_values(stage: Stage, uid: str) -> None:
    """There is something to choose, though a VM may be of no scale set."""
    for variable in _board(uid)["templating"]["list"]:
        if variable["type"] == "query":
            selector, _, label = variable["query"]["query"].removeprefix("label_values(")[:-1].rpartition(", ")
            assert any(series["metric"].get(label) for series in stage.chosen(uid).ask(selector)), variable["name"]


def test_each_event_counts_once(stage: Stage) -> None:
    """Three exporters saw an event that hits three VMs, and the one that is down left its VM unwatched."""
    counts = {
        ref: {row["event_type"]: value for row, value in stage.table("fleet", "By type", ref)}
        for ref in ("A", "B", "D")
    }
    assert counts["A"] == {"Freeze": 2, "Reboot": 1}
    assert counts["B"] == {"Freeze": 4, "Reboot": 2}
    assert counts["D"] == {"Reboot": 1, "Terminate": 1}
    assert stage.value("fleet", "VMs about to be hit") == 6
    assert stage.value("fleet", "VMs being hit now") == 2
    assert len(stage.table("fleet", "Events now", "A")) == 5
    unwatched = sorted(value for _, value in stage.table("fleet", "Events now", "E"))
    assert unwatched == [0, 0, 0, 0, 1]


def test_the_history_of_each_event_is_shown(stage: Stage) -> None:
    """How events ended, and who approved the current ones, follows from what Prometheus has seen."""
    ended = {
        outcome: {row["event_type"]: value for row, value in stage.table("fleet", "How they ended", ref)}
        for ref, outcome in zip("ABCD", ("completed", "cancelled", "lost", "current"), strict=True)
    }
    assert ended == {
        "completed": {"Freeze": 1},
        "cancelled": {"Preempt": 1},
        "lost": {"Redeploy": 1},
        "current": {"Freeze": 2, "Reboot": 2, "Terminate": 1},
    }
    approved = {(row["event_type"], row["approved_by"]): value for row, value in stage.table("fleet", "Approvals", "A")}
    assert approved == {
        ("Freeze", "nobody"): 1,
        ("Reboot", "exporter or operator"): 1,
        ("Reboot", "elsewhere"): 1,
        ("Terminate", "nobody"): 1,
    }
    states = sorted(value for _, value in stage.table("fleet", "Events now", "A"))
    assert states == [1, 1, 2, 3, 3]


def test_a_blind_exporter_stands_out_with_its_vm(stage: Stage) -> None:
    """An exporter that is down is counted, and named by the VM it ran on."""
    assert stage.value("fleet", "Is the data current?") == 1
    ((row, reason),) = stage.table("fleet", "Exporters without current data", "A")
    assert (row["vm_name"], row["scale_set"], reason) == ("web_2", "web", 1)
    ((_, age),) = stage.table("fleet", "Exporters without current data", "B")
    assert age >= 0


def test_a_selection_narrows_what_is_counted(stage: Stage) -> None:
    """Only the chosen scale set counts, and the exporter that is down in another one does not matter."""
    chosen = Stage(stage.prometheus, stage.began, {"$scale_set": "db"})
    assert chosen.value("fleet", "VMs about to be hit") == 1
    assert chosen.value("fleet", "VMs being hit now") == 0
    assert [row["vm_name"] for row, _ in chosen.table("fleet", "VMs that are hit", "A")] == ["db_0"]
    assert [row["resources"] for row, _ in chosen.table("fleet", "Events now", "A")] == ["db_0"]
    assert chosen.value("fleet", "Is the data current?") == 0


def test_neighbors_tell_what_happens_to_a_blind_vm(stage: Stage) -> None:
    """The dashboard of a VM whose exporter is down says so, and still shows the event that its neighbors see."""
    blind = stage.of_vm("web_2")
    assert blind.value("vm", "Is its data current?") == 1
    assert blind.value("vm", "What happens to it") == 1
    assert 3000 < blind.value("vm", "Next impact in") < 3600
    ((row, _),) = blind.table("vm", "Events now", "A")
    assert row["event_type"] == "Freeze"
    ((_, countdown),) = blind.table("vm", "Events now", "B")
    assert 3000 < countdown < 3600


def test_silence_is_never_drawn_as_quiet(tmp_path: Path) -> None:
    """With all exporters down, nothing reads as all quiet; while they see and there is nothing, it does."""
    calm = Group("calm", ("1",), ({"type": "Freeze", "announced_at": "1h"},))
    with Fleet(tmp_path, (calm,), rules=_rules(tmp_path)) as fleet:
        stage = Stage(fleet.prometheus, time.time())
        quiet = {"Is the data current?": 0, "Next impact in": 1e10, "VMs about to be hit": 0, "VMs being hit now": 0}
        eventually(lambda: stage.value("fleet", "Is the data current?") == 0, "all see")
        eventually(lambda: {title: stage.value("fleet", title) for title in quiet} == quiet, "quiet is shown as quiet")
        mine = stage.of_vm("calm_0")
        assert mine.value("vm", "What happens to it") == 0
        fleet.simulators[0].inject("503", 60)
        nothing_seen = ("Next impact in", "VMs about to be hit", "VMs being hit now")

        def unknown() -> bool:
            return {stage.value("fleet", title) for title in nothing_seen} == {UNKNOWN}

        eventually(lambda: stage.value("fleet", "Is the data current?") == 1, "IMDS fails")
        assert [reason for _, reason in stage.table("fleet", "Exporters without current data", "A")] == [2]
        eventually(unknown, "nothing is known while IMDS fails")
        fleet.exporters["calm_0"].kill()
        down = "the exporter is down"
        eventually(lambda: [why for _, why in stage.table("fleet", "Exporters without current data", "A")] == [1], down)
        assert stage.value("fleet", "Is the data current?") == 1
        assert unknown()
        assert mine.value("vm", "What happens to it") == UNKNOWN
        assert mine.value("vm", "Is its data current?") == 1


def test_missing_recording_rules_are_named(tmp_path: Path) -> None:
    """A Prometheus without the rules shows that they are missing, on every dashboard, and no number."""
    with Fleet(tmp_path, (Group("bare", ("1",), ({"type": "Freeze", "announced_at": "1h"},)),)) as fleet:
        eventually(lambda: fleet.prometheus.one("azure_scheduled_events_up"), "a scrape")
        stage = Stage(fleet.prometheus, time.time()).of_vm("bare_0")
        first = {"fleet": "Is the data current?", "vm": "Is its data current?", "exporter": "Without current data"}
        assert {uid: stage.value(uid, title) for uid, title in first.items()} == dict.fromkeys(first, MISSING)
        assert stage.value("fleet", "VMs about to be hit") == UNKNOWN
