"""The output of what a hook starts, scripts and ``approve``, on its way to the hook's own.

Perhaps nobody reads the standard output of the hook: it may be a pipe whose reader stands still.
That must stop neither a script, nor an approval, nor the hook, so what does not fit into a buffer
is lost. The end of a script's output is kept elsewhere, in ``process``.
"""

import os
import sys
import threading
from logging import Logger
from typing import Final

from azure_scheduled_events_exporter import logs

_MOST_WAITING: Final = 256 * 1024
"""Bytes that wait for the reader. Above it, new output is lost."""

_AT_ONCE: Final = 4096
"""Bytes that are written at once: space for more is free as soon as the reader has taken these."""

_END_SECONDS: Final = 0.2
"""How long the end of the hook waits for the reader: as long as a line of the log does."""


class Output:
    """Writes to standard output, in a thread of its own, what processes print.

    Args:
        log: where it is logged once that output is lost.
    """

    def __init__(self, log: Logger) -> None:
        self._log = log
        self._changed = threading.Condition()
        self._waiting = bytearray()
        self._is_loss_logged = False
        threading.Thread(target=self._write_all, name="hook-output", daemon=True).start()

    def pass_on(self, content: bytes) -> None:
        """Hand ``content`` to the reader of standard output, without waiting for it."""
        with self._changed:
            has_space = len(self._waiting) + len(content) <= _MOST_WAITING
            if has_space:
                self._waiting += content
                self._changed.notify_all()
        if not has_space:
            self._log_loss("it is not read fast enough")

    def close(self) -> None:
        """Wait briefly until the reader has taken all; log it if it has not."""
        with self._changed:
            is_read = self._changed.wait_for(lambda: not self._waiting, _END_SECONDS)
        if not is_read:
            self._log_loss("it is not read fast enough")

    def _write_all(self) -> None:
        """Write what waits. A thread runs this."""
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting)
                content = bytes(self._waiting[:_AT_ONCE])
            written = self._write(content)
            with self._changed:
                del self._waiting[:written]
                self._changed.notify_all()

    def _write(self, content: bytes) -> int:
        """Write ``content``, or a part of it; return how many bytes are written or lost."""
        try:
            # Without Python's buffer: its lock would be held for as long as the reader stands
            # still, also at the end of the process, which needs it.
            return os.write(sys.stdout.fileno(), content)
        except OSError as error:
            self._log_loss(error)
            return len(content)

    def _log_loss(self, error: object) -> None:
        """Log, the first time, that output is lost, and why."""
        with self._changed:
            is_logged = self._is_loss_logged
            self._is_loss_logged = True
        if not is_logged:
            self._log.warning(
                "standard output of the hook is lost: it lacks some of what scripts print",
                extra=logs.facts(error=error),
            )
