"""Makes OpenTelemetry's spans, and sends them with its SDK's OTLP/HTTP exporter.

``tracing.answers`` interprets the answers. Must not decide about retries and removal
(``tracing.delivery``). Imported only if tracing is on: OpenTelemetry and protobuf take 5 to 6 MiB
of memory (docs/performance.md).
"""

import logging
import os
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from opentelemetry import metrics, trace
from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.id_generator import IdGenerator
from opentelemetry.sdk.trace.sampling import Decision
from requests import PreparedRequest, Request

from azure_scheduled_events_exporter import __version__
from azure_scheduled_events_exporter.core.instance import Instance
from azure_scheduled_events_exporter.core.spans import SpanFacts
from azure_scheduled_events_exporter.http_client.failures import REQUEST_FAILURES, failure_reason
from azure_scheduled_events_exporter.http_client.sessions import Session

from .answers import CollectorAdapter
from .export import ExportOutcome, ExportResult
from .variables import TRACES_PATH, timeout_obstacle

_SERVICE = "azure-scheduled-events-exporter"
_USUAL_TIMEOUT = 10.0  # seconds, as in OpenTelemetry's specification

LONGEST_EXPORT_SECONDS = 60.0
"""Time limit of one export, whatever is configured: no other span is sent in that time."""

_TRIED = SpanFacts("1" * 32, "1" * 16, "", "tried at the start, and not sent", 0.0, 0.0)
"""A span with valid ids, to see whether OpenTelemetry makes spans."""


class OtlpSender:
    """Sends spans to ``endpoint``, a base address, with or without ``/v1/traces`` at its end.

    If ``endpoint`` is None, the address is that in the ``OTEL_*`` variables. No export takes more
    than ``longest`` seconds.
    """

    def __init__(self, endpoint: str | None, longest: float = LONGEST_EXPORT_SECONDS) -> None:
        # Its messages about every failed request would fill the log at each retry; delivery logs a
        # failure once.
        logging.getLogger("opentelemetry").setLevel(logging.CRITICAL)
        # Otherwise the SDK looks for the provider that OTEL_PYTHON_METER_PROVIDER names, and fails.
        metrics.set_meter_provider(metrics.NoOpMeterProvider())
        # The exporter takes what is None from the variables. If the time limit there cannot be
        # used, it has to be given.
        url = None
        if endpoint is not None:
            url = endpoint.rstrip("/").removesuffix(TRACES_PATH) + TRACES_PATH
        timeout = None
        if timeout_obstacle(os.environ):
            timeout = _USUAL_TIMEOUT
        self._adapter = CollectorAdapter(longest)
        self._session = _CollectorSession(self._adapter)
        self._exporter = OTLPSpanExporter(endpoint=url, timeout=timeout, session=self._session)
        self._ids = _Ids()
        self._identity: Instance | None = None
        # A provider and a span are made now, so that an invalid OTEL_* variable raises an error at
        # the start and not during an event.
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
            return ExportResult(ExportOutcome.ACCEPTED, unsampled=unsampled)
        return replace(self._export(made, timeout), unsampled=unsampled)

    def probe(self, timeout: float) -> ExportResult:
        """Send a request without spans, within ``timeout`` seconds; return the result."""
        return self._export([], timeout)

    def _export(self, spans: Sequence[ReadableSpan], timeout: float | None) -> ExportResult:
        """Let OpenTelemetry's exporter send the spans; return how its adapter judged the answer."""
        self._adapter.prepare(timeout)
        self._exporter.export(spans)  # calls the adapter
        if self._adapter.result is not None:
            return self._adapter.result
        # The exporter has not called the adapter.
        if self._session.obstacle:
            reason = f"nothing was sent: {self._session.obstacle}"
            return ExportResult(ExportOutcome.LATER, reason=reason)
        return ExportResult(
            ExportOutcome.DIVISIBLE,  # perhaps one span is to blame: halves are tried
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
        # start_span asks for these ids.
        self._ids.trace = int(facts.trace_id, 16)
        self._ids.span = int(facts.span_id, 16)
        context = Context()
        if facts.parent_id:
            parent = trace.NonRecordingSpan(self._parent_of(facts))
            context = trace.set_span_in_context(parent, context)
        tracer = self._provider.get_tracer(_SERVICE, __version__)
        attributes: dict[str, Any] = dict(facts.attributes)
        span = tracer.start_span(
            facts.name, context, attributes=attributes, start_time=_nanoseconds(facts.start)
        )
        for event in facts.events:
            span.add_event(event.name, dict(event.attributes), _nanoseconds(event.at))
        span.end(_nanoseconds(facts.end))
        if not isinstance(span, ReadableSpan):
            return None  # the sampler drops it, so the SDK has made a span without content
        return span

    def _parent_of(self, facts: SpanFacts) -> trace.SpanContext:
        """Return the ids of the parent of ``facts``, with the flag whether its trace is sampled.

        Whether the parent was sampled is not known here: it may be a span of another VM, or one
        that was sent before this process began. So the sampler is asked about a span without a
        parent (a root) in this trace. Usual samplers decide about a root by the trace id alone, so
        the answer is the same for all spans of the trace, on all VMs. It becomes the flag, which a
        sampler that follows the parent obeys. So these spans are kept or dropped together.
        """
        trace_id = int(facts.trace_id, 16)
        as_root = self._provider.sampler.should_sample(None, trace_id, facts.name)
        flags = trace.TraceFlags(trace.TraceFlags.SAMPLED)
        if as_root.decision == Decision.DROP:
            flags = trace.TraceFlags(trace.TraceFlags.DEFAULT)
        return trace.SpanContext(
            trace_id, int(facts.parent_id, 16), is_remote=True, trace_flags=flags
        )


class _CollectorSession(Session):
    """The exporter's session.

    Attributes:
        obstacle: why no request can be made, such as a header that HTTP cannot carry; ``""`` if
            the last one could.
    """

    obstacle = ""

    def prepare_request(self, request: Request) -> PreparedRequest:
        """Return the request as it is sent."""
        self.obstacle = ""
        try:
            return super().prepare_request(request)
        except REQUEST_FAILURES as error:
            self.obstacle = failure_reason(error)
            raise


class _Ids(IdGenerator):
    """Gives the next span the ids ``trace`` and ``span``, instead of random ones."""

    trace = 0
    span = 0

    def generate_trace_id(self) -> int:
        return self.trace

    def generate_span_id(self) -> int:
        return self.span


def _nanoseconds(seconds: float) -> int:
    """Return seconds since the epoch in nanoseconds, OpenTelemetry's unit."""
    # The whole seconds apart from the rest: a float is too short for nanoseconds since the epoch.
    whole = int(seconds)
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
