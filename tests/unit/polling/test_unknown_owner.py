"""Before IMDS has shown an event again or named this VM: what is approved, what ends, and what is
counted.
"""

from email.utils import formatdate

import pytest

from azure_scheduled_events_exporter.simulator import What
from support.events.machine import ID, START, Machine, event

USER_EVENT = event(EventSource="User")
PREEMPT = event("Preempt", EventId="OURS", NotBefore=formatdate(START + 400, usegmt=True))


def name_this_vm(machine: Machine) -> None:
    """Let the running exporter ask IMDS who this VM is; IMDS answers."""
    assert machine.exporter
    error = machine.exporter.identification.ask()
    assert error == ""


@pytest.fixture
def unnamed(machine: Machine) -> Machine:
    """A VM with a journal of its own, which has its name and an event in it. Its exporter is to
    start again, and will not know the VM until IMDS names it.
    """
    machine.name = ""
    machine.begins()
    name_this_vm(machine)
    machine.polls(0, USER_EVENT)
    machine.policy = "documented"
    machine.ends()
    return machine


def approvals(machine: Machine) -> list[str]:
    """Return the EventIds that IMDS was asked to approve."""
    return [each.event_id for each in machine.imds.record if each.what is What.APPROVED]


@pytest.mark.parametrize(
    "body", [b"", b'{"DocumentIncarnation":9,"Events":[null]}'], ids=["empty", "unreadable"]
)
def test_only_what_the_newest_document_shows_is_approved(machine: Machine, body: bytes) -> None:
    """After a restart, an event of the journal stays current for a while, although no document
    shows it. It is not approved until one does.
    """
    machine.polls(0, USER_EVENT)
    machine.policy = "documented"
    machine.ends()
    machine.polls(10, body=body)
    assert [each.path for each in machine.imds.requests if each.method == "POST"] == []
    machine.polls(11, USER_EVENT)
    assert approvals(machine) == [ID]


def test_the_name_in_the_journal_approves_nothing(unnamed: Machine) -> None:
    """The journal may be another VM's. So the name of the VM in it approves nothing until IMDS has
    named this VM.
    """
    unnamed.polls(10, USER_EVENT)
    assert approvals(unnamed) == []
    name_this_vm(unnamed)
    unnamed.polls(11, USER_EVENT)
    assert approvals(unnamed) == [ID]


def test_approval_two_minutes_later_without_a_name(unnamed: Machine) -> None:
    """If IMDS does not name this VM within two minutes, the journal is taken as its own, and the
    policy approves.
    """
    unnamed.polls(10, USER_EVENT)
    unnamed.polls(131, USER_EVENT)
    assert approvals(unnamed) == [ID]


def test_events_of_this_run_end_at_once(unnamed: Machine) -> None:
    """Events that a document of this run has shown end without delay; those that only the journal
    knows end after two minutes.
    """
    unnamed.polls(10, PREEMPT)
    unnamed.polls(11)
    assert unnamed.transitions == {"detected": 2, "cancelled": 1}
    assert unnamed.exporter
    assert list(unnamed.exporter.poller.snapshot.current) == [ID]
    unnamed.polls(131)
    assert unnamed.transitions == {"detected": 2, "cancelled": 1, "lost": 1}
