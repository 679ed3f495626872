"""Measures how long each query of the dashboards takes over a large fleet, on a real Prometheus.

Run: ``PYTHONPATH=tests .venv/bin/python -m benchmarks.boards [--vms 10000] [--events 500] [--minutes 6]``. Prometheus
scrapes the fleet every 15 s and evaluates the shipped rules. Then it stops both, and every query is asked alone, three
times, as Grafana asks it: medians by the clock, and means of the processor time that the server used. With
``--victoria``, Prometheus also writes all series to VictoriaMetrics, which is asked afterwards: the same data, alone on
the machine. With ``--url`` the queries go to a server that already has the data.
"""

import argparse
import json
import os
import re
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
from typing import Any

import requests

from alerts import resolve
from deploy.stack.free_port import free_port
from support.monitoring.paging import JOB, write
from support.paths import ROOT
from support.programs import Program, debian, eventually

PREFIX = "azure_scheduled_events_"
BOARDS = ROOT / "dashboards" / "json"
TYPES = ("Freeze", "Reboot", "Redeploy", "Preempt", "Terminate")
PARTS = 20  # endpoints that the fleet is spread over
SCRAPE_SECONDS = 15
_IDLE_SECONDS, _IDLE_SHARE = 5, 0.05
HISTORY = 10  # one VM in so many has histograms of earlier events
BLIND = 250  # one VM in so many is down, and as many have an IMDS that fails
NOW = "@NOW@"
POLL_BOUNDS = ("0.005", "0.01", "0.025", "0.05", "0.1", "0.25", "0.5", "1.0", "2.5", "5.0", "10.0", "30.0", "60.0")
OUTCOMES = ("ok", "timeout", "connection_error", "throttled", "http_error", "invalid_document")
TRANSITIONS = ("detected", "rescheduled", "approved", "started", "completed", "cancelled", "lost", "returned")


# ---- The fleet ------------------------------------------------------------------------------------------------------


def exposition(vm: int, group_size: int, began: float) -> Iterator[str]:
    """Yield the series of one VM; the VMs of a group report the group's one event, and a third of them has started."""
    group, member = divmod(vm, group_size)
    target = f'job="{JOB}",instance="vm{vm}:10169"'
    if vm % BLIND == 1:
        yield f"up{{{target}}} 0"
        return
    sees = vm % BLIND != 2
    yield f"up{{{target}}} 1"

    def gauge(name: str, value: object, labels: str = "") -> str:
        return f"{name}{{{target}{',' if labels else ''}{labels}}} {value}"

    yield gauge("process_start_time_seconds", f"{began - 86_400:.0f}")
    yield gauge("process_cpu_seconds_total", NOW)
    yield gauge("process_resident_memory_bytes", 33_000_000 + vm * 100)
    place = f'scale_set="vmss{group}",location="westeurope",zone="{group % 3 + 1}",vm_name="vmss{group}_{member}"'
    more = f'resource_group="rg{group % 50}",vm_id="id{vm}",fault_domain="{member % 5}",vm_size="D8",priority="Regular"'
    ours = {
        "up": int(sees),
        "last_success_timestamp_seconds": NOW if sees else f"{began:.0f}",
        "poll_interval_seconds": 1,
        "document_incarnation": 7,
        "document_changes_total": 7,
        "journal_up": int(vm % BLIND != 3),
        "journal_errors_total": 0,
        "spans_queued": vm % 2,
        "poll_duration_seconds_sum": NOW,
        "poll_duration_seconds_count": NOW,
    }
    for name, value in ours.items():
        yield gauge(PREFIX + name, value)
    yield gauge(f"{PREFIX}instance_info", 1, f"{place},{more}")
    yield gauge(f"{PREFIX}build_info", 1, 'version="1.0.0",python_version="3.13.0"')
    yield gauge(f"{PREFIX}approval_policy_info", 1, f'policy="{"file" if vm % 2 else "off"}"')
    yield from _counters(target, sees=sees)
    if vm % HISTORY == 0:
        yield from _history(target)
    yield from _event(target, group, member, began)


def _counters(target: str, *, sees: bool) -> Iterator[str]:
    """Yield what one VM counts."""

    def gauge(name: str, value: object, labels: str) -> str:
        return f"{name}{{{target},{labels}}} {value}"

    for outcome in OUTCOMES:
        moving = NOW if outcome == ("ok" if sees else "timeout") else 0
        yield gauge(f"{PREFIX}polls_total", moving, f'outcome="{outcome}"')
    for outcome in ("accepted", "rejected", "error"):
        yield gauge(f"{PREFIX}approval_requests_total", 0, f'outcome="{outcome}"')
    for outcome in ("exported", "failed"):
        yield gauge(f"{PREFIX}spans_total", 0, f'outcome="{outcome}"')
    for bound in (*POLL_BOUNDS, "+Inf"):
        yield gauge(f"{PREFIX}poll_duration_seconds_bucket", NOW, f'le="{bound}"')
    for event_type in TYPES:
        for transition in TRANSITIONS:
            labels = f'event_type="{event_type}",event_source="Platform",scope="self",transition="{transition}"'
            yield gauge(f"{PREFIX}transitions_total", 0, labels)
        for name in ("pending", "started"):
            yield gauge(PREFIX + name, 0, f'event_type="{event_type}",scope="self"')


def _history(target: str) -> Iterator[str]:
    """Yield the histograms of earlier events of one VM."""
    for event_type in TYPES[:2]:
        key = f'{target},event_type="{event_type}"'
        histograms = (
            ("approval_latency_seconds", f'{key},approved_by="exporter"'),
            ("notice_seconds", key),
            ("phase_duration_seconds", f'{key},phase="scheduled"'),
            ("phase_duration_seconds", f'{key},phase="started"'),
            ("observed_pause_seconds", key),
        )
        for name, labels in histograms:
            for bound in ("1.0", "5.0", "30.0", "300.0", "900.0", "3600.0", "+Inf"):
                yield f'{PREFIX}{name}_bucket{{{labels},le="{bound}"}} 3'
            yield f"{PREFIX}{name}_sum{{{labels}}} 300"
            yield f"{PREFIX}{name}_count{{{labels}}} 3"


def _event(target: str, group: int, member: int, began: float) -> Iterator[str]:
    """Yield the series of the group's event, which happens to the group's first VM."""
    event_type, scope = TYPES[group % len(TYPES)], "self" if member == 0 else "peer"
    key = f'{target},event_id="00000000-0000-0000-0000-{group:012d}",event_type="{event_type}",scope="{scope}"'
    started = group % 3 == 0
    status = "Started" if started else "Scheduled"
    more = f'event_status="{status}",event_source="Platform",description="",resources="vmss{group}_0"'
    yield f"{PREFIX}event_info{{{key},{more}}} 1"
    if not started:
        yield f"{PREFIX}event_not_before_timestamp_seconds{{{key}}} {began + 3000:.0f}"
        yield f"{PREFIX}event_seconds_until_not_before{{{key}}} 600"
    yield f"{PREFIX}event_duration_seconds{{{key}}} {30 if group % 2 else 5}"
    yield f"{PREFIX}event_first_seen_timestamp_seconds{{{key}}} {began:.0f}"
    yield f"{PREFIX}event_approved{{{key}}} {group % 2}"
    yield f"{PREFIX}event_resources{{{key}}} 1"


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


def start(folder: Path, fleet: int, copy_to: str = "") -> tuple[Program, str]:
    """Start Prometheus with the shipped rules on the fleet that is served on port ``fleet``; return it and its URL.

    ``copy_to``: the URL of a VictoriaMetrics that it writes all series to.
    """
    write(folder, "prometheus/", resolve({"job": JOB}))
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
        "rule_files": ["prometheus-rules.yml"],
        "scrape_configs": jobs,
        "remote_write": [{"url": f"{copy_to}/api/v1/write"}] if copy_to else [],
    }
    config, port = folder / "prometheus" / "prometheus.yml", free_port()
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


def rest(folder: Path, program: Program, url: str) -> None:
    """Let Prometheus scrape and evaluate nothing any more, and write what it still has to write elsewhere."""
    (folder / "prometheus" / "prometheus.yml").write_text("{}")
    program.process.send_signal(signal.SIGHUP)
    targets = f"{url}/api/v1/targets"
    eventually(lambda: not requests.get(targets, timeout=150).json()["data"]["activeTargets"], "no target is left", 150)
    eventually(lambda: _is_idle(program.process.pid), "Prometheus has nothing left to do", 150)


def _is_idle(process: int) -> bool:
    before = processor_time(process)
    time.sleep(_IDLE_SECONDS)
    return processor_time(process) - before < _IDLE_SHARE * _IDLE_SECONDS


def processor_time(process: int) -> float:
    """Return the seconds of processor time that a process has used; 0 for process 0."""
    if not process:
        return 0.0
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


# ---- The queries ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Asked:
    """One query of a dashboard, what it cost, and how many series it returned."""

    where: str
    characters: int
    seconds: float
    processor: float
    series: int


def ask_board(board: dict[str, Any], url: str, moment: float, process: int, rounds: int = 3) -> Iterator[Asked]:
    """Ask every query of a dashboard alone, as Grafana does at a width of 1600 pixels."""
    for where, expr, parameters in _queries(board, moment):
        path = "query" if "time" in parameters else "query_range"
        form = {"query": expr["expanded"], **parameters}
        times, found, used = [], 0, processor_time(process)
        for _ in range(rounds):
            began = time.perf_counter()
            answer = requests.post(f"{url}/api/v1/{path}", form, timeout=150)
            times.append(time.perf_counter() - began)
            if "timed out" in answer.text:
                break
            if not answer.ok:
                raise RuntimeError(f"{where}: {answer.text[:500]}\n{expr['expanded']}")
            found = len(answer.json()["data"]["result"])
            if times[0] > 5:
                break
        used = (processor_time(process) - used) / len(times)
        yield Asked(where, len(expr["written"]), median(times), used, found)


def _queries(board: dict[str, Any], now: float) -> Iterator[tuple[str, dict[str, str], dict[str, float]]]:
    """Yield each query with its panel, its text, and the time range that it is evaluated for."""
    one = board["uid"].endswith("-vm")  # its variables name one exporter
    whole = _seconds(board["time"]["from"].removeprefix("now-"))
    for panel in board["panels"]:
        window = _seconds(panel["timeFrom"]) if "timeFrom" in panel else whole
        points = panel.get("maxDataPoints", 1600 * panel["gridPos"]["w"] // 24)
        least = _seconds(panel["interval"]) if "interval" in panel else SCRAPE_SECONDS
        step = max(least, window // points)
        for target in panel.get("targets", []):
            times: dict[str, float] = {"time": now}
            if not target["instant"]:
                times = {"start": (now - window) // step * step, "end": now // step * step, "step": step}
            yield f"{panel['title']} {target['refId']}", _expanded(target["expr"], window, step, one=one), times
    step = max(60, whole // 1600)
    for mark in board["annotations"]["list"]:
        if "expr" in mark:
            times = {"start": (now - whole) // step * step, "end": now // step * step, "step": step}
            yield f"annotation {mark['name']}", _expanded(mark["expr"], whole, step), times


def _expanded(expr: str, window: int, step: int, *, one: bool = False) -> dict[str, str]:
    """Return the query as written and with the variables replaced: all is selected, but on the board of one VM."""
    values = {
        "$__range": f"{window}s",
        "$__rate_interval": f"{max(4 * SCRAPE_SECONDS, step + SCRAPE_SECONDS)}s",
        "$__interval": f"{step}s",
        "${vm:regex}": "vmss7_0",
        "$vm": "vmss7_0",
        "$job": JOB if one else ".+",
        "$instance": "vm140:10169" if one else ".+",
        "$resource_group": ".*",
        "$scale_set": ".*",
    }
    expanded = expr
    for name, value in values.items():
        expanded = expanded.replace(name, value)
    return {"written": expr, "expanded": expanded}


def _seconds(duration: str) -> int:
    number, unit = re.fullmatch(r"(\d+)([smhd])", duration).groups()  # type: ignore[union-attr]
    return int(number) * {"s": 1, "m": 60, "h": 3600, "d": 86_400}[unit]


def report(url: str, boards: Path, moment: float, *, every: bool = False, process: int = 0) -> None:
    """Print a row per dashboard: the sum of its queries, the worst, the most series and the longest query."""
    for path in sorted(boards.glob("azure-*.json")):
        asked = list(ask_board(json.loads(path.read_text("utf-8")), url, moment, process))
        if every:
            for each in sorted(asked, key=lambda each: -each.seconds):
                cost = f"{each.seconds:7.3f} s {each.processor:7.3f} s {each.series:6} series {each.characters:5}"
                sys.stdout.write(f"    {cost} {each.where}\n")
        worst, most = max(asked, key=lambda each: each.seconds), max(asked, key=lambda each: each.series)
        longest = max(asked, key=lambda each: each.characters)
        sys.stdout.write(
            f"{path.stem}: {len(asked)} queries, sum {sum(each.seconds for each in asked):.2f} s "
            f"(processor {sum(each.processor for each in asked):.2f} s), "
            f"worst {worst.seconds:.2f} s ({worst.where}), most series {most.series} ({most.where}), "
            f"longest {longest.characters} characters ({longest.where})\n"
        )


def main() -> None:
    """Print a row per dashboard."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.boards", description=__doc__)
    parser.add_argument("--vms", type=int, default=10_000)
    parser.add_argument("--events", type=int, default=500)
    parser.add_argument("--minutes", type=float, default=6.0, help="how long the fleet is scraped first")
    parser.add_argument("--victoria", action="store_true", help="ask VictoriaMetrics too, which gets the same data")
    parser.add_argument("--url", help="ask this server, which already has the data")
    parser.add_argument("--at", type=float, help="with --url: the time to ask for, in seconds since 1970")
    parser.add_argument("--boards", type=Path, default=BOARDS, help="folder with the dashboards' JSON files")
    parser.add_argument("--every", action="store_true", help="print a row per query too")
    options = parser.parse_args()
    if options.url:
        report(options.url, options.boards, options.at or time.time(), every=options.every)
        return
    server = serve(options.vms, options.events)
    with tempfile.TemporaryDirectory() as name, ExitStack() as programs:
        folder, copy = Path(name), None
        if options.victoria:
            copy, copy_url = start_victoria(folder)
            programs.enter_context(copy)
        program, url = start(folder, server.server_port, copy_url if copy else "")
        programs.enter_context(program)
        time.sleep(options.minutes * 60)
        moment = time.time() - SCRAPE_SECONDS
        rest(folder, program, url)
        load = os.getloadavg()[0]
        sys.stdout.write(f"{options.vms} VMs, {options.events} events, {os.cpu_count()} cores, load {load:.1f}\n")
        report(url, options.boards, moment, every=options.every, process=program.process.pid)
        if copy:
            requests.get(f"{copy_url}/internal/force_flush", timeout=150)
            sys.stdout.write("VictoriaMetrics:\n")
            report(copy_url, options.boards, moment, every=options.every, process=copy.process.pid)
    server.shutdown()


if __name__ == "__main__":
    main()
