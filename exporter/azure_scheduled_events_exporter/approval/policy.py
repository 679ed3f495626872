"""Which events to approve, and when: the first rule of a policy that matches decides.

Pure: from an event's lifecycle, this VM's name and the time, a policy decides to approve, wait or
hold. It sends nothing and uses no clock, network or disk: ``approval.policy_file`` reads policy
files.

An approval starts the event before NotBefore on every VM in its Resources. So an event that no rule
matches is not approved, and an event that does not affect this VM needs a rule with that scope.

Source: https://learn.microsoft.com/azure/virtual-machines/linux/scheduled-events (Approve events,
and its sample)
"""

import hashlib
import math
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from azure_scheduled_events_exporter.core.document import EventSource, Scope, comparable_name
from azure_scheduled_events_exporter.core.event_types import EventType
from azure_scheduled_events_exporter.core.kinds import SHORT_FREEZE_SECONDS
from azure_scheduled_events_exporter.core.lifecycle import Lifecycle, State
from azure_scheduled_events_exporter.core.timestamp import Timestamp
from azure_scheduled_events_exporter.snapshot.approvals import Decision
from azure_scheduled_events_exporter.times import iso_time

_STEPS = 30
"""Points of a turn at which VMs outside Resources may approve.

In a turn of :data:`TAKEOVER_SECONDS` they are 2 s apart, so that the next VM sees an approval.
"""

_WITHOUT_APPROVAL = "without approval it begins at NotBefore"

TAKEOVER_SECONDS = 60.0
"""How long each VM of Resources waits for the one before it, unless the rule sets ``takeover``."""


class Action(StrEnum):
    """What a rule does with an event that it matches."""

    APPROVE = "approve"
    HOLD = "hold"


@dataclass(frozen=True, slots=True)
class Range:
    """Numbers that are ``at_least`` one bound and ``below`` another.

    Without bounds, it holds any number, and also the events that have none.
    """

    at_least: float = -math.inf
    below: float = math.inf

    def holds(self, value: float | None) -> bool:
        """Return whether ``value`` is in the range.

        It is None for an event that has no such value, which only a range without bounds holds.
        """
        if value is None:
            return self == Range()
        return self.at_least <= value < self.below

    def contains(self, other: "Range", lowest: float) -> bool:
        """Return whether every value that an event can have in ``other`` is in this range, too.

        No event has a smaller value than ``lowest``. ``approval.policy_file`` asks, to refuse a
        rule that never decides, because an earlier one matches all of its events.
        """
        return self.at_least <= max(lowest, other.at_least) and other.below <= self.below


@dataclass(frozen=True, slots=True)
class Match:
    """The events that a rule matches; None matches any. The default scope is this VM's own events.

    Attributes:
        duration: announced impact in seconds; with ``unknown_duration``, the rule is for events
            that announce none.
        resources: number of VMs in Resources, the largest that a document has shown.
        notice_left: seconds until NotBefore, as last shown; no range with a bound matches an event
            that never had a NotBefore.
    """

    event_type: frozenset[str] | None = None
    event_source: frozenset[str] | None = None
    scope: frozenset[Scope] = frozenset({Scope.SELF})
    duration: Range = Range()
    unknown_duration: bool = False
    resources: Range = Range()
    notice_left: Range = Range()

    def matches(self, life: Lifecycle, now: float) -> bool:
        """Return whether the rule matches ``life`` at ``now``, by the clock of IMDS.

        An event that has been this VM's has the scope ``self``, whatever the last document names.
        """
        event = life.event
        is_of_type = self.event_type is None or event.event_type in self.event_type
        is_of_source = self.event_source is None or event.source in self.event_source
        vms = max(life.most_resources, event.resource_count)
        left = None if life.not_before is None else life.not_before - now
        return (
            is_of_type
            and is_of_source
            and life.scope in self.scope
            and self.allows_duration(event.duration_seconds)
            and self.resources.holds(vms)
            and self.notice_left.holds(left)
        )

    def allows_duration(self, seconds: float | None) -> bool:
        """Return whether the rule matches events with this announced duration.

        None stands for an event that announces none.
        """
        if self.unknown_duration:
            return seconds is None
        return self.duration.holds(seconds)

    @property
    def fewest_resources(self) -> int:
        """The smallest number of VMs in Resources of the events that this may match.

        It is 1 for this VM's own events, because their Resources name this VM. It is the ``lowest``
        of :meth:`Range.contains`.
        """
        return 1 if self.scope == {Scope.SELF} else 0

    def opens_at(self, life: Lifecycle) -> float:
        """Return since when the notice of ``life`` is below the bound of ``notice_left``.

        In seconds since the epoch; -inf if it has always been, or if there is no NotBefore.
        """
        if life.not_before is None:
            return -math.inf
        return life.not_before - self.notice_left.below


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule of a policy.

    Attributes:
        name: for the log and the pages.
        match: the events that it decides about.
        action: whether it approves or holds them. What follows is for rules that approve.
        after: seconds to wait since the event was first seen.
        leader_only: whether the VMs of Resources take turns, the first one first. None means that
            they do if there are several.
        takeover: seconds that each of them waits for the one before it. A VM outside Resources
            waits for all of them, and then for a fraction of ``takeover``, computed from its name.
        dry_run: decide and log, but send nothing.
        line: its line in the policy file; 0 in a built-in policy.
    """

    name: str
    match: Match
    action: Action
    after: float = 0.0
    leader_only: bool | None = None
    takeover: float = TAKEOVER_SECONDS
    dry_run: bool = False
    line: int = 0


@dataclass(frozen=True, slots=True)
class Policy:
    """Ordered rules under a name: that of a built-in policy, or the path of the file."""

    name: str
    rules: tuple[Rule, ...] = ()

    @property
    def is_built_in(self) -> bool:
        """Whether the policy is part of this program."""
        return self is BUILT_IN.get(self.name)

    def decide(self, life: Lifecycle, vm_name: str | None, now: Timestamp) -> Decision:
        """Return the decision about ``life``, which is open to approval, on the VM ``vm_name``.

        ``now`` is by the clock of IMDS, as NotBefore is.
        """
        obstacle = self._obstacle(life)
        if obstacle:
            return Decision(f"{obstacle}; {_WITHOUT_APPROVAL}")
        for rule in self.rules:
            if rule.match.matches(life, now.wall):
                if rule.action is Action.HOLD:
                    return Decision(f"held by rule '{rule.name}'", rule=rule.name)
                return _timed(rule, life, vm_name, now.wall, now.since(life.first_seen))
        return Decision(f"no rule matches it; {_WITHOUT_APPROVAL}")

    def _obstacle(self, life: Lifecycle) -> str:
        """Return why no rule may decide about an event, for people; ``""`` if rules may."""
        if not self.rules:
            return "the approval policy is off"
        if life.state is not State.SCHEDULED:
            return "its status is not known, so no rule decides"
        if not life.event.event_type:
            return "IMDS shows no EventType for it, so no rule decides"
        if life.event.is_contradictory:
            return "one document has several entries for it that differ, so no rule decides"
        return ""


def _timed(
    rule: Rule, life: Lifecycle, vm_name: str | None, now: float, seen_for: float
) -> Decision:
    """Return whether ``rule``, which approves ``life``, does so now or later, and when.

    ``now`` is by the clock of IMDS; ``seen_for``: seconds since the event was first seen.
    """
    name = f"rule '{rule.name}'"
    turn = _turn(rule, life, vm_name)
    turn_seconds = turn * rule.takeover
    # With notice_left, the turns of all VMs begin when that much notice is left.
    opens = rule.match.opens_at(life)
    # Whether it is due depends on seen_for, because the wall clock may have been corrected since
    # the event was first seen.
    wait = max(rule.after - seen_for, opens - now) + turn_seconds
    is_due = wait <= 0
    begins_before = life.not_before is not None and life.not_before <= now + wait
    if begins_before and not is_due:
        what_is_late = f"this VM's turn by {name}" if turn else f"{name} approves it"
        reason = f"it begins before {what_is_late}"
        return Decision(reason, rule=rule.name, dry_run=rule.dry_run)
    # What people see is computed from the event's own times: it is the same at every poll.
    due = max(life.first_seen.wall + rule.after, opens) + turn_seconds
    when = "now" if is_due else f"at {iso_time(due)}"
    if rule.dry_run:
        reason = f"{name} would approve it {when} (dry run)"
        return Decision(reason, approve=is_due, rule=rule.name, dry_run=True)
    if is_due:
        return Decision(f"due now by {name}", due=due, approve=True, rule=rule.name)
    waits = "waiting for its turn" if turn else "waiting"
    reason = f"{waits}: {name} approves it {when} if nobody else has"
    return Decision(reason, due=due, rule=rule.name)


def _turn(rule: Rule, life: Lifecycle, vm_name: str | None) -> float:
    """Return how many turns pass before this VM may approve; each lasts ``rule.takeover`` seconds.

    For a VM in Resources, it is its place there, from 0 on. A VM that is not listed comes after all
    that are. It is 0 for each VM if they take no turns.
    """
    names = [comparable_name(name) for name in life.event.resources]
    own = comparable_name(vm_name or "")
    takes_turns = rule.leader_only
    if takes_turns is None:
        takes_turns = len(names) > 1
    if not takes_turns:
        return 0.0
    if own in names:
        return float(names.index(own))
    # The hash gives a VM the same step each time, and spreads the VMs evenly over the steps.
    step = hashlib.sha256(own.encode()).digest()[0] % _STEPS
    return len(names) + step / _STEPS


OFF = Policy("off")


def _sample(name: str, scope: frozenset[Scope], *, turns: bool | None) -> Policy:
    """Return Microsoft's sample for events of ``scope``: users' events, and a Freeze below 9 s.

    ``turns`` is the ``leader_only`` of its rules. An event of a type that is in no table is not
    approved, because nobody knows what it does.
    """
    requested = Match(frozenset(EventType), frozenset({EventSource.USER}), scope)
    short = Match(frozenset({EventType.FREEZE}), None, scope, Range(0, SHORT_FREEZE_SECONDS))
    return Policy(
        name,
        (
            Rule("user-asked", requested, Action.APPROVE, leader_only=turns),
            Rule("short-freeze", short, Action.APPROVE, leader_only=turns),
        ),
    )


DOCUMENTED = _sample("documented", frozenset({Scope.SELF}), turns=None)
"""Microsoft's sample for events of this VM. Other events are not approved."""

DOCUMENTED_ALL = _sample("documented-all", frozenset(Scope), turns=True)
"""Microsoft's sample for every event of the document, of any VM.

So a secondary approves when the primary hangs. It also approves events that another VM holds on
purpose. VMs take turns even if Resources has one VM alone, because all others approve its event,
too.
"""

BUILT_IN: Mapping[str, Policy] = {
    policy.name: policy for policy in (OFF, DOCUMENTED, DOCUMENTED_ALL)
}
