"""Delivery of spans: from the journal to an OpenTelemetry collector, until it has accepted them.

Decides when to send, how much, and when to retry; runs in its own thread, so that no collector can
delay a poll. Must not import OpenTelemetry (``tracing.otlp`` does).
"""

import logging
import random
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from azure_scheduled_events_exporter.core.instance import Instance
from azure_scheduled_events_exporter.core.spans import SpanFacts
from azure_scheduled_events_exporter.journal.journal import OWNER_WAIT_SECONDS, Journal
from azure_scheduled_events_exporter.log_limits import Changes
from azure_scheduled_events_exporter.logs import facts

from .export import ExportOutcome, ExportResult, Sender

BATCH = 128
"""Spans in one request: some 100 KiB, which every collector accepts."""

_LOOK_AGAIN_SECONDS = 60.0  # how often to look for spans without being woken
_OWNER_LOOK_SECONDS = 1.0  # how often to look whether the journal is known to be this VM's
_FIRST_RETRY_SECONDS = 1.0  # the pause before the first retry; each next one is twice as long
_LAST_RETRY_SECONDS = 60.0  # but at most so long


@dataclass(frozen=True, slots=True)
class _Last:
    """What is sent at the end: unfinished spans, until ``deadline`` (monotonic clock)."""

    spans: Sequence[SpanFacts]
    deadline: float


class SpanDelivery:
    """Delivers the journal's spans in a thread of its own.

    Only an answer of the collector removes a span.

    If this VM was created from the image of another VM, the journal's spans are that VM's. So
    nothing is sent until this VM's id is known, for at most :data:`OWNER_WAIT_SECONDS`.

    Args:
        journal: holds the spans until they are delivered.
        sender: sends batches to the collector.
        identity: returns this VM; None while it is unknown.
        log: where failures of the collector are logged.

    Attributes:
        exported: how many spans the collector has accepted.
        failed: how many it has refused.
    """

    def __init__(
        self,
        journal: Journal,
        sender: Sender,
        identity: Callable[[], Instance | None],
        log: logging.Logger,
    ) -> None:
        self._journal = journal
        self._sender = sender
        self._identity = identity
        self._log = log
        self._woken = threading.Event()
        self._stopping = threading.Event()
        self._ended = threading.Event()
        self._last = _Last((), 0.0)
        self._troubles = Changes()
        self._size = BATCH  # of the next batch, at most
        self._began = time.monotonic()
        self.exported = 0
        self.failed = 0

    def wake(self) -> None:
        """Report new spans, which are sent immediately, even if a retry is waiting.

        If the collector has asked for a pause, they are sent at its end.
        """
        self._woken.set()

    def run(self) -> None:
        """Deliver until :meth:`stop`."""
        pause = _FIRST_RETRY_SECONDS
        while not self._stopping.is_set():
            self._woken.clear()
            if self._stopping.is_set():
                break  # stop() was called before clear(), which has undone its wake-up
            batch = self._next_batch()
            if not batch:
                self._wait_for_spans()
                continue
            result = self._deliver(batch, timeout=None)
            if result.outcome is not ExportOutcome.LATER:
                pause = _FIRST_RETRY_SECONDS
                continue
            # As long as the collector asks for, new spans wait too.
            self._stopping.wait(result.retry_after)
            # Half of the pause is random, so that the VMs of a fleet do not retry together. New
            # spans end it: they are urgent.
            self._woken.wait(pause * random.uniform(0.5, 1.0))  # noqa: S311 - no secret
            pause = min(pause * 2, _LAST_RETRY_SECONDS)
        self._send_open_spans()
        self._ended.set()

    def _wait_for_spans(self) -> None:
        """Wait for new spans, or until it is time to look again."""
        seconds = _LOOK_AGAIN_SECONDS
        if self._awaits_owner:
            seconds = _OWNER_LOOK_SECONDS
        self._woken.wait(seconds)

    def stop(self, open_spans: Sequence[SpanFacts], seconds: float) -> None:
        """Send ``open_spans`` and queued spans for at most ``seconds``, then end.

        Unsent spans stay in the journal.
        """
        self._last = _Last(open_spans, time.monotonic() + seconds)
        self._stopping.set()
        self._woken.set()
        self._ended.wait(seconds)

    def _send_open_spans(self) -> None:
        """Send the unfinished spans of current events, then one queued batch.

        Both before the deadline of :meth:`stop`. The unfinished ones are not queued in the journal:
        the finished ones follow after the restart, with the same ids.
        """
        spans = self._last.spans
        left = self._last.deadline - time.monotonic()
        if spans and left > 0:
            self._count(len(spans), self._sender.send(spans, self._identity(), left))
        batch = self._next_batch()
        left = self._last.deadline - time.monotonic()
        if batch and left > 0:
            self._deliver(batch, left)

    @property
    def _awaits_owner(self) -> bool:
        """Whether to wait until it is known if the journal is this VM's."""
        return self._journal.awaits_vm_id and time.monotonic() - self._began < OWNER_WAIT_SECONDS

    def _next_batch(self) -> Mapping[str, SpanFacts]:
        """Return the spans to be sent now by their texts, the newest first."""
        if self._awaits_owner:
            return {}
        return self._journal.queued_spans(self._size)

    def _deliver(self, batch: Mapping[str, SpanFacts], timeout: float | None) -> ExportResult:
        """Send ``batch`` within ``timeout`` seconds; None: within the time that is configured.

        Remove it if the result is final. If it is DIVISIBLE, the next batch is half as large, and
        so on until the span at fault is alone, which makes it REFUSED: so it does not block others.
        """
        result = self._sender.send(list(batch.values()), self._identity(), timeout)
        if result.outcome is ExportOutcome.DIVISIBLE:
            if len(batch) > 1:
                self._size = len(batch) // 2
                return result
            result = replace(result, outcome=ExportOutcome.REFUSED)
        self._report(len(batch), result)
        # Before the spans are removed: a span that is not queued any more has been counted.
        self._count(len(batch), result)
        if result.is_final:
            self._journal.end_spans(batch)
        if result.outcome is ExportOutcome.ACCEPTED and not result.rejected:
            self._size = min(BATCH, self._size * 2)
        return result

    def _count(self, spans: int, result: ExportResult) -> None:
        """Count a batch of ``spans``, once: when its result is final."""
        if result.is_final:
            failed = result.failed(spans)
            self.failed += failed
            self.exported += spans - result.unsampled - failed

    def _report(self, spans: int, result: ExportResult) -> None:
        """Log a failure when it begins, changes and ends."""
        reason = result.reason
        if not self._troubles.is_new("collector", reason):
            return
        failed = result.failed(spans)
        if not reason:
            self._log.info(
                "collector accepts spans again", extra=facts(queued=self._journal.spans_queued())
            )
        elif result.outcome is ExportOutcome.REFUSED:
            self._log.warning(
                "collector refused spans: they are lost", extra=facts(error=reason, refused=failed)
            )
        elif failed:
            self._log.warning(
                "collector rejected spans", extra=facts(error=reason, rejected=failed)
            )
        elif result.is_final:  # OTLP lets a collector send a warning with full success
            self._log.warning("collector accepted spans with a warning", extra=facts(error=reason))
        else:
            self._log.warning("spans cannot be delivered yet", extra=facts(error=reason))
