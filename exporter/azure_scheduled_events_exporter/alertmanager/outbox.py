"""Decides what to send to one Alertmanager, and when: firing and resolved alerts.

A firing alert is sent repeatedly, so that a restarted Alertmanager gets it too. An ended alert is sent as resolved,
also repeatedly for a while, because Alertmanager keeps alerts in memory and notifies at its own intervals. No end is
sent while another client posts the alert (:meth:`Outbox.may_end`). Only events have entries. Pure: times are arguments.
"""

import math
import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from .event_alert import EventAlert, Identity

RESEND_SECONDS = 15.0
"""Time between two posts of a firing alert; less if Alertmanager keeps it for less than three times as long."""

RESOLVED_SECONDS = 900.0
"""For how long a resolved alert is sent again, as Prometheus does it."""

_LOOK_SECONDS = 1.0
"""How often to look whether an end may be sent."""

_RESOLVED_MARGIN_SECONDS = 3.0
"""Alertmanager accepts an end only if it is in the past by its own clock."""

_OTHERS_SECONDS = RESEND_SECONDS + 3.0
"""How long to wait for the post of another client. It may keep the alert for longer than this exporter does."""

_SAME_POST_SECONDS = 1.0
"""The replicas of an Alertmanager get one post at moments that differ by less; another client's next post is later."""

NOT_ACTIVE, REFUSED = -math.inf, math.inf
"""Answers to the question when an alert was posted last, in place of a time. ``NOT_ACTIVE``: Alertmanager does not show
the alert as active. ``REFUSED``: Alertmanager, or a proxy before it, does not accept the question."""


@dataclass(frozen=True, slots=True)
class Holding:
    """A firing alert; ``confirmed`` if a document of this run of the exporter has shown its event."""

    alert: EventAlert
    confirmed: bool = True


@dataclass(frozen=True, slots=True)
class Ended:
    """An alert of an event that ended so many seconds ago."""

    alert: EventAlert
    seconds_ago: float


@dataclass(slots=True)
class Entry:
    """One alert. Times with ``_at`` are monotonic seconds: the wall clock may be set between two posts.

    Attributes:
        due_at: when to send it next.
        confirmed: whether a document of this run has shown its event.
        was_accepted: whether Alertmanager has accepted it while it fired.
        ended_at: when its event ended, None while it fires.
        over_at: from when on its end may be sent, None while that is not known.
        is_reported: whether Alertmanager has accepted its current state: firing or resolved.
        last_answer: when any client had posted it last, as Alertmanager said when it was asked after the end, or
            ``NOT_ACTIVE`` or ``REFUSED``; NaN, which equals no other, if it did not answer; None before it was asked.
        is_left: whether its end is left to another client, which has posted it after that.
        accepted_at: when Alertmanager accepted it last.
    """

    alert: EventAlert
    due_at: float
    confirmed: bool
    was_accepted: bool = False
    ended_at: float | None = None
    over_at: float | None = None
    is_reported: bool = False
    last_answer: float | None = None
    is_left: bool = False
    accepted_at: float = -math.inf

    def ends_in(self, now: float) -> float:
        """Return for how many seconds more Alertmanager keeps it if it is sent ``now``; negative if it has ended."""
        return self.alert.hold if self.ended_at is None else self.ended_at - now - _RESOLVED_MARGIN_SECONDS

    def lasts(self, now: float) -> bool:
        """Return whether it need not be posted again ``now``: of the time to its end, two thirds are left."""
        return now - self.accepted_at < self.alert.hold / 3

    def end(self, now: float) -> None:
        """Mark the alert as ended."""
        self.is_left = False
        self.ended_at, self.over_at, self.due_at, self.is_reported, self.last_answer = now, None, now, False, None


class Outbox:
    """The entries of one Alertmanager."""

    def __init__(self) -> None:
        self._entries: dict[Identity, Entry] = {}
        self.ended_ids: frozenset[str] | None = None
        """EventIds of the ended events that have been considered; None before the first call of :meth:`add_ended`."""

    def fires(self, alert: EventAlert) -> bool:
        """Return whether ``alert`` is sent as firing."""
        entry = self._entries.get(alert.identity)
        return entry is not None and entry.ended_at is None

    def is_accepted(self, alert: EventAlert) -> bool:
        """Return whether ``alert`` fires, and Alertmanager has accepted that in this run."""
        entry = self._entries.get(alert.identity)
        return self.fires(alert) and entry is not None and entry.confirmed and entry.was_accepted

    def drop(self, alert: EventAlert) -> None:
        """Forget ``alert``, which Alertmanager does not have."""
        self._entries.pop(alert.identity, None)

    def refresh(self, holding: Iterable[Holding], now: float) -> None:
        """Set the alerts that fire now; an entry that is not among them is ended."""
        current = {each.alert.identity: each for each in holding}
        for identity, each in current.items():
            self._hold(identity, each, now)
        for identity, entry in list(self._entries.items()):
            if identity in current or entry.ended_at is not None:
                continue
            if entry.confirmed:
                entry.end(now)
            else:
                # It was another VM's, whose journal this VM's image contained. Or no document of this run has shown it,
                # and it is over: then it is among the ended ones.
                del self._entries[identity]

    def _hold(self, identity: Identity, holding: Holding, now: float) -> None:
        alert, entry = holding.alert, self._entries.get(identity)
        if entry is None:
            # One that no document has shown yet was posted before the restart, if at all.
            self._entries[identity] = Entry(alert, now, holding.confirmed, was_accepted=not holding.confirmed)
            return
        is_shown_first = holding.confirmed and not entry.confirmed and not entry.is_reported
        is_new = entry.ended_at is not None or alert.hold != entry.alert.hold or is_shown_first
        entry.alert, entry.confirmed = alert, entry.confirmed or holding.confirmed
        if is_new:
            if is_shown_first or entry.ended_at is not None:
                entry.was_accepted = False  # a document has just shown it, whatever Alertmanager shows
            entry.ended_at, entry.due_at, entry.is_reported, entry.accepted_at = None, now, False, -math.inf

    def add_ended(self, ended: Iterable[Ended], now: float) -> None:
        """Send alerts as resolved whose events ended before this run, or were shown by none of its documents."""
        for each in ended:
            identity = each.alert.identity
            if each.seconds_ago < each.alert.hold and identity not in self._entries:
                entry = self._entries[identity] = Entry(each.alert, now, confirmed=True)
                entry.end(now - each.seconds_ago)

    def due(self, now: float, over_at: Callable[[float], float | None]) -> list[Entry]:
        """Return the alerts to send now.

        ``over_at`` takes the time at which an event ended, and returns the time from which on Alertmanager may be told,
        or None if that is not known yet.
        """
        self._forget(now)
        for entry in self._entries.values():
            if entry.ended_at is not None and entry.over_at is None:
                entry.over_at = over_at(entry.ended_at)
        return [entry for entry in self._entries.values() if self._due_at(entry) <= now]

    def may_end(self, entry: Entry, now: float, answer: float | None) -> bool:
        """Return whether the end of ``entry`` may be sent ``now``.

        ``answer`` says when any client posted it last, or is :data:`NOT_ACTIVE` or :data:`REFUSED`; None if
        Alertmanager did not answer. If others may post it, the end waits until two answers in a row are equal: nobody
        has posted it in between, and an Alertmanager that does not show it has not just started. While it does not
        answer, nobody else can post either.
        """
        if entry.is_reported:
            return self._may_repeat(entry, now, answer)
        if not entry.alert.is_shared:
            return True
        before, entry.last_answer = entry.last_answer, math.nan if answer is None else answer
        if answer is None or before is None:
            is_posted = False
        elif answer == before or abs(answer - before) <= _SAME_POST_SECONDS:
            return True
        else:
            is_posted = math.isfinite(before) and math.isfinite(answer)
        entry.is_left = entry.is_left or is_posted
        entry.due_at = now + _OTHERS_SECONDS
        return False

    def _may_repeat(self, entry: Entry, now: float, answer: float | None) -> bool:
        """Return whether an accepted end may be sent again.

        An alert that is active again is dropped: another client goes on posting it, and will end it.
        """
        if answer is None or answer == REFUSED:
            if entry.alert.is_shared:
                entry.due_at = now + _OTHERS_SECONDS
            return not entry.alert.is_shared
        if answer != NOT_ACTIVE:
            entry.is_left = True
            del self._entries[entry.alert.identity]
        return answer == NOT_ACTIVE

    def postpone(self) -> None:
        """Let the wait begin again for every end that Alertmanager has not accepted yet."""
        for entry in self._entries.values():
            if not entry.is_reported:
                entry.over_at = None

    def wait(self, now: float) -> float | None:
        """Return the seconds until :meth:`due` must be asked again; None if there is no alert."""
        moments = [self._due_at(entry) for entry in self._entries.values()]
        if any(entry.ended_at is not None and not entry.is_reported for entry in self._entries.values()):
            moments.append(now + _LOOK_SECONDS)
        return max(0.0, min(moments) - now) if moments else None

    @staticmethod
    def retry(entries: Iterable[Entry], at: float) -> None:
        """Send ``entries`` again at ``at``, and before that what else is due."""
        for entry in entries:
            entry.due_at = at

    def sent(self, entries: Iterable[Entry], now: float, *, accepted: bool) -> None:
        """Take note that ``entries`` were sent."""
        for entry in entries:
            pause = min(RESEND_SECONDS, entry.alert.hold / 3)
            entry.due_at = now + pause * random.uniform(0.8, 1.0)  # noqa: S311 - no secret
            if accepted:
                entry.is_reported, entry.accepted_at = True, now
                entry.was_accepted = entry.was_accepted or entry.ended_at is None

    @staticmethod
    def _due_at(entry: Entry) -> float:
        if entry.ended_at is None:
            return entry.due_at
        return math.inf if entry.over_at is None else max(entry.due_at, entry.over_at)

    def _forget(self, now: float) -> None:
        """Drop what is over and known to be, or what Alertmanager has dropped by itself."""
        for identity, entry in list(self._entries.items()):
            if entry.ended_at is None:
                continue
            kept = RESOLVED_SECONDS if entry.is_reported else max(RESOLVED_SECONDS, entry.alert.hold)
            if now - (entry.over_at or entry.ended_at) > kept:
                del self._entries[identity]
