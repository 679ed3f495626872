"""Which command a hook runs, until when, and what it approves."""

import json
from collections.abc import Sequence
from dataclasses import replace

import pytest

from azure_scheduled_events_exporter.commands.hook.plan import (
    MOST_AT_ONCE,
    CurrentEvents,
    Rules,
    deadline,
    may_approve,
    outcome_of,
    preparations,
    recovery,
    why_not,
)
from azure_scheduled_events_exporter.core.document import ScheduledEvent, Scope
from azure_scheduled_events_exporter.core.kinds import SHORT_FREEZE_SECONDS, Kind, with_kind
from azure_scheduled_events_exporter.core.lifecycle import Lifecycle, State
from azure_scheduled_events_exporter.core.timestamp import Timestamp
from azure_scheduled_events_exporter.snapshot.hooks import HookRun, Phase, RunOutcome

NOW = 1_700_000_000.0


def life(
    event_type: str = "Reboot",
    *,
    event_id: str = "A",
    left: float | None = 600.0,
    state: State = State.SCHEDULED,
    scope: Scope = Scope.SELF,
    resources: tuple[str, ...] = ("vm_0",),
    duration: float | None = None,
) -> Lifecycle:
    """Return an event of this VM that was seen a minute ago."""
    not_before = None if left is None else NOW + left
    status = State.STARTED if state is State.STARTED else State.SCHEDULED
    event = ScheduledEvent(
        event_id,
        event_type,
        status,
        resources=resources,
        not_before=not_before,
        duration_seconds=duration,
    )
    seen = Timestamp(NOW - 60)
    found = Lifecycle(
        event,
        state,
        scope,
        seen,
        not_before=not_before,
        most_resources=len(resources),
        own_name="vm_0" if scope is Scope.SELF else "",
    )
    return with_kind(found, NOW, SHORT_FREEZE_SECONDS)


def ran(event_id: str, phase: Phase, at: float, outcome: str | None = "ok") -> HookRun:
    """Return a run that began ``at``."""
    return HookRun(f"{event_id}-{phase}-{at}", "c", event_id, "Reboot", phase, at, outcome)


@pytest.mark.parametrize(
    ("event", "rules", "are_too_late"),
    [
        (life(), Rules(), [False]),
        (life(left=901), Rules(), []),
        (life(left=None), Rules(), [False]),
        (life(left=-1), Rules(), [True]),
        (life("Preempt", state=State.STARTED), Rules(), [True]),
        (life(scope=Scope.PEER), Rules(), []),
        (life("Freeze", duration=5.0), Rules(), []),
        (life("Freeze", duration=5.0), Rules(kinds=frozenset({Kind.HARMLESS})), [False]),
        (life("Freeze"), Rules(types=frozenset({"reboot"})), []),
    ],
)
def test_what_qualifies(event: Lifecycle, rules: Rules, are_too_late: list[bool]) -> None:
    """A preparation begins for an event of this VM, of the chosen types and kinds, from --lead
    (900 s) before NotBefore on. Once the event has begun, it is recorded as too late.

    ``are_too_late`` has one entry for each preparation that begins.
    """
    assert [run.outcome == "too_late" for run in begin([event], [], rules)] == are_too_late
    assert begin([event], [ran("A", Phase.PREPARE, NOW - 5)], rules) == []


def begin(
    events: Sequence[Lifecycle], runs: Sequence[HookRun], rules: Rules, now: float = NOW
) -> list[HookRun]:
    """Return the preparations that begin now, while no command is running."""
    return preparations(shown(events, now), runs, (), rules)


def shown(events: Sequence[Lifecycle], now: float = NOW) -> CurrentEvents:
    """Return these events as the current ones at ``now``."""
    return CurrentEvents(current={each.event_id: each for each in events}, now=now)


def recover(runs: Sequence[HookRun], missing: int = 3) -> list[tuple[str, str, str | None]]:
    """Return what ends and begins once so many documents have shown no prepared event: the run,
    its phase and its outcome.
    """
    return [(run.run, run.phase, run.outcome) for run in recovery(runs, missing, NOW, "c", {})]


def test_a_failure_is_repeated_until_the_event_starts() -> None:
    """A preparation that failed runs again after 5 s, then 10 s, until the event has started."""
    runs = [ran("A", Phase.PREPARE, NOW - 4, "failed")]
    assert begin([life()], runs, Rules()) == []
    assert len(begin([life()], runs, Rules(), NOW + 1)) == 1
    runs.append(ran("A", Phase.PREPARE, NOW + 1, "failed"))
    assert begin([life()], runs, Rules(), NOW + 10) == []
    assert begin([life(state=State.STARTED)], runs, Rules(), NOW + 20) == []


def test_a_run_of_timeout_is_repeated() -> None:
    """A preparation that ``--timeout`` has stopped runs again, but not within the grace (5 s)
    before NotBefore.
    """
    runs = [ran("A", Phase.PREPARE, NOW - 4, "timeout")]
    assert begin([life()], runs, Rules(), NOW + 0.9) == []
    assert len(begin([life()], runs, Rules(), NOW + 1)) == 1
    assert begin([life(left=5.0)], runs, Rules(), NOW + 1) == []
    assert begin([life(state=State.STARTED)], runs, Rules(), NOW + 1) == []


def test_recovery_with_the_command_of_now() -> None:
    """The command that recovers is the one of the hook that runs now, and gets the outcome of the
    event, if it is known.
    """
    prepared = ran("A", Phase.PREPARE, 1.0)
    for outcomes, outcome in (({"A": "cancelled"}, "cancelled"), ({}, None)):
        [run] = recovery([prepared], 3, NOW, "new", outcomes)
        assert (run.command, json.loads(run.record)["outcome"]) == ("new", outcome)


@pytest.mark.parametrize(
    ("event", "rules", "reason"),
    [
        (life(), Rules(), ""),
        (life(scope=Scope.PEER), Rules(types=frozenset({"freeze"})), ""),
        (life(), Rules(types=frozenset({"freeze"})), "its type is not among --types"),
        (life("Freeze", duration=5.0), Rules(), "its kind harmless is not among --kinds"),
        (life(left=901), Rules(), "NotBefore is further ahead than --lead: prepare begins then"),
        (
            with_kind(
                replace(life(state=State.STARTED), started_at=Timestamp(NOW - 60)),
                NOW,
                SHORT_FREEZE_SECONDS,
            ),
            Rules(),
            "it had begun when it was first seen: its kind without_notice is not among --kinds",
        ),
    ],
)
def test_why_nothing_is_prepared(event: Lifecycle, rules: Rules, reason: str) -> None:
    """For an event of this VM that is not prepared for, the reason names the option."""
    assert why_not(event, shown([event]), rules) == reason
    assert not (reason and begin([event], [], rules))


def test_recovery_comes_once_after_the_last_event() -> None:
    """The command recovers once, when three documents show no event that it prepared for."""
    runs = [ran("B", Phase.PREPARE, 1.0), ran("A", Phase.PREPARE, 2.0)]
    assert recover(runs, missing=2) == []
    [(_, phase, outcome)] = recover(runs)
    assert (phase, outcome) == (Phase.RECOVER, None)
    runs.append(ran("A", Phase.RECOVER, 4.0, "failed"))
    assert recover(runs) == []
    # An event that returns is prepared again.
    assert [run.event_id for run in begin([life()], runs, Rules())] == ["A"]


def test_what_was_interrupted_with_its_hook() -> None:
    """An interrupted run begins again under its id; it ends if its event has begun or is over."""
    prepare = ran("A", Phase.PREPARE, 1.0, None)
    recovers = ran("A", Phase.RECOVER, 2.0, None)
    assert [(run.run, run.outcome) for run in begin([life()], [prepare], Rules())] == [
        (prepare.run, None)
    ]
    assert preparations(shown([life()]), [prepare], {prepare.run}, Rules()) == []
    assert [run.outcome for run in begin([life(left=-1)], [prepare], Rules())] == ["too_late"]
    ended, (_, *begun) = recover([prepare])
    assert ended == (prepare.run, Phase.PREPARE, "failed")
    assert begun == [Phase.RECOVER, None]
    assert recover([ran("A", Phase.PREPARE, 1.0), recovers]) == [
        (recovers.run, Phase.RECOVER, None)
    ]


@pytest.mark.parametrize(
    ("left", "allowed"), [(30.0, 25.0), (8.0, 4.0), (None, 900.0), (3600.0, 900.0)]
)
def test_deadline(left: float | None, allowed: float) -> None:
    """A run has until --grace (5 s) before NotBefore, half of a shorter notice, and never longer
    than --timeout (900 s).
    """
    assert deadline(NOW, None if left is None else NOW + left, Rules()) == NOW + allowed


def test_outcomes() -> None:
    """A run is ok, failed, stopped at its deadline, or done after NotBefore."""
    assert outcome_of(0, stopped=False, left=1.0) is RunOutcome.OK
    assert outcome_of(1, stopped=False, left=1.0) is RunOutcome.FAILED
    assert outcome_of(0, stopped=True, left=1.0) is RunOutcome.TIMEOUT
    assert outcome_of(0, stopped=False, left=-1.0) is RunOutcome.TOO_LATE


def test_what_is_approved() -> None:
    """An event of this VM alone is approved, but never if it deletes it or its type is unknown."""
    assert may_approve(life())
    shared = life(resources=("vm_0", "VM_1"))
    assert not may_approve(shared)
    # The newest document names this VM alone, but an earlier one named another VM, too.
    assert not may_approve(replace(shared, event=life().event))
    for event_type in ("Preempt", "Terminate", "Unheard"):
        assert not may_approve(life(event_type))


def test_the_nearest_events_come_first() -> None:
    """As many commands begin as may run at once (10), those of the nearest events first."""
    events = [life(event_id=f"E{number}", left=900.0 - number) for number in range(12)]
    nearest = [f"E{number}" for number in (11, 10, 9, 8, 7, 6, 5, 4, 3, 2)]
    assert [run.event_id for run in begin(events, [], Rules())] == nearest
    running = {"a", "b", "c"}
    begun = preparations(shown(events), [], running, Rules())
    assert len(begun) == MOST_AT_ONCE - len(running)


def test_a_damaged_run_is_recovered() -> None:
    """A stored run whose record cannot be read is recovered all the same."""
    damaged = replace(ran("A", Phase.PREPARE, 1.0), record="no JSON")
    [(_, phase, _)] = recover([damaged])
    assert phase == Phase.RECOVER
