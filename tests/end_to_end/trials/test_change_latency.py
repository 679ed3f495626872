"""How soon a change in IMDS appears in ``/metrics``: the benchmark, with few changes and a bound for busy machines."""

import re
import subprocess
import sys

from support.paths import ROOT
from support.programs import environment

BENCHMARK = ROOT / "benchmarks" / "change_latency.py"


def measure(*flags: str) -> subprocess.CompletedProcess[str]:
    """Run the benchmark."""
    return subprocess.run(
        [sys.executable, str(BENCHMARK), *flags],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_change_stands_in_metrics() -> None:
    """A change is seen by the next poll: not a poll later, and not once some cache is old."""
    done = measure("--changes", "10", "--limit", "20")
    assert done.returncode == 0, done
    figures = re.search(r"^10 changes at --poll\.interval 1s: p50 ([\d.]+) s, p99 ([\d.]+) s, max", done.stdout)
    assert figures, done.stdout
    assert float(figures[1]) < 5.0, done.stdout


def test_limit_is_kept() -> None:
    """The benchmark fails when the limit is missed."""
    assert measure("--changes", "1", "--limit", "0").returncode == 1
