"""Logs polls and events for operators.

One line per transition; a failure that lasts is logged when it begins, when its cause changes and when it ends.
"""

import logging
from collections.abc import Iterable

from azure_scheduled_events_exporter.core.lifecycle import Change, Transition
from azure_scheduled_events_exporter.core.records import change_record
from azure_scheduled_events_exporter.core.timestamp import Timestamp
from azure_scheduled_events_exporter.errors import Outcome
from azure_scheduled_events_exporter.logs import facts


def log_changes(log: logging.Logger, changes: Iterable[Change]) -> None:
    """Log each transition with what is known of its JSON record."""
    for change in changes:
        level = logging.WARNING if change.transition is Transition.LOST else logging.INFO
        notice = change.lifecycle.notice_seconds
        record = {**change_record(change), "resources": ",".join(change.lifecycle.event.resources)}
        record |= {"transition": None, "at": None, "notice_seconds": None if notice is None else round(notice, 3)}
        known = {name: value for name, value in record.items() if value not in {None, ""}}
        log.log(level, "event %s", change.transition, extra=facts(**known))


class PollLog:
    """Logs failures of polls and their ends to ``log``; remembers the failure that lasts."""

    def __init__(self, log: logging.Logger) -> None:
        self._log = log
        self._reason = ""
        self._since: Timestamp | None = None
        self._failed_polls = 0

    def failed(
        self, reason: str, message: str, outcome: Outcome, began: Timestamp, *, with_traceback: bool = False
    ) -> None:
        """Log a failed poll, unless it fails for the same ``reason`` as the one before."""
        self._failed_polls += 1
        self._since = self._since or began
        if reason != self._reason:
            what = "IMDS poll still failing, new cause" if self._reason else "IMDS poll failed"
            level = logging.ERROR if with_traceback else logging.WARNING
            error = f"{message}; polling slower" if outcome is Outcome.THROTTLED else message
            self._log.log(level, what, extra=facts(outcome=outcome, error=error), exc_info=with_traceback)
        self._reason = reason

    def succeeded(self, now: Timestamp) -> None:
        """Log the first poll that succeeds after failures."""
        if self._since is not None:
            lasted = round(now.since(self._since), 3)
            self._log.info("IMDS answers again", extra=facts(failed_polls=self._failed_polls, seconds=lasted))
        self._reason, self._since, self._failed_polls = "", None, 0
