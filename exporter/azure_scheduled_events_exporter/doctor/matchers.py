"""Matchers of Alertmanager's routes and inhibitions, in all forms that Alertmanager reads.

Source: https://prometheus.io/docs/alerting/latest/configuration (matcher, inhibit_rule, route)
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

_MATCHER: Final = re.compile(
    r"""
    \s* "? ([^\s=!~,{}"]+) "?           # the label's name, in quotes or not
    \s* (=~|!~|!=|=)                    # the operator
    \s* ("(?:[^"\\]|\\.)*" | [^,}]*)    # the value, in quotes or up to the next comma or brace
    """,
    re.VERBOSE,
)
"""One matcher; a text may have several: ``{severity="page", team!="db"}``."""
_ESCAPED: Final = re.compile(r'\\(["\\n])')
"""An escape in a value. Alertmanager leaves any other backslash as it is."""


@dataclass(frozen=True, slots=True)
class Matcher:
    """A condition on one label."""

    name: str
    operator: str
    value: str

    def accepts(self, labels: Mapping[str, str]) -> bool:
        """Return whether ``labels`` meet the condition. A missing label counts as an empty one.

        False also for a regular expression that only Go knows.
        """
        value = labels.get(self.name, "")
        if self.operator in {"=", "!="}:
            matches = value == self.value
        else:
            try:
                matches = re.fullmatch(self.value, value, re.DOTALL) is not None
            except re.error:
                return False
        if self.operator in {"!=", "!~"}:
            return not matches
        return matches

    def __str__(self) -> str:
        """Return the condition as people write it, without quotes."""
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
    """Yield the matchers under the three keys that a section may have.

    Args:
        section: a route or an inhibition.
        new: the key of a list of texts.
        equal: the deprecated key of a mapping from labels to values.
        regex: the deprecated key of a mapping from labels to regular expressions.
    """
    for text in section.get(new) or ():
        for name, operator, written in _MATCHER.findall(str(text)):
            yield Matcher(name, operator, _unquoted(written))
    for name, value in (section.get(equal) or {}).items():
        yield Matcher(str(name), "=", str(value))
    for name, value in (section.get(regex) or {}).items():
        yield Matcher(str(name), "=~", str(value))


def _unquoted(written: str) -> str:
    """Return a matcher's value as Alertmanager reads it: without quotes and escapes."""
    text = written.strip().removeprefix('"').removesuffix('"')
    return _ESCAPED.sub(lambda escape: "\n" if escape[1] == "n" else escape[1], text)
