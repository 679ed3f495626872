"""The life of an event from its first sight to its end, case by case, in the contract's words."""

from dataclasses import replace

import pytest

from azure_scheduled_events_exporter.core.approvals import mark_approved, mark_requested
from azure_scheduled_events_exporter.core.document import Document, ScheduledEvent, Scope, parse_document
from azure_scheduled_events_exporter.core.lifecycle import REMEMBERED_ENDS, Approver, Lifecycles, State, Transition
from azure_scheduled_events_exporter.core.observation import ObservationContext, merge_recovered, observe
from azure_scheduled_events_exporter.core.timestamp import Timestamp
from support.events.lives import NOT_BEFORE, SCHEDULED, START, STARTED, VM, Watch, at

NOTHING = Document(9)


def test_live_migration() -> None:
    """An event that is announced, starts at its time and leaves is detected, started and completed."""
    watch = Watch()
    event, started = replace(SCHEDULED, event_type="Freeze"), replace(STARTED, event_type="Freeze")
    assert watch.sees(at(0)) == []
    assert watch.sees(at(1), event) == ["detected"]
    assert watch.life.notice_seconds == 899.0
    assert watch.sees(at(2), event) == []
    assert watch.sees(at(901), started) == ["started"]
    assert watch.life.started_at == at(901)
    assert watch.sees(at(902), started) == []
    assert watch.sees(at(1500)) == ["completed"]
    assert watch.life.outcome is Transition.COMPLETED
    assert watch.life.ended_at == at(1500)
    assert watch.known == Lifecycles({}, {"A": watch.life})


def test_documented_live_migration() -> None:
    """The four documents of Microsoft's page make one life, with NotBefore kept although Started no longer has it."""
    known = Lifecycles()
    told = []
    for number, (status, text) in enumerate(
        [("", ""), ("Scheduled", "Mon, 11 Apr 2022 22:26:58 GMT"), ("Started", ""), ("", "")]
    ):
        entry = f'{{"EventId": "c7", "EventType": "Freeze", "EventStatus": "{status}", "NotBefore": "{text}"}}'
        document = parse_document(
            f'{{"DocumentIncarnation": {number}, "Events": [{entry if status else ""}]}}'.encode()
        )
        known, changes = observe(known, document, ObservationContext(Timestamp(1649716020.0 + number, number, "b")))
        told += [(str(change.transition), change.lifecycle.not_before) for change in changes]
    assert told == [("detected", 1649716018.0), ("started", 1649716018.0), ("completed", 1649716018.0)]


def test_host_failure() -> None:
    """An event that first appears as Started gave no notice: detected and started at the same time, not approved."""
    watch = Watch()
    assert watch.sees(at(0), STARTED) == ["detected", "started"]
    assert watch.life.notice_seconds == 0.0
    assert watch.life.started_at == watch.life.first_seen == at(0)
    assert watch.life.approved_by is None
    assert watch.life.state is State.STARTED
    assert watch.sees(at(600)) == ["completed"]


def test_cancelled() -> None:
    """An event that leaves before its NotBefore while we watch was cancelled."""
    watch = Watch()
    watch.sees(at(0), SCHEDULED)
    assert watch.sees(at(899)) == ["cancelled"]


def test_lost_after_not_before() -> None:
    """An event that leaves after its NotBefore without having been seen Started is lost."""
    watch = Watch()
    watch.sees(at(0), SCHEDULED)
    assert watch.sees(at(900)) == ["lost"]
    assert watch.life.started_at is None


@pytest.mark.parametrize("seconds", [100, 2000])
def test_lost_while_nobody_polled(seconds: float) -> None:
    """An event that left while no exporter polled is lost, before and after NotBefore."""
    watch = Watch()
    watch.sees(at(0), SCHEDULED)
    assert watch.sees(at(seconds), watched=False) == ["lost"]


def test_lost_without_a_not_before() -> None:
    """An event of which no NotBefore was ever known was not seen to be cancelled: it is lost."""
    watch = Watch()
    watch.sees(at(0), replace(SCHEDULED, not_before=None))
    assert watch.life.notice_seconds is None
    assert watch.sees(at(1)) == ["lost"]


def test_started_event_that_left_while_nobody_polled() -> None:
    """A started event that is gone has ended, watched or not."""
    watch = Watch()
    watch.sees(at(0), STARTED)
    assert watch.sees(at(5000), watched=False) == ["completed"]


@pytest.mark.parametrize("moved", [600.0, -300.0])
def test_rescheduled(moved: float) -> None:
    """Every change of NotBefore, to earlier or later, is reported, and the newest one counts."""
    watch = Watch()
    watch.sees(at(0), SCHEDULED)
    assert watch.sees(at(1), replace(SCHEDULED, not_before=NOT_BEFORE + moved)) == ["rescheduled"]
    assert watch.life.not_before == NOT_BEFORE + moved
    assert watch.life.notice_seconds == 900.0
    assert watch.sees(at(2), SCHEDULED) == ["rescheduled"]
    assert watch.sees(at(3), SCHEDULED) == []


def test_not_before_that_becomes_unreadable() -> None:
    """A NotBefore that cannot be read for a while is not a new one: the last one that was read stays."""
    watch = Watch()
    watch.sees(at(0), SCHEDULED)
    assert watch.sees(at(1), replace(SCHEDULED, not_before=None)) == []
    assert watch.sees(at(2), SCHEDULED) == []
    watch.sees(at(3), replace(SCHEDULED, not_before=None))
    assert watch.sees(at(4)) == ["cancelled"]


def test_not_before_that_becomes_known() -> None:
    """A NotBefore that is known at last is not a change of it."""
    watch = Watch()
    watch.sees(at(0), replace(SCHEDULED, not_before=None))
    assert watch.sees(at(1), SCHEDULED) == []
    assert watch.sees(at(2)) == ["cancelled"]


def test_started_document_with_a_not_before() -> None:
    """NotBefore of a Started event neither reschedules it nor decides who approved it."""
    watch = Watch()
    watch.sees(at(0), SCHEDULED)
    assert watch.sees(at(10), replace(STARTED, not_before=START + 10)) == ["approved", "started"]
    assert watch.life.approved_by is Approver.EXTERNAL
    assert watch.sees(at(11), replace(STARTED, not_before=START + 9000)) == []


def test_second_impact() -> None:
    """A second impact while the event is Started updates its data, and is not a second start."""
    watch = Watch()
    watch.sees(at(0), STARTED)
    again = replace(STARTED, description="once more", duration_seconds=5.0)
    assert watch.sees(at(60), again) == []
    assert watch.known.current["A"].event == again
    assert watch.known.current["A"].started_at == at(0)


@pytest.mark.parametrize("status", ["Scheduled", "Paused", ""])
def test_nothing_un_starts(status: str) -> None:
    """A document that comes late and shows a started event as it was before does not take the start back."""
    watch = Watch()
    watch.sees(at(0), SCHEDULED)
    watch.sees(at(900), STARTED)
    assert watch.sees(at(901), replace(SCHEDULED, status=status, not_before=NOT_BEFORE + 60)) == []
    assert watch.state() is State.STARTED
    assert watch.known.current["A"].not_before == NOT_BEFORE
    assert watch.sees(at(902), STARTED) == []
    assert watch.sees(at(903)) == ["completed"]


@pytest.mark.parametrize("watched", [True, False])
def test_returned_after_a_wrong_end(watched: bool) -> None:  # noqa: FBT001 - pytest hands it in by name
    """An event that is in the document again after its end returns and keeps its history."""
    watch = Watch()
    watch.sees(at(0), SCHEDULED)
    assert watch.sees(at(10), watched=watched) == ["cancelled" if watched else "lost"]
    assert watch.sees(at(11), SCHEDULED) == ["returned"]
    assert (watch.life.outcome, watch.life.ended_at, watch.life.first_seen) == (None, None, at(0))
    assert watch.known.ended == {}
    assert watch.sees(at(12), replace(SCHEDULED, not_before=NOT_BEFORE + 60)) == ["rescheduled"]
    assert watch.approves(at(13)) == ["approved"]
    assert watch.sees(at(14), STARTED) == ["started"]
    assert watch.sees(at(600)) == ["completed"]
    assert watch.life.approved_by is Approver.EXPORTER
    assert [move.transition for move in watch.life.moves] == [Transition.RETURNED, Transition.RESCHEDULED]


def test_returned_started() -> None:
    """An event that returns as Started after a wrong cancellation has started, approved by another program if early."""
    watch = Watch()
    watch.sees(at(0), SCHEDULED)
    watch.sees(at(10))
    assert watch.sees(at(11), STARTED) == ["returned", "approved", "started"]
    assert watch.sees(at(12)) == ["completed"]


def test_returned_after_it_completed() -> None:
    """A started event that returns does not start again; its end counts again when it comes."""
    watch = Watch()
    watch.sees(at(0), SCHEDULED)
    watch.sees(at(900), STARTED)
    assert watch.sees(at(910)) == ["completed"]
    assert watch.sees(at(911), STARTED) == ["returned"]
    assert watch.state() is State.STARTED
    assert watch.life.started_at == at(900)
    assert watch.sees(at(1500)) == ["completed"]


def test_returned_after_a_boot_proved_too_much() -> None:
    """An event that a boot seemed to prove and that is still Scheduled has not started and is not approved."""
    watch = Watch()
    watch.sees(at(0), SCHEDULED)
    booted = at(905, boot="boot-2")
    assert watch.sees(at(940, boot="boot-2"), watched=False, booted_at=booted) == ["completed"]
    assert watch.sees(at(941, boot="boot-2"), SCHEDULED, booted_at=booted) == ["returned"]
    life = watch.known.current["A"]
    assert (life.state, life.started_at, life.approved_by, life.proven_by_boot) == (State.SCHEDULED, None, None, False)
    assert watch.sees(at(950, boot="boot-2"), STARTED, booted_at=booted) == ["started"]


def test_ends_are_remembered_up_to_a_limit() -> None:
    """The memory of ended events is bounded: the oldest is forgotten first."""
    watch = Watch()
    for number in range(REMEMBERED_ENDS + 5):
        watch.sees(at(number), replace(SCHEDULED, event_id=f"E{number}"))
    assert len(watch.known.ended) == REMEMBERED_ENDS
    assert "E3" not in watch.known.ended
    assert "E4" in watch.known.ended
    assert f"E{REMEMBERED_ENDS + 3}" in watch.known.ended


@pytest.mark.parametrize(
    ("events", "told"),
    [((), []), ((replace(SCHEDULED, event_id="B"),), ["detected"])],
)
def test_unreadable_document_ends_nothing(events: tuple[ScheduledEvent, ...], told: list[str]) -> None:
    """While a part of the document cannot be read, an event that is missing may be hidden there, so it stays."""
    watch = Watch()
    watch.sees(at(0), SCHEDULED)
    before = watch.known.current["A"]
    assert watch.sees(at(1), *events, unreadable=("Events[0] is no object",)) == told
    assert watch.known.current["A"] == before
    assert watch.sees(at(2), SCHEDULED, *events) == []
    assert watch.sees(at(3), *events) == ["cancelled"]


def test_unreadable_document_tells_what_can_be_read() -> None:
    """What can be read of a partly unreadable document counts."""
    watch = Watch()
    watch.sees(at(0), SCHEDULED)
    assert watch.sees(at(900), STARTED, unreadable=("Events[1] is no object",)) == ["started"]


def test_empty_answer_is_no_events() -> None:
    """An empty answer means that nothing is planned any more."""
    watch = Watch()
    watch.sees(at(0), SCHEDULED)
    known, changes = observe(watch.known, parse_document(b""), ObservationContext(at(10), VM))
    assert [change.transition for change in changes] == [Transition.CANCELLED]
    assert known.current == {}


@pytest.mark.parametrize("status", ["Paused", ""])
def test_status_nobody_has_seen_yet(status: str) -> None:
    """An event in an unknown status is detected, then started when it is Started; gone before that, it is lost."""
    watch = Watch()
    other = replace(SCHEDULED, status=status)
    assert watch.sees(at(0), other) == ["detected"]
    assert watch.state() is State.OTHER
    assert watch.sees(at(10), STARTED) == ["approved", "started"]
    assert watch.sees(at(11)) == ["completed"]
    watch = Watch()
    watch.sees(at(0), other)
    assert watch.sees(at(1)) == ["lost"]
    watch = Watch()
    watch.sees(at(0), other)
    booted = at(950, boot="boot-2")
    assert watch.sees(at(1000, boot="boot-2"), watched=False, booted_at=booted) == ["completed"]


def test_unknown_status_between() -> None:
    """An undocumented status between two documented ones neither starts nor ends an event."""
    watch = Watch()
    watch.sees(at(0), SCHEDULED)
    assert watch.sees(at(1), replace(SCHEDULED, status="Paused")) == []
    assert watch.sees(at(2), SCHEDULED) == []
    assert watch.sees(at(3), replace(SCHEDULED, status="Paused")) == []
    assert watch.sees(at(4), replace(SCHEDULED, not_before=NOT_BEFORE + 60)) == ["rescheduled"]
    assert watch.sees(at(5)) == ["cancelled"]


def test_scope_follows_what_is_known() -> None:
    """An event's scope is unknown until this VM knows its own name, and right from then on."""
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


def test_notice_of_an_overdue_event() -> None:
    """An event first seen after its NotBefore gave no warning, rather than a negative one."""
    watch = Watch()
    watch.sees(at(1000), SCHEDULED)
    assert watch.life.notice_seconds == 0.0


def test_two_events_live_apart() -> None:
    """What happens to one event is nothing to another, and changes come in the order of the document."""
    watch = Watch()
    other = replace(SCHEDULED, event_id="B")
    assert watch.sees(at(0), other, SCHEDULED) == ["detected", "detected"]
    assert [change.lifecycle.event_id for change in watch.changes] == ["B", "A"]
    assert watch.sees(at(900), STARTED) == ["started", "lost"]
    assert set(watch.known.current) == {"A"}
    assert {event_id: life.outcome for event_id, life in watch.known.ended.items()} == {"B": Transition.LOST}


def test_a_change_holds_the_life_as_it_was_then() -> None:
    """Of two changes at one moment, the first shows the life without what the second adds."""
    watch = Watch()
    watch.sees(at(0), SCHEDULED)
    watch.sees(at(10), STARTED)
    approved, started = watch.changes[-2:]
    assert approved.lifecycle.approved_by is Approver.EXTERNAL
    assert approved.lifecycle.started_at is None
    assert started.lifecycle.started_at == at(10)


@pytest.mark.parametrize("jump", [-3600.0, 3600.0])
def test_clock_jump_ends_nothing(jump: float) -> None:
    """A wall clock that is set wrong by an hour makes no transition by itself."""
    watch = Watch()
    watch.sees(at(0), SCHEDULED)
    assert watch.sees(at(1, jump=jump), SCHEDULED) == []
    assert watch.sees(at(2), SCHEDULED) == []


def test_known_state_is_left_alone() -> None:
    """The state from before a document stays unchanged for its readers."""
    watch = Watch()
    watch.sees(at(0), SCHEDULED)
    before = watch.known
    frozen = (dict(before.current), dict(before.ended))
    observe(before, NOTHING, ObservationContext(at(10), VM))
    observe(before, Document(1, (STARTED,)), ObservationContext(at(10), VM))
    mark_approved(before, ["A"], Approver.OPERATOR, at(10))
    mark_requested(before, ["A"], Approver.OPERATOR, at(10))
    assert (dict(before.current), dict(before.ended)) == frozen


def test_rejoined_record() -> None:
    """Events from an older record are restored with its times; events that have ended since then stay ended."""
    old, new = Watch(), Watch()
    older = [replace(SCHEDULED, event_id=event_id) for event_id in "ABC"]
    old.sees(at(0), *older, replace(SCHEDULED, event_id="D"))
    old.sees(at(1), *older)
    new.sees(at(2), replace(SCHEDULED, event_id="B"), replace(SCHEDULED, event_id="C"))
    new.sees(at(3), replace(SCHEDULED, event_id="B"))
    both = merge_recovered(new.known, old.known)
    assert set(both.current) == {"A", "B"}
    assert both.current["A"].first_seen == at(0)
    assert both.current["B"].first_seen == at(0)
    assert {event_id: life.outcome for event_id, life in both.ended.items()} == {
        "C": Transition.CANCELLED,
        "D": Transition.CANCELLED,
    }
    new.known = both
    seen = new.sees(at(4), replace(SCHEDULED, event_id="A"), replace(SCHEDULED, event_id="D"))
    assert seen == ["returned", "cancelled"]


def test_a_document_without_a_type() -> None:
    """A document that lacks type and source changes neither, also if the event returns with it after a wrong end."""
    watch = Watch()
    bare = replace(SCHEDULED, event_type="", source="", resource_type="")
    watch.sees(at(0), SCHEDULED)
    for documents in ((bare,), (SCHEDULED,)):
        watch.sees(at(1), *documents)
        assert watch.known.current["A"].event == SCHEDULED
    watch.sees(at(2))
    assert watch.sees(at(3), bare) == ["returned"]
    assert watch.life.event == watch.known.current["A"].event == SCHEDULED


ADVICE = replace(SCHEDULED, event_type="SpotRebalanceRecommendation", status="Advisory", not_before=None)


@pytest.mark.parametrize(("seconds", "watched"), [(1, True), (5000, False)])
def test_advice_is_withdrawn(seconds: float, watched: bool) -> None:  # noqa: FBT001 - pytest hands it in by name
    """Advice that leaves is withdrawn and never lost, whoever watched and whatever booted, and gave no notice."""
    watch = Watch()
    assert watch.sees(at(0), replace(ADVICE, event_type="Preempt", not_before=NOT_BEFORE)) == ["detected"]
    assert watch.life.notice_seconds is watch.life.impact_at is None
    assert watch.approves(at(0)) == []
    assert watch.sees(at(seconds), watched=watched, booted_at=at(0.5, boot="boot-2")) == ["withdrawn"]


def test_advice_that_becomes_an_event() -> None:
    """Advice and an event may share an EventId: then the event goes on as any other."""
    watch = Watch()
    watch.sees(at(0), ADVICE)
    assert watch.sees(at(1), SCHEDULED) == []
    assert watch.sees(at(2), STARTED) == ["approved", "started"]
    assert watch.sees(at(3), ADVICE) == []
    assert watch.sees(at(4)) == ["completed"]
    watch = Watch()
    watch.sees(at(0), ADVICE)
    assert watch.sees(at(1), STARTED) == ["started"]


def test_a_start_that_a_user_requested_has_no_notice() -> None:
    """Azure can approve a user's restart itself: it is never Scheduled, and that is no notice of 0 s."""
    watch = Watch()
    watch.sees(at(0), replace(STARTED, source="User"))
    assert watch.life.notice_seconds is None
    watch.sees(at(0), replace(STARTED, event_id="B"))
    assert watch.known.current["B"].notice_seconds == 0
