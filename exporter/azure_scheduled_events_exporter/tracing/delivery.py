"""Delivery of spans: from the journal to an OpenTelemetry collector, until it has accepted them.

Decides when to send, how much, and when to retry; runs in its own thread, so that no collector can delay a poll. Must
not import OpenTelemetry: ``tracing.otlp`` does, and is imported only if tracing is on.
"""

import logging
import math
import os
import random
import re
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from http import HTTPStatus
from typing import Protocol
from urllib.parse import unquote

from azure_scheduled_events_exporter.core.instance import Instance
from azure_scheduled_events_exporter.core.spans import SpanFacts
from azure_scheduled_events_exporter.errors import UsageError
from azure_scheduled_events_exporter.http_client.address import checked
from azure_scheduled_events_exporter.journal.journal import OWNER_WAIT_SECONDS, Journal
from azure_scheduled_events_exporter.journal.store import QueuedSpan
from azure_scheduled_events_exporter.logs import facts

BATCH = 128
"""Spans in one request: some 100 KiB, which every collector accepts."""

_LOOK_AGAIN_SECONDS = 60.0
_OWNER_LOOK_SECONDS = 1.0  # how often to look whether the journal is known to be this VM's
_FIRST_RETRY_SECONDS = 1.0
_LAST_RETRY_SECONDS = 60.0
LONGEST_RETRY_AFTER = 300.0
_PROTOCOL = "http/protobuf"
_LATIN_1 = 0xFF
_LONGEST_TIMEOUT = 3600.0
_EXPORTERS = ("otlp", "otlp_proto_http", "none")
_COMPRESSIONS = ("none", "gzip", "deflate")
_SAMPLERS = (
    *("always_on", "always_off", "parentbased_always_on", "parentbased_always_off"),
    *("traceidratio", "parentbased_traceidratio"),
)
_HEADER = re.compile(r"[!#-'*+\-.0-9A-Z^-z|~]+[ \t]*=[ \t]*[ !#-+\--:<-\[\]-~]*")
"""One entry of a header list, as OpenTelemetry's SDK takes it; it leaves out all others."""
RETRYABLE = {
    HTTPStatus.TOO_MANY_REQUESTS,
    HTTPStatus.BAD_GATEWAY,
    HTTPStatus.SERVICE_UNAVAILABLE,
    HTTPStatus.GATEWAY_TIMEOUT,
}
"""By the OTLP specification; after any other answer than 200, a retry would fail as well."""


@dataclass(frozen=True, slots=True)
class ExportResult:
    """The result of sending a batch.

    Attributes:
        settled: whether the answer is final; if not, the batch is sent again.
        rejected: how many of its spans the collector rejected in an answer that accepts the others.
        refused: whether the collector refused the whole batch; the answer may depend on settings that can be corrected.
        unsampled: how many were not sent, because the configured sampler drops them.
        reason: for people; ``""`` when all is well.
        retry_after: seconds that the collector asks to wait.
        too_large: whether the collector may accept the same spans in smaller batches.
        unsendable: whether nothing was sent, because a span in the batch cannot be encoded.
    """

    settled: bool
    rejected: int = 0
    refused: bool = False
    unsampled: int = 0
    reason: str = ""
    retry_after: float = 0.0
    too_large: bool = False
    unsendable: bool = False


class Sender(Protocol):
    """Sends one batch and interprets the answer; never raises."""

    def send(self, spans: Sequence[SpanFacts], identity: Instance | None, timeout: float | None) -> ExportResult:
        """Send ``spans`` of the VM ``identity``; give up after ``timeout`` seconds (None: as configured)."""


class SpanDelivery:
    """Delivers the journal's spans in a thread of its own. Only an answer of the collector removes a span.

    Args:
        journal: holds the spans until they are delivered.
        sender: sends batches to the collector.
        log: where failures of the collector are logged.
    """

    def __init__(self, journal: Journal, sender: Sender, log: logging.Logger) -> None:
        self._journal = journal
        self._sender = sender
        self._log = log
        self._woken = threading.Event()
        self._stopping = threading.Event()
        self._ended = threading.Event()
        self._open_spans: Sequence[SpanFacts] = ()
        self._deadline = 0.0
        self._trouble = ""
        self._batch_size = BATCH
        self._unsendable: set[int] = set()  # numbers of queued spans; they stay in the journal
        self._requeued = False
        self._began = time.monotonic()
        self._before = journal.newest_span()  # of the runs before this one
        self.identity: Instance | None = None
        self.exported = 0
        self.failed = 0

    def wake(self) -> None:
        """Report new spans: they are sent immediately, even if a retry is waiting."""
        self._woken.set()

    def run(self) -> None:
        """Deliver until :meth:`stop`; begin with spans that a collector refused before this start."""
        pause = _FIRST_RETRY_SECONDS
        while not self._stopping.is_set():
            self._woken.clear()
            if self._stopping.is_set():  # stop() was called before clear(), so the event would be lost
                break
            if not self._requeued and not self._awaits_owner():
                self._journal.requeue_spans()
                self._requeued = True
            batch = self._next_batch()
            if not batch:
                # A journal that could not be read reports nothing by itself.
                self._woken.wait(_LOOK_AGAIN_SECONDS if self._requeued else _OWNER_LOOK_SECONDS)
                continue
            result = self._deliver(batch, None)
            if result.settled or self._divided(batch, result):
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
        self._open_spans = open_spans
        self._deadline = time.monotonic() + seconds
        self._stopping.set()
        self._woken.set()
        self._ended.wait(seconds)

    def _next_batch(self) -> list[QueuedSpan]:
        queued = self._journal.queued_spans(self._batch_size + len(self._unsendable))
        if self._awaits_owner():
            queued = [span for span in queued if span.number > self._before]
        return [span for span in queued if span.number not in self._unsendable][: self._batch_size]

    def _awaits_owner(self) -> bool:
        """Return whether the spans of earlier runs may be another VM's, from whose image this VM was created."""
        return self._journal.awaits_vm_id and time.monotonic() - self._began < OWNER_WAIT_SECONDS

    def _send_open_spans(self) -> None:
        """Send the unfinished spans of current events, then one queued batch, before the deadline of :meth:`stop`."""
        batch = self._next_batch()
        left = self._deadline - time.monotonic()
        if self._open_spans and left > 0:
            result = self._sender.send(self._open_spans, self.identity, left)
            self._count(len(self._open_spans), result)
        left = self._deadline - time.monotonic()
        if batch and left > 0:
            self._deliver(batch, left)

    def _deliver(self, batch: Sequence[QueuedSpan], timeout: float | None) -> ExportResult:
        result = self._sender.send([queued.span for queued in batch], self.identity, timeout)
        if result.too_large and len(batch) == 1:
            result = replace(result, settled=True, refused=True)
        if not (result.too_large or result.unsendable) or result.settled or len(batch) == 1:
            self._report(len(batch), result)
        if result.settled:
            self._count(len(batch), result)  # first, so that a span that is not queued any more is counted
            if result.refused:
                self._journal.set_spans_aside(batch, time.time())
            else:
                self._journal.remove_spans(batch)
            if not result.rejected and not result.refused:
                self._batch_size = min(BATCH, self._batch_size * 2)
        return result

    def _divided(self, batch: Sequence[QueuedSpan], result: ExportResult) -> bool:
        """Return whether to retry immediately with a smaller batch, so that one bad span does not block the others."""
        if not (result.too_large or result.unsendable):
            return False
        if len(batch) == 1:
            self._unsendable.add(batch[0].number)
        self._batch_size = max(1, len(batch) // 2)
        return True

    def _count(self, spans: int, result: ExportResult) -> None:
        if result.settled:
            failed = _failed(spans, result)
            self.failed += failed
            self.exported += spans - result.unsampled - failed

    def _report(self, spans: int, result: ExportResult) -> None:
        """Log a failure when it begins, changes and ends."""
        if result.reason and result.reason != self._trouble:
            failed = _failed(spans, result)
            if result.refused:
                message, fields = "collector refused spans; the next start sends them again", {"refused": failed}
            elif failed:
                message, fields = "collector rejected spans", {"rejected": failed}
            elif result.settled:  # OTLP lets a collector send a warning with full success
                message, fields = "collector accepted spans with a warning", {}
            else:
                message, fields = "spans cannot be delivered yet", {}
            self._log.warning(message, extra=facts(error=result.reason, **fields))
        elif self._trouble and not result.reason:
            self._log.info("collector accepts spans again", extra=facts(queued=self._journal.spans_queued()))
        self._trouble = result.reason


def _failed(spans: int, result: ExportResult) -> int:
    """Return how many of a batch of ``spans`` the collector did not accept, whatever number it claims."""
    sent = spans - result.unsampled
    return sent if result.refused else min(sent, max(0, result.rejected))


def turned_off_by(environment: Mapping[str, str]) -> str:
    """Return the OpenTelemetry variable that turns tracing off, with its value; ``""`` if none does."""
    if environment.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return "OTEL_SDK_DISABLED=true"
    if environment.get("OTEL_TRACES_EXPORTER", "").strip().lower() == "none":
        return "OTEL_TRACES_EXPORTER=none"
    return ""


def is_on(endpoint: str | None, environment: Mapping[str, str]) -> bool:
    """Return whether a collector is configured, by the flag or by OpenTelemetry's own variables.

    Raises:
        UsageError: there is one, but with these variables nothing could be sent.
    """
    if turned_off_by(environment):
        return False
    if not endpoint and not _variable("ENDPOINT", environment)[1]:
        return False
    _check_protocol(environment)
    _check_endpoint(endpoint, environment)
    _check_timeout(environment)
    _check_headers(environment)
    return True


def _variable(name: str, environment: Mapping[str, str]) -> tuple[str, str]:
    """Return the effective variable and its value: the one for traces wins, and an empty one counts as unset.

    https://opentelemetry.io/docs/specs/otel/protocol/exporter/
    """
    names = (f"OTEL_EXPORTER_OTLP_TRACES_{name}", f"OTEL_EXPORTER_OTLP_{name}")
    return next(((each, text) for each in names if (text := environment.get(each, "").strip())), (names[1], ""))


def _check_protocol(environment: Mapping[str, str]) -> None:
    """Refuse other protocols than the one that the exporter uses."""
    name, protocol = _variable("PROTOCOL", environment)
    if protocol and protocol.lower() != _PROTOCOL:
        raise UsageError(
            f"environment variable {name}: {protocol!r} is not supported: unset it or set it to {_PROTOCOL}, "
            "and use the collector's port for that in the endpoint, usually 4318"
        )


def _check_endpoint(endpoint: str | None, environment: Mapping[str, str]) -> None:
    name, address = ("--otlp.endpoint", endpoint) if endpoint else _variable("ENDPOINT", environment)
    where = name if endpoint else f"environment variable {name}"
    try:
        checked(address, "an address of a collector", "http://HOST:4318 or https://HOST:PORT")
    except ValueError as error:
        raise UsageError(f"{where}: {error}") from None


def _check_timeout(environment: Mapping[str, str]) -> None:
    name, timeout = _variable("TIMEOUT", environment)
    try:
        seconds = float(timeout or 1)
    except ValueError:
        seconds = math.nan
    if not 0 < seconds < math.inf:
        raise UsageError(f"environment variable {name}: {timeout!r} is not a number of seconds above 0, such as 10")
    if seconds > _LONGEST_TIMEOUT:  # OpenTelemetry's specification has milliseconds
        raise UsageError(
            f"environment variable {name}: {timeout!r} is too long: OpenTelemetry's Python SDK reads seconds, write 10"
        )


def _check_headers(environment: Mapping[str, str]) -> None:
    """Refuse headers that HTTP cannot carry. Their values are secrets, so a message names the variable only."""
    name, headers = _variable("HEADERS", environment)
    text = unquote(headers)
    if any(ord(character) > _LATIN_1 or ord(character) < ord(" ") for character in text):
        raise UsageError(
            f"environment variable {name}: holds a character that no HTTP header can carry: "
            "use printable characters of Latin-1"
        )
    for number, entry in enumerate(filter(None, map(str.strip, headers.split(","))), 1):
        if not _HEADER.fullmatch(entry):
            raise UsageError(
                f"environment variable {name}: entry {number} is not NAME=VALUE, so it would not be sent: "
                "separate entries with commas, and write other special characters of a value as %XX"
            )


def doubts(environment: Mapping[str, str]) -> list[str]:
    """Return warnings about variables that have no effect here or in OpenTelemetry's SDK, and about missing files."""
    exporter = environment.get("OTEL_TRACES_EXPORTER", "")
    variables = (
        ("OTEL_TRACES_EXPORTER", exporter, _EXPORTERS, "spans go to the OTLP endpoint all the same"),
        ("OTEL_TRACES_SAMPLER", environment.get("OTEL_TRACES_SAMPLER", ""), _SAMPLERS, "every trace is sampled"),
        (*_variable("COMPRESSION", environment), _COMPRESSIONS, "requests are not compressed"),
    )
    found = [
        f"environment variable {name}: {value!r} is none of {', '.join(known)}, so {result}"
        for name, value, known, result in variables
        if value.strip() and value.strip().lower() not in known
    ]
    found += [
        f"environment variable {name} has no effect: spans wait in the journal, and in no batch processor"
        for name, value in sorted(environment.items())
        if name.startswith("OTEL_BSP_") and value.strip()
    ]
    files = (_variable(name, environment) for name in ("CERTIFICATE", "CLIENT_CERTIFICATE", "CLIENT_KEY"))
    missing = ((name, file) for name, file in files if file and not os.path.exists(file))  # noqa: PTH110 - any text
    return [*found, *(f"environment variable {name}: there is no file {file}" for name, file in missing)]
