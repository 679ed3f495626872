"""How long the rules take over a large fleet: generated series, a real Prometheus, its own figures.

Run: ``PYTHONPATH=tests .venv/bin/python -m benchmarks.rules [MINUTES] [SETTING=VALUE ...]``, with settings of the rules
as in a values file. Each VM has the series that the rules read, not all of an exporter's. Windows of the rules over
all exporters are 30 minutes at most, so that a shorter run flatters. Figures: the time of each group's evaluation by
the clock, while the fleet is scraped and all groups are evaluated, which other load on the machine lengthens; and the
processors that Prometheus used in all, with scrapes and the texts of alerts.
"""

import argparse
import json
import os
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from statistics import median

from alerts import resolve
from benchmarks.boards import processor_time
from deploy.stack.free_port import free_port
from support.monitoring.paging import JOB, Alertmanager, Receiver, receivers, write
from support.programs import Program, debian, fetch

VMS = 10_000
EVENTS = 500
GROUP = VMS // EVENTS  # VMs of a placement group; each group has one event, which all its members report
PARTS = 20  # endpoints that the fleet is spread over
TYPES = ("Freeze", "Reboot", "Redeploy", "Preempt", "Terminate")
PREFIX = "azure_scheduled_events_"
NOW = "@NOW@"
_EVERY_SECONDS, _LAST_SECONDS = 5, 120


def lines(vm: int, began: float) -> Iterator[str]:
    """Yield the exposition of one VM; a third of the events has started, and each group has one that has ended."""
    group, member = divmod(vm, GROUP)
    target = f'job="{JOB}",instance="vm{vm}:10169"'
    place = (
        f'subscription_id="s",resource_group="rg",scale_set="vmss{group}",vm_name="vmss{group}_{member}",vm_id="{vm}"'
    )
    yield f"up{{{target}}} 1"
    for name, value in (
        ("up", "1"),
        ("last_success_timestamp_seconds", NOW),
        ("journal_up", "1"),
        ("spans_queued", "0"),
    ):
        yield f"{PREFIX}{name}{{{target}}} {value}"
    for outcome in ("ok", "timeout", "connection_error", "throttled", "http_error", "invalid_document"):
        yield f'{PREFIX}polls_total{{{target},outcome="{outcome}"}} {NOW if outcome == "ok" else 0}'
    yield f"{PREFIX}poll_duration_seconds_count{{{target}}} {NOW}"
    for outcome in ("accepted", "rejected", "error"):
        yield f'{PREFIX}approval_requests_total{{{target},outcome="{outcome}"}} 0'
    for outcome in ("exported", "failed"):
        yield f'{PREFIX}spans_total{{{target},outcome="{outcome}"}} 0'
    yield f'{PREFIX}instance_info{{{target},{place},location="westeurope",zone="1"}} 1'
    event_type, scope = TYPES[group % len(TYPES)], "peer" if member else "self"
    key = f'{target},event_id="00000000-0000-0000-0000-{group:012d}",event_type="{event_type}"'
    key_scope = f'{key},scope="{scope}"'
    yield f'{PREFIX}event_info{{{key_scope},kind="announced",resources="vmss{group}_0",event_status="Scheduled"}} 1'
    moment, at = ("not_before", began + 3000) if group % 3 else ("started", began)
    yield f"{PREFIX}event_{moment}_timestamp_seconds{{{key_scope}}} {at:.0f}"
    yield f'{PREFIX}event_approved{{{key},scope="{scope}"}} 0'
    if not member:
        yield f"{PREFIX}vm_impact_timestamp_seconds{{{key},{place}}} {began:.0f}"
    ended = f'{target},event_id="10000000-0000-0000-0000-{group:012d}",event_type="{event_type}",scope="{scope}"'
    yield f'{PREFIX}event_ended_timestamp_seconds{{{ended},outcome="completed"}} {began:.0f}'


def serve() -> ThreadingHTTPServer:
    """Serve the fleet, one part per path ``/0`` to ``/19``."""
    began, share = time.time(), VMS // PARTS
    parts = [
        "\n".join(line for vm in range(part * share, (part + 1) * share) for line in lines(vm, began)) + "\n"
        for part in range(PARTS)
    ]

    class _Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = parts[int(self.path.strip("/"))].replace(NOW, f"{time.time():.0f}").encode()
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


def start(folder: Path, port: int, fleet: int, alertmanager: str, interval: str) -> Program:
    """Start Prometheus with the shipped rules; it scrapes the fleet on port ``fleet`` every ``interval``."""
    parts = [
        {
            "job_name": f"part-{part}",
            "honor_labels": True,
            "metrics_path": f"/{part}",
            "static_configs": [{"targets": [f"127.0.0.1:{fleet}"]}],
        }
        for part in range(PARTS)
    ]
    config = {
        "global": {"scrape_interval": interval},
        "rule_files": ["prometheus-rules.yml"],
        "alerting": {"alertmanagers": [{"static_configs": [{"targets": [alertmanager]}]}]},
        "scrape_configs": parts,
    }
    file = folder / "prometheus" / "prometheus.yml"
    file.write_text(json.dumps(config))
    flags = [f"--storage.tsdb.path={folder / 'tsdb'}", f"--web.listen-address=127.0.0.1:{port}"]
    return Program([debian("prometheus"), f"--config.file={file}", *flags], folder / "prometheus.log")


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
            name = f"{group['name']} (every {group['interval']:g} s)"
            figures.setdefault(name, []).append(group["evaluationTime"])
    used = (processor_time(process) - before) / (time.monotonic() - begun)
    return {name: values[-_LAST_SECONDS // _EVERY_SECONDS :] for name, values in figures.items()}, used


def main() -> None:
    """Print a row for each group."""
    plan = argparse.ArgumentParser(prog="python -m benchmarks.rules", description=__doc__)
    plan.add_argument("minutes", nargs="?", type=float, default=31.0)
    plan.add_argument("settings", nargs="*", metavar="SETTING=VALUE")
    chosen = plan.parse_args()
    values = dict(each.split("=", 1) for each in chosen.settings)
    server = serve()
    with tempfile.TemporaryDirectory() as name, Receiver() as receiver:
        folder, settings = Path(name), resolve({**receivers(receiver.url), **values})
        write(folder, "prometheus/", settings)
        port = free_port()
        url, interval = f"http://127.0.0.1:{port}", settings.duration("scrape.interval")
        with Alertmanager(folder, settings) as alertmanager:
            address = alertmanager.url.removeprefix("http://")
            with start(folder, port, server.server_port, address, interval) as prometheus:
                prometheus.wait_for_line("Server is ready to receive web requests")
                figures, processors = measure(url, prometheus.process.pid, chosen.minutes)
    server.shutdown()
    print(f"{VMS} VMs, {EVENTS} events, {os.cpu_count()} cores, {chosen.minutes:g} min, load {os.getloadavg()[0]:.1f}")
    print(f"GOGC {os.environ.get('GOGC', '100')}, {' '.join(chosen.settings) or 'settings as shipped'}")
    print(f"Prometheus used {processors:.2f} processors")
    for group, times in figures.items():
        print(f"{group}: median {median(times):.3f} s, worst {max(times):.3f} s")


if __name__ == "__main__":
    main()
