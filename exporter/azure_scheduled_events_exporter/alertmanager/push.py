"""Decides which alerts of the poller's events fire, and from when on their ends may be sent.

Each Alertmanager has a thread of its own (:class:`Worker`): one that is down, slow or refusing delays no other one.

When an end is sent. For Alertmanager, the newest post of an alert counts: an end by any client ends it, and a later
firing post begins it again. So an exporter must not end an alert that another client still posts. If the event names
several VMs, it first waits whether another one posts the alert again (:meth:`Outbox.may_end`): its own IMDS may not
show the event, for example just after a reboot. An exporter that cannot reach IMDS prolongs only alerts that
Alertmanager still shows. A Prometheus posts until it has scraped the end and evaluated its rules, so the end is delayed
until then (:meth:`AlertPush.over_at`). Without a Prometheus, the end of an event of this VM alone is sent immediately.
"""

import logging
import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from azure_scheduled_events_exporter.core.instance import Instance
from azure_scheduled_events_exporter.core.lifecycle import Lifecycle
from azure_scheduled_events_exporter.core.timestamp import Timestamp

from .catalog import Catalog
from .event_alert import EventAlert, event_alert, needs_instance
from .outbox import Ended, Holding, Outbox
from .pushes import Pushes, no_alerts
from .scrapes import Scrapes
from .sender import AlertmanagerClient
from .worker import Worker

# An engine that reads recordings from a store sees the end two evaluations later. Then the alert is evaluated.
_EVALUATIONS = 3
# So long after the last scrape with the event is its end recorded.
_SCRAPES = 2
_SETTLING_SLACK_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class _View:
    """This VM's events, current and just ended, from the poller; ``ended`` is None before the first document."""

    current: tuple[Lifecycle, ...]
    ended: tuple[Lifecycle, ...] | None
    confirmed: frozenset[str]


class AlertPush:
    """Pushes the alerts of this VM's events.

    Args:
        clients: one for each Alertmanager.
        catalog: the alerts.
        labels: added to every alert that has none of that name, as ``external_labels`` of a Prometheus.
        scrapes: the scrapers of this exporter.
        remember: keeps the interval of scrapes for the next run.
        clock: returns the time.
        log: where failures of an Alertmanager are logged.
    """

    def __init__(
        self,
        clients: Sequence[AlertmanagerClient],
        catalog: Catalog,
        labels: Mapping[str, str],
        scrapes: Scrapes,
        remember: Callable[[float], None],
        clock: Callable[[], Timestamp],
        log: logging.Logger,
    ) -> None:
        self._catalog = catalog
        self._labels = labels
        self._scrapes = scrapes
        self._remember = remember
        self._remembered = -1.0
        self._without_imds_at = -math.inf
        self._clock = clock
        self._view: _View | None = None
        self._identity: Instance | None = None
        self.sees: Callable[[], bool] = lambda: False
        """Whether polls are answered now."""
        self.workers = [Worker(self, client, clock, log) for client in clients]

    @property
    def pushes(self) -> Pushes:
        """How many alerts were pushed, and whether the last push was accepted by every Alertmanager."""
        alerts = no_alerts()
        for worker in self.workers:
            for outcome, count in worker.counts.items():
                alerts[outcome] += count
        return Pushes(all(worker.up for worker in self.workers), alerts)

    def identify(self, identity: Instance) -> None:
        """Set this VM's identity, on which labels and severities may depend. Any thread may call."""
        self._identity = identity
        for worker in self.workers:
            worker.wake()

    def restore(self, current: Mapping[str, Lifecycle]) -> None:
        """Push the alerts of the journal's events ``current`` while no document has come. Ends wait for a document."""
        if self._view is not None and self._view.ended is not None:
            return
        view = _View(tuple(life for life in current.values() if life.is_mine), None, frozenset())
        if view != self._view:
            self._view = view
            for worker in self.workers:
                worker.wake()

    def update(self, current: Mapping[str, Lifecycle], ended: Collection[Lifecycle], shown: Collection[str]) -> None:
        """Update the alerts after a document with the events ``shown``; the journal already has all changes."""
        confirmed = (self._view.confirmed if self._view else frozenset()) | frozenset(shown)
        self._view = _View(
            current=tuple(life for life in current.values() if life.is_mine),
            ended=tuple(life for life in ended if life.is_mine),
            confirmed=confirmed & (current.keys() | {life.event_id for life in ended}),
        )
        for worker in self.workers:
            worker.wake()
        self._remember_scrapes()

    def stop(self) -> None:
        """End the threads. Unsent alerts are sent after the next start, from the journal."""
        for worker in self.workers:
            worker.stop()

    def over_at(self, ended_at: float, now: float) -> float | None:
        """Return the time from which on no Prometheus posts the alert of an event that ended at ``ended_at``.

        Without a Prometheus, that time has come already. It is None while a Prometheus has not scraped the end, or
        while this exporter cannot reach IMDS. Times are monotonic seconds.
        """
        scraped = self._scrapes.seen_by_all(max(ended_at, self._without_imds_at), now)
        if scraped is None or not self._scrapes.interval(now):
            return scraped
        rules = self._catalog
        evaluated = _EVALUATIONS * rules.evaluation_interval + rules.slow_interval
        recorded = _SCRAPES * max(rules.scrape_interval, rules.evaluation_interval)
        return scraped + recorded + evaluated + _SETTLING_SLACK_SECONDS

    def refresh(self, outbox: Outbox, shows: Callable[[EventAlert], bool | None], now: Timestamp) -> bool:
        """Update ``outbox`` with the alerts that fire now, which depends on the time and on what Alertmanager shows.

        While this exporter cannot reach IMDS, the rules do not believe that an event is over, so ends wait.

        Return whether every event has its alert. One whose source no document shows has it only after two scrapes.
        """
        if not self.sees():
            self._without_imds_at = now.monotonic
            outbox.postpone()
        view = self._view
        if view is None:
            return True
        holding = []
        for life in view.current:
            alerts = self._alerts(life, now)
            if alerts:
                holding.append(Holding(_shared(alerts, outbox, shows), life.event_id in view.confirmed))
        outbox.refresh(holding, now.monotonic)
        if view.ended is None:
            return len(holding) == len(view.current)
        if self._identity is not None or not needs_instance(self._catalog):
            outbox.add_ended(list(self._ended(view.ended, view.confirmed, outbox, shows, now)), now.monotonic)
            outbox.ended_ids = frozenset(life.event_id for life in view.ended)
        return len(holding) == len(view.current) and outbox.ended_ids is not None

    def _ended(
        self,
        ended: Sequence[Lifecycle],
        confirmed: frozenset[str],
        outbox: Outbox,
        shows: Callable[[EventAlert], bool | None],
        now: Timestamp,
    ) -> Iterator[Ended]:
        """Yield the alerts of ``ended`` events that ``outbox`` has to send as resolved.

        If a document of this run has shown the event, its alert ended with it or was never sent. The first time, that
        does not count, because nothing of this run was in ``outbox`` before.
        """
        known = frozenset() if outbox.ended_ids is None else confirmed | outbox.ended_ids
        for life in ended:
            if life.ended_at is None or life.event_id in known:
                continue
            seconds_ago = now.since(life.ended_at)
            alerts = [each for each in self._alerts(life, life.ended_at) if seconds_ago < each.hold]
            if alerts:
                yield Ended(_shared(alerts, outbox, shows), seconds_ago)

    def _alerts(self, life: Lifecycle, now: Timestamp) -> list[EventAlert]:
        """Return the alert of ``life``, and then, if it differs, that of an exporter that saw the event announced."""
        alerts: list[EventAlert] = []
        for was_announced in (False, True):
            alert = event_alert(life, self._identity, self._catalog, self._labels, now, was_announced=was_announced)
            if alert is not None and alert not in alerts:
                alerts.append(alert)
        return alerts

    def _remember_scrapes(self) -> None:
        interval = self._scrapes.interval(self._clock().monotonic)
        if abs(interval - self._remembered) > 1 + 0.2 * self._remembered:
            self._remembered = interval
            self._remember(interval)


def _shared(alerts: Sequence[EventAlert], outbox: Outbox, shows: Callable[[EventAlert], bool | None]) -> EventAlert:
    """Return the one of ``alerts`` to push: the last if Alertmanager already shows it, so that one event is one alert.

    One that Alertmanager has accepted stays.
    """
    own, *others = alerts
    for other in others:
        if outbox.fires(other):
            return other
        if not outbox.is_accepted(own) and shows(own) is False and shows(other):
            outbox.drop(own)
            return other
    return own
