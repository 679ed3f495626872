"""When a run of a hook is stopped and killed, and how it has ended."""

from dataclasses import replace
from signal import SIGTERM

import pytest

from azure_scheduled_events_exporter.commands.hook.plan import Rules
from azure_scheduled_events_exporter.commands.hook.stops import (
    Reason,
    Stop,
    deadline,
    kill_at,
    outcome_of,
    reason_to_stop,
)
from azure_scheduled_events_exporter.commands.hook.view import View
from azure_scheduled_events_exporter.core.lifecycle import State, Transition
from azure_scheduled_events_exporter.snapshot.hooks import Phase
from support.events.hooked_events import NOW, life, ran, seen

PREPARES = ran("A", Phase.PREPARE, NOW, None)
RECOVERS = ran("A", Phase.RECOVER, NOW, None)
CANCELLED = replace(life(), outcome=Transition.CANCELLED)


@pytest.mark.parametrize(
    ("left", "allowed"), [(30.0, 25.0), (8.0, 4.0), (None, 900.0), (3600.0, 900.0)]
)
def test_deadline(left: float | None, allowed: float) -> None:
    """A run has until --grace (5 s) before NotBefore, half of a shorter notice, and never longer
    than --timeout (900 s).
    """
    not_before = None if left is None else NOW + left
    assert deadline(NOW, not_before, Rules()) == NOW + allowed
    view = seen([life(left=left)], [PREPARES], now=NOW + allowed)
    assert reason_to_stop(PREPARES, view, Rules()) is Reason.DEADLINE


def recovering(*, left: float | None) -> View:
    """Return what a hook sees that recovers after event A, when event B has come.

    NotBefore of B is in ``left`` seconds; None: there is no event B.
    """
    current = [] if left is None else [life(event_id="B", left=left)]
    # Event A is over: nine documents have lacked it.
    return seen(current, [RECOVERS], active={RECOVERS.run}, missing=9)


def test_a_new_event_stops_a_recovery() -> None:
    """A recovery is stopped when a preparation is due. It has --grace (5 s) to end, but at most
    half of the notice of the new event.
    """
    assert reason_to_stop(RECOVERS, recovering(left=None), Rules()) is None
    assert reason_to_stop(RECOVERS, recovering(left=1000.0), Rules()) is None, "beyond --lead"
    assert reason_to_stop(RECOVERS, recovering(left=30.0), Rules()) is Reason.NEW_EVENT
    stop = Stop(Reason.NEW_EVENT, NOW)
    assert kill_at(RECOVERS, stop, recovering(left=30.0), Rules()) == NOW + 5
    assert kill_at(RECOVERS, stop, recovering(left=30.0), Rules(grace=60.0)) == NOW + 15
    assert outcome_of(RECOVERS, 0, stop, recovering(left=30.0)) is None, "it runs again later"


def test_an_event_that_is_over_stops_its_preparation() -> None:
    """A preparation is stopped when three documents in a row lack its event. That is no failure if
    the event was cancelled; if it took place, the preparation was too late.
    """
    lacked_twice = seen(runs=[PREPARES], active={PREPARES.run}, missing=2, ended=[CANCELLED])
    assert reason_to_stop(PREPARES, lacked_twice, Rules()) is None
    gone = replace(lacked_twice, missing={"A": 3})
    assert reason_to_stop(PREPARES, gone, Rules()) is Reason.OVER
    stop = Stop(Reason.OVER, NOW)
    assert kill_at(PREPARES, stop, gone, Rules()) == NOW + 5
    assert outcome_of(PREPARES, -SIGTERM, stop, gone) == "cancelled"
    completed = replace(life(state=State.STARTED), outcome=Transition.COMPLETED)
    took_place = replace(gone, ended={"A": completed})
    assert outcome_of(PREPARES, -SIGTERM, stop, took_place) == "too_late"


def test_the_last_not_before_holds_while_a_document_lacks_the_event() -> None:
    """A preparation is stopped before NotBefore also if the last document has lacked its event."""
    # One document without the event is no proof that it is over, although its life has ended.
    # The notice is 5 s, and the run began at NOW: after half of the notice, it has to end.
    view = seen(runs=[PREPARES], missing=1, ended=[life(left=5.0)], now=NOW + 3)
    assert reason_to_stop(PREPARES, view, Rules()) is Reason.DEADLINE
    not_before = NOW + 5
    assert kill_at(PREPARES, Stop(Reason.DEADLINE, NOW + 3), view, Rules()) == not_before


@pytest.mark.parametrize(
    ("view", "outcome"),
    [
        pytest.param(seen([life(left=1.0)]), "ok", id="before NotBefore"),
        pytest.param(seen([life(left=-1.0)]), "too_late", id="after NotBefore"),
        pytest.param(seen([life(state=State.STARTED)]), "too_late", id="started early"),
        pytest.param(seen(ended=[CANCELLED], now=NOW + 9999), "ok", id="cancelled"),
        pytest.param(seen(), "ok", id="unknown"),
    ],
)
def test_outcomes(view: View, outcome: str) -> None:
    """A preparation that ended by itself with status 0 was too late if the event had begun, or its
    NotBefore was over; otherwise it is ok. Whether the event had begun does not matter to a
    preparation that failed or was stopped, nor to a recovery.
    """
    assert outcome_of(PREPARES, 0, None, view) == outcome
    assert outcome_of(PREPARES, 1, None, view) == "failed"
    assert outcome_of(PREPARES, 0, Stop(Reason.DEADLINE, NOW), view) == "timeout"
    assert outcome_of(RECOVERS, 0, None, view) == "ok"
