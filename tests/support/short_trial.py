"""A trial of ``make torture`` in its short form, as a process of its own."""

import subprocess
import sys

from support.paths import GUARD, ROOT, TESTS
from support.programs import environment

MINUTES = 5.0  # far more than any of them takes


def row(trial: str) -> str:
    """Run the trial and return its row of figures; fail with its output if it found an error."""
    command = [sys.executable, "-m", "trials", "--short", "--only", trial]
    env = {**environment(), "PYTHONPATH": f"{TESTS}:{GUARD}"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=MINUTES * 60, env=env, cwd=ROOT)
    assert done.returncode == 0, done.stdout + done.stderr
    return next(line for line in done.stdout.splitlines() if line.startswith(f"| {trial} |"))
