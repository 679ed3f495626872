"""What an event did to this VM's connections and clock."""

from dataclasses import replace
from typing import Any

import pytest

from azure_scheduled_events_exporter.core.document import Document, ScheduledEvent
from azure_scheduled_events_exporter.core.impact import Counted, Readings, Tcp, between
from azure_scheduled_events_exporter.core.lifecycle import (
    Change,
    Lifecycle,
    Lifecycles,
    Transition,
    impact_values,
)
from azure_scheduled_events_exporter.core.observation import observe
from azure_scheduled_events_exporter.core.observation_context import ObservationContext
from azure_scheduled_events_exporter.core.spans import finished
from azure_scheduled_events_exporter.core.statistics import Statistics
from azure_scheduled_events_exporter.core.timestamp import Timestamp

SCHEDULED = ScheduledEvent("E", "Freeze", "Scheduled", "Platform", ("vm_0",), 1900.0, "", 5.0)
STARTED = replace(SCHEDULED, status="Started", not_before=None)
PEER = replace(STARTED, event_id="PEER", resources=("vm_1",))


def read(seconds: float, retransmitted: int, timeouts: int, *, step: float = 0.0) -> Readings:
    """Return readings so many seconds after the first ones; the clock was set by ``step``."""
    at = Timestamp(1000.0 + seconds + step, 50.0 + seconds, "boot")
    return Readings(at, retransmitted, timeouts)


class Watched:
    """A VM whose event is observed.

    From its third readings on, the first ones count as those of a minute ago.
    """

    def __init__(self) -> None:
        self.known = Lifecycles()
        self.changes: list[Change] = []
        self.readings: list[Readings] = []

    def sees(self, readings: Readings, *events: ScheduledEvent) -> Lifecycle | None:
        """Observe a document of ``events``; return the life of this VM's event."""
        counted = Counted(readings)
        if self.readings:
            counted = replace(counted, last=self.readings[-1])
        if len(self.readings) > 1:
            counted = replace(counted, minute_ago=self.readings[0])
        context = ObservationContext(readings.at, "vm_0", counted=counted)
        self.known, changes = observe(self.known, Document(1, events), context)
        self.changes.extend(changes)
        self.readings.append(readings)
        return self.known.current.get("E") or self.known.ended.get("E")


def measured(life: Lifecycle | None) -> dict[str, float | None]:
    """Return what was measured, without the pause."""
    assert life is not None
    values = impact_values(life)
    return {name: value for name, value in values.items() if not name.startswith("observed_")}


@pytest.mark.parametrize("counter", ["retransmitted", "timeouts"])
def test_a_counter_that_one_reading_lacks(counter: str) -> None:
    """What the kernel did not say at one of two moments is not known between them."""
    earlier = read(0, 3, 1)
    later = read(5, 8, 2)
    unknown: dict[str, Any] = {counter: None}
    assert between(earlier, later) == Tcp(5, 1)
    assert between(replace(earlier, **unknown), later) is None
    assert between(earlier, replace(later, **unknown)) is None


def test_an_event_that_cuts_connections() -> None:
    """Counters since the start, beside those of the minute before, and the step of the clock."""
    vm = Watched()
    vm.sees(read(0, 100, 10), SCHEDULED)
    vm.sees(read(30, 104, 10), SCHEDULED)  # 4 segments in 30 s are 8 in a minute
    vm.sees(read(31, 150, 14, step=12.0), STARTED, PEER)
    life = vm.sees(read(45, 350, 40, step=12.0), STARTED, PEER)
    expected = {
        "tcp_retransmitted_segments": 350 - 104,
        "tcp_retransmitted_segments_minute_before": 8,
        "tcp_timeouts": 40 - 10,
        "tcp_timeouts_minute_before": 0,
        "clock_step_seconds": 12.0,
    }
    assert measured(life) == expected
    assert vm.known.current["PEER"].impact is None
    ended = vm.sees(read(46, 351, 40, step=12.0))
    retransmitted = 351 - 104
    assert measured(ended) == expected | {"tcp_retransmitted_segments": retransmitted}
    statistics = Statistics().plus(vm.changes)
    assert statistics.retransmitted == {("Freeze",): retransmitted}
    assert statistics.timeouts == {("Freeze",): 40 - 10}
    [completed] = [
        change
        for change in vm.changes
        if (change.transition, change.lifecycle.event_id) == (Transition.COMPLETED, "E")
    ]
    [started, root] = finished(completed)
    for span in (started, root):
        attributes = span.attributes
        assert attributes["azure.scheduled_event.tcp_retransmitted_segments"] == retransmitted
        assert attributes["azure.scheduled_event.tcp_timeouts_minute_before"] == 0


def test_a_quiet_event() -> None:
    """An event during which nothing is sent again shows 0, not the absence of a measurement."""
    vm = Watched()
    # One reading before the start: what was usual in the minute before it is not known.
    vm.sees(read(0, 100, 10), SCHEDULED)
    vm.sees(read(1, 100, 10), STARTED)
    assert measured(vm.sees(read(20, 100, 10))) == {
        "tcp_retransmitted_segments": 0,
        "tcp_retransmitted_segments_minute_before": None,
        "tcp_timeouts": 0,
        "tcp_timeouts_minute_before": None,
        "clock_step_seconds": 0.0,
    }


def test_a_measurement_that_goes_on_is_renewed_every_ten_seconds() -> None:
    """Each renewal is written to the journal, and busy VMs send segments again all the time."""
    vm = Watched()
    vm.sees(read(0, 100, 10), STARTED)
    lives = [vm.sees(read(second, 100 + second, 10), STARTED) for second in range(1, 25)]
    measurements = {life.tcp for life in lives if life is not None}
    # The first one is from the start, at 0 s, when nothing had been counted yet.
    assert measurements == {Tcp(0, 0), Tcp(10, 0), Tcp(20, 0)}, "as of 0 s, 10 s and 20 s"


def test_a_boot_and_another_network_namespace_keep_what_was_measured() -> None:
    """Counters begin anew at a boot, and with another network namespace. Such readings change
    nothing of what was measured before.
    """
    vm = Watched()
    vm.sees(read(0, 100, 10), STARTED)
    vm.sees(read(11, 130, 12), STARTED)
    before = Tcp(130 - 100, 12 - 10)
    in_another_namespace = read(22, 5, 0)
    vm.sees(in_another_namespace, STARTED)
    assert vm.known.current["E"].tcp == before
    after_a_boot = replace(read(40, 900, 90), at=Timestamp(1200.0, 5.0, "another boot"))
    ended = vm.sees(after_a_boot)
    assert ended is not None
    assert ended.tcp == before


@pytest.mark.parametrize(
    "before",
    [
        pytest.param(Readings(Timestamp(0.0)), id="no counters"),
        pytest.param(read(0, 7, 7), id="larger ones"),
    ],
)
def test_what_is_not_known(before: Readings) -> None:
    """Between readings without counters, or with larger ones, and those of now, nothing is
    measured.
    """
    assert between(before, read(1, 6, 6)) is None
