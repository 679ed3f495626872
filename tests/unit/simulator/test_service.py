"""The answers of IMDS to requests; times are arguments."""

import json
from collections.abc import Mapping

import pytest

from azure_scheduled_events_exporter.simulator.document import VERSIONS
from azure_scheduled_events_exporter.simulator.faults import Fault, Window
from azure_scheduled_events_exporter.simulator.scenario import PlannedEvent, Scenario, VirtualMachine, find
from azure_scheduled_events_exporter.simulator.service import Answer, Manner, Request, Service
from azure_scheduled_events_exporter.simulator.stage import Playlist, Stage

NEWEST = VERSIONS[-1]
VMS = (
    VirtualMachine("web_0", scale_set="web", zone="2", fault_domain="3", priority="Spot"),
    VirtualMachine("single", size="Standard_B2ms", vm_id="d89dcaf9-bd2e-45f9-8435-a778a750d9ba"),
)
EVENTS = tuple(
    PlannedEvent(kind, ("web_0", "single"), duration=5, description="why", announced_at=0)
    for kind in ("Freeze", "Reboot", "Redeploy", "Preempt", "Terminate")
)
RIGHT: Mapping[str, str] = {"metadata": "true"}
NONE: Mapping[str, str] = {"accept": "*/*"}
NO_HEADER = {"error": "Bad request: . Required metadata header not specified"}
NO_VERSION = {
    "error": (
        "Bad request. api-version is invalid or was not specified in the request. "
        "For more information refer to aka.ms/azureimds"
    ),
    "newest-versions": ["2025-04-07", "2024-07-17", "2024-03-15"],
}


class Client:
    """Asks a service at moments one second apart, so that it is never throttled."""

    def __init__(self, *events: PlannedEvent, empty_body: bool = False, delay: float = 0) -> None:
        stage = Stage(Playlist((Scenario("test", "", VMS, events),)), at=0, seed="seed")
        self.service = Service(stage, empty_body=empty_body, first_answer_delay=delay)
        self.now = 0.0

    def ask(
        self,
        version: str = NEWEST,
        *,
        path: str = "/metadata/scheduledevents",
        method: str = "GET",
        body: bytes = b"",
        headers: Mapping[str, str] = RIGHT,
    ) -> Answer:
        """Send one request, with the header that IMDS wants unless others are given."""
        self.now += 1
        return self.service.answer(Request(method, f"{path}?api-version={version}", headers, body), self.now)

    def document(self, version: str = NEWEST) -> list[dict[str, object]]:
        """Return the events that a version shows."""
        answer = self.ask(version)
        assert answer.status == 200
        events: list[dict[str, object]] = json.loads(answer.body)["Events"]
        return events


@pytest.mark.parametrize("version", VERSIONS[1:])
@pytest.mark.parametrize("headers", [{"accept": "*/*"}, {"metadata": "false"}, {"metadata": ""}])
def test_metadata_header_is_required(version: str, headers: dict[str, str]) -> None:
    """Without 'Metadata: true' the answer is 400 with IMDS's own words."""
    answer = Client().ask(version, headers=headers)
    assert (answer.status, json.loads(answer.body)) == (400, NO_HEADER)


def test_preview_needs_no_header() -> None:
    """The version 2017-03-01 answers without the header."""
    assert Client().ask("2017-03-01", headers=NONE).status == 200


@pytest.mark.parametrize("version", ["", "latest", "{latest}", "2020-07-02", "2021-02-01", "2020-07-01x"])
def test_other_api_versions_are_refused(version: str) -> None:
    """A missing or unknown api-version is answered with 400 and the newest versions."""
    answer = Client().ask(version)
    assert (answer.status, json.loads(answer.body)) == (400, NO_VERSION)


@pytest.mark.parametrize("version", VERSIONS)
def test_forwarded_requests_are_refused(version: str) -> None:
    """A request that came through a proxy is refused with 400."""
    assert Client().ask(version, headers={**RIGHT, "x-forwarded-for": "10.0.0.1"}).status == 400


FIELDS = ["EventId", "EventStatus", "EventType", "ResourceType", "Resources", "NotBefore"]
BY_VERSION = {
    "2017-03-01": (FIELDS, 3),
    "2017-08-01": (FIELDS, 3),
    "2017-11-01": (FIELDS, 4),
    "2019-01-01": (FIELDS, 5),
    "2019-04-01": ([*FIELDS, "Description"], 5),
    "2019-08-01": ([*FIELDS, "Description", "EventSource"], 5),
    "2020-07-01": ([*FIELDS, "Description", "EventSource", "DurationInSeconds"], 5),
}


@pytest.mark.parametrize("version", VERSIONS)
def test_each_version_has_its_fields_and_event_types(version: str) -> None:
    """A field or event type younger than the version asked for is absent."""
    events = Client(*EVENTS).document(version)
    fields, count = BY_VERSION[version]
    assert [list(event) for event in events] == [fields] * count
    assert [event["EventType"] for event in events] == [event.event_type for event in EVENTS[:count]]


@pytest.mark.parametrize("version", VERSIONS)
def test_only_the_preview_puts_underscores_before_names(version: str) -> None:
    """2017-03-01 writes '_web_0' where all others write 'web_0'."""
    names = ["_web_0", "_single"] if version == "2017-03-01" else ["web_0", "single"]
    assert Client(*EVENTS).document(version)[0]["Resources"] == names


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
    """In empty-body mode a 200 carries no byte while there are no events, and the document when there are."""
    client = Client(EVENTS[3], empty_body=True)
    assert client.ask("2017-08-01") == Answer(200, b"")  # it does not know Preempt
    assert json.loads(client.ask().body)["DocumentIncarnation"] == 2
    assert json.loads(Client().ask().body) == {"DocumentIncarnation": 1, "Events": []}


def test_approval_takes_several_ids_in_any_case() -> None:
    """One POST approves several events; the answer is an empty 200, again when they have started."""
    client = Client(*EVENTS)
    ids = [str(event["EventId"]) for event in client.document()]
    body = json.dumps({"StartRequests": [{"EventId": ids[0].lower()}, {"EventId": ids[1]}]}).encode()
    for _ in range(2):
        assert client.ask(method="POST", body=body) == Answer(200, b"")
    started = [event["EventType"] for event in client.document() if event["EventStatus"] == "Started"]
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
        b"{",
        b"[]",
        b"null",
        b"{}",
        b'{"StartRequests": []}',
        b'{"StartRequests": {"EventId": "A"}}',
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


def test_approval_needs_the_header_too() -> None:
    """A POST without 'Metadata: true' is refused as a GET is."""
    assert json.loads(Client().ask(method="POST", headers=NONE).body) == NO_HEADER


def test_throttle_admits_five_in_any_second_per_vm() -> None:
    """The sixth request in a second gets 429 in plain text; another VM and the next second are free."""
    client = Client()

    def status(at: float, vm: str = "") -> int:
        target = f"{vm}/metadata/scheduledevents?api-version={NEWEST}"
        return client.service.answer(Request("GET", target, {"metadata": "true"}), at).status

    assert [status(10 + tenth / 10) for tenth in range(7)] == [200] * 5 + [429] * 2
    assert status(10.6, "/vm/single") == 200
    assert status(10.99) == 429
    assert [status(at) for at in (11, 11.05, 11.1)] == [200, 429, 200]
    client.service.answer(Request("GET", "/metadata/instance", {}), 11.2)
    assert client.service.answer(Request("GET", "/metadata/instance", {}), 11.2) == Answer(
        429, b"Throttle Result: Too Many Requests", "text/plain; charset=utf-8"
    )


def test_first_answers_wait_until_the_service_is_enabled() -> None:
    """Until the delay after a VM's first question is over, its questions wait; other VMs wait on their own."""
    service = Client(delay=120).service

    def wait(at: float, path: str) -> float:
        return service.arrived(Request("GET", path, {}), at)

    assert wait(100, "/metadata/scheduledevents") == 120
    assert wait(110, "/metadata/scheduledevents") == 110
    assert wait(110, "/vm/single/metadata/scheduledevents") == 120
    assert wait(110, "/metadata/instance") == 0
    assert wait(221, "/metadata/scheduledevents") == 0
    assert [(seen.vm, seen.at) for seen in service.seen][:3] == [("web_0", 100), ("web_0", 110), ("single", 110)]


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
    keys = ("name", "vmScaleSetName", "zone", "platformFaultDomain", "vmSize", "priority", "location")
    assert [[found[vm][key] for key in keys] for vm in found] == [
        ["web_0", "web", "2", "3", "Standard_D4s_v5", "Spot", "westeurope"],
        ["single", "", "", "0", "Standard_B2ms", "Regular", "westeurope"],
    ]
    assert found["single"]["vmId"] == "d89dcaf9-bd2e-45f9-8435-a778a750d9ba" != found["web_0"]["vmId"]
    assert json.loads(client.ask("2021-02-01", path="/metadata/instance").body)["compute"] == found["web_0"]


def primitives(value: object) -> list[type]:
    """Return the types of all leaves."""
    if isinstance(value, dict | list):
        return [kind for each in (value.values() if isinstance(value, dict) else value) for kind in primitives(each)]
    return [type(value)]


def test_instance_checks_header_and_version() -> None:
    """The instance endpoint wants the header in every version, and a version it knows."""
    client = Client()
    assert json.loads(client.ask("2017-04-02", path="/metadata/instance", headers=NONE).body) == NO_HEADER
    assert json.loads(client.ask("2017-03-01", path="/metadata/instance").body) == NO_VERSION
    assert client.ask("2025-04-07", path="/metadata/instance").status == 200
    assert client.ask("2025-04-07", path="/metadata/instance", method="POST").status == 405


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
    """An unknown path is 404, an unsupported method is 405."""
    assert Client().ask(method=method, path=path).status == status


FAULTY = {
    Fault.THROTTLE: (429, b"Throttle Result: Too Many Requests", Manner.WHOLE),
    Fault.TIMEOUT: (200, None, Manner.NEVER),
    Fault.SLOW_DRIP: (200, None, Manner.DRIP),
    Fault.BAD_REQUEST: (400, b'{"error":"Bad request"}', Manner.WHOLE),
    Fault.NOT_FOUND: (
        404,
        b'<?xml version="1.0" encoding="utf-8"?><Error><Code>ResourceNotFound</Code></Error>',
        Manner.WHOLE,
    ),
    Fault.METHOD_NOT_ALLOWED: (405, b'{"error":"Method not allowed"}', Manner.WHOLE),
    Fault.GONE: (410, b"", Manner.WHOLE),
    Fault.SERVER_ERROR: (500, b'{"error":"Internal server error"}', Manner.WHOLE),
    Fault.UNAVAILABLE: (503, b"The service is unavailable.", Manner.WHOLE),
    Fault.RESET: (200, None, Manner.RESET),
    Fault.HALF_BODY: (200, None, Manner.HALF),
    Fault.NOT_JSON: (
        200,
        b"<!DOCTYPE html><html><body><h1>Sign in to continue</h1></body></html>",
        Manner.WHOLE,
    ),
    Fault.HUGE_BODY: (200, None, Manner.HUGE),
    Fault.EMPTY_BODY: (200, b"", Manner.WHOLE),
}


@pytest.mark.parametrize("fault", Fault)
def test_fault_replaces_the_answer_while_it_lasts(fault: Fault) -> None:
    """Each fault has its own answer from its beginning to its end; before and after all is well."""
    client = Client(EVENTS[0])
    healthy = client.ask()
    client.service.inject(Window(fault, 2, 4))
    status, body, manner = FAULTY[fault]
    for _ in range(2):
        answer = client.ask()
        assert (answer.status, answer.body, answer.manner) == (
            status,
            body or (body, healthy.body)[body is None],
            manner,
        )
    assert client.ask() == healthy


def test_healing_ends_what_holds_and_keeps_what_is_to_come() -> None:
    """Healing ends every fault that holds now; a fault of later still comes."""
    client = Client()
    client.service.inject(Window(Fault.GONE, 0))
    client.service.inject(Window(Fault.SERVER_ERROR, 3, 4))
    assert client.ask().status == 410
    client.service.heal(1)
    assert [client.ask().status for _ in range(3)] == [200, 500, 200]


def test_disabled_after_a_day_without_requests() -> None:
    """The first answer of a VM is late, and so is the first one after a day without requests."""
    service = Client(delay=100).service
    request = Request("GET", f"/metadata/scheduledevents?api-version={NEWEST}", RIGHT)
    held = [service.arrived(request, at) for at in (0, 40, 100, 86_400, 172_799, 259_199, 259_239)]
    assert held == [100, 60, 0, 0, 0, 100, 60]


def test_events_begin_to_arrive_after_the_service_is_enabled() -> None:
    """The first documents of a VM have no events and another incarnation, also after a day without requests."""
    stage = Stage(
        Playlist((Scenario("test", "", VMS, (PlannedEvent("Reboot", ("vmss_0",), notice=200_000.0),)),)),
        at=0,
        seed="seed",
    )
    service = Service(stage, first_answer_delay=60, first_event_delay=240)
    request = Request("GET", f"/metadata/scheduledevents?api-version={NEWEST}", RIGHT)

    def shown(at: float) -> tuple[int, int]:
        service.arrived(request, at)
        document = json.loads(service.answer(request, at).body)
        return document["DocumentIncarnation"], len(document["Events"])

    seen = [shown(at) for at in (1, 61, 300, 301, 400, 90_000, 90_299, 90_300)]
    assert [events for _, events in seen] == [0, 0, 0, 1, 1, 0, 0, 1]
    assert {incarnation for incarnation, events in seen if events}.isdisjoint(
        {one for one, events in seen if not events}
    )


def test_a_scale_set_with_one_fault_domain() -> None:
    """Each VM of it sees the events of its own only, and none of another's."""
    (scenario,) = find("single-fault-domain")
    service = Service(Stage(Playlist((scenario,)), at=0, seed="seed"))

    def resources(vm: str) -> list[list[str]]:
        target = f"/vm/{vm}/metadata/scheduledevents?api-version={NEWEST}"
        answer = service.answer(Request("GET", target, RIGHT), 200.0)
        return [event["Resources"] for event in json.loads(answer.body)["Events"]]

    assert {vm: resources(vm) for vm in ("vmss_0", "vmss_1")} == {"vmss_0": [["vmss_0"]], "vmss_1": [["vmss_1"]]}
