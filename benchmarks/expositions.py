"""Captures what real exporters serve: idle, and through the life of an event of each type."""

import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from email.utils import formatdate
from functools import partial
from pathlib import Path

from azure_scheduled_events_exporter.simulator import Scenario, Simulator, VirtualMachine
from benchmarks.fleet_server import EVENT_ID, PEER, SCALE_SET, TYPES, VM
from support.events.imds_bodies import entry
from support.programs import Exporter, Scrape, fetch

VMS = tuple(VirtualMachine(name, scale_set=SCALE_SET, zone="1") for name in (VM, PEER))
SCOPES = {"self": VM, "peer": PEER}


def capture(folder: Path) -> dict[str, str]:
    """Return the expositions by name: ``idle``, and ``TYPE Scheduled|Started|past self|peer``."""
    found: dict[str, str] = {}
    with ThreadPoolExecutor(len(TYPES)) as pool:
        for each in pool.map(lambda event_type: _life(event_type, folder), TYPES):
            found |= each
    return found


def _life(event_type: str, folder: Path) -> dict[str, str]:
    """Return what exporters of the VM and of a neighbor serve before, during and after it."""
    found = {}
    with ExitStack() as stack:
        simulator = stack.enter_context(Simulator(Scenario("quiet", "", VMS, ())))
        exporters = {}
        for scope, name in SCOPES.items():
            prefix = folder / f"{event_type}-{scope}"
            exporter = Exporter(
                simulator.vm_url(name),
                prefix.with_suffix(".log"),
                "--instance.name",
                name,
                "--journal.path",
                f"{prefix}.sqlite",
            )
            exporters[scope] = stack.enter_context(exporter)
        for exporter in exporters.values():
            exporter.shows("a poll and its VM", _ready)
        found["idle"] = _text(exporters["self"])
        for status in ("Scheduled", "Started", "past"):
            document = []
            if status != "past":
                document.append(_event(event_type, status))
            simulator.set_document(document)
            for scope, exporter in exporters.items():
                exporter.shows(f"{event_type} {status}", partial(_shows, status))
                found[f"{event_type} {status} {scope}"] = _text(exporter)
    return found


def _ready(scrape: Scrape) -> bool:
    if scrape.value("up") != 1:
        return False
    return bool(scrape.series("instance_info", scale_set=SCALE_SET))


def _shows(status: str, scrape: Scrape) -> bool:
    if status == "past":
        return not scrape.series("event_info")
    return bool(scrape.series("event_info", event_status=status))


def _text(exporter: Exporter) -> str:
    return fetch(f"{exporter.url}/metrics").body.decode()


def _event(event_type: str, status: str) -> Mapping[str, object]:
    not_before = ""
    if status == "Scheduled":
        not_before = formatdate(time.time() + 900, usegmt=True)
    seconds = 5 if event_type == "Freeze" else -1
    return entry(
        EventId=EVENT_ID,
        EventStatus=status,
        EventType=event_type,
        Resources=[VM],
        NotBefore=not_before,
        DurationInSeconds=seconds,
    )
