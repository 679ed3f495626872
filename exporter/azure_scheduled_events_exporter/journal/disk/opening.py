"""Opens the database of a journal, for writing or only for reading.

SQLite writes the journal in WAL mode, so no reader delays the writer. In that mode, it maps a
second file into memory, whose name ends with ``-shm``. A mapped page that finds no room on a full
file system ends the process with SIGBUS. Hence two precautions: nothing writes while less than
:data:`ROOM_BYTES` are free, and readers map that file read-only. A reader writes it only if the
database was copied without it (``_COPY``).

Must not know the writer's lock, or rename anything.
"""

import errno
import os
import shutil
import sqlite3
from contextlib import closing, suppress
from pathlib import Path

from azure_scheduled_events_exporter.errors import ExporterError
from azure_scheduled_events_exporter.journal.tables.schema import NothingWrittenError
from azure_scheduled_events_exporter.journal.tables.store import Store

from .failures import FAILURES, closed_on_failure, may_be_damage, reason
from .folder_owner import as_folder_owner
from .location import check_kind, file_path

ROOM_BYTES = 256 << 10
"""With less free space, the disk counts as full.

A write may map 32 KiB, and other programs write too.
"""
# How SQLite opens a file: what follows "mode=" in its address. Only WRITING and _COPY may write
# -shm.
WRITING = "rw"
_BESIDE_A_WRITER = "ro&readonly_shm=1"  # -shm is there, because a writer is, or was killed
_COPY = "ro"  # a log without -shm, which SQLite makes anew: somebody has copied the two files
_CLOSED = "ro&immutable=1"  # no log: the file has everything, and nobody writes it


def check_room(folder: Path) -> None:
    """Raise OSError if the file system of ``folder`` is full."""
    # What is reserved for root does not count: a mapped page may not get it.
    found = shutil.disk_usage(folder)
    if found.free < ROOM_BYTES and found.total:  # some network file systems do not say
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(folder))


def open_store(file: Path, how: str, seconds: float = 5.0, *, creates: bool = True) -> Store:
    """Open the database ``file``, and return its tables.

    Text that is not UTF-8 is read with replacement characters, as damaged text.

    Args:
        file: must exist.
        how: :data:`WRITING`, or one of the ways to read.
        seconds: how long each operation waits for a lock of another process.
        creates: whether tables are created if there are none; only for :data:`WRITING`.
    """
    if how in {WRITING, _COPY}:
        check_room(file.parent)
    uri = f"{file.absolute().as_uri()}?mode={how}"
    with as_folder_owner(file.parent):
        connection = sqlite3.connect(uri, uri=True, timeout=seconds, check_same_thread=False)
        connection.text_factory = lambda content: content.decode(errors="replace")
        with closed_on_failure(connection):
            return Store(connection, writes=creates and how == WRITING)


def open_to_read(file: Path) -> Store:
    """Return the tables for reading, also from a disk that is full or read-only.

    Nothing is written beside the file, except in one case: a copy of the file and its log, without
    -shm, can only be read where SQLite can write -shm.
    """
    if Path(f"{file}-shm").exists():
        return open_store(file, _BESIDE_A_WRITER)
    has_log = any(Path(f"{file}{suffix}").exists() for suffix in ("-wal", "-journal"))
    if has_log:
        return open_store(file, _COPY)
    return open_store(file, _CLOSED)


def proven_damage(file: Path) -> str:
    """Read all of ``file`` over a new connection; return why it cannot be used.

    Returns:
        ``""`` if it is sound, or if it could not be read to the end: then nothing is proven.
    """
    # Where one way to open it fails because of the disk, another may work.
    for how in (WRITING, _BESIDE_A_WRITER, _COPY):
        try:
            with closing(open_store(file, how, seconds=1.0, creates=False)) as store:
                store.check()
                return ""
        except NothingWrittenError:
            return ""
        except FAILURES as error:
            if may_be_damage(error):
                return reason(error)
    return ""


def check_may_be_opened(path: Path) -> None:
    """Refuse a file that is no journal of this version: an exporter that opened it would rename it.

    Raises:
        ExporterError: it is another program's, of another version, or damaged in its first bytes.
        UsageError: it is a pipe or a device.
    """
    check_kind(path)
    file = file_path(path)
    try:
        with suppress(NothingWrittenError):
            open_to_read(file).close()
    except FAILURES as error:
        # Any other failure, such as that there is no file yet, says nothing about what is in it.
        if may_be_damage(error):
            raise ExporterError(
                f"{file} cannot be used as --journal.path: {reason(error)}"
            ) from None
