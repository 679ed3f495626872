"""Decides which answer IMDS gives to a request, and which fault it has.

The time is an argument; uses no socket and no clock. ``wire`` sends the answers.
"""

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
from .exchange import TEXT, Answer, Request, Seen
from .faults import REFUSED_BY_AGENT, Fault, FaultWindow, active
from .instance import instance
from .stage import Stage

_SIGN_IN_PAGE: Final = b"<!DOCTYPE html><html><body><h1>Sign in to continue</h1></body></html>"
_NOT_FOUND_XML: Final = (
    b'<?xml version="1.0" encoding="utf-8"?><Error><Code>ResourceNotFound</Code></Error>'
)
_EVENTS: Final = "/metadata/scheduledevents"
_INSTANCE: Final = "/metadata/instance"
_KEPT: Final = 20_000  # requests

DISABLED_AFTER_SECONDS: Final = 86_400.0
"""Azure disables Scheduled Events after so long without a request for them.

A request of any VM of the scale set or availability set counts. The next one enables them again.
"""
REQUESTS_PER_SECOND: Final = 5
"""How many requests IMDS answers a VM in any second."""


@dataclass(frozen=True, slots=True)
class Route:
    """Where the target of a request leads.

    Attributes:
        vm: the name of the VM that asks. It is NAME if the target begins with ``/vm/NAME``, and the
            first VM of the playlist if not.
        path: the path without that prefix.
        version: the api-version, or ``""`` if there is none.
    """

    vm: str
    path: str
    version: str


def _error(status: HTTPStatus, message: str) -> Answer:
    """Return an error as IMDS writes it."""
    return Answer(status, to_json({"error": message}))


def _agent(status: HTTPStatus) -> Answer:
    """Return a refusal of the Guest Proxy Agent, which has no body."""
    return Answer(status, is_from_imds=False)


_REPLACED_BY: Final[Mapping[Fault, Answer]] = {
    Fault.THROTTLE: Answer(
        HTTPStatus.TOO_MANY_REQUESTS, b"Throttle Result: Too Many Requests", TEXT
    ),
    Fault.BAD_REQUEST: _error(HTTPStatus.BAD_REQUEST, "Bad request"),
    Fault.NOT_FOUND: Answer(HTTPStatus.NOT_FOUND, _NOT_FOUND_XML, "application/xml"),
    Fault.METHOD_NOT_ALLOWED: _error(HTTPStatus.METHOD_NOT_ALLOWED, "Method not allowed"),
    Fault.GONE: Answer(HTTPStatus.GONE, b"", TEXT),
    Fault.SERVER_ERROR: _error(HTTPStatus.INTERNAL_SERVER_ERROR, "Internal server error"),
    Fault.UNAVAILABLE: Answer(HTTPStatus.SERVICE_UNAVAILABLE, b"The service is unavailable.", TEXT),
    Fault.NOT_JSON: Answer(HTTPStatus.OK, _SIGN_IN_PAGE, "text/html; charset=utf-8"),
    Fault.EMPTY_BODY: Answer(HTTPStatus.OK),
    Fault.AGENT_UNSIGNED: _agent(HTTPStatus.UNAUTHORIZED),
    Fault.AGENT_FORBIDDEN: _agent(HTTPStatus.FORBIDDEN),
    Fault.AGENT_MISDIRECTED: _agent(HTTPStatus.MISDIRECTED_REQUEST),
    Fault.AGENT_BAD_GATEWAY: _agent(HTTPStatus.BAD_GATEWAY),
}
"""The answers of faults that replace IMDS' answer, whatever was asked."""


@dataclass(slots=True)
class Service:
    """Checks, throttles and answers requests for a :class:`Stage`. Not thread-safe.

    Attributes:
        first_answer_delay: how many seconds IMDS takes to enable Scheduled Events, which the first
            request asks for. Answers wait until then.
        first_event_delay: for how many seconds after this delay the documents have no events.
        empty_body: whether to answer with an empty body while there are no events.
        newest_api_version: the newest api-version that is not refused; ``""`` refuses none.
        requests_per_second: how many requests of a VM are answered in any second.
        body: what is served instead of the document, unless it is None.
        windows: when faults are active, besides those of the scenario.
        seen: the requests that arrived, oldest first.
    """

    stage: Stage
    first_answer_delay: float = 0
    first_event_delay: float = 0
    empty_body: bool = False
    newest_api_version: str = ""
    requests_per_second: int = REQUESTS_PER_SECOND
    body: bytes | None = None
    windows: tuple[FaultWindow, ...] = ()
    seen: deque[Seen] = field(default_factory=lambda: deque(maxlen=_KEPT))
    # For all VMs together: when Scheduled Events were or will be enabled, and last asked for.
    _enabled_at: float = -math.inf
    _asked_at: float = -math.inf
    # By VM: the times of its last answers, at most as many as it may have in a second.
    _answered: dict[str, deque[float]] = field(default_factory=dict)

    def arrived(self, request: Request, now: float) -> float:
        """Note a request when it arrives; return by how many seconds to delay the answer.

        Only requests under ``/metadata`` are noted.
        """
        route = self._route(request.target)
        if route is None:
            return 0.0
        self.seen.append(Seen(route.vm, request.method, route.path, now))
        if route.path != _EVENTS:
            return 0.0
        if now - self._asked_at >= DISABLED_AFTER_SECONDS:  # as for the very first request
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
        if fault in REFUSED_BY_AGENT:  # before throttling, because IMDS does not see the request
            return _REPLACED_BY[fault]
        if not self._admit(route.vm, now):
            return _REPLACED_BY[Fault.THROTTLE]
        if fault is not None and fault in _REPLACED_BY:
            return _REPLACED_BY[fault]
        # Any other fault changes the content of the answer, or how ``wire`` sends it.
        return replace(self._imds_answer(request, route, now, fault), fault=fault)

    def inject(self, window: FaultWindow, now: float) -> None:
        """Add a fault at ``now``, which may begin later.

        If several are active, the last one added wins.
        """
        # Those that are over are forgotten, so that the tuple does not grow without end.
        kept = [each for each in self.windows if each.ends > now]
        self.windows = (*kept, window)

    def heal(self, now: float) -> None:
        """End every fault that is active at ``now``; later ones still begin."""
        self.windows = tuple(each for each in self.windows if each.begins > now)
        self.stage.stop_faults(now)

    def _admit(self, vm: str, now: float) -> bool:
        """Count a request of ``vm`` at ``now`` as answered and return True, or return False.

        False: in the second before, as many were answered as are permitted. A refusal does not
        count as an answer.
        """
        answered = self._answered.setdefault(vm, deque(maxlen=self.requests_per_second))
        if len(answered) == answered.maxlen and now - answered[0] < 1:
            return False
        answered.append(now)
        return True

    def _route(self, target: str) -> Route | None:
        """Return where ``target`` leads; None unless it is a path under ``/metadata`` of a VM."""
        try:
            parts = urlsplit(target)
            version = parse_qs(parts.query).get("api-version", [""])[0]
        except ValueError:
            return None
        vms = self.stage.vms
        vm = next(iter(vms))  # the first one, which is at the root
        path = parts.path
        if path.startswith("/vm/"):
            name, slash, rest = path.removeprefix("/vm/").partition("/")
            vm = unquote(name)
            path = slash + rest
        if vm not in vms or not path.startswith("/metadata/"):
            return None
        return Route(vm, path, version)

    def _imds_answer(
        self, request: Request, route: Route, now: float, fault: Fault | None
    ) -> Answer:
        """Return the answer of IMDS itself; the content of a few depends on ``fault``."""
        if route.path not in {_EVENTS, _INSTANCE}:
            return _error(HTTPStatus.NOT_FOUND, "Not found")
        if refusal := self._refusal(request.headers, route, fault):
            return refusal
        if request.method == "GET" and route.path == _EVENTS:
            return self._document(route, now)
        if request.method == "POST" and route.path == _EVENTS:
            return self._approval(request.body, route.vm, now)
        if request.method == "GET":
            is_partial = fault is Fault.PARTIAL_INSTANCE
            metadata = instance(self.stage.vms[route.vm], is_partial=is_partial)
            return Answer(HTTPStatus.OK, to_json(metadata))
        return _REPLACED_BY[Fault.METHOD_NOT_ALLOWED]

    def _refusal(
        self, headers: Mapping[str, str], route: Route, fault: Fault | None
    ) -> Answer | None:
        """Return IMDS' refusal of these headers and this api-version; None if they are valid."""
        needs_header = route.path != _EVENTS or route.version != PREVIEW
        has_header = headers.get("metadata", "").strip().lower() == "true"
        if needs_header and not has_header:
            return _error(
                HTTPStatus.BAD_REQUEST, "Bad request: . Required metadata header not specified"
            )
        if "x-forwarded-for" in headers:
            return _error(
                HTTPStatus.BAD_REQUEST, "Bad request. X-Forwarded-For header is not allowed"
            )
        limit = self.newest_api_version
        is_too_new = limit != "" and route.version > limit
        if is_version(route.version) and not is_too_new:
            return None
        if fault is Fault.VERSION_404:
            return _error(HTTPStatus.NOT_FOUND, "Not found. Invalid version requested")
        return Answer(HTTPStatus.BAD_REQUEST, to_json(version_invalid(limit or NEWEST)))

    def _document(self, route: Route, now: float) -> Answer:
        """Return the Scheduled Events document that the VM of ``route`` gets in its version."""
        body = self.body
        if body is None:
            body = self.stage.body_of_recording(now)
        if body is not None:
            return Answer(HTTPStatus.OK, body)
        events: list[WireEvent] = []
        # Until events are shown, the incarnation is one that no document with events has: a client
        # need not read a document with the incarnation that it already knows.
        incarnation = 0
        if now >= self._enabled_at + self.first_event_delay:
            events = events_in(self._events_of(route.vm), route.version)
            incarnation = self.stage.incarnation
        if self.empty_body and not events:
            return Answer(HTTPStatus.OK)
        return Answer(HTTPStatus.OK, document_body(events, incarnation))

    def _events_of(self, vm: str) -> Sequence[WireEvent]:
        """Return the events that ``vm`` sees: all of the placement group, or only its own."""
        if not self.stage.vms[vm].own_events_only:
            return self.stage.events
        return [
            event
            for event in self.stage.events
            if vm in cast("Sequence[str]", event.get("Resources", ()))
        ]

    def _approval(self, body: bytes, vm: str, now: float) -> Answer:
        """Approve the events that ``body`` names: all, or none if one of them is unknown."""
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
    """Return the EventIds of ``{"StartRequests": [{"EventId": "…"}]}``, one or more.

    None for any other body.
    """
    try:
        event_ids = [each["EventId"] for each in json.loads(body)["StartRequests"]]
    except (ValueError, RecursionError, TypeError, KeyError):
        return None
    if not event_ids or not all(isinstance(each, str) for each in event_ids):
        return None
    return event_ids
