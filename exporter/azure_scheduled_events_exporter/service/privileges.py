"""Give up root before the exporter listens.

With ``--process.user``, the process becomes that user and cannot return. Without it, the process stays uid 0, because
program, journal and certificates may belong to any user, but of its capabilities it keeps only access to files: no raw
sockets, no other users' processes, no mounts. Write access to root's files is a way back to root, so only a named user
is a security boundary. For a port below 1024, the capability to listen there is kept. A process that is not root
changes nothing.

Capabilities belong to a thread: call this before a second thread starts.
"""

import ctypes
import glob
import os
import stat
import struct
import sys
from contextlib import suppress
from pathlib import Path

import azure_scheduled_events_exporter as exporter
from azure_scheduled_events_exporter.errors import ExporterError, UsageError
from azure_scheduled_events_exporter.journal.file import file_path

if sys.platform != "win32":
    import pwd

_FOLDER = "azure-scheduled-events-exporter"
_PRIVATE, _OPEN = 0o700, 0o755
_FIRST_OPEN_PORT = 1024
_PR_SET_KEEPCAPS, _PR_SET_NO_NEW_PRIVS = 8, 38
_CAP_DAC_OVERRIDE, _CAP_NET_BIND_SERVICE = 1, 10
_CAPABILITY_VERSION_3 = 0x20080522
_SETS = struct.Struct("=6I")  # effective, permitted, inheritable: of the first 32 capabilities, then of the rest


def is_root() -> bool:
    """Return whether this process runs as root."""
    return hasattr(os, "geteuid") and os.geteuid() == 0


def account(name: str) -> tuple[int, int]:
    """Return user and group id of an account, by name or number.

    Raises:
        UsageError: there is none, or this is Windows.
    """
    if sys.platform != "win32":
        with suppress(KeyError, OverflowError):
            entry = pwd.getpwuid(int(name)) if name.isdecimal() else pwd.getpwnam(name)
            return entry.pw_uid, entry.pw_gid
        if name.isdecimal() and int(name) < 1 << 31:
            return int(name), int(name)  # a container has numbers without accounts
        raise UsageError(f"--process.user: there is no user '{name}': name an account, or leave it out")
    raise UsageError("--process.user: Windows has no root to give up: leave it out")


def give_up(user: str | None, port: int, journal: Path | None) -> str:
    """Give up root; return a message for the log, or ``""`` if this process is not root.

    Args:
        user: the account to become; ``""`` to stay uid 0 without most capabilities.
        port: where the process will listen.
        journal: the journal's file or folder, whose owner becomes ``user``; None if there is none.

    Raises:
        UsageError: there is no such user, or this process may not become it.
        ExporterError: the system refused, or ``user`` could not read the program.
    """
    if sys.platform == "win32" or not is_root():
        if user and account(user)[0] != getattr(os, "geteuid", lambda: -1)():
            raise UsageError(f"--process.user: only root can become '{user}': start it as root, or as that user")
        return ""
    binding = (1 << _CAP_NET_BIND_SERVICE) if 0 < port < _FIRST_OPEN_PORT else 0
    if not user or account(user)[0] == 0:
        return _drop_capabilities((1 << _CAP_DAC_OVERRIDE) | binding)
    try:
        _become(*account(user), binding, journal)
    except OSError as error:
        raise ExporterError(f"root could not be given up: {error.strerror or error} (--process.user)") from None
    for program in (os.__file__, str(exporter.__file__)):  # parts of both are loaded later
        if not os.access(program, os.R_OK):
            folder = Path(program).parent
            raise ExporterError(f"'{user}' cannot read the program in {folder}: install it where every user can")
    return f"given up for {user}"


def _become(uid: int, gid: int, kept: int, journal: Path | None) -> None:
    if sys.platform == "win32":
        return
    if journal is not None:
        _hand_over(journal, uid, gid)
    linux = sys.platform == "linux"
    if linux:
        _prctl(_PR_SET_NO_NEW_PRIVS)
    if linux and kept:
        _prctl(_PR_SET_KEEPCAPS)
    os.setgroups([])
    os.setgid(gid)
    os.setuid(uid)
    if linux and kept:
        _reduce_capabilities(kept)


def _drop_capabilities(kept: int) -> str:
    if sys.platform != "linux":
        return "stays root: capabilities can be dropped on Linux only"
    try:
        _prctl(_PR_SET_NO_NEW_PRIVS)  # otherwise a child process could regain them
        _reduce_capabilities(kept)
    except OSError:  # a sandbox or container forbids this and has already dropped them
        return "stays uid 0; capabilities could not be changed here"
    return "stays uid 0 with few capabilities; set --process.user to switch to a user"


def _hand_over(journal: Path, uid: int, gid: int) -> None:
    """Make the user the owner of the journal: of the folder if it has the exporter's name, and of files of root."""
    if sys.platform == "win32":
        return
    file = file_path(journal)
    folder = file.parent
    if not folder.exists():
        missing = [each for each in folder.parents if not each.exists()]
        folder.mkdir(mode=_PRIVATE, parents=True)
        for each in missing:
            each.chmod(_OPEN)  # whatever the umask: the user must reach the folder
        os.chown(folder, uid, gid)
    elif folder.name == _FOLDER:
        os.chown(folder, uid, gid, follow_symlinks=False)
    for each in folder.glob(f"{glob.escape(file.name)}*"):
        with suppress(OSError):  # a symbolic link is not followed
            descriptor = os.open(each, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
            try:
                found = os.fstat(descriptor)
                if stat.S_ISREG(found.st_mode) and found.st_uid == 0 and found.st_nlink == 1:
                    os.fchown(descriptor, uid, gid)
            finally:
                os.close(descriptor)


def _prctl(option: int) -> None:
    _libc("prctl", option, 1, 0, 0, 0)


def _reduce_capabilities(kept: int) -> None:
    """Drop all capabilities except the bits in ``kept``; child processes inherit none."""
    header = ctypes.create_string_buffer(struct.pack("=Ii", _CAPABILITY_VERSION_3, 0), 8)
    sets = ctypes.create_string_buffer(_SETS.size)
    _libc("capget", header, sets)
    effective, permitted, inheritable, *rest = _SETS.unpack(sets.raw)
    wanted = kept & permitted
    if (effective, permitted, inheritable, *rest) != (wanted, wanted, 0, 0, 0, 0):
        _libc("capset", header, ctypes.create_string_buffer(_SETS.pack(wanted, wanted, 0, 0, 0, 0), _SETS.size))


def _libc(function: str, *arguments: object) -> None:
    if getattr(ctypes.CDLL(None, use_errno=True), function)(*arguments) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{function}: {os.strerror(number)}")
