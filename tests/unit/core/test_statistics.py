"""What transitions add up to."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from azure_scheduled_events_exporter.core.document import ScheduledEvent, Scope
from azure_scheduled_events_exporter.core.event_types import EventType
from azure_scheduled_events_exporter.core.lifecycle import Approver, Change, Lifecycle, State, Transition
from azure_scheduled_events_exporter.core.statistics import (
    LATENCY_BOUNDS,
    NOTICE_BOUNDS,
    PAUSE_BOUNDS,
    PHASE_BOUNDS,
    Histogram,
    Statistics,
    measure,
)
from azure_scheduled_events_exporter.core.timestamp import Timestamp

TRANSITIONS = ("detected", "rescheduled", "approved", "started", "completed", "cancelled", "lost", "returned")


def at(seconds: float, boot: str = "boot-1") -> Timestamp:
    """Return a moment so many seconds after the event was first seen."""
    return Timestamp(1_700_000_000.0 + seconds, 500.0 + seconds, boot)


LIFE = Lifecycle(
    ScheduledEvent("A", "Freeze", "Scheduled", "Platform", ("vm_0",), 1_700_000_900.0),
    State.SCHEDULED,
    Scope.SELF,
    at(0),
    not_before=1_700_000_900.0,
    notice_seconds=900.0,
)


def statistics(*changes: Change) -> Statistics:
    """Return what ``changes`` add up to."""
    return Statistics().plus(map(measure, changes))


def counted(result: Statistics) -> dict[tuple[str, str, str, str], int]:
    """Return the transitions that happened."""
    return {key: count for key, count in result.transitions.items() if count}


def test_series_that_exist_from_the_start() -> None:
    """Every transition of every documented type, except of advice, is 0 for this VM before anything has happened."""
    assert Statistics().transitions == {
        (event_type, event_type.facts.usual_source, "self", str(transition)): 0
        for event_type in EventType
        for transition in Transition
        if transition is not Transition.WITHDRAWN
    }
    assert not Statistics().notice
    assert not Statistics().approval_latency
    assert not Statistics().phases
    assert not Statistics().pauses


@pytest.mark.parametrize("transition", list(Transition))
def test_every_transition_is_counted(transition: Transition) -> None:
    """A transition is counted once, under its event's type and source and its scope at that moment."""
    assert counted(statistics(Change(transition, LIFE, at(1)))) == {("Freeze", "Platform", "self", str(transition)): 1}


def test_new_values_make_new_series() -> None:
    """A type, source or scope that has no series yet gets one."""
    life = replace(LIFE, event=replace(LIFE.event, event_type="OfTomorrow", source=""), scope=Scope.UNKNOWN)
    assert counted(statistics(Change(Transition.DETECTED, life, at(0)))) == {
        ("OfTomorrow", "", "unknown", "detected"): 1
    }


def test_notice() -> None:
    """The warning is observed once, when the event is detected, and not at all when it is unknown."""
    result = statistics(
        Change(Transition.DETECTED, LIFE, at(0)),
        Change(Transition.RESCHEDULED, LIFE, at(1)),
        Change(Transition.DETECTED, replace(LIFE, notice_seconds=None), at(2)),
    )
    assert result.notice == {("Freeze",): Histogram.empty(NOTICE_BOUNDS).observe(900.0)}


def test_notice_of_a_host_failure() -> None:
    """No warning at all is a warning of 0 s, in a bucket of its own."""
    histogram = statistics(Change(Transition.DETECTED, replace(LIFE, notice_seconds=0.0), at(0))).notice["Freeze",]
    assert histogram.bounds[0] == 0.0
    assert histogram.counts[0] == 1
    assert histogram.total == 0.0


@pytest.mark.parametrize("approver", [Approver.EXPORTER, Approver.OPERATOR, Approver.EXTERNAL])
def test_approval_latency(approver: Approver) -> None:
    """The time to an approval is observed once, with who gave it, though the start follows."""
    approved = replace(LIFE, approved_by=approver, approved_at=at(20))
    started = replace(approved, state=State.STARTED, started_at=at(30))
    result = statistics(Change(Transition.APPROVED, approved, at(20)), Change(Transition.STARTED, started, at(30)))
    assert result.approval_latency == {("Freeze", str(approver)): Histogram.empty(LATENCY_BOUNDS).observe(20.0)}


def test_approval_latency_of_a_deadline() -> None:
    """A start by the deadline is no transition 'approved', but the time to it is observed, once."""
    started = replace(LIFE, state=State.STARTED, started_at=at(900), approved_by=Approver.DEADLINE, approved_at=at(900))
    completed = replace(started, outcome=Transition.COMPLETED, ended_at=at(1000))
    result = statistics(Change(Transition.STARTED, started, at(900)), Change(Transition.COMPLETED, completed, at(1000)))
    assert result.approval_latency == {("Freeze", "deadline"): Histogram.empty(LATENCY_BOUNDS).observe(900.0)}


def test_phases_of_a_whole_life() -> None:
    """The time Scheduled ends with the start, the time Started with the end."""
    started = replace(LIFE, state=State.STARTED, started_at=at(900))
    result = statistics(
        Change(Transition.DETECTED, LIFE, at(0)),
        Change(Transition.STARTED, started, at(900)),
        Change(Transition.COMPLETED, replace(started, ended_at=at(1500)), at(1500)),
    )
    assert result.phases == {
        ("Freeze", "scheduled"): Histogram.empty(PHASE_BOUNDS).observe(900.0),
        ("Freeze", "started"): Histogram.empty(PHASE_BOUNDS).observe(600.0),
    }


def test_phases_of_a_host_failure() -> None:
    """An event that was never Scheduled before our eyes spent no time so."""
    started = replace(LIFE, state=State.STARTED, started_at=at(0), notice_seconds=0.0)
    result = statistics(
        Change(Transition.DETECTED, started, at(0)),
        Change(Transition.STARTED, started, at(0)),
        Change(Transition.COMPLETED, started, at(600)),
    )
    assert result.phases == {("Freeze", "started"): Histogram.empty(PHASE_BOUNDS).observe(600.0)}


def test_resources_that_leave_this_vm_out() -> None:
    """The end of an event that named this VM before is one of this VM's: transitions and durations add up."""
    started = replace(LIFE, state=State.STARTED, started_at=at(900), own_name="vm_0")
    shrunk = replace(started, event=replace(LIFE.event, resources=("vm_1",)), scope=Scope.PEER, observed_pause=7.0)
    result = statistics(Change(Transition.STARTED, started, at(900)), Change(Transition.COMPLETED, shrunk, at(1500)))
    assert {key[2:] for key in counted(result)} == {("self", "started"), ("self", "completed")}
    assert result.phases["Freeze", "started"].total == 600.0
    assert result.pauses["Freeze",].total == 7.0


def test_phases_of_a_cancelled_event() -> None:
    """A cancelled event was Scheduled until it left."""
    result = statistics(Change(Transition.CANCELLED, LIFE, at(300)))
    assert result.phases == {("Freeze", "scheduled"): Histogram.empty(PHASE_BOUNDS).observe(300.0)}


def test_phases_of_a_lost_event() -> None:
    """A lost event adds no durations."""
    assert not statistics(Change(Transition.LOST, LIFE, at(300))).phases


def test_phases_of_an_event_that_a_boot_proves() -> None:
    """An event that only a boot proves was Scheduled until that boot, and Started from there to its end."""
    life = replace(LIFE, started_at=at(900, "boot-2"), proven_by_boot=True)
    result = statistics(Change(Transition.COMPLETED, life, at(960, "boot-2")))
    assert result.phases == {
        ("Freeze", "scheduled"): Histogram.empty(PHASE_BOUNDS).observe(900.0),
        ("Freeze", "started"): Histogram.empty(PHASE_BOUNDS).observe(60.0),
    }


def test_a_tally_never_changes() -> None:
    """Statistics do not change for their readers when more is counted."""
    first = statistics(Change(Transition.DETECTED, LIFE, at(0)))
    text = repr(first)
    first.plus([measure(Change(Transition.CANCELLED, LIFE, at(300)))])
    assert repr(first) == text


def test_a_pause_counts_once_at_the_end() -> None:
    """The longest pause of this VM is observed at the end of an event, if it is known."""
    started = replace(LIFE, state=State.STARTED, started_at=at(900), observed_pause=0.0)
    longer = replace(started, observed_pause=2.5)
    result = statistics(
        Change(Transition.STARTED, started, at(900)),
        Change(Transition.COMPLETED, longer, at(1500)),
        Change(Transition.COMPLETED, replace(longer, observed_pause=None), at(1500)),
        Change(Transition.LOST, longer, at(1500)),
    )
    assert result.pauses == {("Freeze",): Histogram.empty(PAUSE_BOUNDS).observe(2.5)}


def test_histogram_over_other_bounds() -> None:
    """Sums of another version are kept: what lay under a bound that is no more counts under the next higher one."""
    old = Histogram((1.0, 5.0, 30.0, 60.0), (1, 2, 4, 8, 16), 100.0)
    assert old.over((1.0, 30.0, 90.0)) == Histogram((1.0, 30.0, 90.0), (1, 6, 8, 16), 100.0)
    assert old.over(old.bounds) is old


@pytest.mark.parametrize(
    ("value", "bucket"), [(0.0, 0), (0.1, 1), (1.0, 1), (1.1, 2), (5.0, 2), (5.1, 3), (1e9, 3), (-1.0, 0)]
)
def test_histogram_bounds_belong_to_their_bucket(value: float, bucket: int) -> None:
    """A value counts under the first bound that it does not exceed, as Prometheus' 'le' means."""
    counts = Histogram.empty((0.0, 1.0, 5.0)).observe(value).counts
    assert counts.index(1) == bucket
    assert sum(counts) == 1
    assert len(counts) == 4


@given(st.lists(st.floats(min_value=0, max_value=1e6)))
@settings(deadline=None)
def test_histogram_adds_up(values: list[float]) -> None:
    """A histogram has counted every value once, and their sum."""
    histogram = Histogram.empty(NOTICE_BOUNDS)
    for value in values:
        histogram = histogram.observe(value)
    for bound, seen in zip(histogram.bounds, running(histogram.counts), strict=False):
        assert seen == len([value for value in values if value <= bound])
    assert sum(histogram.counts) == len(values)
    assert histogram.total == pytest.approx(sum(values))


def running(counts: tuple[int, ...]) -> list[int]:
    """Return the sums of ever more of ``counts``."""
    return [sum(counts[: end + 1]) for end in range(len(counts))]


@pytest.mark.parametrize("bounds", [NOTICE_BOUNDS, LATENCY_BOUNDS, PHASE_BOUNDS, PAUSE_BOUNDS])
def test_bounds_ascend(bounds: tuple[float, ...]) -> None:
    """Bounds that do not ascend would count into the wrong buckets."""
    assert list(bounds) == sorted(set(bounds))


def test_histograms_of_history_stay_in_the_budget() -> None:
    """All histograms of a type, every approver and phase, are at most 80 series: 400 for the five types of today."""
    series = 3  # +Inf, sum and count
    approvers, phases = len(Approver), 2
    several = {NOTICE_BOUNDS: 1, LATENCY_BOUNDS: approvers, PHASE_BOUNDS: phases, PAUSE_BOUNDS: 1}
    total = sum(count * (len(bounds) + series) for bounds, count in several.items())
    assert total <= 80
