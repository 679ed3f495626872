"""The pause of a VM that is measured across a reboot, and across a restart of the exporter."""

from email.utils import formatdate

import pytest

from azure_scheduled_events_exporter.polling.pauses import TICK_SECONDS
from support.events.machine import START, Machine, event


@pytest.mark.parametrize("in_order", [True, False])
def test_a_reboot(machine: Machine, in_order: bool) -> None:
    """A reboot's pause lasts from the last sign of life before it to the start of the exporter
    after it, and is counted once.

    The last sign of life, at 0 s, is the end of an exporter that was stopped in order at NotBefore,
    or else the last poll while the event was Started.
    """
    if in_order:
        machine.polls(0, event("Reboot", NotBefore=formatdate(START, usegmt=True)))
    else:
        machine.polls(0, event("Reboot", "Started"))
    machine.ends(boots_at=75.5, in_order=in_order)
    for at in (85.5, 90):  # at each, an exporter starts
        machine.polls(at)
        assert machine.pauses == {"Reboot": (1, 85.5)}, "one pause, of 85.5 s"
        machine.ends()


def test_heartbeats(machine: Machine) -> None:
    """Polls of a Started event write a heartbeat every 5 s: the disk is spared."""
    for at in range(9):
        machine.polls(at, event("Reboot", "Started"))
    machine.ends(boots_at=75.5)
    machine.polls(85.5)
    # Of the polls at 0 s to 8 s, that at 5 s wrote the last heartbeat.
    assert machine.pauses == {"Reboot": (1, 85.5 - 5)}


@pytest.mark.parametrize("in_order", [True, False])
def test_a_restart_of_the_exporter(machine: Machine, in_order: bool) -> None:
    """The time without an exporter is not a pause of the VM, and earlier measurements stay."""
    machine.polls(0, event("Freeze"))
    for at in (0, 3):  # nobody polls meanwhile, as in a pause
        machine.polls(at, event("Freeze", "Started"))
    machine.ends(in_order=in_order)
    machine.polls(48, event("Freeze", "Started"))
    machine.polls(48)
    ((count, pause),) = machine.pauses.values()
    assert count == 1
    assert pause == pytest.approx(3, abs=TICK_SECONDS + 0.01)
