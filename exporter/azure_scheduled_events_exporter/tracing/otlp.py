"""The HTTP client of a collector: OpenTelemetry's SDK and its OTLP/HTTP exporter.

Interprets the collector's answers. Must not decide about retries and removal
(``tracing.delivery``). Imported only when tracing is on: OpenTelemetry and protobuf take 5 to 6 MiB
of memory (docs/performance.md).
"""

import json
import logging
import os
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from io import BytesIO
from typing import Any
from urllib.parse import urlsplit

import requests
from google.protobuf.message import DecodeError
from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.id_generator import IdGenerator
from opentelemetry.sdk.trace.sampling import Decision

from azure_scheduled_events_exporter import __version__
from azure_scheduled_events_exporter.core.instance import Instance
from azure_scheduled_events_exporter.core.spans import SpanFacts
from azure_scheduled_events_exporter.errors import one_line
from azure_scheduled_events_exporter.http_client.deadline import DeadlineAdapter
from azure_scheduled_events_exporter.http_client.failures import (
    NO_ANSWER_IN_TIME,
    REQUEST_FAILURES,
    causes_of,
    failure_reason,
)
from azure_scheduled_events_exporter.http_client.sessions import Session
from azure_scheduled_events_exporter.http_client.web_page import WEB_PAGE, is_web_page

from .export import LONGEST_RETRY_AFTER, NO_FILE, REFUSALS, WANTS_TLS, Export, ExportResult
from .variables import timeout_obstacle

_SERVICE = "azure-scheduled-events-exporter"
_LARGEST_ANSWER = 64 * 1024  # bytes of an answer that are read
_USUAL_TIMEOUT = 10.0  # seconds, as in OpenTelemetry's specification
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

LONGEST_EXPORT_SECONDS = 60.0
"""Time limit of one export, whatever is configured: no other span is sent in that time."""

_TRIED = SpanFacts("1" * 32, "1" * 16, "", "tried at the start, and not sent", 0.0, 0.0)
"""A span with valid ids, to see whether OpenTelemetry makes spans."""


class OtlpSender:
    """Sends spans to ``endpoint``, a base address, with or without ``/v1/traces`` at its end.

    If it is None, the address is that in the ``OTEL_*`` variables. No export takes more than
    ``longest`` seconds.
    """

    def __init__(self, endpoint: str | None, longest: float = LONGEST_EXPORT_SECONDS) -> None:
        # Its messages about every failed request would fill the log at each retry; delivery logs a
        # failure once.
        logging.getLogger("opentelemetry").setLevel(logging.CRITICAL)
        url = (
            None
            if endpoint is None
            else endpoint.rstrip("/").removesuffix("/v1/traces") + "/v1/traces"
        )
        self._adapter = CollectorAdapter(longest)
        # None: the exporter takes it from the variables.
        timeout = _USUAL_TIMEOUT if timeout_obstacle(os.environ) else None
        session = Session(self._adapter)
        self._exporter = OTLPSpanExporter(endpoint=url, timeout=timeout, session=session)
        self._ids = _Ids()
        self._identity: Instance | None = None
        # A provider and a span are made here, so that an invalid OTEL_* variable is reported at the
        # start and not during an event.
        self._provider = self._provider_for(None)
        self._make(_TRIED)

    def send(
        self, spans: Sequence[SpanFacts], identity: Instance | None, timeout: float | None
    ) -> ExportResult:
        """Send ``spans`` of the VM ``identity``; return the result.

        ``timeout``: seconds that it may take; None for the time that is configured.
        """
        if identity != self._identity:
            self._identity = identity
            self._provider = self._provider_for(identity)
        made = [span for span in map(self._make, spans) if span is not None]
        unsampled = len(spans) - len(made)
        if not made:
            return ExportResult(Export.ACCEPTED, unsampled=unsampled)
        return replace(self._export(made, timeout), unsampled=unsampled)

    def probe(self, timeout: float) -> ExportResult:
        """Send a request without spans, within ``timeout`` seconds; return the result."""
        return self._export([], timeout)

    def _export(self, spans: Sequence[ReadableSpan], timeout: float | None) -> ExportResult:
        """Let OpenTelemetry's exporter send the spans; return what its adapter has seen."""
        self._adapter.timeout = timeout
        self._adapter.result = None
        self._exporter.export(spans)
        return self._adapter.result or ExportResult(
            Export.DIVISIBLE,
            reason="nothing was sent: OpenTelemetry's exporter cannot encode the spans",
        )

    def _provider_for(self, identity: Instance | None) -> TracerProvider:
        """Return what makes spans of the VM ``identity``, with the ids that this class chooses."""
        return TracerProvider(
            id_generator=self._ids, resource=_resource(identity), shutdown_on_exit=False
        )

    def _make(self, facts: SpanFacts) -> ReadableSpan | None:
        """Return the SDK's span for ``facts``, within its limits.

        None if the configured sampler drops the trace.
        """
        self._ids.trace = int(facts.trace_id, 16)
        self._ids.span = int(facts.span_id, 16)
        # Usual samplers decide by the trace id alone, so that all spans of a trace, on all VMs, are
        # kept or dropped together. The sampler is asked here as for a root, only to know the flag
        # that the parent below must have: start_span asks it again, and a sampler that follows the
        # parent then finds the same decision in the parent's flag.
        sampled = (
            self._provider.sampler.should_sample(None, self._ids.trace, facts.name).decision
            != Decision.DROP
        )
        context = Context()
        if facts.parent_id:
            flags = trace.TraceFlags(
                trace.TraceFlags.SAMPLED if sampled else trace.TraceFlags.DEFAULT
            )
            parent = trace.SpanContext(
                self._ids.trace, int(facts.parent_id, 16), is_remote=True, trace_flags=flags
            )
            context = trace.set_span_in_context(trace.NonRecordingSpan(parent), context)
        tracer = self._provider.get_tracer(_SERVICE, __version__)
        attributes: dict[str, Any] = dict(facts.attributes)
        span = tracer.start_span(
            facts.name, context, attributes=attributes, start_time=_nanoseconds(facts.start)
        )
        for event in facts.events:
            span.add_event(event.name, dict(event.attributes), _nanoseconds(event.at))
        span.end(_nanoseconds(facts.end))
        return span if isinstance(span, ReadableSpan) else None  # a dropped span has no content


class _Ids(IdGenerator):
    """Give spans the ids of their facts instead of random ones."""

    trace = 0
    span = 0

    def generate_trace_id(self) -> int:
        return self.trace

    def generate_span_id(self) -> int:
        return self.span


class CollectorAdapter(DeadlineAdapter):
    """The transport adapter of the exporter's session: sends one request and interprets the answer.

    OpenTelemetry's exporter treats redirects and partial successes as success, and retries for
    seconds, whereas the journal can retry for days. So the adapter returns 200 if the collector has
    accepted the spans. In all other cases, also without any answer, it returns 400, which the
    exporter neither retries nor follows. :attr:`result` has the interpretation.
    """

    def __init__(self, longest: float) -> None:
        super().__init__()
        self._longest = longest
        # Seconds for the whole exchange; None for those that the exporter passes.
        self.timeout: float | None = None
        self.result: ExportResult | None = None

    def send(
        self, request: requests.PreparedRequest, *args: Any, **kwargs: Any
    ) -> requests.Response:
        """Send ``request`` and return an answer for the exporter.

        Errors of the network and the collector do not raise.
        """
        seconds = min(self.timeout or kwargs.get("timeout") or self._longest, self._longest)
        # Half of it to connect to one address, so that a name's second address has its turn.
        timeout = (seconds / 2, seconds)
        self.begin(seconds)
        try:
            with super().send(
                request, *args, **{**kwargs, "stream": True, "timeout": timeout}
            ) as response:
                result = _judge(response)
        except REQUEST_FAILURES as error:
            result = ExportResult(Export.LATER, reason=_no_answer(error))
        self.result = result
        reply = requests.Response()
        accepted = result.outcome is Export.ACCEPTED and not result.rejected
        reply.status_code = HTTPStatus.OK if accepted else HTTPStatus.BAD_REQUEST
        reply.request = request
        reply.url = request.url or ""
        reply.raw = BytesIO()
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
    return why if why == NO_ANSWER_IN_TIME else f"no answer: {why}"


def _judge(response: requests.Response) -> ExportResult:
    """Return what an answer of the collector, or of what stands in its place, means."""
    status = response.status_code
    address = _without_secrets(response)
    reason = f"{address} answered {status}"
    if status == HTTPStatus.OK:
        body = response.raw.read(_LARGEST_ANSWER, decode_content=True)
        if is_web_page(response.headers, body):
            # No collector has seen the spans, so they are kept until one does.
            return ExportResult(
                Export.LATER, reason=f"{reason} with {WEB_PAGE}, so it is no collector"
            )
        rejected, why = _rejection(body)
        why = why or ("rejected without a reason" if rejected else "")
        return ExportResult(Export.ACCEPTED, rejected, reason=f"{address}: {why}" if why else "")
    if status == HTTPStatus.BAD_REQUEST and _wants_tls(response):
        return ExportResult(Export.LATER, reason=f"{reason}: {WANTS_TLS}")
    if status in REFUSALS:
        return ExportResult(Export.DIVISIBLE, reason=reason)
    return ExportResult(
        Export.LATER,
        reason=reason,
        retry_after=_retry_after(response.headers.get("Retry-After", "")),
    )


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
        with suppress(ValueError, RecursionError, TypeError, AttributeError, KeyError):
            said = json.loads(body)["partialSuccess"]
            return int(said.get("rejectedSpans") or 0), one_line(
                str(said.get("errorMessage") or "")
            )
        return 0, ""
    return partial.rejected_spans, partial.error_message


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


def _nanoseconds(seconds: float) -> int:
    """Return seconds since the epoch in OpenTelemetry's unit."""
    whole = int(seconds)  # apart from the rest, since a float cannot hold the product of both
    return whole * 1_000_000_000 + round((seconds - whole) * 1_000_000_000)


def _resource(identity: Instance | None) -> Resource:
    """Return this VM as an OpenTelemetry resource; ``OTEL_*`` variables override it."""
    # The names are those of OpenTelemetry's semantic conventions: service, cloud and host.
    values = {
        "service.name": _SERVICE,
        "service.version": __version__,
        "cloud.provider": "azure",
        "cloud.platform": "azure.vm",
    }
    if identity is not None:
        values |= {
            "cloud.region": identity.location,
            "cloud.availability_zone": identity.zone,
            "cloud.account.id": identity.subscription_id,
            "cloud.resource_id": identity.resource_id,
            "host.id": identity.vm_id,
            "host.name": identity.host_name,
            "host.type": identity.vm_size,
            "azure.vm.name": identity.vm_name,
            "azure.vm.scaleset.name": identity.scale_set,
        }
    ours = {key: value for key, value in values.items() if value}
    return Resource.create(ours).merge(OTELResourceDetector().detect())
