"""Which command a hook runs, until when, and what it approves."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from azure_scheduled_events_exporter.commands.hook.plan import (
    Rules,
    deadline,
    may_approve,
    outcome_of,
    preparations,
    recovery,
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
        "A",
        event_type,
        status,
        resources=resources,
        not_before=not_before,
        duration_seconds=duration,
    )
    seen = Timestamp(NOW - 60)
    found = Lifecycle(
        event, state, scope, seen, not_before=not_before, most_resources=len(resources)
    )
    return with_kind(found, NOW, SHORT_FREEZE_SECONDS)


def ran(event_id: str, phase: Phase, at: float, outcome: str | None = "ok") -> HookRun:
    """Return a run that began ``at``."""
    return HookRun(f"{event_id}-{phase}-{at}", "c", event_id, "Reboot", phase, at, outcome)


@pytest.mark.parametrize(
    ("event", "rules", "expected"),
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
def test_what_qualifies(event: Lifecycle, rules: Rules, expected: list[bool]) -> None:
    """Events of this VM, of the chosen types and kinds, from --lead before NotBefore on; too late
    once they began.
    """
    assert [run.outcome == "too_late" for run in begin([event], [], rules)] == expected
    assert begin([event], [ran("A", Phase.PREPARE, NOW - 5)], rules) == []


def begin(
    events: Sequence[Lifecycle], runs: Sequence[HookRun], rules: Rules, now: float = NOW
) -> list[HookRun]:
    """Return the preparations that begin now, while no command is running."""
    return list(preparations(events, runs, (), rules, now))


def recover(
    events: Sequence[Lifecycle], runs: Sequence[HookRun], documents: int = 3
) -> list[tuple[str, str, str | None]]:
    """Return what ends and begins once so many documents were read: the run, its phase and its
    outcome.
    """
    current = {each.event_id for each in events}
    return [(run.run, run.phase, run.outcome) for run in recovery(current, runs, documents, NOW)]


def test_a_failure_is_repeated_until_the_event_starts() -> None:
    """A preparation that failed runs again after 5 s, then after 10 s, until the event has started."""
    runs = [ran("A", Phase.PREPARE, NOW - 4, "failed")]
    assert begin([life()], runs, Rules()) == []
    assert len(begin([life()], runs, Rules(), NOW + 1)) == 1
    runs.append(ran("A", Phase.PREPARE, NOW + 1, "failed"))
    assert begin([life()], runs, Rules(), NOW + 10) == []
    assert begin([life(state=State.STARTED)], runs, Rules(), NOW + 20) == []


def test_recovery_comes_once_after_the_last_event() -> None:
    """The command recovers when three documents show no event that it prepared for, and not again."""
    runs = [ran("B", Phase.PREPARE, 1.0), ran("A", Phase.PREPARE, 2.0)]
    assert recover([life()], runs) == []
    assert recover([], runs, documents=2) == []
    [(_, phase, outcome)] = recover([], runs)
    assert (phase, outcome) == (Phase.RECOVER, None)
    runs.append(ran("A", Phase.RECOVER, 4.0, "failed"))
    assert recover([], runs) == []
    assert [run.event_id for run in begin([life()], runs, Rules())] == [
        "A"
    ]  # an event that returns is prepared again


def test_what_was_interrupted_with_its_hook() -> None:
    """An interrupted run begins again under its id; it ends if its event has begun or is over."""
    prepare, recovers = ran("A", Phase.PREPARE, 1.0, None), ran("A", Phase.RECOVER, 2.0, None)
    assert [(run.run, run.outcome) for run in begin([life()], [prepare], Rules())] == [
        (prepare.run, None)
    ]
    assert list(preparations([life()], [prepare], {prepare.run}, Rules(), NOW)) == []
    assert [run.outcome for run in begin([life(left=-1)], [prepare], Rules())] == ["too_late"]
    ended, (_, *begun) = recover([], [prepare])
    assert ended == (prepare.run, Phase.PREPARE, "failed")
    assert begun == [Phase.RECOVER, None]
    assert recover([], [ran("A", Phase.PREPARE, 1.0), recovers]) == [
        (recovers.run, Phase.RECOVER, None)
    ]


@pytest.mark.parametrize(
    ("left", "asked"), [(30.0, 25.0), (8.0, 4.0), (None, 900.0), (3600.0, 900.0)]
)
def test_deadline(left: float | None, asked: float) -> None:
    """A run has until --grace before NotBefore, half of a shorter notice, and never longer than
    --timeout.
    """
    assert deadline(NOW, None if left is None else NOW + left, Rules()) == NOW + asked


def test_outcomes() -> None:
    """A run is ok, failed, stopped at its deadline, or done after NotBefore."""
    assert outcome_of(0, stopped=False, left=1.0) is RunOutcome.OK
    assert outcome_of(1, stopped=False, left=1.0) is RunOutcome.FAILED
    assert outcome_of(0, stopped=True, left=1.0) is RunOutcome.TIMEOUT
    assert outcome_of(0, stopped=False, left=-1.0) is RunOutcome.TOO_LATE


def test_what_is_approved() -> None:
    """An event is approved once all of its VMs have prepared, and never if it deletes them or its
    type is unknown.
    """
    own, shared = life(), life(resources=("vm_0", "VM_1"))
    assert may_approve(own, {"vm_0"})
    assert not may_approve(own, ())
    assert not may_approve(shared, {"vm_0"})
    assert may_approve(shared, {"vm_0", "vm_1"})
    shrunk = replace(
        shared, event=own.event
    )  # VMs that an earlier document has named are not known any more
    assert not may_approve(shrunk, {"vm_0"})
    for event_type in ("Preempt", "Terminate", "Unheard"):
        assert not may_approve(life(event_type), {"vm_0"})
