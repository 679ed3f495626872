"""How long the rules take over a large fleet: generated series, a real Prometheus, its own figures.

Run: ``PYTHONPATH=tests .venv/bin/python -m benchmarks.rules [MINUTES] [SETTING=VALUE ...] [--victoria] [--lookback
2m]``, with settings of the rules as in a values file. The longest window of the rules over all exporters is 15
minutes, so that a shorter run flatters. Each VM has the series that the rules read, not all of an exporter's. Figures:
the time by the clock while the fleet is scraped and all groups are evaluated, which other load on the machine
lengthens; each group's expressions, asked one by one of an idle Prometheus on what was scraped, in processor time and
by the clock; and the processors that Prometheus used in all, with scrapes and the texts of alerts. With
``--victoria``, Prometheus also writes all series to VictoriaMetrics, which is asked the same afterwards.
"""

import argparse
import json
import os
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
from benchmarks.boards import processor_time, rest, start_victoria
from deploy.stack.free_port import free_port
from support.monitoring.paging import JOB, Alertmanager, Receiver, receivers, write
from support.programs import Program, debian, fetch

VMS = 10_000
EVENTS = 500
GROUP = VMS // EVENTS  # VMs of a placement group; each group has one event, which all its members report
PARTS = 20  # endpoints that the fleet is spread over
TYPES = ("Freeze", "Reboot", "Redeploy", "Preempt", "Terminate")
PREFIX = "azure_scheduled_events_"
NOW, LEFT = "@NOW@", "@LEFT@"
_EVERY_SECONDS, _LAST_SECONDS = 5, 120
_PATIENCE_SECONDS = 150
_ROUNDS = 5


def lines(vm: int, began: float) -> Iterator[str]:
    """Yield the exposition of one VM; a third of the events has started."""
    group, member = divmod(vm, GROUP)
    target = f'job="{JOB}",instance="vm{vm}:10169"'
    yield f"up{{{target}}} 1"
    yield f"process_start_time_seconds{{{target}}} {began - 86_400:.0f}"
    for name, value in (("up", "1"), ("last_success_timestamp_seconds", NOW), ("poll_interval_seconds", "1")):
        yield f"{PREFIX}{name}{{{target}}} {value}"
    yield f"process_resident_memory_bytes{{{target}}} {30e6 + vm:.0f}"
    yield f"process_cpu_seconds_total{{{target}}} {NOW}"
    yield f"{PREFIX}journal_up{{{target}}} 1"
    for name in ("journal_errors_total", "spans_queued"):
        yield f"{PREFIX}{name}{{{target}}} 0"
    for outcome in ("exported", "failed"):
        yield f'{PREFIX}spans_total{{{target},outcome="{outcome}"}} 0'
    for name in ("poll_duration_seconds_sum", "poll_duration_seconds_count"):
        yield f"{PREFIX}{name}{{{target}}} {NOW}"
    for outcome in ("ok", "timeout", "connection_error", "throttled", "http_error", "invalid_document"):
        yield f'{PREFIX}polls_total{{{target},outcome="{outcome}"}} {NOW if outcome == "ok" else 0}'
    yield f'{PREFIX}approval_policy_info{{{target},policy="{"file" if vm % 2 else "off"}"}} 1'
    for outcome in ("accepted", "rejected", "error"):
        yield f'{PREFIX}approval_requests_total{{{target},outcome="{outcome}"}} 0'
    place = f'scale_set="vmss{group}",location="westeurope",zone="{group % 3 + 1}"'
    yield f'{PREFIX}instance_info{{{target},{place},vm_name="vmss{group}_{member}",vm_id="{vm}"}} 1'
    yield f'{PREFIX}host_info{{{target},computer_name="vmss{group}{member:06d}"}} 1'
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


def start(
    folder: Path, port: int, fleet: int, alertmanager: str, interval: str, *, lookback: str, copy_to: str = ""
) -> Program:
    """Start Prometheus with the shipped rules; it scrapes the fleet on port ``fleet`` every ``interval``.

    ``lookback``: for how long it looks back for the last sample of a series. ``copy_to``: the URL of a VictoriaMetrics
    that it writes all series to.
    """
    (folder / "prometheus" / "prometheus.yml").write_text(
        json.dumps(
            {
                "global": {"scrape_interval": interval},
                "rule_files": ["prometheus-rules.yml"],
                "remote_write": [{"url": f"{copy_to}/api/v1/write"}] if copy_to else [],
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
    arguments.append(f"--query.lookback-delta={lookback}")
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


@dataclass(frozen=True, slots=True)
class Cost:
    """What one evaluation of a rule takes if nothing else runs: processor seconds, and the worst one by the clock."""

    processor: float
    seconds: float


def ask_one_by_one(url: str, process: int, moment: float, groups: list[dict[str, Any]]) -> dict[str, dict[str, Cost]]:
    """Return the cost of each group's rules on the data of ``moment``, in five rounds.

    The processor time is a mean, so that Go's garbage collection counts as often as it happens: a single one costs as
    much as a rule.
    """
    used: dict[str, dict[str, Cost]] = {}
    for group in groups:
        rules = used.setdefault(group["name"], {})
        for rule in group["rules"]:
            before, taken = processor_time(process), []
            for _ in range(_ROUNDS):
                began = time.perf_counter()
                form = {"query": f"count({rule['query']})", "time": f"{moment}"}
                answer = requests.post(f"{url}/api/v1/query", form, timeout=_PATIENCE_SECONDS)
                taken.append(time.perf_counter() - began)
                if answer.status_code != HTTPStatus.OK:
                    raise RuntimeError(f"{rule['name']}: {answer.text}")
            rules[rule["name"]] = Cost((processor_time(process) - before) / _ROUNDS, max(taken))
    return used


def print_costs(engine: str, costs: dict[str, dict[str, Cost]], groups: list[dict[str, Any]]) -> None:
    """Print what the groups cost if their rules are asked one by one."""
    intervals = {group["name"]: group["interval"] for group in groups}
    sums = {name: sum(rule.processor for rule in rules.values()) for name, rules in costs.items()}
    clock = {name: sum(rule.seconds for rule in rules.values()) for name, rules in costs.items()}
    processors = sum(seconds / intervals[name] for name, seconds in sums.items())
    slowest = max(clock, key=lambda name: clock[name])
    print(f"{engine}, rules asked one by one: {processors:.2f} processors, slowest {slowest} {clock[slowest]:.3f} s")
    for name, rules in sorted(costs.items(), key=lambda each: -clock[each[0]]):
        print(f"{name}: processor {sums[name]:.2f} s, by the clock {clock[name]:.3f} s")
        print("  " + ", ".join(f"{rule} {cost.processor:.2f} / {cost.seconds:.3f}" for rule, cost in rules.items()))


def main() -> None:
    """Print a row per group."""
    plan = argparse.ArgumentParser(prog="python -m benchmarks.rules", description=__doc__)
    plan.add_argument("minutes", nargs="?", type=float, default=17.0)
    plan.add_argument("settings", nargs="*", metavar="SETTING=VALUE")
    plan.add_argument("--victoria", action="store_true", help="ask VictoriaMetrics too, which gets the same data")
    plan.add_argument("--lookback", default="5m", help="Prometheus' --query.lookback-delta")
    chosen = plan.parse_args()
    values = dict(each.split("=", 1) for each in chosen.settings)
    server = serve()
    with tempfile.TemporaryDirectory() as name, Receiver() as receiver, ExitStack() as running:
        folder, settings, copy_url = Path(name), resolve({**receivers(receiver.url), **values}), ""
        if chosen.victoria:
            copy, copy_url = start_victoria(folder)
            running.enter_context(copy)
        write(folder, "prometheus/", settings)
        port = free_port()
        url, interval = f"http://127.0.0.1:{port}", settings.duration("scrape.interval")
        with Alertmanager(folder, settings) as alertmanager:
            address = alertmanager.url.removeprefix("http://")
            prometheus = start(
                folder, port, server.server_port, address, interval, lookback=chosen.lookback, copy_to=copy_url
            )
            running.enter_context(prometheus)
            prometheus.wait_for_line("Server is ready to receive web requests")
            figures, processors = measure(url, prometheus.process.pid, chosen.minutes)
            groups = json.loads(fetch(f"{url}/api/v1/rules").body)["data"]["groups"]
            moment, load = time.time() - settings.seconds("scrape.interval"), os.getloadavg()[0]
            rest(folder, prometheus, url)
        told = len(receiver.notifications)
        costs = {"Prometheus": ask_one_by_one(url, prometheus.process.pid, moment, groups)}
        if chosen.victoria:
            requests.get(f"{copy_url}/internal/force_flush", timeout=_PATIENCE_SECONDS)
            costs["VictoriaMetrics"] = ask_one_by_one(copy_url, copy.process.pid, moment, groups)
    server.shutdown()
    print(f"{VMS} VMs, {EVENTS} events, {os.cpu_count()} cores, {chosen.minutes:g} min, load {load:.1f}")
    print(f"GOGC {os.environ.get('GOGC', '100')}, {' '.join(chosen.settings) or 'settings as shipped'}")
    print(f"Lookback {chosen.lookback}, {'with' if chosen.victoria else 'without'} VictoriaMetrics beside it")
    print(f"While all ran, Prometheus used {processors:.2f} processors and sent {told} notifications")
    for group in sorted(
        (each for each in figures if not each.endswith(" alerts")), key=lambda each: -max(figures[each])
    ):
        times, firing = figures[group], figures[f"{group} alerts"][-1]
        print(f"{group}: median {median(times):.3f} s, worst {max(times):.3f} s, {firing:.0f} alerts")
    for engine, cost in costs.items():
        print_costs(engine, cost, groups)


if __name__ == "__main__":
    main()
