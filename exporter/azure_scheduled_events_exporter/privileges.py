"""Root, given up: what a process that was started with it does before it listens to anybody.

Whoever names a user (``--process.user``) becomes that user. Whoever does not stays uid 0, since journal and files may
be root's, but without capabilities: no other user's files, no raw sockets. What belongs to root it still owns. The one
power that is kept is to listen on a port below 1024, where that is asked for. Where there is no root, nothing is done.
"""

import os
import struct
import sys
from contextlib import suppress
from pathlib import Path

from .errors import ExporterError, UsageError

_FOLDER = "azure-scheduled-events-exporter"
_PRIVATE = 0o700
_FIRST_OPEN_PORT = 1024
_PR_SET_KEEPCAPS, _PR_SET_NO_NEW_PRIVS = 8, 38
_CAP_NET_BIND_SERVICE = 10
_CAPABILITY_VERSION_3 = 0x20080522


def is_root() -> bool:
    """Return whether this process runs as root."""
    return hasattr(os, "geteuid") and os.geteuid() == 0


def account(name: str) -> tuple[int, int]:
    """Return user and group id of an account, by name or number.

    Raises:
        UsageError: there is none, or no such thing as accounts.
    """
    if sys.platform == "win32":
        raise UsageError("process.user: this system has no users to become: leave it out")
    import pwd  # noqa: PLC0415 - Windows has none

    with suppress(KeyError, OverflowError):
        entry = pwd.getpwuid(int(name)) if name.isdecimal() else pwd.getpwnam(name)
        return entry.pw_uid, entry.pw_gid
    if name.isdecimal() and int(name) < 1 << 31:
        return int(name), int(name)  # a container has numbers without accounts
    raise UsageError(f"process.user: there is no user '{name}': name an account, or leave it out")


def give_up(user: str, port: int, journal: Path | None) -> str:
    """Give up root, if this process has it, and return what was done for the log; ``""`` if it has none.

    Args:
        user: the account to become; ``""`` to stay root without its powers.
        port: where the process will listen.
        journal: the journal's file or folder, handed over to ``user``; None if it has none.

    Raises:
        UsageError: there is no such user, or this process may not become it.
        ExporterError: the system refused.
    """
    if sys.platform == "win32" or not is_root():
        if user and account(user)[0] != getattr(os, "geteuid", lambda: -1)():
            raise UsageError(f"process.user: only root can become '{user}': start it as root, or as that user")
        return ""
    kept = (1 << _CAP_NET_BIND_SERVICE) if 0 < port < _FIRST_OPEN_PORT else 0
    try:
        if not user or account(user)[0] == 0:
            return _lose_powers(kept)
        uid, gid = account(user)
        if journal is not None:
            _hand_over(journal, uid, gid)
        if kept:
            _prctl(_PR_SET_KEEPCAPS)
        os.setgroups([])
        os.setgid(gid)
        os.setuid(uid)
        if kept:
            _set_capabilities(kept)
    except OSError as error:
        raise ExporterError(f"root could not be given up: {error.strerror or error} (--process.user)") from None
    for program in (os.__file__, __file__):  # parts of both are loaded when they are needed
        if not os.access(program, os.R_OK):
            folder = Path(program).parent
            raise ExporterError(f"'{user}' cannot read the program in {folder}: install it where every user can")
    return f"given up for {user}"


def _lose_powers(kept: int) -> str:
    if sys.platform != "linux":
        return ""
    _prctl(_PR_SET_NO_NEW_PRIVS)  # else a program that it runs would have them again
    _set_capabilities(kept)
    return "without capabilities"


def _hand_over(journal: Path, uid: int, gid: int) -> None:
    """Give the journal to the user it is written by: the folder if it is ours, and files that root left in it."""
    if sys.platform == "win32":
        return
    folder = journal.parent if journal.suffix else journal
    if not folder.exists():
        folder.mkdir(mode=_PRIVATE, parents=True)
        os.chown(folder, uid, gid)
    elif folder.name == _FOLDER and not folder.is_symlink():
        os.chown(folder, uid, gid)
    for file in folder.glob("journal*"):
        if not file.is_symlink() and file.is_file() and file.stat().st_uid == 0:
            os.chown(file, uid, gid, follow_symlinks=False)


def _prctl(option: int) -> None:
    _libc("prctl", option, 1, 0, 0, 0)


def _set_capabilities(kept: int) -> None:
    """Have the capabilities ``kept``, a bit for each of the first 32, and no other ones; hand none on."""
    header = struct.pack("=Ii", _CAPABILITY_VERSION_3, 0)
    data = struct.pack("=6I", kept, kept, 0, 0, 0, 0)
    _libc("capset", header, data)


def _libc(function: str, *arguments: int | bytes) -> None:
    import ctypes  # noqa: PLC0415 - 0.4 MiB, for root only

    if getattr(ctypes.CDLL(None, use_errno=True), function)(*arguments) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{function}: {os.strerror(number)}")
