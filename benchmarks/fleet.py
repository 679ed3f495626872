"""What monitoring a fleet costs, and how late a page comes.

The engines are Prometheus; and vmagent, VictoriaMetrics and vmalert.

Run: ``PYTHONPATH=tests .venv/bin/python -m benchmarks.fleet --engine prometheus|victoria [--vms
10000] [--minutes 17] [--interval 15s] [--alerts-only] [--boards] [SETTING=VALUE ...]``, with
settings of the rules as in a values file. One process serves the expositions of real exporters for
all VMs, and a step of a rollout every ``--change``: one event is announced, one starts, one ends.
The engine under test, Alertmanager and a webhook run on the same machine, so measure one engine at
a time, with nothing beside it. Figures are those of the second half of the run. The longest window
of the rules over all exporters is 30 minutes, so a run shorter than that, as the default is, shows
somewhat less than a long one.
"""

import argparse
import json
import math
import os
import random
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from azure_scheduled_events_exporter.times import parse_duration
from benchmarks import boards
from benchmarks.engine_metrics import Watch, read
from benchmarks.expositions import capture
from support.monitoring.cardinality import PAGE, kept_by_alerts
from support.monitoring.paging import JOB, Stack, query
from support.monitoring.victoria import VictoriaStack
from support.paths import ROOT
from support.programs import Program, fetch

VMS_OF_ADDRESS = 5000  # targets on one loopback address, so that client ports suffice
PATIENCE = 60.0  # seconds for the last page, beyond a scrape and an evaluation
MEBIBYTE = 1 << 20
SERVER = "the fleet"
ENGINES = {"prometheus": "Prometheus", "victoria": "vmagent, VictoriaMetrics, vmalert"}


class Server(Program):
    """The process that serves all expositions."""

    def __init__(self, plan: argparse.Namespace, folder: Path) -> None:
        expositions = folder / "expositions.json"
        expositions.write_text(json.dumps(capture(folder)))
        self._addresses = math.ceil(plan.vms / VMS_OF_ADDRESS)
        program = ROOT / "benchmarks" / "fleet_server.py"
        command = [sys.executable, str(program), str(expositions)]
        command += ["--vms", str(plan.vms)]
        command += ["--events", str(plan.events)]
        command += ["--group", str(plan.group)]
        command += ["--addresses", str(self._addresses)]
        super().__init__(command, folder / "server.log")
        self.port = int(self.wait_for_line(r"port (\d+)")[1])

    def targets(self, vms: int) -> list[dict[str, object]]:
        """Return the targets as a file of ``file_sd_configs`` has them."""
        found: list[dict[str, object]] = []
        for vm in range(vms):
            host = f"127.0.0.{vm % self._addresses + 1}"
            labels = {"__metrics_path__": f"/vm/{vm}/metrics", "instance": f"vm{vm}:10169"}
            found.append({"targets": [f"{host}:{self.port}"], "labels": labels})
        return found

    def advance(self) -> tuple[str, float]:
        """Let the rollout advance by a step.

        Return the id of the event that is announced, and when (monotonic).
        """
        announced = json.loads(fetch(f"http://127.0.0.1:{self.port}/advance", "POST").body)
        return announced["event_id"], announced["at"]


def start(plan: argparse.Namespace, folder: Path, server: Server) -> Stack | VictoriaStack:
    """Start the engine on the fleet."""
    targets = folder / "fleet.json"
    targets.write_text(json.dumps(server.targets(plan.vms)))
    timeout = min(10.0, parse_duration(plan.interval))
    job: dict[str, Any] = {
        "file_sd_configs": [{"files": [str(targets)]}],
        "scrape_timeout": f"{timeout:g}s",
    }
    if plan.alerts_only:
        kept = kept_by_alerts(PAGE.read_text("utf-8"))
        job["metric_relabel_configs"] = [
            {"action": "keep", "source_labels": ["__name__"], "regex": kept}
        ]
    values = dict(each.split("=", 1) for each in plan.settings)
    values |= {"scrape.interval": plan.interval, "evaluation.interval": plan.evaluation}
    if plan.engine == "victoria":
        return VictoriaStack(folder, values, [], shards=2, job=job)
    return Stack(folder, values, [], job=job)


def measure(plan: argparse.Namespace, folder: Path) -> Iterator[str]:
    """Run the fleet and the engine; yield the tables of docs/performance.md."""
    with ExitStack() as running:
        server = running.enter_context(Server(plan, folder))
        stack = start(plan, folder, server)
        running.enter_context(stack)
        roll_out(server, plan)
        programs = {**stack.programs, SERVER: server}
        evaluation = parse_duration(plan.evaluation)
        before = read(stack)
        at = time.monotonic()
        with Watch(stack, programs, min(1.0, evaluation / 2)) as watch:
            changes = roll_out(server, plan)
            after = read(stack)
            seconds = time.monotonic() - at
            load = os.getloadavg()[0]
        delays = wait_for_pages(stack, changes, parse_duration(plan.interval) + evaluation)
        failures = {}
        for what, count in after.failures.items():
            failures[what] = count - before.failures[what]
        failures["changes without a page"] = len(changes) - len(delays)
        (_, up), *_ = query(stack.url, f'count(up{{job="{JOB}"}} == 1) or vector(0)')
        failures["targets down"] = plan.vms - up
        yield from head(plan, seconds, load, len(changes))
        counted = Counted(
            samples_a_second=(after.samples - before.samples) / seconds,
            series=after.series,
            seconds=seconds,
        )
        yield from overview(plan, counted, watch, delays, failures)
        yield from details(watch, seconds)
        if plan.boards:
            group = 7  # any: its first VM, with the names that the fleet's server gives it
            vm = (f"vmss{group}_0", f"vm{group * plan.group}:10169")
            yield from boards.report(stack, folder, vm)


def roll_out(server: Server, plan: argparse.Namespace) -> dict[str, float]:
    """Advance the rollout for half of the run; return when each event was announced."""
    changes = {}
    end = time.monotonic() + plan.minutes * 60 / 2
    while (left := end - time.monotonic()) > 0:
        time.sleep(min(left, plan.change * random.uniform(0.5, 1.5)))
        event_id, at = server.advance()
        changes[event_id] = at
    return changes


def wait_for_pages(
    stack: Stack | VictoriaStack, changes: Mapping[str, float], interval: float
) -> list[float]:
    """Return the seconds from each change to its first notification, where it came in time."""
    end = time.monotonic() + interval + PATIENCE
    told: dict[str, float] = {}
    while changes.keys() - told.keys() and time.monotonic() < end:
        time.sleep(0.2)
        for each in stack.receiver.webhooks():
            told.setdefault(each.body["groupLabels"].get("event_id", ""), each.at)
    delays = []
    for event_id, at in changes.items():
        if event_id in told:
            delays.append(told[event_id] - at)
    return sorted(delays)


# ---- The report


@dataclass(frozen=True, slots=True)
class Counted:
    """What the engine has stored during the measured half of the run, of so many seconds."""

    samples_a_second: float
    series: float
    seconds: float


def head(plan: argparse.Namespace, seconds: float, load: float, changes: int) -> Iterator[str]:
    """Yield what was measured."""
    yield (
        f"{plan.vms:,} VMs, {plan.events} current events, each reported by {plan.group} VMs;"
        f" {changes} changes"
    )
    yield (
        f"scrapes every {plan.interval}, rules every {plan.evaluation}; {seconds / 60:.1f} min"
        " after as long a start"
    )
    yield (
        f"{os.cpu_count()} cores, load {load:.1f}; GOGC {os.environ.get('GOGC', '100')};"
        f" {' '.join(plan.settings)}\n"
    )


def overview(
    plan: argparse.Namespace,
    counted: Counted,
    watch: Watch,
    delays: Sequence[float],
    failures: Mapping[str, float],
) -> Iterator[str]:
    """Yield the table with a row for each run."""
    parts = [used for name, used in watch.used.items() if name != SERVER]
    memory = sum(used.memory for used in parts) / MEBIBYTE
    cores = sum(used.processor for used in parts) / counted.seconds
    slowest = max(watch.durations.values(), key=max)
    happened = [f"{what} {count:.0f}" for what, count in failures.items() if count]
    which = "only alerts" if plan.alerts_only else "all"
    row = {
        "VMs": f"{plan.vms:,}",
        "engine": ENGINES[plan.engine],
        "series": f"{counted.series:,.0f}, {which}",
        "samples a second": f"{counted.samples_a_second:,.0f}",
        "memory": f"{memory:,.0f} MiB",
        "cores": f"{cores:.2f}",
        "slowest group, median / worst": f"{median(slowest):.2f} / {max(slowest):.2f} s",
        "change to webhook, median / worst": "-",
        "failures": ", ".join(happened) or "none",
    }
    if delays:
        row["change to webhook, median / worst"] = f"{median(delays):.1f} / {max(delays):.1f} s"
    yield from (
        f"| {' | '.join(row)} |",
        f"|{' --- |' * len(row)}",
        f"| {' | '.join(row.values())} |",
        "",
    )


def details(watch: Watch, seconds: float) -> Iterator[str]:
    """Yield a table of programs and one of groups of rules."""
    yield from ("| program | memory, highest | cores |", "| --- | --- | --- |")
    for name, used in watch.used.items():
        yield f"| {name} | {used.memory / MEBIBYTE:,.0f} MiB | {used.processor / seconds:.2f} |"
    yield from (
        "",
        "| group of rules | evaluations | median | worst |",
        "| --- | --- | --- | --- |",
    )
    for group, taken in sorted(watch.durations.items(), key=lambda each: -max(each[1])):
        yield f"| `{group}` | {len(taken)} | {median(taken):.3f} s | {max(taken):.3f} s |"
    yield ""


def plan_of(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """Return what is to be measured; ``group`` VMs of a placement group report its event."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.fleet", description=__doc__)
    parser.add_argument("--engine", choices=tuple(ENGINES), required=True)
    parser.add_argument("--vms", type=int, default=10_000)
    parser.add_argument("--events", type=int, default=500, help="current events (default: 500)")
    parser.add_argument(
        "--share",
        type=float,
        default=0.5,
        help="share of VMs that report one of them (default: 0.5)",
    )
    parser.add_argument(
        "--interval", type=_duration, default="15s", help="between scrapes (default: 15s)"
    )
    text = "between evaluations of the rules of events (default: 5s)"
    parser.add_argument("--evaluation", type=_duration, default="5s", help=text)
    parser.add_argument(
        "--minutes", type=float, default=17, help="the whole run, half of it measured (default: 17)"
    )
    parser.add_argument(
        "--change", type=float, default=15, help="seconds between changes (default: 15)"
    )
    parser.add_argument(
        "--alerts-only", action="store_true", help="keep only the series that alerts need"
    )
    parser.add_argument(
        "--boards", action="store_true", help="measure the queries of the dashboards too"
    )
    parser.add_argument("settings", nargs="*", metavar="SETTING=VALUE")
    plan = parser.parse_args(arguments)
    plan.group = max(1, round(plan.vms * plan.share / max(1, plan.events)))
    if plan.events < 1 or plan.group * (plan.events + 1) > plan.vms:
        parser.error(f"{plan.events} events of {plan.group} VMs each need more than {plan.vms} VMs")
    return plan


def _duration(text: str) -> str:
    parse_duration(text)  # argparse reports its ValueError
    return text


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary:
        print(*measure(plan_of(), Path(temporary)), sep="\n")
