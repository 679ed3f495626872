"""What a restart makes of the time before: an exporter that is polled by hand, killed and started on one journal."""

import pytest

from azure_scheduled_events_exporter.core.spans import trace_id
from azure_scheduled_events_exporter.errors import Outcome
from support.events.machine import ID, Machine, event
from support.monitoring.collector import Collector


@pytest.fixture(autouse=True)
def _collector(machine: Machine) -> None:
    machine.collector = machine.stack.enter_context(Collector()).url  # it gets nothing: spans stay in the journal


def test_a_reboot_in_mid_event(machine: Machine) -> None:
    """An event whose start was not seen is completed because of the boot, with one trace without gaps."""
    machine.polls(0, None, event())
    machine.polls(899, None, event())
    machine.restarts(boots_at=910)
    machine.name = ""  # IMDS does not name the VM in time after the reboot
    machine.polls(960)
    assert machine.transitions == {"detected": 1, "completed": 1}
    assert machine.times() == {
        "detected": (0, 0),
        "scheduled": (0, 900),
        "approval": (0, 900),
        "started": (900, 960),
        "scheduled_event": (0, 960),
    }
    root = machine.spans["scheduled_event"]
    assert root.attributes["azure.scheduled_event.outcome"] == "completed"
    assert {span.trace_id for span in machine.spans.values()} == {trace_id(ID)}
    assert {span.parent_id for span in machine.spans.values()} == {"", root.span_id}
    assert machine.phases == {("Reboot", "scheduled"): 900, ("Reboot", "started"): 60}


def test_what_was_known_is_shown_before_the_first_answer(machine: Machine) -> None:
    """While IMDS does not answer after a restart, the earlier events stay current."""
    machine.polls(0, None, event())
    machine.restarts()
    machine.begins()
    assert machine.exporter
    assert list(machine.exporter.poller.snapshot.current) == [ID]
    machine.imds.inject("503")
    assert machine.outcome() is not Outcome.OK
    assert list(machine.exporter.poller.snapshot.current) == [ID]
    assert machine.transitions == {"detected": 1}
