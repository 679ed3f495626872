"""Decides what is due to one Alertmanager: firing alerts repeatedly, and resolves of ended ones.

Alertmanager keeps alerts in memory, and believes the newest post of each. So a firing alert is
posted repeatedly. Its resolve is posted only when everybody else has had time to see the end of the
event, and three times. Pure: times are arguments, in monotonic seconds.
"""

import math
import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from azure_scheduled_events_exporter.alerts.events import RESOLVE_AFTER

from .alert import Alert

RESEND_SECONDS = 30.0
"""The longest time between two posts of an alert.

Half of it is random, so that a fleet does not post at once.
"""

RESOLVE_AFTER_SECONDS = float(RESOLVE_AFTER)
"""How long after the end the resolve is posted, as by the rules.

A Prometheus or another VM's exporter may still post the alert until then.
"""

RESOLVES = 3
"""How often a resolve is posted: an Alertmanager may be restarted just after it has accepted one."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the events of this VM require of every Alertmanager now.

    Attributes:
        firing: the alerts of current events.
        ended: the alerts of events that have ended, each with how many seconds ago.
    """

    firing: Sequence[Alert] = ()
    ended: Sequence[tuple[Alert, float]] = ()


@dataclass(slots=True)
class Entry:
    """One alert.

    Attributes:
        due_at: when to post it next.
        ended_at: when it stopped firing; None while it fires.
        resolves: how many resolves are still to be posted.
        is_accepted: whether Alertmanager has accepted its present state, firing or resolved.
    """

    alert: Alert
    due_at: float
    ended_at: float | None = None
    resolves: int = RESOLVES
    is_accepted: bool = False

    def ends_in(self, now: float) -> float:
        """Return the seconds from ``now`` to the end that is posted; negative if it has ended."""
        return self.alert.hold_seconds if self.ended_at is None else self.ended_at - now


class Outbox:
    """The alerts of one Alertmanager."""

    def __init__(self) -> None:
        self._entries: dict[frozenset[tuple[str, str]], Entry] = {}

    def update(self, wanted: Wanted, now: float) -> None:
        """Set which alerts fire.

        One that no longer does has ended ``now``; one that fires again is new.
        """
        firing = {alert.identity: alert for alert in wanted.firing}
        for identity, alert in firing.items():
            entry = self._entries.get(identity)
            if entry is None or entry.ended_at is not None:
                self._entries[identity] = Entry(alert, now)
            else:
                entry.alert = alert
        for identity, entry in list(self._entries.items()):
            if entry.ended_at is None and identity not in firing:
                self._entries[identity] = _ended(entry.alert, now)
            elif entry.ended_at is not None and now - entry.ended_at > entry.alert.hold_seconds:
                del self._entries[identity]  # Alertmanager has ended it by itself
        for alert, seconds_ago in wanted.ended:  # of an earlier run: those of this run have entries
            if seconds_ago < alert.hold_seconds:
                self._entries.setdefault(alert.identity, _ended(alert, now - seconds_ago))

    def due(self, now: float, most: int) -> list[Entry]:
        """Return up to ``most`` entries to post ``now``, firing ones first."""
        due = [entry for entry in self._entries.values() if entry.due_at <= now]
        return sorted(due, key=lambda entry: entry.ended_at is not None)[:most]

    def next_due(self) -> float:
        """Return when the next entry is due."""
        return min((entry.due_at for entry in self._entries.values()), default=math.inf)

    @staticmethod
    def accepted(entries: Iterable[Entry], now: float) -> list[Entry]:
        """Record that Alertmanager accepted ``entries``; return those whose present state it had not accepted."""
        news = [entry for entry in entries if not entry.is_accepted]
        for entry in entries:
            entry.is_accepted = True
            entry.due_at = now + RESEND_SECONDS * random.uniform(0.5, 1.0)  # noqa: S311 - no secret
            if entry.ended_at is not None:
                entry.resolves -= 1
                if not entry.resolves:
                    entry.due_at = math.inf
        return news

    @staticmethod
    def refused(entries: Iterable[Entry], at: float) -> None:
        """Record that ``entries`` were not accepted, and are to be posted again ``at``."""
        for entry in entries:
            entry.due_at = at


def _ended(alert: Alert, at: float) -> Entry:
    return Entry(alert, at + RESOLVE_AFTER_SECONDS, ended_at=at)
