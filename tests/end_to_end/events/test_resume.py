"""What a restart makes of the time before: a poller by hand, with clocks of our own, over a journal and a real wire."""

import threading
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from email.utils import formatdate
from pathlib import Path

import pytest

from azure_scheduled_events_exporter.core.spans import span_id, trace_id
from azure_scheduled_events_exporter.errors import Outcome
from azure_scheduled_events_exporter.simulator import Simulator
from support.events.machine import ID, START, event
from support.events.restarted_machine import Machine
from support.monitoring.collector import Collector


@pytest.fixture
def collector() -> Iterator[Collector]:
    """A collector that accepts everything."""
    with Collector() as running:
        yield running


@pytest.fixture
def machine(tmp_path: Path, collector: Collector) -> Iterator[Machine]:
    """A VM that has not started its exporter yet."""
    with ExitStack() as stack:
        yield Machine(stack.enter_context(Simulator()), collector, tmp_path / "state", stack)


class TestReboot:
    """The event takes the exporter down with its VM."""

    def test_in_mid_event(self, machine: Machine) -> None:
        """An event whose start was not seen is completed because of the boot, with one trace without gaps."""
        machine.polls(0, event())
        machine.polls(899, event())
        machine.dies()
        machine.clock.reboots(at=910)
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
        assert machine.phases["Reboot", "scheduled"].total == 900
        assert machine.phases["Reboot", "started"].total == 60

    def test_the_collector_gets_it_whole(self, machine: Machine, collector: Collector) -> None:
        """A collector that got the beginning before the reboot gets the rest after it, in the same trace."""
        machine.start()
        machine.polls(0, event())
        self.deliver(machine)
        assert collector.names() == ["detected"]
        machine.dies()
        machine.clock.reboots(at=910)
        machine.polls(960)
        self.deliver(machine)
        assert collector.names(trace_id(ID)) == ["approval", "detected", "scheduled", "scheduled_event", "started"]
        spans = {span.name: span for span in collector.spans().values()}
        assert spans["scheduled_event"].end - spans["detected"].start == 960 * 10**9
        assert spans["scheduled"].end == spans["started"].start

    def test_a_collector_away_for_an_hour(self, machine: Machine, collector: Collector) -> None:
        """A collector away from before an event until an hour after its end gets every span, with its times."""
        collector.stop()
        machine.polls(0, event())
        machine.polls(900, event(status="Started"))
        machine.polls(1500)
        self.attempt(machine)
        assert not collector.names()
        machine.dies()
        machine.polls(1500 + 3600)
        collector.start()
        self.deliver(machine)
        times = {
            s.name: ((s.start - START * 10**9) / 1e9, (s.end - START * 10**9) / 1e9) for s in collector.spans().values()
        }
        assert times == {
            "detected": (0, 0),
            "scheduled": (0, 900),
            "approval": (0, 900),
            "started": (900, 1500),
            "scheduled_event": (0, 1500),
        }
        assert machine.spans == {}

    def test_before_the_name_is_known_again(self, machine: Machine) -> None:
        """The trace is completed also if IMDS does not answer this VM's name in time after the reboot."""
        machine.polls(0, event())
        machine.dies()
        machine.name = ""
        machine.clock.reboots(at=910)
        machine.polls(960)
        assert set(machine.spans) == {"detected", "scheduled", "approval", "started", "scheduled_event"}

    def attempt(self, machine: Machine) -> None:
        """Let the exporter try to deliver what is in its journal."""
        assert machine.exporter
        delivery = machine.exporter._delivery
        assert delivery
        thread = threading.Thread(target=delivery.run, daemon=True)
        thread.start()
        delivery.wake()
        delivery.stop([], 10.0)
        thread.join(10.0)

    def deliver(self, machine: Machine) -> None:
        """Let the exporter deliver all that is in its journal."""
        self.attempt(machine)
        assert machine.exporter
        assert machine.exporter.journal.spans_queued() == 0

    def test_still_started_afterwards(self, machine: Machine) -> None:
        """A VM that is back while its event is still Started sees it end later."""
        machine.polls(0, event())
        machine.dies()
        machine.clock.reboots(at=910)
        machine.polls(960, event(status="Started"))
        assert machine.transitions == {"detected": 1, "started": 1}
        machine.polls(1500)
        assert machine.transitions == {"detected": 1, "started": 1, "completed": 1}
        assert machine.times()["scheduled_event"] == (0, 1500)
        assert machine.times()["scheduled"] == (0, machine.times()["started"][0])

    def test_started_before(self, machine: Machine) -> None:
        """An event that had been seen Started when the VM went down is completed, from that moment on."""
        machine.polls(0, event())
        machine.polls(901, event(status="Started"))
        machine.dies()
        machine.clock.reboots(at=910)
        machine.polls(960)
        assert machine.transitions == {"detected": 1, "started": 1, "completed": 1}
        assert machine.times()["started"] == (901, 960)
        assert machine.phases["Reboot", "started"].total == 59

    @pytest.mark.parametrize("kind", ["Reboot", "Redeploy", "Preempt", "Terminate"])
    def test_what_a_reboot_proves(self, kind: str, machine: Machine) -> None:
        """A reboot proves those events that reboot a VM."""
        machine.polls(0, event(kind))
        machine.dies()
        machine.clock.reboots(at=910)
        machine.polls(960)
        assert machine.transitions == {"detected": 1, "completed": 1}

    def test_a_freeze_is_not_proven(self, machine: Machine) -> None:
        """A Freeze keeps the memory, so a reboot does not prove it."""
        machine.polls(0, event("Freeze"))
        machine.dies()
        machine.clock.reboots(at=910)
        machine.polls(960)
        assert machine.transitions == {"detected": 1, "lost": 1}
        assert "started" not in machine.times()

    def test_the_reboot_of_another_vm_is_not_proven(self, machine: Machine) -> None:
        """A reboot of this VM does not prove an event of another VM."""
        machine.name = "vmss_3"
        machine.polls(0, event())
        machine.dies()
        machine.clock.reboots(at=910)
        machine.polls(960)
        assert machine.transitions == {"detected": 1, "lost": 1}

    def test_a_clock_that_was_set_is_no_reboot(self, machine: Machine) -> None:
        """A time of boot that moves with the wall clock proves nothing: the boot is the same."""
        machine.polls(0, event())
        machine.dies()
        machine.clock.booted = START + 910
        machine.polls(960)
        assert machine.transitions == {"detected": 1, "lost": 1}


class TestRestart:
    """The exporter alone was down."""

    def test_still_there(self, machine: Machine) -> None:
        """An event that is still current continues unchanged."""
        machine.polls(0, event())
        machine.dies()
        machine.polls(300, event())
        assert machine.transitions == {"detected": 1}
        machine.polls(901, event(status="Started"))
        machine.polls(1500)
        assert machine.transitions == {"detected": 1, "started": 1, "completed": 1}
        assert machine.times() == {
            "detected": (0, 0),
            "scheduled": (0, 901),
            "approval": (0, 901),
            "started": (901, 1500),
            "scheduled_event": (0, 1500),
        }
        assert machine.phases["Reboot", "scheduled"].total == 901
        assert machine.phases["Reboot", "started"].total == 599

    def test_started_meanwhile(self, machine: Machine) -> None:
        """A start during the downtime is reported at the first poll, and the downtime is part of the phase."""
        machine.polls(0, event())
        machine.dies()
        machine.polls(1000, event(status="Started"))
        assert machine.transitions == {"detected": 1, "started": 1}
        assert machine.phases["Reboot", "scheduled"].total == 1000
        assert machine.times()["scheduled"] == (0, 1000)

    @pytest.mark.parametrize("at", [300, 2000])
    def test_gone_without_a_reboot(self, machine: Machine, at: float) -> None:
        """An event that left while no exporter polled is lost: it is unknown whether it was cancelled or happened."""
        machine.polls(0, event())
        machine.dies()
        machine.polls(at)
        assert machine.transitions == {"detected": 1, "lost": 1}
        assert machine.times() == {"detected": (0, 0), "scheduled": (0, at), "scheduled_event": (0, at)}
        assert machine.spans["scheduled_event"].attributes["azure.scheduled_event.outcome"] == "lost"
        assert machine.phases == {}

    def test_started_and_gone(self, machine: Machine) -> None:
        """An event that had started and is gone is completed."""
        machine.polls(0, event())
        machine.polls(901, event(status="Started"))
        machine.dies()
        machine.polls(5000)
        assert machine.transitions == {"detected": 1, "started": 1, "completed": 1}
        assert machine.phases["Reboot", "started"].total == 4099

    def test_rescheduled_meanwhile(self, machine: Machine) -> None:
        """A NotBefore that moved in between is a rescheduling."""
        machine.polls(0, event())
        machine.dies()
        moved = {**event(), "NotBefore": formatdate(START + 1800, usegmt=True)}
        machine.polls(300, moved)
        assert machine.transitions == {"detected": 1, "rescheduled": 1}
        machine.dies()
        machine.polls(400, moved)
        assert machine.transitions == {"detected": 1, "rescheduled": 1}

    def test_a_new_event_meanwhile(self, machine: Machine) -> None:
        """An event that came in between is first seen now."""
        machine.polls(0, event())
        machine.dies()
        machine.polls(300, event(), event(EventId="NEW"))
        assert machine.transitions == {"detected": 2}
        assert machine.journalled() == [(ID, "detected"), ("NEW", "detected")]

    def test_an_event_that_returned(self, machine: Machine) -> None:
        """An event that is in the document again after its end and a restart keeps its history."""
        machine.polls(0, event())
        machine.polls(50)
        machine.dies()
        machine.polls(300, event())
        machine.dies()
        machine.polls(310, event())
        assert machine.transitions == {"detected": 1, "cancelled": 1, "returned": 1}
        machine.polls(900, event(status="Started"))
        machine.dies()
        machine.polls(1500)
        assert machine.transitions == {"detected": 1, "cancelled": 1, "returned": 1, "started": 1, "completed": 1}
        assert [transition for _, transition in machine.journalled()] == [
            "detected",
            "cancelled",
            "returned",
            "started",
            "completed",
        ]
        root = machine.spans["scheduled_event"]
        assert root.attributes["azure.scheduled_event.outcome"] == "completed"
        assert [moved.name for moved in root.events] == ["returned"]

    def test_counters_neither_fall_nor_double(self, machine: Machine) -> None:
        """Over many restarts at every stage each transition is counted once, and no counter is ever less."""
        story = [
            [event()],
            [event(), event(EventId="B")],
            [event(status="Started"), event(EventId="B")],
            [event(EventId="B", status="Started")],
            [event(EventId="C", status="Started")],
            [],
        ]
        before: dict[str, int] = {}
        for step, document in enumerate(story):
            for _ in range(3):
                machine.polls(1000.0 + step, *document)
                now = machine.transitions
                assert all(now[name] >= count for name, count in before.items())
                before = now
                machine.dies()
                machine.start()
                assert machine.transitions == before, "before the first poll"
        assert before == {"detected": 3, "started": 3, "completed": 3}
        rows = machine.journalled()
        assert len(rows) == len(set(rows)) == 9

    def test_what_was_known_is_shown_before_the_first_answer(self, machine: Machine) -> None:
        """While IMDS does not answer after a restart, the earlier events stay current."""
        machine.polls(0, event())
        machine.dies()
        machine.start()
        assert machine.exporter
        assert list(machine.exporter.poller.snapshot.current) == [ID]
        machine.imds.inject("503")
        assert machine.exporter.poller.poll() is not Outcome.OK
        assert list(machine.exporter.poller.snapshot.current) == [ID]
        assert machine.transitions == {"detected": 1}

    def test_a_restart_keeps_the_id_and_times_of_a_span(self, machine: Machine) -> None:
        """After a restart during an event, the span `detected` has the same id, start, end and name as before."""
        machine.polls(0, event())
        first = machine.spans["detected"]
        machine.dies()
        machine.polls(300, event())
        again = machine.spans["detected"]
        assert again.span_id == first.span_id == span_id(ID, "vmss_0", "detected")
        assert (again.start, again.end) == (first.start, first.end)
        assert replace(again, attributes={}) == replace(first, attributes={})
