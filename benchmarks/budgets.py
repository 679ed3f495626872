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
from collections.abc import Iterable, Iterator
from pathlib import Path

from azure_scheduled_events_exporter.simulator import Scenario, Simulator, VirtualMachine
from benchmarks.figures import Bench, Row, percentile
from benchmarks.load import QUICK, Effort
from benchmarks.measured import Measurement
from deploy.stack.free_port import free_port
from support.monitoring.collector import HANG, Collector
from support.paths import ROOT
from support.programs import debian, fetch

PAGE = ROOT / "docs" / "performance.md"
BEGIN = "<!-- measured: begin -->"
END = "<!-- measured: end -->"
QUIET = Scenario("quiet", "Nothing happens.", (VirtualMachine("vm_0"),), ())


def side_by_side_row(name: str, server: Measurement) -> str:
    """Return a server's start, memory and scrapes as a row of the table side by side."""
    server.scrapes(50)  # the first ones are slower, and do not count
    taken = server.scrapes(300)
    size = len(fetch(server.url).body) / 1024
    cells = (
        name,
        f"{server.start_seconds:.2f} s",
        f"{server.memory():.1f} MiB",
        f"{percentile(taken, 50):.2f} / {percentile(taken, 99):.2f} ms",
        f"{size:.0f} KiB",
    )
    return f"| {' | '.join(cells)} |"


def others(peer: str, peer_url: str) -> Iterator[str]:
    """Yield a row for each exporter that is measured beside this one.

    ``peer`` is the command line of one, which serves its metrics at ``peer_url``; or ``""``.
    """
    address = f"127.0.0.1:{free_port()}"
    node = [debian("prometheus-node-exporter")]
    node.append(f"--web.listen-address={address}")
    node.append("--log.level=error")
    with Measurement(node, f"http://{address}/metrics") as server:
        yield side_by_side_row("Debian's prometheus-node-exporter", server)
    if peer:
        command = shlex.split(peer)
        with Measurement(command, peer_url) as server:
            yield side_by_side_row(Path(command[0]).name, server)


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
    """Return what all was measured on."""
    release = platform.freedesktop_os_release()
    name = release.get("PRETTY_NAME", platform.platform())
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


def report(bench: Bench, effort: Effort, peer: str, peer_url: str) -> Iterator[str | Row]:
    """Measure; yield the lines of the page, as each is known."""
    yield f"{_system()}; medians, and the spread of the"
    yield "runs."
    yield from HEAD
    yield from bench.rows()
    yield from GROWTH
    for count in effort.events:
        yield bench.growth(count)
    yield from SIDE_BY_SIDE
    with bench.running() as exporter:
        yield side_by_side_row("this one, idle", exporter)
    yield from others(peer, peer_url)


def _write(lines: Iterable[str]) -> None:
    """Replace what the page has between its marks."""
    before, _, rest = PAGE.read_text().partition(BEGIN)
    _, _, after = rest.partition(END)
    measured = "\n".join(lines)
    PAGE.write_text(f"{before}{BEGIN}\n{measured}\n{END}{after}")


def main() -> int:
    """Measure, print, and return 1 when a budget is missed."""
    options = _options()
    effort = Effort()
    if options.quick:
        effort = QUICK
    lines = []
    status = 0
    with (
        tempfile.TemporaryDirectory() as folder,
        Simulator(QUIET) as simulator,
        Collector() as collector,
        Collector(HANG) as deaf,
    ):
        bench = Bench(
            simulator,
            Path(folder),
            effort,
            collector=collector.url,
            deaf_collector=deaf.url,
        )
        for line in report(bench, effort, options.peer, options.peer_url):
            print(line, flush=True)
            lines.append(str(line))
            if isinstance(line, Row) and line.missed:
                status = 1
    if options.write:
        _write(lines)
    return status


if __name__ == "__main__":
    sys.exit(main())
