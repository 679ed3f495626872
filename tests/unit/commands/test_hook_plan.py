"""Which run a hook begins, and for which events it may ask for an approval.

``begins`` gives the runs that are to begin now, ``prepared`` the events that the VM is prepared
for, each with why it is not approved, and ``lapsed`` and ``missed`` runs that end without a
command. All decide by a view, which ``seen`` makes: the current events, the runs so far and, in
``active``, the ids of those whose command is running. A run without an outcome that is not among
them was interrupted. ``missing`` is how many documents have lacked the events of the runs: after
three, such an event is over.

``awaited`` gives the events that the hook is still to prepare for; its first argument is what it
gave for the view before. ``missed`` has the same argument, and gives a run without a command for
each of these events that has begun unprepared.

``life`` makes an event with ``left`` seconds to its NotBefore, and ``ran`` a run that began at a
moment. The last argument of ``ran`` is the outcome: ``"ok"`` by default, None if the run has none.
"""

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
from azure_scheduled_events_exporter.snapshot.hooks import Phase
from support.events.hooked_events import NOW, life, ran, seen

CANCELLED = replace(life(), outcome=Transition.CANCELLED)


@pytest.mark.parametrize(
    ("event", "rules", "is_begun"),
    [
        pytest.param(life(), Rules(), True, id="announced"),
        pytest.param(life(left=901), Rules(), False, id="further ahead than --lead"),
        pytest.param(life(left=None), Rules(), True, id="without NotBefore"),
        pytest.param(life(left=-1), Rules(), False, id="NotBefore is over"),
        pytest.param(life("Preempt", state=State.STARTED), Rules(), False, id="has begun"),
        pytest.param(life(scope=Scope.PEER), Rules(), False, id="of another VM"),
        pytest.param(life("Freeze", duration=5.0), Rules(), False, id="harmless"),
        pytest.param(
            life("Freeze", duration=5.0),
            Rules(kinds=frozenset({Kind.HARMLESS})),
            True,
            id="harmless, and this kind is chosen",
        ),
        pytest.param(
            life("Freeze"), Rules(types=frozenset({"reboot"})), False, id="another type is chosen"
        ),
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
    runs = [ran("A", Phase.PREPARE, NOW, "failed")]
    assert begun(seen([life()], runs, now=NOW + 4.9)) == []
    assert begun(seen([life()], runs, now=NOW + 5)) == [("prepare", "A")]
    runs.append(ran("A", Phase.PREPARE, NOW + 5, "failed"))
    assert begun(seen([life()], runs, now=NOW + 5 + 9.9)) == []
    assert begun(seen([life()], runs, now=NOW + 5 + 10)) == [("prepare", "A")]
    assert begun(seen([life(state=State.STARTED)], runs, now=NOW + 5 + 10)) == []


def test_a_preparation_that_took_too_long_is_repeated() -> None:
    """A preparation that ``--timeout`` has stopped runs again, but not within the grace (5 s)
    before NotBefore.
    """
    runs = [ran("A", Phase.PREPARE, NOW, "timeout")]
    assert begun(seen([life()], runs, now=NOW + 4.9)) == []
    assert begun(seen([life()], runs, now=NOW + 5)) == [("prepare", "A")]
    within_the_grace = life(left=5 + 4.9)  # 4.9 s are left 5 s later
    assert begun(seen([within_the_grace], runs, now=NOW + 5)) == []
    assert begun(seen([life(state=State.STARTED)], runs, now=NOW + 5)) == []


def test_an_event_whose_not_before_moves() -> None:
    """While NotBefore is over, nothing is prepared or recorded; when it moves, a run begins."""
    late = seen([life(left=-20.0)])
    assert begun(late) == []
    waiting = awaited((), late, Rules())
    assert missed(waiting, late, Rules()) == []
    assert why_not(life(left=-20.0), late, Rules()) == (
        "NotBefore is over: prepare begins if it moves"
    )
    assert begun(seen([life(left=30.0)])) == [("prepare", "A")]


STARTED = life(state=State.STARTED)
FIRST_SEEN = STARTED.first_seen
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
            seen([life("Freeze", duration=5.0)]), seen([STARTED]), False, id="harmless before"
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
    """A preparation is too late, which is recorded once, if the hook has seen the event wait, and
    the event began before a run for it did.
    """
    waiting = awaited((), before, Rules())
    outcomes = [run.outcome for run in missed(waiting, after, Rules())]
    assert outcomes == (["too_late"] if is_missed else [])
    still_waiting = awaited(waiting, after, Rules())
    assert missed(still_waiting, after, Rules()) == []


def test_recovery_with_the_command_of_now() -> None:
    """The command that recovers is the one that the hook has now, not the one that prepared. It
    gets the outcome of the event, if it is known.
    """
    runs = [ran("A", Phase.PREPARE, 1.0)]
    rules = Rules(command="new")
    [run] = begins(seen(runs=runs, missing=3, ended=[CANCELLED]), rules)
    assert (run.command, json.loads(run.record)["outcome"]) == ("new", "cancelled")
    [run] = begins(seen(runs=runs, missing=3), rules)
    assert (run.command, json.loads(run.record)["outcome"]) == ("new", None)


@pytest.mark.parametrize(
    ("event", "rules", "reason"),
    [
        (life(), Rules(), ""),
        (life(scope=Scope.PEER), Rules(types=frozenset({"freeze"})), ""),
        (
            life(scope=Scope.UNKNOWN),
            Rules(),
            "this VM's name is unknown, so it may be another VM's: set --instance.name",
        ),
        (life(), Rules(types=frozenset({"freeze"})), "its type is not among --types"),
        (life("Freeze", duration=5.0), Rules(), "its kind harmless is not among --kinds"),
        (life(left=901), Rules(), "NotBefore is further ahead than --lead: prepare begins then"),
        # A Reboot that had begun when it was first seen has a kind of its own, without_notice.
        (
            with_kind(replace(STARTED, started_at=FIRST_SEEN), NOW, SHORT_FREEZE_SECONDS),
            Rules(),
            "it had begun when it was first seen",
        ),
        # A Freeze that had begun has an ordinary kind. No option prepares for it either.
        (
            replace(life("Freeze", state=State.STARTED), started_at=FIRST_SEEN),
            Rules(),
            "it had begun when it was first seen",
        ),
    ],
)
def test_why_nothing_is_prepared(event: Lifecycle, rules: Rules, reason: str) -> None:
    """For an event that may be this VM's and is not prepared for, the reason names the option,
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
    b_is_current = seen([life(event_id="B")], runs, missing=3)  # only A is missing
    assert begun(b_is_current) == []
    assert begun(seen(runs=runs, missing=3, active={runs[0].run})) == []
    assert begun(seen(runs=runs, missing=3)) == [("recover", "A")]


def test_nothing_begins_or_is_approved_while_it_recovers() -> None:
    """While the command recovers, no preparation begins, and nothing is approved. Once it runs no
    more, even if it was interrupted, also what was prepared before is prepared again.
    """
    a = life(event_id="A")
    b = life(event_id="B")
    prepare = ran("A", Phase.PREPARE, 1.0)
    assert prepared(seen([a], [prepare]), Rules()) == [(a, "")]
    recover = ran("A", Phase.RECOVER, NOW, None)
    while_it_recovers = seen([a, b], [prepare, recover], active={recover.run})
    assert begun(while_it_recovers) == []
    assert prepared(while_it_recovers, Rules()) == []
    interrupted = seen([a, b], [prepare, recover])
    assert prepared(interrupted, Rules()) == [], "A may be half recovered"
    assert begun(interrupted) == [("prepare", "A"), ("prepare", "B")]


def test_an_interrupted_recovery_goes_on_after_the_next_preparation() -> None:
    """If another event is prepared for after an interrupted recovery, the recovery begins again
    when that event is over, too. It keeps the id of its run, and names the event that was prepared
    for last.
    """
    b = life(event_id="B")
    recover = ran("A", Phase.RECOVER, NOW, None)
    runs = [ran("A", Phase.PREPARE, 1.0), recover, ran("B", Phase.PREPARE, NOW + 1)]
    assert prepared(seen([b], runs), Rules()) == [(b, "")]
    [again] = begins(seen(runs=runs, missing=3), Rules())
    assert (again.run, again.phase, again.event_id) == (recover.run, "recover", "B")


def test_what_was_interrupted_with_its_hook() -> None:
    """A run that was interrupted when its hook ended begins again, and keeps its id."""
    prepare = ran("A", Phase.PREPARE, 1.0, None)
    [again] = begins(seen([life()], [prepare]), Rules())
    assert (again.run, again.outcome) == (prepare.run, None)
    assert begun(seen([life()], [prepare], active={prepare.run})) == [], "it is running"
    recover = ran("A", Phase.RECOVER, 2.0, None)
    [again] = begins(seen(runs=[ran("A", Phase.PREPARE, 1.0), recover], missing=3), Rules())
    assert (again.run, again.phase) == (recover.run, "recover")


INTERRUPTED = ran("A", Phase.PREPARE, 1.0, None)


@pytest.mark.parametrize(
    ("view", "outcomes"),
    [
        pytest.param(seen([life()], [INTERRUPTED]), [], id="not begun"),
        pytest.param(seen([STARTED], [INTERRUPTED]), ["too_late"], id="started"),
        pytest.param(
            seen(runs=[INTERRUPTED], missing=3, ended=[CANCELLED]), ["cancelled"], id="cancelled"
        ),
        pytest.param(seen(runs=[INTERRUPTED], missing=3), ["failed"], id="its end was not seen"),
    ],
)
def test_an_interrupted_run_whose_event_has_begun_or_is_over(
    view: View, outcomes: list[str]
) -> None:
    """An interrupted preparation ends, with an outcome, once its event has begun or is over."""
    assert [run.outcome for run in lapsed(view)] == outcomes


def test_what_is_approved() -> None:
    """A hook approves an event that is known to be of this VM alone. It approves none that deletes
    the VM, whose type is unknown, or that one document describes in two ways.
    """
    assert obstacle(life()) == ""
    shared = life(resources=("vm_0", "VM_1"))
    assert "other VMs" in obstacle(shared)
    # The newest document names this VM alone, but an earlier one named another VM, too.
    assert "other VMs" in obstacle(replace(shared, event=life().event))
    assert "not known to be" in obstacle(replace(life(), own_name=""))
    for event_type in ("Preempt", "Terminate", "Unheard"):
        assert "approves no event" in obstacle(life(event_type))
    two_ways = replace(life().event, is_contradictory=True)
    assert "that differ" in obstacle(replace(life(), event=two_ways))


def test_an_event_that_is_not_as_it_was_prepared() -> None:
    """An event is approved as it was when its preparation began, and only if the rules still select
    it. A NotBefore that has moved changes nothing.
    """
    freeze = life("Freeze", duration=30.0)
    rules = Rules(types=frozenset({"freeze"}))
    [begun_now] = begins(seen([freeze]), rules)
    run = replace(begun_now, outcome="ok")

    def reason(now: Lifecycle, rules: Rules) -> str:
        """Return why the event is not approved if it is like ``now``."""
        [(_, why)] = prepared(seen([now], [run]), rules)
        return why

    assert reason(freeze, rules) == ""
    assert reason(life("Freeze", duration=30.0, left=90.0), rules) == ""
    assert "not among --types" in reason(life("Redeploy"), rules)
    assert "has changed since" in reason(life("Redeploy", duration=30.0), Rules())
    assert "has changed since" in reason(life("Freeze", duration=60.0), rules)


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
