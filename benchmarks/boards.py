"""How long the queries of the dashboards take on an engine with a fleet, each asked alone."""

import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import psutil
import requests

from support.monitoring.board_reader import BOARDS, BoardReader, load, of_vm
from support.monitoring.paging import JOB, Stack
from support.monitoring.victoria import VictoriaStack
from support.programs import Program, eventually

ROUNDS = 3
_PATIENCE_SECONDS = 150  # for an answer, and for the end of what is under way
_IDLE_SECONDS = 5.0
_IDLE_SHARE = 0.05  # of a core, over so many seconds: the engine does nothing


@dataclass(frozen=True, slots=True)
class Asked:
    """One query of a dashboard, the seconds that it took, and how many series it returned."""

    where: str
    seconds: float
    series: int


def ask(board: str, url: str, moment: float, vm: tuple[str, str]) -> Iterator[Asked]:
    """Ask every query of a dashboard at a moment.

    Args:
        board: The name of the dashboard.
        url: Where the engine answers.
        moment: In seconds since 1970.
        vm: Name and instance of the VM that the dashboard of one VM shows.
    """
    variables = {"$job": JOB}
    if board == "vm":
        variables = of_vm(*vm)
    variables |= BoardReader(board, url).names()
    for where, query, path, times in BoardReader(board, url, variables, moment).queries():
        took: list[float] = []
        found = 0
        for _ in range(ROUNDS):
            asked = {"query": query, **times}
            began = time.perf_counter()
            answer = requests.post(f"{url}/api/v1/{path}", asked, timeout=_PATIENCE_SECONDS)
            took.append(time.perf_counter() - began)
            if not answer.ok:
                raise RuntimeError(f"{where}: {answer.text[:500]}\n{query}")
            found = len(answer.json()["data"]["result"])
        yield Asked(where, median(took), found)


def report(stack: Stack | VictoriaStack, folder: Path, vm: tuple[str, str]) -> list[str]:
    """Return a table with a row for each dashboard, and the slowest queries.

    Scrapes and rules end before, so the queries ask about a moment shortly before that.
    """
    moment = float(int(time.time() - 15))
    _rest(stack, folder)
    rows = [
        "| dashboard | queries | all | worst | most series |",
        "| --- | --- | --- | --- | --- |",
    ]
    worst: list[Asked] = []
    for board in BOARDS:
        asked = sorted(ask(board, stack.url, moment, vm), key=lambda each: -each.seconds)
        worst += asked[:3]
        total = sum(each.seconds for each in asked)
        series = max(each.series for each in asked)
        title = load(board)["title"]
        slowest = asked[0].seconds
        rows.append(f"| {title} | {len(asked)} | {total:.2f} s | {slowest:.2f} s | {series} |")
    slow = [f"- {each.where}: {each.seconds:.2f} s, {each.series} series" for each in worst]
    return [*rows, "", *slow]


def _rest(stack: Stack | VictoriaStack, folder: Path) -> None:
    """Let the engine scrape and evaluate nothing, so that its queries alone are measured."""
    if isinstance(stack, VictoriaStack):
        for name, program in stack.programs.items():
            if name.startswith(("vmagent", "vmalert")):
                program.terminate()
        asked = stack.programs["victoria-metrics"]
    else:
        (folder / "prometheus" / "prometheus.yml").write_text("{}")
        asked = stack.prometheus
        asked.process.send_signal(signal.SIGHUP)
    eventually(lambda: _is_idle(asked), "the engine has nothing left to do", _PATIENCE_SECONDS)


def _is_idle(program: Program) -> bool:
    share: float = psutil.Process(program.process.pid).cpu_percent(_IDLE_SECONDS)
    return share < 100 * _IDLE_SHARE
