"""How long a change in IMDS takes to appear in ``/metrics``. The figures are late by up to ``LOOK_SECONDS``."""

import http.client
import random
import time
import uuid
from email.utils import formatdate

from benchmarks.apart import Documents

LOOK_SECONDS = 0.005  # between two looks at /metrics
PATIENCE_SECONDS = 30.0


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
