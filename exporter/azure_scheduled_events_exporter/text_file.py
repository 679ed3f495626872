"""Reads the files that people hand to a command, with the same errors for all of them.

Must not interpret what is in a file.
"""

import stat
from pathlib import Path

from .errors import UnreadableFileError, UsageError

LARGEST = 1 << 20
"""The size of a configuration file at most, in bytes: 1 MiB."""


def read(path: Path, largest: int = LARGEST, what: str = "configuration file") -> bytes:
    """Return the content of the file at ``path``.

    Args:
        path: the file.
        largest: its size at most, in bytes; a multiple of 1 MiB, because the message has it in MiB.
        what: which kind of file it should be, for the message that it is too large.

    Raises:
        UnreadableFileError: it cannot be read, or is no regular file (reading a pipe or a device
            may never end).
        UsageError: it is too large.
    """
    try:
        # A folder is not refused here: the system's own error says what it is.
        if not stat.S_ISREG(path.stat().st_mode) and not path.is_dir():
            raise UnreadableFileError(f"{path}: is a pipe or a device: name a regular file")
        with path.open("rb") as file:
            data = file.read(largest + 1)
    except ValueError:  # such as a NUL in the name
        raise UnreadableFileError(f"{path}: cannot be read: no file can have this name") from None
    except OSError as error:
        raise UnreadableFileError(f"{path}: cannot be read: {error.strerror or error}") from None
    if len(data) > largest:
        mebibytes = largest >> 20
        raise UsageError(f"{path}: larger than {mebibytes} MiB: this is not a {what}")
    return data


def read_text(path: Path, largest: int = LARGEST, what: str = "configuration file") -> str:
    """Return the text of the file at ``path``; parameters and errors are those of :func:`read`.

    Raises:
        UsageError: also if the file is not UTF-8.
    """
    data = read(path, largest, what)
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise UsageError(f"{path}:{line}: is not UTF-8 text: save the file as UTF-8") from None
