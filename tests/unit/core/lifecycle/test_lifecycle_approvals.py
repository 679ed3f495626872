"""Who approved an event: this exporter, an operator here, another program, or the deadline."""

from dataclasses import replace

import pytest

from azure_scheduled_events_exporter.core.approvals import mark_approved, mark_refused, mark_requested
from azure_scheduled_events_exporter.core.lifecycle import Approver
from support.events.lives import NOT_BEFORE, SCHEDULED, STARTED, Watch, at


def test_approved_event_that_is_cancelled() -> None:
    """An approval does not make an event happen: gone before NotBefore without a start is cancelled."""
    watch = Watch()
    watch.sees(at(0), SCHEDULED)
    watch.approves(at(1))
    assert watch.sees(at(100)) == ["cancelled"]


@pytest.mark.parametrize("seconds", [10.0, 894.9])
def test_external_approval(seconds: float) -> None:
    """A start more than 5 s before NotBefore without an approval from here was approved by another program."""
    watch = Watch()
    watch.sees(at(0), SCHEDULED)
    assert watch.sees(at(seconds), STARTED) == ["approved", "started"]
    assert watch.life.approved_by is Approver.EXTERNAL
    assert watch.life.approved_at == watch.life.started_at == at(seconds)
    assert not watch.life.approved_here


@pytest.mark.parametrize("seconds", [895.0, 899.0, 900.0, 901.0, 5000.0])
def test_deadline(seconds: float) -> None:
    """A start at NotBefore, or less than 5 s before it, was not approved: it started at the deadline."""
    watch = Watch()
    watch.sees(at(0), SCHEDULED)
    assert watch.sees(at(seconds), STARTED) == ["started"]
    assert watch.life.approved_by is Approver.DEADLINE


def test_start_of_an_event_without_not_before() -> None:
    """Without a NotBefore, the approver is unknown."""
    watch = Watch()
    watch.sees(at(0), replace(SCHEDULED, not_before=None))
    assert watch.sees(at(10), STARTED) == ["started"]
    assert watch.life.approved_by is None


@pytest.mark.parametrize("approver", [Approver.EXPORTER, Approver.OPERATOR])
@pytest.mark.parametrize("seconds", [10.0, 901.0])
def test_approved_here(approver: Approver, seconds: float) -> None:
    """An approval by this exporter or an operator here counts as theirs at any start time."""
    watch = Watch()
    watch.sees(at(0), SCHEDULED)
    assert watch.approves(at(1), approver) == ["approved"]
    assert watch.life.approved_here
    assert watch.known.current["A"].approved_at == at(1)
    assert watch.sees(at(seconds), STARTED) == ["started"]
    assert watch.life.approved_by is approver


@pytest.mark.parametrize(("watched", "approver"), [(False, Approver.EXPORTER), (True, Approver.DEADLINE)])
def test_start_after_a_request_without_an_answer(*, watched: bool, approver: Approver) -> None:
    """An approval that was sent and not answered started the event, unless it was seen to wait until NotBefore."""
    watch = Watch()
    watch.sees(at(0), SCHEDULED)
    watch.known = mark_requested(watch.known, ["A"], Approver.EXPORTER, at(1))
    watch.sees(at(901), STARTED, watched=watched)
    assert watch.life.approved_by is approver


def test_approval_counts_once() -> None:
    """A second approval of an event, by any approver, is not reported and changes nothing."""
    watch = Watch()
    watch.sees(at(0), SCHEDULED)
    watch.approves(at(1), Approver.OPERATOR)
    known = watch.known
    assert watch.approves(at(2), Approver.EXPORTER) == []
    assert watch.known == known


def test_approval_by_id_in_any_case() -> None:
    """An approval finds its event though the id is spelled in another case."""
    watch = Watch()
    watch.sees(at(0), SCHEDULED)
    assert watch.approves(at(1), event_id="a") == ["approved"]


def test_approval_of_what_is_not_pending() -> None:
    """An event that is unknown, has started or has ended cannot be approved."""
    watch = Watch()
    assert watch.approves(at(0), event_id="B") == []
    watch.sees(at(1), STARTED)
    assert watch.approves(at(2)) == []
    watch.sees(at(3))
    assert watch.approves(at(4)) == []


def test_several_approvals_at_once() -> None:
    """One answer may approve several events; an event named twice is approved once."""
    watch = Watch()
    watch.sees(at(0), *(replace(SCHEDULED, event_id=event_id) for event_id in "ABC"))
    known, changes = mark_approved(watch.known, ["a", "B", "A", "X"], Approver.OPERATOR, at(1))
    assert [change.lifecycle.event_id for change in changes] == ["A", "B"]
    assert {event_id for event_id, life in known.current.items() if life.approved_here} == {"A", "B"}
    assert list(known.current) == ["A", "B", "C"]


def test_answer_to_an_approval_that_never_came() -> None:
    """An event that starts early after we requested it began by our approval, though no answer ever came."""
    watch = Watch()
    watch.sees(at(0), SCHEDULED)
    watch.known = mark_requested(watch.known, ["a"], Approver.EXPORTER, at(1))
    assert not watch.known.current["A"].approved_here
    assert watch.sees(at(10), STARTED) == ["approved", "started"]
    assert watch.life.approved_by is Approver.EXPORTER


def test_unanswered_approval_and_the_deadline() -> None:
    """An event that starts at its NotBefore began by the deadline, requested in vain or not."""
    watch = Watch()
    watch.sees(at(0), SCHEDULED)
    watch.known = mark_requested(watch.known, ["A"], Approver.EXPORTER, at(1))
    assert watch.sees(at(900), STARTED) == ["started"]
    assert watch.life.approved_by is Approver.DEADLINE


def test_refused_approval() -> None:
    """After a refused approval, an early start counts as approved by another program."""
    watch = Watch()
    watch.sees(at(0), SCHEDULED)
    watch.known = mark_refused(mark_requested(watch.known, ["A"], Approver.EXPORTER, at(1)), ["A"])
    assert watch.sees(at(10), STARTED) == ["approved", "started"]
    assert watch.life.approved_by is Approver.EXTERNAL


def test_requested_then_approved() -> None:
    """An accepted approval is reported once, and the start follows."""
    watch = Watch()
    watch.sees(at(0), SCHEDULED)
    watch.known = mark_requested(watch.known, ["A"], Approver.OPERATOR, at(1))
    assert watch.approves(at(1), Approver.OPERATOR) == ["approved"]
    assert watch.life.requested_by is None
    assert watch.sees(at(10), STARTED) == ["started"]


@pytest.mark.parametrize(("seconds", "is_open"), [(1, False), (59, False), (60, True)])
def test_not_before_moved_by_little_after_an_approval(seconds: float, *, is_open: bool) -> None:
    """An approved event is open to a second approval once NotBefore is a minute later, in however many steps."""
    watch = Watch()
    watch.sees(at(0), SCHEDULED)
    watch.approves(at(1))
    for step in range(1, int(seconds) + 1):
        watch.sees(at(1 + step), replace(SCHEDULED, not_before=NOT_BEFORE + step))
    assert watch.known.current["A"].is_open_to_approval is is_open


def test_not_before_moved_away_after_an_approval() -> None:
    """An approved event whose NotBefore then moves further away is open again, and its second approval counts once."""
    watch = Watch()
    watch.sees(at(0), SCHEDULED)
    watch.approves(at(1))
    later = replace(SCHEDULED, not_before=NOT_BEFORE + 3600)
    assert watch.sees(at(2), later) == ["rescheduled"]
    life = watch.known.current["A"]
    assert (life.is_postponed, life.is_open_to_approval, life.approved_here) == (True, True, True)
    assert watch.approves(at(3)) == []
    assert not watch.known.current["A"].is_open_to_approval
    assert watch.sees(at(4), STARTED) == ["started"]
    assert watch.life.approved_at == at(1)


def test_not_before_moved_closer_after_an_approval() -> None:
    """An approved event whose NotBefore moves closer stays approved."""
    watch = Watch()
    watch.sees(at(0), SCHEDULED)
    watch.approves(at(1))
    watch.sees(at(2), replace(SCHEDULED, not_before=NOT_BEFORE - 60))
    assert not watch.known.current["A"].is_open_to_approval
