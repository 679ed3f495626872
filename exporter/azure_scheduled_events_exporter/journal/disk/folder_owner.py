"""Lets root act as the owner of the journal's folder while it touches files there.

The folder may belong to the user of the exporter, who can put links into it. Root would follow such
a link and write to a file that this user must not write. Everything but the access to files stays
root's, and so do the threads that run already: scripts and other programs must start as root.
"""

import ctypes
import os
import struct
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path

# Linux' names and values, from linux/capability.h.
_CAPABILITY_VERSION_3 = 0x20080522
_CAP_DAC_READ_SEARCH = 1 << 2  # number 2, as a bit
_LOOK_SECONDS = 0.3  # how long the start waits for a disk


@contextmanager
def as_folder_owner(journal: Path) -> Iterator[None]:
    """Within the block, this thread opens files as the owner of the journal's folder would.

    Threads that start in the block do so too, until they end. Does nothing if this process is not
    root, if the folder is root's, and on systems other than Linux, which have no such call.

    Args:
        journal: the journal's file or folder as the user has named it: its links are followed as
            the owner, too.
    """
    owner = _owner(journal)
    if owner is None or sys.platform != "linux":
        yield
        return
    uid, gid = owner
    libc = _libc()
    # These calls of Linux change only who opens files, and only in this thread.
    gid_before = libc.setfsgid(ctypes.c_uint(gid))
    uid_before = libc.setfsuid(ctypes.c_uint(uid))
    _keep_reading(libc)
    try:
        yield
    finally:
        libc.setfsuid(ctypes.c_uint(uid_before))
        libc.setfsgid(ctypes.c_uint(gid_before))


@cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def may_be_of_another_user(journal: Path) -> bool:
    """Return whether this process is root, and the journal's folder belongs to another user.

    Returns True too if the disk fails or does not say it in time: a disk that hangs must not keep
    the exporter from starting.
    """
    found: Future[bool] = Future()

    def look() -> None:
        try:
            found.set_result(_owner(journal) is not None)
        except OSError as error:
            found.set_exception(error)

    threading.Thread(target=look, name="folder-owner", daemon=True).start()
    try:
        return found.result(_LOOK_SECONDS)
    except (OSError, TimeoutError):
        return True


def follows(link: Path) -> bool:
    """Return whether to follow the link at ``link``: root follows none that others have made."""
    if sys.platform == "win32" or os.geteuid() != 0:
        return True
    try:
        return os.lstat(link).st_uid == 0
    except OSError:
        return True  # there is none


def create(path: Path) -> None:
    """Create the file if it is missing. If it is there, see whether it can be opened.

    It is readable by its owner only, because other users must not read the events of this VM.
    SQLite gives its other files the same mode. The owner is that of the folder: a service must be
    able to use what root created.
    """
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        # Open it once, so that missing write permission is reported as such.
        os.close(os.open(path, os.O_RDWR))
        return
    try:
        _give_to_owner_of(path.parent, descriptor)
    finally:
        os.close(descriptor)


def _give_to_owner_of(folder: Path, descriptor: int) -> None:
    """If this process is root, make the file of ``descriptor`` belong to the folder's owner."""
    if sys.platform == "win32" or os.geteuid() != 0:
        return
    found = folder.stat()
    if (found.st_uid, found.st_gid) == (0, 0):
        return
    with suppress(PermissionError):  # a container's root may give nothing away
        os.fchown(descriptor, found.st_uid, found.st_gid)


def _owner(journal: Path) -> tuple[int, int] | None:
    """Return user and group of the journal's folder, or of the nearest folder above that exists.

    None if this process is not root, or the folder is root's.
    """
    if sys.platform != "linux" or os.geteuid() != 0:
        return None
    folder = journal
    if not journal.is_dir():
        folder = journal.parent
    existing = next(each for each in (folder, *folder.absolute().parents) if each.exists())
    found = existing.stat()
    if found.st_uid == 0:
        return None
    return found.st_uid, found.st_gid


def _keep_reading(libc: ctypes.CDLL) -> None:
    """Keep root's right to look into folders, which it loses as another user.

    systemd keeps the folder of a dynamic user in ``/var/lib/private``, which only root can enter.
    """
    this_thread = 0
    header = ctypes.create_string_buffer(struct.pack("=Ii", _CAPABILITY_VERSION_3, this_thread), 8)
    # Effective, permitted and inheritable: of the first 32 capabilities, then of the rest.
    sets = ctypes.create_string_buffer(24)
    if libc.capget(header, sets) != 0:
        return
    effective, permitted, *rest = struct.unpack("=6I", sets.raw)
    wanted = effective | (_CAP_DAC_READ_SEARCH & permitted)
    libc.capset(header, struct.pack("=6I", wanted, permitted, *rest))
