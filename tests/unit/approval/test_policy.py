"""Which events a policy approves, and when: the documented one by hand, rules, turns, and what
covers what.
"""

from collections.abc import Sequence

import pytest

from azure_scheduled_events_exporter.approval.policy import (
    DOCUMENTED,
    DOCUMENTED_ALL,
    OFF,
    Action,
    Match,
    Policy,
    Rule,
)
from azure_scheduled_events_exporter.core.document import ScheduledEvent, Scope
from azure_scheduled_events_exporter.core.event_types import EventType
from azure_scheduled_events_exporter.core.lifecycle import Approval, Approver, Lifecycle, State
from azure_scheduled_events_exporter.core.timestamp import Timestamp

VMS = ("vmss_0", "vmss_1", "vmss_2", "vmss_3", "vmss_4")
BEGAN = Timestamp(wall=1_000_000.0, monotonic=500.0, boot_id="boot")
NOTICE = 900.0
"""Seconds from ``BEGAN`` to NotBefore, unless a test says otherwise."""


def after(seconds: float) -> Timestamp:
    """Return the moment so long after the events of these tests were first seen."""
    return Timestamp(BEGAN.wall + seconds, BEGAN.monotonic + seconds, BEGAN.boot_id)


def life(
    event_type: str = "Freeze",
    source: str = "Platform",
    duration: float | None = 5.0,
    resources: tuple[str, ...] = ("vmss_0",),
    *,
    vm: str | None = "vmss_0",
    notice: float | None = NOTICE,
    state: State = State.SCHEDULED,
) -> Lifecycle:
    """Return an event as the VM called ``vm`` has known it since ``BEGAN``."""
    event = ScheduledEvent(
        event_id="C7061BAC-AFDC-4513-B24B-AA5F13A16123",
        event_type=event_type,
        status=str(state),
        source=source,
        resources=resources,
        not_before=None if notice is None else BEGAN.wall + notice,
        duration_seconds=duration,
    )
    return Lifecycle(event, state, event.scope(vm), BEGAN, not_before=event.not_before)


# What Microsoft's sample does, written down from its text: a user's event is approved whatever it
# is, a Freeze of the platform if it lasts from 0 to less than 9 seconds, and nothing else. Each row
# has the decision for each of these durations in seconds. None means that it is unknown; a document
# has -1 for that.
DURATIONS = (None, 0.0, 5.0, 8.0, 9.0, 30.0)
SAMPLE = {
    ("Freeze", "User"): (True, True, True, True, True, True),
    ("Reboot", "User"): (True, True, True, True, True, True),
    ("Redeploy", "User"): (True, True, True, True, True, True),
    ("Preempt", "User"): (True, True, True, True, True, True),
    ("Terminate", "User"): (True, True, True, True, True, True),
    ("Freeze", "Platform"): (False, True, True, True, False, False),
    ("Reboot", "Platform"): (False, False, False, False, False, False),
    ("Redeploy", "Platform"): (False, False, False, False, False, False),
    ("Preempt", "Platform"): (False, False, False, False, False, False),
    ("Terminate", "Platform"): (False, False, False, False, False, False),
}


@pytest.mark.parametrize("vm", ["vmss_0", "vmss_9", None], ids=["self", "peer", "unknown"])
@pytest.mark.parametrize(("event_type", "source"), SAMPLE)
def test_documented_approves_what_the_sample_approves(
    event_type: str, source: str, vm: str | None
) -> None:
    """``documented-all`` approves what the sample approves, of whichever VM; ``documented`` only of
    this VM, at once.

    Neither approves anything else, ever, and off approves nothing.
    """
    shortly_before_its_start = after(NOTICE - 1)
    long_after_it = after(NOTICE + 4000)
    # A VM outside Resources waits for less than two minutes for the one in it.
    turn_of_every_vm = after(200)
    for duration, expected in zip(DURATIONS, SAMPLE[event_type, source], strict=True):
        event = life(event_type, source, duration, vm=vm)
        assert not OFF.decide(event, vm, BEGAN).approve
        for now in (BEGAN, shortly_before_its_start, long_after_it):
            expected_here = expected and vm == "vmss_0"
            decision = DOCUMENTED.decide(event, vm, now)
            assert decision.approve is expected_here, (duration, now)
        for now in (turn_of_every_vm, long_after_it):
            decision = DOCUMENTED_ALL.decide(event, vm, now)
            assert decision.approve is expected, (duration, now)


def test_requested_but_not_answered() -> None:
    """An approval that was requested and never answered is requested again."""
    event = Lifecycle(
        life().event, State.SCHEDULED, Scope.SELF, BEGAN, request=Approval(Approver.EXPORTER, BEGAN)
    )
    assert DOCUMENTED.decide(event, "vmss_0", BEGAN).approve


def test_first_rule_that_matches_decides() -> None:
    """A rule that holds back keeps the rules behind it from approving."""
    hold = Rule("no reboots", Match(event_type=frozenset({EventType.REBOOT})), Action.HOLD)
    policy = Policy("p", (hold, Rule("rest", Match(), Action.APPROVE)))
    held = policy.decide(life("Reboot"), "vmss_0", BEGAN)
    approved = policy.decide(life("Freeze"), "vmss_0", BEGAN)
    assert (held.approve, held.reason, held.due) == (False, "held by rule 'no reboots'", None)
    assert (approved.approve, approved.rule, approved.due) == (True, "rest", BEGAN.wall)


def test_after() -> None:
    """``after`` counts from when the event was first seen, and the decision has the due time."""
    policy = Policy("p", (Rule("later", Match(), Action.APPROVE, after=30.0),))
    decision = policy.decide(life(), "vmss_0", after(10))
    assert (decision.approve, decision.rule, decision.due) == (False, "later", BEGAN.wall + 30)
    assert not policy.decide(life(), "vmss_0", after(29.9)).approve
    assert policy.decide(life(), "vmss_0", after(30)).approve


def test_after_over_a_reboot() -> None:
    """After a reboot, ``after`` is counted by the wall clock: the monotonic clock begins again."""
    policy = Policy("p", (Rule("later", Match(), Action.APPROVE, after=30.0),))

    def approves_after(seconds: float) -> bool:
        now = Timestamp(BEGAN.wall + seconds, monotonic=7.0, boot_id="another boot")
        return policy.decide(life(), "vmss_0", now).approve

    assert not approves_after(29)
    assert approves_after(31)


def test_dry_run_is_told() -> None:
    """A dry run makes the same decision, marked so that nothing is sent."""
    policy = Policy("p", (Rule("try", Match(), Action.APPROVE, dry_run=True),))
    decision = policy.decide(life(), "vmss_0", BEGAN)
    assert (decision.approve, decision.dry_run) == (True, True)
    assert decision.reason == "rule 'try' would approve it now (dry run)"


def test_the_reason_says_what_a_vm_waits_for() -> None:
    """Of several VMs, the first one waits for the rule alone, each other one for its turn."""
    policy = Policy("p", (Rule("later", Match(), Action.APPROVE, after=30.0),))
    first, second = [policy.decide(life(resources=VMS, vm=vm), vm, BEGAN).reason for vm in VMS[:2]]
    assert first.startswith("waiting: rule 'later' approves it at ")
    assert second.startswith("waiting for its turn: rule 'later' approves it at ")


@pytest.mark.parametrize(("turn", "vm"), list(enumerate(VMS)))
def test_turns_of_the_documented_policy(turn: int, vm: str) -> None:
    """The first VM of Resources approves at once, each one after it a minute later than the one
    before.
    """
    event = life(resources=VMS, vm=vm)
    for seconds in (0.5, 59.5, 60.5, 119.5, 120.5, 179.5, 180.5, 239.5, 240.5):
        is_due = seconds >= 60 * turn
        assert DOCUMENTED.decide(event, vm, after(seconds)).approve is is_due, seconds


LOOKS = 21
"""Of how many seconds, from ``BEGAN`` on, the tests below look at the decision."""


def seconds_of_approval(rule: Rule, event: Lifecycle, vm: str) -> list[int]:
    """Return the seconds after ``BEGAN`` at which ``rule`` approves ``event`` on ``vm``."""
    policy = Policy("p", (rule,))
    return [seconds for seconds in range(LOOKS) if policy.decide(event, vm, after(seconds)).approve]


@pytest.mark.parametrize(
    ("leader_only", "resources", "first", "second"),
    [
        (None, ("vmss_0", "vmss_1"), 0, 10),
        (True, ("vmss_0", "vmss_1"), 0, 10),
        (False, ("vmss_0", "vmss_1"), 0, 0),
        (None, ("vmss_1",), None, 0),
        (True, ("vmss_1",), None, 0),
    ],
)
def test_leader_only(
    leader_only: bool | None, resources: tuple[str, ...], first: int | None, second: int
) -> None:
    """VMs take turns if there are several or with ``leader_only: true``, and never with
    ``leader_only: false``.

    ``leader_only`` is None if the rule does not have it. ``first`` and ``second`` are the seconds
    after which vmss_0 and vmss_1 approve; None is never, because the rule is for events of the VM
    itself.
    """
    rule = Rule("r", Match(), Action.APPROVE, leader_only=leader_only, takeover=10.0)
    for vm, begins in (("vmss_0", first), ("vmss_1", second)):
        approving = seconds_of_approval(rule, life(resources=resources, vm=vm), vm)
        if begins is None:
            assert approving == [], vm
        else:
            assert approving == [*range(begins, LOOKS)], vm


@pytest.mark.parametrize(
    ("leader_only", "possible"), [(True, range(10, 21)), (None, [0]), (False, [0])]
)
def test_peer_is_behind_all_of_resources(leader_only: bool | None, possible: Sequence[int]) -> None:
    """A VM outside Resources waits for all VMs in it, if they take turns, plus a time computed from
    its name.

    Here one VM is in Resources, so the wait is 10 s for it, and up to 10 s more.
    """
    match = Match(scope=frozenset({Scope.PEER}))
    rule = Rule("r", match, Action.APPROVE, leader_only=leader_only, takeover=10.0)
    event = life(resources=("vmss_0",), vm="vmss_9")
    first, *later = seconds_of_approval(rule, event, "vmss_9")
    assert first in possible
    assert later == [*range(first + 1, LOOKS)], "once it approves, it goes on"
