"""A VM with the command ``hook``: an event for it, what its script did, and what was recorded."""

import json
import time
from collections.abc import Callable
from email.utils import formatdate
from pathlib import Path

from azure_scheduled_events_exporter.simulator import Simulator
from support.commands import command
from support.events.imds_bodies import entry
from support.programs import Program

SCRIPT = """#!/bin/sh
echo "$1 $EVENT_ID $EVENT_TYPE $EVENT_KIND $EVENT_PHASE $EVENT_VM_NAME $EVENT_RESOURCES" >>"{log}"
"""
Start = Callable[..., Program]


def event(name: str = "A", *, notice: float = 60.0, **values: object) -> dict[str, object]:
    """Return a Reboot of the first VM."""
    shown = entry(EventId=name, NotBefore=formatdate(time.time() + notice, usegmt=True))
    return {**shown, **values}


def approvals(imds: Simulator) -> int:
    """Return how many requests to approve the metadata service got."""
    return sum(request.method == "POST" for request in imds.requests)


def script_starts(tmp_path: Path, name: str = "vm_0") -> list[str]:
    """Return the phase and the event of each start of the script with this name."""
    path = tmp_path / f"{name}.log"
    return (
        [" ".join(line.split()[:2]) for line in path.read_text().splitlines()]
        if path.exists()
        else []
    )


def outcomes(tmp_path: Path, vm: str = "vm_0") -> list[tuple[str, str]]:
    """Return phase and outcome of each run that ``history`` shows, of all events."""
    done = command("history", "--json", "--journal.path", str(tmp_path / vm))
    runs = [run for each in json.loads(done.stdout or "[]") for run in each["hook_runs"]]
    return [
        (run["phase"], run["outcome"]) for run in sorted(runs, key=lambda run: str(run["started"]))
    ]


def polls(imds: Simulator) -> int:
    """Return how many documents were asked for."""
    return sum("scheduledevents" in request.path for request in imds.requests)
