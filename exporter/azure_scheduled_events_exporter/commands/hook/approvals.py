"""The approvals of a hook: for each event that is prepared, the command ``approve`` is run.

Which of these events the hook may approve is decided in ``plan``.
"""

import time
from collections.abc import Iterable, Sequence
from logging import Logger
from subprocess import PIPE, Popen
from typing import Final

from azure_scheduled_events_exporter import logs
from azure_scheduled_events_exporter.core.lifecycle import Lifecycle
from azure_scheduled_events_exporter.journal.content.codec import encode
from azure_scheduled_events_exporter.log_limits import Changes

from .process import write_in_background

_AGAIN_SECONDS: Final = 10.0
"""How long after the start of an approval the next one for the same event may start."""


class Approvals:
    """The processes that approve events, one for each event at a time.

    Args:
        command: the command line that approves the event that it reads from standard input.
        log: where it is logged that an event is not approved.
    """

    def __init__(self, command: Sequence[str], log: Logger) -> None:
        self._command = command
        self._log = log
        self._running: dict[str, Popen[bytes]] = {}  # by EventId
        # When the next approval of an event may start: monotonic time by EventId.
        self._next_at: dict[str, float] = {}
        self._reasons = Changes()  # why an event is not approved, by EventId

    @property
    def running(self) -> list[Popen[bytes]]:
        """The processes that had not ended when :meth:`approve` was called last."""
        return list(self._running.values())

    def approve(self, prepared: Iterable[tuple[Lifecycle, str]]) -> None:
        """Approve the events for which the VM is prepared. Call it at every poll.

        An approval that failed is tried again until its event is approved or has started.

        ``prepared``: each event with why the hook may not approve it, which is logged; ``""`` if it
        may.
        """
        self._running = {
            event_id: process
            for event_id, process in self._running.items()
            if process.poll() is None
        }
        for life, reason in prepared:
            if not life.is_open_to_approval:
                continue
            self._log_reason(life, reason)
            is_due = time.monotonic() >= self._next_at.get(life.event_id, 0.0)
            if is_due and not reason and life.event_id not in self._running:
                self._approve(life)

    def terminate(self) -> None:
        """Ask the processes to end; each withdraws its request if that was not sent."""
        for process in self._running.values():
            process.terminate()

    def _log_reason(self, life: Lifecycle, reason: str) -> None:
        """Log why an event is not approved, once for each reason."""
        is_new = self._reasons.is_new(life.event_id, reason)  # which remembers an empty one too
        if is_new and reason:
            self._log.info(
                "hook does not approve",
                extra=logs.facts(event_id=life.event_id, reason=reason),
            )

    def _approve(self, life: Lifecycle) -> None:
        """Start the process that approves an event."""
        self._next_at[life.event_id] = time.monotonic() + _AGAIN_SECONDS
        process = Popen(self._command, stdin=PIPE)  # noqa: S603 - this program
        self._running[life.event_id] = process
        write_in_background(process.stdin, encode(life).encode())
