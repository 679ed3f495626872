"""The answers of a collector: an adapter that sends a request and interprets what comes back.

Must not know spans (``tracing.otlp``), or decide about retries and removal (``tracing.delivery``).
Imports protobuf, so it is imported only if tracing is on.
"""

import json
import time
from contextlib import suppress
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from io import BytesIO
from typing import Any
from urllib.parse import urlsplit

import requests
from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

from azure_scheduled_events_exporter.errors import one_line
from azure_scheduled_events_exporter.http_client.deadline import DeadlineAdapter
from azure_scheduled_events_exporter.http_client.failures import (
    NO_ANSWER_IN_TIME,
    REQUEST_FAILURES,
    causes_of,
    failure_reason,
)
from azure_scheduled_events_exporter.http_client.web_page import WEB_PAGE, is_web_page

from .export import LONGEST_RETRY_AFTER, NO_FILE, REFUSALS, WANTS_TLS, ExportOutcome, ExportResult

_LARGEST_ANSWER = 64 * 1024  # bytes of an answer that are read
_HTTP_2 = "\x00\x00"
"""How an answer in HTTP/2 begins: two of the three bytes with the length of its first frame.

Python's error about a line that is not HTTP/1.1 quotes that line, so its text begins with them.
"""

_WANT_TLS = (b"HTTP request to an HTTPS server", b"HTTP request was sent to HTTPS port")
"""What Go's servers, such as OpenTelemetry's collector, and nginx answer to HTTP without TLS.

Their status is 400, which would otherwise refuse the spans for good.
"""
_MISSING = "invalid path: "
"""What requests writes before the path of a certificate or key that does not exist."""


class CollectorAdapter(DeadlineAdapter):
    """Transport adapter of the session of OpenTelemetry's exporter: interprets each answer itself.

    In this class, "the exporter" is that of OpenTelemetry. It treats redirects and partial
    successes as success, and retries for seconds, whereas the journal can retry for days. So what
    the exporter gets is not the collector's answer: it is 200 if the collector has accepted all
    spans, and 400 in all other cases, also without any answer. The exporter neither retries nor
    follows a 400.

    Args:
        longest: the most seconds that an exchange may take.

    Attributes:
        result: how the answer was interpreted; None if nothing was sent since :meth:`prepare`.
    """

    def __init__(self, longest: float) -> None:
        super().__init__()
        self._longest = longest
        self._timeout: float | None = None
        self.result: ExportResult | None = None

    def prepare(self, timeout: float | None) -> None:
        """Prepare for the next exchange, which may take ``timeout`` seconds.

        If ``timeout`` is None, it may take as long as the exporter says when it calls :meth:`send`.
        """
        self._timeout = timeout
        self.result = None

    def send(
        self, request: requests.PreparedRequest, *args: Any, **kwargs: Any
    ) -> requests.Response:
        """Send ``request``, set :attr:`result`, and return an answer for the exporter.

        Errors of the network and the collector do not raise.
        """
        wanted = self._timeout or kwargs.get("timeout") or self._longest
        seconds = min(wanted, self._longest)
        # Half of the time to connect to one address, so that a name's second address has its turn.
        kwargs |= {"stream": True, "timeout": (seconds / 2, seconds)}
        self.begin(seconds)
        try:
            with super().send(request, *args, **kwargs) as response:
                self.result = _judge(response)
        except REQUEST_FAILURES as error:
            self.result = ExportResult(ExportOutcome.LATER, reason=_no_answer(error))
        return _reply(request, self.result)


def _reply(request: requests.PreparedRequest, result: ExportResult) -> requests.Response:
    """Return what OpenTelemetry's exporter gets as the answer to ``request``."""
    reply = requests.Response()
    reply.status_code = HTTPStatus.BAD_REQUEST
    if result.outcome is ExportOutcome.ACCEPTED and not result.rejected:
        reply.status_code = HTTPStatus.OK
    reply.request = request
    reply.url = request.url or ""
    reply.raw = BytesIO()  # no body
    return reply


def _no_answer(error: Exception) -> str:
    """Return why there is no answer, for people."""
    texts = [str(cause) for cause in causes_of(error)]
    if any(text.startswith(_HTTP_2) for text in texts):
        return (
            "the server speaks HTTP/2 only, as gRPC does: use the collector's port for OTLP over"
            " HTTP, usually 4318"
        )
    for text in texts:
        if _MISSING in text:
            return f"{NO_FILE} {one_line(text.partition(_MISSING)[2])}"
    why = failure_reason(error)
    if why == NO_ANSWER_IN_TIME:
        return why
    return f"no answer: {why}"


def _judge(response: requests.Response) -> ExportResult:
    """Return what an answer of the collector, or of what stands in its place, means."""
    status = response.status_code
    address = _without_secrets(response)
    reason = f"{address} answered {status}"
    if status in range(200, 300):  # OTLP wants 200; Fluent Bit answers 201
        body = response.raw.read(_LARGEST_ANSWER, decode_content=True)
        if is_web_page(response.headers, body):
            # No collector has seen the spans, so they are kept until one does.
            return ExportResult(
                ExportOutcome.LATER, reason=f"{reason} with {WEB_PAGE}, so it is no collector"
            )
        return _accepted(address, body)
    if status == HTTPStatus.BAD_REQUEST and _wants_tls(response):
        return ExportResult(ExportOutcome.LATER, reason=f"{reason}: {WANTS_TLS}")
    if status in REFUSALS:
        # Perhaps because of one span: ``tracing.delivery`` sends the batch again in halves.
        return ExportResult(ExportOutcome.DIVISIBLE, reason=reason)
    return ExportResult(
        ExportOutcome.LATER,
        reason=reason,
        retry_after=_retry_after(response.headers.get("Retry-After", "")),
    )


def _accepted(address: str, body: bytes) -> ExportResult:
    """Return what the answer ``body`` of the collector at ``address`` means, sent with a 2xx."""
    rejected, why = _rejection(body)
    if rejected and not why:
        why = "rejected without a reason"
    reason = ""
    if why:
        reason = f"{address}: {why}"
    return ExportResult(ExportOutcome.ACCEPTED, rejected, reason=reason)


def _wants_tls(response: requests.Response) -> bool:
    """Return whether an answer says that its request should have come over TLS."""
    body = response.raw.read(_LARGEST_ANSWER, decode_content=True)
    return any(words in body for words in _WANT_TLS)


def _rejection(body: bytes) -> tuple[int, str]:
    """Return how many spans an answer rejects, and why.

    Some collectors answer in JSON. Any other text rejects nothing.
    """
    try:
        partial = ExportTraceServiceResponse.FromString(body).partial_success
    except DecodeError:
        return _rejection_in_json(body)
    return partial.rejected_spans, partial.error_message


def _rejection_in_json(body: bytes) -> tuple[int, str]:
    """Return how many spans an answer in JSON rejects, and why; none if it is something else."""
    with suppress(ValueError, RecursionError, TypeError, AttributeError, KeyError, OverflowError):
        partial = json.loads(body)["partialSuccess"]
        count = int(partial.get("rejectedSpans") or 0)
        return count, one_line(str(partial.get("errorMessage") or ""))
    return 0, ""


def _without_secrets(response: requests.Response) -> str:
    """Return the collector's address for the log, without a password."""
    parts = urlsplit(response.url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


def _retry_after(text: str) -> float:
    """Return the seconds of Retry-After, a number or a date (RFC 9110, 10.2.3); 0 for neither."""
    try:
        if text.strip().isdigit():
            seconds = float(text)
        else:
            seconds = parsedate_to_datetime(text).timestamp() - time.time()
    except (ValueError, TypeError, OverflowError):
        return 0.0
    return min(max(0.0, seconds), LONGEST_RETRY_AFTER)
