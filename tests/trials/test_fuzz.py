"""The property tests of ``tests/unit`` with more input than at every change, from another seed."""

import os
import subprocess

from support.paths import ROOT

EXAMPLES = 200  # for each property


def test_promises_hold_for_whatever_comes(seed: int) -> None:
    """No made-up input breaks a promise. If one does, the output has the shortest such input."""
    command = [str(ROOT / "scripts" / "fuzz"), "-n0", f"--hypothesis-seed={seed}"]
    env = {**os.environ, "EXAMPLES": f"{EXAMPLES}"}
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
