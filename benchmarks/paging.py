"""The time from a change in IMDS to the webhook: through the rules, or pushed.

Run: ``PYTHONPATH=tests .venv/bin/python -m benchmarks.paging [--way push] [--samples 40]
[--starts 8] [--interval 5s]``. Alertmanager is as shipped. One VM is enough: every sample is an
event that is announced at a random moment, one after another. How long after a scrape the rules are
evaluated is settled when an engine starts, and the same until it ends: so the samples are taken
from several starts. ``--interval`` is that of scrapes. The ways are Prometheus; vmagent,
VictoriaMetrics and vmalert; and pushes, without either.
"""

import argparse
import random
import tempfile
import time
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
from benchmarks.engine_metrics import Engine
from benchmarks.notifications import first_told
from deploy.stack.free_port import free_port
from support.monitoring.paging import Receiver, Stack
from support.monitoring.victoria import VictoriaStack
from support.programs import Exporter, eventually

TYPES = ("Preempt", "Reboot", "Redeploy", "Terminate")  # whose alerts notify at once
WAYS = ("prometheus", "victoria", "push")
_VM = VirtualMachine("vm_0", scale_set="web")
_WAITING = Scenario("waiting", "", (_VM,), events=())


def measure(way: str, interval: str, samples: int) -> list[float]:
    """Return the seconds from change to webhook of every sample, after one start of the engine.

    ``interval`` is the time between scrapes, such as ``5s``.
    """
    found = []
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        simulator = stack.enter_context(Simulator(_WAITING))
        address = f"127.0.0.1:{free_port()}"
        targets = [address]
        if way == "push":
            targets = []
        chain = _chain(way, folder, interval, targets)
        stack.enter_context(chain)
        flags = ["--web.listen-address", address]
        if way == "push":
            flags += ["--alertmanager.url", chain.alertmanager.url]
        exporter = Exporter(simulator.url, folder / "exporter.log", *flags)
        stack.enter_context(exporter)
        exporter.shows("the first poll", lambda scrape: scrape.value("up") == 1)
        chain.wait_for_targets(len(targets))
        longest_pause = parse_duration(interval)
        for number in range(samples):
            time.sleep(random.uniform(0.0, longest_pause))
            event_type = TYPES[number % len(TYPES)]
            found.append(_sample(simulator, chain.receiver, event_type))
    return found


def _chain(way: str, folder: Path, interval: str, targets: list[str]) -> Engine:
    """Start what is between an exporter and the webhook."""
    values = {"scrape.interval": interval}
    if way == "victoria":
        return VictoriaStack(folder, values, targets)
    return Stack(folder, values, targets)  # for pushes too: then its Prometheus has no target


def _sample(simulator: Simulator, receiver: Receiver, event_type: str) -> float:
    """Announce an event; return the seconds until the webhook is told of it."""
    before = first_told(receiver).keys()
    event = PlannedEvent(event_type, (_VM.name,), announced_at=0, notice=600)
    scenario = Scenario("page", "", (_VM,), (event,))
    begun = time.monotonic()
    simulator.play(scenario, speed=1)
    (event_id,) = eventually(lambda: first_told(receiver).keys() - before, "a page")
    told = first_told(receiver)[event_id]
    return told - begun


def main() -> None:
    """Measure what the command line asks for; print the median and the worst."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.paging", description=__doc__)
    parser.add_argument("--way", choices=WAYS, default="prometheus")
    parser.add_argument("--samples", type=int, default=40)
    parser.add_argument("--starts", type=int, default=8)
    parser.add_argument("--interval", default="5s")
    plan = parser.parse_args()
    times = []
    for _ in range(plan.starts):
        times += measure(plan.way, plan.interval, plan.samples // plan.starts)
    middle = f"median {median(times):.2f} s"
    worst = f"worst {max(times):.2f} s"
    print(f"{plan.way}, {len(times)} samples after {plan.starts} starts: {middle}, {worst}")


if __name__ == "__main__":
    main()
