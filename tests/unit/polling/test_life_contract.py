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


@pytest.mark.parametrize(("interval", "believed"), [(1, 6), (2, 4), (10, 3), (120, 3)])
def test_empty_bodies_that_are_believed(machine: Machine, interval: int, believed: int) -> None:
    """Empty bodies end an event after three polls and 5 s; with long gaps between polls, it is
    lost.
    """
    machine.polls(0, None, event())
    for number in range(1, believed):
        machine.polls(number * interval, b"")
        assert machine.transitions == {"detected": 1}
    machine.polls(believed * interval, b"")
    assert machine.transitions == {"detected": 1, "lost" if interval > 60 else "cancelled": 1}


def test_what_was_known_is_shown_before_the_first_answer(machine: Machine) -> None:
    """While IMDS does not answer after a restart, the earlier events stay current."""
    machine.polls(0, None, event())
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
    machine.polls(0, None, event(EventSource="User"))
    machine.ends(boots_at=30)
    machine.polls(60, UNREADABLE)
    machine.polls(61)
    assert machine.transitions == {"detected": 1, "approved": 1, "completed": 1}


def test_an_unreadable_entry_blocks_no_approval(machine: Machine) -> None:
    """What is readable of a document is approved, whatever else is in it, such as an entry without
    EventId.
    """
    machine.policy = "documented"
    good = event(EventSource="User")
    entries = [good, {**good, "EventId": ""}, None]
    machine.polls(0, json.dumps({"DocumentIncarnation": 1, "Events": entries}).encode(), good)
    assert machine.transitions == {"detected": 1, "approved": 1}
    assert [each.event_id for each in machine.imds.record] == [ID]


@pytest.mark.parametrize("first_answers", [True, False])
def test_a_secondary_approves_when_the_primary_hangs(
    machine: Machine, tmp_path: Path, first_answers: bool
) -> None:
    """One POST approves with ``documented-all``: the first VM's, or the second's after its turn if
    the first hangs.
    """
    second = Machine(machine.imds, tmp_path / "second", machine.stack, "documented-all", "vmss_1")
    outside = Machine(machine.imds, tmp_path / "outside", machine.stack, "documented-all", "vmss_4")
    machine.policy = "documented-all"
    requested = event(EventSource="User", Resources=["vmss_0", "vmss_1"])
    started = {**requested, "EventStatus": "Started", "NotBefore": ""}

    def posts() -> list[str]:
        return [each.path for each in machine.imds.requests if each.method == "POST"]

    sent_at = None
    for at in (0, 30, 59, 60, 90, 150, 200):
        shown = requested if sent_at is None else started
        for vm in (machine, second, outside):
            if vm is not machine or first_answers:
                vm.polls(at, None, shown)
        sent_at = at if sent_at is None and posts() else sent_at
    assert sent_at == (0 if first_answers else 60)
    assert len(posts()) == 1
    assert second.transitions == {"detected": 1, "approved": 1, "started": 1}
    approver = "external" if first_answers else "exporter"
    assert second.exporter
    assert list(second.exporter.poller.snapshot.statistics.approval_latency) == [
        ("Reboot", approver)
    ]
    assert outside.transitions == {"detected": 1, "approved": 1, "started": 1}


@pytest.mark.parametrize("fault", ["throttle", "500"])
def test_patience_with_a_service_that_is_being_enabled(tmp_path: Path, fault: str) -> None:
    """The first answer may be late, also after a 429 or 500; after a 200 it may not; a day later it
    may again.
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
        clock.wall += 86_401
        assert machine.poll_outcome() is Outcome.OK, "Azure has disabled and enabled it again"
