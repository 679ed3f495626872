"""Reads environment files as systemd does, so that a shell sees the settings of the unit.

Must not interpret the variables. A comment ends with its line, as in systemd 254 and later. (In
older versions, a backslash at the end of a comment made the next line part of the comment.)
"""

import re
from collections.abc import Mapping
from pathlib import Path

from .errors import UsageError
from .text_file import read_text

UNIT_FILE = Path("/etc/azure-scheduled-events-exporter/environment")
"""The environment file of the systemd unit."""

_NAME = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)[ \t\r]*=[ \t\r]*")
_SKIPPED = re.compile(r"\s*(?:[#;][^\n]*\s*)*")
"""Empty lines and comments. It matches everywhere: where there are none, the empty text."""

_QUOTED = re.compile(
    r"""
    (?:
        '([^']*)'                 # single quotes, in which a backslash means itself
        | "((?:[^"\\]|\\.)*)"     # double quotes, in which a backslash escapes a quote
    )
    [ \t\r]*                      # blanks, after which another part may follow
    """,
    re.DOTALL | re.VERBOSE,
)
"""One part of a value in quotes; its two groups are the text in single or in double quotes."""

_UNQUOTED = re.compile(
    r"""
    ((?:\\.|[^\\\n])*?)           # the text; a backslash escapes what follows, also a line break
    [ \t\r]*                      # blanks, which are no part of the value
    (?:\n|\\?\Z)                  # the end of the line; or of the file, after a lone backslash too
    """,
    re.DOTALL | re.VERBOSE,
)
"""The rest of a value, up to the next line. It matches everywhere, also the empty text."""

_ESCAPED = re.compile(r"\\(?:\n|(.))")
"""Replaced by its group: a line break that is escaped disappears, another character stays."""

_ESCAPED_IN_DOUBLE_QUOTES = re.compile(r'\\(?:\n|(["\\$`]))')
"""Replaced likewise. Before other characters, a backslash in double quotes means itself."""


def load(path: Path) -> Mapping[str, tuple[str, int]]:
    """Return the value and line number of every variable in the file at ``path``.

    Comments begin with ``#`` or ``;``. A backslash at the end of a line continues it. A value may
    begin with parts in quotes, and these may have line breaks.

    Raises:
        UsageError: the file cannot be read, a line is not ``NAME=VALUE``, a quote is not closed,
            or systemd would ignore a setting that looks right: the file begins with a byte order
            mark, or has a NUL byte.
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
    assert skipped is not None  # noqa: S101 - the expression matches everywhere
    return skipped.end()


def _value(text: str, at: int, place: str) -> tuple[str, int]:
    """Return the value that begins at ``at``, and where the next line begins.

    A value is any number of parts in quotes, and after them a rest without quotes.

    ``place`` is how an error begins: file, line and variable.

    Raises UsageError: a quote is not closed.
    """
    value = ""
    while found := _QUOTED.match(text, at):
        in_single_quotes, in_double_quotes = found.groups()
        if in_single_quotes is not None:
            value += in_single_quotes
        else:
            value += _ESCAPED_IN_DOUBLE_QUOTES.sub(r"\1", in_double_quotes)
        at = found.end()
    if text.startswith(("'", '"'), at):  # a quote that _QUOTED has not matched
        raise UsageError(f"{place}: the quote is not closed")
    rest = _UNQUOTED.match(text, at)
    assert rest is not None  # noqa: S101 - the expression matches everywhere
    value += _ESCAPED.sub(r"\1", rest[1])
    return value, rest.end()
