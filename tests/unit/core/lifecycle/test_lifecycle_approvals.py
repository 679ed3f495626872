"""Who approved an event: this exporter, an operator here, another program, or the deadline."""

from dataclasses import replace

import pytest

from azure_scheduled_events_exporter.core.approvals import mark_refused, mark_requested
from azure_scheduled_events_exporter.core.lifecycle import Approver
from support.events.lives import NOT_BEFORE, SCHEDULED, STARTED, Watch, at


def test_approved_event_that_is_cancelled() -> None:
    """An approval does not make an event happen: gone before NotBefore without a start is
    cancelled.
    """
    watch = Watch()
    watch.sees(at(0), SCHEDULED)
    watch.approves(at(1))
    assert watch.sees(at(100)) == ["cancelled"]


def started_after(seconds: float, *, watched: bool = True) -> Watch:
    """Return what was seen of an event that nobody here approved, Started at ``seconds``."""
    watch = Watch()
    watch.sees(at(0), SCHEDULED)
    watch.sees(at(seconds), STARTED, watched=watched)
    return watch


@pytest.mark.parametrize("seconds", [10.0, 894.9])
def test_an_early_start_was_approved_elsewhere(seconds: float) -> None:
    """A start more than 5 s before NotBefore, at 900 s, was approved, and not from here."""
    watch = started_after(seconds)
    assert watch.transitions == ["detected", "approved", "started"]
    assert watch.life.approved_by is Approver.EXTERNAL
    assert not watch.life.approved_here
    assert watch.life.approved_at == watch.life.started_at


@pytest.mark.parametrize("seconds", [895.0, 899.0, 900.0, 901.0, 5000.0])
def test_a_start_at_not_before_was_not_approved(seconds: float) -> None:
    """From 5 s before NotBefore, at 900 s, it is the deadline that starts an event."""
    watch = started_after(seconds)
    assert watch.transitions == ["detected", "started"]
    assert watch.life.approved_by is Approver.DEADLINE
    assert watch.life.approved_at == watch.life.started_at


@pytest.mark.parametrize("seconds", [10.0, 901.0])
def test_a_start_after_an_accepted_approval(seconds: float) -> None:
    """An approval that IMDS has accepted is the one that counts, whenever the event starts."""
    watch = Watch()
    watch.sees(at(0), SCHEDULED)
    watch.known = mark_requested(watch.known, "A", Approver.OPERATOR, at(1))
    assert not watch.known.current["A"].approved_here
    assert watch.approves(at(2), Approver.OPERATOR) == ["approved"]
    assert watch.life.request is None
    assert watch.sees(at(seconds), STARTED) == ["started"]
    assert watch.life.approved_by is Approver.OPERATOR
    assert watch.life.approved_here
    assert watch.life.approved_at == at(2)


def test_a_start_after_a_refused_approval() -> None:
    """A request that IMDS refused starts nothing: somebody else has approved the event."""
    watch = Watch()
    watch.sees(at(0), SCHEDULED)
    watch.known = mark_requested(watch.known, "A", Approver.OPERATOR, at(1))
    watch.known = mark_refused(watch.known, "A")
    assert watch.sees(at(10), STARTED) == ["approved", "started"]
    assert watch.life.approved_by is Approver.EXTERNAL


@pytest.mark.parametrize(
    ("seconds", "watched", "transitions", "approver"),
    [
        pytest.param(10.0, True, ["approved", "started"], Approver.OPERATOR, id="early"),
        pytest.param(900.0, True, ["started"], Approver.DEADLINE, id="at NotBefore"),
        pytest.param(
            901.0,
            False,
            ["approved", "started"],
            Approver.OPERATOR,
            id="nobody saw it wait until NotBefore",
        ),
    ],
)
def test_a_start_after_a_request_without_an_answer(
    seconds: float, watched: bool, transitions: list[str], approver: Approver
) -> None:
    """A request that was not answered counts as the approval, unless the event was seen waiting
    until NotBefore, at 900 s.

    ``watched`` is whether no document was missed before the one that shows it Started.
    """
    watch = Watch()
    watch.sees(at(0), SCHEDULED)
    watch.known = mark_requested(watch.known, "A", Approver.OPERATOR, at(1))
    assert watch.sees(at(seconds), STARTED, watched=watched) == transitions
    assert watch.life.approved_by is approver
    assert watch.life.approved_at == watch.life.started_at


def test_start_of_an_event_without_not_before() -> None:
    """Without a NotBefore, the approver is unknown."""
    watch = Watch()
    watch.sees(at(0), replace(SCHEDULED, not_before=None))
    assert watch.sees(at(10), STARTED) == ["started"]
    assert watch.life.approved_by is None


def test_approval_counts_once() -> None:
    """A second approval of an event, by any approver, is not reported and changes nothing."""
    watch = Watch()
    watch.sees(at(0), SCHEDULED)
    watch.approves(at(1), Approver.OPERATOR)
    known = watch.known
    assert watch.approves(at(2), Approver.EXPORTER) == []
    assert watch.known == known


def test_approval_of_what_is_not_pending() -> None:
    """An event that is unknown, has started or has ended cannot be approved."""
    watch = Watch()
    assert watch.approves(at(0), event_id="B") == []
    watch.sees(at(1), STARTED)
    assert watch.approves(at(2)) == []
    watch.sees(at(3))
    assert watch.approves(at(4)) == []


@pytest.mark.parametrize(("steps", "is_open"), [(1, False), (59, False), (60, True)])
def test_not_before_moved_in_small_steps_after_an_approval(steps: int, *, is_open: bool) -> None:
    """An approved event is open to a second approval once NotBefore is a minute later, also if it
    moves by a second in each document.
    """
    watch = Watch()
    watch.sees(at(0), SCHEDULED)
    watch.approves(at(1))
    for step in range(1, steps + 1):
        watch.sees(at(1 + step), replace(SCHEDULED, not_before=NOT_BEFORE + step))
    assert watch.known.current["A"].is_open_to_approval is is_open


def test_not_before_moved_away_after_an_approval() -> None:
    """An approved event whose NotBefore then moves further away is open to a second approval. The
    second one is no further transition, and the event keeps the time of the first.
    """
    watch = Watch()
    watch.sees(at(0), SCHEDULED)
    watch.approves(at(1))
    later = replace(SCHEDULED, not_before=NOT_BEFORE + 3600)
    assert watch.sees(at(2), later) == ["rescheduled"]
    life = watch.known.current["A"]
    assert life.is_postponed
    assert life.is_open_to_approval
    assert life.approved_here
    assert watch.approves(at(3)) == []
    assert not watch.known.current["A"].is_open_to_approval
    assert watch.sees(at(4), STARTED) == ["started"]
    assert watch.life.approved_at == at(1)


def test_not_before_moved_closer_after_an_approval() -> None:
    """An approved event whose NotBefore moves closer needs no second approval."""
    watch = Watch()
    watch.sees(at(0), SCHEDULED)
    watch.approves(at(1))
    watch.sees(at(2), replace(SCHEDULED, not_before=NOT_BEFORE - 60))
    assert not watch.known.current["A"].is_open_to_approval
