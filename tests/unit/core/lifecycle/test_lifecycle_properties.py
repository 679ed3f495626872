"""Properties of every lifecycle, with any behavior of IMDS, clocks, restarts and people."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from azure_scheduled_events_exporter.core.approvals import (
    mark_approved,
    mark_refused,
    mark_requested,
)
from azure_scheduled_events_exporter.core.document import Document, ScheduledEvent
from azure_scheduled_events_exporter.core.histogram import Histogram
from azure_scheduled_events_exporter.core.kinds import with_kinds
from azure_scheduled_events_exporter.core.lifecycle import (
    Approver,
    Change,
    Lifecycles,
    State,
    Transition,
)
from azure_scheduled_events_exporter.core.measurement import record_pause
from azure_scheduled_events_exporter.core.observation import observe
from azure_scheduled_events_exporter.core.observation_context import ObservationContext
from azure_scheduled_events_exporter.core.pause import Pause
from azure_scheduled_events_exporter.core.statistics import Statistics
from azure_scheduled_events_exporter.core.timestamp import Timestamp

# The machine may be busy.
PATIENCE = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
VM = "vm_0"
START = 1_700_000_000.0
# Without WITHDRAWN: no event of these tests is advice.
ENDS = {Transition.COMPLETED, Transition.CANCELLED, Transition.LOST}
OF_WHAT_HAS_NOT_STARTED = {Transition.RESCHEDULED, Transition.CANCELLED, Transition.LOST}
# The members are in the order in which an event has them.
ORDER = list(Transition)

EVENTS = st.builds(
    ScheduledEvent,
    event_id=st.sampled_from(["A", "B", "C"]),
    event_type=st.sampled_from(["Freeze", "Reboot", "Preempt", "New"]),
    status=st.sampled_from(["Scheduled", "Scheduled", "Started", "Paused", ""]),
    source=st.sampled_from(["Platform", "User", ""]),
    resources=st.sampled_from([(), (VM,), ("_VM_0", "vm_1"), ("vm_1",)]),
    not_before=st.sampled_from(
        [None, *(START + offset for offset in (-3600.0, 4.0, 30.0, 900.0, 3600.0, 7200.0))]
    ),
    duration_seconds=st.sampled_from([None, 0.0, 30.0]),
)
DOCUMENTS = st.builds(
    Document,
    incarnation=st.sampled_from([None, 0, 1, 2]),
    events=st.lists(EVENTS, max_size=3, unique_by=lambda event: event.event_id).map(tuple),
    unreadable=st.sampled_from([(), (), (), ("Events[0] is no object",)]),
)


class Lives(RuleBasedStateMachine):
    """An exporter with random documents, clocks that jump, reboots, restarts and approvals.

    Hypothesis calls the rules in any order, and checks the invariants after each.
    """

    def __init__(self) -> None:
        super().__init__()
        self.known = Lifecycles()
        self.seen: list[Document] = []
        self.changes: list[Change] = []
        self.changes_by_event: dict[str, list[Change]] = {}  # the same, by EventId
        self.statistics = Statistics()
        self.wall = START
        self.monotonic = 1000.0
        self.boot = 1
        self.tells_boot = True  # whether the machine says which boot this is
        self.vm_name: str | None = VM
        self.watched = False  # whether this run has had a document
        self.pause: Pause | None = None  # what will be measured with the next document

    @property
    def now(self) -> Timestamp:
        """This moment by clocks that need not agree."""
        return Timestamp(self.wall, self.monotonic, f"boot-{self.boot}" if self.tells_boot else "")

    def take(self, changes: tuple[Change, ...]) -> None:
        """Note changes as a journal would."""
        self.changes.extend(changes)
        self.statistics = self.statistics.plus(changes)
        for change in changes:
            assert change.at == self.now
            self.changes_by_event.setdefault(change.lifecycle.event_id, []).append(change)

    def see(self, document: Document) -> None:
        """Observe a document, twice: the second time changes nothing."""
        context = ObservationContext(self.now, self.vm_name, self.watched, self.pause)
        before = record_pause(self.known, self.pause)
        self.pause = None
        self.known, changes = observe(self.known, document, context)
        self.take(changes)
        self.seen.append(document)
        self.watched = True
        again = observe(self.known, document, replace(context, watched=True, pause=None))
        assert again == (self.known, ())
        self.check_current(document, before, context)

    def check_current(
        self, document: Document, before: Lifecycles, context: ObservationContext
    ) -> None:
        """Check that the events of ``document`` are current as it shows them.

        Events of ``before`` that it does not show are current as they were if an entry cannot be
        read, which may be theirs, and no longer current otherwise.
        """
        shown = {event.event_id: event for event in document.events}
        for event_id, event in shown.items():
            assert self.known.current[event_id].event == event
        kept = set(self.known.current) - set(shown)
        may_be_kept = set(before.current) if document.unreadable else set()
        assert kept == may_be_kept - set(shown)
        # The kind alone may change: it depends on how long an event has been Started.
        aged = with_kinds(before, self.now.wall, context.harmless_below)
        for event_id in kept:
            assert self.known.current[event_id] == aged.current[event_id]

    @initialize(vm_name=st.sampled_from([None, VM]))
    def begin(self, vm_name: str | None) -> None:
        """This VM knows its name or not."""
        self.vm_name = vm_name

    @rule(document=DOCUMENTS)
    def document(self, document: Document) -> None:
        """IMDS sends a random document."""
        self.see(document)

    @precondition(lambda self: self.seen)
    @rule(data=st.data())
    def old_document(self, data: st.DataObject) -> None:
        """IMDS repeats an earlier document, or a part of it in another order."""
        old = data.draw(st.sampled_from(self.seen[-5:]))
        self.see(
            replace(
                old,
                events=tuple(
                    data.draw(st.permutations(old.events))[: data.draw(st.integers(0, 3))]
                ),
            )
        )

    @rule()
    def empty_body(self) -> None:
        """IMDS sends an empty body."""
        self.see(Document())

    @rule(seconds=st.sampled_from([0.0, 1.0, 60.0, 900.0, 7200.0]))
    def time_passes(self, seconds: float) -> None:
        """Both clocks advance."""
        self.wall += seconds
        self.monotonic += seconds

    @rule(pause=st.builds(Pause, st.sampled_from([0.0, 0.001, 3.0, 600.0]), st.booleans()))
    def stands_still(self, pause: Pause) -> None:
        """This VM was paused, or a measurement found no pause."""
        self.pause = pause

    @rule(seconds=st.sampled_from([-3600.0, -30.0, 30.0, 3600.0]))
    def wall_clock_jumps(self, seconds: float) -> None:
        """The wall clock is set."""
        self.wall += seconds

    @rule()
    def restart(self) -> None:
        """The exporter was away."""
        self.watched = False

    @rule(seconds=st.sampled_from([-3600.0, 0.0, 40.0]), tells_boot=st.booleans())
    def reboot(self, seconds: float, tells_boot: bool) -> None:
        """The VM boots, with a wall clock that may be wrong and a boot time that may be unknown."""
        self.wall += seconds
        self.monotonic = 12.0
        self.boot += 1
        self.tells_boot = tells_boot
        self.watched = False

    @rule()
    def name_is_learnt(self) -> None:
        """IMDS answers this VM's name."""
        self.vm_name = VM

    @rule(
        event_id=st.sampled_from(["A", "b", "C", "X"]),
        approver=st.sampled_from(["exporter", "operator"]),
    )
    def approval(self, event_id: str, approver: str) -> None:
        """The exporter or an operator here approves an event."""
        self.known, changes = mark_approved(
            self.known, event_id.upper(), Approver(approver), self.now
        )
        self.take(changes)

    @rule(
        event_id=st.sampled_from(["A", "b", "C", "X"]),
        approver=st.sampled_from(["exporter", "operator"]),
    )
    def approval_without_an_answer(self, event_id: str, approver: str) -> None:
        """The exporter or an operator here requests an approval."""
        self.known = mark_requested(self.known, event_id.upper(), Approver(approver), self.now)

    @rule(event_id=st.sampled_from(["A", "b", "C", "X"]))
    def refusal(self, event_id: str) -> None:
        """IMDS refuses to let an event begin."""
        self.known = mark_refused(self.known, event_id.upper())

    @invariant()
    def every_life_is_in_order(self) -> None:
        """No transition twice, none out of order; NotBefore may move again, and an event may return
        after an end.
        """
        for event_id, changes in self.changes_by_event.items():
            transitions = [change.transition for change in changes]
            assert transitions[0] is Transition.DETECTED, event_id
            for part in between_returns(transitions):
                assert not ENDS & set(part[:-1]), "only the last transition is an end"
                once = [
                    transition for transition in part if transition is not Transition.RESCHEDULED
                ]
                assert once == sorted(set(once), key=ORDER.index), "in order, and none twice"
            for transition in (Transition.DETECTED, Transition.APPROVED, Transition.STARTED):
                assert transitions.count(transition) <= 1
            if Transition.STARTED in transitions:
                from_the_start = transitions[transitions.index(Transition.STARTED) :]
                assert not OF_WHAT_HAS_NOT_STARTED & set(from_the_start)

    @invariant()
    def every_detected_event_has_ended_or_is_current(self) -> None:
        """Every detected event has ended in completed, cancelled or lost, or is current."""
        for event_id, changes in self.changes_by_event.items():
            last = changes[-1]
            if last.transition in ENDS:
                assert last.lifecycle.outcome is last.transition
                assert self.known.ended[event_id] == last.lifecycle
                assert event_id not in self.known.current
            else:
                assert event_id in self.known.current
                assert event_id not in self.known.ended
        assert set(self.known.current) <= set(self.changes_by_event)

    @invariant()
    def lives_agree_with_their_changes(self) -> None:
        """A life's fields are what its transitions say."""
        for event_id, life in self.known.current.items():
            changes = self.changes_by_event[event_id]
            transitions = [change.transition for change in changes]
            assert life.first_seen == changes[0].at
            has_started = life.state is State.STARTED
            assert has_started == (Transition.STARTED in transitions)
            assert has_started == (life.started_at is not None)
            assert life.outcome is None
            by_transition = life.approved_by not in {None, Approver.DEADLINE}
            assert by_transition == (Transition.APPROVED in transitions)
            assert (life.approved_by is None) == (life.approved_at is None)
            assert life.observed_pause is None or life.state is State.STARTED

    def times_in(self, state: str) -> int:
        """Return how many times that events were in ``state`` have been measured."""
        measured = self.statistics.time_in_state
        return observed(
            histogram
            for (_, measured_state), histogram in measured.items()
            if measured_state == state
        )

    @invariant()
    def tally_agrees(self) -> None:
        """The counters and histograms are what the changes add up to."""
        by_transition: Counter[str] = Counter()
        for (_, _, _, transition), count in self.statistics.transitions.items():
            by_transition[transition] += count
        # The plus leaves out transitions that were counted as 0.
        assert +by_transition == Counter(str(change.transition) for change in self.changes)
        assert self.statistics == Statistics().plus(self.changes)
        own = [change for change in self.changes if change.lifecycle.is_mine]
        detected = [first.lifecycle for first, *_ in self.changes_by_event.values()]
        notices = [life for life in detected if life.is_mine and life.notice_seconds is not None]
        assert observed(self.statistics.notice.values()) == len(notices)
        completed = {
            change.lifecycle.event_id for change in own if change.transition is Transition.COMPLETED
        }
        assert self.times_in("started") <= len(completed), "the time Started of one event twice"
        waited = {change.lifecycle.event_id for change in own}
        assert self.times_in("scheduled") <= len(waited), "the time Scheduled of one event twice"
        assert observed(self.statistics.approval_latency.values()) <= len(self.changes_by_event), (
            "the approval of one event twice"
        )
        assert observed(self.statistics.pauses.values()) <= len(completed)
        for histogram in (
            *self.statistics.pauses.values(),
            *self.statistics.notice.values(),
            *self.statistics.approval_latency.values(),
            *self.statistics.time_in_state.values(),
        ):
            assert len(histogram.counts) == len(histogram.bounds) + 1
            assert sum(histogram.counts) > 0
            assert histogram.total >= 0.0


def between_returns(transitions: list[Transition]) -> list[list[Transition]]:
    """Return the transitions of an event in parts: each return begins another part."""
    parts: list[list[Transition]] = [[]]
    for transition in transitions:
        if transition is Transition.RETURNED:
            assert parts[-1][-1] in ENDS, "only an ended event returns"
            parts.append([])
        else:
            parts[-1].append(transition)
    return parts


def observed(histograms: Iterable[Histogram]) -> int:
    """Return how many values all of ``histograms`` have seen."""
    return sum(sum(histogram.counts) for histogram in histograms)


@pytest.mark.hypothesis
def test_every_life() -> None:
    """No transition is reported twice or out of order, and each event has ended or is current, with
    any IMDS, clocks and restarts.
    """
    run_state_machine_as_test(Lives, settings=settings(PATIENCE, stateful_step_count=30))
