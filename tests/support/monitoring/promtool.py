"""Runs tests of rules with promtool."""

import os
import subprocess
from pathlib import Path

from support.paths import ROOT
from support.programs import debian

RULES = ROOT / "alerts" / "generated" / "prometheus" / "prometheus-rules.yml"


def run_tests(file: Path) -> subprocess.CompletedProcess[str]:
    """Run the tests in ``file``; return the output."""
    return subprocess.run(
        [debian("promtool"), "test", "rules", str(file)],
        env={**os.environ, "GOGC": "400", "GOMAXPROCS": "1"},  # a quarter less processor time
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
