"""What one Alertmanager tells of a random fleet whose exporters push beside the rules.

Rules fire when the oracle of ``fleets`` says. Exporters push by their own :class:`Outbox`. How
Alertmanager merges posts, and when it notifies, follows Alertmanager 0.25: ``Alert.Merge``, the
store of alerts, and groups.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from azure_scheduled_events_exporter.alertmanager.alert import EventAlert
from azure_scheduled_events_exporter.alertmanager.outbox import Outbox, Wanted
from azure_scheduled_events_exporter.core.timestamp import Timestamp
from azure_scheduled_events_exporter.polling.clock import AGREES_SECONDS
from support.stories.story import INTERVAL
from trials.monitoring.fleets import STEPS, Event, Exporter, Fleet, alert_of, hold_of, is_told

EVALUATION = 5
"""Seconds between two evaluations, as in the shipped rules."""
_SLOWEST = 2.5
"""Seconds from an evaluation to its post: as long as one takes at 10,000 VMs on vmalert."""
_LATER = 3.0
"""Seconds by which the rules may see an end later than the pushes do.

VMs poll at different moments, and their clocks differ from that of IMDS by 1.5 s at most.
"""
_RESEND = 60
"""Seconds after which Prometheus posts a firing or resolved alert again."""
_RESOLVED_KEPT = 900
"""Seconds for which Prometheus posts that an alert is resolved."""
_GROUP_INTERVAL = 30
_END = STEPS * INTERVAL


@dataclass(frozen=True)
class Post:
    """An alert that is posted."""

    at: float
    name: str
    starts: float
    ends: float


@dataclass
class Group:
    """An alert as Alertmanager has it, alone in its group.

    Attributes:
        notified: what was notified last, ``firing`` or ``resolved``; ``""`` if nothing was.
        flushes_at: when it may be notified next; None without an alert.
        story: all notifications, the oldest first.
    """

    starts: float = 0.0
    ends: float = -1.0
    notified: str = ""
    flushes_at: float | None = None
    story: list[str] = field(default_factory=list)

    def take(self, post: Post, wait: float) -> None:
        """Merge a post."""
        overlaps = self.starts < post.ends < self.ends or self.starts < post.starts < self.ends
        if overlaps:
            self.starts = min(self.starts, post.starts)
            was_over = self.ends <= post.at
            if post.ends > post.at:
                self.ends = max(post.ends, self.ends)
            else:
                self.ends = max(post.ends, self.ends) if was_over else post.ends
        else:
            self.starts = post.starts
            self.ends = post.ends
        if self.flushes_at is None:
            self.flushes_at = post.at + wait

    def pass_time(self, now: float) -> None:
        """Notify what is due until ``now``."""
        while self.flushes_at is not None and self.flushes_at <= now:
            state = "firing" if self.ends > self.flushes_at else "resolved"
            if state != self.notified and (self.notified or state == "firing"):
                self.story.append(state)
                self.notified = state
            self.flushes_at += _GROUP_INTERVAL
            if state == "resolved":
                self.flushes_at = None


def notifications(fleet: Fleet, chance: random.Random, *, pushes: bool) -> dict[str, list[str]]:
    """Return the notifications of each alert in their order, ``firing`` or ``resolved``, by rules
    alone or with pushes beside them.

    Without the fleets whose rule engine has another clock: there, both may resolve minutes apart.
    """
    if any(witness.ahead for witness in fleet.witnesses.values()):
        return {}
    posts = list(_by_rules(fleet, chance))
    if pushes:
        posts += _by_pushes(fleet, chance)
    groups: dict[str, Group] = {}
    for post in sorted(posts, key=lambda each: each.at):
        group = groups.setdefault(post.name, Group())
        group.pass_time(post.at)
        group.take(post, wait=chance.choice([0.0, 30.0]))
    for group in groups.values():
        group.pass_time(_END)
    return {name: group.story for name, group in groups.items()}


def _by_rules(fleet: Fleet, chance: random.Random) -> Iterator[Post]:
    for event in fleet.events:
        for kind in fleet.witnesses[event.name].sights:
            name = f"{event.name} {alert_of(event, kind)}"
            yield from _by_rule(fleet, event, kind, name, chance)


def _by_rule(
    fleet: Fleet, event: Event, kind: str, name: str, chance: random.Random
) -> Iterator[Post]:
    """Yield the posts of one alert, as Prometheus and vmalert make them."""
    active_at: float | None = None
    resolved_at: float | None = None
    post_at = 0.0
    later = chance.uniform(0.0, _LATER)
    now = later + chance.uniform(0.0, EVALUATION)
    while now < _END - EVALUATION:
        fires = is_told(event, fleet.witnesses[event.name], kind, (now - later) / INTERVAL)
        if fires and (active_at is None or resolved_at is not None):
            active_at = post_at = now
            resolved_at = None
        elif not fires and active_at is not None and resolved_at is None:
            resolved_at = post_at = now
        if active_at is not None and now >= post_at:
            ends = now + 4 * _RESEND if resolved_at is None else resolved_at
            if resolved_at is None or now < resolved_at + _RESOLVED_KEPT:
                yield Post(now + chance.uniform(0.05, _SLOWEST), name, active_at, ends)
            post_at = now + _RESEND
        now += EVALUATION


def _by_pushes(fleet: Fleet, chance: random.Random) -> Iterator[Post]:
    for exporter in fleet.exporters:
        own = {event.name: event for event in fleet.events if event.vm == exporter.vm}
        if own:
            error = chance.uniform(-AGREES_SECONDS, AGREES_SECONDS)
            for post in _by_exporter(exporter, own):
                yield replace(post, starts=post.starts + error, ends=post.ends + error)


def _by_exporter(exporter: Exporter, own: dict[str, Event]) -> Iterator[Post]:
    """Yield what an exporter posts; its journal outlives its process."""
    outbox = Outbox()
    current: dict[str, str] = {}
    ended: dict[str, tuple[EventAlert, float]] = {}
    first_seen: dict[str, float] = {}
    for step, state in enumerate(exporter.states):
        if state in {"down", "away"}:
            outbox = Outbox()
            if state == "away" and not exporter.keeps_journal:
                current.clear()
                ended.clear()
            continue
        looked = exporter.looks[step]
        if looked is None:
            continue  # without IMDS it posts nothing
        began = float(step * INTERVAL)
        shown = {name: kind for name, kind in looked.items() if name in own}
        for name in current.keys() - shown.keys():
            ended[name] = _pushed(own[name], current[name], first_seen[name]), began
        for name in shown:
            ended.pop(name, None)
            first_seen.setdefault(name, began)
        current = shown
        firing = [_pushed(own[name], kind, first_seen[name]) for name, kind in shown.items()]
        for now in (began + second for second in range(INTERVAL)):
            over = [(alert, now - at) for alert, at in ended.values()]
            outbox.update(Wanted(firing, over), now)
            due = outbox.due(now, 64)
            for entry in due:
                starts = entry.alert.first_seen.wall
                ends = now + entry.ends_in(now)
                yield Post(now + 0.05, _name(entry.alert), min(starts, ends), ends)
            outbox.accepted(due, now)


def _pushed(event: Event, kind: str, first_seen: float) -> EventAlert:
    labels = {"alertname": alert_of(event, kind), "event_id": event.name}
    return EventAlert(labels, {}, Timestamp(first_seen), float(hold_of(event, kind)))


def _name(alert: EventAlert) -> str:
    return f"{alert.labels['event_id']} {alert.name}"
