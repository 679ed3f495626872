"""The answers of the simulator to sound and to malformed requests; times are arguments."""

import json
from collections.abc import Mapping

import pytest

from azure_scheduled_events_exporter.simulator.catalog import find
from azure_scheduled_events_exporter.simulator.document import ADVICE, PREVIEW, VERSIONS
from azure_scheduled_events_exporter.simulator.exchange import Answer, Request
from azure_scheduled_events_exporter.simulator.faults import Fault, FaultWindow
from azure_scheduled_events_exporter.simulator.scenario import PlannedEvent
from azure_scheduled_events_exporter.simulator.service import Service
from azure_scheduled_events_exporter.simulator.stage import Playlist, Stage
from support.servers.simulated_service import EVENTS, NEWEST, WITH_METADATA, Client

WITHOUT_METADATA: Mapping[str, str] = {"accept": "*/*"}
"""The headers of a request that lacks ``Metadata: true``."""

NEWEST_THREE = ["2025-04-07", "2024-07-09", "2020-07-01"]
NO_HEADER = {"error": "Bad request: . Required metadata header not specified"}


def test_headers_that_are_refused() -> None:
    """Requests for events need 'Metadata: true' in every version but the preview, and those for
    instance data in every version. None may come through a proxy.
    """
    client = Client()
    forwarded = {**WITH_METADATA, "x-forwarded-for": "10.0.0.1"}
    assert client.ask(PREVIEW, headers=WITHOUT_METADATA).status == 200
    for version in set(VERSIONS) - {PREVIEW}:
        for headers in (WITHOUT_METADATA, {"metadata": "false"}, {"metadata": ""}):
            answer = client.ask(version, headers=headers)
            assert (answer.status, json.loads(answer.body)) == (400, NO_HEADER)
        assert client.ask(version, headers=forwarded).status == 400
    assert json.loads(client.ask(method="POST", headers=WITHOUT_METADATA).body) == NO_HEADER
    of_instance = client.ask(PREVIEW, path="/metadata/instance", headers=WITHOUT_METADATA)
    assert json.loads(of_instance.body) == NO_HEADER


def test_api_versions_that_are_refused() -> None:
    """What is no date, and a date before the first version or after the newest one that IMDS knows,
    is refused with 400 and the newest versions. While the fault VERSION_404 lasts, it is refused
    with 404.
    """
    for version in ("", "latest", "{latest}", "2016-01-01", "2020-07-01x"):
        answer = Client().ask(version)
        assert (answer.status, json.loads(answer.body)["newest-versions"]) == (400, NEWEST_THREE)
    older = Client(newest_api_version="2020-07-01")
    for path in ("/metadata/scheduledevents", "/metadata/instance"):
        assert older.ask("2020-07-01", path=path).status == 200
        answer = older.ask("2020-07-02", path=path)
        offered = ["2020-07-01", "2019-08-01", "2019-04-01"]
        assert (answer.status, json.loads(answer.body)["newest-versions"]) == (400, offered)
    older.service.inject(FaultWindow(Fault.VERSION_404, 0), now=0)
    assert [older.ask(version).status for version in ("2020-07-01", "2024-07-09")] == [200, 404]


FIELDS = ["EventId", "EventStatus", "EventType", "ResourceType", "Resources", "NotBefore"]
NEWER = [*FIELDS, "Description", "EventSource", "DurationInSeconds"]


@pytest.mark.parametrize(
    ("version", "fields", "types"),
    [
        ("2017-03-01", FIELDS, 3),
        ("2017-08-01", FIELDS, 3),
        ("2017-11-01", FIELDS, 4),
        ("2019-01-01", FIELDS, 5),
        ("2019-04-01", NEWER[:-2], 5),
        ("2019-08-01", NEWER[:-1], 5),
        ("2020-07-01", NEWER, 5),
        ("2022-02-02", NEWER, 5),
        ("2024-07-09", NEWER, 6),
        ("2031-01-01", NEWER, 6),
    ],
)
def test_each_version_has_its_fields_and_event_types(
    version: str, fields: list[str], types: int
) -> None:
    """A field or event type younger than the version asked for is absent; only the preview has
    underscores.

    ``types`` is how many event types the version has, in the order in which Azure added them.
    """
    advice = PlannedEvent(ADVICE, ("web_0", "single"), announced_at=0, cancelled_at=60)
    events = Client(*EVENTS, advice).document(version)
    assert [list(event) for event in events] == [fields] * types
    in_order = [*(event.event_type for event in EVENTS), ADVICE]
    assert [event["EventType"] for event in events] == in_order[:types]
    names = ["_web_0", "_single"] if version == "2017-03-01" else ["web_0", "single"]
    assert events[0]["Resources"] == names


def test_advice_takes_no_approval() -> None:
    """Approving advice is accepted and has no effect: nothing is scheduled."""
    client = Client(PlannedEvent(ADVICE, ("web_0",), announced_at=0, cancelled_at=60))
    (event,) = client.document()
    assert (event["EventStatus"], event["NotBefore"]) == ("Advisory", "")
    body = json.dumps({"StartRequests": [{"EventId": event["EventId"]}]}).encode()
    assert client.ask(method="POST", body=body) == Answer(200, b"")
    assert client.document() == [event]
    assert "approved" not in {happening.what for happening in client.service.stage.record}


def test_document_looks_as_captured() -> None:
    """Ids are upper-case GUIDs, NotBefore is RFC 1123 in GMT, and nothing is missing."""
    (event,) = Client(EVENTS[0]).document()
    event_id = str(event.pop("EventId"))
    assert event_id == event_id.upper()
    assert [len(part) for part in event_id.split("-")] == [8, 4, 4, 4, 12]
    assert event == {
        "EventStatus": "Scheduled",
        "EventType": "Freeze",
        "ResourceType": "VirtualMachine",
        "Resources": ["web_0", "single"],
        "NotBefore": "Thu, 01 Jan 1970 00:15:00 GMT",
        "Description": "why",
        "EventSource": "Platform",
        "DurationInSeconds": 5,
    }


def test_empty_body_mode_says_nothing_when_there_is_nothing() -> None:
    """In empty-body mode a 200 carries no byte while there are no events, and the document when
    there are.
    """
    preempt = EVENTS[3]
    client = Client(preempt, empty_body=True)
    version_without_preempt = "2017-08-01"
    assert client.ask(version_without_preempt) == Answer(200, b"")
    (event,) = client.document()  # of the newest version
    assert event["EventType"] == "Preempt"
    without_the_mode = Client()
    assert json.loads(without_the_mode.ask().body) == {"DocumentIncarnation": 1, "Events": []}


def test_approval_takes_several_ids_in_any_case() -> None:
    """One POST approves several events; the answer is an empty 200, also when they have started."""
    client = Client(*EVENTS)
    ids = [str(event["EventId"]) for event in client.document()]
    body = json.dumps(
        {"StartRequests": [{"EventId": ids[0].lower()}, {"EventId": ids[1]}]}
    ).encode()
    for _ in range(2):
        assert client.ask(method="POST", body=body) == Answer(200, b"")
    started = [
        event["EventType"] for event in client.document() if event["EventStatus"] == "Started"
    ]
    assert started == ["Freeze", "Reboot"]


def test_approval_with_one_unknown_id_approves_nothing() -> None:
    """A POST that names an unknown event is refused as a whole."""
    client = Client(*EVENTS)
    known = str(client.document()[0]["EventId"])
    body = json.dumps({"StartRequests": [{"EventId": known}, {"EventId": "A" * 36}]}).encode()
    assert client.ask(method="POST", body=body).status == 400
    assert {event["EventStatus"] for event in client.document()} == {"Scheduled"}


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b'{"StartRequests": []}',
        b'{"StartRequests": ["A"]}',
        b'{"StartRequests": [{"EventId": 1}]}',
        b'{"StartRequests": [{"EventID": "A"}]}',
        b'{"StartRequests": [{"EventId": "\\ud800"}]}',
        b"\xff\xfe",
        b"[" * 60_000,
    ],
)
def test_malformed_approval_is_refused(body: bytes) -> None:
    """A POST whose body is not as documented is answered with 400."""
    assert Client(*EVENTS).ask(method="POST", body=body).status == 400


def test_instance_tells_who_the_vm_is() -> None:
    """Each VM finds its own name and place under /metadata/instance, every primitive a string."""
    client = Client()
    found = {}
    for vm in ("web_0", "single"):
        body = json.loads(client.ask("2021-02-01", path=f"/vm/{vm}/metadata/instance").body)
        found[vm] = body["compute"]
        assert set(primitives(body)) == {str}
    assert found["web_0"]["osProfile"]["computerName"] == "web000000"
    assert found["web_0"]["resourceId"].endswith("/virtualMachineScaleSets/web/virtualMachines/0")
    keys = (
        "name",
        "vmScaleSetName",
        "zone",
        "platformFaultDomain",
        "vmSize",
        "priority",
        "evictionPolicy",
        "location",
    )
    assert [[found[vm][key] for key in keys] for vm in found] == [
        ["web_0", "web", "2", "3", "Standard_D4s_v5", "Spot", "Delete", "westeurope"],
        ["single", "", "", "0", "Standard_B2ms", "Regular", "", "westeurope"],
    ]
    assert found["single"]["vmId"] == "d89dcaf9-bd2e-45f9-8435-a778a750d9ba"
    assert found["web_0"]["vmId"] != found["single"]["vmId"]
    without_a_name = client.ask("2021-02-01", path="/metadata/instance")
    assert json.loads(without_a_name.body)["compute"] == found["web_0"], "that of the first VM"


def primitives(value: object) -> list[type]:
    """Return the types of all leaves."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        return [kind for each in value for kind in primitives(each)]
    return [type(value)]


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/", 404),
        ("GET", "/metadata/", 404),
        ("GET", "/metadata/identity", 404),
        ("GET", "/vm/nobody/metadata/scheduledevents", 404),
        ("GET", "/vm/web_0", 404),
        ("GET", "http://[bad/metadata/instance", 404),
        ("PUT", "/metadata/scheduledevents", 405),
        ("HEAD", "/metadata/scheduledevents", 405),
        ("GET", "/vm/we%62_0/metadata/scheduledevents", 200),
    ],
)
def test_other_paths_and_methods(method: str, path: str, status: int) -> None:
    """An unknown path is 404, and an unsupported method is 405. A name of a VM with percent-encoded
    characters is known, too.
    """
    assert Client().ask(method=method, path=path).status == status


def test_a_scale_set_with_one_fault_domain() -> None:
    """Each VM of it sees the events of its own only, and none of another's."""
    (scenario,) = find("single-fault-domain")
    service = Service(Stage(Playlist((scenario,)), at=0, seed="seed"))

    def resources(vm: str) -> list[list[str]]:
        target = f"/vm/{vm}/metadata/scheduledevents?api-version={NEWEST}"
        answer = service.answer(Request("GET", target, WITH_METADATA), 200.0)
        return [event["Resources"] for event in json.loads(answer.body)["Events"]]

    assert {vm: resources(vm) for vm in ("vmss_0", "vmss_1")} == {
        "vmss_0": [["vmss_0"]],
        "vmss_1": [["vmss_1"]],
    }
