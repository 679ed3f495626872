"""The benchmarks in their short form: everything is measured once, and no figure is judged."""

import re
import subprocess
import sys
import time
import zlib
from pathlib import Path

import pytest

from benchmarks.expositions import capture
from benchmarks.fleet_exposition import EVENT_ID
from benchmarks.fleet_server import TYPES, Fleet
from support.paths import GUARD, ROOT, TESTS
from support.programs import Scrape, environment

ENGINES = {
    "prometheus": {"Prometheus"},
    "victoria": {"vmagent-0", "vmagent-1", "victoria-metrics", "vmalert"},
}
INTERVAL_SECONDS = 3  # also the time that a scrape may take
VMS = 40
SERIES_OF_A_VM = 99  # without an event
BUDGETS = 13  # rows of the table in docs/performance.md
SHORT_FLEET = (
    f"--vms {VMS} --events 8 --minutes 0.3 --interval {INTERVAL_SECONDS}s --evaluation 1s"
    " --change 2.5 --boards".split()
)


def run(benchmark: str, *flags: str) -> subprocess.CompletedProcess[str]:
    """Run a benchmark."""
    env = {**environment(), "PYTHONPATH": f"{TESTS}:{GUARD}"}
    command = [sys.executable, "-m", f"benchmarks.{benchmark}", *flags]
    return subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=600, env=env, cwd=ROOT
    )


def test_budgets_are_measured() -> None:
    """The benchmark measures each budget, and prints a row for each, and for comparison one about
    Debian's prometheus-node-exporter.
    """
    done = run("budgets", "--quick")
    assert done.returncode in {0, 1}, done.stderr
    # The status is 1 if a budget was missed, which happens on a busy machine.
    rows = [
        line for line in done.stdout.splitlines() if line.endswith(("| met |", "| **missed** |"))
    ]
    measured = {line.split(" | ")[0].removeprefix("| ") for line in rows}
    assert {
        "resident memory, tracing off",
        "resident memory, tracing on",
        "scrape, idle, p99",
    } <= measured
    assert len(measured) == BUDGETS
    assert "prometheus-node-exporter" in done.stdout


def exposition(fleet: Fleet, vm: int) -> str:
    """Return the text that the exporter of a VM serves, which comes as two members of a gzip
    stream.
    """
    data = fleet.body(vm)
    text = b""
    while data:
        member = zlib.decompressobj(wbits=31)
        text += member.decompress(data)
        data = member.unused_data
    return text.decode()


def test_every_vm_of_the_fleet_has_names_ids_and_times_of_its_own(tmp_path: Path) -> None:
    """The fleet serves what was captured of two exporters, with other names, ids and times.

    Here each group has two VMs and one event, which is about the first of the two. Both report it,
    with times after the capture.
    """
    expositions = capture(tmp_path)
    captured_at = time.time()
    fleet = Fleet(expositions, vms=20, events=len(TYPES), group=2)
    reported = []
    for vm in range(2 * len(TYPES)):
        text = exposition(fleet, vm)
        assert "captured" not in text, "all names in the captured text have this word"
        assert EVENT_ID not in text
        scrape = Scrape(text)
        [(event, _)] = scrape.series("event_info")
        group = vm // 2
        assert event["vms"] == f"vmss{group}_0"
        for name in ("event_seen", "event_impact"):
            [(_, moment)] = scrape.series(f"{name}_timestamp_seconds", event_id=event["event_id"])
            assert moment > captured_at
        for labels, _ in scrape.series("peer_impact_timestamp_seconds"):
            assert labels["event_id"] == event["event_id"]
            assert labels["vm_name"] == event["vms"]
        reported.append(event["event_id"])
    of_first_vms = reported[0::2]
    of_second_vms = reported[1::2]
    assert of_first_vms == of_second_vms
    assert len(set(reported)) == len(TYPES), "each group has an event of its own"


@pytest.mark.parametrize("engine", ENGINES)
def test_a_fleet_is_measured(engine: str) -> None:
    """The report has the samples a second, memory and processor of each program, the dashboards,
    the groups of rules, and how long the pages of events took. Nothing failed on the way.
    """
    done = run("fleet", *SHORT_FLEET, "--engine", engine)
    assert done.returncode == 0, done
    report = done.stdout
    assert "| none |" in report, "no target is down, no rule failed, no change was without a page"
    assert "| Azure Scheduled Events / Fleet |" in report
    samples = re.search(r"\| ([\d,]+) \| [\d,]+ MiB \|", report)
    assert samples, report
    samples_a_second = int(samples[1].replace(",", ""))
    if_all_are_scraped = VMS * SERIES_OF_A_VM / INTERVAL_SECONDS
    # In so short a run, the first scrapes are spread over an interval.
    assert samples_a_second > 0.5 * if_all_are_scraped, report
    row_of_a_program = r"(?m)^\| (\S+|the fleet) \| [\d,]+ MiB \| [\d.]+ \|$"
    programs = set(re.findall(row_of_a_program, report))
    assert programs == {*ENGINES[engine], "Alertmanager", "the fleet"}
    assert "| `azure-scheduled-events-life` |" in report, "a group of rules"
    times_of_pages = r"\| [\d.]+ / [\d.]+ s \| [\d.]+ / [\d.]+ s \| "
    assert re.search(times_of_pages, report), report
