"""Delivers the alerts of the poller's events to every Alertmanager, each in its own thread.

Decides when to send and when to retry. An Alertmanager that is down, slow or refusing does not delay the others.

When an end is sent. For Alertmanager, the newest post of an alert counts: an end by any client ends it, and a later
firing post begins it again. So an exporter must not end an alert that another client still posts. If the event names
several VMs, it first waits whether another one posts the alert again (:meth:`Outbox.may_end`): its own IMDS may not
show the event, for example just after a reboot. An exporter that cannot reach IMDS prolongs only alerts that
Alertmanager still shows. A Prometheus posts until it has scraped the end and evaluated its rules, so the end is delayed
until then (:meth:`AlertPush.over_at`). Without a Prometheus, the end of an event of this VM alone is sent immediately.
"""

import logging
import math
import random
import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from azure_scheduled_events_exporter.core.instance import Instance
from azure_scheduled_events_exporter.core.lifecycle import Lifecycle
from azure_scheduled_events_exporter.core.timestamp import Timestamp
from azure_scheduled_events_exporter.logs import facts

from .catalog import Catalog
from .event_alert import EventAlert, event_alert, needs_instance
from .outbox import RESEND_SECONDS, Ended, Entry, Holding, Outbox
from .pushes import Pushes, PushOutcome, no_alerts
from .scrapes import Scrapes
from .sender import AlertmanagerClient, Posted, PushResult

BATCH = 64
"""Alerts in one request, as Prometheus sends them."""

_PROBE_SECONDS = 300.0
"""Interval of empty posts while there is no event; they show whether the next alert would be accepted."""

_LOOK_SECONDS = 1.0
"""How often to look whether an event that has no alert yet has one now."""

_BLIND_SECONDS = 2 * RESEND_SECONDS
"""After so many seconds without an answer of IMDS, an alert that other VMs may post too is posted less often."""

_FIRST_RETRY_SECONDS = 1.0
_LAST_RETRY_SECONDS = RESEND_SECONDS  # others wait so long for its posts
_AFTER_BUG_SECONDS = 60.0
_CLOCK_TOLERANCE_SECONDS = 2.0
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
        self._blind_at = -math.inf
        self._clock = clock
        self._view: _View | None = None
        self._identity: Instance | None = None
        self.sees: Callable[[], bool] = lambda: False
        """Whether polls are answered now."""
        self.workers = [_Worker(self, client, clock, log) for client in clients]

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
        scraped = self._scrapes.seen_by_all(max(ended_at, self._blind_at), now)
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
            self._blind_at = now.monotonic
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

    One that Alertmanager has accepted stays, also after a restart of the exporter.
    """
    own, *others = alerts
    for other in others:
        if outbox.fires(other) or (not outbox.fires(own) and shows(own) is False and shows(other)):
            return other
    return own


class _Worker:
    """Delivers to one Alertmanager; :meth:`run` is a thread."""

    def __init__(
        self, push: AlertPush, client: AlertmanagerClient, clock: Callable[[], Timestamp], log: logging.Logger
    ) -> None:
        self._push = push
        self._client = client
        self._clock = clock
        self._log = log
        self._woken = threading.Event()
        self._stopping = threading.Event()
        self._outbox = Outbox()
        self._probe_at = 0.0
        self._pause = _FIRST_RETRY_SECONDS
        self._offset: float | None = None  # seconds by which Alertmanager's clock is ahead
        self._blind_since = math.inf
        first = clock()
        self._ahead = first.wall - first.monotonic
        self._trouble = ""
        self.up = False
        self.counts = no_alerts()

    def wake(self) -> None:
        """Report a change: it is sent immediately, even if a retry is waiting."""
        self._woken.set()

    def stop(self) -> None:
        """End :meth:`run`, and cancel the current request."""
        self._stopping.set()
        self._woken.set()
        self._client.stop()

    def run(self) -> None:
        """Deliver until :meth:`stop`."""
        self._probe_at = self._clock().monotonic
        while not self._stopping.is_set():
            try:
                if self._woken.is_set():
                    self._pause = _FIRST_RETRY_SECONDS  # a change is urgent, however long the outage has lasted
                self._woken.clear()
                if not self._stopping.is_set():
                    self._woken.wait(self._deliver())
            except Exception:  # noqa: BLE001 - whatever it is, the next event must be pushed
                message = "internal error while pushing alerts; retrying"
                self._log.exception(message, extra=facts(seconds=_AFTER_BUG_SECONDS))
                self._stopping.wait(_AFTER_BUG_SECONDS)

    def _deliver(self) -> float:
        """Send the due alerts; return how long to wait afterwards."""
        now = self._clock()
        is_complete = self._push.refresh(self._outbox, self._client.shows, now)
        self._follow_clock(now)
        over_at = partial(self._push.over_at, now=now.monotonic)
        due = self._sendable(self._outbox.due(now.monotonic, over_at), now.monotonic)[:BATCH]
        if due or now.monotonic >= self._probe_at:
            began = self._clock().monotonic
            result = self._post(due, now)
            if self._stopping.is_set() or not self._took(result, due):
                # From the beginning of the attempt, which may have lasted for seconds: others wait for the next one.
                pause = max(_FIRST_RETRY_SECONDS / 2, self._backoff() - (self._clock().monotonic - began))
                if result.outcome is PushOutcome.REJECTED:  # what is refused must not keep others from their end
                    self._outbox.retry(due, self._clock().monotonic + pause + _LOOK_SECONDS)
                return pause
            self._outbox.sent(due, began, accepted=True)
            self._probe_at = self._clock().monotonic + _PROBE_SECONDS * random.uniform(0.8, 1.0)  # noqa: S311 - no secret
        now = self._clock()
        waits = [self._outbox.wait(now.monotonic), self._probe_at - now.monotonic]
        if not is_complete:
            waits.append(_LOOK_SECONDS)
        return max(0.0, min(wait for wait in waits if wait is not None))

    def _post(self, due: Sequence[Entry], now: Timestamp) -> PushResult:
        """Post ``due``; before the first alert an empty post, whose answer has Alertmanager's clock."""
        if due and self._offset is None:
            result = self._client.push([], 0.0)
            self._learn_offset(result)
            if self._offset is None:
                return result
        posted = [Posted(entry.alert, now.wall + entry.ends_in(now.monotonic)) for entry in due]
        return self._client.push(posted, self._offset or 0.0)

    def _learn_offset(self, result: PushResult) -> None:
        if result.clock_offset is not None:
            is_off = abs(result.clock_offset) > _CLOCK_TOLERANCE_SECONDS
            self._offset = result.clock_offset if is_off else 0.0

    def _follow_clock(self, now: Timestamp) -> None:
        """Correct the offset by as much as the wall clock was set since the last post: its answer comes too late."""
        ahead = now.wall - now.monotonic
        if self._offset is not None and abs(ahead - self._ahead) > _CLOCK_TOLERANCE_SECONDS:
            self._offset -= ahead - self._ahead
        self._ahead = ahead

    def _sendable(self, entries: Sequence[Entry], now: float) -> list[Entry]:
        """Leave out ends while others post, and without IMDS the alerts whose end another exporter may have seen.

        After some time without IMDS, an alert that others post too is prolonged rarely: who sees its end waits until
        nobody posts it.
        """
        sees = self._push.sees()
        self._blind_since = math.inf if sees else min(self._blind_since, now)
        is_rare = now - self._blind_since > _BLIND_SECONDS
        sendable = []
        for entry in entries:
            if entry.ended_at is not None:
                continue
            knows = (sees and entry.confirmed) or not entry.was_accepted
            rests = is_rare and entry.alert.is_shared and entry.lasts(now)
            if knows or (not rests and self._client.shows(entry.alert)):
                sendable.append(entry)
            else:
                self._outbox.sent([entry], now, accepted=False)
        # What fires does not wait for questions about ends, which are due again directly afterwards.
        return sendable or self._endable([entry for entry in entries if entry.ended_at is not None][:BATCH])

    def _endable(self, entries: Sequence[Entry]) -> list[Entry]:
        """Return those of the ended ``entries`` that nobody posts any more, as far as Alertmanager answers that."""
        endable: list[Entry] = []
        for entry in entries:
            answers, posted_at = True, None
            if entry.is_reported or entry.alert.is_shared:
                answers, posted_at = self._client.posted_at(entry.alert)
            was_left = entry.is_left
            if self._outbox.may_end(entry, self._clock().monotonic, posted_at, answers=answers):
                endable.append(entry)
            elif entry.is_left and not was_left:
                self._log_alert("alert stays open: another client still posts it", entry)
            if not answers:
                break  # the others are due again directly afterwards
        return endable

    def _took(self, result: PushResult, due: Sequence[Entry]) -> bool:
        """Count and log the result of ``due``; return whether no retry is needed now."""
        self._learn_offset(result)
        # An empty post may be refused because it is empty; that also shows that Alertmanager answers.
        is_probe = not due and result.outcome is PushOutcome.REJECTED and result.is_about_content
        accepted = result.outcome is PushOutcome.ACCEPTED or is_probe
        self.counts = {**self.counts, result.outcome: self.counts[result.outcome] + len(due)}
        self.up = accepted
        self._report(result, accepted=accepted)
        if accepted:
            self._pause = _FIRST_RETRY_SECONDS
            for entry in due:
                self._report_alert(entry)
        return accepted

    def _backoff(self) -> float:
        """Return how long to wait; half of it is random, so that the VMs of a fleet do not retry together."""
        pause, self._pause = self._pause, min(self._pause * 2, _LAST_RETRY_SECONDS)
        return pause * random.uniform(0.5, 1.0)  # noqa: S311 - no secret

    def _report(self, result: PushResult, *, accepted: bool) -> None:
        """Log a failure when it begins, changes and ends."""
        reason = "" if accepted else result.reason
        if reason and reason != self._trouble:
            what = f"alerts {'rejected by' if result.outcome is PushOutcome.REJECTED else 'cannot be pushed to'}"
            self._log.warning(f"{what} Alertmanager; retrying", extra=facts(url=self._client.shown, error=reason))
        elif self._trouble and not reason:
            self._log.info("Alertmanager accepts alerts again", extra=facts(url=self._client.shown))
        self._trouble = reason

    def _report_alert(self, entry: Entry) -> None:
        if entry.is_reported:
            return
        self._log_alert("alert pushed" if entry.ended_at is None else "alert resolved", entry)

    def _log_alert(self, message: str, entry: Entry) -> None:
        labels = entry.alert.labels
        self._log.info(
            message,
            extra=facts(
                url=self._client.shown, **{name: labels[name] for name in ("alertname", "event_id", "severity")}
            ),
        )
