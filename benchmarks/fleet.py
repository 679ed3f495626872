"""What monitoring a fleet costs, and how late a page comes.

Two engines: Prometheus, or VictoriaMetrics with vmagent and vmalert.

Run: ``PYTHONPATH=tests .venv/bin/python -m benchmarks.fleet --engine prometheus|victoria [--vms
10000] [--minutes 17] [--interval 15s] [--change 15] [--alerts-only] [--boards] [SETTING=VALUE
...]``, with settings of the rules as in a values file. One process serves the expositions of real
exporters for all VMs, and a step of a rollout every ``--change`` seconds: one event is announced,
one starts, one ends. The engine under test, Alertmanager and a webhook run on the same machine, so
measure one engine at a time, with nothing beside it. Figures are those of the second half of the
run. The longest window of the rules over all exporters is 30 minutes, so a run shorter than that,
as the default is, shows somewhat lower costs than a long one.
"""

import json
import math
import os
import random
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from azure_scheduled_events_exporter.times import parse_duration
from benchmarks import boards
from benchmarks.engine_metrics import Engine, Watch, read
from benchmarks.expositions import capture
from benchmarks.fleet_plan import Plan, plan_of
from benchmarks.fleet_report import SERVER, Figures, report
from benchmarks.notifications import first_told
from support.monitoring.cardinality import PAGE, kept_by_alerts
from support.monitoring.paging import JOB, Stack, query
from support.monitoring.victoria import VictoriaStack
from support.paths import GUARD, ROOT
from support.programs import Program, fetch

VMS_OF_ADDRESS = 5000  # targets on one loopback address, so that client ports suffice
PATIENCE = 60.0  # seconds for the last page, beyond a scrape and an evaluation
LONGEST_SCRAPE = 10.0  # seconds, unless the interval between scrapes is shorter
SHOWN_GROUP = 7  # the placement group of the VM on the dashboard of one VM; any would do


class Server(Program):
    """The process that serves all expositions."""

    def __init__(self, plan: Plan, folder: Path) -> None:
        expositions = folder / "expositions.json"
        expositions.write_text(json.dumps(capture(folder)))
        self._addresses = math.ceil(plan.vms / VMS_OF_ADDRESS)
        command = [sys.executable, "-m", "benchmarks.fleet_server", str(expositions)]
        command += ["--vms", str(plan.vms)]
        command += ["--events", str(plan.events)]
        command += ["--group", str(plan.group)]
        command += ["--addresses", str(self._addresses)]
        log = folder / "server.log"
        super().__init__(command, log, PYTHONPATH=f"{GUARD}:{ROOT}")
        self.port = int(self.wait_for_line(r"port (\d+)")[1])

    def targets(self, vms: int) -> list[dict[str, object]]:
        """Return the targets as a file of ``file_sd_configs`` has them."""
        found: list[dict[str, object]] = []
        for vm in range(vms):
            number = vm % self._addresses + 1
            address = f"127.0.0.{number}:{self.port}"
            labels = {
                "__metrics_path__": f"/vm/{vm}/metrics",
                "instance": f"vm{vm}:10169",
            }
            found.append({"targets": [address], "labels": labels})
        return found

    def advance(self) -> tuple[str, float]:
        """Let the rollout advance by a step.

        Return the id of the event that is announced, and when (monotonic).
        """
        answer = fetch(f"http://127.0.0.1:{self.port}/advance", "POST")
        announced = json.loads(answer.body)
        return announced["event_id"], announced["at"]


def measure(plan: Plan, folder: Path) -> Iterator[str]:
    """Run the fleet and the engine; yield the tables of docs/performance.md."""
    with ExitStack() as running:
        server = running.enter_context(Server(plan, folder))
        stack = start(plan, folder, server)
        running.enter_context(stack)
        roll_out(server, plan)  # the first half, which is not measured
        yield from report(plan, second_half(plan, stack, server))
        if plan.boards:
            # The names that the server gives to the first VM of a group.
            first = SHOWN_GROUP * plan.group
            vm = boards.ShownVm(f"vmss{SHOWN_GROUP}_0", f"vm{first}:10169")
            yield from boards.report(stack, folder, vm)


def start(plan: Plan, folder: Path, server: Server) -> Engine:
    """Start the engine on the fleet."""
    targets = folder / "fleet.json"
    targets.write_text(json.dumps(server.targets(plan.vms)))
    timeout = min(LONGEST_SCRAPE, parse_duration(plan.interval))
    job: dict[str, Any] = {
        "file_sd_configs": [{"files": [str(targets)]}],
        "scrape_timeout": f"{timeout:g}s",
    }
    if plan.alerts_only:
        # As the page of the documentation about fleets advises.
        kept = kept_by_alerts(PAGE.read_text("utf-8"))
        keep = {"action": "keep", "source_labels": ["__name__"], "regex": kept}
        job["metric_relabel_configs"] = [keep]
    values = dict(each.split("=", 1) for each in plan.settings)
    values["scrape.interval"] = plan.interval
    values["evaluation.interval"] = plan.evaluation
    if plan.engine == "victoria":
        return VictoriaStack(folder, values, [], shards=2, job=job)
    return Stack(folder, values, [], job=job)


def second_half(plan: Plan, stack: Engine, server: Server) -> Figures:
    """Advance the rollout for the second half of the run, and measure meanwhile."""
    interval = parse_duration(plan.interval)
    evaluation = parse_duration(plan.evaluation)
    programs = {**stack.programs, SERVER: server}
    before = read(stack)
    at = time.monotonic()
    with Watch(stack, programs, min(1.0, evaluation / 2)) as watch:
        changes = roll_out(server, plan)
        after = read(stack)
        seconds = time.monotonic() - at
        load = os.getloadavg()[0]
    delays = wait_for_pages(stack, changes, usual_wait=interval + evaluation)
    failures = {}
    for what, count in after.failures.items():
        failures[what] = count - before.failures[what]
    failures["changes without a page"] = len(changes) - len(delays)
    failures["targets down"] = plan.vms - targets_up(stack)
    return Figures(
        seconds=seconds,
        load=load,
        changes=len(changes),
        delays=delays,
        samples_a_second=(after.samples - before.samples) / seconds,
        series=after.series,
        failures=failures,
        used=watch.used,
        durations=watch.durations,
    )


def targets_up(stack: Engine) -> float:
    """Return how many VMs the engine can scrape."""
    answer = query(stack.url, f'count(up{{job="{JOB}"}} == 1) or vector(0)')
    _, number = answer[0]
    return number


def roll_out(server: Server, plan: Plan) -> dict[str, float]:
    """Advance the rollout for half of the run; return when each event was announced."""
    changes = {}
    half = plan.minutes / 2 * 60
    end = time.monotonic() + half
    while (left := end - time.monotonic()) > 0:
        # At random moments, so that changes are not in step with scrapes and evaluations.
        pause = plan.change * random.uniform(0.5, 1.5)
        time.sleep(min(left, pause))
        event_id, at = server.advance()
        changes[event_id] = at
    return changes


def wait_for_pages(stack: Engine, changes: Mapping[str, float], usual_wait: float) -> list[float]:
    """Return the seconds from each change to its first notification, the shortest first.

    Changes without a notification in time are left out. ``usual_wait`` is how many seconds a scrape
    and an evaluation may take together. A notification is in time if it comes within these seconds
    and ``PATIENCE`` from the call, which follows the last change.
    """
    end = time.monotonic() + usual_wait + PATIENCE
    told = first_told(stack.receiver)
    while time.monotonic() < end:
        missing = changes.keys() - told.keys()
        if not missing:
            break
        time.sleep(0.2)
        told = first_told(stack.receiver)
    delays = []
    for event_id, at in changes.items():
        if event_id in told:
            delays.append(told[event_id] - at)
    return sorted(delays)


def main() -> None:
    """Measure what the command line asks for, and print the tables."""
    plan = plan_of(__doc__)
    with tempfile.TemporaryDirectory() as folder:
        print(*measure(plan, Path(folder)), sep="\n")


if __name__ == "__main__":
    main()
