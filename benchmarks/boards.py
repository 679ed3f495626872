"""Measures how long each query of the dashboards takes over a large fleet, on Prometheus and on VictoriaMetrics.

Run: ``PYTHONPATH=tests .venv/bin/python -m benchmarks.boards [--vms 10000] [--events 500] [--minutes 6] [--every]``.
Prometheus scrapes the fleet every 15 s, without rules, and writes everything to VictoriaMetrics. Then it scrapes no
more, and every query is asked alone, three times, as Grafana asks it.
"""

import argparse
import json
import os
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from statistics import median

import requests

from deploy.stack.free_port import free_port
from support.monitoring.board_reader import BOARDS, BoardReader, load, of_vm
from support.programs import Program, debian, eventually

PREFIX = "azure_scheduled_events_"
JOB = "azure-scheduled-events-exporter"
TYPES = ("Freeze", "Reboot", "Redeploy", "Preempt", "Terminate")
PARTS = 20  # endpoints that the fleet is spread over
SCRAPE_SECONDS = 15
BLIND = 250  # one VM in so many is down, and as many have an IMDS that fails
NOW = "@NOW@"
OUTCOMES = ("ok", "timeout", "connection_error", "throttled", "http_error", "invalid_document")
_IDLE_SECONDS, _IDLE_SHARE = 5, 0.05


# ---- The fleet ------------------------------------------------------------------------------------------------------


def exposition(vm: int, group_size: int, began: float) -> Iterator[str]:
    """Yield the series of one VM that boards read; a group sees one event, and a third of all events has started."""
    group, member = divmod(vm, group_size)
    target = f'job="{JOB}",instance="vm{vm}:10169"'
    yield f"up{{{target}}} {int(vm % BLIND != 1)}"
    if vm % BLIND == 1:
        return
    sees = vm % BLIND != 2

    def gauge(name: str, value: object, labels: str = "", prefix: str = PREFIX) -> str:
        return f"{prefix}{name}{{{target}{',' if labels else ''}{labels}}} {value}"

    yield gauge("process_cpu_seconds_total", NOW, prefix="")
    yield gauge("process_resident_memory_bytes", 38_000_000 + vm * 100, prefix="")
    place = f'resource_group="rg{group % 50}",subscription_id="s",scale_set="vmss{group}",zone="{group % 3 + 1}"'
    named = f'{place},vm_name="vmss{group}_{member}",vm_id="id{vm}"'
    more = f'location="westeurope",fault_domain="{member % 5}",vm_size="D8",priority="Regular"'
    yield gauge("instance_info", 1, f"{named},{more}")
    ours = {
        "up": int(sees),
        "last_success_timestamp_seconds": NOW if sees else f"{began:.0f}",
        "poll_interval_seconds": 1,
        "journal_up": int(vm % BLIND != 3),
        "journal_errors_total": 0,
        "spans_queued": vm % 2,
        "alertmanager_up": 1,
        "poll_duration_seconds_sum": NOW,
        "poll_duration_seconds_count": NOW,
    }
    yield from (gauge(name, value) for name, value in ours.items())
    yield gauge("build_info", 1, 'version="1.0.0",python_version="3.13.0"')
    yield gauge("approval_policy_info", 1, f'policy="{"file" if vm % 2 else "off"}"')
    for outcome in OUTCOMES:
        yield gauge("polls_total", NOW if outcome == ("ok" if sees else "timeout") else 0, f'outcome="{outcome}"')
    for outcome in ("accepted", "rejected", "error"):
        yield gauge("approval_requests_total", 0, f'outcome="{outcome}"')
    scope = "self" if member == 0 else "peer"
    kind = TYPES[group % len(TYPES)]
    event, key = f'event_id="{group:08d}-0000-0000-0000-000000000000",event_type="{kind}"', f'scope="{scope}"'
    started = group % 3 == 0
    texts = f'event_source="Platform",kind="announced",description="",resources="vmss{group}_0"'
    status = "Started" if started else "Scheduled"
    yield gauge("event_info", 1, f'{event},{key},event_status="{status}",{texts}')
    begins = "event_started" if started else "event_not_before"
    yield gauge(f"{begins}_timestamp_seconds", f"{began + (0 if started else 3000):.0f}", f"{event},{key}")
    yield gauge("event_first_seen_timestamp_seconds", f"{began:.0f}", f"{event},{key}")
    yield gauge("event_duration_seconds", 30 if group % 2 else 5, f"{event},{key}")
    yield gauge("event_approved", group % 2, f"{event},{key}")
    yield gauge("event_resources", 1, f"{event},{key}")
    past = event.replace('event_id="', 'event_id="f')
    yield gauge("event_ended_timestamp_seconds", f"{began - 60:.0f}", f'{past},{key},outcome="completed"')
    if member == 0:
        yield gauge("vm_impact_timestamp_seconds", f"{began:.0f}", f'{event},{named},computer_name="c{vm}"')


def serve(vms: int, events: int) -> ThreadingHTTPServer:
    """Serve the fleet, one part per path ``/0`` to ``/19``."""
    began, share = time.time(), vms // PARTS
    parts = [
        "\n".join(
            line for vm in range(part * share, (part + 1) * share) for line in exposition(vm, vms // events, began)
        )
        + "\n"
        for part in range(PARTS)
    ]

    class _Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = parts[int(self.path.strip("/"))].replace(NOW, f"{time.time():.0f}").encode()
            self.send_response(HTTPStatus.OK)
            self.send_header("Content-Type", "text/plain; version=0.0.4")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            with suppress(ConnectionError):  # Prometheus stops during a scrape
                self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name of the base class
            """Log nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


def start(folder: Path, fleet: int, copy_to: str) -> tuple[Program, str]:
    """Start Prometheus on the fleet that is served on port ``fleet``; return it and its URL."""
    jobs = [
        {
            "job_name": f"part-{part}",
            "honor_labels": True,
            "metrics_path": f"/{part}",
            "static_configs": [{"targets": [f"127.0.0.1:{fleet}"]}],
        }
        for part in range(PARTS)
    ]
    settings = {
        "global": {"scrape_interval": f"{SCRAPE_SECONDS}s"},
        "scrape_configs": jobs,
        "remote_write": [{"url": f"{copy_to}/api/v1/write"}],
    }
    config, port = folder / "prometheus.yml", free_port()
    config.write_text(json.dumps(settings))
    arguments = [debian("prometheus"), f"--config.file={config}", f"--storage.tsdb.path={folder / 'tsdb'}"]
    program = Program([*arguments, f"--web.listen-address=127.0.0.1:{port}"], folder / "prometheus.log")
    program.wait_for_line("Server is ready to receive web requests")
    return program, f"http://127.0.0.1:{port}"


def start_victoria(folder: Path) -> tuple[Program, str]:
    """Start an empty VictoriaMetrics; return it and its URL."""
    address = f"127.0.0.1:{free_port()}"
    arguments = [debian("victoria-metrics"), f"-httpListenAddr={address}", f"-storageDataPath={folder / 'victoria'}"]
    program = Program([*arguments, "-search.latencyOffset=0s", "-search.disableCache"], folder / "victoria.log")
    program.wait_for_line("starting http server at")
    return program, f"http://{address}"


def rest(config: Path, program: Program, url: str) -> None:
    """Let Prometheus scrape and evaluate nothing any more, and write what it still has to write elsewhere."""
    config.write_text("{}")
    program.process.send_signal(signal.SIGHUP)
    targets = f"{url}/api/v1/targets"
    eventually(lambda: not requests.get(targets, timeout=150).json()["data"]["activeTargets"], "no target is left", 150)
    eventually(lambda: _is_idle(program.process.pid), "Prometheus has nothing left to do", 150)


def _is_idle(process: int) -> bool:
    before = processor_time(process)
    time.sleep(_IDLE_SECONDS)
    return processor_time(process) - before < _IDLE_SHARE * _IDLE_SECONDS


def processor_time(process: int) -> float:
    """Return the seconds of processor time that a process has used."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


# ---- The queries ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Asked:
    """One query of a dashboard, what it cost, and how many series it returned."""

    where: str
    seconds: float
    processor: float
    series: int


def ask(board: str, url: str, moment: float, process: int, rounds: int = 3) -> Iterator[Asked]:
    """Ask every query of a dashboard alone."""
    variables = of_vm("vmss7_0", "vm140:10169") if board == "vm" else {"$job": JOB}
    for where, query, path, times in BoardReader(board, url, variables, moment).queries():
        took, found, used = [], 0, processor_time(process)
        for _ in range(rounds):
            began = time.perf_counter()
            answer = requests.post(f"{url}/api/v1/{path}", {"query": query, **times}, timeout=150)
            took.append(time.perf_counter() - began)
            if not answer.ok:
                raise RuntimeError(f"{where}: {answer.text[:500]}\n{query}")
            found = len(answer.json()["data"]["result"])
        yield Asked(where, median(took), (processor_time(process) - used) / rounds, found)


def report(url: str, moment: float, process: int, *, every: bool) -> None:
    """Print a row per dashboard: the sum of its queries, the worst, and the most series."""
    for board in BOARDS:
        asked = sorted(ask(board, url, moment, process), key=lambda each: -each.seconds)
        for each in asked if every else ():
            cost = f"{each.seconds:7.3f} s {each.processor:7.3f} s {each.series:6} series"
            sys.stdout.write(f"    {cost} {each.where}\n")
        most = max(asked, key=lambda each: each.series)
        sys.stdout.write(
            f"{load(board)['title']}: {len(asked)} queries, sum {sum(each.seconds for each in asked):.2f} s "
            f"(processor {sum(each.processor for each in asked):.2f} s), "
            f"worst {asked[0].seconds:.2f} s ({asked[0].where}), most series {most.series} ({most.where})\n"
        )


def main() -> None:
    """Print a row per dashboard and server."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.boards", description=__doc__)
    parser.add_argument("--vms", type=int, default=10_000)
    parser.add_argument("--events", type=int, default=500)
    parser.add_argument("--minutes", type=float, default=6.0, help="how long the fleet is scraped first")
    parser.add_argument("--every", action="store_true", help="print a row per query too")
    options = parser.parse_args()
    server = serve(options.vms, options.events)
    with tempfile.TemporaryDirectory() as name, ExitStack() as programs:
        folder = Path(name)
        victoria, victoria_url = start_victoria(folder)
        programs.enter_context(victoria)
        prometheus, url = start(folder, server.server_port, victoria_url)
        programs.enter_context(prometheus)
        time.sleep(options.minutes * 60)
        moment = float(int(time.time() - SCRAPE_SECONDS))
        rest(folder / "prometheus.yml", prometheus, url)
        requests.get(f"{victoria_url}/internal/force_flush", timeout=150)
        load_average = os.getloadavg()[0]
        sys.stdout.write(f"{options.vms} VMs, {options.events} events, load {load_average:.1f}\nPrometheus:\n")
        report(url, moment, prometheus.process.pid, every=options.every)
        sys.stdout.write("VictoriaMetrics:\n")
        report(victoria_url, moment, victoria.process.pid, every=options.every)
    server.shutdown()


if __name__ == "__main__":
    main()
