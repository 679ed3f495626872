"""An OTLP/HTTP receiver that decodes with OpenTelemetry's own protobuf package, with configurable
answers.
"""

import gzip
import threading
import time
import zlib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from support.programs import eventually
from support.servers.certificates import Pair
from support.servers.http_peer import HttpServer, Request, Response


@dataclass(frozen=True)
class Reply:
    """How one request is answered; ``hang`` never answers, ``rejected`` makes a 200 a partial
    success.

    ``drips`` sends the answer byte by byte, without end.
    """

    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    rejected: int = 0
    hang: bool = False
    body: bytes | None = None
    drips: bool = False


ACCEPT = Reply()
HANG = Reply(hang=True)


@dataclass(frozen=True)
class ReceivedSpan:
    """A span as it came over the wire: ids in hexadecimal, times in nanoseconds; ``events`` by name
    and attributes.
    """

    trace_id: str
    span_id: str
    parent_id: str
    name: str
    start: int
    end: int
    attributes: Mapping[str, Any]
    events: tuple[tuple[str, Mapping[str, Any]], ...]
    resource: Mapping[str, Any]


@dataclass(frozen=True)
class Received:
    """One request: when it came (Unix seconds), its path, headers in lower case, its spans and what
    was answered.
    """

    at: float
    path: str
    headers: Mapping[str, str]
    spans: tuple[ReceivedSpan, ...]
    reply: Reply


class Collector(HttpServer):
    """Takes spans in. The replies are given to one request each; the last one stays.

    With ``pair``, it listens over TLS. With ``token``, it answers 401 to requests without it.
    """

    protocol = "HTTP/1.0"  # no connection outlives :meth:`stop`

    def __init__(self, *replies: Reply, pair: Pair | None = None, token: str = "") -> None:
        super().__init__(pair)
        self._token = token
        self._replies = list(replies or [ACCEPT])
        self._lock = threading.Lock()
        self.received: list[Received] = []

    def answer(self, *replies: Reply) -> None:
        """Answer the next requests like this; the last one stays."""
        with self._lock:
            self._replies = list(replies)

    def respond(self, request: Request) -> Response | None:
        """Decode and answer."""
        headers = {name.lower(): value for name, value in request.headers.items()}
        body = request.body
        match headers.get("content-encoding"):
            case "gzip":
                body = gzip.decompress(body)
            case "deflate":
                body = zlib.decompress(body)
        if self._token and headers.get("authorization") != f"Bearer {self._token}":
            return Response(401)
        spans = tuple(_spans(ExportTraceServiceRequest.FromString(body)))
        with self._lock:
            reply = self._replies[0] if len(self._replies) == 1 else self._replies.pop(0)
            self.received.append(Received(time.time(), request.path, headers, spans, reply))
        if reply.hang:
            self.ending.wait()
            return None
        if reply.drips:
            request.handler.wfile.write(b"HTTP/1.1 200 OK\r\nX-Slow: ")
            with suppress(OSError):  # the client has given up
                while not self.ending.wait(0.1):
                    request.handler.wfile.write(b"x")
            return None
        answer = ExportTraceServiceResponse()
        if reply.rejected:
            answer.partial_success.rejected_spans = reply.rejected
            answer.partial_success.error_message = "no room"
        content = answer.SerializeToString() if reply.body is None else reply.body
        return Response(
            reply.status, content, {"Content-Type": "application/x-protobuf", **reply.headers}
        )

    @property
    def accepted(self) -> list[ReceivedSpan]:
        """Every span of a request that was answered 200, as often as it came."""
        return [
            span
            for request in list(self.received)
            if request.reply == ACCEPT
            for span in request.spans
        ]

    def spans(self, trace_id: str = "") -> dict[str, ReceivedSpan]:
        """Return the accepted spans (of one trace) by their ids: one told again is one, and the
        later wins.
        """
        return {
            span.span_id: span
            for span in self.accepted
            if span.trace_id == trace_id or not trace_id
        }

    def names(self, trace_id: str = "") -> list[str]:
        """Return the names of :meth:`spans`, sorted."""
        return sorted(span.name for span in self.spans(trace_id).values())

    def wait_for(self, *names: str, trace_id: str = "") -> dict[str, ReceivedSpan]:
        """Return one VM's spans by name, once exactly ``names`` have been accepted."""
        eventually(
            lambda: self.names(trace_id) == sorted(names),
            f"spans {names}, not {self.names(trace_id)}",
        )
        return {span.name: span for span in self.spans(trace_id).values()}


def _spans(request: ExportTraceServiceRequest) -> list[ReceivedSpan]:
    return [
        _received(span, _values(of_resource.resource.attributes))
        for of_resource in request.resource_spans
        for of_scope in of_resource.scope_spans
        for span in of_scope.spans
    ]


def _received(span: Span, resource: Mapping[str, Any]) -> ReceivedSpan:
    return ReceivedSpan(
        trace_id=span.trace_id.hex(),
        span_id=span.span_id.hex(),
        parent_id=span.parent_span_id.hex(),
        name=span.name,
        start=span.start_time_unix_nano,
        end=span.end_time_unix_nano,
        attributes=_values(span.attributes),
        events=tuple((event.name, _values(event.attributes)) for event in span.events),
        resource=resource,
    )


def _values(pairs: Sequence[KeyValue]) -> dict[str, Any]:
    return {pair.key: _value(pair.value) for pair in pairs}


def _value(value: AnyValue) -> object:
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return [_value(each) for each in value.array_value.values]
    return getattr(value, kind) if kind else None
