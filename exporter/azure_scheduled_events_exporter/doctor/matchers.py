"""Matchers of Alertmanager's routes and inhibitions, in all forms that Alertmanager reads.

Source: https://prometheus.io/docs/alerting/latest/configuration (matcher, inhibit_rule, route)
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

_MATCHER: Final = re.compile(r'\s*"?([^\s=!~,{}"]+)"?\s*(=~|!~|!=|=)\s*("(?:[^"\\]|\\.)*"|[^,}]*)')
"""Name, operator and value, in quotes or not."""


@dataclass(frozen=True, slots=True)
class Matcher:
    """A condition on one label."""

    name: str
    operator: str
    value: str

    def accepts(self, labels: Mapping[str, str]) -> bool:
        """Return whether ``labels`` meet it. A missing label is an empty one."""
        value = labels.get(self.name, "")
        if "~" not in self.operator:
            equal = value == self.value
        else:
            try:
                equal = re.fullmatch(self.value, value, re.DOTALL) is not None
            except re.error:  # Go's own syntax
                return False
        return equal != self.operator.startswith("!")

    def __str__(self) -> str:
        """Return it as people write it."""
        return f"{self.name}{self.operator}{self.value}"


def matchers_of_route(route: Mapping[str, Any]) -> tuple[Matcher, ...]:
    """Return the matchers of a route."""
    return tuple(_matchers(route, "matchers", "match", "match_re"))


def severity_matchers(route: Mapping[str, Any]) -> Iterator[Matcher]:
    """Yield the matchers of ``route``, and of all routes below it, that ask for a severity."""
    for each in matchers_of_route(route):
        if each.name == "severity":
            yield each
    for below in route.get("routes") or ():
        yield from severity_matchers(below)


def matchers_of_inhibition(rule: Mapping[str, Any], side: str) -> tuple[Matcher, ...]:
    """Return the matchers of an inhibition's ``source`` or ``target``."""
    return tuple(_matchers(rule, f"{side}_matchers", f"{side}_match", f"{side}_match_re"))


def all_accept(matchers: tuple[Matcher, ...], labels: Mapping[str, str]) -> bool:
    """Return whether ``labels`` meet all ``matchers``."""
    return all(each.accepts(labels) for each in matchers)


def _matchers(section: Mapping[str, Any], new: str, equal: str, regex: str) -> Iterator[Matcher]:
    """Yield the matchers under the three keys that a section may have, the last two deprecated."""
    for text in section.get(new) or ():
        for name, operator, value in _MATCHER.findall(str(text)):
            yield Matcher(name, operator, value.strip().strip('"').replace("\\\\", "\\"))
    for name, value in (section.get(equal) or {}).items():
        yield Matcher(str(name), "=", str(value))
    for name, value in (section.get(regex) or {}).items():
        yield Matcher(str(name), "=~", str(value))
