"""Policy files: what each key means, and the whole complaint about everything that is wrong with
one.
"""

from dataclasses import replace
from pathlib import Path

import pytest

from azure_scheduled_events_exporter.approval.policy import (
    BUILT_IN,
    DOCUMENTED,
    DOCUMENTED_ALL,
    OFF,
    Action,
    Match,
    Policy,
    Range,
    Rule,
)
from azure_scheduled_events_exporter.approval.policy_file import MOST_RULES, load, parse
from azure_scheduled_events_exporter.approval.policy_reload import load_policy
from azure_scheduled_events_exporter.core.document import EventSource, Scope
from azure_scheduled_events_exporter.core.event_types import EventType
from azure_scheduled_events_exporter.errors import UsageError
from support.paths import DATA

BAD = DATA / "bad_policy"
GOOD = DATA / "good_policy"
DURATION = " is no duration: write a number and a unit, such as 500ms, 1s, 1m30s or 90d"
HOLDS = ": has no meaning with 'action: hold': remove this key, or write 'action: approve'"
RULE_KEYS = ": unknown key; known here: action, after, dry_run, leader_only, match, name, takeover"
BACKWARDS = ": no value is in this range: at_least must be less than below"
NO_RULES = (
    "'rules' is missing or empty: a policy without rules approves nothing; for that write: off"
)
NEVER = "can never decide, move or delete it: every event it matches is decided by"

# The whole complaint about each file in tests/data/bad_policy, without the file's name in front.
COMPLAINTS = {
    "action_missing": ":2: rules[0]: 'action' is missing",
    "action_unknown": ":2: rules[0].action: 'allow' is none of approve, hold",
    "after_is_a_number": f":3: rules[0].after: '30'{DURATION}",
    "after_negative": f":3: rules[0].after: '-30s'{DURATION}",
    "dry_run_unclear": ":1: dry_run: 'maybe' is neither true nor false",
    "duration_backwards": f":3: match.duration{BACKWARDS}",
    "duration_below_nothing": ":3: match.duration: matches nothing: 'below' must be greater than 0",
    "duration_bound_unknown": ":3: duration.at_most: unknown key; known here: at_least, below",
    "duration_is_a_value": (
        ":3: match.duration: '9s' is not a range: write {at_least: 0s, below: 9s}"
    ),
    "duration_of_one_value": f":3: match.duration{BACKWARDS}",
    "duration_without_bounds": ":3: match.duration: names no bound: write at_least, below, or both",
    "duration_without_unit": f":3: duration.below: '9'{DURATION}",
    "empty": f":1: {NO_RULES}",
    "event_source_unknown": ":3: match.event_source: 'user' is none of Platform, User",
    "event_type_is_a_mapping": ":3: match.event_type: must be a list of plain values",
    "event_type_none": (
        ":3: match.event_type: is empty, so it matches nothing: name a value, or leave it out"
    ),
    "event_type_unknown": f":3: match.event_type: 'Restart' is none of {', '.join(EventType)}",
    "hold_with_after": f":3: rules[0].after{HOLDS}",
    "hold_with_dry_run": f":3: rules[0].dry_run{HOLDS}",
    "hold_with_leader_only": f":3: rules[0].leader_only{HOLDS}",
    "hold_with_takeover": f":3: rules[0].takeover{HOLDS}",
    "key_of_match_beside_it": f":2: rules[0].event_type{RULE_KEYS}",
    "key_of_match_unknown": (
        ":3: match.type: unknown key; known here: duration, event_source, event_type, notice_left,"
        " resources, scope"
    ),
    "key_of_rule_unknown": f":3: rules[0].delay{RULE_KEYS}",
    "key_of_top_unknown": ":1: default: unknown key; known here: dry_run, rules",
    "key_twice": ":4: 'action' appears twice (first in line 2): keep one",
    "leader_only_unclear": ":3: rules[0].leader_only: 'first' is neither true nor false",
    "match_is_a_list": ":2: rules[0].match: must be a mapping",
    "match_is_nothing": ":2: rules[0].match: must be a mapping",
    "name_empty": (
        ":2: rules[0].name: is empty: give the rule a name; the log and the status page show it"
    ),
    "name_is_a_list": ":2: rules[0].name: must be one value, not a list or a mapping",
    "name_of_a_nameless_rule": (
        ":5: rules[1].name: 'rule 2' is also the name of the rule in line 2: use unique names"
    ),
    "name_twice": (
        ":5: rules[1].name: 'freezes' is also the name of the rule in line 2: use unique names"
    ),
    "notice_left_backwards": f":3: match.notice_left{BACKWARDS}",
    "notice_left_is_a_value": (
        ":3: match.notice_left: '5m' is not a range: write {at_least: 0s, below: 9s}"
    ),
    "notice_left_unknown": (
        ":3: match.notice_left: 'unknown' is not a range: write {at_least: 0s, below: 9s}"
    ),
    "resources_backwards": f":3: match.resources{BACKWARDS}",
    "resources_is_a_value": (
        ":3: match.resources: '1' is not a range: write {at_least: 1, below: 5}"
    ),
    "resources_negative": ":3: resources.at_least: must be a number, 0 or more, not -1",
    "resources_no_number": ":3: resources.below: 'many' is not a number",
    "resources_of_nobody": ":3: match.resources: matches nothing: 'below' must be greater than 1",
    "rule_is_a_text": ":2: rules: every entry must be a mapping",
    "rules_empty": f":1: {NO_RULES}",
    "rules_is_a_mapping": ":1: rules: must be a list",
    "rules_missing": f":1: {NO_RULES}",
    "scope_empty": (
        ":3: match.scope: is empty, so it matches nothing: name a value, or leave it out"
    ),
    "scope_unknown": ":3: match.scope: 'mine' is none of self, peer, unknown",
    "takeover_of_zero": (
        ":3: rules[0].takeover: must be more than 0, or all VMs would approve at once"
    ),
    "takeover_without_leader": (
        ":4: rules[0].takeover: has no meaning with 'leader_only: false': remove one of the two"
    ),
    "top_is_a_list": ":1: must be a mapping of keys to values",
    "unreachable": f":4: rules[1]: 'freezes' {NEVER} 'all' (line 2)",
    "unreachable_behind_two": f":8: rules[2]: 'short freezes' {NEVER} 'freezes' (line 5)",
    "unreachable_duration": f":6: rules[1]: 'short' {NEVER} 'known' (line 2)",
    "unreachable_notice": f":6: rules[1]: 'later' {NEVER} 'late' (line 2)",
    "unreachable_resources": f":6: rules[1]: 'mine' {NEVER} 'somebody' (line 2)",
    "unreachable_same": f":4: rules[1]: 'rule 2' {NEVER} 'rule 1' (line 2)",
    "unreachable_scope": f":5: rules[1]: 'mine' {NEVER} 'everybody' (line 2)",
    "unreachable_unknown_duration": f":5: rules[1]: 'unknown freezes' {NEVER} 'unknown' (line 2)",
}


def test_very_many_rules() -> None:
    """A policy may have 100 rules. One of more rules than anybody reads is refused."""
    # Each rule matches more than the one before, so that none is refused as unreachable.
    rules = [
        f"- {{action: hold, match: {{notice_left: {{below: {seconds}s}}}}}}\n"
        for seconds in range(1, MOST_RULES + 2)
    ]
    allowed = parse(f"rules:\n{''.join(rules[:MOST_RULES])}", "policy.yaml").rules
    assert len(allowed) == MOST_RULES
    with pytest.raises(UsageError, match="has 101 rules: at most 100 are allowed"):
        parse(f"rules:\n{''.join(rules)}", "policy.yaml")


@pytest.mark.parametrize("name", COMPLAINTS)
def test_complaint(name: str) -> None:
    """A mistake in a policy is refused with the file, the line and the reason, and never half
    obeyed.
    """
    path = BAD / f"{name}.yaml"
    with pytest.raises(UsageError) as raised:
        load(path)
    assert str(raised.value) == f"{path}{COMPLAINTS[name]}"


def test_every_bad_file_has_its_complaint() -> None:
    """Every file in the folder is used by a test."""
    assert {path.stem for path in BAD.iterdir()} == set(COMPLAINTS)


def test_no_file(tmp_path: Path) -> None:
    """A policy that is no built-in one and no file is refused by name."""
    with pytest.raises(UsageError) as raised:
        load(tmp_path / "documentd")
    assert str(raised.value) == f"{tmp_path}/documentd: cannot be read: No such file or directory"


def test_every_key() -> None:
    """Every key of a policy file has the meaning that docs/approvals.md describes."""
    path = GOOD / "every_key.yaml"
    assert load(path) == Policy(
        str(path),
        (
            Rule(
                "no reboot in the night",
                Match(event_type=frozenset({EventType.REBOOT})),
                Action.HOLD,
                dry_run=True,
                line=4,
            ),
            Rule(
                "what somebody asked for",
                Match(
                    event_type=frozenset({EventType.FREEZE, EventType.REDEPLOY}),
                    event_source=frozenset({EventSource.USER}),
                    scope=frozenset({Scope.SELF, Scope.PEER}),
                    duration=Range(0.0, 9.0),
                    resources=Range(1.0, 5.0),
                    notice_left=Range(below=600.0),
                ),
                Action.APPROVE,
                after=30.0,
                leader_only=True,
                takeover=90.0,
                dry_run=False,
                line=8,
            ),
            Rule(
                "rule 3",
                Match(unknown_duration=True, notice_left=Range(at_least=60.0)),
                Action.APPROVE,
                leader_only=False,
                dry_run=True,
                line=21,
            ),
        ),
    )


def test_smallest() -> None:
    """The shortest policy is one rule that approves everything, and has the defaults otherwise."""
    path = GOOD / "smallest.yaml"
    assert load(path) == Policy(str(path), (Rule("rule 1", Match(), Action.APPROVE, line=2),))


def test_documented_as_a_file() -> None:
    """The documented policy can be written as a file, to begin one's own from."""
    written = load(GOOD / "documented.yaml").rules
    assert [replace(rule, name="", line=0) for rule in written] == [
        replace(rule, name="") for rule in DOCUMENTED.rules
    ]


@pytest.mark.parametrize("name", [path.name for path in sorted(GOOD.iterdir())])
def test_a_rule_to_which_an_event_is_left_is_accepted(name: str) -> None:
    """A rule is not refused as unreachable as long as the rules before it leave a single event to
    it: the good files have such rules.
    """
    assert load(GOOD / name).rules


def test_policy_by_its_name(tmp_path: Path) -> None:
    """``--approval.policy`` takes off, documented, documented-all or a file."""
    built_in = {"off": OFF, "documented": DOCUMENTED, "documented-all": DOCUMENTED_ALL}
    assert built_in == BUILT_IN
    for name, policy in built_in.items():
        assert load_policy(name) is policy
    path = tmp_path / "policy.yaml"
    path.write_text("rules: [{action: approve}]")
    assert load_policy(str(path)) == load(path)
