"""How long the rules take over a large fleet: generated series, a real Prometheus, its own figures.

Run: ``PYTHONPATH=tests .venv/bin/python -m benchmarks.rules [MINUTES] [SETTING=VALUE ...]``, with settings of the
rules as in a values file. The longest window of the rules over all exporters is 15 minutes, so that a shorter run
flatters. Each VM has the series that the rules read, not all of an
exporter's. Three figures: the time by the clock while the fleet is scraped, which other load on the machine lengthens;
the processor time of each group's expressions, asked one by one on what was scraped, which it does not; and the
processors that Prometheus used in all, with scrapes and the texts of alerts.
"""

import argparse
import json
import os
import tempfile
import threading
import time
import urllib.parse
from collections.abc import Iterator
from contextlib import suppress
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from statistics import median
from typing import Any

from alerts import resolve
from support.monitoring.paging import JOB, Alertmanager, Receiver, receivers, write
from support.programs import Program, debian, fetch, free_port

VMS = 10_000
EVENTS = 500
GROUP = VMS // EVENTS  # VMs of a placement group; each group has one event, which all its members report
PARTS = 20  # endpoints that the fleet is spread over
TYPES = ("Freeze", "Reboot", "Redeploy", "Preempt", "Terminate")
PREFIX = "azure_scheduled_events_"
NOW, LEFT = "@NOW@", "@LEFT@"
_EVERY_SECONDS, _LAST_SECONDS = 5, 120
_ENDING_SECONDS = 300  # it writes what it has in memory
_ROUNDS = 5


def lines(vm: int, began: float) -> Iterator[str]:
    """Yield the exposition of one VM; a third of the events has started."""
    group, member = divmod(vm, GROUP)
    target = f'job="{JOB}",instance="vm{vm}:10169"'
    yield f"up{{{target}}} 1"
    yield f"process_start_time_seconds{{{target}}} {began - 86_400:.0f}"
    for name, value in (("up", "1"), ("last_success_timestamp_seconds", NOW), ("poll_interval_seconds", "1")):
        yield f"{PREFIX}{name}{{{target}}} {value}"
    for name in ("journal_up", "journal_errors_total", "spans_queued"):
        yield f"{PREFIX}{name}{{{target}}} 0"
    for name in ("poll_duration_seconds_sum", "poll_duration_seconds_count"):
        yield f"{PREFIX}{name}{{{target}}} {NOW}"
    for outcome in ("ok", "timeout", "connection_error", "throttled", "http_error", "invalid_document"):
        yield f'{PREFIX}polls_total{{{target},outcome="{outcome}"}} {NOW if outcome == "ok" else 0}'
    yield f'{PREFIX}approval_policy_info{{{target},policy="{"file" if vm % 2 else "off"}"}} 1'
    for outcome in ("accepted", "rejected", "error"):
        yield f'{PREFIX}approval_requests_total{{{target},outcome="{outcome}"}} 0'
    place = f'scale_set="vmss{group}",location="westeurope",zone="{group % 3 + 1}"'
    yield f'{PREFIX}instance_info{{{target},{place},vm_name="vmss{group}_{member}",vm_id="{vm}"}} 1'
    yield from event_lines(target, group, member, began)


def event_lines(target: str, group: int, member: int, began: float) -> Iterator[str]:
    """Yield the series of the group's event."""
    event_type, scope = TYPES[group % len(TYPES)], "self" if member == 0 else "peer"
    key = f'{target},event_id="00000000-0000-0000-0000-{group:012d}",event_type="{event_type}",scope="{scope}"'
    started = group % 3 == 0
    status = "Started" if started else "Scheduled"
    more = f'event_status="{status}",event_source="Platform",description="",resources="vmss{group}_0"'
    yield f"{PREFIX}event_info{{{key},{more}}} 1"
    if not started:
        yield f"{PREFIX}event_not_before_timestamp_seconds{{{key}}} {began + 3000:.0f}"
        yield f"{PREFIX}event_seconds_until_not_before{{{key}}} {LEFT}"
    yield f"{PREFIX}event_resources{{{key}}} 1"
    yield f"{PREFIX}event_announced{{{key}}} {0 if started else 1}"
    yield f"{PREFIX}event_duration_seconds{{{key}}} {30 if group % 2 else 5}"
    yield f"{PREFIX}event_first_seen_timestamp_seconds{{{key}}} {began:.0f}"
    yield f"{PREFIX}event_approved{{{key}}} 0"


def serve() -> ThreadingHTTPServer:
    """Serve the fleet, one part per path ``/0`` to ``/19``."""
    began = time.time()
    share = VMS // PARTS
    parts = [
        "\n".join(line for vm in range(part * share, (part + 1) * share) for line in lines(vm, began)) + "\n"
        for part in range(PARTS)
    ]

    class _Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            now = time.time()
            text = parts[int(self.path.strip("/"))].replace(NOW, f"{now:.0f}")
            body = text.replace(LEFT, f"{began + 3000 - now:.0f}").encode()
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; version=0.0.4")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            with suppress(ConnectionError):  # Prometheus ends during a scrape
                self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name of the base class
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


def start(folder: Path, port: int, fleet: int, alertmanager: str) -> Program:
    """Start Prometheus with the shipped rules on the fleet that is served on port ``fleet``."""
    (folder / "prometheus" / "prometheus.yml").write_text(
        json.dumps(
            {
                "global": {"scrape_interval": "5s"},
                "rule_files": ["prometheus-rules.yml"],
                "alerting": {"alertmanagers": [{"static_configs": [{"targets": [alertmanager]}]}]},
                "scrape_configs": [
                    {
                        "job_name": f"part-{part}",
                        "honor_labels": True,
                        "metrics_path": f"/{part}",
                        "static_configs": [{"targets": [f"127.0.0.1:{fleet}"]}],
                    }
                    for part in range(PARTS)
                ],
            }
        )
    )
    arguments = [debian("prometheus"), f"--config.file={folder / 'prometheus' / 'prometheus.yml'}"]
    arguments += [f"--storage.tsdb.path={folder / 'tsdb'}", f"--web.listen-address=127.0.0.1:{port}"]
    return Program(arguments, folder / "prometheus.log")


def measure(url: str, process: int, minutes: float) -> tuple[dict[str, list[float]], float]:
    """Return the evaluation times of each group over the last two minutes, and the processors used meanwhile."""
    begun, end = time.monotonic(), time.monotonic() + minutes * 60
    figures: dict[str, list[float]] = {}
    before = 0.0
    while time.monotonic() < end:
        time.sleep(_EVERY_SECONDS)
        if end - time.monotonic() > _LAST_SECONDS:
            begun, before = time.monotonic(), processor_time(process)
        groups = json.loads(fetch(f"{url}/api/v1/rules").body)["data"]["groups"]
        broken = [rule for group in groups for rule in group["rules"] if rule["health"] == "err"]
        if broken:
            raise RuntimeError(f"a rule fails: {broken[0]['name']}: {broken[0].get('lastError')}")
        for group in groups:
            figures.setdefault(group["name"], []).append(group["evaluationTime"])
            figures.setdefault(f"{group['name']} alerts", []).append(
                sum(len(rule.get("alerts", ())) for rule in group["rules"])
            )
    used = (processor_time(process) - before) / (time.monotonic() - begun)
    return {name: values[-_LAST_SECONDS // _EVERY_SECONDS :] for name, values in figures.items()}, used


def processor_time(process: int) -> float:
    """Return the seconds of processor time that a process has used."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def ask_one_by_one(folder: Path, moment: float, groups: list[dict[str, Any]]) -> dict[str, dict[str, float]]:
    """Return the processor seconds of each group's rules on the data of ``moment``: the mean of five rounds.

    A mean, so that Go's garbage collection counts as often as it happens: a single one costs as much as a rule.
    """
    port, config = free_port(), folder / "idle.yml"
    config.write_text("{}")
    arguments = [debian("prometheus"), f"--config.file={config}", f"--storage.tsdb.path={folder / 'tsdb'}"]
    used: dict[str, dict[str, float]] = {}
    with Program([*arguments, f"--web.listen-address=127.0.0.1:{port}"], folder / "idle.log") as prometheus:
        prometheus.wait_for_line("Server is ready to receive web requests")
        for group in groups:
            rules = used.setdefault(group["name"], {})
            for rule in group["rules"]:
                before = processor_time(prometheus.process.pid)
                for _ in range(_ROUNDS):
                    form = urllib.parse.urlencode({"query": f"count({rule['query']})", "time": moment}).encode()
                    kind = {"Content_Type": "application/x-www-form-urlencoded"}
                    answer = fetch(f"http://127.0.0.1:{port}/api/v1/query", "POST", form, **kind)
                    if answer.status != HTTPStatus.OK:
                        raise RuntimeError(f"{rule['name']}: {answer.body.decode()}")
                rules[rule["name"]] = (processor_time(prometheus.process.pid) - before) / _ROUNDS
    return used


def main() -> None:
    """Print a row per group."""
    plan = argparse.ArgumentParser(prog="python -m benchmarks.rules", description=__doc__)
    plan.add_argument("minutes", nargs="?", type=float, default=17.0)
    plan.add_argument("settings", nargs="*", metavar="SETTING=VALUE")
    chosen = plan.parse_args()
    minutes, values = chosen.minutes, dict(each.split("=", 1) for each in chosen.settings)
    server = serve()
    with tempfile.TemporaryDirectory() as name, Receiver() as receiver:
        folder, settings = Path(name), resolve({**receivers(receiver.url), **values})
        write(folder, "prometheus/", settings)
        port = free_port()
        with Alertmanager(folder, settings) as alertmanager:
            address = alertmanager.url.removeprefix("http://")
            with start(folder, port, server.server_port, address) as prometheus:
                prometheus.wait_for_line("Server is ready to receive web requests")
                url = f"http://127.0.0.1:{port}"
                figures, processors = measure(url, prometheus.process.pid, minutes)
                groups = json.loads(fetch(f"{url}/api/v1/rules").body)["data"]["groups"]
                moment, load = time.time() - 10, os.getloadavg()[0]
                prometheus.process.terminate()
                prometheus.process.wait(_ENDING_SECONDS)
        used = ask_one_by_one(folder, moment, groups)
        told = len(receiver.notifications)
    server.shutdown()
    print(f"{VMS} VMs, {EVENTS} events, {os.cpu_count()} cores, {minutes:g} min, load {load:.1f}, {told} notifications")
    print(f"GOGC {os.environ.get('GOGC', '100')}, {' '.join(chosen.settings) or 'settings as shipped'}")
    print(f"Prometheus used {processors:.2f} processors")
    for group in [each for each in figures if not each.endswith(" alerts")]:
        times, firing = figures[group], figures[f"{group} alerts"][-1]
        clock = f"by the clock median {median(times):.3f} s, worst {max(times):.3f} s"
        print(f"{group}: processor {sum(used[group].values()):.2f} s, {clock}, {firing:.0f} alerts")
        print("  " + ", ".join(f"{rule} {seconds:.2f}" for rule, seconds in used[group].items()))


if __name__ == "__main__":
    main()
