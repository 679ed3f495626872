"""Reads policy files: turns YAML into rules, and refuses errors and rules that can never decide.

Checks keys and contradictions; ``approval.policy`` applies the rules.
"""

import math
from pathlib import Path

from azure_scheduled_events_exporter import yaml_file
from azure_scheduled_events_exporter.core.document import EventSource, Scope
from azure_scheduled_events_exporter.core.event_types import EventType
from azure_scheduled_events_exporter.text_file import read_text
from azure_scheduled_events_exporter.yaml_file import Section

from .policy import TAKEOVER_SECONDS, Action, Match, Policy, Range, Rule

MOST_RULES = 100
"""Each event is compared with each rule, at every poll."""


def load(path: Path) -> Policy:
    """Return the policy in the YAML file at ``path``.

    Raises:
        UsageError: the file cannot be read, has an unknown key or an impossible value, or a rule
            that can never decide.
    """
    return parse(read_text(path), str(path))


def parse(text: str, name: str) -> Policy:
    """Return the policy in a file's ``text``. Raises as :func:`load` does."""
    top = yaml_file.parse(text, name)
    dry_run = top.flag("dry_run", default=False)
    sections = top.sections("rules")
    top.finish()
    if not sections:
        raise top.error(
            "'rules' is missing or empty: a policy without rules approves nothing; for that"
            " write: off"
        )
    if len(sections) > MOST_RULES:
        raise top.error(f"has {len(sections)} rules: at most {MOST_RULES} are allowed", "rules")
    rules: list[Rule] = []
    for number, section in enumerate(sections, 1):
        rule = _rule(section, number, dry_run=dry_run)
        for earlier in rules:
            _check_pair(earlier, rule, section)
        rules.append(rule)
    return Policy(name, tuple(rules))


def _check_pair(earlier: Rule, rule: Rule, section: Section) -> None:
    """Raise UsageError if both have one name, or if ``earlier`` leaves no event to ``rule``.

    ``section`` is that of ``rule``.
    """
    if earlier.name == rule.name:
        raise section.error(
            f"'{rule.name}' is also the name of the rule in line {earlier.line}: use unique names",
            "name",
        )
    if covers(earlier.match, rule.match):
        raise section.error(
            f"'{rule.name}' can never decide, move or delete it: every event it matches is decided"
            f" by '{earlier.name}' (line {earlier.line})"
        )


def _rule(section: Section, number: int, *, dry_run: bool) -> Rule:
    """Return the rule in ``section``.

    Args:
        section: the rule's part of the file.
        number: its place among the rules, from 1 on, which names a rule without a name.
        dry_run: the value of the whole file, for a rule that has none.
    """
    match = section.section("match")
    action = Action(section.choice("action", tuple(Action)))
    if action is Action.HOLD:
        for key in ("after", "leader_only", "takeover", "dry_run"):
            if key in section:
                raise section.error(
                    "has no meaning with 'action: hold': remove this key, or write"
                    " 'action: approve'",
                    key,
                )
    takes_turns = section.flag("leader_only", default=True)
    if not takes_turns and "takeover" in section:
        raise section.error(
            "has no meaning with 'leader_only: false': remove one of the two", "takeover"
        )
    leader_only = None  # not written: then it depends on the event
    if "leader_only" in section:
        leader_only = takes_turns
    rule = Rule(
        name=section.text("name", f"rule {number}"),
        match=_match(match) if match else Match(),
        action=action,
        after=section.duration("after", 0.0),
        leader_only=leader_only,
        takeover=section.duration("takeover", TAKEOVER_SECONDS),
        dry_run=section.flag("dry_run", default=dry_run),
        line=section.line,
    )
    section.finish()  # refuses the keys that were not read above
    if not rule.name:
        raise section.error(
            "is empty: give the rule a name; the log and the status page show it", "name"
        )
    if rule.takeover == 0:
        raise section.error("must be more than 0, or all VMs would approve at once", "takeover")
    return rule


def _match(section: Section) -> Match:
    """Return the events that a rule matches, from the section ``match`` of the rule.

    Without ``scope``, they are this VM's own events.
    """
    unknown = section.is_text("duration") and section.text("duration") == "unknown"
    scopes = _several(section, "scope", tuple(Scope))
    if scopes is None:
        scopes = frozenset({Scope.SELF})
    match = Match(
        event_type=_several(section, "event_type", tuple(EventType)),
        event_source=_several(section, "event_source", tuple(EventSource)),
        scope=frozenset(Scope(scope) for scope in scopes),
        duration=Range() if unknown else _range(section, "duration", durations=True),
        unknown_duration=unknown,
        resources=_range(section, "resources", durations=False),
        notice_left=_range(section, "notice_left", durations=True),
    )
    section.finish()
    for key, found, least in (
        ("duration", match.duration, 0),
        ("resources", match.resources, match.fewest_resources),
    ):
        if found.below <= least:
            raise section.error(f"matches nothing: 'below' must be greater than {least}", key)
    return match


def _several(section: Section, key: str, known: tuple[str, ...]) -> frozenset[str] | None:
    """Return the values at ``key``, all of ``known``; None if there are none, which matches any."""
    # Also a key that is not there is read, so that `finish` counts it among the known ones.
    values = section.texts(key, ())
    if key not in section:
        return None
    if not values:
        raise section.error("is empty, so it matches nothing: name a value, or leave it out", key)
    for value in values:
        if value not in known:
            raise section.error(f"'{value}' is none of {', '.join(known)}", key)
    return frozenset(values)


def _range(section: Section, key: str, *, durations: bool) -> Range:
    """Return the range at ``key``, of ``durations`` or of numbers; any value if it is not there."""
    if section.is_text(key):
        example = "{at_least: 0s, below: 9s}" if durations else "{at_least: 1, below: 5}"
        raise section.error(f"'{section.text(key)}' is not a range: write {example}", key)
    inner = section.section(key)
    if inner is None:
        return Range()
    read = inner.duration if durations else inner.number
    found = Range(read("at_least", -math.inf), read("below", math.inf))
    inner.finish()
    if found == Range():
        raise section.error("names no bound: write at_least, below, or both", key)
    if found.at_least >= found.below:
        raise section.error("no value is in this range: at_least must be less than below", key)
    return found


def covers(one: Match, other: Match) -> bool:
    """Return whether ``one`` matches every event that ``other`` matches.

    Then a rule with ``other`` never decides after a rule with ``one``. Each key of ``one`` must
    accept all values that the same key of ``other`` accepts: those from ``lowest`` on, which is
    the least value of that key that an event can have.
    """
    return (
        _includes(one.event_type, other.event_type)
        and _includes(one.event_source, other.event_source)
        and other.scope <= one.scope
        and _covers_duration(one, other)
        and one.resources.contains(other.resources, lowest=other.fewest_resources)
        and one.notice_left.contains(other.notice_left, lowest=-math.inf)
    )


def _includes(one: frozenset[str] | None, other: frozenset[str] | None) -> bool:
    """Return whether ``one`` has all values of ``other``; None has any value."""
    return one is None or (other is not None and other <= one)


def _covers_duration(one: Match, other: Match) -> bool:
    """Return whether ``one`` accepts each duration that ``other`` does, also an unknown one."""
    if other.unknown_duration:
        return one.allows_duration(None)
    if one.unknown_duration:
        return False
    if other.allows_duration(None) and not one.allows_duration(None):
        return False
    return one.duration.contains(other.duration, lowest=0)
