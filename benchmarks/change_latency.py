#!/usr/bin/env python3
"""How long a change in IMDS takes to appear in ``/metrics``: p50, p99 and the largest of many changes.

Starts the exporter as a process on a simulator of its own and changes the document at random moments. Ends with
status 1 when the 99th percentile is over ``--limit``. Everything stays on loopback.
"""

import argparse
import http.client
import math
import random
import re
import subprocess
import sys
import time
import uuid
from collections.abc import Sequence
from email.utils import formatdate

from benchmarks.apart import Documents, quiet_simulator

LOOK_SECONDS = 0.005  # between two looks at /metrics; the figures are late by up to this much
PATIENCE_SECONDS = 30.0


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print the figures, and return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--changes", type=int, default=100, help="how many changes (default %(default)s)")
    parser.add_argument("--interval", default="1s", help="the exporter's --poll.interval (default %(default)s)")
    parser.add_argument("--limit", type=float, default=1.1, help="seconds at p99 (default %(default)s)")
    parsed = parser.parse_args(arguments)
    with quiet_simulator() as simulator:
        exporter = subprocess.Popen(
            [
                *(sys.executable, "-m", "azure_scheduled_events_exporter", "run"),
                *("--imds.endpoint", simulator.where(), "--poll.interval", parsed.interval),
                *("--web.listen-address", "127.0.0.1:0", "--journal.path", "memory"),
            ],
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            took = sorted(latencies(simulator, _port(exporter), parsed.changes))
        finally:
            exporter.terminate()
            exporter.communicate(timeout=PATIENCE_SECONDS)
    p99 = _percentile(took, 99)
    figures = f"p50 {_percentile(took, 50):.3f} s, p99 {p99:.3f} s, max {took[-1]:.3f} s"
    verdict = "within" if p99 <= parsed.limit else "over"
    sys.stdout.write(f"{len(took)} changes at --poll.interval {parsed.interval}: {figures}\n")
    sys.stdout.write(f"p99 is {verdict} the limit of {parsed.limit:g} s\n")
    return 0 if p99 <= parsed.limit else 1


def latencies(simulator: Documents, port: int, changes: int) -> list[float]:
    """Return for each of so many changes the seconds until ``/metrics`` showed it."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_SECONDS)
    _until_shown(connection, "azure_scheduled_events_up 1.0")
    took = []
    for _ in range(changes):
        # The last change was seen right after a poll: so every moment up to the next one is as likely.
        time.sleep(random.uniform(0.0, 1.0))
        event_id = str(uuid.uuid4()).upper()
        began = time.monotonic()
        simulator.set_document([_freeze(event_id)])
        _until_shown(connection, f'azure_scheduled_events_event_info{{description="",event_id="{event_id}"')
        took.append(time.monotonic() - began)
    connection.close()
    return took


def _until_shown(connection: http.client.HTTPConnection, text: str) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < deadline:
        connection.request("GET", "/metrics")
        if text in connection.getresponse().read().decode():
            return
        time.sleep(LOOK_SECONDS)
    raise SystemExit(f"not in /metrics within {PATIENCE_SECONDS:g} s: {text}")


def _freeze(event_id: str) -> dict[str, object]:
    return {
        "EventId": event_id,
        "EventType": "Freeze",
        "ResourceType": "VirtualMachine",
        "Resources": ["vm_0"],
        "EventStatus": "Scheduled",
        "NotBefore": formatdate(time.time() + 900, usegmt=True),
        "Description": "",
        "EventSource": "Platform",
        "DurationInSeconds": 5,
    }


def _port(exporter: subprocess.Popen[str]) -> int:
    assert exporter.stderr is not None
    for line in exporter.stderr:
        if found := re.search(r"msg=listening .*\bport=(\d+)", line):
            return int(found[1])
    raise SystemExit("the exporter ended before it listened")


def _percentile(ascending: Sequence[float], percent: int) -> float:
    return ascending[max(0, math.ceil(len(ascending) * percent / 100) - 1)]


if __name__ == "__main__":
    sys.exit(main())
