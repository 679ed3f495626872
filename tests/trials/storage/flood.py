"""Somebody poses as IMDS and floods the exporter: memory, disk and log stay bounded."""

import json
import threading
import time
import uuid
from pathlib import Path
from random import Random

import psutil

from azure_scheduled_events_exporter.journal.disk.documents import LARGEST as DOCUMENTS
from azure_scheduled_events_exporter.journal.disk.file import LARGEST_WAL_BYTES
from azure_scheduled_events_exporter.journal.tables.removal import LARGEST_BYTES
from azure_scheduled_events_exporter.simulator import Simulator
from trials.trial import QUIET, Crew, Order, Row, passes, polls

MEMORY_MIB = 100.0
LOG_MIB_A_MINUTE = 2.0
_EVENTS = 4000
_KNOWN_AT_MOST = 2000
"""Current events that the exporter keeps; it drops further ones."""
_MALFORMED = ("x", None, {"EventType": "Reboot"})
"""Entries that cannot be read: a document with one of them ends no event."""


def body(chance: Random) -> bytes:
    """Return a document of new events, of types that nobody knows, close to the largest body.

    Two of three documents have a malformed entry.
    """
    resource = chance.choice(("vmss_0", "vmss_1"))
    events: list[object] = [
        {
            "EventId": str(uuid.uuid4()),
            "EventType": f"Type{uuid.uuid4().hex[:8]}",
            "EventStatus": "Scheduled",
            "ResourceType": "VirtualMachine",
            "Resources": [resource],
            "NotBefore": "",
            "Description": "",
        }
        for _ in range(_EVENTS)
    ]
    if chance.random() < 2 / 3:
        events.append(chance.choice(_MALFORMED))
    return json.dumps({"DocumentIncarnation": time.time_ns(), "Events": events}).encode()


def size(folder: Path) -> int:
    """Return the bytes of all files of a folder."""
    return sum(path.stat().st_size for path in folder.iterdir() if path.is_file())


def run(order: Order) -> Row:
    """Send new events with each answer."""
    seconds = order.pick(1200, 30)
    state = order.folder / "state"
    ending = threading.Event()
    with Simulator(QUIET) as simulator, Crew(order.folder / "logs") as crew:

        def flood() -> None:
            while not ending.wait(0.2):
                simulator.serve_body(body(order.chance))

        flags = ("--instance.name", "vmss_0", "--journal.path", str(state))
        exporter = crew.start(simulator.url, *flags)
        thread = threading.Thread(target=flood, daemon=True)
        thread.start()
        memory = 0.0
        disk = 0
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            passes(1.0)
            memory = max(memory, psutil.Process(exporter.process.pid).memory_info().rss / (1 << 20))
            disk = max(disk, size(state))
        ending.set()
        thread.join()
        scrape = exporter.scrape()
        current = len(scrape.series("event_info"))
        log = len(exporter.log) / (1 << 20)
        assert scrape.value("events_dropped_total")
    assert memory < MEMORY_MIB, f"{memory:.0f} MiB of memory"
    assert disk < LARGEST_BYTES * 1.1 + LARGEST_WAL_BYTES + DOCUMENTS, f"{disk >> 20} MiB on disk"
    assert current <= _KNOWN_AT_MOST, current
    assert log < LOG_MIB_A_MINUTE * (seconds / 60 + 1), f"{log:.1f} MiB of log"
    return Row(
        "flood",
        f"{seconds} s of an IMDS that sends {_EVENTS:,} new events of new types with each answer,"
        f" two of three with a malformed entry, seed {order.seed}",
        f"{polls(scrape):.0f} polls; at most {memory:.0f} MiB of memory, {disk >> 20} MiB on disk,"
        f" {log:.1f} MiB of log, {current} current events",
    )
