"""Delivery of spans: from the journal to an OpenTelemetry collector, until it has accepted them.

Decides when to send, how much, and when to retry; runs in its own thread, so that no collector can delay a poll. Must
not import OpenTelemetry: ``tracing.otlp`` does, and is imported only if tracing is on.
"""

import logging
import random
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum, auto
from http import HTTPStatus
from typing import Protocol

from azure_scheduled_events_exporter.core.instance import Instance
from azure_scheduled_events_exporter.core.spans import SpanFacts
from azure_scheduled_events_exporter.journal.journal import OWNER_WAIT_SECONDS, Journal
from azure_scheduled_events_exporter.journal.store import QueuedSpan
from azure_scheduled_events_exporter.logs import Changes, facts

BATCH = 128
"""Spans in one request: some 100 KiB, which every collector accepts."""

_LOOK_AGAIN_SECONDS = 60.0
_OWNER_LOOK_SECONDS = 1.0  # how often to look whether the journal is known to be this VM's
_FIRST_RETRY_SECONDS = 1.0
_LAST_RETRY_SECONDS = 60.0
LONGEST_RETRY_AFTER = 300.0
RETRYABLE = {
    HTTPStatus.TOO_MANY_REQUESTS,
    HTTPStatus.BAD_GATEWAY,
    HTTPStatus.SERVICE_UNAVAILABLE,
    HTTPStatus.GATEWAY_TIMEOUT,
}
"""By the OTLP specification; after any other answer than 200, a retry would fail as well."""


class Export(Enum):
    """What became of a batch."""

    ACCEPTED = auto()  # by the collector, except for the spans that its answer rejects
    REFUSED = auto()  # as a whole; that may depend on settings that can be corrected
    LATER = auto()  # no final answer: it is sent again
    TOO_LARGE = auto()  # the collector may accept the same spans in smaller batches
    UNSENDABLE = auto()  # nothing was sent, because a span cannot be encoded


@dataclass(frozen=True, slots=True)
class ExportResult:
    """The result of sending a batch.

    Attributes:
        outcome: what became of it.
        rejected: how many of its spans the collector rejected in an answer that accepts the others.
        unsampled: how many were not sent, because the configured sampler drops them.
        reason: for people; ``""`` when all is well.
        retry_after: seconds that the collector asks to wait.
    """

    outcome: Export
    rejected: int = 0
    unsampled: int = 0
    reason: str = ""
    retry_after: float = 0.0

    @property
    def is_final(self) -> bool:
        """Whether the batch is not sent again."""
        return self.outcome in {Export.ACCEPTED, Export.REFUSED}

    def failed(self, spans: int) -> int:
        """Return how many of a batch of ``spans`` the collector did not accept, whatever number it claims."""
        sent = spans - self.unsampled
        return sent if self.outcome is Export.REFUSED else min(sent, max(0, self.rejected))


class Sender(Protocol):
    """Sends one batch and interprets the answer; never raises."""

    def send(self, spans: Sequence[SpanFacts], identity: Instance | None, timeout: float | None) -> ExportResult:
        """Send ``spans`` of the VM ``identity``; give up after ``timeout`` seconds (None: as configured)."""


_DIVISIBLE = (Export.TOO_LARGE, Export.UNSENDABLE)
"""Outcomes of which a single span of the batch may be the reason."""


class _Queue:
    """The spans that wait in ``journal``, batch by batch.

    They may be another VM's, from whose image this VM was created: nothing is sent until that is known.
    """

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._size = BATCH
        self._unsendable: set[str] = set()  # texts of spans; they stay in the journal
        self._began = time.monotonic()

    @property
    def length(self) -> int:
        """The number of waiting spans."""
        return self._journal.spans_queued()

    @property
    def awaits_owner(self) -> bool:
        """Whether it is not known yet, for a while, whose journal it is."""
        return self._journal.awaits_vm_id and time.monotonic() - self._began < OWNER_WAIT_SECONDS

    def next_batch(self) -> list[QueuedSpan]:
        """Return what to send next."""
        if self.awaits_owner:
            return []
        queued = self._journal.queued_spans(self._size + len(self._unsendable))
        return [span for span in queued if span.text not in self._unsendable][: self._size]

    def take_result(self, batch: Sequence[QueuedSpan], result: ExportResult) -> None:
        """Remove from the queue what the collector has accepted or refused."""
        if result.is_final:
            self._journal.end_spans(batch)
        if result.outcome is Export.ACCEPTED and not result.rejected:
            self._size = min(BATCH, self._size * 2)

    def divide(self, batch: Sequence[QueuedSpan], result: ExportResult) -> bool:
        """Halve the next batch, or skip a single span until the next start: one bad span must not block others.

        Return whether to go on at once: False for a failure that smaller batches do not avoid.
        """
        if result.outcome not in _DIVISIBLE:
            return False
        if len(batch) == 1:
            self._unsendable.add(batch[0].text)
        self._size = max(1, len(batch) // 2)
        return True


class SpanDelivery:
    """Delivers the journal's spans in a thread of its own. Only an answer of the collector removes a span.

    Args:
        journal: holds the spans until they are delivered.
        sender: sends batches to the collector.
        log: where failures of the collector are logged.
    """

    def __init__(self, journal: Journal, sender: Sender, log: logging.Logger) -> None:
        self._queue = _Queue(journal)
        self._sender = sender
        self._log = log
        self._woken = threading.Event()
        self._stopping = threading.Event()
        self._ended = threading.Event()
        self._last: tuple[Sequence[SpanFacts], float] = ((), 0.0)  # unfinished spans to send, and by when
        self._troubles = Changes()
        self.identity: Instance | None = None
        self.exported = 0
        self.failed = 0

    def wake(self) -> None:
        """Report new spans: they are sent immediately, even if a retry is waiting."""
        self._woken.set()

    def run(self) -> None:
        """Deliver until :meth:`stop`."""
        pause = _FIRST_RETRY_SECONDS
        while not self._stopping.is_set():
            self._woken.clear()
            if self._stopping.is_set():  # stop() was called before clear(), so the event would be lost
                break
            batch = self._queue.next_batch()
            if not batch:
                self._woken.wait(_OWNER_LOOK_SECONDS if self._queue.awaits_owner else _LOOK_AGAIN_SECONDS)
                continue
            result = self._deliver(batch, None)
            if result.is_final or self._queue.divide(batch, result):
                pause = _FIRST_RETRY_SECONDS
                continue
            self._stopping.wait(result.retry_after)
            # Half of it is random, so that the VMs of a fleet do not retry together. New spans end it: they are urgent.
            self._woken.wait(pause * random.uniform(0.5, 1.0))  # noqa: S311 - no secret
            pause = min(pause * 2, _LAST_RETRY_SECONDS)
        self._send_open_spans()
        self._ended.set()

    def stop(self, open_spans: Sequence[SpanFacts], seconds: float) -> None:
        """Send ``open_spans`` and queued spans for at most ``seconds``, then end. Unsent spans stay in the journal."""
        self._last = (open_spans, time.monotonic() + seconds)
        self._stopping.set()
        self._woken.set()
        self._ended.wait(seconds)

    def _send_open_spans(self) -> None:
        """Send the unfinished spans of current events, then one queued batch, before the deadline of :meth:`stop`."""
        batch, (open_spans, deadline) = self._queue.next_batch(), self._last
        if open_spans and (left := deadline - time.monotonic()) > 0:
            self._count(len(open_spans), self._sender.send(open_spans, self.identity, left))
        if batch and (left := deadline - time.monotonic()) > 0:
            self._deliver(batch, left)

    def _deliver(self, batch: Sequence[QueuedSpan], timeout: float | None) -> ExportResult:
        result = self._sender.send([queued.span for queued in batch], self.identity, timeout)
        if result.outcome is Export.TOO_LARGE and len(batch) == 1:
            result = replace(result, outcome=Export.REFUSED)
        if len(batch) == 1 or result.outcome not in _DIVISIBLE:
            self._report(len(batch), result)
        self._count(len(batch), result)  # first, so that a span that is not queued any more is counted
        self._queue.take_result(batch, result)
        return result

    def _count(self, spans: int, result: ExportResult) -> None:
        if result.is_final:
            failed = result.failed(spans)
            self.failed += failed
            self.exported += spans - result.unsampled - failed

    def _report(self, spans: int, result: ExportResult) -> None:
        """Log a failure when it begins, changes and ends."""
        if not self._troubles.is_new("collector", result.reason):
            return
        if result.reason:
            failed = result.failed(spans)
            if result.outcome is Export.REFUSED:
                message, fields = "collector refused spans: they are lost", {"refused": failed}
            elif failed:
                message, fields = "collector rejected spans", {"rejected": failed}
            elif result.is_final:  # OTLP lets a collector send a warning with full success
                message, fields = "collector accepted spans with a warning", {}
            else:
                message, fields = "spans cannot be delivered yet", {}
            self._log.warning(message, extra=facts(error=result.reason, **fields))
        else:
            self._log.info("collector accepts spans again", extra=facts(queued=self._queue.length))
