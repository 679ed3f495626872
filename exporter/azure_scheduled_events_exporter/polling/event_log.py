"""Logs polls and events for operators.

One line per transition; a failure that lasts is logged when it begins, when its cause changes and when it ends.
"""

import logging
from collections.abc import Iterable

from azure_scheduled_events_exporter.core.document import Document, event_values
from azure_scheduled_events_exporter.core.lifecycle import Change, Transition
from azure_scheduled_events_exporter.core.spans import trace_id
from azure_scheduled_events_exporter.core.timestamp import Timestamp
from azure_scheduled_events_exporter.errors import Outcome
from azure_scheduled_events_exporter.logs import facts
from azure_scheduled_events_exporter.times import iso_time

_REMARKS_REMEMBERED = 1000


class EventLog:
    """Writes to ``log``; remembers what it has logged, so that nothing is logged twice."""

    def __init__(self, log: logging.Logger) -> None:
        self._log = log
        self._remarked: dict[str, None] = {}
        self._reason = ""
        self._since: Timestamp | None = None
        self._failed_polls = 0

    def unexpected_content(self, document: Document) -> None:
        """Log what is unexpected in ``document``, each thing once."""
        for remark in document.remarks:
            if remark in self._remarked:
                continue
            self._log.warning("unexpected content in Scheduled Events document", extra=facts(remark=remark))
            self._remarked[remark] = None
            if len(self._remarked) > _REMARKS_REMEMBERED:
                del self._remarked[next(iter(self._remarked))]

    def changes(self, changes: Iterable[Change]) -> None:
        """Log each transition."""
        for change in changes:
            level = logging.WARNING if change.transition is Transition.LOST else logging.INFO
            self._log.log(level, f"event {change.transition}", extra=facts(**change_facts(change)))

    def poll_failed(
        self, reason: str, message: str, outcome: Outcome, began: Timestamp, *, with_traceback: bool = False
    ) -> None:
        """Log a failed poll, unless it fails for the same ``reason`` as the one before."""
        self._failed_polls += 1
        if self._since is None:
            self._since = began
        if reason != self._reason:
            what = "IMDS poll still failing, new cause" if self._reason else "IMDS poll failed"
            level = logging.ERROR if with_traceback else logging.WARNING
            error = f"{message}; polling slower" if outcome is Outcome.THROTTLED else message
            self._log.log(level, what, extra=facts(outcome=outcome, error=error), exc_info=with_traceback)
        self._reason = reason

    def poll_succeeded(self, now: Timestamp) -> None:
        """Log the first poll that succeeds after failures."""
        if self._since is not None:
            lasted = round(now.since(self._since), 3)
            self._log.info("IMDS answers again", extra=facts(failed_polls=self._failed_polls, seconds=lasted))
        self._reason, self._since, self._failed_polls = "", None, 0


def change_facts(change: Change) -> dict[str, object]:
    """Return the fields of the log line for ``change``: VMs, event, times, notice, approver."""
    life = change.lifecycle
    said: dict[str, object] = {
        **event_values(life.event),
        "resources": ",".join(life.event.resources),
        "scope": life.scope,
        "not_before": None if life.not_before is None else iso_time(life.not_before),
        "trace_id": trace_id(life.event_id),
    }
    if change.transition is Transition.DETECTED:
        said["notice_seconds"] = None if life.notice_seconds is None else round(life.notice_seconds, 3)
    else:
        said["seconds_since_first_seen"] = round(change.at.since(life.first_seen), 3)
        said["approved_by"] = life.approved_by
    if change.transition is Transition.COMPLETED:
        said["observed_pause_seconds"] = life.observed_pause
    return {name: value for name, value in said.items() if value not in {None, ""}}
