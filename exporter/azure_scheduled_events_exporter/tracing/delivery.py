"""Delivery of spans: from the journal to an OpenTelemetry collector, until it has accepted them.

Decides when to send, how much, and when to retry; runs in its own thread, so that no collector can
delay a poll. Must not import OpenTelemetry: ``tracing.otlp`` does, and is imported by
:func:`otlp_sender` only if tracing is on.
"""

import logging
import os
import random
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from azure_scheduled_events_exporter.core.instance import Instance
from azure_scheduled_events_exporter.core.spans import SpanFacts
from azure_scheduled_events_exporter.errors import UsageError
from azure_scheduled_events_exporter.journal.journal import OWNER_WAIT_SECONDS, Journal
from azure_scheduled_events_exporter.log_limits import Changes
from azure_scheduled_events_exporter.logs import facts

from .export import Export, ExportResult, Sender
from .variables import length_obstacle

if TYPE_CHECKING:
    from .otlp import OtlpSender

BATCH = 128
"""Spans in one request: some 100 KiB, which every collector accepts."""

_LOOK_AGAIN_SECONDS = 60.0  # how often to look for spans without being woken
_OWNER_LOOK_SECONDS = 1.0  # how often to look whether the journal is known to be this VM's
_FIRST_RETRY_SECONDS = 1.0
_LAST_RETRY_SECONDS = 60.0


def otlp_sender(endpoint: str | None) -> "OtlpSender":
    """Return the sender for ``endpoint`` or the ``OTEL_*`` variables.

    Loads OpenTelemetry, which takes half a second.

    Raises:
        UsageError: OpenTelemetry refuses its variables.
    """
    obstacle = length_obstacle(os.environ)
    if obstacle:
        raise UsageError(obstacle)
    # It would log a traceback about its variable while it is imported; tracing.variables warns.
    logging.getLogger("opentelemetry.context").setLevel(logging.CRITICAL)
    try:
        # only with tracing; it reads some variables while it is imported
        from .otlp import OtlpSender  # noqa: PLC0415

        return OtlpSender(endpoint)
    except ImportError:  # a broken installation, whatever the variables are
        raise
    except Exception as error:  # noqa: BLE001 - the SDK checks its variables in many ways
        raise UsageError(
            f"OpenTelemetry cannot use its settings (OTEL_* variables): {error}"
        ) from None


@dataclass(frozen=True, slots=True)
class _Last:
    """What is sent at the end: unfinished spans, and by when (monotonic time)."""

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
        """Report new spans: they are sent immediately, even if a retry is waiting."""
        self._woken.set()

    def run(self) -> None:
        """Deliver until :meth:`stop`."""
        pause = _FIRST_RETRY_SECONDS
        while not self._stopping.is_set():
            self._woken.clear()
            if self._stopping.is_set():
                break  # stop() was called before clear(), so the event would be lost
            batch = self._next_batch()
            if not batch:
                self._woken.wait(_OWNER_LOOK_SECONDS if self._awaits_owner else _LOOK_AGAIN_SECONDS)
                continue
            result = self._deliver(batch, None)
            if result.outcome is not Export.LATER:
                pause = _FIRST_RETRY_SECONDS
                continue
            self._stopping.wait(result.retry_after)  # as the collector asks: new spans wait, too
            # Half of it is random, so that the VMs of a fleet do not retry together. New spans end
            # it: they are urgent.
            self._woken.wait(pause * random.uniform(0.5, 1.0))  # noqa: S311 - no secret
            pause = min(pause * 2, _LAST_RETRY_SECONDS)
        self._send_open_spans()
        self._ended.set()

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
        batch = self._next_batch()
        spans = self._last.spans
        left = self._last.deadline - time.monotonic()
        if spans and left > 0:
            self._count(len(spans), self._sender.send(spans, self._identity(), left))
        left = self._last.deadline - time.monotonic()
        if batch and left > 0:
            self._deliver(batch, left)

    @property
    def _awaits_owner(self) -> bool:
        """Whether to wait until it is known if the journal is this VM's."""
        return self._journal.awaits_vm_id and time.monotonic() - self._began < OWNER_WAIT_SECONDS

    def _next_batch(self) -> Mapping[str, SpanFacts]:
        return {} if self._awaits_owner else self._journal.queued_spans(self._size)

    def _deliver(self, batch: Mapping[str, SpanFacts], timeout: float | None) -> ExportResult:
        """Send ``batch``, and remove what the collector has accepted or refused.

        A batch that is refused is sent again in halves until the refused span is alone, so that it
        does not block others.
        """
        result = self._sender.send(list(batch.values()), self._identity(), timeout)
        if result.outcome is Export.DIVISIBLE and len(batch) > 1:
            self._size = len(batch) // 2
            return result
        if result.outcome is Export.DIVISIBLE:
            result = replace(result, outcome=Export.REFUSED)
        self._report(len(batch), result)
        # First, so that a span that is not queued any more is counted.
        self._count(len(batch), result)
        if result.is_final:
            self._journal.end_spans(batch)
        if result.outcome is Export.ACCEPTED and not result.rejected:
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
        if not self._troubles.is_new("collector", result.reason):
            return
        failed = result.failed(spans)
        why = {"error": result.reason}
        if not result.reason:
            self._log.info(
                "collector accepts spans again", extra=facts(queued=self._journal.spans_queued())
            )
        elif result.outcome is Export.REFUSED:
            self._log.warning(
                "collector refused spans: they are lost", extra=facts(**why, refused=failed)
            )
        elif failed:
            self._log.warning("collector rejected spans", extra=facts(**why, rejected=failed))
        elif result.is_final:  # OTLP lets a collector send a warning with full success
            self._log.warning("collector accepted spans with a warning", extra=facts(**why))
        else:
            self._log.warning("spans cannot be delivered yet", extra=facts(**why))
