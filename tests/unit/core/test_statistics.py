"""What transitions add up to."""

from dataclasses import replace
from itertools import accumulate
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from azure_scheduled_events_exporter.core.document import ScheduledEvent, Scope
from azure_scheduled_events_exporter.core.event_types import EventType
from azure_scheduled_events_exporter.core.histogram import Histogram
from azure_scheduled_events_exporter.core.lifecycle import (
    Approval,
    Approver,
    Change,
    Lifecycle,
    State,
    Transition,
)
from azure_scheduled_events_exporter.core.statistics import (
    LATENCY_BOUNDS,
    NOTICE_BOUNDS,
    PAUSE_BOUNDS,
    STATE_BOUNDS,
    Statistics,
)
from azure_scheduled_events_exporter.core.timestamp import Timestamp


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
    return Statistics().plus(changes)


def counted(result: Statistics) -> dict[tuple[str, str, str, str], int]:
    """Return the transitions that happened."""
    return {key: count for key, count in result.transitions.items() if count}


def test_series_that_exist_from_the_start() -> None:
    """Before anything has happened, the counter of every transition that an event of a documented
    type can have is 0 for this VM. (Only advice is withdrawn.) There are no histograms.
    """
    assert Statistics().transitions == {
        (event_type, event_type.facts.usual_source, "self", str(transition)): 0
        for event_type in EventType
        for transition in Transition
        if transition is not Transition.WITHDRAWN
    }
    assert not Statistics().notice
    assert not Statistics().approval_latency
    assert not Statistics().time_in_state
    assert not Statistics().pauses


@pytest.mark.parametrize("transition", list(Transition))
def test_every_transition_is_counted(transition: Transition) -> None:
    """A transition is counted once, under its event's type and source and its scope at that
    moment.
    """
    assert counted(statistics(Change(transition, LIFE, at(1)))) == {
        ("Freeze", "Platform", "self", str(transition)): 1
    }


def test_new_values_make_new_series() -> None:
    """A type, source or scope that has no series yet gets one."""
    life = replace(
        LIFE, event=replace(LIFE.event, event_type="OfTomorrow", source=""), scope=Scope.UNKNOWN
    )
    assert counted(statistics(Change(Transition.DETECTED, life, at(0)))) == {
        ("OfTomorrow", "", "unknown", "detected"): 1
    }


STARTED = replace(LIFE, state=State.STARTED, started_at=at(900))
STARTED_AT_NOT_BEFORE = replace(STARTED, approval=Approval(Approver.DEADLINE, at(900)))
FIRST_SEEN_STARTED = replace(STARTED, started_at=at(0), notice_seconds=0.0)
PAUSED = replace(STARTED, observed_pause=2.5)
STARTED_BY_A_BOOT = replace(LIFE, started_at=at(900, "boot-2"), proven_by_boot=True)
"""No document showed it as Started: a boot of this VM at that time shows that it was."""
OF_THIS_VM = replace(STARTED, own_name="vm_0", observed_pause=7.0)
NO_LONGER_OF_THIS_VM = replace(OF_THIS_VM, event=replace(LIFE.event, resources=("vm_1",)))
ADVICE = replace(LIFE, state=State.ADVISORY, notice_seconds=None)
# A transition, the life after it, and seconds after the event was first seen.
Steps = list[tuple[Transition, Lifecycle, float]]
Totals = dict[str, Any]  # by the field of the statistics: the total of each histogram


def approved_and_started(approver: Approver) -> Steps:
    """Return the approval by ``approver`` 20 s after the event was first seen, and its start."""
    life = replace(LIFE, approval=Approval(approver, at(20)))
    return [
        (Transition.APPROVED, life, 20),
        (Transition.STARTED, replace(life, state=State.STARTED, started_at=at(30)), 30),
    ]


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        pytest.param(
            [(Transition.DETECTED, LIFE, 0), (Transition.RESCHEDULED, LIFE, 1)],
            {"notice": {("Freeze",): 900.0}},
            id="announced",
        ),
        pytest.param(
            [(Transition.DETECTED, replace(LIFE, notice_seconds=None), 0)],
            {},
            id="without a NotBefore",
        ),
        pytest.param(
            [(Transition.DETECTED, FIRST_SEEN_STARTED, 0)],
            {"notice": {("Freeze",): 0.0}},
            id="first seen started",
        ),
        *(
            pytest.param(
                approved_and_started(approver),
                {
                    "approval_latency": {("Freeze", str(approver)): 20.0},
                    "time_in_state": {("Freeze", "scheduled"): 30.0},
                },
                id=f"approved by {approver}",
            )
            for approver in (Approver.EXPORTER, Approver.OPERATOR, Approver.EXTERNAL)
        ),
        pytest.param(
            [
                (Transition.STARTED, STARTED_AT_NOT_BEFORE, 900),
                (Transition.COMPLETED, STARTED_AT_NOT_BEFORE, 1500),
            ],
            {
                "approval_latency": {("Freeze", "deadline"): 900.0},
                "time_in_state": {("Freeze", "scheduled"): 900.0, ("Freeze", "started"): 600.0},
            },
            id="started at NotBefore",
        ),
        pytest.param(
            [
                (Transition.STARTED, FIRST_SEEN_STARTED, 0),
                (Transition.COMPLETED, FIRST_SEEN_STARTED, 600),
            ],
            {"time_in_state": {("Freeze", "started"): 600.0}},
            id="never scheduled",
        ),
        pytest.param(
            [(Transition.CANCELLED, LIFE, 300)],
            {"time_in_state": {("Freeze", "scheduled"): 300.0}},
            id="cancelled",
        ),
        pytest.param(
            [(Transition.LOST, PAUSED, 300)], {}, id="lost: nobody knows how and when it ended"
        ),
        pytest.param(
            [(Transition.COMPLETED, replace(PAUSED, has_returned=True), 1500)],
            {},
            id="ended again: its first end was observed",
        ),
        pytest.param(
            [(Transition.DETECTED, ADVICE, 0), (Transition.WITHDRAWN, ADVICE, 300)],
            {},
            id="advice: it has neither a notice nor phases",
        ),
        pytest.param(
            [(Transition.COMPLETED, STARTED_BY_A_BOOT, 960)],
            {"time_in_state": {("Freeze", "scheduled"): 900.0, ("Freeze", "started"): 60.0}},
            id="proven by a boot",
        ),
        pytest.param(
            [(Transition.COMPLETED, PAUSED, 1500)],
            {"time_in_state": {("Freeze", "started"): 600.0}, "pauses": {("Freeze",): 2.5}},
            id="paused",
        ),
        pytest.param(
            [
                (Transition.STARTED, OF_THIS_VM, 900),
                (Transition.COMPLETED, NO_LONGER_OF_THIS_VM, 1500),
            ],
            {
                "time_in_state": {("Freeze", "scheduled"): 900.0, ("Freeze", "started"): 600.0},
                "pauses": {("Freeze",): 7.0},
            },
            id="Resources no longer name this VM at the end, which belongs to the beginning",
        ),
    ],
)
def test_what_transitions_add(steps: Steps, expected: Totals) -> None:
    """Each notice, approval, phase and pause of an event is observed once. An unknown or lost one
    is not, nor one that follows an end.
    """
    changes = []
    for transition, life, seconds in steps:
        # After a boot, moments are those of the new boot.
        boot = "boot-2" if life.proven_by_boot else "boot-1"
        changes.append(Change(transition, life, at(seconds, boot)))
    result = statistics(*changes)
    for name in ("notice", "approval_latency", "time_in_state", "pauses"):
        histograms: dict[tuple[str, ...], Histogram] = dict(getattr(result, name))
        totals = {key: histogram.total for key, histogram in histograms.items()}
        assert totals == expected.get(name, {})
        assert all(sum(histogram.counts) == 1 for histogram in histograms.values())
    scopes = {scope for _, _, scope, _ in counted(result)}
    assert scopes == {"self"}, "also where Resources name this VM no longer"


@given(st.lists(st.floats(min_value=0, max_value=1e6)))
@settings(deadline=None)
def test_histogram_adds_up(values: list[float]) -> None:
    """A histogram has counted every value once, and their sum."""
    histogram = Histogram.empty(NOTICE_BOUNDS)
    for value in values:
        histogram = histogram.observe(value)
    # The last bucket has no bound.
    up_to_each_bound = running_sums(histogram.counts)[:-1]
    for bound, counted_up_to in zip(histogram.bounds, up_to_each_bound, strict=True):
        assert counted_up_to == len([value for value in values if value <= bound])
    assert sum(histogram.counts) == len(values)
    assert histogram.total == pytest.approx(sum(values))


def test_a_bucket_has_its_bound() -> None:
    """A value that is equal to the bound of a bucket is counted in it, as Prometheus does."""
    assert Histogram.empty((0.0, 1.0)).observe(1.0).counts == (0, 1, 0)


def running_sums(counts: tuple[int, ...]) -> list[int]:
    """Return the sum of the first one, of the first two, and so on, of ``counts``."""
    return list(accumulate(counts))


@pytest.mark.parametrize("bounds", [NOTICE_BOUNDS, LATENCY_BOUNDS, STATE_BOUNDS, PAUSE_BOUNDS])
def test_bounds_ascend(bounds: tuple[float, ...]) -> None:
    """Bounds that do not ascend would count into the wrong buckets."""
    assert list(bounds) == sorted(set(bounds))


def test_invented_types_are_bounded() -> None:
    """Of many unknown types, and of many sources, most are counted together, and no transition is
    lost.
    """
    events = [replace(LIFE.event, event_type=f"Type{n}", source=f"Source{n}") for n in range(500)]
    changes = [Change(Transition.DETECTED, replace(LIFE, event=event), at(1)) for event in events]
    result = counted(statistics(*changes[:250]).plus(changes[250:]))
    assert sum(result.values()) == len(changes)
    most_types = 30  # that have series of their own
    assert len({event_type for event_type, _, _, _ in result} - {"other"}) <= most_types
    assert result["other", "other", "self", "detected"] >= len(changes) - most_types
