"""What doctor says of the metadata service, its agent on the VM, a collector and the journal."""

import json
import os
import socket
from collections.abc import Iterator
from dataclasses import replace
from http import HTTPStatus
from pathlib import Path

import pytest

from azure_scheduled_events_exporter.config.resolution import resolve
from azure_scheduled_events_exporter.doctor import (
    guest_proxy_agent,
    journal,
    metadata_service,
    tracing,
)
from azure_scheduled_events_exporter.doctor.api import Api
from azure_scheduled_events_exporter.doctor.finding import Finding
from azure_scheduled_events_exporter.doctor.subject import Subject
from azure_scheduled_events_exporter.imds.guest_proxy_agent import INSTANCE_PATH
from azure_scheduled_events_exporter.imds.guest_proxy_agent import hint as logged_hint
from support.doctor.doctor_chain import Canned, Reply
from support.monitoring.collector import Collector
from support.monitoring.collector import Reply as CollectorReply
from support.programs import NOBODY
from support.servers.certificates import Authority
from support.servers.imds_peer import CASES

_HTML = b"<!DOCTYPE html><html><head><title>404 Not Found</title></head></html>"
_INSTANCE = (CASES / "full.instance.json").read_bytes()
_UNKNOWN = b'{"error": "Not found. Invalid version requested"}'
# A document with one event of the VM that _INSTANCE describes.
_EVENT = (
    b'{"DocumentIncarnation": 1, "Events": [{"EventId": "A", "EventType": "Reboot", "Resources":'
    b' ["vm_0"], "EventStatus": "Scheduled", "NotBefore": "Mon, 11 Apr 2033 22:26:58 GMT"}]}'
)


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    """A CA of the company."""
    return Authority(tmp_path)


def subject(**settings: str) -> Subject:
    """Return an installation with these settings."""
    return Subject(resolve(settings, {}), {}, Api("--exporter", f"http://{NOBODY}"))


def findings(instance: Reply, events: Reply, **settings: str) -> dict[str, Finding]:
    """Return what doctor finds about a service with these answers, by check."""
    with Canned({"/metadata/instance": instance, "/metadata/scheduledevents": events}) as server:
        found = metadata_service.examine(subject(**{"imds.endpoint": server.url, **settings}))
        return {each.check: each for each in found}


@pytest.mark.parametrize(
    ("status", "body"), [(407, b""), (200, _HTML), (200, b'{"status": "success"}')]
)
def test_other_servers(status: int, body: bytes) -> None:
    """A proxy or a web server is not taken for the metadata service, nor its clock for Azure's."""
    found = findings((status, {}, body), (status, {}, body))
    assert {name: each.mark for name, each in found.items()} == {
        "imds-reachable": "wrong",
        "scheduled-events": "wrong",
        "vm-name": "skipped",
    }


@pytest.mark.parametrize(
    ("status", "headers", "body", "expected"),
    [
        (403, {}, b"", "Azure's Guest Proxy Agent"),
        (403, {"Metadata-Flavor": "Google"}, _HTML, "This is not an Azure VM"),
        (404, {"Server": "EC2ws"}, _HTML, "This is not an Azure VM"),
        (503, {}, _HTML, "a proxy or another server answers with a web page"),
        (
            302,
            {"Location": "http://login/"},
            b"",
            "A proxy or another server answers with a redirect",
        ),
        (403, {}, b"no", "The cause is unknown. Let this VM reach"),
        (410, {}, b"", "takes up to 70 s. Run doctor again in two minutes."),
        (404, {}, _UNKNOWN, "may be unknown; set --imds.api-version"),
    ],
)
def test_what_to_do(status: int, headers: dict[str, str], body: bytes, expected: str) -> None:
    """Each cause has its own advice.

    Only where the cause passes by itself is it to run doctor again.
    """
    found = findings((200, {}, _INSTANCE), (status, headers, body))["scheduled-events"]
    assert expected in found.hint
    assert ("again" in found.hint) is (status == HTTPStatus.GONE)
    assert f"answered {status}" in found.sentence


def test_whom_to_allow() -> None:
    """The advice is about the exporter's user, not that of doctor, which usually is root.

    About the instance data, doctor says what the exporter's log says.
    """
    found = findings((403, {}, b""), (403, {}, b""))
    events = found["scheduled-events"]
    assert "Allow /metadata/scheduledevents for the user of the exporter" in events.hint
    assert found["imds-reachable"].hint == f"{logged_hint(403, INSTANCE_PATH)}."
    assert events.link.endswith("metadata-security-protocol.md#if-the-exporter-is-refused")


def test_page_of_a_service_that_throttles() -> None:
    """A 429 leads to the page about throttling, and not to that about an IMDS without an answer."""
    found = findings((200, {}, _INSTANCE), (429, {}, b""))["scheduled-events"]
    assert found.link.endswith("runbooks/AzureScheduledEventThrottled.md")


def test_a_service_that_is_reached_and_does_not_answer() -> None:
    """After a time-out, no firewall is suspected. Doctor also does not say that the first answer
    to a new VM may take minutes: the exporter may have run for days.
    """
    with socket.create_server(("127.0.0.1", 0)) as silent:  # it accepts, and nobody answers
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        settings = {"imds.endpoint": url, "imds.timeout": "100ms"}
        found = next(metadata_service.examine(subject(**settings)))
    assert "no whole answer" in found.sentence
    assert found.hint.startswith("Run doctor again in two minutes.")
    assert "first answer" not in found.hint


def _findings_of_the_agent(tmp_path: Path, *refused: dict[str, object]) -> list[Finding]:
    """Return what doctor finds in the status file of a Guest Proxy Agent."""
    file = tmp_path / "status.json"
    file.write_text(json.dumps({"failedAuthenticateSummary": refused}))
    return list(guest_proxy_agent.examine(file))


# A refusal of the exporter, as the agent writes it down.
OURS: dict[str, object] = {
    "userName": "undefined",
    "ip": "169.254.169.254",
    "processCmdLine": "/opt/a/bin/python /opt/a/bin/azure-scheduled-events-exporter run",
    "responseStatus": "403 Forbidden",
    "count": 7,
}


def test_refusals_of_the_guest_proxy_agent(tmp_path: Path) -> None:
    """Doctor warns if the agent's status file lists a refused request of the exporter. It names the
    user and the answer, and says that an agent that only audits lets such requests pass.
    """
    others = {**OURS, "processCmdLine": "/usr/bin/curl"}
    assert list(guest_proxy_agent.examine(tmp_path / "none")) == [], "this VM has no agent"
    (of_others,) = _findings_of_the_agent(tmp_path, others)
    assert of_others.mark == "ok", "the agent refuses another program only"
    (found,) = _findings_of_the_agent(tmp_path, others, OURS)
    assert found.mark == "warning"
    assert "user undefined, 403 Forbidden, 7 times" in found.sentence
    assert "In the mode Audit it lets them pass" in found.sentence
    assert "/metadata/scheduledevents" in found.hint


@pytest.mark.parametrize("text", ["{", "[]", "{}", '{"failedAuthenticateSummary": [{}]}'])
def test_agent_of_another_version(text: str, tmp_path: Path) -> None:
    """A status file of another form is noted, and no fault of the exporter."""
    file = tmp_path / "status.json"
    file.write_text(text)
    assert [each.mark for each in guest_proxy_agent.examine(file)] == ["note"]


def test_api_version_that_the_service_does_not_know() -> None:
    """The flag and what the service offers are named."""
    found = findings(
        (200, {}, _INSTANCE), (404, {}, _UNKNOWN), **{"imds.api-version": "2024-07-09"}
    )
    assert "answered 404" in found["scheduled-events"].sentence
    assert "set --imds.api-version" in found["scheduled-events"].hint
    offers = (
        b'{"error": "Bad request. api-version is invalid", "newest-versions": ["2017-12-01",'
        b' "2017-08-01"]}'
    )
    found = findings((200, {}, _INSTANCE), (400, {}, offers))
    assert "offers 2017-12-01, 2017-08-01" in found["scheduled-events"].hint


def test_events_while_the_name_is_unknown() -> None:
    """An answer about events is reported although that about the VM fails."""
    found = findings((404, {}, _UNKNOWN), (200, {}, _EVENT))
    assert found["scheduled-events"].mark == "ok"
    assert found["vm-name"].mark == "wrong"
    assert "/metadata/instance answered 404" in found["vm-name"].sentence


def test_nobody_answers() -> None:
    """Where no server answers, the advice is to look for what is in the way, or that there is no
    Azure.
    """
    found = {
        each.check: each
        for each in metadata_service.examine(subject(**{"imds.endpoint": f"http://{NOBODY}"}))
    }
    hint = found["imds-reachable"].hint
    assert f"Let this VM reach http://{NOBODY}: look for a firewall" in hint
    assert "Not on an Azure VM? Try 'demo' or 'simulate'." in hint


def test_name_of_the_host() -> None:
    """If the settings name the VM by its host name, doctor says so, and how Azure calls the VM."""
    host_name = "vm000000"  # computerName in _INSTANCE, which names the VM vm_0
    found = findings((200, {}, _INSTANCE), (200, {}, _EVENT), **{"instance.name": host_name})
    assert found["vm-name"].mark == "wrong"
    assert "Azure calls this VM vm_0" in found["vm-name"].sentence


def test_an_event_that_cannot_be_read() -> None:
    """A document with an entry that no exporter can read is wrong, although it is JSON."""
    found = findings(
        (200, {}, _INSTANCE),
        (200, {}, b'{"DocumentIncarnation": 1, "Events": [{"EventType": "Reboot"}]}'),
    )
    assert found["scheduled-events"].mark == "wrong"
    assert "An event cannot be read" in found["scheduled-events"].sentence


@pytest.mark.parametrize("status", [200, 201, 204])
def test_a_collector_that_accepts(status: int) -> None:
    """Any 2xx of a collector is its consent."""
    with Collector(CollectorReply(status, body=b"")) as collector:
        (found,) = tracing.examine(subject(**{"otlp.endpoint": collector.url}))
    assert (found.mark, found.sentence) == (
        "ok",
        f"The collector at {collector.url} accepts an empty export.",
    )


_PAGE = CollectorReply(headers={"Content-Type": "text/html"}, body=_HTML)
_GO_WITH_TLS = CollectorReply(400, body=b"Client sent an HTTP request to an HTTPS server.\n")
"""What a collector, which is written in Go, answers at a port with TLS to a request without."""


@pytest.mark.parametrize(
    ("answer", "hint"),
    [
        (CollectorReply(401), "Set the collector's token: "),
        (CollectorReply(403), "Set the collector's token: "),
        (CollectorReply(404), "Give the base address, such as http://HOST:4318"),
        (CollectorReply(500), "The cause is unknown here. Read the log of the collector."),
        (_PAGE, "let this VM pass the proxy or sign-in page"),
        (replace(_PAGE, status=201), "let this VM pass the proxy or sign-in page"),
        (_GO_WITH_TLS, "Write https:// in the address."),
    ],
)
def test_a_collector_that_fails(answer: CollectorReply, hint: str) -> None:
    """Each answer of a collector has its own advice."""
    with Collector(answer) as collector:
        (found,) = tracing.examine(subject(**{"otlp.endpoint": collector.url}))
    assert found.mark == "wrong"
    assert hint in found.hint


def test_a_collector_that_does_not_answer() -> None:
    """A collector that is down is to be started, or let through the firewall."""
    with Collector() as collector:
        address = collector.url
    (found,) = tracing.examine(subject(**{"otlp.endpoint": address}))
    assert found.mark == "wrong"
    assert "Start the collector" in found.hint


def test_a_collector_with_tls_that_is_asked_without(authority: Authority) -> None:
    """If a server ends the connection of an address with ``http://``, it perhaps wants TLS."""
    with Collector(pair=authority.server()) as collector:
        address = collector.url.replace("https://", "http://")
        (found,) = tracing.examine(subject(**{"otlp.endpoint": address}))
    assert found.mark == "wrong"
    assert "Write https:// in the address" in found.hint


def test_temporary_disk(tmp_path: Path) -> None:
    """A journal below a folder with Azure's warning is on the temporary disk."""
    (tmp_path / "DATALOSS_WARNING_README.txt").touch()
    _, disk = journal.examine(
        subject(**{"journal.path": str(tmp_path / "state" / "journal.sqlite")})
    )
    assert (disk.check, disk.mark) == ("journal-disk", "wrong")
    assert "temporary disk" in disk.sentence


@pytest.fixture
def closed_folder(tmp_path: Path) -> Iterator[Path]:
    """A folder that this process may not look into; as root, it becomes another user."""
    folder = tmp_path / "closed"
    folder.mkdir(mode=0o000)
    tmp_path.chmod(0o755)
    is_root = os.geteuid() == 0
    nobody = 65534
    if is_root:
        os.seteuid(nobody)
    yield folder
    if is_root:
        os.seteuid(0)
    folder.chmod(0o700)


@pytest.mark.parametrize("below", ["journal.sqlite", "deeper/journal.sqlite"])
def test_folder_that_cannot_be_searched(closed_folder: Path, below: str) -> None:
    """Without the right to search the folder, doctor says to run it as root, and finds no fault."""
    first, *_ = journal.examine(subject(**{"journal.path": str(closed_folder / below)}))
    assert (first.check, first.mark) == ("journal-content", "skipped")
    assert "as root" in first.sentence
