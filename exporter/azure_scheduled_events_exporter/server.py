"""The exporter's HTTP/1.1 server: h11 speaks HTTP, the policy towards slow, idle and greedy clients is here.

It knows nothing of metrics, IMDS or events: paths and their handlers are handed in. A handler runs on the
event loop's thread, so it must be quick and must not block.

Theory of operation. One :class:`_Connection` per client holds a phase, a deadline, and no task: bytes come in,
complete requests are answered on the spot, one at a turn of the loop. One sweep over all connections ends those
past their deadline. A response is written in pieces of a shared body, so a client that never reads costs one
piece, not one body. At the cap the connection that has waited longest for its request makes room: whoever sends a
request is answered, however many others do not.
"""

import asyncio
import errno
import re
import socket
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum, auto
from http import HTTPStatus
from logging import Logger
from ssl import SSLContext
from typing import cast
from urllib.parse import unquote

import h11

from .errors import ExporterError

_PIECE = 32 * 1024  # bytes of a body handed to the transport at once: what a client that never reads costs
_INBOX = 16 * 1024  # bytes read at once; every connection reads into the same buffer
_ACCEPT_BURST = 16  # connections accepted before those already here get their turn
_ACCEPT_PAUSE = 0.1  # seconds until the next try after accept has failed
_EVICTION_PAUSE = 0.005  # the same after a connection was closed for its descriptor
_ACCEPT_SILENCE = 60.0  # seconds in which a failing accept is logged once
_HIGHEST_PORT = 65535
_PORT = re.compile(r"\d{1,5}", re.ASCII)
_HOST = re.compile(r"[0-9A-Za-z_.-]*", re.ASCII)
_ABSOLUTE = re.compile(r"https?://[^/?]*", re.IGNORECASE)
_EXPLANATIONS = {
    400: "this is no valid HTTP/1.1 request",
    404: "nothing is served at this path",
    405: "only GET and HEAD are served here",
    408: "the request was not complete in time",
    431: "the header of the request is too large",
    500: "answering failed; the log says why",
    501: "this transfer encoding is not supported",
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


Handler = Callable[[Request], Response]


@dataclass(frozen=True, slots=True)
class Limits:
    """What one client may cost; durations are totals in seconds, not pauses between two bytes."""

    request_seconds: float = 10.0  # from accept, later from a request's first byte, to its complete header
    write_seconds: float = 30.0  # for one response: 1.5 MB at 50 kB/s, the slowest link worth serving
    idle_seconds: float = 120.0  # between two requests: Prometheus scrapes once a minute and misses one
    linger_seconds: float = 1.0  # after an answer to a request unread: closing at once would destroy the answer
    connections: int = 512  # half of the usual limit of 1024 descriptors
    header_bytes: int = 16 * 1024  # more than any scraper, proxy or browser sends
    backlog: int = 1024  # kept by the kernel meanwhile; one more waits a second: 128 overflows at 500 new clients


@dataclass(frozen=True, slots=True)
class ListenAddress:
    """Where to listen; an empty host stands for all interfaces, port 0 for any free port."""

    host: str
    port: int

    def __str__(self) -> str:
        """Return the text that :func:`parse_listen_address` reads."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_listen_address(text: str) -> ListenAddress:
    """Read ``host:port`` as Prometheus and Go write it; IPv6 in brackets, no host for all interfaces.

    Raises:
        ValueError: ``text`` is no such address; the message says what one looks like.
    """
    host, colon, port = text.rpartition(":")
    bracketed = host.startswith("[") and host.endswith("]")
    if bracketed:
        host = host[1:-1]
    if (
        not colon
        or not (_is_ipv6(host) if bracketed else _HOST.fullmatch(host))
        or not _PORT.fullmatch(port)
        or int(port) > _HIGHEST_PORT
    ):
        raise ValueError(
            f"{text[:100]!r} is no listen address: write host:port with a port from 0 to 65535, such as"
            " :10169 (all interfaces), 127.0.0.1:10169 or [::1]:10169"
        )
    return ListenAddress(host, int(port))


def _is_ipv6(host: str) -> bool:
    try:
        socket.inet_pton(socket.AF_INET6, host.partition("%")[0])
    except (OSError, ValueError):
        return False
    return True


def _listen(address: ListenAddress, backlog: int) -> socket.socket:
    """Return one listening socket, as Go does: dual-stack for all interfaces, else IPv4 before IPv6."""
    if not address.host and socket.has_dualstack_ipv6():
        try:
            return _listen(ListenAddress("::", address.port), backlog)
        except OSError as error:
            if error.errno not in {errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT}:
                raise
    if not address.host:
        return socket.create_server(("", address.port), backlog=backlog)
    found = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    family, _, _, _, where = min(found, key=lambda info: info[0] != socket.AF_INET)
    both = address.host == "::" and socket.has_dualstack_ipv6()
    return socket.create_server(where, family=family, backlog=backlog, dualstack_ipv6=both)


def _why_not(error: OSError) -> str:
    """Say why listening failed, and what to do."""
    if isinstance(error, socket.gaierror):
        return "this host name does not resolve; write an address of this machine, or none for all"
    return {
        errno.EADDRINUSE: "another process listens there; end it, or choose another port",
        errno.EADDRNOTAVAIL: "this is no address of this machine; write one that is, or none for all",
        errno.EACCES: "permission denied; ports below 1024 need CAP_NET_BIND_SERVICE, or choose a higher one",
    }.get(error.errno or 0, error.strerror or str(error))


def _plain(status: int, *headers: tuple[str, str]) -> Response:
    body = f"{_EXPLANATIONS[status]}\n".encode()
    return Response(status, body, "text/plain; charset=utf-8", headers)


def _head(response: Response) -> h11.Response:
    """Return the head that h11 is to send; an unknown status or an illegal header raises what it will."""
    headers = [
        ("Content-Type", response.content_type),
        ("Content-Length", str(len(response.body))),
        ("X-Content-Type-Options", "nosniff"),
        *response.headers,
    ]
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


class _Phase(Enum):
    WAITING = auto()  # for the first byte of a request
    RECEIVING = auto()  # part of a request is here
    WRITING = auto()  # an answer is not yet with the kernel
    CLOSING = auto()  # no more requests; what still comes is dropped


@dataclass(frozen=True, slots=True)
class _House:
    """What all connections of one server have in common."""

    limits: Limits
    loop: asyncio.AbstractEventLoop
    inbox: memoryview
    encrypted: bool
    respond: Callable[[Request], tuple[h11.Response, bytes]]
    leave: Callable[["_Connection"], None]


class _Connection(asyncio.BufferedProtocol):
    """One client: its phase, since when it has waited for a request, and when the phase must have ended."""

    __slots__ = (
        "_blocked",
        "_connected",
        "_house",
        "_http",
        "_transport",
        "_unsent",
        "deadline",
        "opening",
        "phase",
        "since",
    )

    def __init__(self, house: _House) -> None:
        self._house = house
        self._http = h11.Connection(h11.SERVER, house.limits.header_bytes)
        self._connected = False
        self._unsent = memoryview(b"")
        self._blocked = False
        self.opening: asyncio.Task[object] | None = None
        self.phase = _Phase.WAITING
        self.since = house.loop.time()
        self.deadline = self.since + house.limits.request_seconds

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport; it tells us as soon as it has to keep a byte for a slow reader."""
        self._transport = cast("asyncio.Transport", transport)  # what asyncio gives for TCP and TLS
        self._transport.set_write_buffer_limits(high=1)  # 0 would leave its TLS transport paused for ever
        self._connected = True

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio's signature
        """Forget the client, whatever it was doing."""
        self.phase = _Phase.CLOSING
        self._unsent = memoryview(b"")
        self._house.leave(self)

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002 - asyncio's signature
        """Read into the one buffer: asyncio fills it and calls buffer_updated without a pause."""
        return self._house.inbox

    def buffer_updated(self, nbytes: int) -> None:
        """Take what has come; the first byte of a request starts its deadline, later ones do not extend it."""
        if self.phase is _Phase.CLOSING:
            return
        self._http.receive_data(bytes(self._house.inbox[:nbytes]))
        if self.phase is _Phase.WAITING:
            self.phase = _Phase.RECEIVING
            latest = self._house.loop.time() + self._house.limits.request_seconds
            self.deadline = min(self.deadline, latest)
        self._proceed()

    def eof_received(self) -> bool:
        """Answer a client that closes its side after the request; TLS knows no half-closed connection."""
        if self.phase is _Phase.CLOSING:
            return False
        self._http.receive_data(b"")
        self._proceed()
        return not self._house.encrypted

    def pause_writing(self) -> None:
        """Hand over no further piece: the client does not read as fast as we write."""
        self._blocked = True

    def resume_writing(self) -> None:
        """Go on with the next piece."""
        self._blocked = False
        self._write_on()

    def expire(self) -> None:
        """End the phase that has lasted too long."""
        if self.phase is _Phase.RECEIVING:
            self._refuse(408)
        else:
            self.abort()

    def abort(self) -> None:
        """Close at once, without the rest of an answer."""
        self.phase = _Phase.CLOSING
        if self._connected:
            self._transport.abort()
        elif self.opening is not None:
            self.opening.cancel()
        self._house.leave(self)

    def _proceed(self) -> None:
        """Answer the next request if it is complete."""
        if self.phase not in {_Phase.WAITING, _Phase.RECEIVING}:
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
        head, body = self._house.respond(request)
        bodiless = request.method == "HEAD" or head.status_code in {204, 304}
        self._send(head, b"" if bodiless else body, close=unread)

    def _refuse(self, status: int) -> None:
        response = _plain(status if status in _EXPLANATIONS else 400)
        self._send(_head(response), response.body, close=True)

    def _send(self, head: h11.Response, body: bytes, *, close: bool) -> None:
        """Write as much as the client takes; the rest follows when it reads."""
        if close:
            fields = [*head.headers, (b"Connection", b"close")]
            head = h11.Response(status_code=head.status_code, headers=fields, reason=head.reason)
        data = self._http.send(head)
        if body:
            self._http.send_with_data_passthrough(h11.Data(data=body))
        self._http.send(h11.EndOfMessage())
        self.phase = _Phase.WRITING
        self.deadline = self._house.loop.time() + self._house.limits.write_seconds
        self._unsent = memoryview(body)[_PIECE:]
        self._transport.write(data + body[:_PIECE])
        self._write_on()
        if self.phase is _Phase.WRITING:
            self._transport.pause_reading()  # else a pipeline would fill our memory meanwhile

    def _write_on(self) -> None:
        if self.phase is not _Phase.WRITING:
            return
        while self._unsent and not self._blocked and not self._transport.is_closing():
            piece, self._unsent = self._unsent[:_PIECE], self._unsent[_PIECE:]
            self._transport.write(piece)
        if self.phase is _Phase.WRITING and not self._unsent and not self._blocked:
            self._end_answer(self._transport)

    def _end_answer(self, transport: asyncio.Transport) -> None:
        http, limits, now = self._http, self._house.limits, self._house.loop.time()
        if http.our_state is h11.DONE and http.their_state is h11.DONE:
            http.start_next_cycle()
            self.since = now
            if any(http.trailing_data):  # a pipeline: others get their turn before its next request
                self.phase, self.deadline = _Phase.RECEIVING, now + limits.request_seconds
                transport.pause_reading()
                self._house.loop.call_soon(self._proceed)
            else:
                self.phase, self.deadline = _Phase.WAITING, now + limits.idle_seconds
                transport.resume_reading()
            return
        self.phase, self.deadline = _Phase.CLOSING, now + limits.linger_seconds
        if http.their_state in {h11.DONE, h11.MUST_CLOSE, h11.CLOSED}:
            transport.close()
            return
        # Closing with input unread makes the kernel send a reset, which destroys the answer on its way.
        transport.resume_reading()
        if transport.can_write_eof():
            transport.write_eof()


class Server:
    """Serves ``routes`` (path to handler) at ``address``; start, use ``port``, stop, all on one event loop."""

    def __init__(
        self,
        address: ListenAddress,
        routes: Mapping[str, Handler],
        limits: Limits = Limits(),
        *,
        tls: SSLContext | None = None,
        log: Logger,
    ) -> None:
        self._address = address
        self._routes = routes
        self._limits = limits
        self._tls = tls
        self._log = log
        self._connections: set[_Connection] = set()
        self._opening: set[asyncio.Task[object]] = set()
        self._broken: dict[str, type[Exception]] = {}  # paths whose handler failed when last asked
        self._listener: socket.socket | None = None
        self._acceptor: asyncio.Task[None] | None = None
        self._sweep: asyncio.TimerHandle | None = None
        self.port = address.port

    async def start(self) -> None:
        """Listen and serve; afterwards ``port`` is the port really bound.

        Raises:
            ExporterError: the address is in use, not of this machine, or not permitted.
        """
        try:
            listener = _listen(self._address, self._limits.backlog)
        except OSError as error:
            raise ExporterError(
                f"cannot listen on {self._address}: {_why_not(error)} (--web.listen-address)"
            ) from error
        listener.settimeout(0)  # asyncio wants it so
        self._listener = listener
        self.port = int(listener.getsockname()[1])
        loop = asyncio.get_running_loop()
        house = _House(
            self._limits,
            loop,
            memoryview(bytearray(_INBOX)),
            self._tls is not None,
            self._respond,
            self._connections.discard,
        )
        self._acceptor = loop.create_task(self._accept(listener, house))

    async def stop(self) -> None:
        """Stop listening and close every connection at once, in the middle of an answer too."""
        if self._listener is None or self._acceptor is None:
            return
        with suppress(NotImplementedError):  # Windows' loop has no readers, and needs none removed
            asyncio.get_running_loop().remove_reader(self._listener)
        await asyncio.sleep(0)  # a connection just accepted reaches the acceptor, instead of being lost
        self._acceptor.cancel()
        await asyncio.wait([self._acceptor])
        self._listener.close()
        self._listener = None
        for connection in tuple(self._connections):
            connection.abort()
        if self._sweep is not None:
            self._sweep.cancel()
            self._sweep = None
        if self._opening:
            await asyncio.wait(self._opening)
        for _ in range(2):  # asyncio closes sockets a turn after abort, those under TLS two
            await asyncio.sleep(0)

    async def _accept(self, listener: socket.socket, house: _House) -> None:
        """Let clients in for ever; a failing accept costs a pause, never the server."""
        quiet_until = 0.0
        while True:
            for _ in range(_ACCEPT_BURST):
                try:
                    client, _ = await house.loop.sock_accept(listener)
                except ConnectionAbortedError:
                    continue  # the client has left before it was let in
                except OSError as error:
                    if house.loop.time() >= quiet_until:
                        quiet_until = house.loop.time() + _ACCEPT_SILENCE
                        self._log.error("cannot accept connections: %s", error.strerror or error)
                    crowded = error.errno in {errno.EMFILE, errno.ENFILE} and self._make_room()
                    await asyncio.sleep(_EVICTION_PAUSE if crowded else _ACCEPT_PAUSE)
                else:
                    self._admit(client, house)
            await asyncio.sleep(0)

    def _admit(self, client: socket.socket, house: _House) -> None:
        if len(self._connections) >= self._limits.connections:
            self._make_room()
        with suppress(OSError):  # asyncio sets it only on sockets that name TCP: without, a piece waits 40 ms
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection = _Connection(house)
        timeout = self._limits.request_seconds if self._tls else None
        closing = self._limits.linger_seconds if self._tls else None
        opening: asyncio.Task[object] = house.loop.create_task(
            house.loop.connect_accepted_socket(
                lambda: connection,
                client,
                ssl=self._tls,
                ssl_handshake_timeout=timeout,
                ssl_shutdown_timeout=closing,
            )
        )

        def opened(task: asyncio.Task[object]) -> None:
            self._opening.discard(task)
            connection.opening = None
            if task.cancelled() or task.exception() is not None:
                self._log.debug("a connection came to nothing: %r", task)
                client.close()
                self._connections.discard(connection)

        connection.opening = opening
        self._connections.add(connection)
        self._opening.add(opening)
        opening.add_done_callback(opened)
        if self._sweep is None:
            self._sweep = house.loop.call_later(self._sweep_seconds(), self._expire, house.loop)

    def _make_room(self) -> bool:
        """Close the connection that has waited longest for its request; one being answered only if all are."""
        if not self._connections:
            return False
        min(self._connections, key=lambda one: (one.phase is _Phase.WRITING, one.since)).abort()
        return True

    def _sweep_seconds(self) -> float:
        limits = self._limits
        shortest = min(limits.request_seconds, limits.write_seconds, limits.idle_seconds, limits.linger_seconds)
        return max(0.01, min(1.0, shortest))  # a deadline is kept to a second: cheaper than a timer per request

    def _expire(self, loop: asyncio.AbstractEventLoop) -> None:
        now = loop.time()
        for connection in [one for one in self._connections if one.deadline <= now]:
            connection.expire()
        self._sweep = loop.call_later(self._sweep_seconds(), self._expire, loop) if self._connections else None

    def _respond(self, request: Request) -> tuple[h11.Response, bytes]:
        """Return head and body for ``request``; whatever its handler does, there is an answer."""
        handler = self._routes.get(request.path)
        if handler is None:
            response = _plain(404)
        elif request.method not in {"GET", "HEAD"}:
            response = _plain(405, ("Allow", "GET, HEAD"))
        else:
            try:
                response = handler(request)
                head = _head(response)
            except Exception as error:  # noqa: BLE001 - the server outlives any handler
                self._tell_broken(request.path, error)
                response = _plain(500)
            else:
                if self._broken.pop(request.path, None):
                    self._log.info("%s answers again", request.path)
                return head, response.body
        return _head(response), response.body

    def _tell_broken(self, path: str, error: Exception) -> None:
        """Log a failing handler when it begins to fail, or fails in another way, not at every scrape."""
        if self._broken.get(path) is not type(error):
            self._log.error("answering %s failed: %r", path, error, exc_info=error)
        self._broken[path] = type(error)
