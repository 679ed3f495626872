"""The trials of ``make torture`` that can run beside others, and the soak, in their short form.

Each runs in a process of its own.
"""

import subprocess
import sys

import pytest

from support.paths import GUARD, ROOT, TESTS
from support.programs import environment
from trials.__main__ import TRIALS

HOLDS = {
    # hostile clients keep no scraper waiting, over HTTP and over TLS with users
    "clients": "scrapes answered",
    # a wall clock that jumps makes no negative duration and ends no event
    "clock": "no negative duration",
    "disk": "none lost or twice",  # with a failing disk, polls continue and nothing is lost
    # a disk that answers nothing hides no event from metrics and Alertmanager
    "hang": "all on disk in order",
    # whoever poses as IMDS fills neither memory nor disk
    "flood": " MiB of memory, ",
    "history": "nothing lost",  # a long history is streamed to followers, and keeps no poll waiting
    # no transition is invented or repeated; the rate limit is kept
    "imds": "none missing of what was seen",
    # after any damage to its files, each transition is there once
    "journal": "each once in the journal",
    # after any number of kills, no transition is lost or counted twice
    "kills": "`integrity_check` ok",
    "power": " 0 lost",  # what was reported is in the journal after a power failure
    # whatever restarts or goes away, by rules and pushes together
    "pages": "one page and one resolve for each of",
    # however often exporters and Alertmanager restart
    "pushes": "one page and one resolve for each of",
}
"""What the row of a trial says if its promise holds."""
ALONE = ("start",)
"""Trials whose limits are so short that they need the machine for themselves."""


def _run(*command: str) -> str:
    env = {**environment(), "PYTHONPATH": f"{TESTS}:{GUARD}"}
    done = subprocess.run(
        [sys.executable, "-m", *command],
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
        env=env,
        cwd=ROOT,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("trial", [each for each in TRIALS if each not in ALONE])
def test_trial_holds(trial: str, seed: int) -> None:
    """A fault of each kind, injected for seconds, loses no transition, repeats none, and stops no
    scrape.
    """
    output = _run("trials", "--short", "--only", trial, "--seed", str(seed))
    row = next(line for line in output.splitlines() if line.startswith(f"| {trial} |"))
    # A trial that this machine cannot play says so in its row instead.
    assert HOLDS[trial] in row or "needs Linux and root" in row


def test_a_busy_exporter_lives_and_answers() -> None:
    """At fifty polls a second, with events, a failing collector and pruning, every scrape is
    answered.
    """
    assert "; 0 scrapes without answer" in _run("trials.load.soak", "--minutes", "0.5")
