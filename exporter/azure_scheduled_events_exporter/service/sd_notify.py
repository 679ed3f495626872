"""Tells the service manager how this process does: ready, alive, ending, and one line for people.

It speaks systemd's protocol, datagrams of ``NAME=VALUE`` lines to the socket that ``$NOTIFY_SOCKET`` names. It knows
nothing of polling; who is alive, and the line for people, are handed in. Without a service manager it does nothing,
and it never waits for one.

Source: https://www.freedesktop.org/software/systemd/man/latest/sd_notify.html
"""

import asyncio
import os
import socket
import sys
from collections.abc import Callable, Mapping

_LONGEST_STATUS = 300
_TICK_SECONDS = 2.0
"""How long ``systemctl status`` may lag behind."""


class ServiceManager:
    """The one who started this process, if that is systemd (or speaks as it does).

    Args:
        environment: where it says how to reach it.

    Attributes:
        watchdog_seconds: it ends and restarts this process when it hears nothing for so long; None if it does not.
    """

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._address = _address(environment.get("NOTIFY_SOCKET", ""))
        self.watchdog_seconds = _watchdog(environment) if self._address else None

    @property
    def is_there(self) -> bool:
        """Whether anybody wants to be told."""
        return self._address is not None

    def tell(self, *lines: str) -> bool:
        """Send ``lines`` as one message, at once or not at all; return whether it was taken."""
        if self._address is None or sys.platform == "win32":
            return False
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notifier:
                notifier.settimeout(0)
                notifier.sendto("\n".join(lines).encode(), self._address)
        except OSError:
            return False
        return True


async def keep_telling(manager: ServiceManager, overdue_seconds: Callable[[], float], words: Callable[[], str]) -> None:
    """Say READY=1, then for ever how things are; ends only by being cancelled. Begin when the port answers.

    Args:
        manager: whom to tell.
        overdue_seconds: by how many seconds the poll loop exceeds every wait it announced; at most 0 when healthy.
        words: the line for people.

    A manager with a watchdog hears that the process is alive while this loop turns and the work is late by less than
    half the watchdog's time.
    """
    if not manager.is_there:
        return
    patience = manager.watchdog_seconds
    tick = _TICK_SECONDS if patience is None else min(_TICK_SECONDS, patience / 4)
    is_ready, told = False, ""
    while True:
        status = f"STATUS={_one_line(_worded(words))}"
        lines = [] if is_ready else ["READY=1"]
        if status != told:
            lines.append(status)
        if patience is not None and overdue_seconds() < patience / 2:
            lines.append("WATCHDOG=1")
        if lines and manager.tell(*lines):
            is_ready, told = True, status
        await asyncio.sleep(tick)


def _worded(words: Callable[[], str]) -> str:
    try:
        return words()
    except Exception as error:  # noqa: BLE001 - a line that cannot be worded is no reason for a restart
        return f"running; its status cannot be said: {error!r}"


def _one_line(text: str) -> str:
    """What can neither end the line, and so say something else in our name, nor fill the screen."""
    line = "".join(c if c.isprintable() else " " for c in text)
    return line if len(line) <= _LONGEST_STATUS else f"{line[: _LONGEST_STATUS - 1]}…"


def _address(text: str) -> str | None:
    """The socket's address: a path, or ``@name`` in the abstract namespace; None for what is not spoken here."""
    if sys.platform == "win32" or text[:1] not in {"/", "@"}:
        return None
    return f"\0{text[1:]}" if text.startswith("@") else text


def _watchdog(environment: Mapping[str, str]) -> float | None:
    if environment.get("WATCHDOG_PID", str(os.getpid())) != str(os.getpid()):
        return None  # it watches another process
    microseconds = environment.get("WATCHDOG_USEC", "")
    is_number = microseconds.isascii() and microseconds.isdigit()
    return int(microseconds) / 1e6 if is_number and int(microseconds) else None
