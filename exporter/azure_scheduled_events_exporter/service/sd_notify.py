"""Notifies systemd that this process is ready, alive or stopping, and sends a one-line status.

Messages are datagrams of ``NAME=VALUE`` lines to the socket that ``$NOTIFY_SOCKET`` names. Without
that variable, nothing is sent. Sending never blocks. Liveness and status are passed in: this module
does not know polling.

Source: https://www.freedesktop.org/software/systemd/man/latest/sd_notify.html
"""

import asyncio
import os
import socket
import sys
from collections.abc import Callable, Mapping

from azure_scheduled_events_exporter.errors import one_line

_LONGEST_STATUS = 300  # characters
_TICK_SECONDS = 2.0
"""Time between two messages: the status that ``systemctl status`` shows may be so old."""


class ServiceManager:
    """The service manager that started this process: systemd, or one with the same protocol.

    Args:
        environment: the variables of this process; ``NOTIFY_SOCKET``, ``WATCHDOG_PID`` and
            ``WATCHDOG_USEC`` are read.

    Attributes:
        watchdog_seconds: time without ``WATCHDOG=1`` after which the manager restarts this process;
            None if it never does.
    """

    def __init__(self, environment: Mapping[str, str]) -> None:
        # A path, or ``@name`` in the abstract namespace.
        name = environment.get("NOTIFY_SOCKET", "")
        self._address = ""
        if name.startswith("@"):
            self._address = name.replace("@", "\0", 1)
        elif name.startswith("/"):
            self._address = name
        self.watchdog_seconds: float | None = None
        own_pid = str(os.getpid())
        is_for_this_process = environment.get("WATCHDOG_PID", own_pid) == own_pid
        microseconds = environment.get("WATCHDOG_USEC", "")
        is_number = microseconds.isascii() and microseconds.isdigit()
        if self._address and is_for_this_process and is_number:
            seconds = int(microseconds) / 1e6
            self.watchdog_seconds = seconds or None  # 0 means that there is no watchdog

    def notify(self, *lines: str) -> bool:
        """Send ``lines`` as one message without blocking; return whether it was sent."""
        if not self._address or sys.platform == "win32":
            return False
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notifier:
                notifier.settimeout(0)
                notifier.sendto("\n".join(lines).encode(), self._address)
        except OSError:
            return False
        return True

    async def keep_notifying(
        self, overdue_seconds: Callable[[], float], status_line: Callable[[], str]
    ) -> None:
        """Send READY=1, then status and watchdog messages until cancelled.

        Call it once the port answers requests. Without a service manager, it returns at once.

        With a watchdog, WATCHDOG=1 is sent while this loop runs and polls are overdue by less than
        half of ``watchdog_seconds``.

        Args:
            overdue_seconds: returns by how many seconds the poll loop exceeds its expected waits;
                less than 0 while it is in time.
            status_line: returns the status that ``systemctl status`` shows.
        """
        tick = _TICK_SECONDS
        if self.watchdog_seconds is not None:
            tick = min(tick, self.watchdog_seconds / 4)
        ready = ["READY=1"]  # emptied once it was sent
        sent = ""  # the last status that was sent
        while self._address:
            try:
                status = status_line()
            # A status that cannot be rendered must not make systemd restart the exporter.
            except Exception as error:  # noqa: BLE001
                status = f"running; status unavailable: {error!r}"
            status = f"STATUS={one_line(status, _LONGEST_STATUS)}"
            lines = list(ready)
            if status != sent:
                lines.append(status)
            watchdog = self.watchdog_seconds
            if watchdog is not None and overdue_seconds() < watchdog / 2:
                lines.append("WATCHDOG=1")
            if lines and self.notify(*lines):
                ready = []
                sent = status
            await asyncio.sleep(tick)
