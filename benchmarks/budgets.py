"""Prints what ``benchmarks.figures`` measures beside the budgets: docs/performance.md.

Run: ``make bench`` or ``PYTHONPATH=tests python -m benchmarks.budgets [--write] [--peer CMD
--peer-url URL]``. With ``--write`` the page in docs is renewed between its marks. Everything stays
on loopback; ten minutes on a quiet machine.
"""

import argparse
import os
import platform
import shlex
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from azure_scheduled_events_exporter.simulator import Scenario, Simulator, VirtualMachine
from benchmarks.figures import QUICK, Bench, Effort, percentile
from benchmarks.measured import Measurement
from deploy.stack.free_port import free_port
from support.monitoring.collector import HANG, Collector
from support.paths import ROOT
from support.programs import debian, fetch

PAGE = ROOT / "docs" / "performance.md"
BEGIN = "<!-- measured: begin -->"
END = "<!-- measured: end -->"
QUIET = Scenario("quiet", "Nothing happens.", (VirtualMachine("vm_0"),), ())


def beside(name: str, server: Measurement) -> str:
    """Return a server's start, memory and scrapes as a row."""
    with server:
        server.scrapes(50)
        taken = server.scrapes(300)
        scrape = f"{percentile(taken, 50):.2f} / {percentile(taken, 99):.2f} ms"
        size = len(fetch(server.url).body) / 1024
        return (
            f"| {name} | {server.started:.2f} s | {server.memory():.1f} MiB | {scrape} | {size:.0f}"
            " KiB |"
        )


def others(peer: str, peer_url: str) -> Iterator[str]:
    """Yield a row for each exporter that is measured beside this one."""
    address = f"127.0.0.1:{free_port()}"
    node = [
        debian("prometheus-node-exporter"),
        f"--web.listen-address={address}",
        "--log.level=error",
    ]
    yield beside(
        "Debian's prometheus-node-exporter", Measurement(node, f"http://{address}/metrics")
    )
    if peer:
        command = shlex.split(peer)
        yield beside(Path(command[0]).name, Measurement(command, peer_url))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--write", action="store_true", help="renew docs/performance.md")
    parser.add_argument(
        "--peer", default="", help="the command line of another exporter to measure beside it"
    )
    parser.add_argument("--peer-url", default="", help="where that one serves its metrics")
    parser.add_argument(
        "--quick", action="store_true", help="only try every measurement; the figures mean little"
    )
    return parser.parse_args()


def _system() -> str:
    name = platform.freedesktop_os_release().get("PRETTY_NAME", platform.platform())
    return f"{os.cpu_count()} shared cores, {name}, Python {platform.python_version()}"


HEAD = (
    "",
    "| what | budget | median | runs | |",
    "| --- | --- | --- | --- | --- |",
)
GROWTH = (
    "",
    "How the costs grow with the number of current events:",
    "",
    "| current events | scrape, median | poll in which all changed | memory |",
    "| --- | --- | --- | --- |",
)
SIDE_BY_SIDE = (
    "",
    "Side by side, each program started once in the same run:",
    "",
    "| exporter | start | memory | scrape p50 / p99 | exposition |",
    "| --- | --- | --- | --- | --- |",
)


def main() -> int:
    """Measure, print, and return 1 when a budget is missed."""
    options = _options()
    effort = QUICK if options.quick else Effort()
    lines: list[str] = []

    def note(*texts: object) -> None:
        lines.extend(map(str, texts))
        print(*texts, sep="\n", flush=True)

    missed = False
    with tempfile.TemporaryDirectory() as folder, Simulator(QUIET) as simulator:
        bench = Bench(simulator, Path(folder), effort)
        note(f"{_system()}; medians, and the spread of the", "runs.", *HEAD)
        with Collector() as collector, Collector(HANG) as deaf:
            for row in bench.rows(collector.url, deaf.url):
                note(row)
                missed = missed or row.missed
        note(*GROWTH)
        for count in effort.events:
            note(bench.growth(count))
        note(*SIDE_BY_SIDE)
        with bench.running() as exporter:
            note(beside("this one, idle", exporter))
        for each in others(options.peer, options.peer_url):
            note(each)
    if options.write:
        before, _, rest = PAGE.read_text().partition(BEGIN)
        after = rest.partition(END)[2]
        PAGE.write_text("\n".join((f"{before}{BEGIN}", *lines, END)) + after)
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
