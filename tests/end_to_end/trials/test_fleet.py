"""The benchmark of a whole fleet in its short form, on both engines: a few VMs, for seconds; no figure is judged."""

import re
import subprocess
import sys

import pytest

from support.paths import GUARD, ROOT, TESTS
from support.programs import environment

ENGINES = {"prometheus": {"Prometheus"}, "victoria": {"vmagent-0", "vmagent-1", "victoria-metrics", "vmalert"}}
INTERVAL_SECONDS = 3  # also the time that a scrape may take
SHORT = (
    "--vms",
    "40",
    "--events",
    "8",
    "--minutes",
    "0.3",
    "--interval",
    f"{INTERVAL_SECONDS}s",
    "--evaluation",
    "1s",
    "--change",
    "2.5",
)


@pytest.fixture(scope="module")
def reports() -> dict[str, str]:
    """What the benchmark prints for each engine; both run side by side."""
    env = {**environment(), "PYTHONPATH": f"{TESTS}:{GUARD}"}
    command = [sys.executable, "-m", "benchmarks.fleet", *SHORT, "--engine"]
    running = {
        engine: subprocess.Popen(
            [*command, engine], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env, cwd=ROOT
        )
        for engine in ENGINES
    }
    printed = {engine: process.communicate(timeout=240) for engine, process in running.items()}
    assert [process.returncode for process in running.values()] == [0, 0], printed
    return {engine: output for engine, (output, _) in printed.items()}


@pytest.mark.parametrize("engine", ENGINES)
def test_every_figure_is_measured(reports: dict[str, str], engine: str) -> None:
    """The table has samples, memory and processor of each program, each group of rules, and pages of all changes."""
    report = reports[engine]
    assert "targets down" not in report
    assert "changes without a page" not in report
    assert "rules failed" not in report
    samples = re.search(r"\| ([\d,]+) \| [\d,]+ MiB \|", report)
    assert samples, report
    assert int(samples[1].replace(",", "")) > 40 * 99 / INTERVAL_SECONDS * 0.5, report
    programs = set(re.findall(r"(?m)^\| (\S+|the fleet) \| [\d,]+ MiB \| [\d.]+ \|$", report))
    assert programs == {*ENGINES[engine], "Alertmanager", "the fleet"}
    assert "| `azure-scheduled-events-reboot` |" in report
    assert re.search(r"\| [\d.]+ / [\d.]+ s \| [\d.]+ / [\d.]+ s \| ", report), report


@pytest.mark.parametrize(
    ("flags", "message"),
    [(("--vms", "100"), "500 events of 1 VMs each need more than 100 VMs"), (("--interval", "x"), "--interval")],
)
def test_a_bad_plan_is_refused(flags: tuple[str, ...], message: str) -> None:
    """A fleet that is too small for its events, or an interval that is none, ends in one line that says so."""
    command = [sys.executable, "-m", "benchmarks.fleet", "--engine", "prometheus", *flags]
    env = {**environment(), "PYTHONPATH": f"{TESTS}:{GUARD}"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60, env=env, cwd=ROOT)
    assert done.returncode == 2
    assert message in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr
