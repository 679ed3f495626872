"""Reads environment files as systemd does (``EnvironmentFile=``), so that a shell sees the settings of the unit.

Must not interpret the variables.
"""

import re
from collections.abc import Mapping
from pathlib import Path

from .errors import UsageError

UNIT_FILE = Path("/etc/azure-scheduled-events-exporter/environment")
"""The environment file of the systemd unit."""

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)
_ESCAPED_IN_DOUBLE_QUOTES = re.compile(r'\\(["\\$`])')


def load(path: Path) -> Mapping[str, tuple[str, int]]:
    """Return the value and line number of every variable in the file at ``path``.

    Comments begin with ``#`` or ``;``. A backslash at the end of a line continues it. Values may be quoted.

    Raises:
        UsageError: the file cannot be read, or a line is not ``NAME=VALUE``.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: cannot be read: {getattr(error, 'strerror', None) or error}") from None
    found: dict[str, tuple[str, int]] = {}
    text, first = "", 0
    for number, line in enumerate(lines, 1):
        if not text and line.lstrip().startswith(("#", ";")):
            continue
        first = first if text else number
        text += line
        if re.search(r"(?<!\\)(\\\\)*\\$", text) and number < len(lines):
            text = text[:-1]
            continue
        if text.strip():
            name, equals, value = text.partition("=")
            if not equals or not _NAME.fullmatch(name.strip()):
                raise UsageError(f"{path}:{first}: expected NAME=VALUE")
            found[name.strip()] = _unquoted(value.strip()), first
        text = ""
    return found


def _unquoted(value: str) -> str:
    if len(value) > 1 and value[0] == value[-1] == "'":
        return value[1:-1]
    if len(value) > 1 and value[0] == value[-1] == '"':
        return _ESCAPED_IN_DOUBLE_QUOTES.sub(r"\1", value[1:-1])
    return _ESCAPED.sub(r"\1", value)
