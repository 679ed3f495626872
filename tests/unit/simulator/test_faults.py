"""When the simulator answers badly or late: throttling, faults, and the first answers to a VM."""

import json

import pytest

from azure_scheduled_events_exporter.simulator.exchange import Answer, Request
from azure_scheduled_events_exporter.simulator.faults import REFUSED_BY_AGENT, Fault, FaultWindow
from azure_scheduled_events_exporter.simulator.scenario import (
    PlannedEvent,
    Scenario,
)
from azure_scheduled_events_exporter.simulator.service import Service
from azure_scheduled_events_exporter.simulator.stage import Playlist, Stage
from support.servers.simulated_service import EVENTS, NEWEST, RIGHT, VMS, Client


def test_a_part_of_the_instance_data() -> None:
    """While a data provider of IMDS fails, the answer about a VM has only its name; afterwards it
    has all.
    """
    client = Client()
    client.service.inject(FaultWindow(Fault.PARTIAL_INSTANCE, 0, 1.5))
    part, whole = (
        json.loads(client.ask("2021-02-01", path="/metadata/instance").body)["compute"]
        for _ in range(2)
    )
    assert {key: value for key, value in part.items() if value} == {"name": "web_0"}
    assert (whole["name"], whole["vmScaleSetName"]) == ("web_0", "web")
    assert client.ask().status == 200


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
    client.service.inject(FaultWindow(fault, 2, 4))
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
    client.service.inject(FaultWindow(Fault.GONE, 0))
    client.service.inject(FaultWindow(Fault.SERVER_ERROR, 3, 4))
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
