"""Renames a journal that cannot be used, so that no data is lost and a new one can begin.

Must not decide that a file cannot be used.
"""

import glob
import logging
import re
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from azure_scheduled_events_exporter.logs import facts

KEPT: Final = 3
"""How many journals that were set aside stay: a disk that damages each new one must not be filled.

Each takes at most what a journal takes.
"""
_SUFFIXES: Final = ("", "-wal", "-shm", ".documents", ".documents.old")
"""The files of one journal: the database, SQLite's two beside it, and the bodies of IMDS."""
_MOMENT: Final = re.compile(r"[0-9]{8}T[0-9]{6}\.[0-9]{6}")
"""The end of a name: date and time in UTC, to the microsecond."""


def set_aside(path: Path, why: str, log: logging.Logger) -> None:
    """Rename the journal at ``path`` with the files that belong to it, and log ``why``.

    Of all that were set aside, this one included, only the newest :data:`KEPT` stay.

    Raises:
        OSError: a file cannot be renamed.
    """
    aside = path.with_name(f"{path.name}.set-aside-{datetime.now(UTC):%Y%m%dT%H%M%S.%f}")
    for suffix in _SUFFIXES:
        with suppress(FileNotFoundError):
            Path(f"{path}{suffix}").replace(f"{aside}{suffix}")
    message = "journal cannot be used: set aside, and a new one begun"
    log.error(message, extra=facts(path=path, set_aside=aside, error=why))
    with suppress(OSError):
        oldest_first = sorted(_all_set_aside(path))  # their names end in their times
        for old in oldest_first[:-KEPT]:
            for suffix in _SUFFIXES:
                Path(f"{old}{suffix}").unlink(missing_ok=True)


def _all_set_aside(path: Path) -> Iterator[Path]:
    """Yield the databases that were set aside, except those that a user has renamed since."""
    beginning = f"{path.name}.set-aside-"
    for each in path.parent.glob(f"{glob.escape(beginning)}*"):
        if _MOMENT.fullmatch(each.name.removeprefix(beginning)):
            yield each
