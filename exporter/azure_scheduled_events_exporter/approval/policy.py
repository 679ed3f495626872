"""Which events to approve, and when: a policy is an ordered list of rules, and the first one that matches decides.

Pure: a policy is given an event's life, this VM's name and the moment, and says approve, wait or hold. It sends
nothing, and knows no clock, network or disk: ``approval.policy_file`` reads what users write.

An approval lets the event begin before NotBefore for every VM in its Resources, so nothing is approved that no rule
names, and no event that does not touch this VM unless a rule says so.

Source: https://learn.microsoft.com/azure/virtual-machines/linux/scheduled-events (Approve events, and its sample)
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from azure_scheduled_events_exporter.core.document import EventSource, Scope, comparable_name
from azure_scheduled_events_exporter.core.event_types import EventType
from azure_scheduled_events_exporter.core.lifecycle import Lifecycle, State
from azure_scheduled_events_exporter.core.timestamp import Timestamp

TAKEOVER_SECONDS = 60.0
"""How long each VM of Resources waits for the one before it, unless the rule says otherwise."""


class Action(StrEnum):
    """What a rule wants."""

    APPROVE = "approve"
    HOLD = "hold"


@dataclass(frozen=True, slots=True)
class Range:
    """Numbers from ``at_least`` on and ``below`` another; None for no bound."""

    at_least: float | None = None
    below: float | None = None

    def holds(self, value: float) -> bool:
        """Return whether ``value`` is in it."""
        return (self.at_least is None or value >= self.at_least) and (self.below is None or value < self.below)


@dataclass(frozen=True, slots=True)
class Match:
    """What events a rule is about; None for any. Without a word about scope it is about this VM's own events.

    Attributes:
        duration: announced impact in seconds; ``unknown_duration`` is for events that announce none.
        resources: number of VMs in Resources.
        notice_left: seconds until NotBefore; an event without NotBefore matches no range.
    """

    event_type: frozenset[str] | None = None
    event_source: frozenset[str] | None = None
    scope: frozenset[Scope] = frozenset({Scope.SELF})
    duration: Range | None = None
    unknown_duration: bool = False
    resources: Range | None = None
    notice_left: Range | None = None

    def matches(self, life: Lifecycle, now: Timestamp) -> bool:
        """Return whether the rule is about ``life`` at ``now``."""
        event = life.event
        left = None if event.not_before is None else event.not_before - now.wall
        return (
            (self.event_type is None or event.event_type in self.event_type)
            and (self.event_source is None or event.source in self.event_source)
            and life.scope in self.scope
            and self.allows_duration(event.duration_seconds)
            and self.allows_resources(len(event.resources))
            and self.allows_notice(left)
        )

    def allows_duration(self, seconds: float | None) -> bool:
        """Return whether the rule is about events that announce so long an impact; None if they announce none."""
        if self.duration is None:
            return not self.unknown_duration or seconds is None
        return self.duration.holds(seconds) if seconds is not None else self.unknown_duration

    def allows_resources(self, count: float) -> bool:
        """Return whether the rule is about events of so many VMs."""
        return self.resources is None or self.resources.holds(count)

    def allows_notice(self, left: float | None) -> bool:
        """Return whether the rule is about events with so many seconds to NotBefore; None if they have none."""
        return self.notice_left is None or (left is not None and self.notice_left.holds(left))

    @property
    def fewest_resources(self) -> int:
        """How many VMs stand at least in the Resources of an event that this is about."""
        return 1 if self.scope == {Scope.SELF} else 0

    def open_for(self, life: Lifecycle, now: Timestamp) -> float:
        """Return for how many seconds enough notice has passed to match ``life``, which it does at ``now``."""
        if self.notice_left is None or self.notice_left.below is None or life.event.not_before is None:
            return math.inf
        return self.notice_left.below - (life.event.not_before - now.wall)


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule of a policy.

    Attributes:
        name: for the log; line: where it stands in its file.
        after: seconds to wait since the event was first seen.
        leader_only: whether the VMs of Resources take turns, the first one first; None: if there are several.
        takeover: seconds that each of them waits for the one before it; a VM outside Resources waits for all.
        dry_run: decide and say so, but send nothing.
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
class Decision:
    """What a policy says of one event now.

    Attributes:
        approve: whether to approve it now.
        rule: the name of the rule that decided; ``""`` when none matches.
        dry_run: whether only to say so.
        wait: seconds until it would be approved by the same rule; None if never.
    """

    approve: bool
    rule: str = ""
    dry_run: bool = False
    wait: float | None = None


@dataclass(frozen=True, slots=True)
class Policy:
    """Ordered rules under a name."""

    name: str
    rules: tuple[Rule, ...] = ()

    def decide(self, life: Lifecycle, vm_name: str | None, now: Timestamp) -> Decision:
        """Return what to do about ``life`` at ``now``, on the VM called ``vm_name``."""
        if life.state is not State.SCHEDULED or life.approved_by is not None or not life.told:
            return Decision(approve=False)
        rule = next((rule for rule in self.rules if rule.match.matches(life, now)), None)
        if rule is None:
            return Decision(approve=False)
        if rule.action is Action.HOLD:
            return Decision(approve=False, rule=rule.name)
        turn = _turn(life, vm_name) if _takes_turns(rule, life) else 0
        # A rule that waits for the notice to run low begins then, for all VMs alike: only then do they take turns.
        leader_waits = max(rule.after - now.since(life.first_seen), -rule.match.open_for(life, now))
        wait = leader_waits + turn * rule.takeover
        return Decision(approve=wait <= 0, rule=rule.name, dry_run=rule.dry_run, wait=max(0.0, wait))


def _takes_turns(rule: Rule, life: Lifecycle) -> bool:
    return len(life.event.resources) > 1 if rule.leader_only is None else rule.leader_only


def _turn(life: Lifecycle, vm_name: str | None) -> int:
    """This VM's place in Resources, from 0; behind all of them when it has none."""
    names = [comparable_name(name) for name in life.event.resources]
    own = comparable_name(vm_name or "")
    return names.index(own) if own in names else len(names)


OFF = Policy("off")

DOCUMENTED = Policy(
    "documented",
    (
        Rule("user-asked", Match(event_source=frozenset({EventSource.USER})), Action.APPROVE),
        Rule(
            "short-freeze",
            Match(event_type=frozenset({EventType.FREEZE}), duration=Range(at_least=0, below=9)),
            Action.APPROVE,
        ),
    ),
)
"""Microsoft's sample: what a user asked for, and a Freeze of less than 9 s; everything else is the workload's."""

BUILT_IN: Mapping[str, Policy] = {policy.name: policy for policy in (OFF, DOCUMENTED)}
