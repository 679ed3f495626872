"""Reads environment files as systemd does, so that a shell sees the settings of the unit.

Must not interpret the variables. Before version 254, systemd also continued a comment that ends in
a backslash.
"""

import re
from collections.abc import Mapping
from pathlib import Path

from .errors import UsageError
from .text_file import read_text

UNIT_FILE = Path("/etc/azure-scheduled-events-exporter/environment")
"""The environment file of the systemd unit."""

_NAME = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)[ \t\r]*=[ \t\r]*")
_SKIPPED = re.compile(r"\s*(?:[#;][^\n]*\s*)*")  # empty lines and comments
_QUOTED = re.compile(r"""(?:'([^']*)'|"((?:[^"\\]|\\.)*)")[ \t\r]*""", re.DOTALL)
_UNQUOTED = re.compile(r"((?:\\.|[^\\\n])*?)[ \t\r]*(?:\n|\\?\Z)", re.DOTALL)
_ESCAPED = re.compile(r"\\(?:\n|(.))")
_ESCAPED_IN_DOUBLE_QUOTES = re.compile(r'\\(?:\n|(["\\$`]))')


def load(path: Path) -> Mapping[str, tuple[str, int]]:
    """Return the value and line number of every variable in the file at ``path``.

    Comments begin with ``#`` or ``;``. A backslash at the end of a line continues it. A value may
    begin with parts in quotes, and these may have line breaks.

    Raises:
        UsageError: the file cannot be read, a line is not ``NAME=VALUE``, or systemd would ignore
            what looks right.
    """
    text = read_text(path)
    if text.startswith("\ufeff"):
        raise UsageError(
            f"{path}:1: begins with a byte order mark, so systemd ignores its first setting: save"
            " as UTF-8 without it"
        )
    if "\0" in text:
        line = text.count("\n", 0, text.index("\0")) + 1
        raise UsageError(
            f"{path}:{line}: has a NUL byte, so systemd ignores the whole file; remove the byte"
        )
    found: dict[str, tuple[str, int]] = {}
    at = _after_comments(text, 0)
    while at < len(text):
        line = text.count("\n", 0, at) + 1
        name = _NAME.match(text, at)
        if not name:
            raise UsageError(f"{path}:{line}: expected NAME=VALUE")
        value, end = _value(text, name.end(), f"{path}:{line}: {name[1]}")
        found[name[1]] = (value, line)
        at = _after_comments(text, end)
    return found


def _after_comments(text: str, at: int) -> int:
    """Return where the next variable begins: after empty lines and comments."""
    skipped = _SKIPPED.match(text, at)
    return skipped.end() if skipped else at


def _value(text: str, at: int, place: str) -> tuple[str, int]:
    """Return the value that begins at ``at``, and where the next line begins.

    Raises UsageError: a quote is not closed.
    """
    value = ""
    while found := _QUOTED.match(text, at):
        in_single_quotes = found[1]
        if in_single_quotes is None:
            value += _ESCAPED_IN_DOUBLE_QUOTES.sub(r"\1", found[2])
        else:
            value += in_single_quotes
        at = found.end()
    rest = _UNQUOTED.match(text, at)
    if rest is None or text.startswith(("'", '"'), at):
        raise UsageError(f"{place}: the quote is not closed")
    return value + _ESCAPED.sub(r"\1", rest[1]), rest.end()
