"""The program with what Windows lacks taken away from its code: ``python without_posix.py COMMAND
[ARGUMENT…]``.

The standard library and the other libraries keep what they use on this machine, since they are made
for Windows too. Every module of this project sees Windows' ``sys.platform``, and modules without
what Windows does not have; the event loop refuses what Windows' loop refuses; and there is no
``/proc``. Windows' own pieces have the nearest stand-in.
"""

import asyncio
import builtins
import ctypes
import os
import signal
import socket
import sys
import time
from collections.abc import Callable, Mapping
from types import ModuleType, SimpleNamespace
from typing import Any

PROJECT = "azure_scheduled_events_exporter"
ABSENT = frozenset(
    {
        "curses",
        "fcntl",
        "grp",
        "posix",
        "pty",
        "pwd",
        "readline",
        "resource",
        "syslog",
        "termios",
        "tty",
    }
)
READINESS = ("add_reader", "remove_reader", "add_writer", "remove_writer")
# Of the names that docs.python.org marks as "Availability: Unix", those that programs like this one
# use.
UNIX: Mapping[ModuleType, str] = {
    os: """
    WNOHANG chown chroot ctermid confstr fchdir fchmod fchown fdatasync fork forkpty getegid geteuid
    getgid getgroups getloadavg getpgid getpgrp getpriority getresuid getsid getuid initgroups
    killpg lchown lockf major minor mkfifo mknod nice pathconf pipe2 posix_fadvise posix_spawn pread
    pwrite sched_getaffinity sched_yield sendfile set_blocking setegid seteuid setgid setgroups
    setpgid setpriority setsid setuid statvfs sync sysconf tcgetpgrp uname wait wait3 wait4
    O_CLOEXEC O_DIRECTORY O_DSYNC O_NOCTTY O_NOFOLLOW O_NONBLOCK O_SYNC
    """,
    socket: """
    AF_NETLINK AF_PACKET AF_UNIX CMSG_LEN MSG_DONTWAIT MSG_NOSIGNAL SCM_RIGHTS SO_BINDTODEVICE
    SO_PEERCRED SO_REUSEPORT TCP_QUICKACK TCP_USER_TIMEOUT
    """,
    signal: """
    SIGALRM SIGBUS SIGCHLD SIGCONT SIGHUP SIGIO SIGKILL SIGPIPE SIGPROF SIGQUIT SIGSTOP SIGTSTP
    SIGTTIN SIGTTOU SIGURG SIGUSR1 SIGUSR2 SIGWINCH alarm getitimer pause pthread_kill
    pthread_sigmask setitimer siginterrupt sigpending sigtimedwait sigwait sigwaitinfo
    """,
    time: """
    CLOCK_BOOTTIME CLOCK_MONOTONIC CLOCK_MONOTONIC_RAW CLOCK_PROCESS_CPUTIME_ID CLOCK_REALTIME
    CLOCK_TAI CLOCK_THREAD_CPUTIME_ID clock_getres clock_gettime clock_gettime_ns clock_settime
    tzset
    """,
}


class View(ModuleType):
    """A module as this project sees it, with ``instead`` of what differs."""

    def __init__(self, module: ModuleType, **instead: object) -> None:
        super().__init__(module.__name__)
        without = UNIX.get(module, "").split()
        self.__dict__.update(
            {name: value for name, value in vars(module).items() if name not in without}, **instead
        )


def _ticks() -> int:
    """Stand in for the one function of Windows that is called by name: milliseconds since boot."""
    return int(time.clock_gettime(time.CLOCK_BOOTTIME) * 1000)


VIEWS = {
    "os": View(os, name="nt"),
    "socket": View(socket),
    # Ctrl-Break comes as a signal of this system's.
    "signal": View(signal, SIGBREAK=signal.SIGUSR1),
    "time": View(time),
    "sys": View(sys, platform="win32"),
    "ctypes": View(ctypes, windll=SimpleNamespace(kernel32=SimpleNamespace(GetTickCount64=_ticks))),
}


def _importing(original: Callable[..., ModuleType]) -> Callable[..., ModuleType]:
    """Wrap what an import statement calls."""

    def importing(name: str, *args: Any, **kwargs: Any) -> ModuleType:
        names = args[0] if args else kwargs.get("globals")
        level = args[3] if len(args) > 3 else kwargs.get("level", 0)
        if _is_ours(names) and level == 0:
            if name.partition(".")[0] in ABSENT:
                raise ModuleNotFoundError(f"No module named {name!r} on Windows", name=name)
            if name in VIEWS:
                return VIEWS[name]
        return original(name, *args, **kwargs)

    return importing


def _not_there(event: str, arguments: tuple[object, ...]) -> None:
    if event in {"open", "os.listdir", "os.scandir"} and str(arguments[0]).startswith(
        ("/proc", "/sys", "/run", "/var")
    ):
        raise FileNotFoundError(2, "No such file or directory", str(arguments[0]))


def _refusing(original: Callable[..., Any]) -> Callable[..., Any]:
    """Refuse what this project asks of the loop; the loop itself works by it."""

    def method(*args: Any, **kwargs: Any) -> Any:
        if _is_ours(sys._getframe(1).f_globals):
            raise NotImplementedError
        return original(*args, **kwargs)

    return method


def _accepting(original: Callable[..., Any]) -> Callable[..., Any]:
    """Fail as Windows does when the client has reset the connection before it is accepted."""

    async def accept(*args: Any) -> Any:
        client, address = await original(*args)
        try:
            client.getpeername()
        except OSError:
            client.close()
            error = OSError(22, "The specified network name is no longer available")
            error.winerror = 64  # type: ignore[attr-defined,unused-ignore] # there on Windows only
            raise error from None
        return client, address

    return accept


def _is_ours(names: Mapping[str, Any] | None) -> bool:
    return str((names or {}).get("__name__", "")).startswith(f"{PROJECT}.")


def take_away() -> None:
    """Change the world for every module of this project that is imported from now on."""
    for name in ("add_signal_handler", "remove_signal_handler", *READINESS):
        setattr(
            asyncio.SelectorEventLoop, name, _refusing(getattr(asyncio.SelectorEventLoop, name))
        )
    loop: Any = asyncio.SelectorEventLoop
    loop.sock_accept = _accepting(loop.sock_accept)
    builtins.__import__ = _importing(builtins.__import__)
    sys.addaudithook(_not_there)


def main() -> int:
    """Run the program."""
    take_away()
    # Not before the world is changed.
    from azure_scheduled_events_exporter.commands.cli import main as program  # noqa: PLC0415

    return program()


if __name__ == "__main__":
    sys.exit(main())
