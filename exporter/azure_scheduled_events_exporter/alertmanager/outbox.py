"""Decides what is due to one Alertmanager: firing alerts repeatedly, and resolves of ended ones.

Alertmanager keeps alerts in memory, so a firing alert is posted repeatedly, each time with an
``endsAt`` ahead. When its event ends, the alert is to go on for some minutes more
(``resolve_after_seconds``), and then to end. An ``endsAt`` in some minutes would not be accepted if
it is earlier than the posted one: Alertmanager accepts an earlier ``endsAt`` only if it is in the
past. So nothing is posted when an event ends: the resolve is posted later, when the alert has to
end. Reads no clock: times are arguments, in monotonic seconds.
"""

import math
import random
from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass

from .alert import EventAlert, Identity

RESEND_SECONDS = 30.0
"""The longest time between two posts of an alert.

Each pause is a random one from half of this to all of it, so that a fleet does not post at once.
"""

RESOLVES = 3
"""How often a resolve is posted.

An Alertmanager may be restarted just after it has accepted one.
"""

MOST_ENDED = 1000
"""How many alerts of ended events are kept, the newest ones.

A program that poses as IMDS can invent any number of events. The alerts that are not kept get no
resolve: Alertmanager ends them at their ``endsAt``.
"""

_CLOCKS_SECONDS = 10.0
"""The ``endsAt`` of a resolve is so many seconds before the moment at which it is due first.

If the clock of Alertmanager lags, an ``endsAt`` of this moment is in its future: the alert would
fire once more, and page again if the rules have resolved it already.
"""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the events of this VM require of every Alertmanager now.

    Attributes:
        firing: the alerts of current events.
        ended: the alerts of events that have ended, each with how many seconds ago.
    """

    firing: Sequence[EventAlert] = ()
    ended: Sequence[tuple[EventAlert, float]] = ()


@dataclass(slots=True)
class Entry:
    """One alert for one Alertmanager, firing or ended.

    Attributes:
        alert: what is posted.
        due_at: when to post it next; infinity if never.
        ended_at: when its event ended; None while it fires.
        resolves: how often its resolve has been accepted.
        is_accepted: whether Alertmanager has accepted its present state, firing or ended.
    """

    alert: EventAlert
    due_at: float
    ended_at: float | None = None
    resolves: int = 0
    is_accepted: bool = False

    def ends_in(self, now: float) -> float:
        """Return the seconds from ``now`` to its ``endsAt``; less than 0 for a resolve."""
        if self.ended_at is None:
            return self.alert.hold_seconds
        return self.resolves_at - _CLOCKS_SECONDS - now

    @property
    def resolves_at(self) -> float:
        """When it is to be resolved; infinity while it fires."""
        if self.ended_at is None:
            return math.inf
        return self.ended_at + self.alert.resolve_after_seconds

    def accepted(self, now: float) -> None:
        """Record that Alertmanager accepted it, and decide when it is due again."""
        self.is_accepted = True
        self.due_at = now + RESEND_SECONDS * random.uniform(0.5, 1.0)  # noqa: S311 - no secret
        if self.ended_at is None:
            return
        self.resolves += 1
        if self.resolves >= RESOLVES:
            self.due_at = math.inf


def _ended(alert: EventAlert, ended_at: float) -> Entry:
    """Return the entry of an alert whose event ended at ``ended_at``; its resolve is due later."""
    return Entry(alert, due_at=ended_at + alert.resolve_after_seconds, ended_at=ended_at)


class Outbox:
    """The alerts of one Alertmanager."""

    def __init__(self) -> None:
        self._entries: dict[Identity, Entry] = {}

    def update(self, wanted: Wanted, now: float) -> None:
        """Set which alerts fire, and which have ended.

        An alert that fired and is not wanted any more has ended ``now``. One that fires again after
        its end is new.
        """
        firing = {alert.identity: alert for alert in wanted.firing}
        for identity, alert in firing.items():
            entry = self._entries.get(identity)
            if entry is None or entry.ended_at is not None:
                self._entries[identity] = Entry(alert, now)
            else:
                entry.alert = alert
        self._end_all_but(firing, now)
        # An event that ended in this run has an entry already; one of an earlier run gets it here.
        for alert, seconds_ago in wanted.ended:
            # Later, nothing is left to resolve: see `_end_all_but`.
            if seconds_ago < alert.hold_seconds:
                entry = _ended(alert, now - seconds_ago)
                self._entries.setdefault(alert.identity, entry)
        self._forget_oldest_ends()

    def _end_all_but(self, firing: Container[Identity], now: float) -> None:
        """End the entries that are not among ``firing``, and forget those that ended long ago.

        A post with an alert that fires says that it ends after ``hold_seconds``, and the last such
        post was before the end of the event. So ``hold_seconds`` after that end, Alertmanager has
        ended the alert by itself, and nothing is left to resolve.
        """
        for identity, entry in list(self._entries.items()):
            if identity in firing:
                continue
            if entry.ended_at is None:
                self._entries[identity] = _ended(entry.alert, now)
            elif now - entry.ended_at > entry.alert.hold_seconds:
                del self._entries[identity]

    def _forget_oldest_ends(self) -> None:
        """Keep the newest :data:`MOST_ENDED` of the alerts whose events have ended."""
        ends = {
            identity: entry.ended_at
            for identity, entry in self._entries.items()
            if entry.ended_at is not None
        }
        oldest_first = sorted(ends, key=ends.__getitem__)
        for identity in oldest_first[:-MOST_ENDED]:
            del self._entries[identity]

    def due(self, now: float, most: int) -> list[Entry]:
        """Return up to ``most`` entries to post ``now``, firing ones first."""
        due = [entry for entry in self._entries.values() if entry.due_at <= now]
        firing_first = sorted(due, key=lambda entry: entry.ended_at is not None)
        return firing_first[:most]

    def next_due(self) -> float:
        """Return when the next entry is due; infinity if none is."""
        return min((entry.due_at for entry in self._entries.values()), default=math.inf)

    @staticmethod
    def accepted(entries: Sequence[Entry], now: float) -> list[Entry]:
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
