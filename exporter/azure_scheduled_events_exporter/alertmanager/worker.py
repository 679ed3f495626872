"""Delivers the alerts of the poller's events to one Alertmanager, in a thread of its own.

Decides when to send and when to retry. :class:`Alerts` decides which alerts fire, and :class:`Outbox` when each is due
and whether its end may be sent.
"""

import logging
import math
import random
import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import Protocol

from azure_scheduled_events_exporter.core.timestamp import Timestamp
from azure_scheduled_events_exporter.logs import facts

from .event_alert import EventAlert
from .outbox import NOT_ACTIVE, RESEND_SECONDS, Entry, Outbox
from .pushes import PushOutcome, no_alerts
from .sender import AlertmanagerClient, Posted, PushResult

BATCH = 64
"""Alerts in one request, as Prometheus sends them."""

_PROBE_SECONDS = 300.0
"""Interval of empty posts while there is no event; they show whether the next alert would be accepted."""

_LOOK_SECONDS = 1.0
"""How often to look whether an event that has no alert yet has one now."""

_WITHOUT_IMDS_SECONDS = 2 * RESEND_SECONDS
"""After so many seconds without an answer of IMDS, an alert that other VMs may post too is posted less often."""

_FIRST_RETRY_SECONDS = 1.0
_LAST_RETRY_SECONDS = RESEND_SECONDS  # others wait so long for its posts
_AFTER_BUG_SECONDS = 60.0
_QUESTION_SECONDS = 2.0
"""How long a new alert waits for the answer to a question. A second alert of an event is less harm than a late one."""
_CLOCK_TOLERANCE_SECONDS = 2.0


class Alerts(Protocol):
    """The alerts of this VM's events, the same for every Alertmanager."""

    sees: Callable[[], bool]
    """Whether polls are answered now."""

    def refresh(self, outbox: Outbox, shows: Callable[[EventAlert], bool | None], now: Timestamp) -> bool:
        """Update ``outbox`` with the alerts that fire now. Return whether every event has its alert."""

    def over_at(self, ended_at: float, now: float) -> float | None:
        """Return from when on nobody else posts the alert of an event that ended then; None if not known yet."""


class Worker:
    """Delivers to one Alertmanager; :meth:`run` is a thread."""

    def __init__(
        self, alerts: Alerts, client: AlertmanagerClient, clock: Callable[[], Timestamp], log: logging.Logger
    ) -> None:
        self._alerts = alerts
        self._client = client
        self._clock = clock
        self._log = log
        self._woken = threading.Event()
        self._stopping = threading.Event()
        self._outbox = Outbox()
        self._probe_at = 0.0
        self._pause = _FIRST_RETRY_SECONDS
        self._offset: float | None = None  # seconds by which Alertmanager's clock is ahead
        self._without_imds_since = math.inf
        self._ahead = 0.0  # how far the wall clock was ahead of the monotonic one when the offset was learned
        self._trouble = ""
        self._config_error = ""
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
                    self._woken.wait(self.deliver())
            except Exception:  # noqa: BLE001 - whatever it is, the next event must be pushed
                message = "internal error while pushing alerts; retrying"
                self._log.exception(message, extra=facts(at_most_seconds=_AFTER_BUG_SECONDS))
                self._stopping.wait(_FIRST_RETRY_SECONDS)  # for the case that each attempt fails in this way
                self._woken.wait(_AFTER_BUG_SECONDS)

    def deliver(self) -> float:
        """Send the alerts that are due; return how many seconds to wait before the next call."""
        now = self._clock()
        is_complete = self._alerts.refresh(self._outbox, self._questions(_QUESTION_SECONDS), now)
        over_at = partial(self._alerts.over_at, now=now.monotonic)
        due = self._sendable(self._outbox.due(now.monotonic, over_at), now.monotonic)[:BATCH]
        if due or now.monotonic >= self._probe_at:
            began = self._clock().monotonic
            result = self._post(due)
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

    def _questions(self, seconds: float | None = None) -> Callable[[EventAlert], bool | None]:
        """Return a function that asks whether Alertmanager shows an alert, each time for ``seconds`` at most.

        After a question without an answer, it asks no more.
        """
        asks = True

        def shows(alert: EventAlert) -> bool | None:
            nonlocal asks
            answer = self._client.shows(alert, seconds) if asks else None
            asks = answer is not None
            return answer

        return shows

    def _post(self, due: Sequence[Entry]) -> PushResult:
        """Post ``due``; before the first alert an empty post, whose answer has Alertmanager's clock."""
        self._forget_offset_after_a_step()
        if due and self._offset is None:
            result = self._client.push([], 0.0)
            self._learn_offset(result)
            if self._offset is None:
                return result
        now = self._clock()
        posted = [Posted(entry.alert, now.wall + entry.ends_in(now.monotonic)) for entry in due]
        return self._client.push(posted, self._offset or 0.0)

    def _learn_offset(self, result: PushResult) -> None:
        if result.clock_offset is not None:
            is_off = abs(result.clock_offset) > _CLOCK_TOLERANCE_SECONDS
            self._offset = result.clock_offset if is_off else 0.0
        elif self._offset is None and (result.outcome is PushOutcome.ACCEPTED or result.is_about_content):
            self._offset = 0.0  # its answers have no Date
        else:
            return
        now = self._clock()
        self._ahead = now.wall - now.monotonic

    def _forget_offset_after_a_step(self) -> None:
        """Forget Alertmanager's clock if the wall clock was set, or the VM suspended, since its last answer."""
        now = self._clock()
        if abs(now.wall - now.monotonic - self._ahead) > _CLOCK_TOLERANCE_SECONDS:
            self._offset = None

    def _sendable(self, entries: Sequence[Entry], now: float) -> list[Entry]:
        """Leave out ends while others post, and without IMDS the alerts whose end another exporter may have seen.

        After some time without IMDS, an alert that others post too is prolonged rarely: who sees its end waits until
        nobody posts it.
        """
        sees = self._alerts.sees()
        self._without_imds_since = math.inf if sees else min(self._without_imds_since, now)
        is_rare = now - self._without_imds_since > _WITHOUT_IMDS_SECONDS
        firing = [entry for entry in entries if entry.ended_at is None]
        known = [entry for entry in firing if (sees and entry.confirmed) or not entry.was_accepted]
        if known:  # the others are due again directly afterwards: a new alert does not wait for questions about them
            return known
        sendable, shows = [], self._questions()
        for entry in firing:
            rests = is_rare and entry.alert.is_shared and entry.lasts(now)
            if not rests and shows(entry.alert):
                sendable.append(entry)
            else:
                self._outbox.sent([entry], now, accepted=False)
        # What fires does not wait for questions about ends, which are due again directly afterwards.
        return sendable or self._endable([entry for entry in entries if entry.ended_at is not None][:BATCH])

    def _endable(self, entries: Sequence[Entry]) -> list[Entry]:
        """Return the ended ``entries`` whose ends may be sent now. After a question without an answer, ask no more."""
        endable: list[Entry] = []
        for entry in entries:
            is_asked = entry.is_reported or entry.alert.is_shared
            answer = self._client.posted_at(entry.alert) if is_asked else NOT_ACTIVE
            was_left = entry.is_left
            if self._outbox.may_end(entry, self._clock().monotonic, answer):
                endable.append(entry)
            elif entry.is_left and not was_left:
                self._log_alert("alert stays open: another client still posts it", entry)
            if answer is None:
                self._probe_at = self._clock().monotonic  # so that log and metrics say that it does not answer
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
        """Log a failure, also of the client's configuration, when it begins, changes and ends."""
        error = self._client.config_error
        if error and error != self._config_error:
            message = "invalid HTTP configuration for Alertmanager, the last valid one stays in effect"
            self._log.error(message, extra=facts(url=self._client.shown, error=error))
        self._config_error = error
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
