"""One HTTP/1.1 connection: h11 parses and serializes, this module applies limits to slow, idle and greedy clients.

A connection has a phase and a deadline, and no task. It answers one request at a time and writes the response in
pieces of a shared body, so a client that never reads costs one piece, not one body. Requests that arrive together
(pipelining) are not queued: the first is answered and the connection closes, which RFC 9112, 9.3.2 allows. It must not
know other connections (``http_server.server``), what is served, or who may connect (:class:`AccessControl`).
"""

import asyncio
import contextlib
import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto
from functools import partial, wraps
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Protocol, TypeVar, cast

import h11

from .messages import Request, Response, head, parse_request, plain

if TYPE_CHECKING:
    from .tls import Tls

_PIECE = 16 * 1024  # bytes of a body written to the transport at once: the memory that a client that never reads costs
_UNDECRYPTED = 32 * 1024  # received bytes that wait to be decrypted: at least one TLS record, 16 KiB
_HEADER_END = re.compile(rb"\n\r?\n")
_EMPTY_LINES = re.compile(rb"(?:\r\n)*")  # before a request; RFC 9112, 2.2 says to ignore them
_FIRST_PRINTABLE = 0x21  # a request cannot begin with a byte below it; the first byte of a TLS handshake is 0x16
_Args = ParamSpec("_Args")
_Result = TypeVar("_Result")


@dataclass(frozen=True, slots=True)
class Limits:
    """What one client may cost. Durations are totals in seconds, not pauses between two bytes."""

    request_seconds: float = 10.0  # from accept, later from a request's first byte, to its complete header
    write_seconds: float = 30.0  # for one response: 1.5 MB at 50 kB/s
    idle_seconds: float = 120.0  # between two requests: Prometheus scrapes once a minute and misses one
    check_seconds: float = 10.0  # for a password check: Prometheus' default scrape timeout
    linger_seconds: float = 1.0  # after a response with input unread: closing at once would destroy the response
    grace_seconds: float = 0.5  # by which a response in progress is preferred if a connection must be closed
    connections: int = 512  # half of the usual limit of 1024 descriptors; fewer if RLIMIT_NOFILE is lower
    header_bytes: int = 16 * 1024  # more than any scraper, proxy or browser sends
    header_lines: int = 100  # parsing takes time per line: 16 KiB of short lines would take 20 times as long
    unsent_bytes: int = 8 * 1024 * 1024  # of all responses that clients do not read; shared bodies count once
    backlog: int = 4096  # connections that the kernel keeps; a client beyond them waits one second or three


class Phase(Enum):
    """The phase of a connection."""

    WAITING = auto()  # for the first byte of a request
    RECEIVING = auto()  # part of a request header has arrived
    CHECKING = auto()  # the password of a request is being checked
    WRITING = auto()  # part of a response is not yet with the kernel
    CLOSING = auto()  # no more requests; further input is discarded


class AccessControl(Protocol):
    """Decides who may connect, and how. Its values may change at any time."""

    tls: "Tls | None"  # for new connections

    @property
    def headers(self) -> tuple[tuple[str, str], ...]:
        """Headers added to every response."""

    def admit(self, request: Request, client: str) -> Response | asyncio.Future[Response | None] | None:
        """Return None to allow the request, or the refusal; a future of either if that takes time."""

    async def watch(self, retire: Callable[[bool], None]) -> None:
        """Watch for changes until cancelled; call ``retire`` if open connections must not stay as they are.

        Its argument is True if their clients may no longer be trusted.
        """

    def close(self) -> None:
        """Release all resources."""


@dataclass(frozen=True, slots=True)
class ServerState:
    """State that all connections of one server share.

    Attributes:
        limits: what one client may cost.
        loop: the event loop of all connections.
        inbox: the buffer into which every connection reads.
        access: who may connect.
        respond: returns head and body for a request, given a refusal, if there is one, and whether to close afterwards.
        unread: called if a client does not read its response as fast as it is written.
        moved: called after a connection has made progress.
        leave: called after a connection has ended.
        failed: called with an exception that nothing else handled.
    """

    limits: Limits
    loop: asyncio.AbstractEventLoop
    inbox: memoryview
    access: AccessControl
    respond: Callable[[Request, Response | None, bool], tuple[h11.Response, bytes]]
    unread: Callable[[], None]
    moved: Callable[["Connection"], None]
    leave: Callable[["Connection"], None]
    failed: Callable[[Exception], None]


def _contained(
    method: Callable[Concatenate["Connection", _Args], _Result],
) -> Callable[Concatenate["Connection", _Args], _Result | None]:
    """Limit an unexpected exception to its own connection: report it and close the connection."""

    @wraps(method)
    def call(connection: "Connection", /, *args: _Args.args, **kwargs: _Args.kwargs) -> _Result | None:
        try:
            return method(connection, *args, **kwargs)
        except Exception as error:  # noqa: BLE001 - whatever a client provoked
            connection.state.failed(error)
            connection.abort()
            return None

    return call


class Connection(asyncio.BufferedProtocol):
    """One client connection.

    Attributes:
        state: what all connections share.
        phase: what the connection is doing.
        progress: loop time of the last progress: accepted, TLS handshake or request completed, or a piece of the
            response taken.
        deadline: loop time by which the phase must end.
        body: the response body while part of it is unsent.
        opening: the task that opens the connection, while it runs.
    """

    __slots__ = (
        "_blocked",
        "_check",
        "_client",
        "_closing",
        "_connected",
        "_counted",
        "_eof",
        "_forbidden",
        "_http",
        "_last",
        "_received",
        "_searched",
        "_sent",
        "_served",
        "_tls",
        "_transport",
        "_unread",
        "body",
        "deadline",
        "opening",
        "phase",
        "progress",
        "state",
    )

    def __init__(self, state: ServerState, tls: "Tls | None" = None) -> None:
        self.state = state
        self._tls = tls
        self._http = h11.Connection(h11.SERVER)
        self._client = ""
        self._connected = False
        self._eof = False  # the client has closed its side
        self._forbidden = False  # its certificate has none of the allowed names
        self._served = False  # at least one request has been answered
        self._last = False  # the next response is the last one
        self._closing = False  # the response in progress is the last one
        self._unread = False  # input may follow that will not be read
        self._received = bytearray()
        self._searched = 0
        self._check: asyncio.Future[Response | None] | None = None
        self._sent = 0  # bytes of the body handed to the transport
        self._counted = False  # the unsent body is known to the server
        self._blocked = False
        self.body = b""
        self.opening: asyncio.Task[object] | None = None
        self.phase = Phase.WAITING
        self.progress = state.loop.time()
        self.deadline = self.progress + state.limits.request_seconds

    @_contained
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Store the transport and set it to report as soon as it buffers a byte for a slow reader."""
        self._transport = cast("asyncio.Transport", transport)  # what asyncio gives for TCP and TLS
        self._transport.set_write_buffer_limits(high=1)  # 0 would leave its TLS transport paused for ever
        if self._tls is not None:  # reads on while it is paused, by default until 256 KiB wait to be decrypted
            cast("Any", transport).set_read_buffer_limits(high=_UNDECRYPTED)
        self._connected = True
        self._client = str((transport.get_extra_info("peername") or ("",))[0])
        self._forbidden = self._tls is not None and not self._tls.knows(transport.get_extra_info("ssl_object"))
        self._moved()  # a completed TLS handshake

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio's signature
        """Release everything."""
        self._release()
        if self._connected:
            self._connected = False
            del self._transport  # asyncio's TLS refers back: 65 kB would stay until a garbage collection
        self.state.leave(self)

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002 - asyncio's signature
        """Return the shared buffer: asyncio fills it and calls buffer_updated without a pause."""
        return self.state.inbox

    @_contained
    def buffer_updated(self, nbytes: int) -> None:
        """Process received bytes. A request's first byte starts its deadline; later ones do not extend it."""
        if self.phase is not Phase.CLOSING:
            self._received += self.state.inbox[:nbytes]
            self._proceed()

    def eof_received(self) -> bool:
        """Still answer a client that closes its side after the request; TLS has no half-closed connections."""
        return bool(self._take_eof())

    @_contained
    def _take_eof(self) -> bool:
        if self.phase is Phase.CLOSING:
            return False
        self._eof = True
        if self.phase is Phase.WAITING:
            return False
        if self.phase is Phase.RECEIVING:
            self._refuse(400)
        return self._tls is None

    @_contained
    def pause_writing(self) -> None:
        """Stop writing pieces: the client does not read as fast as the server writes."""
        self._blocked = True
        if self.body and not self._counted:
            self._counted = True
            self.state.unread()

    @_contained
    def resume_writing(self) -> None:
        """Write the next piece in the next turn: within this call, asyncio would repeat a shutdown and fail."""
        self._blocked = False
        self._moved()
        self.state.loop.call_soon(self._write_on)

    @_contained
    def expire(self) -> None:
        """End the phase that has lasted too long."""
        if self.phase is Phase.RECEIVING:
            self._refuse(408)
        elif self.phase is Phase.CHECKING:
            self._cancel_check()
            self._refuse(503)
        else:
            self.abort()

    @_contained
    def retire(self, distrust: bool) -> None:  # noqa: FBT001 - AccessControl's signature
        """Close after the current request; close an idle connection that has been served now.

        With ``distrust``, only a response that has already begun is completed.
        """
        if self.phase is Phase.WRITING:
            self._closing = True
        elif not self._connected:
            if distrust:
                self.abort()
            self._last = True
        elif distrust or (self.phase is Phase.WAITING and self._served):
            self._cancel_check()
            self.phase, self.deadline = Phase.CLOSING, self.state.loop.time() + self.state.limits.linger_seconds
            self._transport.close()
        else:
            self._last = True

    def abort(self) -> None:
        """Close at once, without the rest of a response."""
        self._release()
        if self._connected:
            self._transport.abort()
        elif self.opening is not None:
            self.opening.cancel()
        self.state.leave(self)

    @property
    def is_busy(self) -> bool:
        """Whether a request is being checked or answered."""
        return self.phase is Phase.WRITING or self.phase is Phase.CHECKING

    def _moved(self) -> None:
        self.progress = self.state.loop.time()
        self.state.moved(self)

    def _release(self) -> None:
        self.phase = Phase.CLOSING
        self.body = b""
        self._received.clear()
        self._cancel_check()

    @_contained
    def _proceed(self) -> None:
        """Answer the next request if its header is complete."""
        received, limits = self._received, self.state.limits
        if self.phase is Phase.WAITING:
            empty = _EMPTY_LINES.match(received)
            del received[: empty.end() if empty else 0]
            if not received or received == b"\r":
                return
            self.phase, self._searched = Phase.RECEIVING, 0
            self.deadline = min(self.deadline, self.state.loop.time() + limits.request_seconds)
        if self.phase is not Phase.RECEIVING:
            return
        found = _HEADER_END.search(received, max(0, self._searched - 2))
        self._searched = len(received)
        size = found.end() if found else len(received)
        if size > limits.header_bytes or (found and received.count(b"\n", 0, size) > limits.header_lines):
            self._refuse(431)
        elif found:
            self._parse(size)
        elif received[0] < _FIRST_PRINTABLE:
            self._refuse(400)

    def _parse(self, size: int) -> None:
        """Parse the header in the first ``size`` bytes. What follows it is a body, or pipelined."""
        self._http.receive_data(bytes(self._received[:size]))
        try:
            event = self._http.next_event()
        except h11.RemoteProtocolError as error:
            self._refuse(error.error_status_hint)
            return
        if not isinstance(event, h11.Request):
            self._refuse(400)
        elif not event.http_version.startswith(b"1."):
            self._refuse(505)
        else:
            self._unread = len(self._received) > size
            self._received.clear()
            self._admit(parse_request(event, self._client))

    def _admit(self, request: Request) -> None:
        self._moved()
        if request.has_body:
            self._unread = True
        else:
            self._http.next_event()  # the end of the message, which h11 has already seen
        refusal = plain(403) if self._forbidden else self.state.access.admit(request, self._client)
        if isinstance(refusal, asyncio.Future):
            self.phase, self._check = Phase.CHECKING, refusal
            self.deadline = self.progress + self.state.limits.check_seconds
            self._received += request.method.encode()  # so that _refuse() can use it
            self._transport.pause_reading()  # the next request has to wait for this one
            refusal.add_done_callback(partial(self._checked, request))
        else:
            self._respond(request, refusal)

    @_contained
    def _checked(self, request: Request, check: asyncio.Future[Response | None]) -> None:
        if self._check is check and not check.cancelled():
            self._check = None
            self._respond(request, check.result())

    def _cancel_check(self) -> None:
        check, self._check = self._check, None
        if check is not None:
            check.cancel()

    def _respond(self, request: Request, refusal: Response | None) -> None:
        self._closing = self._unread or self._last or self._eof
        head, body = self.state.respond(request, refusal, self._closing)
        self._send(head, b"" if request.method == "HEAD" else body)

    def _refuse(self, status: int) -> None:
        """Send an error and close. Without a parsed request, its first bytes show whether it is HEAD."""
        response = plain(status)
        self._unread = self._closing = True
        is_head = self._received.partition(b" ")[0] == b"HEAD"
        self._send(head(response, self.state.access.headers, close=True), b"" if is_head else response.body)

    def _send(self, head: h11.Response, body: bytes) -> None:
        """Send ``head`` and ``body``; if the client stops reading, send the rest when it reads again."""
        if head.status_code in {204, 304}:
            body = b""
        data = self._http.send(head)
        if not self._closing:
            if body:
                self._http.send_with_data_passthrough(h11.Data(data=body))
            self._http.send(h11.EndOfMessage())
            self._closing = self._http.our_state is not h11.DONE
        self._received.clear()
        self.phase = Phase.WRITING
        self._moved()
        self.deadline = self.progress + self.state.limits.write_seconds
        self.body, self._sent, self._counted = body, min(_PIECE, len(body)), False
        self._transport.pause_reading()  # otherwise pipelined requests would fill the memory
        self._transport.write(data + body[:_PIECE])
        self._write_on()

    @_contained
    def _write_on(self) -> None:
        """Write the next piece, one per turn, so that others get theirs and a lost transport can report it."""
        if self.phase is not Phase.WRITING or self._blocked:
            return
        if self._sent < len(self.body):
            piece = memoryview(self.body)[self._sent : self._sent + _PIECE]
            self._sent += len(piece)
            self._moved()
            self._transport.write(piece)
            self.state.loop.call_soon(self._write_on)
        else:
            self._end_answer(self._transport)

    def _end_answer(self, transport: asyncio.Transport) -> None:
        limits, now = self.state.limits, self.state.loop.time()
        self.body = b""
        self._moved()
        if not self._closing:
            self._http.start_next_cycle()
            self._served = True
            self.phase, self.deadline = Phase.WAITING, now + limits.idle_seconds
            transport.resume_reading()
            return
        self.phase, linger = Phase.CLOSING, now + limits.linger_seconds
        if self._eof or not self._unread:
            # asyncio's TLS does not say when its last 64 kB are sent, so a slow client may take all its time for them.
            self.deadline = linger if self._tls is None else max(linger, self.deadline)
            transport.close()
            return
        self.deadline = linger
        # Closing with input unread makes the kernel send a reset, which destroys the response on its way.
        transport.resume_reading()
        if transport.can_write_eof():
            with contextlib.suppress(OSError):  # the client has already reset the connection
                transport.write_eof()
