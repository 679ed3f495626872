"""Runs the hooks of deploy/examples with substitutes for the programs that they call.

A substitute writes down how it was called, and answers what a test says.
"""

import os
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from azure_scheduled_events_exporter.simulator import (
    PlannedEvent,
    Scenario,
    Simulator,
    VirtualMachine,
    What,
)
from support.paths import ROOT
from support.programs import COMMAND, environment

EXAMPLES = ROOT / "deploy" / "examples"
LIBRARY = "/usr/local/lib/azure-scheduled-events"
INSTALLED = "/opt/azure-scheduled-events-exporter/bin/azure-scheduled-events-exporter"
VMS = (VirtualMachine("vmss_0", scale_set="vmss"), VirtualMachine("vmss_1", scale_set="vmss"))
REBOOT = PlannedEvent("Reboot", ("vmss_0",), announced_at=0.0, started_for=2.0, approval_delay=0.5)
ONE_REBOOT = Scenario("one", "A reboot, once it is approved.", VMS, (REBOOT,))
# Writes its call down, waits while a test holds its calls, and gives the answer of the first
# pattern that its call matches.
SUBSTITUTE = """\
#!/bin/sh
said="$(basename "$0") $*"
echo "$said" >>"$CALLS"
while [ -e "$CALLS.held" ]; do sleep 0.05; done
while IFS='|' read -r pattern status answer; do
    case $said in $pattern) [ -z "$answer" ] || echo "$answer"; exit "$status" ;; esac
done <"$CALLS.answers"
"""


class Ran(NamedTuple):
    """How a hook ended, which programs it called, and what it said."""

    status: int
    calls: list[str]
    output: str


class Stage:
    """A folder in which the substitutes of programs record their calls."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.file = folder / "calls"
        self.journal = folder / "journal"
        programs = folder / "bin"
        programs.mkdir()
        for name in (
            "az",
            "kubectl",
            "azcopy",
            "systemctl",
            "drain",
            "undrain",
            "patronictl",
            "mysql",
            "crm_attribute",
            "crm_node",
            "crm_resource",
            "redis-cli",
        ):
            (programs / name).write_text(SUBSTITUTE)
            (programs / name).chmod(0o755)
        self.environment = environment(
            PATH=f"{programs}:{Path(COMMAND).parent}:{os.environ['PATH']}",
            CALLS=str(self.file),
            STATE_DIRECTORY=str(folder),
            AZURE_SCHEDULED_EVENTS_JOURNAL_PATH=str(self.journal),
            AZURE_SCHEDULED_EVENTS_POLL_INTERVAL="250ms",
        )
        self.answers({})

    def answers(self, said: Mapping[str, tuple[int, str]]) -> None:
        """Let calls end with a status and an output, by patterns of the shell; all others succeed
        in silence.
        """
        lines = (f"{pattern}|{status}|{text}\n" for pattern, (status, text) in said.items())
        self.file.with_name("calls.answers").write_text("".join(lines))

    def hold_calls(self) -> None:
        """Make each call of a substitute wait until :meth:`release_calls`."""
        self.file.with_name("calls.held").touch()

    def release_calls(self) -> None:
        """Let the calls that wait end, and others not wait."""
        self.file.with_name("calls.held").unlink()

    @property
    def calls(self) -> list[str]:
        """The calls so far."""
        return self.file.read_text().splitlines() if self.file.exists() else []

    def hook(self, hook: str, phase: str, **settings: str) -> Ran:
        """Run a hook with the environment of its unit and ``settings``."""
        before = len(self.calls)
        env = {**self.environment, **unit_environment(hook), **settings}
        done = subprocess.run(
            [EXAMPLES / hook, phase], env=env, check=False, capture_output=True, text=True
        )
        return Ran(done.returncode, self.calls[before:], done.stdout + done.stderr)


def unit_environment(hook: str) -> dict[str, str]:
    """Return the environment of a unit, but for where its journal is."""
    lines = re.findall(
        "^Environment=(.*)$", (EXAMPLES / f"{hook}.service").read_text(), re.MULTILINE
    )
    found = dict(pair.split("=", 1) for line in lines for pair in line.split())
    assert (
        found.pop("AZURE_SCHEDULED_EVENTS_JOURNAL_PATH")
        == "/var/lib/azure-scheduled-events-exporter"
    )
    return found


def approved(simulator: Simulator) -> list[str]:
    """Return the types of the events that were approved."""
    return [each.event_type for each in simulator.record if each.what is What.APPROVED]
