"""When the simulator answers badly or late: throttling, faults, and the first answers to a VM."""

import json
from dataclasses import replace

import pytest

from azure_scheduled_events_exporter.simulator.exchange import Answer, Request
from azure_scheduled_events_exporter.simulator.faults import REFUSED_BY_AGENT, Fault, FaultWindow
from azure_scheduled_events_exporter.simulator.scenario import (
    PlannedEvent,
    Scenario,
)
from azure_scheduled_events_exporter.simulator.service import Service
from azure_scheduled_events_exporter.simulator.stage import Playlist, Stage
from support.servers.simulated_service import EVENTS, NEWEST, VMS, WITH_METADATA, Client


def test_a_part_of_the_instance_data() -> None:
    """While a data provider of IMDS fails, the answer about a VM has only its name; afterwards it
    has all. Scheduled Events are answered meanwhile.
    """
    client = Client()
    # The client asks once a second, first at 1 s.
    client.service.inject(FaultWindow(Fault.PARTIAL_INSTANCE, 0, 2.5), now=0)
    during = client.ask("2021-02-01", path="/metadata/instance")
    events_during = client.ask()
    afterwards = client.ask("2021-02-01", path="/metadata/instance")
    part = json.loads(during.body)["compute"]
    whole = json.loads(afterwards.body)["compute"]
    assert {key: value for key, value in part.items() if value} == {"name": "web_0"}
    assert (whole["name"], whole["vmScaleSetName"]) == ("web_0", "web")
    assert events_during.status == 200


def test_throttle_admits_five_in_any_second_per_vm() -> None:
    """A request gets 429, in plain text, if the VM has had five answers in the second before it.
    Refused requests do not count, and each VM has five of its own.
    """
    client = Client()

    def status(at: float, vm: str = "") -> int:
        target = f"{vm}/metadata/scheduledevents?api-version={NEWEST}"
        return client.service.answer(Request("GET", target, {"metadata": "true"}), at).status

    assert [status(10 + tenth / 10) for tenth in range(7)] == [200] * 5 + [429] * 2
    assert status(10.6, "/vm/single") == 200
    assert status(10.99) == 429
    assert status(11.0) == 200, "the answer of 10.0 is a second old"
    assert status(11.05) == 429, "since 10.05 there were those of 10.1 to 10.4, and of 11.0"
    assert status(11.1) == 200, "the answer of 10.1 is a second old"
    about_the_vm = Request("GET", "/metadata/instance", {})
    client.service.answer(about_the_vm, 11.2)  # the fifth in a second
    assert client.service.answer(about_the_vm, 11.2) == Answer(
        429, b"Throttle Result: Too Many Requests", "text/plain; charset=utf-8"
    )


# The status of the answer that stands in place of the right one, by fault.
REPLACED = {Fault.THROTTLE: 429, Fault.NOT_JSON: 200, Fault.EMPTY_BODY: 200}
REPLACED |= {fault: int(fault) for fault in Fault if fault.isdecimal()}
REPLACED |= {fault: int(fault.removeprefix("agent-")) for fault in sorted(REFUSED_BY_AGENT)}
REPLACED |= {Fault.AGENT_UNSIGNED: 401}
# In these, the answer is the right one, and only its way to the client is not.
SENT_BADLY = (Fault.TIMEOUT, Fault.SLOW_DRIP, Fault.RESET, Fault.HALF_BODY, Fault.HUGE_BODY)


@pytest.mark.parametrize("fault", REPLACED)
def test_fault_replaces_the_answer_while_it_lasts(fault: Fault) -> None:
    """Each fault of the service has its own answer from its beginning to its end; before and after
    all is well.
    """
    client = Client(EVENTS[0])
    healthy = client.ask()
    # The client asks once a second: at 1 s before this, and at 2 s, 3 s and 4 s below.
    client.service.inject(FaultWindow(fault, 2, 4), now=0)
    for _ in range(2):
        answer = client.ask()
        assert answer.status == REPLACED[fault]
        assert answer.body != healthy.body
        assert answer.fault is None, "this answer is sent well"
    assert client.ask() == healthy


@pytest.mark.parametrize("fault", SENT_BADLY)
def test_fault_of_the_connection_while_it_lasts(fault: Fault) -> None:
    """An answer that is to be sent late, or in part, is the right one with the name of its fault;
    before and after all is well.
    """
    client = Client(EVENTS[0])
    healthy = client.ask()
    # The client asks once a second: at 1 s before this, and at 2 s, 3 s and 4 s below.
    client.service.inject(FaultWindow(fault, 2, 4), now=0)
    for _ in range(2):
        assert client.ask() == replace(healthy, fault=fault)
    assert client.ask() == healthy


def test_healing_ends_what_holds_and_keeps_what_is_to_come() -> None:
    """Healing ends every fault that holds now; a fault of later still comes."""
    client = Client()  # asks once a second, first at 1 s
    client.service.inject(FaultWindow(Fault.GONE, 0), now=0)
    client.service.inject(FaultWindow(Fault.SERVER_ERROR, 3, 4), now=0)
    assert client.ask().status == 410
    client.service.heal(1)
    assert [client.ask().status for _ in range(3)] == [200, 500, 200]


def test_a_fault_of_later_leaves_an_earlier_one() -> None:
    """Of two faults that are added before either begins, each holds in its own time."""
    client = Client()  # asks once a second, first at 1 s
    client.service.inject(FaultWindow(Fault.GONE, 1, 2), now=0)
    client.service.inject(FaultWindow(Fault.SERVER_ERROR, 3, 4), now=0)
    assert [client.ask().status for _ in range(4)] == [410, 200, 500, 200]


DAY = 86_400.0
DOCUMENT = "/metadata/scheduledevents"


def test_first_answers_wait_until_the_service_is_enabled() -> None:
    """The answers wait until the service of the VMs is enabled, 100 s after the first request, and
    again after a day without a request of any VM. The simulator keeps which VM asked when.
    """
    simulator = Client(delay=100).service

    def wait(at: float, path: str = DOCUMENT) -> float:
        """Send a request; return for how many seconds its answer waits."""
        return simulator.arrived(Request("GET", path, {}), at)

    assert wait(0) == 100
    assert wait(40) == 60
    assert wait(100) == 0
    assert wait(DAY) == 0
    assert wait(2 * DAY - 1, f"/vm/single{DOCUMENT}") == 0
    assert wait(2 * DAY) == 0, "the other VM has asked a second ago"
    assert wait(3 * DAY) == 100, "nobody has asked for a day"
    assert wait(3 * DAY + 40) == 60
    assert wait(3 * DAY + 50, "/metadata/instance") == 0, "only Scheduled Events are enabled late"
    seen = [(each.vm, each.at) for each in simulator.seen]
    assert {("web_0", DAY), ("single", 2 * DAY - 1)} <= set(seen)


def test_events_begin_to_arrive_after_the_service_is_enabled() -> None:
    """The first documents of a VM have no events, also after a day without requests. No document
    with events has their incarnation.
    """
    reboot = PlannedEvent("Reboot", ("vmss_0",), notice=200_000.0)
    stage = Stage(Playlist((Scenario("test", "", VMS, (reboot,)),)), at=0, seed="seed")
    enabled_after = 60.0
    shown_after = enabled_after + 240.0
    service = Service(stage, first_answer_delay=enabled_after, first_event_delay=240.0)
    request = Request("GET", f"{DOCUMENT}?api-version={NEWEST}", WITH_METADATA)
    without_events: set[int] = set()
    with_events: set[int] = set()
    first = 1.0
    asked_again = 400.0 + DAY
    for at, events in (
        (first, 0),
        (first + enabled_after, 0),
        (first + shown_after - 1, 0),
        (first + shown_after, 1),
        (400.0, 1),
        (asked_again, 0),
        (asked_again + shown_after - 1, 0),
        (asked_again + shown_after, 1),
    ):
        service.arrived(request, at)
        document = json.loads(service.answer(request, at).body)
        assert len(document["Events"]) == events, at
        incarnations = with_events if events else without_events
        incarnations.add(document["DocumentIncarnation"])
    assert with_events.isdisjoint(without_events)
