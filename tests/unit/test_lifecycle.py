"""The life of an event, case by case, in the contract's words."""

from dataclasses import replace

import pytest

from azure_scheduled_events_exporter.events import Document, ScheduledEvent, Scope, parse_document
from azure_scheduled_events_exporter.instant import Instant
from azure_scheduled_events_exporter.lifecycle import (
    REMEMBERED_ENDS,
    Approver,
    Change,
    Lifecycle,
    Lifecycles,
    State,
    Transition,
    Vantage,
    approve,
    asked,
    observe,
    refused,
    rejoined,
    stood_still,
)
from azure_scheduled_events_exporter.pause import Evidence, Pause

NOT_BEFORE = 1_700_000_900.0  # 15 minutes after START
START = 1_700_000_000.0
VM = "vm_0"
SCHEDULED = ScheduledEvent("A", "Reboot", "Scheduled", "Platform", (VM, "vm_1"), NOT_BEFORE, "", 30.0)
STARTED = replace(SCHEDULED, status="Started", not_before=None)
NOTHING = Document(9)


def at(seconds: float, *, boot: str = "boot-1", jump: float = 0.0) -> Instant:
    """Return the moment ``seconds`` after START; ``jump`` is how far the wall clock is off."""
    return Instant(START + seconds + jump, 5000.0 + seconds, boot)


class Watch:
    """An exporter's eyes: documents go in, changes come out."""

    def __init__(self, vm_name: str | None = VM) -> None:
        self.known = Lifecycles()
        self.vm_name = vm_name
        self.changes: list[Change] = []

    def sees(
        self,
        now: Instant,
        *events: ScheduledEvent,
        watched: bool = True,
        booted_at: Instant | None = None,
        unreadable: tuple[str, ...] = (),
        pause: Pause | None = None,
    ) -> list[str]:
        """Return the transitions that a document of ``events`` brings."""
        vantage = Vantage(now, self.vm_name, watched, booted_at, pause)
        self.known, changes = observe(self.known, Document(1, events, unreadable), vantage)
        self.changes.extend(changes)
        assert observe(self.known, Document(1, events, unreadable), vantage)[1] == ()
        return [str(change.transition) for change in changes]

    def approves(self, now: Instant, approver: Approver = Approver.EXPORTER, event_id: str = "A") -> list[str]:
        """Return the transitions that an accepted approval brings."""
        self.known, changes = approve(self.known, [event_id], approver, now)
        self.changes.extend(changes)
        return [str(change.transition) for change in changes]

    def state(self, event_id: str = "A") -> State:
        """Return where a current event stands."""
        return self.known.current[event_id].state

    def scope(self, event_id: str = "A") -> Scope:
        """Return whose a current event is."""
        return self.known.current[event_id].scope

    @property
    def life(self) -> Lifecycle:
        """The life as the last change left it."""
        return self.changes[-1].lifecycle


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
    assert watch.known == Lifecycles({}, {"A": Transition.COMPLETED})


def test_documented_live_migration() -> None:
    """The four documents of Microsoft's page make one life, NotBefore kept though Started no longer tells it."""
    known = Lifecycles()
    told = []
    for number, (status, text) in enumerate(
        [("", ""), ("Scheduled", "Mon, 11 Apr 2022 22:26:58 GMT"), ("Started", ""), ("", "")]
    ):
        entry = f'{{"EventId": "c7", "EventType": "Freeze", "EventStatus": "{status}", "NotBefore": "{text}"}}'
        document = parse_document(
            f'{{"DocumentIncarnation": {number}, "Events": [{entry if status else ""}]}}'.encode()
        )
        known, changes = observe(known, document, Vantage(Instant(1649716020.0 + number, number, "b")))
        told += [(str(change.transition), change.lifecycle.not_before) for change in changes]
    assert told == [("detected", 1649716018.0), ("started", 1649716018.0), ("completed", 1649716018.0)]


def test_host_failure() -> None:
    """An event that first appears as Started was no warning: detected and started at once, nobody approved it."""
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


def test_approved_event_that_is_cancelled() -> None:
    """An approval does not make an event happen: gone before NotBefore without a start is cancelled."""
    watch = Watch()
    watch.sees(at(0), SCHEDULED)
    watch.approves(at(1))
    assert watch.sees(at(100)) == ["cancelled"]


def test_lost_after_not_before() -> None:
    """An event that leaves after its NotBefore without having been seen Started is lost."""
    watch = Watch()
    watch.sees(at(0), SCHEDULED)
    assert watch.sees(at(900)) == ["lost"]
    assert watch.life.started_at is None


@pytest.mark.parametrize("seconds", [100, 2000])
def test_lost_while_nobody_polled(seconds: float) -> None:
    """An event that left while nobody polled is lost, whether or not its time had come."""
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


@pytest.mark.parametrize("event_type", ["Reboot", "Redeploy", "Preempt", "Terminate"])
@pytest.mark.parametrize("seconds", [300, 1200])
def test_completed_by_evidence_of_the_reboot(event_type: str, seconds: float) -> None:
    """An event that was to reboot this VM, gone after a boot, has happened: at the time of that boot."""
    watch = Watch()
    watch.sees(at(0), replace(SCHEDULED, event_type=event_type))
    booted = at(seconds - 40, boot="boot-2")
    assert watch.sees(at(seconds, boot="boot-2"), watched=False, booted_at=booted) == ["completed"]
    assert watch.life.started_at == booted
    assert watch.life.proven_by_boot


@pytest.mark.parametrize(
    ("event", "why"),
    [
        (replace(SCHEDULED, event_type="Freeze"), "a freeze keeps the memory, so a boot was something else"),
        (replace(SCHEDULED, event_type="Hibernate"), "nobody knows what this does"),
        (replace(SCHEDULED, resources=("vm_1",)), "it was to reboot another VM"),
    ],
)
def test_no_evidence_in_a_reboot(event: ScheduledEvent, why: str) -> None:
    """A boot proves only an event that was to reboot this very VM."""
    watch = Watch()
    watch.sees(at(0), event)
    assert watch.sees(at(1200, boot="boot-2"), watched=False, booted_at=at(1000, boot="boot-2")) == ["lost"], why


def test_boot_before_the_event_is_no_evidence() -> None:
    """The boot in which the event was first seen proves nothing, wherever the wall clock moves that boot to."""
    watch = Watch()
    watch.sees(at(0), SCHEDULED)
    assert watch.sees(at(1200), watched=False, booted_at=at(-5000, jump=3600 + 5000)) == ["lost"]


def test_unknown_boot_is_no_evidence() -> None:
    """Where the system does not tell when it booted, an event nobody saw start is lost."""
    watch = Watch()
    watch.sees(at(0), SCHEDULED)
    assert watch.sees(at(1200, boot="boot-2"), watched=False) == ["lost"]


def test_cancelled_long_after_an_unrelated_reboot() -> None:
    """An event still announced after a reboot, then taken back before our eyes, was cancelled, not done by it."""
    watch = Watch()
    days_ahead = replace(SCHEDULED, not_before=START + 7 * 86400)
    booted = at(86400, boot="boot-2")
    watch.sees(at(0), days_ahead)
    assert watch.sees(at(86460, boot="boot-2"), days_ahead, watched=False, booted_at=booted) == []
    assert watch.sees(at(3 * 86400, boot="boot-2"), booted_at=booted) == ["cancelled"]


def test_overdue_event_that_left_after_a_reboot() -> None:
    """After NotBefore, the boot shows that the reboot happened though Started was never seen."""
    watch = Watch()
    watch.sees(at(0), SCHEDULED)
    booted = at(910, boot="boot-2")
    watch.sees(at(950, boot="boot-2"), SCHEDULED, watched=False, booted_at=booted)
    assert watch.sees(at(951, boot="boot-2"), booted_at=booted) == ["completed"]


@pytest.mark.parametrize("seconds", [10.0, 894.9])
def test_external_approval(seconds: float) -> None:
    """A start more than 5 s before NotBefore without an approval from here was approved by somebody else."""
    watch = Watch()
    watch.sees(at(0), SCHEDULED)
    assert watch.sees(at(seconds), STARTED) == ["approved", "started"]
    assert watch.life.approved_by is Approver.EXTERNAL
    assert watch.life.approved_at == watch.life.started_at == at(seconds)
    assert not watch.life.approved_here


@pytest.mark.parametrize("seconds", [895.0, 899.0, 900.0, 901.0, 5000.0])
def test_deadline(seconds: float) -> None:
    """A start at NotBefore, or less than 5 s before it, was approved by nobody: the deadline let it begin."""
    watch = Watch()
    watch.sees(at(0), SCHEDULED)
    assert watch.sees(at(seconds), STARTED) == ["started"]
    assert watch.life.approved_by is Approver.DEADLINE


def test_start_of_an_event_without_not_before() -> None:
    """Without a NotBefore nobody can tell who let the event begin."""
    watch = Watch()
    watch.sees(at(0), replace(SCHEDULED, not_before=None))
    assert watch.sees(at(10), STARTED) == ["started"]
    assert watch.life.approved_by is None


@pytest.mark.parametrize("approver", [Approver.EXPORTER, Approver.OPERATOR])
@pytest.mark.parametrize("seconds", [10.0, 901.0])
def test_approved_here(approver: Approver, seconds: float) -> None:
    """An approval by this exporter or an operator here stays theirs, however early or late the event begins."""
    watch = Watch()
    watch.sees(at(0), SCHEDULED)
    assert watch.approves(at(1), approver) == ["approved"]
    assert watch.life.approved_here
    assert watch.known.current["A"].approved_at == at(1)
    assert watch.sees(at(seconds), STARTED) == ["started"]
    assert watch.life.approved_by is approver


def test_approval_counts_once() -> None:
    """A second approval of an event, by whomever, is not told again and changes nothing."""
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
    """An event that is unknown, has started or has ended is not approved any more."""
    watch = Watch()
    assert watch.approves(at(0), event_id="B") == []
    watch.sees(at(1), STARTED)
    assert watch.approves(at(2)) == []
    watch.sees(at(3))
    assert watch.approves(at(4)) == []
    watch.sees(at(5), SCHEDULED)
    assert watch.approves(at(6)) == []


def test_several_approvals_at_once() -> None:
    """One answer may approve several events; an event named twice is approved once."""
    watch = Watch()
    watch.sees(at(0), *(replace(SCHEDULED, event_id=event_id) for event_id in "ABC"))
    known, changes = approve(watch.known, ["a", "B", "A", "X"], Approver.OPERATOR, at(1))
    assert [change.lifecycle.event_id for change in changes] == ["A", "B"]
    assert {event_id for event_id, life in known.current.items() if life.approved_here} == {"A", "B"}
    assert list(known.current) == ["A", "B", "C"]


def test_answer_to_an_approval_that_never_came() -> None:
    """An event that starts early after we asked for it began by our approval, though no answer ever came."""
    watch = Watch()
    watch.sees(at(0), SCHEDULED)
    watch.known = asked(watch.known, ["a"], Approver.EXPORTER)
    assert not watch.known.current["A"].approved_here
    assert watch.sees(at(10), STARTED) == ["approved", "started"]
    assert watch.life.approved_by is Approver.EXPORTER


def test_unanswered_approval_and_the_deadline() -> None:
    """An event that starts at its NotBefore began by the deadline, asked for in vain or not."""
    watch = Watch()
    watch.sees(at(0), SCHEDULED)
    watch.known = asked(watch.known, ["A"], Approver.EXPORTER)
    assert watch.sees(at(900), STARTED) == ["started"]
    assert watch.life.approved_by is Approver.DEADLINE


def test_refused_approval() -> None:
    """An approval that IMDS refused did not let the event begin: somebody else did."""
    watch = Watch()
    watch.sees(at(0), SCHEDULED)
    watch.known = refused(asked(watch.known, ["A"], Approver.EXPORTER), ["A"])
    assert watch.sees(at(10), STARTED) == ["approved", "started"]
    assert watch.life.approved_by is Approver.EXTERNAL


def test_asked_then_approved() -> None:
    """An approval that was answered is told once, and the start follows."""
    watch = Watch()
    watch.sees(at(0), SCHEDULED)
    watch.known = asked(watch.known, ["A"], Approver.OPERATOR)
    assert watch.approves(at(1), Approver.OPERATOR) == ["approved"]
    assert watch.life.asked_by is None
    assert watch.sees(at(10), STARTED) == ["started"]


@pytest.mark.parametrize("moved", [600.0, -300.0])
def test_rescheduled(moved: float) -> None:
    """A NotBefore that moves, to earlier or later, is told every time, and the newest one counts."""
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
    """What a Started event says of NotBefore neither reschedules it nor decides who approved it."""
    watch = Watch()
    watch.sees(at(0), SCHEDULED)
    assert watch.sees(at(10), replace(STARTED, not_before=START + 10)) == ["approved", "started"]
    assert watch.life.approved_by is Approver.EXTERNAL
    assert watch.sees(at(11), replace(STARTED, not_before=START + 9000)) == []


def test_second_impact() -> None:
    """A second impact while the event is Started changes what is shown of it, and is no second start."""
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


def test_event_back_after_its_end() -> None:
    """An event that comes back after its end is shown, since it may happen, but its life is not told twice."""
    watch = Watch()
    watch.sees(at(0), SCHEDULED)
    assert watch.sees(at(10)) == ["cancelled"]
    assert watch.sees(at(11), SCHEDULED) == []
    assert watch.state() is State.SCHEDULED
    assert watch.known.current["A"].event == SCHEDULED
    assert watch.sees(at(12), replace(SCHEDULED, not_before=NOT_BEFORE + 60)) == []
    assert watch.sees(at(13), STARTED) == []
    assert watch.state() is State.STARTED
    assert watch.sees(at(14)) == []
    assert watch.known == Lifecycles({}, {"A": Transition.CANCELLED})


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
    known, changes = observe(watch.known, parse_document(b""), Vantage(at(10), VM))
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
    """A status nobody has seen yet, between two that are known, neither starts nor ends an event."""
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
    assert watch.known.ended == {"B": Transition.LOST}


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
    """What was known before a document is not changed under whoever still reads it."""
    watch = Watch()
    watch.sees(at(0), SCHEDULED)
    before = watch.known
    frozen = (dict(before.current), dict(before.ended))
    observe(before, NOTHING, Vantage(at(10), VM))
    observe(before, Document(1, (STARTED,)), Vantage(at(10), VM))
    approve(before, ["A"], Approver.OPERATOR, at(10))
    asked(before, ["A"], Approver.OPERATOR)
    assert (dict(before.current), dict(before.ended)) == frozen


def test_rejoined_record() -> None:
    """Lives from an older record are known again, but what was seen since then counts."""
    old, new = Watch(), Watch()
    older = [replace(SCHEDULED, event_id=event_id) for event_id in "ABC"]
    old.sees(at(0), *older, replace(SCHEDULED, event_id="D"))
    old.sees(at(1), *older)
    new.sees(at(2), replace(SCHEDULED, event_id="B"), replace(SCHEDULED, event_id="C"))
    new.sees(at(3), replace(SCHEDULED, event_id="B"))
    both = rejoined(new.known, old.known)
    assert set(both.current) == {"A", "B"}
    assert both.current["A"].first_seen == at(0)
    assert both.current["B"].first_seen == at(2)
    assert both.ended == {"C": Transition.CANCELLED, "D": Transition.CANCELLED}
    new.known = both
    assert new.sees(at(4), replace(SCHEDULED, event_id="A"), replace(SCHEDULED, event_id="D")) == ["cancelled"]


def whole(seconds: float) -> Pause:
    """A pause in a time that was watched from end to end."""
    return Pause(seconds, Evidence.WHOLE)


class TestPause:
    """How long this VM stood still belongs to the events that were Started meanwhile."""

    def test_the_longest_counts(self) -> None:
        """From the last document before the start to the first after the end, the longest pause is the event's."""
        watch = Watch()
        watch.sees(at(0), SCHEDULED, pause=whole(99.0))
        watch.sees(at(901), STARTED, pause=whole(0.3))
        assert watch.life.observed_pause == 0.3
        watch.known = stood_still(watch.known, whole(4.0))
        watch.known = stood_still(watch.known, whole(1.0))
        watch.sees(at(1500), pause=whole(2.0))
        assert watch.life.observed_pause == 4.0

    def test_the_last_moment_counts(self) -> None:
        """A pause that ends as the event leaves is its own."""
        watch = Watch()
        watch.sees(at(0), SCHEDULED)
        watch.sees(at(901), STARTED, pause=whole(0.0))
        assert watch.sees(at(910), pause=whole(6.0)) == ["completed"]
        assert watch.life.observed_pause == 6.0

    @pytest.mark.parametrize(
        ("pause", "measured"),
        [
            pytest.param(None, None, id="nobody measured"),
            pytest.param(Pause(2.0, Evidence.PART), None, id="the start went unwatched"),
            pytest.param(Pause(2.0, Evidence.WHOLE), 2.0, id="watched"),
            pytest.param(Pause(60.0, Evidence.BOOT), 60.0, id="a boot"),
        ],
    )
    def test_an_unwatched_start(self, pause: Pause | None, measured: float | None) -> None:
        """An event that may have had its pause before anybody looked is not measured from then on either."""
        watch = Watch()
        watch.sees(at(0), SCHEDULED)
        watch.sees(at(901), STARTED, pause=pause)
        assert watch.life.observed_pause == measured
        watch.known = stood_still(watch.known, whole(1.0))
        assert watch.known.current["A"].observed_pause == measured

    def test_a_boot_outweighs_what_went_unseen(self) -> None:
        """A boot while an event was Started is its pause, though nobody watched the start."""
        watch = Watch()
        watch.sees(at(0), STARTED, pause=Pause(0.0, Evidence.PART))
        assert watch.sees(at(90, boot="boot-2"), watched=False, pause=Pause(80.0, Evidence.BOOT)) == ["completed"]
        assert watch.life.observed_pause == 80.0

    def test_proven_by_a_boot(self) -> None:
        """A reboot that nobody saw begin was as long as the boot says; a Freeze is not proven, and so not measured."""
        for kind, measured in (("Reboot", 80.0), ("Freeze", None)):
            watch = Watch()
            watch.sees(at(0), replace(SCHEDULED, event_type=kind))
            boot = Pause(80.0, Evidence.BOOT)
            watch.sees(at(990, boot="boot-2"), watched=False, booted_at=at(960, boot="boot-2"), pause=boot)
            assert watch.life.observed_pause == measured, kind

    @pytest.mark.parametrize("vm_name", ["vm_9", None])
    def test_only_events_of_this_vm(self, vm_name: str | None) -> None:
        """What this VM does says nothing about an event of another one, or of nobody knows whom."""
        watch = Watch(vm_name)
        watch.sees(at(0), SCHEDULED)
        watch.sees(at(901), STARTED, pause=whole(5.0))
        watch.known = stood_still(watch.known, Pause(5.0, Evidence.BOOT))
        watch.sees(at(990), pause=whole(5.0))
        assert watch.life.observed_pause is None

    def test_nothing_new_is_the_same(self) -> None:
        """A pause that is no longer than the one before changes nothing, so nothing is written."""
        watch = Watch()
        watch.sees(at(0), SCHEDULED)
        assert stood_still(watch.known, whole(5.0)) is watch.known
        watch.sees(at(901), STARTED, pause=whole(5.0))
        assert stood_still(watch.known, whole(5.0)) is watch.known
        assert stood_still(watch.known, None) is watch.known

    def test_one_that_came_back(self) -> None:
        """An event that comes back after its end is not measured again."""
        watch = Watch()
        watch.sees(at(0), STARTED, pause=whole(1.0))
        watch.sees(at(600), pause=whole(0.0))
        watch.sees(at(700), STARTED, pause=whole(9.0))
        assert watch.known.current["A"].observed_pause is None
