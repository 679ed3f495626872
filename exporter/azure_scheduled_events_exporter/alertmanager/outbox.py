"""Decides what is due to one Alertmanager: firing alerts repeatedly, and resolves of ended ones.

Alertmanager keeps alerts in memory, and believes the newest post of each. So a firing alert is
posted repeatedly. When its event has ended, it is posted with an ``endsAt`` three minutes later:
Alertmanager resolves it then, unless another VM or the rules still see the event and say so
meanwhile. Pure: times are arguments, in monotonic seconds.
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
"""How long after the end of its event an alert resolves, as by the rules."""

RESOLVES = 3
"""How often an end is posted: an Alertmanager may be restarted just after it has accepted one."""

REPEAT_AFTER_SECONDS = 300.0
"""How long after the end it is posted as often again.

An Alertmanager that was restarted before the resolve has forgotten the alert. Rules whose exporters
saw the end two minutes later are not contradicted.
"""


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
        ended_at: when its event ended; None while it fires.
        ends: how often its end has been accepted.
        is_accepted: whether Alertmanager has accepted its present state, firing or ended.
    """

    alert: Alert
    due_at: float
    ended_at: float | None = None
    ends: int = 0
    is_accepted: bool = False

    def ends_in(self, now: float) -> float:
        """Return the seconds from ``now`` to the end that is posted; negative if it has ended."""
        if self.ended_at is None:
            return self.alert.hold_seconds
        return self.ended_at + RESOLVE_AFTER_SECONDS - now

    def accepted(self, now: float) -> None:
        """Record that Alertmanager accepted it, and decide when it is due again."""
        self.is_accepted = True
        self.due_at = now + RESEND_SECONDS * random.uniform(0.5, 1.0)  # noqa: S311 - no secret
        if self.ended_at is None:
            return
        self.ends += 1
        if self.ends == RESOLVES:
            self.due_at = max(self.due_at, self.ended_at + REPEAT_AFTER_SECONDS)
        if self.ends >= 2 * RESOLVES:
            self.due_at = math.inf


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
                self._entries[identity] = Entry(entry.alert, due_at=now, ended_at=now)
            elif entry.ended_at is not None and now - entry.ended_at > entry.alert.hold_seconds:
                del self._entries[identity]  # Alertmanager has ended it by itself
        for alert, seconds_ago in wanted.ended:  # of an earlier run: those of this run have entries
            if seconds_ago < alert.hold_seconds:
                entry = Entry(alert, due_at=now, ended_at=now - seconds_ago)
                self._entries.setdefault(alert.identity, entry)

    def due(self, now: float, most: int) -> list[Entry]:
        """Return up to ``most`` entries to post ``now``, firing ones first."""
        due = [entry for entry in self._entries.values() if entry.due_at <= now]
        return sorted(due, key=lambda entry: entry.ended_at is not None)[:most]

    def next_due(self) -> float:
        """Return when the next entry is due."""
        return min((entry.due_at for entry in self._entries.values()), default=math.inf)

    @staticmethod
    def accepted(entries: Iterable[Entry], now: float) -> list[Entry]:
        """Record that Alertmanager accepted ``entries``.

        Return those whose present state it had not accepted before.
        """
        news = [entry for entry in entries if not entry.is_accepted]
        for entry in entries:
            entry.accepted(now)
        return news

    @staticmethod
    def refused(entries: Iterable[Entry], at: float) -> None:
        """Record that ``entries`` were not accepted, and are to be posted again ``at``."""
        for entry in entries:
            entry.due_at = at
