"""Injects faults into the exporter on loopback and compares its reports with what really happened.

Run: ``make torture``, or ``scripts/torture [--only NAME …] [--short] [--minutes 30] [--seed N]
[--write FILE]``. Each trial runs in a process of its own, two at a time, ends by itself, and gives
a row of figures. Ends with status 1 if a trial found a transition lost or reported twice, a crash,
or a scrape without an answer.
"""

import argparse
import importlib
import random
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from support import apart
from trials.trial import FAILURES, Order, Row

# In the order in which they begin: the longest first, so that the others run beside it.
_MODULES = {
    "imds": "imds",
    "kills": "kills",
    "start": "storage.start",
    "flood": "storage.flood",
    "pages": "monitoring.pages",
    "pushes": "monitoring.pushes",
    "disk": "storage.disk",
    "hang": "storage.hang",
    "journal": "storage.journal",
    "history": "storage.history",
    "power": "storage.power",
    "clock": "clock",
    "clients": "load.clients",
}
TRIALS = tuple(_MODULES)
BEGIN = "<!-- torture: begin -->"
END = "<!-- torture: end -->"
HEAD = ["| trial | what was done | what came of it |", "| --- | --- | --- |"]


def run_trial(name: str, order: Order) -> Row:
    """Run one trial in this process."""
    module = importlib.import_module(f"trials.{_MODULES[name]}")
    order.chance.seed(order.seed)
    row: Row = module.run(order)
    return row


def alone(name: str, options: argparse.Namespace) -> int:
    """Run one trial, print its row, and return the exit status.

    Its mounts are its own: a process that copies them would keep a file system alive that the trial
    has unmounted.
    """
    apart.mounts()
    began = time.monotonic()

    def say(text: str) -> None:
        print(f"{name}: {time.monotonic() - began:.0f} s: {text}", flush=True)

    with tempfile.TemporaryDirectory(prefix="torture-") as folder:
        order = Order(options.short, options.minutes, options.seed, Path(folder), say)
        say(f"begins, seed {order.seed}")
        try:
            row = run_trial(name, order)
        except FAILURES as failure:
            traceback.print_exc()
            lines = str(failure).splitlines() or [type(failure).__name__]
            print(f"FAILED {name} with --seed {options.seed}: {lines[0]}", flush=True)
            return 1
    say("held")
    print(row, flush=True)
    return 0


def beside(name: str, options: argparse.Namespace) -> str:
    """Run one trial in a process of its own; return its row, ``""`` if it failed."""
    arguments = ["--only", name, "--minutes", str(options.minutes), "--seed", str(options.seed)]
    command = [sys.executable, "-m", "trials", *arguments, *(["--short"] if options.short else [])]
    row = ""
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if line.startswith(f"| {name} |"):
                row = line.rstrip()
            print(line, end="", flush=True)
    return row if process.returncode == 0 else ""


def write(rows: Sequence[str], path: Path) -> None:
    """Put ``rows`` in the place of those of the same trials in the document; the others stay."""
    text = path.read_text()
    before, begin, rest = text.partition(BEGIN)
    inside, end, after = rest.partition(END)
    assert begin, f"{path} has no {BEGIN}"
    assert end, f"{path} has no {END}"
    found = {
        row.split("|")[1].strip(): row
        for row in [*inside.splitlines(), *rows]
        if row.startswith("| ")
    }
    lines = [*HEAD, *(found[name] for name in TRIALS if name in found)]
    path.write_text("\n".join([before + BEGIN, *lines, END]) + after)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the trials asked for; return the exit status."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--only", action="append", choices=TRIALS, help="this trial; may be repeated (default: all)"
    )
    parser.add_argument("--short", action="store_true", help="seconds instead of minutes, as in CI")
    parser.add_argument(
        "--minutes", type=float, default=30.0, help="how long IMDS fails (default %(default)s)"
    )
    parser.add_argument(
        "--seed", type=int, help="repeats what was left to chance, as far as threads let it"
    )
    parser.add_argument(
        "--jobs", type=int, default=2, help="trials at a time (default %(default)s)"
    )
    parser.add_argument("--write", type=Path, help="the document whose table is to be renewed")
    options = parser.parse_args(arguments)
    options.seed = options.seed or random.randrange(1, 1 << 32)
    names = options.only or list(TRIALS)
    if len(names) == 1 and not options.write:
        return alone(names[0], options)
    began = time.monotonic()
    with ThreadPoolExecutor(options.jobs) as pool:
        rows = list(pool.map(lambda name: beside(name, options), names))
    print(f"\n{time.monotonic() - began:.0f} s", *HEAD, *filter(None, rows), sep="\n")
    if options.write:
        write([row for row in rows if row], options.write)
    failed = [name for name, row in zip(names, rows, strict=True) if not row]
    print(f"failed: {', '.join(failed)}" if failed else "every trial held")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
