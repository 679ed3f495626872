"""The time from a change in IMDS to the webhook: through the rules, or pushed.

Run: ``PYTHONPATH=tests .venv/bin/python -m benchmarks.paging [--way push] [--samples 40]
[--interval 5s]``. Alertmanager is as shipped. One VM is enough: every sample is an event that is
announced at a random moment, one after another, so that polls, scrapes and evaluations meet it at
random phases. ``--interval`` is that of scrapes. The ways are Prometheus; vmagent, VictoriaMetrics
and vmalert; and pushes, without either.
"""

import argparse
import random
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from statistics import median

from azure_scheduled_events_exporter.simulator import (
    PlannedEvent,
    Scenario,
    Simulator,
    VirtualMachine,
)
from azure_scheduled_events_exporter.times import parse_duration
from deploy.stack.free_port import free_port
from support.monitoring.paging import Receiver, Stack
from support.monitoring.victoria import VictoriaStack
from support.programs import Exporter, eventually

TYPES = ("Preempt", "Reboot", "Redeploy", "Terminate")
ENGINES: dict[str, Callable[[Path, dict[str, str], list[str]], Stack | VictoriaStack]] = {
    "prometheus": Stack,
    "victoria": VictoriaStack,
    "push": Stack,  # its Prometheus scrapes nothing
}
_VM = VirtualMachine("vm_0", scale_set="web")


def measure(way: str, interval: str, samples: int) -> list[float]:
    """Return the seconds from change to webhook of every sample."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        simulator = stack.enter_context(Simulator(Scenario("waiting", "", (_VM,), ())))
        address = f"127.0.0.1:{free_port()}"
        targets = [address]
        if way == "push":
            targets = []
        chain = ENGINES[way](folder, {"scrape.interval": interval}, targets)
        stack.enter_context(chain)
        flags = ["--web.listen-address", address]
        if way == "push":
            flags += ["--alertmanager.url", chain.alertmanager.url]
        exporter = Exporter(simulator.url, folder / "exporter.log", *flags)
        stack.enter_context(exporter)
        exporter.shows("the first poll", lambda scrape: scrape.value("up") == 1)
        chain.wait_for_targets(len(targets))
        wait = parse_duration(interval)
        return [_sample(simulator, chain.receiver, number, wait) for number in range(samples)]


def _sample(simulator: Simulator, receiver: Receiver, number: int, interval: float) -> float:
    """Announce an event of a type that notifies at once; return the seconds until then."""
    time.sleep(random.uniform(0.0, interval))
    told = pages(receiver).keys()
    event_type = TYPES[number % len(TYPES)]
    event = PlannedEvent(event_type, (_VM.name,), announced_at=0, notice=600)
    scenario = Scenario("page", "", (_VM,), (event,))
    begun = time.monotonic()
    simulator.play(scenario, 1)
    (new,) = eventually(lambda: pages(receiver).keys() - told, "a page")
    return pages(receiver)[new] - begun


def pages(receiver: Receiver) -> dict[str, float]:
    """Return when each event was told, by its id."""
    found: dict[str, float] = {}
    for each in receiver.webhooks():
        event_id = each.body["groupLabels"].get("event_id")
        # A busy machine has other alerts, too.
        if event_id is not None and each.body["status"] == "firing":
            found.setdefault(event_id, each.at)
    return found


def main() -> None:
    """Print median and worst."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.paging", description=__doc__)
    parser.add_argument("--way", choices=ENGINES, default="prometheus")
    parser.add_argument("--samples", type=int, default=40)
    parser.add_argument("--interval", default="5s")
    plan = parser.parse_args()
    times = sorted(measure(plan.way, plan.interval, plan.samples))
    print(
        f"{plan.way}, {plan.samples} samples: median {median(times):.2f} s, worst"
        f" {max(times):.2f} s"
    )


if __name__ == "__main__":
    main()
