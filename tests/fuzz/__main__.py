"""``scripts/fuzz``: all targets, or some, for so many seconds together; what fails is shown and kept."""

import argparse
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from fuzz.target import NAMES
from support.paths import GUARD, ROOT, TESTS
from support.programs import environment

_GRACE_SECONDS = 120.0  # to start, on a busy machine, and to try all seeds
_MEMORY = Path("/dev/shm")  # noqa: S108 - a file is written for every input, in a folder of the run's own


def child(*arguments: object, seconds: float = 0.0) -> subprocess.CompletedProcess[str]:
    """Run ``fuzz.child``; return libFuzzer's status and output, which has what is needed to repeat a finding."""
    with tempfile.TemporaryDirectory(dir=_MEMORY if _MEMORY.is_dir() else None) as scratch:
        paths = os.pathsep.join((str(TESTS), str(GUARD)))
        return subprocess.run(
            [sys.executable, "-m", "fuzz.child", *map(str, arguments)],
            env=environment(PYTHONPATH=paths, PYTHONHASHSEED="0", TMPDIR=scratch),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            errors="replace",
            check=False,
            timeout=seconds + _GRACE_SECONDS,
        )


def fuzz(name: str, seconds: float, seed: int, folder: Path) -> subprocess.CompletedProcess[str]:
    """Fuzz the target ``name``; what it learns for the next time, and what it finds, stay in ``folder``."""
    corpus, findings = folder / "corpus" / name, folder / "findings" / name
    for each in (corpus, findings):
        each.mkdir(parents=True, exist_ok=True)
    return child(name, corpus, findings, max(1, round(seconds)), seed, seconds=seconds)


def main() -> int:
    """Run the targets of the command line; return 1 if any promise was broken."""
    parser = argparse.ArgumentParser(prog="scripts/fuzz", description=__doc__)
    parser.add_argument("targets", nargs="*", metavar="TARGET", help=f"of {', '.join(NAMES)} (default: all)")
    parser.add_argument("--seconds", type=float, default=300, help="all targets together (default 300)")
    parser.add_argument("--seed", type=int, default=1, help="of all chance (default 1)")
    parser.add_argument("--repeat", type=Path, metavar="FILE", help="try this one input, and nothing else")
    arguments = parser.parse_args()
    names, status = arguments.targets or NAMES, 0
    for name in names:
        if arguments.repeat:
            done = child(name, arguments.repeat)
        else:
            done = fuzz(name, arguments.seconds / len(names), arguments.seed, ROOT / ".fuzz")
        tried = re.findall(r"number_of_executed_units:\s*(\d+)", done.stdout)
        said = done.stdout if done.returncode else f"{name}: the promise holds for {(tried or ['this'])[-1]}"
        print(said, flush=True)  # noqa: T201 - what a command prints is what it is for
        status |= done.returncode != 0
    return status


if __name__ == "__main__":
    sys.exit(main())
