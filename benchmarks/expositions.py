"""Captures what real exporters serve: idle, and through the life of an event of each type.

``benchmarks.fleet_server`` makes the expositions of a whole fleet of them.
"""

import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from email.utils import formatdate
from functools import partial
from pathlib import Path

from azure_scheduled_events_exporter.simulator import Scenario, Simulator, VirtualMachine
from benchmarks.fleet_exposition import EVENT_ID, NEIGHBOR, SCALE_SET, TARGET
from benchmarks.fleet_server import TYPES
from support.events.imds_bodies import entry
from support.programs import Exporter, Scrape, fetch

SCOPES = {"self": TARGET, "peer": NEIGHBOR}
"""The VM of each exporter, by the scope that it gives to the event."""
VMS = tuple(VirtualMachine(name, scale_set=SCALE_SET, zone="1") for name in SCOPES.values())
_QUIET = Scenario("quiet", "", VMS, events=())


def capture(folder: Path) -> dict[str, str]:
    """Return the expositions by name: ``idle``, and ``TYPE Scheduled|Started|past self|peer``.

    All types are played at once. The exporters write their logs and journals into ``folder``.
    """
    found: dict[str, str] = {}
    life = partial(_life, folder)
    with ThreadPoolExecutor(len(TYPES)) as pool:
        for each in pool.map(life, TYPES):
            found |= each
    return found


def _life(folder: Path, event_type: str) -> dict[str, str]:
    """Return what exporters of the VM and of a neighbor serve before, during and after an event."""
    found = {}
    with ExitStack() as stack:
        simulator = stack.enter_context(Simulator(_QUIET))
        exporters = {}
        for scope, name in SCOPES.items():
            prefix = folder / f"{event_type}-{scope}"
            exporter = _exporter(simulator, name, prefix)
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


def _exporter(simulator: Simulator, name: str, prefix: Path) -> Exporter:
    """Start the exporter of the VM ``name``; its files have the path ``prefix`` and a suffix."""
    log = prefix.with_suffix(".log")
    journal = prefix.with_suffix(".sqlite")
    flags = ["--instance.name", name]
    flags += ["--journal.path", str(journal)]
    return Exporter(simulator.vm_url(name), log, *flags)


def _ready(scrape: Scrape) -> bool:
    """Return whether an exporter has polled and knows its VM."""
    if scrape.value("up") != 1:
        return False
    return bool(scrape.series("instance_info", scale_set=SCALE_SET))


def _shows(status: str, scrape: Scrape) -> bool:
    """Return whether an exporter shows the event in ``status``, or no event if that is past."""
    if status == "past":
        return not scrape.series("event_info")
    return bool(scrape.series("event_info", event_status=status))


def _text(exporter: Exporter) -> str:
    """Return what an exporter serves now."""
    return fetch(f"{exporter.url}/metrics").body.decode()


def _event(event_type: str, status: str) -> Mapping[str, object]:
    """Return the event as the document has it while it is Scheduled or Started."""
    not_before = ""
    if status == "Scheduled":
        not_before = formatdate(time.time() + 900, usegmt=True)
    seconds = 5 if event_type == "Freeze" else -1
    return entry(
        EventId=EVENT_ID,
        EventStatus=status,
        EventType=event_type,
        Resources=[TARGET],
        NotBefore=not_before,
        DurationInSeconds=seconds,
    )
