"""Delivery of spans: from the journal to an OpenTelemetry collector, until it has accepted them.

One thread of its own, so that no collector can hold a poll. OpenTelemetry's SDK makes the spans and its exporter
speaks OTLP/HTTP, so all standard ``OTEL_*`` variables hold; what an answer means is decided here, because the exporter
takes redirects and partial successes for success, and gives up after seconds where a journal can wait for days.

Everything of OpenTelemetry is imported when the first span is due, and not at all without tracing.
"""

import logging
import random
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Protocol

from azure_scheduled_events_exporter.core.instance import Instance
from azure_scheduled_events_exporter.core.spans import SpanFacts
from azure_scheduled_events_exporter.errors import UsageError
from azure_scheduled_events_exporter.journal.journal import Journal
from azure_scheduled_events_exporter.logs import facts

BATCH = 128
"""Spans in one request: some 100 KiB, which every collector takes."""

ALL = 1 << 30
"""More spans than any batch has."""

_LOOK_AGAIN_SECONDS = 60.0
_FIRST_RETRY_SECONDS = 1.0
_LAST_RETRY_SECONDS = 60.0
LONGEST_RETRY_AFTER = 300.0
_PROTOCOL = "http/protobuf"
RETRYABLE = {
    HTTPStatus.TOO_MANY_REQUESTS,
    HTTPStatus.BAD_GATEWAY,
    HTTPStatus.SERVICE_UNAVAILABLE,
    HTTPStatus.GATEWAY_TIMEOUT,
}
"""By the OTLP specification; every other answer that is no 200 says that a retry will fail as well."""


@dataclass(frozen=True, slots=True)
class ExportResult:
    """What became of a batch.

    Attributes:
        settled: whether the batch is done with, one way or the other; if not, it is to be sent again.
        rejected: how many of its spans the collector refused.
        unsampled: how many were not sent, because the configured sampler does not want them.
        reason: for people; ``""`` when all is well.
        retry_after: seconds that the collector asked to be left alone.
    """

    settled: bool
    rejected: int = 0
    unsampled: int = 0
    reason: str = ""
    retry_after: float = 0.0


class Sender(Protocol):
    """Sends one batch and judges the answer; never raises."""

    def send(self, spans: Sequence[SpanFacts], identity: Instance | None, timeout: float | None) -> ExportResult:
        """Send ``spans`` of the VM ``identity``; give up after ``timeout`` seconds (None: as configured)."""


class SpanDelivery:
    """Delivers the journal's spans in a thread of its own.

    Args:
        journal: holds the spans until they are delivered.
        sender: speaks to the collector.
        log: where trouble with the collector is told.
    """

    def __init__(self, journal: Journal, sender: Sender, log: logging.Logger) -> None:
        self._journal = journal
        self._sender = sender
        self._log = log
        self._news = threading.Event()
        self._end_asked = threading.Event()
        self._ended = threading.Event()
        self._last_words: Sequence[SpanFacts] = ()
        self._deadline = 0.0
        self._trouble = ""
        self.identity: Instance | None = None
        self.exported = 0
        self.failed = 0

    def wake(self) -> None:
        """Say that there are new spans: they are tried at once, even while a retry waits."""
        self._news.set()

    def run(self) -> None:
        """Deliver until :meth:`stop`."""
        pause = _FIRST_RETRY_SECONDS
        while not self._end_asked.is_set():
            self._news.clear()
            if self._end_asked.is_set():  # between the two lines above, so that its news are cleared
                break
            batch = self._journal.spans(BATCH)
            if not batch:
                self._news.wait(_LOOK_AGAIN_SECONDS)  # a journal that could not be read says nothing of itself
                continue
            verdict = self._deliver(batch, None)
            if verdict.settled:
                pause = _FIRST_RETRY_SECONDS
                continue
            self._end_asked.wait(verdict.retry_after)  # the silence that the collector asked for
            # Half of it is chance, so that a fleet does not knock in step. New spans end it: they cannot wait.
            self._news.wait(pause * random.uniform(0.5, 1.0))  # noqa: S311 - no secret
            pause = min(pause * 2, _LAST_RETRY_SECONDS)
        self._say_last_words()
        self._ended.set()

    def stop(self, last_words: Sequence[SpanFacts], seconds: float) -> None:
        """Tell ``last_words`` and what else fits into ``seconds``, then end. What is not told stays in the journal."""
        self._last_words = last_words
        self._deadline = time.monotonic() + seconds
        self._end_asked.set()
        self._news.set()
        self._ended.wait(seconds)

    def _say_last_words(self) -> None:
        """The open spans as they stand; they are not in the journal, since the next start will tell them whole."""
        queued = self._journal.spans(BATCH)
        left = self._deadline - time.monotonic()
        if self._last_words and left > 0:
            verdict = self._sender.send(self._last_words, self.identity, left)
            self._count(len(self._last_words), verdict)
        left = self._deadline - time.monotonic()
        if queued and left > 0:
            self._deliver(queued, left)

    def _deliver(self, batch: Sequence[SpanFacts], timeout: float | None) -> ExportResult:
        verdict = self._sender.send(batch, self.identity, timeout)
        self._tell(verdict)
        if verdict.settled:
            self._journal.strike_off(batch)
            self._count(len(batch), verdict)
        return verdict

    def _count(self, spans: int, verdict: ExportResult) -> None:
        if verdict.settled:
            sent = spans - verdict.unsampled
            rejected = min(sent, max(0, verdict.rejected))
            self.failed += rejected
            self.exported += sent - rejected

    def _tell(self, verdict: ExportResult) -> None:
        """Log trouble when it begins, changes and ends."""
        if verdict.reason and verdict.reason != self._trouble:
            what = "the collector refused spans" if verdict.settled else "the collector cannot take spans yet"
            self._log.warning(what, extra=facts(error=verdict.reason, rejected=verdict.rejected or None))
        elif self._trouble and not verdict.reason:
            self._log.info("the collector takes spans again", extra=facts(queued=self._journal.spans_queued()))
        self._trouble = verdict.reason


def is_on(endpoint: str | None, environment: Mapping[str, str]) -> bool:
    """Return whether there is a collector to send to, by the flag or OpenTelemetry's own variables.

    Raises:
        UsageError: there is one, and the variables name a protocol that is not spoken here.
    """
    if environment.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return False
    if environment.get("OTEL_TRACES_EXPORTER", "").strip() == "none":
        return False
    variables = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
    if not endpoint and not any(environment.get(name, "").strip() for name in variables):
        return False
    _check_protocol(environment)
    return True


def _check_protocol(environment: Mapping[str, str]) -> None:
    """Refuse what the exporter would not heed: it speaks one protocol, whatever the variables say.

    The variable for traces wins over the one for everything, and an empty one counts as unset.
    https://opentelemetry.io/docs/specs/otel/protocol/exporter/
    """
    for name in ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"):
        protocol = environment.get(name, "").strip()
        if protocol and protocol.lower() != _PROTOCOL:
            raise UsageError(
                f"environment variable {name}: {protocol!r} is not spoken here: unset it or write {_PROTOCOL}, "
                "and let the endpoint name the collector's port for that, usually 4318"
            )
        if protocol:
            return
