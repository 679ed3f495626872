"""Answers requests as IMDS does. The time is an argument; uses no socket and no clock."""

import json
import math
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from http import HTTPStatus
from typing import Final, cast
from urllib.parse import parse_qs, unquote, urlsplit

from .document import (
    NEWEST,
    PREVIEW,
    WireEvent,
    document_body,
    events_in,
    is_version,
    to_json,
    version_invalid,
)
from .faults import REFUSED_BY_AGENT, Fault, FaultPlan, active
from .instance import instance
from .stage import Stage

JSON: Final = "application/json; charset=utf-8"
TEXT: Final = "text/plain; charset=utf-8"
_HTML: Final = b"<!DOCTYPE html><html><body><h1>Sign in to continue</h1></body></html>"
_XML: Final = b'<?xml version="1.0" encoding="utf-8"?><Error><Code>ResourceNotFound</Code></Error>'
_EVENTS: Final = "/metadata/scheduledevents"
_INSTANCE: Final = "/metadata/instance"
_KEPT: Final = 20_000  # requests

DISABLED_AFTER_SECONDS: Final = 86_400.0
"""Azure disables Scheduled Events of a service after so long without a request of any of its VMs.

A service is a scale set or an availability set. The next request enables them again.
"""
REQUESTS_PER_SECOND: Final = 5
"""How many requests IMDS answers a VM in any second."""


@dataclass(frozen=True, slots=True)
class Request:
    """One request.

    Attributes:
        headers: their names are in lower case.
        connected_at: when its connection was made, by the clock of the simulator.
    """

    method: str
    target: str
    headers: Mapping[str, str]
    body: bytes = b""
    connected_at: float = math.inf


@dataclass(frozen=True, slots=True)
class Answer:
    """An HTTP answer: status, headers and body, and the fault with which to send them.

    Attributes:
        is_from_imds: whether IMDS sends it; otherwise it is the Guest Proxy Agent, which names no
            content type and closes the connection.
    """

    status: int
    body: bytes = b""
    content_type: str = JSON
    fault: Fault | None = None
    is_from_imds: bool = True


@dataclass(frozen=True, slots=True)
class Seen:
    """A request that arrived, with its VM and its time on the simulator's clock (Unix seconds)."""

    vm: str
    method: str
    path: str
    at: float


Route = tuple[str, str, str]
"""A request's VM, the path there, and the api-version.

It is the first VM unless the target has the prefix ``/vm/NAME``.
"""


def _error(status: HTTPStatus, message: str) -> Answer:
    return Answer(status, to_json({"error": message}))


def _agent(status: HTTPStatus) -> Answer:
    return Answer(status, is_from_imds=False)


_FAULTY: Final[Mapping[Fault | None, Answer]] = {
    Fault.THROTTLE: Answer(
        HTTPStatus.TOO_MANY_REQUESTS, b"Throttle Result: Too Many Requests", TEXT
    ),
    Fault.BAD_REQUEST: _error(HTTPStatus.BAD_REQUEST, "Bad request"),
    Fault.NOT_FOUND: Answer(HTTPStatus.NOT_FOUND, _XML, "application/xml"),
    Fault.METHOD_NOT_ALLOWED: _error(HTTPStatus.METHOD_NOT_ALLOWED, "Method not allowed"),
    Fault.GONE: Answer(HTTPStatus.GONE, b"", TEXT),
    Fault.SERVER_ERROR: _error(HTTPStatus.INTERNAL_SERVER_ERROR, "Internal server error"),
    Fault.UNAVAILABLE: Answer(HTTPStatus.SERVICE_UNAVAILABLE, b"The service is unavailable.", TEXT),
    Fault.NOT_JSON: Answer(HTTPStatus.OK, _HTML, "text/html; charset=utf-8"),
    Fault.EMPTY_BODY: Answer(HTTPStatus.OK),
    Fault.AGENT_UNSIGNED: _agent(HTTPStatus.UNAUTHORIZED),
    Fault.AGENT_FORBIDDEN: _agent(HTTPStatus.FORBIDDEN),
    Fault.AGENT_MISDIRECTED: _agent(HTTPStatus.MISDIRECTED_REQUEST),
    Fault.AGENT_BAD_GATEWAY: _agent(HTTPStatus.BAD_GATEWAY),
}


@dataclass(slots=True)
class Service:
    """Checks, throttles and answers requests for a :class:`Stage`, with its faults.

    Not thread-safe.

    ``body`` is served instead of the document, and ``windows`` are faults from outside the
    scenario.
    """

    stage: Stage
    first_answer_delay: float = 0
    first_event_delay: float = 0
    empty_body: bool = False
    newest_api_version: str = ""
    requests_per_second: int = REQUESTS_PER_SECOND
    body: bytes | None = None
    windows: tuple[FaultPlan, ...] = ()
    seen: deque[Seen] = field(default_factory=lambda: deque(maxlen=_KEPT))
    _enabled_at: float = -math.inf  # of the service, not of a VM
    _asked_at: float = -math.inf
    # Of each VM, when its last requests were answered: as many as a second may have.
    _answered: dict[str, deque[float]] = field(default_factory=dict)

    def arrived(self, request: Request, now: float) -> float:
        """Count a request under ``/metadata``; return by how many seconds to delay the answer."""
        route = self._route(request.target)
        if route is None:
            return 0.0
        vm, path, _ = route
        self.seen.append(Seen(vm, request.method, path, now))
        if path != _EVENTS:
            return 0.0
        if now - self._asked_at >= DISABLED_AFTER_SECONDS:
            self._enabled_at = now + self.first_answer_delay
        self._asked_at = now
        return max(0.0, self._enabled_at - now)

    def answer(self, request: Request, now: float) -> Answer:
        """Return the answer to ``request`` at ``now``."""
        self.stage.advance(now)
        route = self._route(request.target)
        if route is None:
            return _error(HTTPStatus.NOT_FOUND, f"Not found. VMs here: {', '.join(self.stage.vms)}")
        fault = active((*self.stage.windows, *self.windows), now, request.connected_at)
        if fault in REFUSED_BY_AGENT:
            return _FAULTY[fault]
        vm, _, _ = route
        answered = self._answered.setdefault(vm, deque(maxlen=self.requests_per_second))
        # In the second before ``now``, as many were answered as are permitted.
        if len(answered) == answered.maxlen and now - answered[0] < 1:
            return _FAULTY[Fault.THROTTLE]  # which does not count as an answer
        answered.append(now)
        # Other faults change the content of the healthy answer, or how it is sent.
        return _FAULTY.get(fault) or replace(self._healthy(request, route, now, fault), fault=fault)

    def inject(self, fault: FaultPlan) -> None:
        """Add a fault. If several are active, the last one added wins."""
        self.windows = (*(each for each in self.windows if each.ends > fault.at), fault)

    def heal(self, now: float) -> None:
        """End every fault that is active at ``now``; later ones still begin."""
        self.windows = tuple(each for each in self.windows if each.at > now)
        self.stage.stop_faults(now)

    def _route(self, target: str) -> Route | None:
        """Return where ``target`` leads; None unless that is under ``/metadata`` of a VM."""
        try:
            parts = urlsplit(target)
            version = parse_qs(parts.query).get("api-version", [""])[0]
        except ValueError:
            return None
        vms = self.stage.vms
        vm = next(iter(vms))
        path = parts.path
        if path.startswith("/vm/"):
            name, slash, rest = path.removeprefix("/vm/").partition("/")
            vm = unquote(name)
            path = slash + rest
        if vm not in vms or not path.startswith("/metadata/"):
            return None
        return vm, path, version

    def _healthy(self, request: Request, route: Route, now: float, fault: Fault | None) -> Answer:
        """Return the answer of an IMDS that works; ``fault`` may change its content."""
        vm, path, version = route
        if path not in {_EVENTS, _INSTANCE}:
            return _error(HTTPStatus.NOT_FOUND, "Not found")
        if refusal := self._refusal(request.headers, path, version, fault):
            return refusal
        match request.method, path:
            case "GET", "/metadata/scheduledevents":
                return self._document(version, vm, now)
            case "GET", _:
                is_partial = fault is Fault.PARTIAL_INSTANCE
                return Answer(
                    HTTPStatus.OK, to_json(instance(self.stage.vms[vm], is_partial=is_partial))
                )
            case "POST", "/metadata/scheduledevents":
                return self._approval(request.body, vm, now)
        return _FAULTY[Fault.METHOD_NOT_ALLOWED]

    def _refusal(
        self, headers: Mapping[str, str], path: str, version: str, fault: Fault | None
    ) -> Answer | None:
        """Return IMDS' refusal of these headers and this api-version; None if they are valid."""
        is_preview = path == _EVENTS and version == PREVIEW
        if headers.get("metadata", "").strip().lower() != "true" and not is_preview:
            return _error(
                HTTPStatus.BAD_REQUEST, "Bad request: . Required metadata header not specified"
            )
        if "x-forwarded-for" in headers:
            return _error(
                HTTPStatus.BAD_REQUEST, "Bad request. X-Forwarded-For header is not allowed"
            )
        if is_version(version) and (
            not self.newest_api_version or version <= self.newest_api_version
        ):
            return None
        if fault is Fault.VERSION_404:
            return _error(HTTPStatus.NOT_FOUND, "Not found. Invalid version requested")
        return Answer(
            HTTPStatus.BAD_REQUEST, to_json(version_invalid(self.newest_api_version or NEWEST))
        )

    def _document(self, version: str, vm: str, now: float) -> Answer:
        """Return the Scheduled Events document that ``vm`` gets in ``version``."""
        body = self.body if self.body is not None else self.stage.recorded(now)
        if body is not None:
            return Answer(HTTPStatus.OK, body)
        is_enabling = now < self._enabled_at + self.first_event_delay
        events = [] if is_enabling else events_in(self._events_of(vm), version)
        if self.empty_body and not events:
            return Answer(HTTPStatus.OK)
        # While it enables, the incarnation is another one than with the events: the same value
        # means the same events.
        return Answer(
            HTTPStatus.OK, document_body(events, 0 if is_enabling else self.stage.incarnation)
        )

    def _events_of(self, vm: str) -> Sequence[WireEvent]:
        """Return the events that ``vm`` sees: those of the whole group, or only its own."""
        if not self.stage.vms[vm].own_events_only:
            return self.stage.events
        return [
            event
            for event in self.stage.events
            if vm in cast("Sequence[str]", event.get("Resources", ()))
        ]

    def _approval(self, body: bytes, vm: str, now: float) -> Answer:
        """Approve the events that ``body`` names, all or none."""
        event_ids = _start_requests(body)
        if event_ids is None:
            return _error(
                HTTPStatus.BAD_REQUEST, "Bad request. StartRequests is missing or malformed"
            )
        for event_id in event_ids:
            if not self.stage.knows(event_id):
                return _error(
                    HTTPStatus.BAD_REQUEST, f"Bad request. Unknown EventId {event_id[:64]}"
                )
        for event_id in event_ids:
            self.stage.approve(event_id, vm, now)
        return Answer(HTTPStatus.OK)


def _start_requests(body: bytes) -> list[str] | None:
    """Return the EventIds of ``{"StartRequests": [{"EventId": "…"}]}``; None for any other body."""
    try:
        event_ids = [each["EventId"] for each in json.loads(body)["StartRequests"]]
    except (ValueError, RecursionError, TypeError, KeyError):
        return None
    return event_ids if event_ids and all(isinstance(each, str) for each in event_ids) else None
