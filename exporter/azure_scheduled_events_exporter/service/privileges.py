"""Gives up root before the exporter listens.

With ``--process.user``, the process becomes that user and cannot return.

Without the flag, the process stays uid 0, because program, journal and certificates may belong to
any user. Of its capabilities it keeps only access to files: no raw sockets, no other users'
processes, no mounts. If the journal's folder belongs to another user, the process can also open
files as that user. Write access to root's files is a way back to root, so only a named user is a
security boundary.

For a port below 1024, the capability to listen there is kept. A process that is not root changes
nothing.

Capabilities belong to a thread: call this before a second thread starts.
"""

import ctypes
import errno
import glob
import os
import stat
import struct
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

import azure_scheduled_events_exporter as package
from azure_scheduled_events_exporter.errors import ExporterError, UsageError
from azure_scheduled_events_exporter.journal.disk.folder_owner import may_be_of_another_user
from azure_scheduled_events_exporter.journal.disk.location import file_path

if sys.platform != "win32":
    import pwd

_FOLDER = "azure-scheduled-events-exporter"  # the name of the default folder of a journal
_FIRST_OPEN_PORT = 1024  # lower ones need a capability
_HAND_OVER_SECONDS = 0.5  # how long the start waits for a disk
_LOOK_SECONDS = 0.005  # how often the start looks whether the disk has answered
# The numbers of Linux, from linux/prctl.h and linux/capability.h. A capability is a bit.
_PR_SET_KEEPCAPS = 8
_PR_SET_NO_NEW_PRIVS = 38
_CAP_DAC_OVERRIDE = 1 << 1
_CAP_DAC_READ_SEARCH = 1 << 2
_CAP_SETGID = 1 << 6
_CAP_SETUID = 1 << 7
_CAP_NET_BIND_SERVICE = 1 << 10
_CAPS_FOR_FOLDER_OWNER = _CAP_DAC_READ_SEARCH | _CAP_SETGID | _CAP_SETUID
"""What ``journal.disk.folder_owner`` needs to open files as another user."""
_CAPABILITY_VERSION_3 = 0x20080522


def account(name: str) -> tuple[int, int]:
    """Return user and group id of an account, by name or number.

    Raises:
        UsageError: there is none, or this is Windows.
    """
    if sys.platform != "win32":
        with suppress(KeyError, OverflowError):  # no such account, or a number that is too large
            entry = pwd.getpwuid(int(name)) if name.isdecimal() else pwd.getpwnam(name)
            return entry.pw_uid, entry.pw_gid
        if name.isdecimal() and int(name) < 1 << 31:  # in containers, users are often only numbers
            return int(name), int(name)
        raise UsageError(
            f"--process.user: there is no user '{name}': name an account, or leave it out"
        )
    raise UsageError("--process.user: Windows has no root to give up: leave it out")


def give_up(user: str | None, port: int, journal: Path | None) -> str:
    """Give up root; return a message for the log, or ``""`` if this process is not root.

    Args:
        user: the account to become; None to stay uid 0 without most capabilities.
        port: where the process will listen.
        journal: the journal's file or folder, handed over to ``user``; None if there is none.

    Raises:
        UsageError: there is no such user, or this process may not become it.
        ExporterError: the system refused, or ``user`` could not read the program.
    """
    uid, gid = 0, 0
    if user:
        uid, gid = account(user)
    if sys.platform == "win32":
        return ""
    if os.geteuid() != 0:
        if user and uid != os.geteuid():
            raise UsageError(
                f"--process.user: only root can become '{user}': start it as root, or as that user"
            )
        return ""
    kept = 0  # the bits of capabilities
    if 0 < port < _FIRST_OPEN_PORT:
        kept = _CAP_NET_BIND_SERVICE
    if uid == 0:
        return _stay_root(kept, journal)
    try:
        if journal is not None:
            _hand_over_in_time(journal, uid, gid)
        _become(uid, gid, kept)
    except OSError as error:
        raise ExporterError(
            f"root could not be given up: {error.strerror or error} (--process.user)"
        ) from None
    _check_program(user)
    return f"given up for {user}"


def _check_program(user: str | None) -> None:
    """Raise ExporterError if ``user``, who runs this process now, cannot read the program.

    Parts of Python and of this package are loaded only later.
    """
    for program in (os.__file__, str(package.__file__)):
        if not os.access(program, os.R_OK):
            folder = Path(program).parent
            raise ExporterError(
                f"'{user}' cannot read the program in {folder}: install it where every user can"
            )


def _stay_root(kept: int, journal: Path | None) -> str:
    """Drop all capabilities but ``kept`` and access to files; return a message for the log."""
    kept |= _CAP_DAC_OVERRIDE
    if journal is not None and may_be_of_another_user(journal):
        kept |= _CAPS_FOR_FOLDER_OWNER
    try:
        _reduce_capabilities(kept)
    except (OSError, AttributeError):
        # A sandbox forbids it and has already dropped them; only Linux has them.
        return "stays uid 0; capabilities could not be changed here"
    return "stays uid 0 with few capabilities; set --process.user to switch to a user"


def _become(uid: int, gid: int, kept: int) -> None:
    """Become the user, without a way back; on Linux, keep the capabilities ``kept``."""
    if sys.platform != "win32":
        is_linux = sys.platform == "linux"
        if is_linux:
            _libc("prctl", _PR_SET_KEEPCAPS, 1, 0, 0, 0)  # else setuid drops `kept` too
        os.setgroups([])
        os.setgid(gid)
        os.setuid(uid)
        if is_linux:
            _reduce_capabilities(kept)


def _hand_over_in_time(journal: Path, uid: int, gid: int) -> None:
    """Make the user the owner of the journal; do not wait for a disk that hangs.

    A child process does it. If the disk hangs, the child goes on when the disk answers, and the
    journal can be written from then on. A thread could not do it, because ``setuid`` waits for all
    threads.

    Raises:
        OSError: the system refused.
    """
    if sys.platform == "win32":
        return
    child_end, own_end = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(own_end)
        _hand_over_and_exit(journal, uid, gid, child_end)
    os.close(child_end)
    deadline = time.monotonic() + _HAND_OVER_SECONDS
    while time.monotonic() < deadline:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            os.close(own_end)
            if status:
                number = os.waitstatus_to_exitcode(status)
                raise OSError(number, os.strerror(number))
            return
        time.sleep(_LOOK_SECONDS)
    # The child goes on. `own_end` stays open, so that the child notices when this process ends.


def _hand_over_and_exit(journal: Path, uid: int, gid: int, pipe: int) -> NoReturn:
    """Hand the journal over in the child process; exit with the number of the error, or 0.

    The child also ends when its parent does. The parent holds the other end of ``pipe``, into which
    nobody writes.
    """

    def end_with_parent() -> None:
        os.read(pipe, 1)  # returns when the other end is closed
        os._exit(0)

    number = 0
    try:
        os.closerange(0, 3)  # a reader of the exporter's log must not wait for this process to end
        threading.Thread(target=end_with_parent, daemon=True).start()
        _hand_over(journal, uid, gid)
    except OSError as error:
        number = error.errno or errno.EIO
    finally:
        os._exit(number)


def _hand_over(journal: Path, uid: int, gid: int) -> None:
    """Make the user the owner of the journal: of its folder and its files.

    The folder is made if it does not exist. A folder that exists changes its owner only if it has
    the default name. A file changes its owner only if it is root's and has no other name (hard
    link).
    """
    if sys.platform == "win32":
        return
    file = file_path(journal)
    folder = file.parent
    if not folder.exists() or folder.name == _FOLDER:
        outermost_first = reversed((folder, *folder.parents))
        for missing in [each for each in outermost_first if not each.exists()]:
            missing.mkdir()
            # Set whatever the umask is: the user must reach the folder.
            missing.chmod(0o700 if missing == folder else 0o755)
        os.chown(folder, uid, gid, follow_symlinks=False)
    for each in folder.glob(f"{glob.escape(file.name)}*"):  # SQLite has files beside the journal
        with suppress(OSError):  # such as that of a symbolic link, which is not followed
            descriptor = os.open(each, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
            try:
                found = os.fstat(descriptor)
                if stat.S_ISREG(found.st_mode) and found.st_uid == 0 and found.st_nlink == 1:
                    os.fchown(descriptor, uid, gid)
            finally:
                os.close(descriptor)


def _reduce_capabilities(kept: int) -> None:
    """Drop all capabilities except those whose bits are set in ``kept``.

    Only the first 32 capabilities can be kept. Child processes cannot regain the others.
    """
    _libc("prctl", _PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    header = ctypes.create_string_buffer(struct.pack("=Ii", _CAPABILITY_VERSION_3, 0), 8)
    # Six numbers: the sets effective, permitted and inheritable of the first 32 capabilities, then
    # those of the rest.
    sets = ctypes.create_string_buffer(24)
    _libc("capget", header, sets)
    _, permitted, *_ = struct.unpack("=6I", sets.raw)
    kept &= permitted
    _libc("capset", header, struct.pack("=6I", kept, kept, 0, 0, 0, 0))


def _libc(function: str, *arguments: object) -> None:
    """Call a function of the C library; raise OSError if it does not return 0."""
    if getattr(ctypes.CDLL(None, use_errno=True), function)(*arguments) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{function}: {os.strerror(number)}")
