"""One HTTP/1.1 client: h11 speaks the protocol, the policy towards it when it is slow, idle or greedy is here.

A connection holds a phase, a deadline, and no task: bytes come in, complete requests are answered on the spot, one at
a turn of the loop; one that has to be checked first pauses its own connection and nobody else's. A response is written
in pieces of a shared body, so a client that never reads costs one piece, not one body. It knows nothing of other
connections (``http_server.server``), nor of what is served, nor of who may come in (:class:`AccessControl`).
"""

import asyncio
import contextlib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum, auto
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING, Protocol, cast
from urllib.parse import unquote

import h11

if TYPE_CHECKING:
    from .tls import Tls

_PIECE = 32 * 1024  # bytes of a body handed to the transport at once: what a client that never reads costs
_ABSOLUTE = re.compile(r"https?://[^/?]*", re.IGNORECASE)
_EXPLANATIONS = {
    400: "this is no valid HTTP/1.1 request",
    401: "a user and the right password are needed here",
    403: "the certificate of this client has none of the names that are let in",
    404: "nothing is served at this path",
    405: "only GET and HEAD are served here",
    408: "the request was not complete in time",
    429: "more requests than the configured rate limit",
    431: "the header of the request is too large",
    500: "answering failed; the log says why",
    501: "this transfer encoding is not supported",
    503: "too many passwords wait to be checked; try again",
}


@dataclass(frozen=True, slots=True)
class Request:
    """A complete request: method as sent, decoded path, raw query, headers under lower-case names.

    A header that came more than once has its values joined by a comma and a space (RFC 9110, 5.3).
    """

    method: str
    path: str
    query: str
    headers: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Response:
    """What a handler answers; Content-Type, Content-Length and nosniff are added, HEAD drops the body."""

    status: int
    body: bytes
    content_type: str
    headers: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Limits:
    """What one client may cost; durations are totals in seconds, not pauses between two bytes."""

    request_seconds: float = 10.0  # from accept, later from a request's first byte, to its complete header
    write_seconds: float = 30.0  # for one response: 1.5 MB at 50 kB/s, the slowest link worth serving
    idle_seconds: float = 120.0  # between two requests: Prometheus scrapes once a minute and misses one
    check_seconds: float = 10.0  # for a password to be checked: as long as Prometheus waits by default
    linger_seconds: float = 1.0  # after an answer to a request unread: closing at once would destroy the answer
    connections: int = 512  # half of the usual limit of 1024 descriptors
    header_bytes: int = 16 * 1024  # more than any scraper, proxy or browser sends
    backlog: int = 1024  # kept by the kernel meanwhile; one more waits a second: 128 overflows at 500 new clients


def plain(status: int, *headers: tuple[str, str]) -> Response:
    """Return a short answer in plain text that says what is wrong."""
    body = f"{_EXPLANATIONS[status]}\n".encode()
    return Response(status, body, "text/plain; charset=utf-8", headers)


def head(response: Response, extra: tuple[tuple[str, str], ...] = ()) -> h11.Response:
    """Return the head that h11 is to send; an unknown status or an illegal header raises what it will.

    Headers in ``extra`` replace those of the same name.
    """
    replaced = {name.lower() for name, _ in extra}
    headers = [
        ("Content-Type", response.content_type),
        ("Content-Length", str(len(response.body))),
        ("X-Content-Type-Options", "nosniff"),
        *response.headers,
    ]
    headers = [*((name, value) for name, value in headers if name.lower() not in replaced), *extra]
    reason = HTTPStatus(response.status).phrase
    return h11.Response(status_code=response.status, headers=headers, reason=reason)


def _has_body(request: Request) -> bool:
    """Whether bytes follow the header, or may (CONNECT): they are never read, the connection ends instead."""
    length = request.headers.get("content-length", "0").strip("0")
    return bool(length) or "transfer-encoding" in request.headers or request.method == "CONNECT"


def _read_request(event: h11.Request) -> Request:
    target = event.target.decode("ascii")
    if not target.startswith("/"):  # absolute-form (RFC 9112, 3.2.2), or * and host:port, which are no path
        absolute = _ABSOLUTE.match(target)
        target = target[absolute.end() :] if absolute else target
        if absolute and not target.startswith("/"):
            target = f"/{target}"
    path, _, query = target.partition("?")
    headers: dict[str, str] = {}
    for raw_name, raw_value in event.headers:
        name, value = raw_name.decode("ascii"), raw_value.decode("latin-1")
        headers[name] = f"{headers[name]}, {value}" if name in headers else value
    return Request(event.method.decode("ascii"), unquote(path) if "%" in path else path, query, headers)


def _header_size(event: h11.Request) -> int:
    """Return the bytes of the header; h11 itself limits only one that is still incomplete."""
    return len(event.target) + sum(len(name) + len(value) + 4 for name, value in event.headers)


class Phase(Enum):
    """What a connection is at."""

    WAITING = auto()  # for the first byte of a request
    RECEIVING = auto()  # part of a request is here
    CHECKING = auto()  # whether its password is right is being found out
    WRITING = auto()  # an answer is not yet with the kernel
    CLOSING = auto()  # no more requests; what still comes is dropped


class AccessControl(Protocol):
    """Who may come in, and how: what it says may change at any time, and holds from then on."""

    tls: "Tls | None"  # for new connections

    @property
    def headers(self) -> tuple[tuple[str, str], ...]:
        """Headers of every answer."""

    def admit(self, request: Request, client: str) -> Response | asyncio.Future[Response | None] | None:
        """Return None for a request to let in, else the refusal; a future of it if that takes time."""

    async def watch(self, retire: Callable[[], None]) -> None:
        """Keep up to date until cancelled; call ``retire`` when open connections should be opened anew."""

    def close(self) -> None:
        """Let go of everything."""


@dataclass(frozen=True, slots=True)
class ServerState:
    """What all connections of one server have in common; ``respond`` answers a request, or refuses it as told."""

    limits: Limits
    loop: asyncio.AbstractEventLoop
    inbox: memoryview
    door: AccessControl
    respond: Callable[[Request, Response | None], tuple[h11.Response, bytes]]
    leave: Callable[["Connection"], None]


class Connection(asyncio.BufferedProtocol):
    """One client: its phase, since when it has waited for a request, and when the phase must have ended."""

    __slots__ = (
        "_blocked",
        "_check",
        "_client",
        "_connected",
        "_house",
        "_http",
        "_last",
        "_served",
        "_stranger",
        "_tls",
        "_transport",
        "_unsent",
        "deadline",
        "opening",
        "phase",
        "since",
    )

    def __init__(self, house: ServerState, tls: "Tls | None" = None) -> None:
        self._house = house
        self._tls = tls
        self._http = h11.Connection(h11.SERVER, house.limits.header_bytes)
        self._client = ""
        self._connected = False
        self._stranger = False
        self._served = False
        self._last = False
        self._check: asyncio.Future[Response | None] | None = None
        self._unsent = memoryview(b"")
        self._blocked = False
        self.opening: asyncio.Task[object] | None = None
        self.phase = Phase.WAITING
        self.since = house.loop.time()
        self.deadline = self.since + house.limits.request_seconds

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport; it tells us as soon as it has to keep a byte for a slow reader."""
        self._transport = cast("asyncio.Transport", transport)  # what asyncio gives for TCP and TLS
        self._transport.set_write_buffer_limits(high=1)  # 0 would leave its TLS transport paused for ever
        self._connected = True
        self._client = str((transport.get_extra_info("peername") or ("",))[0])
        self._stranger = self._tls is not None and not self._tls.knows(transport.get_extra_info("ssl_object"))

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio's signature
        """Forget the client, whatever it was doing."""
        self.phase = Phase.CLOSING
        self._unsent = memoryview(b"")
        self._cancel_check()
        self._house.leave(self)

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002 - asyncio's signature
        """Read into the one buffer: asyncio fills it and calls buffer_updated without a pause."""
        return self._house.inbox

    def buffer_updated(self, nbytes: int) -> None:
        """Take what has come; the first byte of a request starts its deadline, later ones do not extend it."""
        if self.phase is Phase.CLOSING:
            return
        self._http.receive_data(bytes(self._house.inbox[:nbytes]))
        if self.phase is Phase.WAITING:
            self.phase = Phase.RECEIVING
            latest = self._house.loop.time() + self._house.limits.request_seconds
            self.deadline = min(self.deadline, latest)
        self._proceed()

    def eof_received(self) -> bool:
        """Answer a client that closes its side after the request; TLS knows no half-closed connection."""
        if self.phase is Phase.CLOSING:
            return False
        self._http.receive_data(b"")
        self._proceed()
        return self._tls is None

    def pause_writing(self) -> None:
        """Hand over no further piece: the client does not read as fast as we write."""
        self._blocked = True

    def resume_writing(self) -> None:
        """Go on with the next piece."""
        self._blocked = False
        self._write_on()

    def expire(self) -> None:
        """End the phase that has lasted too long."""
        if self.phase is Phase.RECEIVING:
            self._refuse(408)
        elif self.phase is Phase.CHECKING:
            self._cancel_check()
            self._refuse(503)
        else:
            self.abort()

    def retire(self) -> None:
        """End after the request that is due; one that has been served and waits for the next ends now."""
        if self.phase is Phase.WAITING and self._served:
            self.phase, self.deadline = Phase.CLOSING, self._house.loop.time() + self._house.limits.linger_seconds
            self._transport.close()
        else:
            self._last = True

    def abort(self) -> None:
        """Close at once, without the rest of an answer."""
        self.phase = Phase.CLOSING
        self._cancel_check()
        if self._connected:
            self._transport.abort()
        elif self.opening is not None:
            self.opening.cancel()
        self._house.leave(self)

    def _proceed(self) -> None:
        """Answer the next request if it is complete."""
        if self.phase not in {Phase.WAITING, Phase.RECEIVING}:
            return
        try:
            event = self._http.next_event()
        except h11.RemoteProtocolError as error:
            self._refuse(error.error_status_hint)
            return
        if isinstance(event, h11.Request):
            self._answer(event)
        elif event is h11.NEED_DATA:
            self._transport.resume_reading()
        else:  # the client has closed
            self._transport.close()

    def _answer(self, event: h11.Request) -> None:
        if _header_size(event) > self._house.limits.header_bytes:
            self._refuse(431)
            return
        request = _read_request(event)
        unread = _has_body(request)
        if not unread:
            self._http.next_event()  # the end of the message, which h11 has already seen
        refusal = plain(403) if self._stranger else self._house.door.admit(request, self._client)
        if isinstance(refusal, asyncio.Future):
            self.phase, self._check = Phase.CHECKING, refusal
            self.deadline = self._house.loop.time() + self._house.limits.check_seconds
            self._transport.pause_reading()  # the next request has to wait for this one
            refusal.add_done_callback(partial(self._checked, request, unread))
        else:
            self._respond(request, refusal, close=unread)

    def _checked(self, request: Request, unread: bool, check: asyncio.Future[Response | None]) -> None:  # noqa: FBT001 - bound by partial
        if self._check is check and not check.cancelled():
            self._check = None
            self._respond(request, check.result(), close=unread)

    def _cancel_check(self) -> None:
        check, self._check = self._check, None
        if check is not None:
            check.cancel()

    def _respond(self, request: Request, refusal: Response | None, *, close: bool) -> None:
        head, body = self._house.respond(request, refusal)
        bodiless = request.method == "HEAD" or head.status_code in {204, 304}
        self._send(head, b"" if bodiless else body, close=close or self._last)

    def _refuse(self, status: int) -> None:
        response = plain(status if status in _EXPLANATIONS else 400)
        self._send(head(response, self._house.door.headers), response.body, close=True)

    def _send(self, head: h11.Response, body: bytes, *, close: bool) -> None:
        """Write as much as the client takes; the rest follows when it reads."""
        if close:
            fields = [*head.headers, (b"Connection", b"close")]
            head = h11.Response(status_code=head.status_code, headers=fields, reason=head.reason)
        data = self._http.send(head)
        if body:
            self._http.send_with_data_passthrough(h11.Data(data=body))
        self._http.send(h11.EndOfMessage())
        self.phase = Phase.WRITING
        self.deadline = self._house.loop.time() + self._house.limits.write_seconds
        self._unsent = memoryview(body)[_PIECE:]
        self._transport.write(data + body[:_PIECE])
        self._write_on()
        if self.phase is Phase.WRITING:
            self._transport.pause_reading()  # else a pipeline would fill our memory meanwhile

    def _write_on(self) -> None:
        if self.phase is not Phase.WRITING:
            return
        while self._unsent and not self._blocked and not self._transport.is_closing():
            piece, self._unsent = self._unsent[:_PIECE], self._unsent[_PIECE:]
            self._transport.write(piece)
        if self.phase is Phase.WRITING and not self._unsent and not self._blocked:
            self._end_answer(self._transport)

    def _end_answer(self, transport: asyncio.Transport) -> None:
        http, limits, now = self._http, self._house.limits, self._house.loop.time()
        if http.our_state is h11.DONE and http.their_state is h11.DONE:
            http.start_next_cycle()
            self.since, self._served = now, True
            if any(http.trailing_data):  # a pipeline: others get their turn before its next request
                self.phase, self.deadline = Phase.RECEIVING, now + limits.request_seconds
                transport.pause_reading()
                self._house.loop.call_soon(self._proceed)
            else:
                self.phase, self.deadline = Phase.WAITING, now + limits.idle_seconds
                transport.resume_reading()
            return
        self.phase, self.deadline = Phase.CLOSING, now + limits.linger_seconds
        if http.their_state in {h11.DONE, h11.MUST_CLOSE, h11.CLOSED}:
            transport.close()
            return
        # Closing with input unread makes the kernel send a reset, which destroys the answer on its way.
        transport.resume_reading()
        if transport.can_write_eof():
            with contextlib.suppress(OSError):  # a client that has closed answers our answer with a reset
                transport.write_eof()
