"""One setting of the alerts: how its value is written, what is possible, and how an impossible one is refused.

Knows no setting by name; those are in the table of ``settings``.
"""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum, auto

from azure_scheduled_events_exporter.errors import UsageError
from azure_scheduled_events_exporter.times import format_duration, parse_duration


class Form(Enum):
    """How a value is written. A list is a text with a line for each item, and a map one with lines KEY=VALUE."""

    TEXT = auto()
    DURATION = auto()
    LIST = auto()
    MAP = auto()


@dataclass(frozen=True, slots=True)
class Setting:
    """One row of the table.

    ``pattern`` is the regular expression of a text, or of an item of a list or map, and ``possible`` the same for
    people. ``least`` and ``most`` bound durations (seconds). ``regexps`` returns the regular expressions that stand in
    a text or item.
    """

    name: str
    default: str
    help: str
    pattern: str = ""
    possible: str = "text"
    form: Form = Form.TEXT
    least: float = 0.0
    most: float = 0.0
    regexps: Callable[[str], Iterable[str]] = lambda _: ()

    def check(self, text: str) -> str:
        """Return ``text`` if it is a possible value; UsageError: it is not."""
        if self.form in {Form.LIST, Form.MAP}:
            return self._check_items(text)
        if any(character in text for character in '"\\\n{}'):
            raise UsageError(f"{self.name}: must not contain quotes, backslashes, braces or line breaks")
        if self.form is Form.DURATION:
            self._check_duration(text)
        else:
            self._check_item(text)
        return text

    @property
    def range(self) -> str:
        """The possible values, as error messages and pages show them."""
        if self.form is Form.DURATION:
            return f"{format_duration(self.least)} to {format_duration(self.most)}"
        return self.possible

    def _check_items(self, text: str) -> str:
        # Several matchers with commas are one item: taken apart, each of them would select more alerts.
        is_one = bool(self.pattern) and re.fullmatch(self.pattern, text.strip()) is not None
        items = [item.strip() for item in (text.split("\n") if is_one or "\n" in text else text.split(","))]
        found = [item for item in items if item]
        for item in found:
            self._check_item(item)
        by_key = {item.partition("=")[0] if self.form is Form.MAP else item: item for item in found}
        return "".join(f"{item}\n" for item in by_key.values())

    def _check_item(self, text: str) -> None:
        if self.pattern and not re.fullmatch(self.pattern, text):
            raise UsageError(f"{self.name}: '{text}' is not possible: {self.possible}")
        for each in self.regexps(text):
            try:
                re.compile(each)
            except re.error as error:
                raise UsageError(f"{self.name}: '{each}' is no regular expression: {error}") from None

    def _check_duration(self, text: str) -> None:
        try:
            value = parse_duration(text)
        except ValueError as error:
            raise UsageError(f"{self.name}: {error}") from None
        if not self.least <= value <= self.most:
            raise UsageError(f"{self.name}: {text} is out of range: {self.range}")
