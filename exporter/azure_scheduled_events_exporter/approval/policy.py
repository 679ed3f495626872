"""Which events to approve, and when: a policy is an ordered list of rules, and the first one that matches decides.

Pure: a policy is given an event's life, this VM's name and the moment, and says approve, wait or hold. It sends
nothing, and knows no clock, network or disk: ``approval.policy_file`` reads what users write.

An approval lets the event begin before NotBefore for every VM in its Resources, so nothing is approved that no rule
names, and no event that does not touch this VM unless a rule says so.

Source: https://learn.microsoft.com/azure/virtual-machines/linux/scheduled-events (Approve events, and its sample)
"""

import hashlib
import math
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from azure_scheduled_events_exporter.core.document import EventSource, Scope, comparable_name
from azure_scheduled_events_exporter.core.event_types import EventType
from azure_scheduled_events_exporter.core.lifecycle import Lifecycle, State
from azure_scheduled_events_exporter.core.timestamp import Timestamp

_STEPS = 30
"""Points of a turn at which VMs outside Resources may approve: two seconds apart, so that the second sees the first."""

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

    def opens_at(self, life: Lifecycle) -> float:
        """Return when so little notice is left that this matches ``life``, seconds since the epoch; -inf if always."""
        if self.notice_left is None or self.notice_left.below is None or life.event.not_before is None:
            return -math.inf
        return life.event.not_before - self.notice_left.below


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule of a policy.

    Attributes:
        name: for the log; line: where it stands in its file.
        after: seconds to wait since the event was first seen.
        leader_only: whether the VMs of Resources take turns, the first one first; None: if there are several.
        takeover: seconds that each of them waits for the one before it; a VM outside Resources waits for all of them,
            and then for a part of another turn that its name gives.
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
        due: when the same rule approves it, seconds since the epoch, also if that has passed; None if never.
        turn: which turn this VM has among those that may approve it, from 0 on.
    """

    approve: bool
    rule: str = ""
    dry_run: bool = False
    due: float | None = None
    turn: float = 0.0


@dataclass(frozen=True, slots=True)
class Policy:
    """Ordered rules under a name."""

    name: str
    rules: tuple[Rule, ...] = ()

    def decide(self, life: Lifecycle, vm_name: str | None, now: Timestamp) -> Decision:
        """Return what to do about ``life`` at ``now``, on the VM called ``vm_name``."""
        if life.state is not State.SCHEDULED or not life.is_open_to_approval:
            return Decision(approve=False)
        rule = next((rule for rule in self.rules if rule.match.matches(life, now)), None)
        if rule is None:
            return Decision(approve=False)
        if rule.action is Action.HOLD:
            return Decision(approve=False, rule=rule.name)
        turn = _turn(life, vm_name) if _takes_turns(rule, life) else 0
        # A rule that waits for the notice to run low begins then, for all VMs alike: only then do they take turns.
        wait = max(rule.after - now.since(life.first_seen), -rule.match.open_for(life, now)) + turn * rule.takeover
        # From the event's own times, so that it stays the same from poll to poll.
        due = max(life.first_seen.wall + rule.after, rule.match.opens_at(life)) + turn * rule.takeover
        return Decision(approve=wait <= 0, rule=rule.name, dry_run=rule.dry_run, due=due, turn=turn)


def _takes_turns(rule: Rule, life: Lifecycle) -> bool:
    return len(life.event.resources) > 1 if rule.leader_only is None else rule.leader_only


def _turn(life: Lifecycle, vm_name: str | None) -> float:
    """This VM's place in Resources, from 0 on; behind all of them when it has none, at a point that its name gives."""
    names = [comparable_name(name) for name in life.event.resources]
    own = comparable_name(vm_name or "")
    if own in names:
        return float(names.index(own))
    return len(names) + hashlib.sha256(own.encode()).digest()[0] % _STEPS / _STEPS


OFF = Policy("off")


def _sample(name: str, scope: frozenset[Scope], *, turns: bool | None) -> Policy:
    """Microsoft's sample for events of ``scope``: what a user requested, and a Freeze of less than 9 s."""
    requested = Match(event_source=frozenset({EventSource.USER}), scope=scope)
    short = Match(event_type=frozenset({EventType.FREEZE}), scope=scope, duration=Range(at_least=0, below=9))
    return Policy(
        name,
        (
            Rule("user-asked", requested, Action.APPROVE, leader_only=turns),
            Rule("short-freeze", short, Action.APPROVE, leader_only=turns),
        ),
    )


DOCUMENTED = _sample("documented", frozenset({Scope.SELF}), turns=None)
"""The sample for events of this VM; everything else is left to the workload."""

DOCUMENTED_ALL = _sample("documented-all", frozenset(Scope), turns=True)
"""The sample to the letter: every event of the document, whichever VM it touches, so that a secondary approves when the
primary hangs. It overrides what another VM holds back on purpose."""

BUILT_IN: Mapping[str, Policy] = {policy.name: policy for policy in (OFF, DOCUMENTED, DOCUMENTED_ALL)}
