"""One setting of the alerts: how its value is written, what is possible, and how an impossible one is refused.

Knows no setting by name; those are in the table of ``settings``.
"""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum, auto

from azure_scheduled_events_exporter.errors import UsageError
from azure_scheduled_events_exporter.times import format_duration, parse_duration

SEVERITIES = ("critical", "warning", "info")


class Kind(Enum):
    """How a value is written."""

    DURATION = auto()
    NUMBER = auto()
    SEVERITY = auto()
    TEXT = auto()


@dataclass(frozen=True, slots=True)
class Setting:
    """One row of the table.

    ``least`` and ``most`` bound durations (seconds) and numbers. ``form`` is the regular expression of a text, and
    ``form_text`` the same for people. The value of a list is a text with a line for each item, each of that form.
    ``regexps`` returns the regular expressions that stand in a text, or in an item of a list.
    """

    name: str
    default: str
    help: str
    kind: Kind = Kind.TEXT
    least: float = 0.0
    most: float = 0.0
    form: str = ""
    form_text: str = "text"
    is_list: bool = False
    regexps: Callable[[str], Iterable[str]] = lambda _: ()

    def check(self, text: str) -> str:
        """Return ``text`` if it is a possible value; UsageError: it is not."""
        if self.is_list:
            return self._check_list(text)
        if any(character in text for character in '"\\\n{}'):
            raise UsageError(f"{self.name}: must not contain quotes, backslashes, braces or line breaks")
        if self.form:
            self._check_form(text)
        self._check_regexps(text)
        if self.kind is Kind.SEVERITY and text not in SEVERITIES:
            raise UsageError(f"{self.name}: '{text}' is none of {', '.join(SEVERITIES)}")
        if self.kind in {Kind.DURATION, Kind.NUMBER}:
            self._check_range(text)
        return text

    def _check_form(self, text: str) -> None:
        if not re.fullmatch(self.form, text):
            raise UsageError(f"{self.name}: '{text}' is not possible: {self.form_text}")

    def _check_regexps(self, text: str) -> None:
        for each in self.regexps(text):
            try:
                re.compile(each)
            except re.error as error:
                raise UsageError(f"{self.name}: '{each}' is no regular expression: {error}") from None

    def _check_list(self, text: str) -> str:
        # Several matchers with commas are one item: taken apart, each of them would select more alerts.
        is_one = re.fullmatch(self.form, text.strip()) is not None
        items = [item.strip() for item in (text.split("\n") if is_one or "\n" in text else text.split(","))]
        found = list(dict.fromkeys(item for item in items if item))
        for item in found:
            self._check_form(item)
            self._check_regexps(item)
        return "".join(f"{item}\n" for item in found)

    def _check_range(self, text: str) -> None:
        try:
            value = parse_duration(text) if self.kind is Kind.DURATION else float(text)
        except ValueError as error:
            reason = str(error) if self.kind is Kind.DURATION else f"'{text}' is not a number"
            raise UsageError(f"{self.name}: {reason}") from None
        if not self.least <= value <= self.most:
            raise UsageError(f"{self.name}: {text} is out of range: {self.range}")

    @property
    def range(self) -> str:
        """The possible values, as error messages and pages show them."""
        match self.kind:
            case Kind.DURATION:
                return f"{format_duration(self.least)} to {format_duration(self.most)}"
            case Kind.NUMBER:
                return f"{self.least:g} to {self.most:g}"
            case Kind.SEVERITY:
                return ", ".join(SEVERITIES)
            case Kind.TEXT:
                return self.form_text
