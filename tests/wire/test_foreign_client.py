"""The simulator is a metadata service to a program that shares no code with it."""

import json
import socket
import subprocess
import sys
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from azure_scheduled_events_exporter.simulator import (
    PlannedEvent,
    Scenario,
    Simulator,
    VirtualMachine,
)
from support.events import foreign_client
from support.events.approve_command import approved
from support.programs import PATIENCE, eventually

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
    """A client with the policy of Microsoft's Python sample polls, parses and approves as it does
    with Azure.
    """
    output = tmp_path / "output"
    with (
        Simulator(Scenario("sample", "Four events.", VMS, EVENTS)) as simulator,
        output.open("w") as file,
    ):
        command = [sys.executable, foreign_client.__file__, simulator.url]
        with subprocess.Popen(command, stdout=file, stderr=subprocess.STDOUT) as client:
            try:
                eventually(lambda: len(approved(simulator)) == 2, "both approvals")
                eventually(lambda: output.read_text().count("waits Redeploy"), "the others")
                polls = len(simulator.requests)
                eventually(lambda: len(simulator.requests) > polls + 1, "more polls")
            finally:
                client.terminate()
    # The sample approves what a user requested, and each Freeze of 0 to 8 s. The simulator takes
    # whoever asks at its main address for vm_0: so vm_0 approves also the Freeze of vm_1.
    assert sorted(approved(simulator)) == [("Freeze", "vm_0"), ("Reboot", "vm_0")]
    said = output.read_text()
    assert said.count("approved") == 2, said
    assert "waits Freeze" in said, "that of 30 s"


def invoke_rest_method(address: str, body: bytes, headers: str) -> tuple[bytes, bytes]:
    """Return what the server answers to the headers of a POST, and then to its body."""
    url = urlsplit(address)
    head = (
        "POST /metadata/scheduledevents?api-version=2020-07-01 HTTP/1.1\r\nMetadata: true\r\n"
        f"{headers}Content-Type: application/x-www-form-urlencoded\r\nHost: {url.netloc}\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    )
    with socket.create_connection((url.hostname, url.port), PATIENCE) as connection:
        connection.sendall(head.encode())
        interim = connection.recv(65536) if "Expect" in headers else b""
        connection.sendall(body)
        return interim, connection.recv(65536)


@pytest.mark.parametrize(
    "headers",
    [
        (
            "User-Agent: Mozilla/5.0 (Windows NT; Windows NT 10.0; en-US)"
            " WindowsPowerShell/5.1.20348.2582\r\nExpect: 100-continue\r\nConnection:"
            " Keep-Alive\r\n"
        ),
        (
            "User-Agent: Mozilla/5.0 (Linux; Debian GNU/Linux 12 (bookworm); en-US)"
            " PowerShell/7.4.2\r\nAccept-Encoding: gzip, deflate, br\r\n"
        ),
    ],
    ids=["5.1", "7.4"],
)
def test_powershell_sample_of_the_documentation(headers: str) -> None:
    """The approval that Invoke-RestMethod sends for Microsoft's PowerShell sample is accepted.

    Windows PowerShell (5.1) waits for 100 Continue. Both versions call the JSON a form, and their
    ConvertTo-Json breaks it into lines.
    """
    with Simulator(Scenario("sample", "Four events.", VMS, EVENTS)) as simulator:
        document = json.loads(foreign_client.ask(simulator.url))
        event_id = next(
            event["EventId"] for event in document["Events"] if event["EventSource"] == "User"
        )
        content = {
            "StartRequests": [{"EventId": event_id}],
            "DocumentIncarnation": document["DocumentIncarnation"],
        }
        body = json.dumps(content, indent=4).replace("\n", "\r\n").encode("latin-1")
        interim, final = invoke_rest_method(simulator.url, body, headers)
        assert interim.startswith(b"HTTP/1.1 100 ") == ("Expect" in headers)
        assert final.startswith(b"HTTP/1.1 200 ")
        assert approved(simulator) == [("Reboot", "vm_0")]
