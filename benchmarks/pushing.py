"""The time from a change in IMDS to the webhook, for alerts that exporters push to Alertmanager themselves.

Run: ``PYTHONPATH=tests .venv/bin/python -m benchmarks.pushing [SAMPLES]``. One VM is enough: every sample is an event
that is announced at a random moment of the exporter's polls, one after another. No Prometheus runs.
"""

import random
import sys
import tempfile
import threading
import time
from contextlib import ExitStack
from pathlib import Path
from statistics import median

from alerts import resolve
from azure_scheduled_events_exporter.simulator import PlannedEvent, Scenario, Simulator, VirtualMachine
from support.monitoring.paging import Alertmanager, Receiver, receivers
from support.programs import Exporter, eventually

TYPES = ("Preempt", "Reboot", "Redeploy", "Terminate")
POLL_SECONDS = 1.0


def measure(samples: int) -> list[float]:
    """Return the seconds from change to webhook of every sample."""
    vm = VirtualMachine("vm_0", scale_set="web")
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        receiver = stack.enter_context(Receiver())
        alertmanager = stack.enter_context(Alertmanager(folder, resolve(receivers(receiver.url))))
        simulator = stack.enter_context(Simulator(Scenario("waiting", "", (vm,), ())))
        flags = ("--alertmanager.url", alertmanager.url, "--poll.interval", f"{POLL_SECONDS:g}s")
        exporter = stack.enter_context(Exporter(simulator.url, folder / "exporter.log", *flags))
        exporter.shows("the first poll", lambda scrape: scrape.value("up") == 1)
        times = []
        for number in range(samples):
            threading.Event().wait(random.uniform(0.0, POLL_SECONDS))
            event = PlannedEvent(TYPES[number % len(TYPES)], ("vm_0",), announced_at=0, notice=600)
            told = pages(receiver).keys()
            begun = time.monotonic()
            simulator.play(Scenario("page", "", (vm,), (event,)), 1)
            (new,) = eventually(lambda told=told: pages(receiver).keys() - told, "a page")  # type: ignore[misc]  # the default binds the name
            times.append(pages(receiver)[new] - begun)
        return times


def pages(receiver: Receiver) -> dict[str, float]:
    """Return when each event was told, by its id."""
    firing = [each for each in receiver.webhooks() if each.body["status"] == "firing"]
    return {each.body["groupLabels"]["event_id"]: each.at for each in reversed(firing)}


def main() -> None:
    """Print median and worst."""
    samples = int(sys.argv[1]) if len(sys.argv) > 1 else 100
    times = sorted(measure(samples))
    print(f"{samples} samples, a poll every {POLL_SECONDS:g} s: median {median(times):.2f} s, worst {max(times):.2f} s")


if __name__ == "__main__":
    main()
