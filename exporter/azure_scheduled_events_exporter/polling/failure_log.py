"""Logs that polls fail: once when it begins, when its cause changes, and when it ends."""

import logging

from azure_scheduled_events_exporter.errors import Outcome
from azure_scheduled_events_exporter.logs import facts

from .clock import Clock
from .poll_result import PollResult


class FailureLog:
    """Logs failures of polls, so that a failure that lasts does not fill the log."""

    def __init__(self, log: logging.Logger, clock: Clock) -> None:
        self._log = log
        self._clock = clock
        self._reason = ""  # PollResult.reason of the last poll; "" if it did not fail
        self._failed_at = clock()  # when the last failure began

    def note(self, result: PollResult) -> None:
        """Log what the ``result`` of a poll has changed. Call it after each poll."""
        before = self._reason
        self._reason = result.reason
        if result.reason == before:
            return
        if not before:
            self._failed_at = self._clock()
        if not result.reason:
            seconds = round(self._clock().since(self._failed_at), 3)
            self._log.info("IMDS answers again", extra=facts(seconds=seconds))
            return
        what = "IMDS poll failed"
        if before:
            what = "IMDS poll still failing, new cause"
        error = result.failure
        if result.outcome is Outcome.THROTTLED:
            error = f"{result.failure}; polling slower"
        level = logging.WARNING
        if result.bug is not None:
            level = logging.ERROR
        fields = facts(outcome=result.outcome, error=error)
        self._log.log(level, what, extra=fields, exc_info=result.bug)
