"""Evaluates where an Alertmanager sends an alert: its routing tree, matchers, inhibitions and silences. Pure.

Source: https://prometheus.io/docs/alerting/latest/configuration/#route and pkg/labels/parse.go of Alertmanager.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

_MATCHER: Final = re.compile(r'\s*("(?:[^"\\]|\\.)*"|[^\s=!~,{}"]+)\s*(=~|!~|!=|=)\s*("(?:[^"\\]|\\.)*"|[^,}]*)')
Labels = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Matcher:
    """A condition on one label; ``operator`` is ``=``, ``!=``, ``=~`` or ``!~``."""

    name: str
    operator: str
    value: str

    def matches(self, labels: Labels) -> bool:
        """Return whether ``labels`` meet it; a missing label is an empty one."""
        have = labels.get(self.name, "")
        if self.operator in {"=", "!="}:
            return (have == self.value) == (self.operator == "=")
        try:
            found = re.fullmatch(self.value, have, re.DOTALL) is not None
        except re.error:  # Go's own syntax
            return False
        return found == (self.operator == "=~")


@dataclass(frozen=True, slots=True)
class Route:
    """A node of the tree that matches an alert, with the settings that it inherits.

    Attributes:
        receiver: whom it notifies.
        group_by: the labels by which it groups alerts.
        group_wait: how long the first alert of a group waits.
        muted_by: time intervals in which it notifies nobody.
        active_in: time intervals outside of which it notifies nobody; empty for always.
    """

    receiver: str
    group_by: tuple[str, ...]
    group_wait: str
    muted_by: tuple[str, ...]
    active_in: tuple[str, ...]


def routes(tree: Mapping[str, Any], labels: Labels) -> list[Route]:
    """Return every route that matches an alert with ``labels``, in order."""
    return list(_walk(tree, labels, Route("", (), "30s", (), ())))


def _walk(node: Mapping[str, Any], labels: Labels, parent: Route) -> Iterator[Route]:
    here = Route(
        str(node.get("receiver") or parent.receiver),
        tuple(node["group_by"]) if "group_by" in node else parent.group_by,
        str(node.get("group_wait", parent.group_wait)),
        tuple(node.get("mute_time_intervals") or ()),
        tuple(node.get("active_time_intervals") or ()),
    )
    taken = False
    for child in node.get("routes") or ():
        if not all(matcher.matches(labels) for matcher in matchers_of(child)):
            continue
        taken = True
        yield from _walk(child, labels, here)
        if not child.get("continue"):
            return
    if not taken:
        yield here


def matchers_of(node: Mapping[str, Any], prefix: str = "") -> list[Matcher]:
    """Return the matchers of a route, or of one side of an inhibition (``prefix`` source_ or target_)."""
    found = [matcher for text in node.get(f"{prefix}matchers") or () for matcher in parse(str(text))]
    found += [Matcher(name, "=", str(value)) for name, value in (node.get(f"{prefix}match") or {}).items()]
    found += [Matcher(name, "=~", str(value)) for name, value in (node.get(f"{prefix}match_re") or {}).items()]
    return found


def parse(text: str) -> list[Matcher]:
    """Return the matchers in ``text``, such as ``severity="critical"`` or ``{team=~"a|b", env!=dev}``."""
    return [Matcher(_plain(name), operator, _plain(value)) for name, operator, value in _MATCHER.findall(text)]


def _plain(text: str) -> str:
    text = text.strip()
    if text.startswith('"'):
        try:
            return str(json.loads(text))
        except ValueError:
            return text.strip('"')
    return text


def silenced_by(silence: Mapping[str, Any], labels: Labels) -> bool:
    """Return whether a silence of Alertmanager's API (v2) covers an alert with ``labels``."""
    return all(
        Matcher(
            each["name"],
            {(True, False): "=", (False, False): "!=", (True, True): "=~", (False, True): "!~"}[
                each.get("isEqual", True), each["isRegex"]
            ],
            each["value"],
        ).matches(labels)
        for each in silence["matchers"]
    )


def inhibits(rule: Mapping[str, Any], source: Labels, target: Labels) -> bool:
    """Return whether an inhibition keeps ``target`` silent while ``source`` fires."""
    return (
        all(matcher.matches(source) for matcher in matchers_of(rule, "source_"))
        and all(matcher.matches(target) for matcher in matchers_of(rule, "target_"))
        and all(source.get(name, "") == target.get(name, "") for name in rule.get("equal") or ())
    )


def integrations(receivers: Sequence[Mapping[str, Any]], name: str) -> list[str]:
    """Return the integrations of the receiver ``name``, such as ``webhook``; empty if it notifies nobody."""
    found: Mapping[str, Any] = next((each for each in receivers if each.get("name") == name), {})
    return [key.removesuffix("_configs") for key, value in found.items() if key.endswith("_configs") and value]
