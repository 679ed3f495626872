"""The reported transitions agree with what happened: boots, empty bodies, gaps between polls,
returns.
"""

import json
from contextlib import ExitStack
from pathlib import Path

import pytest

from azure_scheduled_events_exporter.errors import Outcome
from azure_scheduled_events_exporter.simulator import Simulator
from support.events.machine import ID, Machine, MachineClock, event


@pytest.mark.parametrize(
    ("interval", "believed", "end"),
    [(1, 6, "cancelled"), (2, 4, "cancelled"), (10, 3, "cancelled"), (120, 3, "lost")],
)
def test_empty_bodies_that_are_believed(
    machine: Machine, interval: int, believed: int, end: str
) -> None:
    """Empty bodies end an event when there have been three of them, and the first was at least 5 s
    ago. If the polls are far apart, the event ends as lost, as nobody knows how.

    There are ``interval`` seconds between polls, also between the one that showed the event and the
    first empty body. ``believed`` is the number of the empty body that ends the event.
    """
    machine.polls(0, event())
    for number in range(1, believed):
        machine.polls(number * interval, body=b"")
        assert machine.transitions == {"detected": 1}
    machine.polls(believed * interval, body=b"")
    assert machine.transitions == {"detected": 1, end: 1}


def test_what_was_known_is_shown_before_the_first_answer(machine: Machine) -> None:
    """While IMDS does not answer after a restart, the earlier events stay current."""
    machine.polls(0, event())
    machine.ends()
    machine.begins()
    assert machine.exporter
    assert list(machine.exporter.poller.snapshot.current) == [ID]
    machine.imds.inject("503")
    assert machine.poll_outcome() is not Outcome.OK
    assert list(machine.exporter.poller.snapshot.current) == [ID]
    assert machine.transitions == {"detected": 1}


UNREADABLE = b'{"DocumentIncarnation": 2, "Events": [null]}'


def test_a_boot_is_not_forgotten_over_what_is_unreadable(machine: Machine) -> None:
    """An approved reboot is completed by the boot, although the first document after it could not
    be read whole.
    """
    machine.policy = "documented"
    machine.polls(0, event(EventSource="User"))
    machine.ends(boots_at=30)
    machine.polls(60, body=UNREADABLE)
    machine.polls(61)
    assert machine.transitions == {"detected": 1, "approved": 1, "completed": 1}


def test_an_unreadable_entry_blocks_no_approval(machine: Machine) -> None:
    """What is readable of a document is approved, whatever else is in it, such as an entry without
    EventId.
    """
    machine.policy = "documented"
    good = event(EventSource="User")
    entries = [good, {**good, "EventId": ""}, None]
    body = json.dumps({"DocumentIncarnation": 1, "Events": entries}).encode()
    machine.polls(0, good, body=body)  # IMDS sends the body, and accepts an approval of ``good``
    assert machine.transitions == {"detected": 1, "approved": 1}
    assert [each.event_id for each in machine.imds.record] == [ID]


REQUESTED = event(EventSource="User", Resources=["vmss_0", "vmss_1"])
BEGUN = {**REQUESTED, "EventStatus": "Started", "NotBefore": ""}


@pytest.fixture
def secondary(machine: Machine, tmp_path: Path) -> Machine:
    """The second VM of Resources; ``machine`` is the first one."""
    return Machine(machine.imds, tmp_path / "second", machine.stack, "documented-all", "vmss_1")


@pytest.fixture
def outsider(machine: Machine, tmp_path: Path) -> Machine:
    """A VM that is not in Resources."""
    return Machine(machine.imds, tmp_path / "outside", machine.stack, "documented-all", "vmss_4")


def approvals_sent_to(imds: Simulator) -> int:
    """Return how many requests for an approval IMDS has got, from all VMs together."""
    return len([each for each in imds.requests if each.method == "POST"])


def approvers(machine: Machine) -> list[str]:
    """Return who approved the events of this VM whose start it has seen."""
    assert machine.exporter
    latencies = machine.exporter.poller.snapshot.statistics.approval_latency
    return [approver for _, approver in latencies]


def test_the_primary_approves(machine: Machine, secondary: Machine, outsider: Machine) -> None:
    """With ``documented-all``, the first VM of Resources approves at once, and no other VM does."""
    machine.policy = "documented-all"
    for vm in (machine, secondary, outsider):
        vm.polls(0, REQUESTED)
    assert approvals_sent_to(machine.imds) == 1
    for moment in (30, 60, 200):
        for vm in (machine, secondary, outsider):
            vm.polls(moment, BEGUN)
    assert approvals_sent_to(machine.imds) == 1
    for vm in (secondary, outsider):
        assert vm.transitions == {"detected": 1, "approved": 1, "started": 1}
    assert approvers(secondary) == ["external"]


def test_a_secondary_approves_when_the_primary_hangs(secondary: Machine, outsider: Machine) -> None:
    """With ``documented-all``, the second VM of Resources approves after its turn of a minute, if
    the first one does not, and no other VM does.
    """
    for moment in (0, 30, 59):
        for vm in (secondary, outsider):
            vm.polls(moment, REQUESTED)
    assert approvals_sent_to(secondary.imds) == 0
    for vm in (secondary, outsider):
        vm.polls(60, REQUESTED)
    assert approvals_sent_to(secondary.imds) == 1
    for moment in (61, 90, 200):
        for vm in (secondary, outsider):
            vm.polls(moment, BEGUN)
    assert approvals_sent_to(secondary.imds) == 1
    for vm in (secondary, outsider):
        assert vm.transitions == {"detected": 1, "approved": 1, "started": 1}
    assert approvers(secondary) == ["exporter"]


@pytest.mark.parametrize("fault", ["throttle", "500"])
def test_patience_with_a_service_that_is_being_enabled(tmp_path: Path, fault: str) -> None:
    """Until the first answer with status 200, which Azure gives late, a poll waits longer than the
    timeout; an earlier 429 or 500 does not change that. After a 200, the timeout holds. After a
    day without a request, a poll waits longer again.
    """
    clock = MachineClock()
    with ExitStack() as stack:
        imds = stack.enter_context(
            Simulator(first_answer_delay=1.0, requests_per_second=1000, clock=lambda: clock.wall)
        )
        machine = Machine(imds, tmp_path / "state", stack, timeout="300ms", clock=clock)
        imds.inject(fault)
        imds.set_document([event()])
        machine.begins()
        assert machine.poll_outcome() in {Outcome.THROTTLED, Outcome.HTTP_ERROR}
        imds.heal()
        assert machine.poll_outcome() is Outcome.OK, (
            "still enabling: the answer came late and was waited for"
        )
        imds.inject("timeout")
        assert machine.poll_outcome() is Outcome.TIMEOUT
        imds.heal()
        a_day = 86_400
        clock.wall += a_day + 1
        assert machine.poll_outcome() is Outcome.OK, "Azure has disabled and enabled it again"
