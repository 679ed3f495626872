"""The time from a change in IMDS to the webhook, through exporter, rules and Alertmanager as shipped.

Run: ``PYTHONPATH=tests .venv/bin/python -m benchmarks.paging [INTERVAL] [SAMPLES] [--engine victoria]``. Every sample
is a VM with an exporter of its own, whose event is announced at a random moment, so that polls, scrapes and evaluations
meet at random phases. INTERVAL (5s) is that of scrapes and evaluations. The engine is Prometheus, or vmagent,
VictoriaMetrics and vmalert.
"""

import argparse
import random
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from statistics import median

from azure_scheduled_events_exporter.simulator import PlannedEvent, Scenario, Simulator, VirtualMachine
from azure_scheduled_events_exporter.times import parse_duration
from support.monitoring.paging import Stack
from support.monitoring.victoria import VictoriaStack
from support.programs import Exporter, Scrape

TYPES = ("Preempt", "Reboot", "Redeploy", "Terminate")
PATIENCE = 60.0
ENGINES: dict[str, Callable[[Path, dict[str, str], list[str]], Stack | VictoriaStack]] = {
    "prometheus": Stack,
    "victoria": VictoriaStack,
}


def announce(simulator: Simulator, number: int) -> None:
    """Announce an event of one of the types that page, now."""
    event_type = TYPES[number % len(TYPES)]
    event = PlannedEvent(event_type, (f"vm_{number}",), announced_at=0, notice=600)
    simulator.play(Scenario("page", "", (VirtualMachine(f"vm_{number}", scale_set=f"set_{number}"),), (event,)), 1)


def measure(engine: str, interval: str, samples: int) -> list[float]:
    """Return the seconds from change to webhook of every sample that came in time."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        simulators, exporters = [], []
        for number in range(samples):
            vm = VirtualMachine(f"vm_{number}", scale_set=f"set_{number}")
            simulator = stack.enter_context(Simulator(Scenario("waiting", "", (vm,), ())))
            exporter = stack.enter_context(
                Exporter(simulator.url, folder / f"{number}.log", "--instance.name", vm.name)
            )
            simulators.append(simulator)
            exporters.append(exporter)
        values = {"scrape.interval": interval, "evaluation.interval": interval}
        targets = [f"127.0.0.1:{exporter.port}" for exporter in exporters]
        chain = ENGINES[engine](folder, values, targets)
        stack.enter_context(chain)
        chain.wait_for_targets(samples)
        begun = []
        for number, simulator in enumerate(simulators):
            time.sleep(random.uniform(0.2, 1.0) * parse_duration(interval) / 2)
            begun.append(time.monotonic())
            announce(simulator, number)
        ids = [exporter.shows("its event", event_id) for exporter in exporters]
        assert len(set(ids)) == samples
        end = time.monotonic() + PATIENCE + 2 * parse_duration(interval)
        told: dict[str, float] = {}
        while set(ids) - told.keys() and time.monotonic() < end:
            threading.Event().wait(0.1)
            for each in chain.receiver.webhooks():
                told.setdefault(each.body["groupLabels"].get("event_id", ""), each.at)
        return [told[each] - at for each, at in zip(ids, begun, strict=True) if each in told]


def event_id(scrape: Scrape) -> str:
    """Return the id of the current event; empty if there is none yet."""
    return next((labels["event_id"] for labels, _ in scrape.series("event_info")), "")


def main() -> None:
    """Print median and worst."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.paging", description=__doc__)
    parser.add_argument("interval", nargs="?", default="5s")
    parser.add_argument("samples", nargs="?", type=int, default=20)
    parser.add_argument("--engine", choices=ENGINES, default="prometheus")
    plan = parser.parse_args()
    times = sorted(measure(plan.engine, plan.interval, plan.samples))
    late = plan.samples - len(times)
    print(f"{plan.engine}, {plan.samples} samples ({late} not in time), scrapes and evaluations every {plan.interval}:")
    print(" ".join(f"{each:.1f}" for each in times))
    print(f"median {median(times):.2f} s, worst {max(times):.2f} s")


if __name__ == "__main__":
    main()
