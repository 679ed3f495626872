"""Logs the transitions of events, each once.

Until the journal is read, transitions are derived from what this run has seen alone. When it has
been read, ``polling.state`` derives them once more, from that and from what the journal has
remembered. Those that are the same are not logged again. After that, none is derived twice.
"""

import logging
from dataclasses import dataclass
from typing import Final

from azure_scheduled_events_exporter.core.lifecycle import Approver, Change, Transition
from azure_scheduled_events_exporter.core.records import Record, change_record
from azure_scheduled_events_exporter.logs import facts, shortened

_MOST_REMEMBERED: Final = 10_000
"""How many logged transitions are remembered; if there are more, some are logged again."""


@dataclass(eq=False)
class TransitionLog:
    """Logs transitions with the fields of their JSON records that have a value.

    Attributes:
        log: where they are logged.
        logs_foreign_approvals: whether it is logged that somebody else approved an event. False if
            this process only watches: then it may be this VM's exporter or hook that approved it.
    """

    log: logging.Logger
    logs_foreign_approvals: bool

    def __post_init__(self) -> None:
        # What was logged, until the journal is read and all is derived again; None after that.
        self._remembered: set[tuple[str, Transition]] | None = set()

    def forget(self) -> None:
        """Log whatever comes from now on.

        Call it when the journal has been read and the transitions so far have been derived again.
        """
        self._remembered = None

    def write(self, change: Change) -> None:
        """Log ``change``, unless it was logged and is remembered."""
        if self._remembered is not None:
            transition = (change.lifecycle.event_id, change.transition)
            if transition in self._remembered:
                return
            if len(self._remembered) >= _MOST_REMEMBERED:
                self._remembered.clear()
            self._remembered.add(transition)
        level = logging.INFO
        if change.transition is Transition.LOST:
            level = logging.WARNING
        self.log.log(level, "event %s", change.transition, extra=facts(**self._fields(change)))

    def _fields(self, change: Change) -> Record:
        """Return the fields of the log line of ``change``."""
        life = change.lifecycle
        record = change_record(change)
        del record["transition"]  # the message has it
        del record["at"]  # the line has its own time
        record["resources"] = ",".join(life.event.resources)
        record["description"] = shortened(life.event.description)
        if life.notice_seconds is not None:
            record["notice_seconds"] = round(life.notice_seconds, 3)
        if not self.logs_foreign_approvals and life.approved_by is Approver.EXTERNAL:
            del record["approved_by"]
        return {name: value for name, value in record.items() if value not in {None, ""}}
