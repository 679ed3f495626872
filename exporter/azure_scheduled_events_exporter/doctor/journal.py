"""Checks the journal: readable, and on a disk that survives a reboot.

Opens the journal read-only, so it never creates or repairs one.
"""

import os
import sqlite3
import sys
from contextlib import closing
from pathlib import Path
from typing import Final

from azure_scheduled_events_exporter.errors import ExporterError
from azure_scheduled_events_exporter.journal.access import read_only
from azure_scheduled_events_exporter.journal.disk.location import MEMORY, file_path

from .finding import Finding, Findings, Mark, ok, skipped, warning, wrong
from .subject import Subject

_MOUNTS: Final = Path("/proc/self/mountinfo")
_LOST_BY_REBOOT: Final = "which a reboot erases"
_LOST_WITH_CONTAINER: Final = "the container's own layer, which goes away with the container"
_TEMPORARY: Final = {
    "tmpfs": _LOST_BY_REBOOT,
    "ramfs": _LOST_BY_REBOOT,
    "devtmpfs": _LOST_BY_REBOOT,
    "overlay": _LOST_WITH_CONTAINER,
    "aufs": _LOST_WITH_CONTAINER,
}
"""The types of file systems that keep nothing for long, and when they lose it."""


def examine(subject: Subject) -> Findings:
    """Yield the findings about the journal."""
    if subject.config.journal_path == MEMORY:
        sentence = "The journal is kept in memory: a restart during an event loses what was seen."
        yield warning("journal-disk", sentence, "Set --journal.path to a folder on a disk.")
        return
    path = file_path(Path(subject.config.journal_path))
    content = _content(path)
    yield content
    disk = _disk(path)
    # Beside a journal that cannot be read, a good disk is no news.
    if content.mark is Mark.OK or disk.mark is Mark.WRONG:
        yield disk


def _content(path: Path) -> Finding:
    """Report whether the journal can be read, and how many events it has."""
    try:
        with closing(read_only(path)) as store:
            lives = list(store.history())
    except (ExporterError, sqlite3.Error, ValueError) as error:
        if not _may_read(path):
            sentence = (
                f"Not checked: this user may not read the journal {path}. Run doctor as root."
            )
            return skipped("journal-content", sentence)
        hint = "Run doctor as root, with the exporter's settings."
        if path.exists():
            hint += " A restart of the exporter sets a damaged journal aside."
        message = str(error)  # begins in lower case: elsewhere, it follows the program's name
        sentence = f"{message[:1].upper()}{message[1:]}."
        return wrong("journal-content", sentence, hint)
    mine = sum(life.is_mine for life in lives)
    return ok("journal-content", f"Events in the journal: {len(lives)}, of this VM: {mine}.")


def _may_read(path: Path) -> bool:
    """Return whether this user may read the journal, or find out that there is none."""
    try:
        path.stat()
    except PermissionError:
        return False
    except OSError:
        return True
    by_effective_user = os.access in os.supports_effective_ids
    return os.access(path, os.R_OK, effective_ids=by_effective_user)


def _disk(path: Path) -> Finding:
    """Report whether a file at ``path`` survives a reboot and a redeploy.

    The file need not exist: the nearest folder above it that does says which disk it would be on.
    """
    # Path.exists would raise for a folder that this user cannot read.
    folder = next(each for each in path.parents if os.path.exists(each))  # noqa: PTH110
    kind = _file_system(folder)
    lost = ""
    if kind in _TEMPORARY:
        lost = f"{kind}, {_TEMPORARY[kind]}"
    # Azure puts this file at the root of a VM's temporary disk.
    if any(any(each.glob("DATALOSS_WARNING_README*")) for each in (folder, *folder.parents)):
        lost = "the VM's temporary disk, which a redeploy or a host failure erases"
    if lost:
        hint = (
            "Set --journal.path to a folder on the OS disk or a data disk, in a container to a"
            " volume."
        )
        return wrong("journal-disk", f"The journal {path} is on {lost}.", hint)
    if not kind:
        return skipped(
            "journal-disk", "Not checked: this system does not say on which disk the journal is."
        )
    return ok("journal-disk", "The journal is on a disk that survives a reboot.")


def _file_system(folder: Path) -> str:
    """Return the type of the file system that has ``folder``; ``""`` if it is not listed.

    A line of mountinfo has the number of the device as its third field, and the type after a lone
    hyphen. Source: proc_pid_mountinfo(5)
    """
    if sys.platform == "win32" or not _MOUNTS.exists():
        return ""
    device = folder.stat().st_dev
    number = f"{os.major(device)}:{os.minor(device)}"
    for line in _MOUNTS.read_text("utf-8").splitlines():
        fields = line.split()
        if fields[2] == number:
            return fields[fields.index("-") + 1]
    return ""
