"""The life of an event from its first sight to its end, case by case, in the contract's words."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import pytest

from azure_scheduled_events_exporter.core.approvals import mark_approved, mark_requested
from azure_scheduled_events_exporter.core.document import Document, ScheduledEvent, Scope
from azure_scheduled_events_exporter.core.lifecycle import (
    REMEMBERED_ENDS,
    Approver,
    Lifecycles,
    State,
    Transition,
)
from azure_scheduled_events_exporter.core.observation import observe
from azure_scheduled_events_exporter.core.observation_context import ObservationContext
from support.events.lives import NOT_BEFORE, SCHEDULED, START, STARTED, VM, Watch, at

NOTHING = Document(9)


LATER = replace(SCHEDULED, not_before=NOT_BEFORE + 60)
TIMELESS = replace(SCHEDULED, not_before=None)
ADVICE = replace(
    SCHEDULED, event_type="SpotRebalanceRecommendation", status="Advisory", not_before=None
)


@dataclass(frozen=True)
class Step:
    """One document of a story.

    Attributes:
        seconds: when it comes, after START.
        event: what it shows; None: no event.
        transitions: what it brings.
        is_watched: whether somebody polled until then.
    """

    seconds: float
    event: ScheduledEvent | None
    transitions: Sequence[str]
    is_watched: bool = True


Story = list[Step]

STORIES: dict[str, Story] = {
    "announced, starts in time": [
        Step(0, None, []),
        Step(1, SCHEDULED, ["detected"]),
        Step(2, SCHEDULED, []),
        Step(901, STARTED, ["started"]),
        Step(902, STARTED, []),
        Step(1500, None, ["completed"]),
    ],
    "a host failure": [Step(0, STARTED, ["detected", "started"]), Step(600, None, ["completed"])],
    "leaves before NotBefore": [Step(0, SCHEDULED, ["detected"]), Step(899, None, ["cancelled"])],
    "leaves after NotBefore": [Step(0, SCHEDULED, ["detected"]), Step(900, None, ["lost"])],
    "leaves while nobody polls": [
        Step(0, SCHEDULED, ["detected"]),
        Step(100, None, ["lost"], is_watched=False),
    ],
    "leaves, late, while nobody polls": [
        Step(0, SCHEDULED, ["detected"]),
        Step(2000, None, ["lost"], is_watched=False),
    ],
    "ends while nobody polls": [
        Step(0, STARTED, ["detected", "started"]),
        Step(5000, None, ["completed"], is_watched=False),
    ],
    "never had a NotBefore": [Step(0, TIMELESS, ["detected"]), Step(1, None, ["lost"])],
    "NotBefore moves back and forth": [
        Step(0, SCHEDULED, ["detected"]),
        Step(1, LATER, ["rescheduled"]),
        Step(2, SCHEDULED, ["rescheduled"]),
        Step(3, SCHEDULED, []),
    ],
    "NotBefore is unreadable for a while": [
        Step(0, SCHEDULED, ["detected"]),
        Step(1, TIMELESS, []),
        Step(2, SCHEDULED, []),
        Step(3, TIMELESS, []),
        Step(4, None, ["cancelled"]),
    ],
    "NotBefore is known at last": [
        Step(0, TIMELESS, ["detected"]),
        Step(1, SCHEDULED, []),
        Step(2, None, ["cancelled"]),
    ],
    "Started with a NotBefore": [
        Step(0, SCHEDULED, ["detected"]),
        Step(10, replace(STARTED, not_before=START + 10), ["approved", "started"]),
        Step(11, replace(STARTED, not_before=START + 9000), []),
    ],
    "outdated documents after the start": [
        Step(0, SCHEDULED, ["detected"]),
        Step(900, STARTED, ["started"]),
        Step(901, LATER, []),
        Step(902, replace(LATER, status="Paused"), []),
        Step(903, replace(LATER, status=""), []),
        Step(904, ADVICE, []),
        Step(905, STARTED, []),
        Step(906, None, ["completed"]),
    ],
    "returns after a wrong cancellation": [
        Step(0, SCHEDULED, ["detected"]),
        Step(10, None, ["cancelled"]),
        Step(11, SCHEDULED, ["returned"]),
        Step(12, LATER, ["rescheduled"]),
        Step(13, STARTED, ["approved", "started"]),
        Step(600, None, ["completed"]),
    ],
    "returns after it was lost": [
        Step(0, SCHEDULED, ["detected"]),
        Step(10, None, ["lost"], is_watched=False),
        Step(11, SCHEDULED, ["returned"]),
        Step(12, None, ["cancelled"]),
    ],
    "returns Started": [
        Step(0, SCHEDULED, ["detected"]),
        Step(10, None, ["cancelled"]),
        Step(11, STARTED, ["returned", "approved", "started"]),
        Step(12, None, ["completed"]),
    ],
    "returns after it completed": [
        Step(0, SCHEDULED, ["detected"]),
        Step(900, STARTED, ["started"]),
        Step(910, None, ["completed"]),
        Step(911, STARTED, ["returned"]),
        Step(1500, None, ["completed"]),
    ],
    "starts after an undocumented status": [
        Step(0, replace(SCHEDULED, status="Paused"), ["detected"]),
        Step(10, STARTED, ["approved", "started"]),
        Step(11, None, ["completed"]),
    ],
    "gone after an undocumented status": [
        Step(0, replace(SCHEDULED, status=""), ["detected"]),
        Step(1, None, ["lost"]),
    ],
    "an undocumented status for a while": [
        Step(0, SCHEDULED, ["detected"]),
        Step(1, replace(SCHEDULED, status="Paused"), []),
        Step(2, SCHEDULED, []),
        Step(3, replace(SCHEDULED, status="Paused"), []),
        Step(4, LATER, ["rescheduled"]),
        Step(5, None, ["cancelled"]),
    ],
    "advice": [Step(0, ADVICE, ["detected"]), Step(1, ADVICE, []), Step(2, None, ["withdrawn"])],
    "advice, gone while nobody polls": [
        Step(0, ADVICE, ["detected"]),
        Step(5000, None, ["withdrawn"], is_watched=False),
    ],
    "advice returns": [
        Step(0, ADVICE, ["detected"]),
        Step(1, None, ["withdrawn"]),
        Step(2, ADVICE, ["returned"]),
    ],
    "advice becomes an event": [
        Step(0, ADVICE, ["detected"]),
        Step(1, SCHEDULED, []),
        Step(2, STARTED, ["approved", "started"]),
        Step(4, None, ["completed"]),
    ],
    "advice becomes a start": [Step(0, ADVICE, ["detected"]), Step(1, STARTED, ["started"])],
}


@pytest.mark.parametrize("story", STORIES.values(), ids=list(STORIES))
def test_story(story: Story) -> None:
    """Each document brings the transitions of the contract."""
    watch = Watch()
    for step in story:
        events = () if step.event is None else (step.event,)
        transitions = watch.sees(at(step.seconds), *events, watched=step.is_watched)
        assert transitions == step.transitions, step


def test_an_event_that_only_the_journal_knows() -> None:
    """An event that no document of this run has shown is lost when it is missing, also before its
    NotBefore: nobody watched between the runs.
    """
    watch = Watch()
    watch.sees(at(0), SCHEDULED)
    watch.restarts()
    assert watch.sees(at(1)) == ["lost"]


def test_what_a_life_remembers() -> None:
    """A life has its times, its notice and its approver, and what the newest document says."""
    watch = Watch()
    watch.sees(at(0), SCHEDULED)
    assert (watch.life.first_seen, watch.life.notice_seconds) == (at(0), 900.0)
    assert watch.approves(at(13)) == ["approved"]
    watch.sees(at(14), STARTED)
    again = replace(STARTED, description="a second impact", duration_seconds=5.0)
    assert watch.sees(at(60), again) == []
    life = watch.known.current["A"]
    assert (life.event, life.started_at) == (again, at(14))
    watch.sees(at(600))
    life = watch.life
    assert life.approved_by is Approver.EXPORTER
    assert (life.outcome, life.ended_at) == (Transition.COMPLETED, at(600))
    assert watch.known == Lifecycles(current={}, ended={"A": life})


def test_what_a_life_that_returns_remembers() -> None:
    """An event that returns has no end any more; its first times stay, and its moves are in
    order.
    """
    watch = Watch()
    watch.sees(at(0), SCHEDULED)
    watch.sees(at(10))
    watch.sees(at(11), SCHEDULED)
    assert (watch.life.outcome, watch.life.ended_at, watch.life.first_seen) == (None, None, at(0))
    watch.sees(at(12), LATER)
    assert (watch.life.not_before, watch.life.notice_seconds) == (LATER.not_before, 900.0)
    assert [move.transition for move in watch.life.moves] == [
        Transition.RETURNED,
        Transition.RESCHEDULED,
    ]


@pytest.mark.parametrize(
    ("event", "first_seen", "notice"),
    [
        pytest.param(SCHEDULED, 1000, 0.0, id="first seen 100 s after NotBefore"),
        pytest.param(TIMELESS, 0, None, id="without a NotBefore"),
        pytest.param(STARTED, 0, 0.0, id="first seen Started"),
        # Azure starts what a user requests at once.
        pytest.param(replace(STARTED, source="User"), 0, None, id="a user's, never Scheduled"),
        pytest.param(replace(ADVICE, not_before=NOT_BEFORE), 0, None, id="advice"),
    ],
)
def test_notice(event: ScheduledEvent, first_seen: float, notice: float | None) -> None:
    """The notice is never negative. Advice has none, nor has a user's event that was never
    Scheduled. An event that nobody was seen to approve has no approver.

    ``first_seen`` is in seconds after START, and None is no notice.
    """
    watch = Watch()
    watch.sees(at(first_seen), event)
    assert watch.life.notice_seconds == notice
    assert watch.life.approved_by is None


def test_advice_takes_no_approval() -> None:
    """Advice cannot be approved and never begins, also if a boot of this VM follows it."""
    watch = Watch()
    # An event of this type would be proven by the boot.
    watch.sees(at(0), replace(ADVICE, event_type="Preempt"))
    assert watch.approves(at(0)) == []
    assert watch.life.impact_at is None
    assert watch.sees(at(9), watched=False, booted_at=at(5, boot="boot-2")) == ["withdrawn"]


def test_returned_after_a_boot_proved_too_much() -> None:
    """After a boot, an event that was missing from the document seemed completed. If it is shown as
    Scheduled again, what was concluded from the boot is taken back: its start and its approval.
    """
    watch = Watch()
    watch.sees(at(0), SCHEDULED)
    booted = at(905, boot="boot-2")  # NotBefore is at 900
    assert watch.sees(at(940, boot="boot-2"), watched=False, booted_at=booted) == ["completed"]
    assert watch.sees(at(941, boot="boot-2"), SCHEDULED, booted_at=booted) == ["returned"]
    life = watch.known.current["A"]
    assert (life.state, life.started_at, life.approved_by, life.proven_by_boot) == (
        State.SCHEDULED,
        None,
        None,
        False,
    )
    assert watch.sees(at(950, boot="boot-2"), STARTED, booted_at=booted) == ["started"]


def test_ends_are_remembered_up_to_a_limit() -> None:
    """The memory of ended events is bounded: the oldest is forgotten first."""
    watch = Watch()
    for number in range(REMEMBERED_ENDS + 5):
        watch.sees(at(number), replace(SCHEDULED, event_id=f"E{number}"))
    assert len(watch.known.ended) == REMEMBERED_ENDS
    # Each event ends when the next one is seen. The last one is current, so four are too many.
    assert "E3" not in watch.known.ended
    assert "E4" in watch.known.ended
    assert f"E{REMEMBERED_ENDS + 3}" in watch.known.ended


@pytest.mark.parametrize(
    ("events", "transitions"),
    [((), []), ((replace(SCHEDULED, event_id="B"),), ["detected"])],
)
def test_unreadable_document_ends_nothing(
    events: tuple[ScheduledEvent, ...], transitions: list[str]
) -> None:
    """While a part of the document cannot be read, an event that is missing may be hidden there, so
    it stays.
    """
    watch = Watch()
    watch.sees(at(0), SCHEDULED)
    before = watch.known.current["A"]
    assert watch.sees(at(1), *events, unreadable=("Events[0] is no object",)) == transitions
    assert watch.known.current["A"] == before
    assert watch.sees(at(2), SCHEDULED, *events) == []
    assert watch.sees(at(3), *events) == ["cancelled"]


def test_scope_follows_what_is_known() -> None:
    """An event's scope is unknown until this VM knows its own name, and follows that name from then
    on: SCHEDULED is an event of ``vm_0`` and ``vm_1``.
    """
    watch = Watch(vm_name=None)
    watch.sees(at(0), SCHEDULED)
    assert watch.scope() is Scope.UNKNOWN
    watch.vm_name = "VM_1"
    assert watch.sees(at(1), SCHEDULED) == []
    assert watch.scope() is Scope.SELF
    watch.vm_name = "vm_2"
    watch.sees(at(2), SCHEDULED)
    watch.sees(at(3))
    assert watch.life.scope is Scope.PEER


def test_scope_of_an_event_that_leaves_as_the_name_is_known() -> None:
    """An event that was last shown before this VM knew its name ends as one of this VM."""
    watch = Watch(vm_name=None)
    watch.sees(at(0), SCHEDULED)
    watch.vm_name = "VM_1"
    assert watch.sees(at(1)) == ["cancelled"]
    assert (watch.life.scope, watch.life.vm_name) == (Scope.SELF, "VM_1")


def test_two_events_live_apart() -> None:
    """What happens to one event is nothing to another, and changes come in the order of the
    document.
    """
    watch = Watch()
    other = replace(SCHEDULED, event_id="B")
    assert watch.sees(at(0), other, SCHEDULED) == ["detected", "detected"]
    assert [change.lifecycle.event_id for change in watch.changes] == ["B", "A"]
    assert watch.sees(at(900), STARTED) == ["started", "lost"]
    assert set(watch.known.current) == {"A"}
    assert {event_id: life.outcome for event_id, life in watch.known.ended.items()} == {
        "B": Transition.LOST
    }


def test_a_change_holds_the_life_as_it_was_then() -> None:
    """Of two changes at one moment, the first shows the life without what the second adds."""
    watch = Watch()
    watch.sees(at(0), SCHEDULED)
    watch.sees(at(10), STARTED)
    approved, started = watch.changes[-2:]
    assert approved.lifecycle.approved_by is Approver.EXTERNAL
    assert approved.lifecycle.started_at is None
    assert started.lifecycle.started_at == at(10)


def test_known_state_is_left_alone() -> None:
    """The state from before a document stays unchanged for its readers."""
    watch = Watch()
    watch.sees(at(0), SCHEDULED)
    before = watch.known
    frozen = (dict(before.current), dict(before.ended))
    observe(before, NOTHING, ObservationContext(at(10), VM))
    observe(before, Document(1, (STARTED,)), ObservationContext(at(10), VM))
    mark_approved(before, "A", Approver.OPERATOR, at(10))
    mark_requested(before, "A", Approver.OPERATOR, at(10))
    assert (dict(before.current), dict(before.ended)) == frozen


def test_between_which_documents_an_event_started_and_ended() -> None:
    """A life has when a document last showed the event as not started (``pending_until``), and when
    one last showed it at all, as soon as it has ended (``shown_until``).
    """
    watch = Watch()
    watch.sees(at(0), SCHEDULED)
    watch.sees(at(899), SCHEDULED)
    watch.sees(at(901), STARTED)
    assert (watch.life.pending_until, watch.life.shown_until) == (START + 899, None)
    watch.sees(at(950), STARTED)
    watch.sees(at(960))
    assert (watch.life.pending_until, watch.life.shown_until) == (START + 899, START + 950)
    watch.sees(at(970), STARTED)
    assert watch.known.current["A"].shown_until is None, "it has returned"


def test_a_document_of_an_earlier_run_does_not_count() -> None:
    """``pending_until`` and ``shown_until`` are not known if the document before the start or the
    end was one of an earlier run: nobody looked in between.
    """
    watch = Watch()
    watch.sees(at(0), SCHEDULED)
    watch.restarts()
    watch.sees(at(901), STARTED, watched=False)
    assert watch.life.pending_until is None
    watch.restarts()
    watch.sees(at(2000), watched=False)
    assert watch.life.shown_until is None
