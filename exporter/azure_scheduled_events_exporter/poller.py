"""The shell of the exporter: the only place that sequences effects.

One poll is: fetch, parse, observe, tell, publish. Everything that decides is pure and stands elsewhere; everything
that waits is handed in. One thread runs it.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass, replace

from .clock import Clock
from .events import Document, InvalidDocumentError, parse_document
from .identity import Identity
from .imds import ImdsClient, ImdsError, Outcome, Stopped
from .instant import Instant, iso_time
from .lifecycle import WATCHED_WITHIN_SECONDS, Change, Lifecycle, Lifecycles, Transition, Vantage, observe
from .logs import facts
from .pace import Pace
from .snapshot import Polls, Snapshot
from .tally import measure

FIRST_TIMEOUT_SECONDS = 130.0
"""The first request of a service enables Scheduled Events, which takes IMDS up to two minutes."""

_REMARKS_REMEMBERED = 1000


@dataclass(frozen=True, slots=True)
class Settings:
    """What a user decided about polling; seconds."""

    interval: float
    timeout: float
    vm_name: str | None


class Poller:
    """Polls until told to stop, and publishes a :class:`Snapshot` after every poll.

    Args:
        settings: what the user decided.
        client: the wire to IMDS.
        clock: this machine's clock.
        wait: waits so many seconds, or until the process is to end; returns whether it is.
        log: where transitions and failures are told.
    """

    def __init__(
        self, settings: Settings, client: ImdsClient, clock: Clock, wait: Callable[[float], bool], log: logging.Logger
    ) -> None:
        self._settings = settings
        self._client = client
        self._clock = clock
        self._wait = wait
        self._log = log
        self._body: bytes | None = None
        self._document: Document | None = None
        self._watched_until: Instant | None = None
        self._known = Lifecycles()
        self._identity: Identity | None = None
        self._failures = _FailureLog(log)
        self._remarked: dict[str, None] = {}
        self.snapshot = Snapshot(poll_interval=settings.interval, vm_name=settings.vm_name)

    def learn(self, identity: Identity) -> None:
        """Take note of who this VM is; the next poll looks at the events with that knowledge. Any thread may call."""
        self._identity = identity

    def run(self) -> None:
        """Poll at the configured rate until the process is to end."""
        pace = Pace(self._settings.interval, self._clock.now().monotonic)
        while not self._wait(pace.due - self._clock.now().monotonic):
            try:
                outcome = self.poll()
            except Stopped:
                return
            pace.polled(self._clock.now().monotonic, throttled=outcome is Outcome.THROTTLED)

    def poll(self) -> Outcome:
        """Ask IMDS once, take in what it says, and publish.

        Raises:
            Stopped: the process is to end.
        """
        began = self._clock.now()
        failure = ""
        try:
            outcome = self._ask()
            self._failures.over(self._clock.now())
        except Stopped:
            raise
        except ImdsError as error:
            outcome, failure = error.outcome, str(error)
            self._failures.told(error.reason, failure, outcome, began)
        except Exception:  # noqa: BLE001 - whatever it is, the next poll must come
            outcome, failure = Outcome.INVALID_DOCUMENT, "the exporter failed on this answer; its log has the traceback"
            self._failures.told("poll failed", failure, outcome, began, with_traceback=True)
        self._publish(outcome, failure, began, self._clock.now())
        return outcome

    def _ask(self) -> Outcome:
        """Fetch and take in; a failure leaves what was known as it is."""
        timeout = self._settings.timeout if self._client.reached else max(FIRST_TIMEOUT_SECONDS, self._settings.timeout)
        body = self._client.scheduled_events(timeout)
        if body is None:
            if self._document is None:
                raise ImdsError(Outcome.HTTP_ERROR, "IMDS answered 304 (unchanged) before it ever told a document")
            document = self._document
        elif body == self._body and self._document is not None:
            document = self._document
        else:
            try:
                document = parse_document(body)
            except InvalidDocumentError as error:
                raise ImdsError(
                    Outcome.INVALID_DOCUMENT, "IMDS sent no Scheduled Events document", str(error)
                ) from None
        self._take_in(document, body)
        if document.unreadable:
            raise ImdsError(
                Outcome.INVALID_DOCUMENT, "IMDS sent a document that is partly unreadable", document.unreadable[0]
            )
        return Outcome.OK

    def _take_in(self, document: Document, body: bytes | None) -> None:
        """Turn what is new in ``document`` into transitions, and tell them."""
        now = self._clock.now()
        vm_name = self._settings.vm_name or (self._identity.vm_name if self._identity else None)
        # The objects themselves: an unchanged body was not parsed again.
        if document is self._document and vm_name == self.snapshot.vm_name and self._identity is self.snapshot.identity:
            self._watched_until = now
            return
        watched = self._watched_until is not None and now.since(self._watched_until) <= WATCHED_WITHIN_SECONDS
        known, changes = observe(self._known, document, Vantage(now, vm_name, watched, self._clock.booted_at()))
        changed = self._document is not None and (document.incarnation, document.events) != (
            self._document.incarnation,
            self._document.events,
        )
        for remark in document.remarks:
            self._remark(remark)
        for change in changes:
            self._tell(change)
        self._known, self._document, self._watched_until = known, document, now
        self._body = body if body is not None else self._body
        self.snapshot = replace(
            self.snapshot,
            revision=self.snapshot.revision + 1,
            vm_name=vm_name,
            identity=self._identity,
            incarnation=document.incarnation,
            document_changes=self.snapshot.document_changes + changed,
            current=known.current,
            tally=self.snapshot.tally.plus(map(measure, changes)),
        )

    def _publish(self, outcome: Outcome, failure: str, began: Instant, ended: Instant) -> None:
        before = self.snapshot.polls
        polls = Polls(
            outcomes={**before.outcomes, outcome: before.outcomes[outcome] + 1},
            durations=before.durations.observe(ended.since(began)),
            up=outcome is Outcome.OK,
            last_success=ended.wall if outcome is Outcome.OK else before.last_success,
            failure=failure,
        )
        self.snapshot = replace(self.snapshot, polls=polls)

    def _remark(self, remark: str) -> None:
        if remark not in self._remarked:
            self._log.warning("odd document", extra=facts(remark=remark))
            self._remarked[remark] = None
            if len(self._remarked) > _REMARKS_REMEMBERED:
                del self._remarked[next(iter(self._remarked))]

    def _tell(self, change: Change) -> None:
        level = logging.WARNING if change.transition is Transition.LOST else logging.INFO
        self._log.log(level, f"event {change.transition}", extra=facts(**change_facts(change)))


def change_facts(change: Change) -> dict[str, object]:
    """Return what a log line says about ``change``: who, what, when, how much warning, who let it begin."""
    life: Lifecycle = change.lifecycle
    event = life.event
    said: dict[str, object] = {
        "event_id": life.event_id,
        "event_type": event.event_type,
        "event_source": event.source,
        "scope": life.scope,
        "resources": ",".join(event.resources),
        "not_before": None if life.not_before is None else iso_time(life.not_before),
        "duration_seconds": event.duration_seconds,
        "description": event.description,
    }
    if change.transition is Transition.DETECTED:
        said["notice_seconds"] = None if life.notice_seconds is None else round(life.notice_seconds, 3)
    else:
        said["seconds_since_first_seen"] = round(change.at.since(life.first_seen), 3)
        said["approved_by"] = life.approved_by
    return {name: value for name, value in said.items() if value not in {None, ""}}


class _FailureLog:
    """Tells a failure that lasts when it begins, when it changes and when it ends, not at every poll."""

    def __init__(self, log: logging.Logger) -> None:
        self._log = log
        self._reason = ""
        self._since: Instant | None = None
        self._polls = 0

    def told(
        self, reason: str, message: str, outcome: Outcome, began: Instant, *, with_traceback: bool = False
    ) -> None:
        """Take note of a failed poll; ``reason`` is the same as long as the failure is."""
        self._polls += 1
        if self._since is None:
            self._since = began
        if reason != self._reason:
            what = "IMDS poll failed" if not self._reason else "IMDS poll fails in another way"
            level = logging.ERROR if with_traceback else logging.WARNING
            self._log.log(level, what, extra=facts(outcome=outcome, error=message), exc_info=with_traceback)
        self._reason = reason

    def over(self, now: Instant) -> None:
        """Take note of a poll that succeeded."""
        if self._since is not None:
            lasted = round(now.since(self._since), 3)
            self._log.info("IMDS answers again", extra=facts(failed_polls=self._polls, seconds=lasted))
        self._reason, self._since, self._polls = "", None, 0
