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


BOTH = ["approved", "started"]
ONE = ["started"]


@pytest.mark.parametrize(
    ("answer", "seconds", "told", "approver"),
    [
        ("", 10.0, BOTH, Approver.EXTERNAL),
        ("", 894.9, BOTH, Approver.EXTERNAL),
        *(
            ("", seconds, ONE, Approver.DEADLINE)
            for seconds in (895.0, 899.0, 900.0, 901.0, 5000.0)
        ),
        ("accepted", 10.0, ONE, Approver.OPERATOR),
        ("accepted", 901.0, ONE, Approver.OPERATOR),
        ("refused", 10.0, BOTH, Approver.EXTERNAL),
        ("none", 10.0, BOTH, Approver.OPERATOR),
        ("none", 900.0, ONE, Approver.DEADLINE),
        ("none", -901.0, BOTH, Approver.OPERATOR),  # nobody saw it wait until NotBefore
    ],
)
def test_who_approved_a_start(
    answer: str, seconds: float, told: list[str], approver: Approver
) -> None:
    """A start more than 5 s before NotBefore was approved: from here if that was accepted or not
    answered.

    ``answer`` is what IMDS answered to a request from here a second after the event was first
    seen; empty: there was none. ``seconds`` is when it was seen Started; nobody watched before a
    moment with a minus.
    """
    watch = Watch()
    watch.sees(at(0), SCHEDULED)
    if answer:
        watch.known = mark_requested(watch.known, "A", Approver.OPERATOR, at(1))
        assert not watch.known.current["A"].approved_here
    if answer == "accepted":
        assert watch.approves(at(1), Approver.OPERATOR) == ["approved"]
        assert watch.life.request is None
    if answer == "refused":
        watch.known = mark_refused(watch.known, "A")
    assert watch.sees(at(abs(seconds)), STARTED, watched=seconds > 0) == told
    assert watch.life.approved_by is approver
    assert watch.life.approved_here is (approver is Approver.OPERATOR)
    assert watch.life.approved_at == (at(1) if answer == "accepted" else watch.life.started_at)


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


@pytest.mark.parametrize(("seconds", "is_open"), [(1, False), (59, False), (60, True)])
def test_not_before_moved_in_small_steps_after_an_approval(
    seconds: float, *, is_open: bool
) -> None:
    """An approved event is open to a second approval once NotBefore is a minute later, in however
    many steps.
    """
    watch = Watch()
    watch.sees(at(0), SCHEDULED)
    watch.approves(at(1))
    for step in range(1, int(seconds) + 1):
        watch.sees(at(1 + step), replace(SCHEDULED, not_before=NOT_BEFORE + step))
    assert watch.known.current["A"].is_open_to_approval is is_open


def test_not_before_moved_away_after_an_approval() -> None:
    """An approved event whose NotBefore then moves further away is open again, and its second
    approval counts once.
    """
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
