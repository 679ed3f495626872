"""Checks the journal: on a disk that survives a reboot, with free space, readable, and without undelivered spans.

Opens the journal read-only, so it never creates or repairs one.
"""

import os
import re
import shutil
import time
from collections.abc import Iterable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from azure_scheduled_events_exporter.doctor.finding import Finding, Findings, Mark, note, ok, skipped, warning, wrong
from azure_scheduled_events_exporter.doctor.subject import Subject
from azure_scheduled_events_exporter.errors import ExporterError
from azure_scheduled_events_exporter.journal.file import MEMORY, file_path, read_only
from azure_scheduled_events_exporter.times import format_duration

_PAGE: Final = "runbooks/AzureScheduledEventJournalNotOnDisk.md"
_MOUNTS: Final = Path("/proc/self/mountinfo")
_LOST_AT_REBOOT: Final = frozenset({"tmpfs", "ramfs", "devtmpfs"})
_LAYERS: Final = frozenset({"overlay", "aufs"})
_TEMPORARY_DISK: Final = ("DATALOSS_WARNING_README.txt", "DATALOSS_WARNING_README")
"""Azure puts this file at the root of a VM's temporary disk."""

_NO_ROOM, _LITTLE_ROOM = 16 << 20, 100 << 20  # bytes
_SPAN_WAITS: Final = 900.0  # seconds; the alert SpansNotDelivered waits as long


@dataclass(frozen=True, slots=True)
class Mount:
    """A mounted file system."""

    point: Path
    kind: str
    read_only: bool


def examine(subject: Subject) -> Findings:
    """Yield the findings about the journal."""
    if subject.config.journal_path == MEMORY:
        yield warning(
            "journal-kept",
            "The journal is kept in memory: a restart during an event loses what was seen.",
            "Set --journal.path to a folder on a disk.",
            _PAGE,
        )
        return
    path = file_path(Path(subject.config.journal_path))
    folder = _existing(path.parent)
    found = _readable(path)
    yield found
    is_readable = found.mark is Mark.OK
    disk = _disk(folder, path)
    if is_readable or disk.mark is not Mark.OK:
        yield disk
    yield _room(folder)
    if is_readable:
        yield from _content(path, is_traced=subject.is_traced)
    else:
        yield skipped("journal-content", "Not checked: what is in the journal.")


def _existing(folder: Path) -> Path:
    """Return the folder, or its nearest parent that exists and that this user can see."""
    return next(each for each in (folder, *folder.parents) if _exists(each))


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except OSError:  # this user may not search the folder; _readable reports it
        return False


def _disk(folder: Path, path: Path) -> Finding:
    mount = mount_of(folder.resolve(), mounts(_MOUNTS.read_text("utf-8"))) if _MOUNTS.exists() else None
    drive = folder.resolve().drive.upper()
    point = mount.point if mount else Path(f"{drive}\\")
    temporary = any(_exists(point / name) for name in _TEMPORARY_DISK)
    return judge_disk(path, mount, temporary=temporary)


def judge_disk(path: Path, mount: Mount | None, *, temporary: bool) -> Finding:
    """Return whether the file at ``path`` survives a reboot and a redeploy, by its mount."""
    hint = "Set --journal.path to a folder on the OS disk or a data disk."
    if temporary:
        where = f" ({mount.point})" if mount else ""
        sentence = (
            f"The journal {path} is on the VM's temporary disk{where}, which a redeploy or a host failure erases."
        )
        return wrong("journal-disk", sentence, hint, _PAGE)
    if mount is None:
        return skipped("journal-disk", "Not checked: this system does not say on which disk the journal is.")
    if mount.kind in _LOST_AT_REBOOT:
        sentence = f"The journal {path} is on {mount.kind} ({mount.point}), which a reboot erases."
        return wrong("journal-disk", sentence, hint, _PAGE)
    if mount.kind in _LAYERS:
        sentence = f"The journal {path} is in the container's own layer, which goes away with the container."
        return wrong("journal-disk", sentence, "Mount a volume or a folder of the host there.", "container.md")
    if mount.read_only:
        sentence = f"The journal {path} is on a read-only file system ({mount.point})."
        return wrong("journal-disk", sentence, f"Run mount -o remount,rw {mount.point}. {hint}", _PAGE)
    return ok("journal-disk", f"The journal is on {mount.kind}, which survives a reboot.")


def mounts(mountinfo: str) -> list[Mount]:
    """Return what the text of ``/proc/self/mountinfo`` lists (proc_pid_mountinfo(5))."""
    found = []
    for line in mountinfo.splitlines():
        before, _, after = line.partition(" - ")
        fields, system = before.split(), after.split()
        if len(fields) > 5 and system:  # noqa: PLR2004 - the sixth field has the options
            options = f"{fields[5]},{system[-1]}".split(",")  # of the mount, and of the disk, which an error makes ro
            point = re.sub(r"\\([0-7]{3})", lambda octal: chr(int(octal[1], 8)), fields[4])
            found.append(Mount(Path(point), system[0], "ro" in options))
    return found


def mount_of(folder: Path, mounted: Iterable[Mount]) -> Mount | None:
    """Return the mount of ``folder``: the deepest mount point above it, and of several mounts there the last."""
    above = [mount for mount in mounted if folder.is_relative_to(mount.point)]
    return max(reversed(above), key=lambda mount: len(mount.point.parts), default=None)


def _room(folder: Path) -> Finding:
    free = shutil.disk_usage(folder).free
    sentence = f"{free >> 20} MiB are free for the journal."
    hint = "Make room on that disk, or set --journal.path to another one."
    if free < _NO_ROOM:
        return wrong("journal-room", sentence, hint, _PAGE)
    return warning("journal-room", sentence, hint, _PAGE) if free < _LITTLE_ROOM else ok("journal-room", sentence)


def _readable(path: Path) -> Finding:
    try:
        if not path.exists():
            return wrong(
                "journal-readable",
                f"There is no journal at {path}.",
                "Start the exporter; if it runs, run doctor with its settings and as root.",
                "README.md#when-it-does-not-work",
            )
        with closing(read_only(path)):
            return ok("journal-readable", f"The journal {path} can be read.")
    except (ExporterError, OSError) as error:
        denied = isinstance(error, PermissionError) or not os.access(path, os.R_OK)
        hint = "Run doctor as root." if denied else "Restart the exporter: it sets a damaged journal aside."
        return wrong("journal-readable", f"The journal cannot be read: {error}.", hint, _PAGE)


def _content(path: Path, *, is_traced: bool) -> Findings:
    try:
        with closing(read_only(path)) as store:
            lives, left_out = list(store.history()), store.left_out
            waiting = [queued.span for queued in store.queued_spans(-1)]
    except Exception as error:  # noqa: BLE001 - of a damaged file anything may come
        yield wrong(
            "journal-content",
            f"The journal is damaged: {error}.",
            "Restart the exporter: it sets a damaged journal aside and starts a new one.",
            _PAGE,
        )
        return
    if left_out:
        yield warning(
            "journal-content",
            f"At least one event in the journal cannot be read: {left_out}.",
            "Nothing stops working: the exporter leaves the event out. If you see this after an update, report it.",
            _PAGE,
        )
    else:
        mine = sum(life.scope == "self" for life in lives)
        yield ok("journal-content", f"Events in the journal: {len(lives)}, of this VM: {mine}.")
    age = time.time() - min((span.end for span in waiting), default=time.time())
    if waiting and not is_traced:
        yield note("spans", f"Trace spans that wait: {len(waiting)}. Tracing is off, so they are not sent.")
    elif age > _SPAN_WAITS:
        yield wrong(
            "spans",
            f"Trace spans that wait for the collector: {len(waiting)}, the oldest for {format_duration(round(age))}.",
            "See the checks of the collector below, and the exporter's log.",
            "runbooks/AzureScheduledEventSpansNotDelivered.md",
        )
    else:
        yield ok("spans", f"Trace spans that wait for the collector: {len(waiting)}.")
