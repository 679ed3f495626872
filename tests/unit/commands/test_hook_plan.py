"""Which run a hook begins, and for which events it may ask for an approval."""

import json
from dataclasses import replace

import pytest

from azure_scheduled_events_exporter.approval.by_hook import obstacle
from azure_scheduled_events_exporter.commands.hook.plan import (
    MOST_AT_ONCE,
    Rules,
    awaited,
    begins,
    lapsed,
    missed,
    prepared,
    why_not,
)
from azure_scheduled_events_exporter.commands.hook.view import View
from azure_scheduled_events_exporter.core.document import Scope
from azure_scheduled_events_exporter.core.kinds import SHORT_FREEZE_SECONDS, with_kind
from azure_scheduled_events_exporter.core.lifecycle import Kind, Lifecycle, State, Transition
from azure_scheduled_events_exporter.core.timestamp import Timestamp
from azure_scheduled_events_exporter.snapshot.hooks import Phase
from support.events.hooked_events import NOW, life, ran, seen

CANCELLED = replace(life(), outcome=Transition.CANCELLED)


@pytest.mark.parametrize(
    ("event", "rules", "is_begun"),
    [
        (life(), Rules(), True),
        (life(left=901), Rules(), False),
        (life(left=None), Rules(), True),
        (life(left=-1), Rules(), False),
        (life("Preempt", state=State.STARTED), Rules(), False),
        (life(scope=Scope.PEER), Rules(), False),
        (life("Freeze", duration=5.0), Rules(), False),
        (life("Freeze", duration=5.0), Rules(kinds=frozenset({Kind.HARMLESS})), True),
        (life("Freeze"), Rules(types=frozenset({"reboot"})), False),
    ],
)
def test_what_qualifies(event: Lifecycle, rules: Rules, *, is_begun: bool) -> None:
    """A preparation begins once for an event of this VM, of the chosen types and kinds, from --lead
    (900 s) before NotBefore on, until it has begun.
    """
    assert bool(begins(seen([event]), rules)) is is_begun
    assert begins(seen([event], [ran("A", Phase.PREPARE, NOW - 5)]), rules) == []


def begun(view: View) -> list[tuple[str, str]]:
    """Return phase and event of the runs that begin."""
    return [(str(run.phase), run.event_id) for run in begins(view, Rules())]


def test_a_failure_is_repeated_until_the_event_starts() -> None:
    """A preparation that failed runs again after 5 s, then 10 s, until the event has started."""
    runs = [ran("A", Phase.PREPARE, NOW - 4, "failed")]
    assert begun(seen([life()], runs)) == []
    assert begun(seen([life()], runs, now=NOW + 1)) == [("prepare", "A")]
    runs.append(ran("A", Phase.PREPARE, NOW + 1, "failed"))
    assert begun(seen([life()], runs, now=NOW + 10)) == []
    assert begun(seen([life(state=State.STARTED)], runs, now=NOW + 20)) == []


def test_a_run_of_timeout_is_repeated() -> None:
    """A preparation that ``--timeout`` has stopped runs again, but not within the grace (5 s)
    before NotBefore.
    """
    runs = [ran("A", Phase.PREPARE, NOW - 4, "timeout")]
    assert begun(seen([life()], runs, now=NOW + 0.9)) == []
    assert begun(seen([life()], runs, now=NOW + 1)) == [("prepare", "A")]
    assert begun(seen([life(left=5.0)], runs, now=NOW + 1)) == []
    assert begun(seen([life(state=State.STARTED)], runs, now=NOW + 1)) == []


def test_an_event_whose_not_before_moves() -> None:
    """While NotBefore is over, nothing is prepared or recorded; when it moves, a run begins."""
    late = seen([life(left=-20.0)])
    assert begun(late) == []
    assert missed(awaited((), late, Rules()), late, Rules()) == []
    assert why_not(life(left=-20.0), late, Rules()) == (
        "NotBefore is over: prepare begins if it moves"
    )
    assert begun(seen([life(left=30.0)])) == [("prepare", "A")]


STARTED = life(state=State.STARTED)
LATE = life(left=-20.0)


@pytest.mark.parametrize(
    ("before", "after", "is_missed"),
    [
        pytest.param(seen([LATE]), seen([STARTED]), True, id="started"),
        pytest.param(seen([life(left=2000.0)]), seen([STARTED]), True, id="approved early"),
        pytest.param(
            seen([LATE]), seen(ended=[replace(LATE, outcome=Transition.LOST)]), True, id="lost"
        ),
        pytest.param(seen([life()]), seen(ended=[CANCELLED]), False, id="cancelled"),
        pytest.param(
            seen([life("Freeze", duration=5.0)]), seen([STARTED]), False, id="it was harmless"
        ),
        pytest.param(seen(), seen([STARTED]), False, id="first seen started"),
        pytest.param(
            seen([life()], [ran("A", Phase.PREPARE, NOW, None)]),
            seen([STARTED], [ran("A", Phase.PREPARE, NOW, None)]),
            False,
            id="a run has begun",
        ),
    ],
)
def test_what_is_too_late(before: View, after: View, *, is_missed: bool) -> None:
    """A preparation was too late if the hook has seen the event wait, and it began before a run
    did.
    """
    waits = awaited((), before, Rules())
    assert [run.outcome for run in missed(waits, after, Rules())] == ["too_late"] * is_missed
    assert missed(awaited(waits, after, Rules()), after, Rules()) == [], "once"


def test_recovery_with_the_command_of_now() -> None:
    """The command that recovers is the one of the hook that runs now, and gets the outcome of the
    event, if it is known.
    """
    runs = [ran("A", Phase.PREPARE, 1.0)]
    ends: list[tuple[list[Lifecycle], str | None]] = [([CANCELLED], "cancelled"), ([], None)]
    for ended, outcome in ends:
        [run] = begins(seen(runs=runs, missing=3, ended=ended), Rules("new"))
        assert (run.command, json.loads(run.record)["outcome"]) == ("new", outcome)


@pytest.mark.parametrize(
    ("event", "rules", "reason"),
    [
        (life(), Rules(), ""),
        (life(scope=Scope.PEER), Rules(types=frozenset({"freeze"})), ""),
        (life(), Rules(types=frozenset({"freeze"})), "its type is not among --types"),
        (life("Freeze", duration=5.0), Rules(), "its kind harmless is not among --kinds"),
        (life(left=901), Rules(), "NotBefore is further ahead than --lead: prepare begins then"),
        # An event without notice has a kind of its own.
        (
            with_kind(replace(STARTED, started_at=Timestamp(NOW - 60)), NOW, SHORT_FREEZE_SECONDS),
            Rules(),
            "it had begun when it was first seen",
        ),
        # No option prepares for another event that began before it was seen.
        (
            replace(life("Freeze", state=State.STARTED), started_at=Timestamp(NOW - 60)),
            Rules(),
            "it had begun when it was first seen",
        ),
    ],
)
def test_why_nothing_is_prepared(event: Lifecycle, rules: Rules, reason: str) -> None:
    """For an event of this VM that is not prepared for, the reason names the option,
    if there is one that would prepare for it.
    """
    assert why_not(event, seen([event]), rules) == reason
    assert not (reason and begins(seen([event]), rules))


def test_recovery_comes_once_after_the_last_event() -> None:
    """The command recovers once for all, under the event prepared for last, when three documents
    show no event that it prepared for, and nothing runs.
    """
    runs = [ran("B", Phase.PREPARE, 1.0), ran("A", Phase.PREPARE, 2.0)]
    assert begun(seen(runs=runs, missing=2)) == []
    assert begun(seen([life(event_id="B")], runs, missing=3)) == []
    assert begun(seen(runs=runs, missing=3, active={"run"})) == []
    assert begun(seen(runs=runs, missing=3)) == [("recover", "A")]


def test_nothing_begins_or_is_approved_while_it_recovers() -> None:
    """While the command recovers, no preparation begins, and nothing is approved; afterwards, what
    was prepared before is prepared again.
    """
    recovers = ran("A", Phase.RECOVER, NOW, None)
    runs = [ran("A", Phase.PREPARE, 1.0), recovers]
    events = [life(), life(event_id="B")]
    assert prepared(seen([life()], runs[:1])) == [life()]
    assert begun(seen(events, runs, active={recovers.run})) == []
    assert prepared(seen(events, runs, active={recovers.run})) == []
    # It was interrupted.
    assert prepared(seen(events, runs)) == []
    assert begun(seen(events, runs)) == [("prepare", "A"), ("prepare", "B")]
    runs.append(ran("B", Phase.PREPARE, NOW + 1))
    assert prepared(seen([life(event_id="B")], runs)) == [life(event_id="B")]
    [again] = begins(seen(runs=runs, missing=3), Rules())
    assert (again.run, again.phase, again.event_id) == (recovers.run, "recover", "B")


def test_what_was_interrupted_with_its_hook() -> None:
    """An interrupted run begins again under its id; it ends if its event has begun or is over."""
    prepare = ran("A", Phase.PREPARE, 1.0, None)
    [again] = begins(seen([life()], [prepare]), Rules())
    assert (again.run, again.outcome) == (prepare.run, None)
    assert begun(seen([life()], [prepare], active={prepare.run})) == []
    assert lapsed(seen([life()], [prepare])) == []
    ends = {
        "too_late": seen([STARTED], [prepare]),
        "failed": seen(runs=[prepare], missing=3),
        "cancelled": seen(runs=[prepare], missing=3, ended=[CANCELLED]),
    }
    for outcome, view in ends.items():
        assert [(run.run, run.outcome) for run in lapsed(view)] == [(prepare.run, outcome)]
    recovers = ran("A", Phase.RECOVER, 2.0, None)
    [again] = begins(seen(runs=[ran("A", Phase.PREPARE, 1.0), recovers], missing=3), Rules())
    assert (again.run, again.phase) == (recovers.run, "recover")


def test_what_is_approved() -> None:
    """An event of this VM alone is approved, but never if it deletes it or its type is unknown."""
    assert not obstacle(life())
    shared = life(resources=("vm_0", "VM_1"))
    assert "other VMs" in obstacle(shared)
    # The newest document names this VM alone, but an earlier one named another VM, too.
    assert "other VMs" in obstacle(replace(shared, event=life().event))
    assert "not known to be" in obstacle(replace(life(), own_name=""))
    for event_type in ("Preempt", "Terminate", "Unheard"):
        assert "approves no event" in obstacle(life(event_type))


def test_the_nearest_events_come_first() -> None:
    """As many commands begin as may run at once (10), those of the nearest events first."""
    events = [life(event_id=f"E{number}", left=900.0 - number) for number in range(12)]
    nearest = [f"E{number}" for number in (11, 10, 9, 8, 7, 6, 5, 4, 3, 2)]
    assert [run.event_id for run in begins(seen(events), Rules())] == nearest
    running = {"a", "b", "c"}
    assert len(begins(seen(events, active=running), Rules())) == MOST_AT_ONCE - len(running)


def test_a_damaged_run_is_recovered() -> None:
    """A stored run whose record cannot be read is recovered all the same."""
    damaged = replace(ran("A", Phase.PREPARE, 1.0), record="no JSON")
    assert begun(seen(runs=[damaged], missing=3)) == [("recover", "A")]
