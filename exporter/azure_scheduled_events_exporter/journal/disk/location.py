"""Where a journal is: its file, for a path that a user has named.

Must not open the file.
"""

import os
import stat
from contextlib import suppress
from pathlib import Path

from azure_scheduled_events_exporter.errors import UsageError

from .folder_owner import follows

FILE_NAME = "journal.sqlite"
MEMORY = "memory"
"""The value of ``--journal.path`` for a journal without a file."""


def file_path(path: Path) -> Path:
    """Return the journal's file for ``--journal.path``: a file, or a folder to put it in.

    Symbolic links are followed, so that different paths to one journal use the same lock. Root
    follows no link of another user to the file.
    """
    # Not Path's methods, which raise if the path cannot be reached: opening the file reports that.
    is_folder = os.path.isdir(path)  # noqa: PTH112
    is_file = os.path.isfile(path)  # noqa: PTH113
    if not is_folder and not is_file:
        is_folder = path.suffix == ""  # nothing is there yet: only a file's name has an extension
    named = path
    if is_folder:
        named = path / FILE_NAME
    file = Path(os.path.realpath(named.parent), named.name)
    if not follows(file):
        return file
    return Path(os.path.realpath(file))


def check_kind(path: Path) -> None:
    """Raise UsageError if ``path`` is a pipe or a device: SQLite would wait for its other end."""
    with suppress(OSError):  # what cannot be reached now may be later
        mode = path.stat().st_mode
        if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
            raise UsageError(
                f"--journal.path: {path}: is a pipe or a device: name a regular file or a folder"
            )
