"""How long it takes from the announcement of an event to the first line of a hook's script, beside an exporter."""

import argparse
import random
import statistics
import tempfile
import time
from contextlib import ExitStack
from email.utils import formatdate
from pathlib import Path

from azure_scheduled_events_exporter.simulator import Scenario, Simulator, VirtualMachine
from deploy.stack.free_port import free_port
from support.programs import COMMAND, Program, environment, eventually

LONGEST_MEDIAN_SECONDS = 1.3
SCRIPT = '#!/bin/sh\n[ "$1" = recover ] || date +%s.%N >"{folder}/$EVENT_ID"\n'


def main() -> int:
    """Measure, print, and return whether the median is within the limit."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=20)
    runs = parser.parse_args().runs
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        imds = stack.enter_context(Simulator(Scenario("quiet", "Nothing happens.", (VirtualMachine("vm_0"),), ())))
        script = folder / "script"
        script.write_text(SCRIPT.format(folder=folder))
        script.chmod(0o755)
        flags = ["--imds.endpoint", imds.url, "--journal.path", str(folder / "journal")]
        listen = ["--web.listen-address", f"127.0.0.1:{free_port()}"]
        for name, words in (("run", listen), ("hook", ["--", str(script)])):
            program = Program([COMMAND, name, *flags, *words], folder / f"{name}.log", **environment())
            stack.enter_context(program).wait_for_line("is known" if name == "run" else "its journal is followed")
        taken = sorted(_latency(imds, folder, f"E{number}") for number in range(runs))
    median = statistics.median(taken)
    print(f"{runs} runs: median {median:.2f} s, at most {taken[-1]:.2f} s (limit {LONGEST_MEDIAN_SECONDS} s)")
    return int(median > LONGEST_MEDIAN_SECONDS)


def _latency(imds: Simulator, folder: Path, name: str) -> float:
    time.sleep(random.uniform(1.0, 2.0))  # any moment between two polls
    event = {
        "EventId": name,
        "EventType": "Preempt",
        "ResourceType": "VirtualMachine",
        "Resources": ["vm_0"],
        "EventStatus": "Scheduled",
        "NotBefore": formatdate(time.time() + 60, usegmt=True),
    }
    began = time.time()
    imds.set_document([event])
    first = eventually(lambda: (folder / name).exists() and (folder / name).read_text(), "the script")
    return float(first) - began


if __name__ == "__main__":
    raise SystemExit(main())
