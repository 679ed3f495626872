"""The answers of IMDS to requests; times are arguments."""

import json
from collections.abc import Mapping

import pytest

from azure_scheduled_events_exporter.simulator.document import ADVICE, VERSIONS
from azure_scheduled_events_exporter.simulator.faults import REFUSED_BY_AGENT, Fault, FaultPlan
from azure_scheduled_events_exporter.simulator.scenario import (
    PlannedEvent,
    Scenario,
    VirtualMachine,
    find,
)
from azure_scheduled_events_exporter.simulator.service import Answer, Request, Service
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
NEWEST_TWO = ["2024-07-09", "2020-07-01"]
NO_HEADER = {"error": "Bad request: . Required metadata header not specified"}


class Client:
    """Asks a service at moments one second apart, so that it is never throttled."""

    def __init__(
        self,
        *events: PlannedEvent,
        empty_body: bool = False,
        delay: float = 0,
        newest_api_version: str = "",
    ) -> None:
        stage = Stage(Playlist((Scenario("test", "", VMS, events),)), at=0, seed="seed")
        self.service = Service(
            stage,
            empty_body=empty_body,
            first_answer_delay=delay,
            newest_api_version=newest_api_version,
        )
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
        return self.service.answer(
            Request(method, f"{path}?api-version={version}", headers, body), self.now
        )

    def document(self, version: str = NEWEST) -> list[dict[str, object]]:
        """Return the events that a version shows."""
        answer = self.ask(version)
        assert answer.status == 200
        events: list[dict[str, object]] = json.loads(answer.body)["Events"]
        return events


def test_headers_that_are_refused() -> None:
    """Every version of both paths but the preview needs 'Metadata: true', and none may come through
    a proxy.
    """
    client = Client()
    forwarded = {**RIGHT, "x-forwarded-for": "10.0.0.1"}
    assert client.ask("2017-03-01", headers=NONE).status == 200
    for version in VERSIONS[1:]:
        for headers in (NONE, {"metadata": "false"}, {"metadata": ""}):
            answer = client.ask(version, headers=headers)
            assert (answer.status, json.loads(answer.body)) == (400, NO_HEADER)
        assert client.ask(version, headers=forwarded).status == 400
    assert json.loads(client.ask(method="POST", headers=NONE).body) == NO_HEADER
    assert (
        json.loads(client.ask("2017-03-01", path="/metadata/instance", headers=NONE).body)
        == NO_HEADER
    )


def test_api_versions_that_are_refused() -> None:
    """What is no date is refused with 400 and the newest versions, as are dates after the newest
    that IMDS knows.
    """
    for version in ("", "latest", "{latest}", "2016-01-01", "2020-07-01x"):
        answer = Client().ask(version)
        assert (answer.status, json.loads(answer.body)["newest-versions"]) == (
            400,
            ["2025-04-07", *NEWEST_TWO],
        )
    older = Client(newest_api_version="2020-07-01")
    for path in ("/metadata/scheduledevents", "/metadata/instance"):
        assert older.ask("2020-07-01", path=path).status == 200
        answer = older.ask("2020-07-02", path=path)
        offered = ["2020-07-01", "2019-08-01", "2019-04-01"]
        assert (answer.status, json.loads(answer.body)["newest-versions"]) == (400, offered)
    older.service.inject(FaultPlan(Fault.VERSION_404, 0))
    assert [older.ask(version).status for version in ("2020-07-01", "2024-07-09")] == [200, 404]


FIELDS = ["EventId", "EventStatus", "EventType", "ResourceType", "Resources", "NotBefore"]
NEWER = [*FIELDS, "Description", "EventSource", "DurationInSeconds"]


@pytest.mark.parametrize(
    ("version", "fields", "count"),
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
    version: str, fields: list[str], count: int
) -> None:
    """A field or event type younger than the version asked for is absent; only the preview has
    underscores.
    """
    advice = PlannedEvent(ADVICE, ("web_0", "single"), announced_at=0, cancelled_at=60)
    events = Client(*EVENTS, advice).document(version)
    assert [list(event) for event in events] == [fields] * count
    assert [event["EventType"] for event in events] == [
        *(event.event_type for event in EVENTS),
        ADVICE,
    ][:count]
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


def test_a_part_of_the_instance_data() -> None:
    """While a data provider of IMDS fails, the answer about a VM has only its name; afterwards it
    has all.
    """
    client = Client()
    client.service.inject(FaultPlan(Fault.PARTIAL_INSTANCE, 0, 1.5))
    part, whole = (
        json.loads(client.ask("2021-02-01", path="/metadata/instance").body)["compute"]
        for _ in range(2)
    )
    assert {key: value for key, value in part.items() if value} == {"name": "web_0"}
    assert (whole["name"], whole["vmScaleSetName"]) == ("web_0", "web")
    assert client.ask().status == 200


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
    client = Client(EVENTS[3], empty_body=True)
    assert client.ask("2017-08-01") == Answer(200, b"")  # it does not know Preempt
    assert json.loads(client.ask().body)["DocumentIncarnation"] == 2
    assert json.loads(Client().ask().body) == {"DocumentIncarnation": 1, "Events": []}


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


def test_throttle_admits_five_in_any_second_per_vm() -> None:
    """The sixth request in a second gets 429 in plain text; another VM and the next second are
    free.
    """
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
        "location",
    )
    assert [[found[vm][key] for key in keys] for vm in found] == [
        ["web_0", "web", "2", "3", "Standard_D4s_v5", "Spot", "westeurope"],
        ["single", "", "", "0", "Standard_B2ms", "Regular", "westeurope"],
    ]
    assert (
        found["single"]["vmId"] == "d89dcaf9-bd2e-45f9-8435-a778a750d9ba" != found["web_0"]["vmId"]
    )
    assert (
        json.loads(client.ask("2021-02-01", path="/metadata/instance").body)["compute"]
        == found["web_0"]
    )


def primitives(value: object) -> list[type]:
    """Return the types of all leaves."""
    if isinstance(value, dict | list):
        return [
            kind
            for each in (value.values() if isinstance(value, dict) else value)
            for kind in primitives(each)
        ]
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
    """An unknown path is 404, an unsupported method is 405."""
    assert Client().ask(method=method, path=path).status == status


REPLACED = {Fault.THROTTLE: 429, Fault.NOT_JSON: 200, Fault.EMPTY_BODY: 200}
REPLACED |= {fault: int(fault) for fault in Fault if fault.isdecimal()}
REPLACED |= {fault: int(fault.removeprefix("agent-")) for fault in sorted(REFUSED_BY_AGENT)}
REPLACED |= {Fault.AGENT_UNSIGNED: 401}
SENT_BADLY = (Fault.TIMEOUT, Fault.SLOW_DRIP, Fault.RESET, Fault.HALF_BODY, Fault.HUGE_BODY)


@pytest.mark.parametrize("fault", [*REPLACED, *SENT_BADLY])
def test_fault_replaces_the_answer_while_it_lasts(fault: Fault) -> None:
    """Each fault has its own answer from its beginning to its end; before and after all is well."""
    client = Client(EVENTS[0])
    healthy = client.ask()
    client.service.inject(FaultPlan(fault, 2, 2))
    sent_badly = fault if fault in SENT_BADLY else None
    for _ in range(2):
        answer = client.ask()
        assert answer.status == REPLACED.get(fault, 200)
        assert (answer.body == healthy.body) is (fault in SENT_BADLY)
        assert answer.fault is sent_badly
    assert client.ask() == healthy


def test_healing_ends_what_holds_and_keeps_what_is_to_come() -> None:
    """Healing ends every fault that holds now; a fault of later still comes."""
    client = Client()
    client.service.inject(FaultPlan(Fault.GONE, 0))
    client.service.inject(FaultPlan(Fault.SERVER_ERROR, 3, 1))
    assert client.ask().status == 410
    client.service.heal(1)
    assert [client.ask().status for _ in range(3)] == [200, 500, 200]


def test_first_answers_wait_until_the_service_is_enabled() -> None:
    """The answers wait until the service of the VMs is enabled, 100 s after the first request, and
    again after a day (86,400 s) without a request of any VM.
    """
    service = Client(delay=100).service

    def wait(at: float, path: str = "/metadata/scheduledevents") -> float:
        return service.arrived(Request("GET", path, {}), at)

    assert [wait(at) for at in (0, 40, 100, 86_400)] == [100, 60, 0, 0]
    assert wait(172_799, "/vm/single/metadata/scheduledevents") == 0
    assert [wait(at) for at in (172_800, 259_200, 259_240)] == [0, 100, 60]
    assert wait(259_250, "/metadata/instance") == 0
    seen = [(each.vm, each.at) for each in service.seen]
    assert {("web_0", 86_400), ("single", 172_799)} <= set(seen)


def test_events_begin_to_arrive_after_the_service_is_enabled() -> None:
    """The first documents of a VM have no events and another incarnation, also after a day without
    requests.
    """
    stage = Stage(
        Playlist(
            (Scenario("test", "", VMS, (PlannedEvent("Reboot", ("vmss_0",), notice=200_000.0),)),)
        ),
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

    assert {vm: resources(vm) for vm in ("vmss_0", "vmss_1")} == {
        "vmss_0": [["vmss_0"]],
        "vmss_1": [["vmss_1"]],
    }
