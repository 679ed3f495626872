"""The approvals of a hook: for each event that is prepared, the command ``approve`` is run.

Which of these events the hook may approve is decided in ``plan``.
"""

import time
from collections.abc import Callable, Iterable, Sequence
from logging import Logger
from typing import Final

from azure_scheduled_events_exporter import logs
from azure_scheduled_events_exporter.commands.interruption import uninterrupted
from azure_scheduled_events_exporter.core.lifecycle import Lifecycle
from azure_scheduled_events_exporter.journal.content.codec import encode
from azure_scheduled_events_exporter.log_limits import Changes

from .process import Child

_AGAIN_SECONDS: Final = 10.0


class Approvals:
    """The processes that approve events, one for each event at a time.

    Args:
        command: the command line that approves the event that it reads from standard input.
        pass_on: gets what that command prints, piece by piece, in a thread. It must not wait.
        log: where it is logged that an event is not approved.
        again_seconds: how long after the start of an approval the next one for the same event may
            start.
    """

    def __init__(
        self,
        command: Sequence[str],
        pass_on: Callable[[bytes], None],
        log: Logger,
        again_seconds: float = _AGAIN_SECONDS,
    ) -> None:
        self._command = command
        self._pass_on = pass_on
        self._log = log
        self._again_seconds = again_seconds
        self._running: dict[str, Child] = {}  # by EventId
        # When the next approval of an event may start: monotonic time by EventId.
        self._next_at: dict[str, float] = {}
        # NotBefore of an event when its last approval started, by EventId.
        self._not_before: dict[str, float | None] = {}
        self._approved: set[str] = set()  # EventIds of those whose last approval succeeded
        self._reasons = Changes()  # why an event is not approved, by EventId
        self._failures = Changes()  # exit status of the last approval, by EventId; "" for success

    @property
    def running(self) -> list[Child]:
        """The processes that had not ended when :meth:`approve` was called last."""
        return list(self._running.values())

    def approve(self, prepared: Iterable[tuple[Lifecycle, str]]) -> None:
        """Approve the events for which the VM is prepared. Call it at every poll.

        An approval that failed is tried again until its event is approved or has started. After one
        that succeeded, the next one starts when NotBefore has changed: the event may need it.

        ``prepared``: each event with why the hook may not approve it, which is logged; ``""`` if it
        may.
        """
        failed = self._take_ended()
        for life, reason in prepared:
            if not life.is_open_to_approval:
                continue
            if life.event_id in failed:
                self._log_failure(life, failed[life.event_id])
            self._log_reason(life, reason)
            is_due = self._is_due(life)
            if is_due and not reason and life.event_id not in self._running:
                self._approve(life)

    def _take_ended(self) -> dict[str, Child]:
        """Take note of the processes that have ended; return those that failed, by EventId."""
        ended = {
            event_id: process
            for event_id, process in self._running.items()
            if process.poll() is not None
        }
        for event_id, process in ended.items():
            process.read_all()
            del self._running[event_id]
            if process.returncode == 0:
                self._approved.add(event_id)
                self._failures.is_new(event_id, "")  # so that the next failure is logged
        return {event_id: each for event_id, each in ended.items() if each.returncode != 0}

    def _is_due(self, life: Lifecycle) -> bool:
        """Return whether an approval of an event may start now, if none is running."""
        if life.event_id in self._approved and self._not_before[life.event_id] == life.not_before:
            return False
        return time.monotonic() >= self._next_at.get(life.event_id, 0.0)

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

    def _log_failure(self, life: Lifecycle, process: Child) -> None:
        """Log that an approval has failed, once until its exit status is another."""
        if self._failures.is_new(life.event_id, str(process.returncode)):
            self._log.warning(
                "hook's approval has failed",
                extra=logs.facts(
                    event_id=life.event_id,
                    exit_status=process.returncode,
                    output=process.last_lines(),
                ),
            )

    def _approve(self, life: Lifecycle) -> None:
        """Start the process that approves an event; log it if that fails."""
        self._next_at[life.event_id] = time.monotonic() + self._again_seconds
        self._not_before[life.event_id] = life.not_before
        self._approved.discard(life.event_id)
        try:
            content = encode(life).encode()
            with uninterrupted():
                self._running[life.event_id] = Child(self._command, content, self._pass_on)
        except OSError as error:
            self._log.warning(
                "hook cannot start its approval, and tries again soon",
                extra=logs.facts(event_id=life.event_id, error=error),
            )
