"""Tries at the start whether the command of a hook can be executed.

The system would say so only at the event, when it is too late. Reads the first line as the kernel
does. Must not run anything.
"""

import os
import shutil
import sys
from pathlib import Path

from azure_scheduled_events_exporter.errors import UsageError, printable

_LONGEST_LINE = 256
"""Bytes of the first line that Linux looks at."""
_MOST_INTERPRETERS = 4
"""How many interpreters in a row may be scripts themselves, as in Linux.

The check ends there, without a complaint: what a longer row names is not looked at.
"""
_BYTE_ORDER_MARKS = (b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff")
"""Of UTF-8, and of UTF-16, which PowerShell writes."""
_SHEBANG = b"#!"


def check_script(name: str) -> None:
    """Raise UsageError, with the cause, if the program ``name`` cannot be executed."""
    found = shutil.which(name)
    if found is None:
        raise UsageError(f"hook: {name}: {_why_not_found(name)}")
    if sys.platform == "win32":
        return
    if problem := _problem(Path(found)):
        raise UsageError(f"hook: {found}: {problem}")


def _why_not_found(name: str) -> str:
    """Return why there is no such program, and what to do."""
    if os.path.dirname(name) == "":  # noqa: PTH120 - "./x" has one, and Path drops it
        return "there is no such program on PATH: write its whole path"
    path = Path(name)
    if path.is_dir():
        return "is a folder: name a program"
    if not path.exists():
        return "does not exist, or is in a folder that this user cannot enter"
    return "is not an executable file: run chmod +x, or check whether its disk is mounted noexec"


def _problem(path: Path, depth: int = 0) -> str:
    """Return why the system would not execute the file at ``path``, ``""`` if it would.

    ``depth``: 0 for the script itself, 1 for its interpreter, 2 for the interpreter of that, and
    so on.
    """
    try:
        with path.open("rb") as file:
            head = file.read(_LONGEST_LINE)
    except OSError:
        return ""  # a program that may be executed and not read
    line, _, _ = head.partition(b"\n")
    if head.startswith(_BYTE_ORDER_MARKS):
        return "it begins with a byte order mark: save it as UTF-8 without one"
    if not head.startswith(_SHEBANG):
        is_binary = b"\0" in head or head.startswith(b"\x7fELF")
        if is_binary:
            return ""
        return "it has no first line that names its interpreter, such as #!/bin/sh"
    if b"\r" in line:
        return "its lines end with CR LF, as on Windows: save it with LF (sed -i 's/\\r$//')"
    named = line.removeprefix(_SHEBANG).decode(errors="replace").replace("\t", " ").strip(" ")
    interpreter, _, rest = named.partition(" ")
    return _interpreter_problem(interpreter, rest.strip(" "), depth)


def _interpreter_problem(interpreter: str, rest: str, depth: int) -> str:
    """Return why the interpreter of a script cannot be executed, ``""`` if it can."""
    if not interpreter:
        return "its first line names no interpreter: write one, such as #!/bin/sh"
    shown = printable(interpreter)
    path = Path(interpreter)
    if not path.exists():
        return f"its interpreter {shown} does not exist: install it, or correct the first line"
    if path.is_dir() or not os.access(path, os.X_OK):
        return f"its interpreter {shown} cannot be executed: correct the first line"
    if path.name == "env":
        return _env_problem(rest)
    if depth < _MOST_INTERPRETERS and (problem := _problem(path, depth + 1)):
        return f"its interpreter {shown} cannot be executed: {problem}"
    return ""


def _env_problem(rest: str) -> str:
    """Return why ``env`` would not find the program that ``rest`` of the first line names."""
    words = [rest]  # the kernel passes the rest of the line as one argument, which -S splits
    if rest.startswith("-S"):
        words = rest.removeprefix("-S").split()
    without_variables = [word for word in words if "=" not in word]
    program = without_variables[0] if without_variables else ""
    if not program or program.startswith("-"):
        return ""  # an option that only env understands
    if shutil.which(program) is None:
        shown = printable(program)
        return f"its interpreter {shown} is not on PATH: install it, or correct the first line"
    return ""
