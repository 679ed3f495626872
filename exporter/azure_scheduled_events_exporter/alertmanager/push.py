"""Delivers the alerts of this VM's events, to each Alertmanager in a thread of its own.

An Alertmanager that is down, slow or refusing delays no other one, and no poll. Must not decide
which alerts fire (``alert``) or when one is due (``outbox``).
"""

import logging
import operator
import random
import threading
from collections.abc import Callable, Sequence

from azure_scheduled_events_exporter.core.timestamp import Timestamp
from azure_scheduled_events_exporter.log_limits import Changes
from azure_scheduled_events_exporter.logs import facts
from azure_scheduled_events_exporter.snapshot.pushes import Pushes, PushOutcome, no_alerts

from .client import AlertmanagerClient, AlertmanagerError, Posted, posted
from .outbox import Entry, Outbox, Wanted

BATCH = 64
"""Alerts in one request, as Prometheus sends them."""

_PROBE_SECONDS = 300.0
"""Interval of empty posts while there is no alert.

They show whether the next alert would be accepted.
"""

_UNKNOWN_SECONDS = 15.0
"""How often a worker looks for work while it is unknown what the events require.

Then only a probe can be due, and probes keep their own interval.
"""

_FIRST_RETRY_SECONDS = 1.0
_LAST_RETRY_SECONDS = 15.0


class Worker:
    """Delivers to one Alertmanager; :meth:`run` is the body of a thread.

    Args:
        client: the client of this Alertmanager.
        look: returns what the events of this VM require now; None while that is unknown, because
            IMDS does not answer.
        clock: returns the time by the clock of IMDS: the clock of the VM may be wrong.
        log: where failures, alerts and resolves are logged.

    Attributes:
        up: whether the last request was accepted, also an empty one.
        counts: how many alerts were posted, by the outcome.
    """

    def __init__(
        self,
        client: AlertmanagerClient,
        look: Callable[[], Wanted | None],
        clock: Callable[[], Timestamp],
        log: logging.Logger,
    ) -> None:
        self._client = client
        self._look = look
        self._clock = clock
        self._log = log
        self._woken = threading.Event()
        self._stopping = False
        self._outbox = Outbox()
        # When to post even if nothing is due: as a probe, or as the retry after a failure.
        self._probe_at = 0.0
        self._failures = 0
        self._troubles = Changes()
        self.up = False
        self.counts = no_alerts()

    def wake(self) -> None:
        """Report a change.

        What it makes due is posted immediately, without the backoff of earlier failures.
        """
        self._failures = 0
        self._woken.set()

    def stop(self) -> None:
        """End :meth:`run`, and cancel the current request."""
        self._stopping = True
        self._woken.set()
        self._client.stop()

    def run(self) -> None:
        """Deliver until :meth:`stop`."""
        while not self._stopping:
            self._woken.clear()
            try:
                pause = self.deliver()
            except Exception:  # noqa: BLE001 - whatever it is, the next event must be pushed
                pause = _LAST_RETRY_SECONDS
                self._log.exception(
                    "internal error while pushing alerts; retrying", extra=facts(seconds=pause)
                )
            if not self._stopping:
                self._woken.wait(pause)

    def deliver(self) -> float:
        """Post what is due; return how many seconds to wait before the next call."""
        now = self._clock().monotonic
        wanted = self._look()
        due: list[Entry] = []
        if wanted is not None:
            self._outbox.update(wanted, now)
            due = self._outbox.due(now, BATCH)
        if due or now >= self._probe_at:
            self._post(due)
        if wanted is None:
            # Until it is known, only a probe can be due. The poll that ends this calls wake().
            return _UNKNOWN_SECONDS
        next_at = min(self._outbox.next_due(), self._probe_at)
        return max(0.0, next_at - self._clock().monotonic)

    def _post(self, due: Sequence[Entry]) -> None:
        """Post ``due`` once, count and log the result, and set when to post again.

        ``due`` may be empty: Alertmanager answers such a post, too.
        """
        alerts = [self._posted(each) for each in due]
        outcome = PushOutcome.ACCEPTED
        reason = ""
        try:
            self._client.post(alerts)
        except AlertmanagerError as error:
            outcome = error.outcome
            reason = str(error)
        if self._stopping:
            return  # stop() has cancelled the request: its failure says nothing of Alertmanager
        self.up = outcome is PushOutcome.ACCEPTED
        self.counts = {**self.counts, outcome: self.counts[outcome] + len(due)}
        self._report(outcome, reason)
        now = self._clock().monotonic
        if not self.up:
            self._probe_at = now + self._backoff()
            self._outbox.refused(due, self._probe_at)
            return
        self._failures = 0
        self._probe_at = now + _PROBE_SECONDS * random.uniform(0.8, 1.0)  # noqa: S311 - no secret
        for entry in self._outbox.accepted(due, now):
            self._report_alert(entry)

    def _posted(self, entry: Entry) -> Posted:
        """Return ``entry`` as it is posted now, with times by IMDS' clock."""
        alert = entry.alert
        now = self._clock()
        starts_at = now.wall - now.since(alert.first_seen)
        ends_at = now.wall + entry.ends_in(now.monotonic)
        return posted(alert.labels, alert.annotations, starts_at, ends_at)

    def _backoff(self) -> float:
        """Return how many seconds to wait after a failure, and count it.

        The pause doubles up to a limit. Half of it is random, so that the VMs of a fleet do not
        retry together.
        """
        pause = min(_FIRST_RETRY_SECONDS * 2.0**self._failures, _LAST_RETRY_SECONDS)
        self._failures = min(self._failures + 1, 10)  # far beyond the limit, and no overflow
        return pause * random.uniform(0.5, 1.0)  # noqa: S311 - no secret

    def _report(self, outcome: PushOutcome, reason: str) -> None:
        """Log a failure of a push when it begins, changes and ends.

        ``reason`` is ``""`` if the push was accepted. An invalid HTTP configuration is logged when
        it begins and changes, but not when it ends.
        """
        error = self._client.config_error
        if self._troubles.is_new("configuration", error) and error:
            message = (
                "invalid HTTP configuration for Alertmanager, the last valid one stays in effect"
            )
            self._log.error(message, extra=facts(url=self._client.shown, error=error))
        if not self._troubles.is_new("push", reason):
            return
        url = self._client.shown
        if not reason:
            self._log.info("Alertmanager accepts alerts again", extra=facts(url=url))
            return
        message = "alerts cannot be pushed to Alertmanager; retrying"
        if outcome is PushOutcome.REJECTED:
            message = "alerts rejected by Alertmanager; retrying"
        self._log.warning(message, extra=facts(url=url, error=reason))

    def _report_alert(self, entry: Entry) -> None:
        """Log that Alertmanager has accepted a new alert, or its first resolve."""
        labels = {name: entry.alert.labels[name] for name in ("alertname", "event_id", "severity")}
        message = "alert pushed"
        if entry.ended_at is not None:
            message = "alert resolved"
        self._log.info(message, extra=facts(url=self._client.shown, **labels))


class AlertPush:
    """The workers of all Alertmanagers."""

    def __init__(self, workers: Sequence[Worker]) -> None:
        self.workers = workers
        self._state: tuple[object, ...] | None = None

    @property
    def pushes(self) -> Pushes:
        """How many alerts were pushed, and whether every Alertmanager accepted the last push."""
        alerts = {
            outcome: sum(worker.counts[outcome] for worker in self.workers)
            for outcome in PushOutcome
        }
        return Pushes(all(worker.up for worker in self.workers), alerts)

    def update(self, *state: object) -> None:
        """Wake the workers if a part of ``state`` is another object than at the last call.

        ``state`` is all on which alerts depend, in the same order in each call. The poller calls
        this whenever it publishes something new.
        """
        before = self._state
        if before is not None and all(map(operator.is_, state, before)):
            return
        self._state = state
        for worker in self.workers:
            worker.wake()

    def stop(self) -> None:
        """End the threads. What is not posted is posted after the next start, from the journal."""
        for worker in self.workers:
            worker.stop()
