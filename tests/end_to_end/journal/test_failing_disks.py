"""A file system that answers nothing, not even whether the journal's folder exists, and a share
without locks.
"""

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from azure_scheduled_events_exporter.simulator import Simulator
from support.events.imds_bodies import entry
from support.hosts.failing_disks import hanging_disk, without_locks
from support.programs import Exporter, Program, environment, eventually

PROGRAM = [sys.executable, "-m", "azure_scheduled_events_exporter"]


@pytest.fixture
def imds() -> Iterator[Simulator]:
    """A metadata service that shows event A."""
    with Simulator("live-migration") as simulator:
        body = {
            "DocumentIncarnation": 1,
            "Events": [entry(EventId="A", Resources=["vm_0"], NotBefore="")],
        }
        simulator.serve_body(json.dumps(body).encode())
        yield simulator


@pytest.fixture
def hanging(tmp_path: Path) -> dict[str, str]:
    """Return the environment of a program for which the folder ``state`` hangs."""
    return hanging_disk(tmp_path / "slow_disk.so", tmp_path / "state")


def test_the_exporter_starts(imds: Simulator, hanging: dict[str, str], tmp_path: Path) -> None:
    """While the file system hangs, the exporter shows the event, and SIGTERM ends it."""
    flags = ("--journal.path", str(tmp_path / "state"))
    with Exporter(imds.url, tmp_path / "log", *flags, command=PROGRAM, **hanging) as exporter:
        eventually(lambda: exporter.scrape().series("event_info"), "the event is shown")
        assert exporter.terminate() == 0


def test_a_hook_prepares(imds: Simulator, hanging: dict[str, str], tmp_path: Path) -> None:
    """``hook`` runs its script for the event while the file system hangs."""
    script = tmp_path / "script"
    script.write_text(f"#!/bin/sh\necho $1 >>{tmp_path}/prepared\n")
    script.chmod(0o755)
    flags = ("--imds.endpoint", imds.url, "--journal.path", str(tmp_path / "state"))
    command = [*PROGRAM, "hook", *flags, "--instance.name", "vm_0", "--", str(script)]
    with Program(command, tmp_path / "hook.log", **environment(**hanging)):
        eventually((tmp_path / "prepared").exists, "the preparation")


def test_a_share_without_locks(imds: Simulator, tmp_path: Path) -> None:
    """The exporter shows the event, says how to mount the share, and ends as asked. It does not
    take the share for the journal of another exporter.
    """
    flags = ("--journal.path", str(tmp_path / "state"))
    share = without_locks(tmp_path / "smb-locks.so")
    with Exporter(imds.url, tmp_path / "log", *flags, command=PROGRAM, **share) as exporter:
        eventually(lambda: exporter.scrape().series("event_info"), "the event is shown")
        exporter.wait_for_line("level=error .*grants no lock.*mount it with the option nobrl")
        assert exporter.scrape().value("journal_up") == 0
        assert exporter.terminate() == 0
    assert "another exporter" not in (tmp_path / "log").read_text()
