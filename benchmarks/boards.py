"""How long the queries of the dashboards take on an engine with a fleet, each asked alone."""

import signal
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import psutil
import requests

from benchmarks.engine_metrics import Engine
from support.monitoring.board_reader import BOARDS, BoardReader, load, of_vm
from support.monitoring.paging import JOB
from support.monitoring.victoria import VictoriaStack
from support.programs import Program, eventually

ROUNDS = 3
_PATIENCE_SECONDS = 150  # for an answer, and for the end of what is under way
_AGO_SECONDS = 15  # from the moment that queries ask about to when scrapes are stopped
_SLOWEST = 3  # queries of each dashboard that are listed
_IDLE_SECONDS = 5.0
_IDLE_PERCENT = 5  # of a core, over so many seconds: the engine does nothing


@dataclass(frozen=True, slots=True)
class ShownVm:
    """The VM that the dashboard of one VM shows: its name, and the instance of its exporter."""

    name: str
    instance: str


@dataclass(frozen=True, slots=True)
class Asked:
    """One query of a dashboard, the seconds that it took, and how many series it returned."""

    where: str
    seconds: float
    series: int


def report(stack: Engine, folder: Path, vm: ShownVm) -> list[str]:
    """Return a table with a row for each dashboard, and the slowest queries.

    First, the engine's scrapes and its evaluations of rules are ended for good, so that these
    queries alone are measured. They ask about a moment shortly before that end.
    """
    moment = float(int(time.time() - _AGO_SECONDS))
    _end_other_work(stack, folder)
    rows = ["| dashboard | queries | all | worst | most series |"]
    rows.append("| --- | --- | --- | --- | --- |")
    slow: list[Asked] = []
    for board in BOARDS:
        asked = ask(board, stack.url, moment, vm)
        asked.sort(key=lambda each: each.seconds, reverse=True)
        title = load(board)["title"]
        total = sum(each.seconds for each in asked)
        worst = asked[0].seconds
        series = max(each.series for each in asked)
        rows.append(f"| {title} | {len(asked)} | {total:.2f} s | {worst:.2f} s | {series} |")
        slow += asked[:_SLOWEST]
    slowest = [f"- {each.where}: {each.seconds:.2f} s, {each.series} series" for each in slow]
    return [*rows, "", *slowest]


def ask(board: str, url: str, moment: float, vm: ShownVm) -> list[Asked]:
    """Ask every query of a dashboard at a moment, and return what came of each.

    Args:
        board: The name of the dashboard.
        url: Where the engine answers.
        moment: In seconds since 1970.
        vm: What the dashboard shows if it is that of one VM.
    """
    variables = {"$job": JOB}
    if board == "vm":
        variables = of_vm(vm.name, vm.instance)
    # Some variables of the dashboards have a metric's name as their value.
    names_of_metrics = BoardReader(board, url).names()
    reader = BoardReader(board, url, {**variables, **names_of_metrics}, moment)
    found = []
    for where, query, path, times in reader.queries():
        asked = _ask(where, f"{url}/api/v1/{path}", {"query": query, **times})
        found.append(asked)
    return found


def _ask(where: str, url: str, parameters: Mapping[str, str]) -> Asked:
    """Ask one query several times; the seconds are the median."""
    took = []
    for _ in range(ROUNDS):
        began = time.perf_counter()
        answer = requests.post(url, parameters, timeout=_PATIENCE_SECONDS)
        took.append(time.perf_counter() - began)
        if not answer.ok:
            raise RuntimeError(f"{where}: {answer.text[:500]}\n{parameters['query']}")
    series = answer.json()["data"]["result"]
    return Asked(where, median(took), len(series))


def _end_other_work(stack: Engine, folder: Path) -> None:
    """End the engine's scrapes and evaluations; return when its database is idle."""
    if isinstance(stack, VictoriaStack):
        for name, program in stack.programs.items():
            if name.startswith(("vmagent", "vmalert")):
                program.terminate()
        database = stack.programs["victoria-metrics"]
    else:
        # An empty configuration has no targets and no rules.
        configuration = folder / "prometheus" / "prometheus.yml"
        configuration.write_text("{}")
        database = stack.prometheus
        database.process.send_signal(signal.SIGHUP)  # Prometheus reads its configuration again
    eventually(lambda: _is_idle(database), "the engine has nothing left to do", _PATIENCE_SECONDS)


def _is_idle(program: Program) -> bool:
    """Return whether a program does nothing for some seconds."""
    process = psutil.Process(program.process.pid)
    percent: float = process.cpu_percent(_IDLE_SECONDS)
    return percent < _IDLE_PERCENT
