"""Notify systemd that this process is ready, alive or stopping, and send a one-line status.

Messages are datagrams of ``NAME=VALUE`` lines to the socket that ``$NOTIFY_SOCKET`` names. Without that variable,
nothing is sent. Sending never blocks. Liveness and status are passed in: this module does not know polling.

Source: https://www.freedesktop.org/software/systemd/man/latest/sd_notify.html
"""

import asyncio
import os
import socket
import sys
from collections.abc import Callable, Mapping

from azure_scheduled_events_exporter.errors import one_line

_LONGEST_STATUS = 300
_TICK_SECONDS = 2.0
"""How long ``systemctl status`` may lag behind."""


class ServiceManager:
    """The service manager that started this process: systemd, or one with the same protocol.

    Args:
        environment: the variables of this process; ``NOTIFY_SOCKET`` and ``WATCHDOG_USEC`` are read.

    Attributes:
        watchdog_seconds: time without ``WATCHDOG=1`` after which the manager restarts this process; None if it never
            does.
    """

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._address = _address(environment.get("NOTIFY_SOCKET", ""))
        self.watchdog_seconds = _watchdog(environment) if self._address else None

    @property
    def is_there(self) -> bool:
        """Whether there is a service manager to notify."""
        return self._address is not None

    def notify(self, *lines: str) -> bool:
        """Send ``lines`` as one message without blocking; return whether it was sent."""
        if self._address is None or sys.platform == "win32":
            return False
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notifier:
                notifier.settimeout(0)
                notifier.sendto("\n".join(lines).encode(), self._address)
        except OSError:
            return False
        return True


async def keep_notifying(
    manager: ServiceManager, overdue_seconds: Callable[[], float], status_line: Callable[[], str]
) -> None:
    """Send READY=1, then status and watchdog messages until cancelled. Call it once the port answers requests.

    Args:
        manager: the receiver.
        overdue_seconds: returns by how many seconds the poll loop exceeds its expected waits; at most 0 if it is
            healthy.
        status_line: returns the status that ``systemctl status`` shows.

    With a watchdog, WATCHDOG=1 is sent while this loop runs and polls are overdue by less than half of
    ``watchdog_seconds``.
    """
    if not manager.is_there:
        return
    patience = manager.watchdog_seconds
    tick = _TICK_SECONDS if patience is None else min(_TICK_SECONDS, patience / 4)
    is_ready, sent = False, ""
    while True:
        status = f"STATUS={one_line(_text_of(status_line), _LONGEST_STATUS)}"
        lines = [] if is_ready else ["READY=1"]
        if status != sent:
            lines.append(status)
        if patience is not None and overdue_seconds() < patience / 2:
            lines.append("WATCHDOG=1")
        if lines and manager.notify(*lines):
            is_ready, sent = True, status
        await asyncio.sleep(tick)


def _text_of(status_line: Callable[[], str]) -> str:
    try:
        return status_line()
    except Exception as error:  # noqa: BLE001 - a status that cannot be rendered must not cause a restart
        return f"running; status unavailable: {error!r}"


def _address(text: str) -> str | None:
    """Return the socket's address: a path, or ``@name`` in the abstract namespace; None for any other form."""
    if sys.platform == "win32" or text[:1] not in {"/", "@"}:
        return None
    return f"\0{text[1:]}" if text.startswith("@") else text


def _watchdog(environment: Mapping[str, str]) -> float | None:
    if environment.get("WATCHDOG_PID", str(os.getpid())) != str(os.getpid()):
        return None  # the watchdog is meant for another process
    microseconds = environment.get("WATCHDOG_USEC", "")
    is_number = microseconds.isascii() and microseconds.isdigit()
    return int(microseconds) / 1e6 if is_number and int(microseconds) else None
