"""Whether the metadata service answers, or something else at its address."""

import pytest

from azure_scheduled_events_exporter.config import resolve
from azure_scheduled_events_exporter.doctor.finding import Finding
from azure_scheduled_events_exporter.doctor.local.metadata_service import examine
from azure_scheduled_events_exporter.doctor.subject import Subject
from support.doctor.doctor_chain import Canned
from support.paths import ROOT
from support.servers.imds_peer import CASES

_PAYLOADS = ROOT / "tests/data/payloads"
_HTML = b"<!DOCTYPE html><html><head><title>404 Not Found</title></head></html>"


def reached(endpoint: str) -> Finding:
    """Return what doctor says of the service at ``endpoint`` after its first request."""
    config = resolve({"imds.endpoint": endpoint}, {})
    return next(examine(Subject(config, {}, (), "")))


@pytest.mark.parametrize(
    ("status", "file"),
    [
        (200, "instance_aks_vmss_uniform_v2021-02-01.json"),
        (200, "instance_teamcity_msdocs_v2023-07-01.json"),
        (400, "error_400_missing_metadata_header.json"),
        (400, "error_400_api_version_msdocs.json"),
        (429, "error_429_body.txt"),
    ],
)
def test_answers_of_the_metadata_service(status: int, file: str) -> None:
    """Answers that were captured from the metadata service are recognized as its own."""
    with Canned({"/metadata/instance": (status, {}, (_PAYLOADS / file).read_bytes())}) as server:
        assert reached(server.url).mark == "ok"


@pytest.mark.parametrize(
    ("status", "body", "words"),
    [
        (407, b"", "A proxy answers"),
        (504, b"", "A proxy answers"),
        (502, b"", "guest proxy agent (azure-proxy-agent) or another proxy"),
        (404, _HTML, "another server answers"),
        (200, _HTML, "another server answers"),
        (200, b'{"status": "success"}', "another server answers"),
        (401, b"", "another server answers"),
    ],
)
def test_other_servers(status: int, body: bytes, words: str) -> None:
    """A proxy or a web server at the address is not taken for the metadata service."""
    with Canned({"/metadata/instance": (status, {}, body)}) as server:
        found = reached(server.url)
    assert (found.mark, words in found.sentence) == ("wrong", True), found


def test_clock_of_another_server() -> None:
    """The clock of a proxy is not taken for Azure's."""
    with Canned({"/metadata/instance": (407, {}, b"")}) as server:
        config = resolve({"imds.endpoint": server.url}, {})
        checks = [each.check for each in examine(Subject(config, {}, (), ""))]
    assert checks[0] == "imds-reachable"
    assert "clock" not in checks


@pytest.mark.parametrize("body", [b"", b"404 page not found\n"])
def test_unclear_answers(body: bytes) -> None:
    """A 404 that the metadata service gives while it moves, and others too, is no proof that it answers."""
    with Canned({"/metadata/instance": (404, {}, body)}) as server:
        assert reached(server.url).mark == "warning"


_INSTANCE = (CASES / "full.instance.json").read_bytes()
_Reply = tuple[int, dict[str, str], bytes]
_UNKNOWN = b'{"error": "Not found. Invalid version requested"}'
_EVENT = (
    b'{"DocumentIncarnation": 1, "Events": [{"EventId": "A", "EventType": "Reboot", "Resources": ["vm_0"], '
    b'"EventStatus": "Scheduled", "NotBefore": "Mon, 11 Apr 2033 22:26:58 GMT"}]}'
)


def findings(instance: _Reply, events: _Reply, **settings: str) -> dict[str, Finding]:
    """Return what doctor finds about a service with these answers, by check."""
    with Canned({"/metadata/instance": instance, "/metadata/scheduledevents": events}) as server:
        config = resolve({"imds.endpoint": server.url, **settings}, {})
        return {each.check: each for each in examine(Subject(config, {}, (), ""))}


def test_api_version_that_the_service_does_not_know() -> None:
    """The flag and what the service offers are named, and nothing says that all is shown."""
    found = findings((200, {}, _INSTANCE), (404, {}, _UNKNOWN), **{"imds.api-version": "2024-07-09"})
    assert "answered 404 to api-version 2024-07-09" in found["scheduled-events"].sentence
    assert "--imds.api-version" in found["scheduled-events"].hint
    assert "api-version" not in found
    offers = b'{"error": "Bad request. api-version is invalid", "newest-versions": ["2017-12-01", "2017-08-01"]}'
    found = findings((200, {}, _INSTANCE), (400, {}, offers))
    assert "This IMDS offers" not in found["scheduled-events"].sentence
    assert "offers 2017-12-01, 2017-08-01" in found["scheduled-events"].hint


def test_events_while_the_name_is_unknown() -> None:
    """No event is called another VM's while it is not known which VM this is."""
    found = findings((404, {}, _UNKNOWN), (200, {}, _EVENT))
    assert found["vm-name"].mark == "wrong"
    assert "/metadata/instance answered 404" in found["vm-name"].sentence
    assert "whether this VM is among them is unknown" in found["resources"].sentence


def test_no_route() -> None:
    """An empty 403 is not blamed on the guest proxy agent."""
    with Canned({"/metadata/instance": (403, {}, b"")}) as server:
        found = reached(server.url)
    assert found.mark == "wrong"
    assert "not an Azure VM, or it has no route to IMDS" in found.hint
    assert "guest proxy agent" not in found.sentence + found.hint


def test_name_of_the_host() -> None:
    """A host name that is given for the VM's name is found."""
    found = findings((200, {}, _INSTANCE), (200, {}, _EVENT), **{"instance.name": "vm000000"})
    assert found["vm-name"].mark in {"warning", "wrong"}
    assert "Azure calls it vm_0" in found["vm-name"].sentence
