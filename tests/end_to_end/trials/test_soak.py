"""The soak in its short form: half a minute instead of an hour."""

import subprocess
import sys

from support.paths import GUARD, ROOT, TESTS
from support.programs import environment


def test_a_busy_exporter_lives_and_answers() -> None:
    """At fifty polls a second, with events, a failing collector and pruning, every scrape is answered."""
    command = [sys.executable, "-m", "trials.load.soak", "--minutes", "0.5"]
    env = {**environment(), "PYTHONPATH": f"{TESTS}:{GUARD}"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300, env=env, cwd=ROOT)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "; 0 scrapes without answer" in done.stdout
