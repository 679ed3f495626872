"""The wire to a collector: OpenTelemetry's SDK and its OTLP/HTTP exporter, and what an answer of it means.

Imported only when a span is due: it brings some 15 MiB into memory.
"""

import contextlib
import logging
import time
from collections.abc import Sequence
from dataclasses import replace
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import Any
from urllib.parse import urlsplit

import requests
import urllib3
from google.protobuf.message import DecodeError
from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.id_generator import IdGenerator
from opentelemetry.sdk.trace.sampling import Decision
from opentelemetry.semconv._incubating.attributes import cloud_attributes, host_attributes
from opentelemetry.semconv.attributes import service_attributes

from azure_scheduled_events_exporter import __version__
from azure_scheduled_events_exporter.core.instance import Instance
from azure_scheduled_events_exporter.core.spans import SpanFacts

from .delivery import ALL, LONGEST_RETRY_AFTER, RETRYABLE, ExportResult

_SERVICE = "azure-scheduled-events-exporter"
_LARGEST_ANSWER = 64 * 1024


class _RefusedError(Exception):
    """Keeps the exporter from sleeping over an answer; what that means is the session's verdict."""


class OtlpSender:
    """Sends spans to ``endpoint`` (base address), or where the ``OTEL_*`` variables say when it is None."""

    def __init__(self, endpoint: str | None) -> None:
        # Its own words about every failed request would stand in the log at each retry; ours stand there once.
        logging.getLogger("opentelemetry").setLevel(logging.CRITICAL)
        url = None if endpoint is None else endpoint.rstrip("/").removesuffix("/v1/traces") + "/v1/traces"
        self._session = _JudgingSession()
        self._exporter = OTLPSpanExporter(endpoint=url, session=self._session)
        self._ids = _Ids()
        self._identity: Instance | None = None
        # Made at once, so that an impossible OTEL_* variable is heard of at start and not in mid event.
        self._provider = self._provider_for(None)

    def send(self, spans: Sequence[SpanFacts], identity: Instance | None, timeout: float | None) -> ExportResult:
        """Send ``spans`` of the VM ``identity``, within ``timeout`` seconds (None: as configured); judge the answer."""
        if identity != self._identity:
            self._identity = identity
            self._provider = self._provider_for(identity)
        made = [span for span in map(self._make, spans) if span is not None]
        unsampled = len(spans) - len(made)
        if not made:
            return ExportResult(settled=True, unsampled=unsampled)
        return replace(self._export(made, timeout), unsampled=unsampled)

    def probe(self, timeout: float) -> ExportResult:
        """Send a request without spans, within ``timeout`` seconds; judge the answer."""
        return self._export([], timeout)

    def _export(self, spans: Sequence[ReadableSpan], timeout: float | None) -> ExportResult:
        self._session.patience = timeout
        self._session.verdict = None
        with contextlib.suppress(_RefusedError):
            self._exporter.export(spans)
        return self._session.verdict or ExportResult(
            settled=True, rejected=len(spans), reason="OpenTelemetry's exporter could not encode or send them"
        )

    def _provider_for(self, identity: Instance | None) -> TracerProvider:
        return TracerProvider(id_generator=self._ids, resource=_resource(identity), shutdown_on_exit=False)

    def _make(self, facts: SpanFacts) -> ReadableSpan | None:
        """The SDK's span for ``facts``, by its own limits; None if the configured sampler drops the trace."""
        self._ids.trace, self._ids.span = int(facts.trace_id, 16), int(facts.span_id, 16)
        # A sampler sees the trace id alone, so all spans of a trace, on all VMs, are kept or dropped together.
        sampled = self._provider.sampler.should_sample(None, self._ids.trace, facts.name).decision != Decision.DROP
        context = Context()
        if facts.parent_id:
            flags = trace.TraceFlags(trace.TraceFlags.SAMPLED if sampled else trace.TraceFlags.DEFAULT)
            parent = trace.SpanContext(self._ids.trace, int(facts.parent_id, 16), is_remote=True, trace_flags=flags)
            context = trace.set_span_in_context(trace.NonRecordingSpan(parent), context)
        delivery = self._provider.get_tracer(_SERVICE, __version__)
        attributes: dict[str, Any] = dict(facts.attributes)
        span = delivery.start_span(facts.name, context, attributes=attributes, start_time=_nanoseconds(facts.start))
        span.end(_nanoseconds(facts.end))
        return span if isinstance(span, ReadableSpan) else None


class _Ids(IdGenerator):
    """Gives the SDK the ids that the facts name."""

    trace = 0
    span = 0

    def generate_trace_id(self) -> int:
        return self.trace

    def generate_span_id(self) -> int:
        return self.span


class _JudgingSession(requests.Session):
    """The exporter's session: shows it nothing but an unconditional yes, and keeps what every other answer means.

    Left alone, the exporter takes redirects for success and sleeps between retries of its own.
    """

    def __init__(self) -> None:
        super().__init__()
        self.patience: float | None = None
        self.verdict: ExportResult | None = None

    def request(self, *args: Any, **kwargs: Any) -> requests.Response:  # noqa: ANN401 - handed on as they come
        """Send, and judge before the exporter can."""
        kwargs |= {"allow_redirects": False, "stream": True}
        if self.patience is not None:
            kwargs["timeout"] = self.patience
        try:
            with super().request(*args, **kwargs) as response:
                self.verdict = _judge(response)
        except (requests.RequestException, urllib3.exceptions.HTTPError, OSError) as error:
            self.verdict = ExportResult(settled=False, reason=f"no answer: {type(error).__name__}")
            raise _RefusedError from None
        if response.status_code != HTTPStatus.OK:
            raise _RefusedError
        return response


def _judge(response: requests.Response) -> ExportResult:
    status = response.status_code
    if status == HTTPStatus.OK:
        return _partial_success(response)
    reason = f"{_without_secrets(response)} answered {status}"
    if status in RETRYABLE:
        return ExportResult(
            settled=False, reason=reason, retry_after=_retry_after(response.headers.get("Retry-After", ""))
        )
    return ExportResult(settled=True, rejected=ALL, reason=reason)


def _partial_success(response: requests.Response) -> ExportResult:
    body = response.raw.read(_LARGEST_ANSWER, decode_content=True)
    answer = ExportTraceServiceResponse()
    try:
        answer.ParseFromString(body)
    except DecodeError:
        return ExportResult(settled=True)  # some collectors answer JSON, or text; it was a 200
    rejected = answer.partial_success.rejected_spans
    why = answer.partial_success.error_message or "rejected without a reason"
    reason = f"{_without_secrets(response)}: {why}" if rejected else ""
    return ExportResult(settled=True, rejected=rejected, reason=reason)


def _without_secrets(response: requests.Response) -> str:
    """The collector's address for the log, without a password that it may carry."""
    parts = urlsplit(response.url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


def _retry_after(text: str) -> float:
    """Seconds, from a number or a date (RFC 9110, 10.2.3); 0 when it is neither."""
    try:
        seconds = float(text) if text.strip().isdigit() else parsedate_to_datetime(text).timestamp() - time.time()
    except (ValueError, TypeError, OverflowError):
        return 0.0
    return min(max(0.0, seconds), LONGEST_RETRY_AFTER)


def _nanoseconds(seconds: float) -> int:
    whole = int(seconds)  # apart from the rest, since a float cannot hold the product of both
    return whole * 1_000_000_000 + round((seconds - whole) * 1_000_000_000)


def _resource(identity: Instance | None) -> Resource:
    """This VM by OpenTelemetry's conventions; ``OTEL_RESOURCE_ATTRIBUTES`` and ``OTEL_SERVICE_NAME`` win."""
    values = {
        service_attributes.SERVICE_NAME: _SERVICE,
        service_attributes.SERVICE_VERSION: __version__,
        cloud_attributes.CLOUD_PROVIDER: cloud_attributes.CloudProviderValues.AZURE.value,
        cloud_attributes.CLOUD_PLATFORM: cloud_attributes.CloudPlatformValues.AZURE_VM.value,
    }
    if identity is not None:
        values |= {
            cloud_attributes.CLOUD_REGION: identity.location,
            cloud_attributes.CLOUD_AVAILABILITY_ZONE: identity.zone,
            cloud_attributes.CLOUD_ACCOUNT_ID: identity.subscription_id,
            cloud_attributes.CLOUD_RESOURCE_ID: identity.resource_id,
            host_attributes.HOST_ID: identity.vm_id,
            host_attributes.HOST_NAME: identity.host_name,
            host_attributes.HOST_TYPE: identity.vm_size,
            "azure.vm.name": identity.vm_name,
            "azure.vm.scaleset.name": identity.scale_set,
        }
    ours = {key: value for key, value in values.items() if value}
    return Resource.create(ours).merge(OTELResourceDetector().detect())
