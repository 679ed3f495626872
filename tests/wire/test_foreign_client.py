"""The simulator is a metadata service to a program that shares no code with it."""

import subprocess
import sys
from pathlib import Path

from azure_scheduled_events_exporter.simulator import PlannedEvent, Scenario, Simulator, VirtualMachine
from support.events import foreign_client
from support.events.approve_command import approved
from support.programs import eventually

VMS = (VirtualMachine("vm_0"), VirtualMachine("vm_1"))


def planned(event_type: str, vm: str, source: str = "Platform", duration: int = -1) -> PlannedEvent:
    """Return an event that is announced at the beginning, a quarter of an hour ahead."""
    return PlannedEvent(event_type, (vm,), source=source, duration=duration, announced_at=0.0)


EVENTS = (
    planned("Reboot", "vm_0", "User"),
    planned("Freeze", "vm_1", duration=5),
    planned("Freeze", "vm_0", duration=30),
    planned("Redeploy", "vm_1"),
)


def test_sample_of_the_documentation(tmp_path: Path) -> None:
    """A client with the policy of Microsoft's Python sample polls, parses and approves as it does with Azure."""
    output = tmp_path / "output"
    with Simulator(Scenario("sample", "Four events.", VMS, EVENTS)) as simulator, output.open("w") as file:
        command = [sys.executable, foreign_client.__file__, simulator.url]
        with subprocess.Popen(command, stdout=file, stderr=subprocess.STDOUT) as client:
            try:
                eventually(lambda: len(approved(simulator)) == 2, "both approvals")
                eventually(lambda: output.read_text().count("waits Redeploy"), "the others")
                polls = len(simulator.requests)
                eventually(lambda: len(simulator.requests) > polls + 1, "more polls")
            finally:
                client.terminate()
    assert sorted(approved(simulator)) == [("Freeze", "vm_0"), ("Reboot", "vm_0")]
    said = output.read_text()
    assert said.count("approved") == 2, said
    assert "waits Freeze" in said
