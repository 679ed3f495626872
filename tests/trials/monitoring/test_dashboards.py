"""The dashboards while every scenario of the simulator plays: what panels show is what exporters
know, on both engines.

No rule is loaded. Exporters poll the simulator, a Prometheus scrapes them and writes everything to
a VictoriaMetrics.
"""

import json
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest
import yaml

from azure_scheduled_events_exporter import simulator
from azure_scheduled_events_exporter.simulator import Simulator
from dashboards import titles
from support.monitoring.board_reader import BOARDS, BoardReader, Row, load, of_vm
from support.monitoring.engines import VictoriaMetrics
from support.programs import Exporter, Prometheus, eventually, fetch

SPEED = 60
ENDED = ("completed", "cancelled", "lost", "withdrawn")
RATES = {"CPU", "Time of a poll", "Memory", "Answer age"}
"""Columns in which engines differ, or which change between two questions."""
MOST_ROWS = 50
"""Of a table or a timeline, by docs/dashboards.md; no other panel has a query of more series."""
SCENARIOS = Path(simulator.__file__).parent / "scenarios"


def _scenario(path: Path, folder: Path) -> Path:
    """Write a shipped scenario with VMs of its own name into ``folder``."""
    named = yaml.safe_load(path.read_text("utf-8").replace("vmss_", f"{path.stem}_"))
    if "vms" not in named:
        named["vms"] = [
            {"name": f"{path.stem}_{number}", "scale_set": path.stem} for number in range(5)
        ]
    written = folder / path.name
    written.write_text(yaml.safe_dump(named))
    return written


@dataclass(frozen=True, slots=True)
class Stage:
    """All scenarios, each with an exporter on its first VM, and what stores their series."""

    prometheus: Prometheus
    victoria: VictoriaMetrics
    exporters: dict[str, Exporter]

    def events_of_exporters(self) -> Counter[tuple[str, str]]:
        """Return the current events, by id and state, as the exporters' API has them."""
        found: dict[str, str] = {}
        for exporter in self.exporters.values():
            for event in json.loads(fetch(f"{exporter.url}/api/v1/events").body)["events"]:
                found[event["event_id"]] = event["event_status"]
        return Counter(found.items())

    def events_of_board(self) -> Counter[tuple[str, str]]:
        """Return the current events, by id and state, as the board of the fleet shows them now."""
        rows = BoardReader("fleet", self.prometheus.url).table(titles.EVENTS)
        # The row has no State if its event ends between two queries.
        states = [(row["event_id"], row.get("State", "")) for row in rows]
        return Counter(
            (event_id, state) for event_id, state in states if state not in {*ENDED, "not seen"}
        )

    def outcomes_on_board(self) -> set[str]:
        """Return the outcomes that the board of the fleet shows."""
        return {
            row.get("State", "")
            for row in BoardReader("fleet", self.prometheus.url).table(titles.EVENTS)
        } & set(ENDED)


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """Everything, from the beginning of the scenarios on."""
    folder = tmp_path_factory.mktemp("boards")
    with ExitStack() as stack:
        victoria = stack.enter_context(VictoriaMetrics(folder))
        exporters = {}
        for path in sorted(SCENARIOS.glob("*.yaml")):
            played = stack.enter_context(Simulator(str(_scenario(path, folder)), speed=SPEED))
            name = played.vms[0]
            flags = ("--instance.name", name, "--approval.policy", "documented")
            exporters[path.stem] = stack.enter_context(
                Exporter(played.vm_url(name), folder / f"{name}.log", *flags)
            )
        targets = [f"127.0.0.1:{exporter.port}" for exporter in exporters.values()]
        prometheus = stack.enter_context(Prometheus(folder, *targets, copy_to=victoria.url))
        # With fewer samples, the engines' increases differ.
        scraped = "count(sum_over_time(up[1m]) > 2)"
        eventually(lambda: prometheus.one(scraped) == len(targets), "every exporter is scraped")
        yield Stage(prometheus, victoria, exporters)


def _comparable(rows: list[Row]) -> list[Row]:
    """Return the rows without what differs by engine, numbers to the second, in an order of their
    own.
    """
    plain = [
        {name: _number(text) for name, text in row.items() if name not in RATES} for row in rows
    ]
    return sorted(plain, key=lambda row: sorted(row.items()))


def _only(one: object, other: object) -> object:
    """Return what only one of two answers has."""
    if isinstance(one, list) and isinstance(other, list):
        return [row for row in one if row not in other], [row for row in other if row not in one]
    return one, other


def _number(text: str) -> str:
    try:
        number = float(text)
    except ValueError:
        return text
    if number > 1e12:
        return f"{number / 1000:.0f} s"
    return f"{round(number, 2) + 0.0:.2f}"  # no negative zero


def _panels(reader: BoardReader) -> dict[str, object]:
    """Return what every panel shows."""
    found: dict[str, object] = {}
    for panel in load(reader.board)["panels"]:
        title = panel["title"]
        if panel["type"] == "stat":
            found[title] = reader.stat(title)
        elif panel["type"] == "table":
            found[title] = _comparable(reader.table(title))
        elif panel["type"] == "state-timeline":
            found[title] = sorted(reader.timeline(title))  # engines take samples at other moments
    return found


def _differences(
    stage: Stage, board: str, variables: dict[str, str], moment: float
) -> dict[str, object]:
    """Return what panels show on one engine only."""
    one, other = (
        _panels(BoardReader(board, url, variables, moment))
        for url in (stage.prometheus.url, stage.victoria.url)
    )
    return {
        title: _only(shown, other[title]) for title, shown in one.items() if shown != other[title]
    }


def _agree(stage: Stage, vm: str) -> None:
    """Fail unless both engines show the same in every panel of every board at one moment."""
    moment = float(int(time.time()))
    stage.victoria.wait_for_copy(stage.prometheus.url, moment)
    for board in BOARDS:
        variables = of_vm(vm) if board == "vm" else {}
        look = partial(_differences, stage, board, variables, moment)
        eventually(look, f"{board} is the same on both engines", 60, until=lambda found: not found)
        answers = BoardReader(board, stage.prometheus.url, variables).answers()
        counts = {name: len(series) for name, series in answers.items()}
        assert {name: count for name, count in counts.items() if count > MOST_ROWS} == {}


def test_boards_show_what_exporters_know(stage: Stage) -> None:
    """While events are announced, happen and end, the table has each of them in its state, and both
    engines agree.
    """

    def board_has_state(state: str) -> bool:
        return any(each == state for _, each in stage.events_of_board())

    for what, reached in (
        ("events are Scheduled", lambda: board_has_state("Scheduled")),
        ("events are Started", lambda: board_has_state("Started")),
        ("events completed", lambda: "completed" in stage.outcomes_on_board()),
        ("one was cancelled", lambda: {"completed", "cancelled"} <= stage.outcomes_on_board()),
    ):
        eventually(reached, what)
        eventually(
            lambda: stage.events_of_board() == stage.events_of_exporters(),
            "the board shows the events that exporters know",
        )
        _agree(stage, "rollout_0")


def test_exporters_that_are_killed_are_no_quiet_ones(stage: Stage) -> None:
    """The board of the fleet counts exporters that are killed as blind, and both engines agree
    about what is left. The board of such an exporter's VM does not say that the VM has no next
    event: nobody knows.
    """
    fleet = BoardReader("fleet", stage.prometheus.url)
    count = len(stage.exporters)
    assert fleet.stat(titles.ALL_SEE_IMDS) == f"{count} exporters: all"
    for name in ("rollout", "cancelled"):
        stage.exporters[name].kill()
    eventually(
        lambda: fleet.stat(titles.ALL_SEE_IMDS) == f"{count} exporters: 2 blind",
        "two are down",
    )
    _agree(stage, "rollout_0")
    port = stage.exporters["rollout"].port
    killed = of_vm("rollout_0", f"127.0.0.1:{port}")
    board_of_killed = BoardReader("vm", stage.prometheus.url, killed)
    assert board_of_killed.stat(titles.NEXT_EVENT) != "none"
