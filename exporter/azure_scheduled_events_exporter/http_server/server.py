"""Listens and serves an application with uvicorn's HTTP/1.1 protocol.

Adds what that lacks: deadlines, a limit of connections, and TLS that can change. Must not know what
is served, users or files.
"""

import asyncio
import logging
import os
import socket
from asyncio import sslproto
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

from azure_scheduled_events_exporter.errors import ExporterError

from .app import App
from .listen_address import ListenAddress

if TYPE_CHECKING:  # as in ``app``
    from .tls import Tls

_BACKLOG = 4096  # connections that the kernel keeps
_ACCEPTED = 16  # at most so many are accepted before open connections get their turn
# bytes that the kernel, and asyncio, keep of a response: they would keep megabytes
_UNSENT = 64 * 1024
_TLS_RECORD = 16 * 1024  # bytes of one TLS record
_REPEAT_SECONDS = 60.0  # in which the log says once that there are too many connections


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits for all clients together, and for each connection."""

    # From accept to the first complete request header, a TLS handshake included; later from the
    # first byte of a request to its complete header.
    header_seconds: float = 10.0
    response_seconds: float = 30.0  # from a complete header until the client has taken the response
    idle_seconds: int = 130  # between two requests: more than two scrapes a minute apart
    connections: int = 512


class Server(ServerState):
    """Serves ``app`` at ``address``. Call start, read ``port`` and call stop on one event loop.

    uvicorn's own server is not used: it has signal handlers, refuses connections beyond its limit,
    waits for the others at its end, and wakes the process ten times a second.

    Attributes:
        port: the bound port, after start.
        connections: the open ones, also during their TLS handshake.
    """

    def __init__(
        self, address: ListenAddress, app: App, log: logging.Logger, limits: Limits = Limits()
    ) -> None:
        super().__init__()
        # uvicorn's, of this class only
        self.connections: set[Connection] = set()  # type: ignore[assignment]
        self.app = app
        self.limits = limits
        self.port = address.port
        self.config = uvicorn.Config(
            cast("Any", app),
            http=Connection,
            ws="none",
            log_config=None,
            log_level=logging.ERROR,  # uvicorn warns of each malformed request
            access_log=False,
            proxy_headers=False,
            timeout_keep_alive=limits.idle_seconds,
        )
        self._address = address
        self._log = log
        self._warned_at = float("-inf")
        self._listening: asyncio.Server | None = None

    async def start(self) -> None:
        """Listen and serve.

        Raises:
            ExporterError: the address is in use, not of this machine, or not permitted.
        """
        try:
            listener = self._listen()
        except socket.gaierror as error:
            raise self._cannot_listen(str(error.strerror)) from error
        except OSError as error:
            # socket.create_server adds the address, as a tuple, to the error's own text.
            raise self._cannot_listen(os.strerror(error.errno or 0)) from error
        self.port = int(listener.getsockname()[1])
        loop = asyncio.get_running_loop()
        self._listening = await loop.create_server(
            lambda: Connection(self), sock=listener, backlog=_ACCEPTED
        )
        listener.listen(_BACKLOG)  # asyncio has set it to the number that it accepts at once
        if self.app.access:
            _limit_tls_buffers()
            self.tasks.add(loop.create_task(self.app.access.watch(self._retire)))

    async def stop(self) -> None:
        """Stop listening and close every connection at once, also in the middle of a response."""
        if self._listening:
            self._listening.close()
        for connection in list(self.connections):
            connection.shutdown()
        tasks = list(self.tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def make_room(self) -> None:
        """Close a connection if a new one would exceed the limit.

        It is the one that has been idle for longest; if none is idle, busy for longest.
        """
        most = self.limits.connections
        if len(self.connections) < most:
            return
        # False is less than True: idle connections come first.
        oldest = min(self.connections, key=lambda each: (each.is_busy, each.since))
        oldest.shutdown()
        now = asyncio.get_running_loop().time()
        if now - self._warned_at >= _REPEAT_SECONDS:
            self._warned_at = now
            self._log.warning(
                "connection limit reached (%d): closing the connections that are idle for longest",
                most,
            )

    def _cannot_listen(self, reason: str) -> ExporterError:
        """Return the error for ``reason``, with what to do."""
        return ExporterError(
            f"cannot listen on {self._address}: {reason}; choose another address or port"
            " (--web.listen-address)"
        )

    def _listen(self) -> socket.socket:
        """Return one listening socket, chosen as Go does.

        For all interfaces it is dual-stack. A name with several addresses is bound to the first
        IPv4 address, or to the first IPv6 address if it has no other.
        """
        is_dual = socket.has_dualstack_ipv6()
        host: str | None = self._address.host
        if not host:
            host = "::" if is_dual else None
        found = socket.getaddrinfo(
            host, self._address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        # min() returns the first of the least: False, an IPv4 address, is less than True.
        family, _, _, _, where = min(found, key=lambda info: info[0] != socket.AF_INET)
        both = host == "::" and is_dual
        listener = socket.create_server(where, family=family, dualstack_ipv6=both)
        # inherited; without it an answer waits 40 ms
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _UNSENT)
        return listener

    def _retire(self) -> None:
        """Close each connection with its next response.

        Clients then connect with the new TLS settings.
        """
        for connection in self.connections:
            connection.is_last = True


def _limit_tls_buffers() -> None:
    """Limit what asyncio keeps for each TLS connection, for this whole process.

    It gives each a buffer of 256 KiB: 512 idle clients would cost 128 MiB. It has no parameter.
    """
    sslproto.SSLProtocol.max_size = _TLS_RECORD


class Connection(H11Protocol):
    """A connection that is closed when it is too slow, or when there are too many.

    Attributes:
        since: when it began to be idle, or busy, in seconds of the event loop's clock.
        is_last: whether the connection ends with its next response.
        is_forbidden: whether the client's certificate has none of the allowed names.
    """

    since = 0.0
    is_last = False
    is_forbidden = False

    def __init__(self, owner: Server) -> None:
        super().__init__(owner.config, owner, {"connection": self})
        self._owner = owner
        self._deadline: asyncio.TimerHandle | None = None
        self._early = b""  # arrives in the same read as the end of the handshake

    @property
    def is_busy(self) -> bool:
        """Whether a request is being answered."""
        return self.cycle is not None and not self.cycle.response_complete

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as in uvicorn
        """Make room for this connection, and begin the TLS handshake if TLS is on."""
        self.transport = transport
        self._owner.make_room()
        self.connections.add(self)
        self._enter(self._owner.limits.header_seconds)
        access = self._owner.app.access
        tls = access.config.tls if access else None
        if tls is None:
            self._begin(transport)
            return
        transport.pause_reading()
        # a task needs a reference
        self._handshake = self.loop.create_task(self._start_tls(transport, tls))

    async def _start_tls(self, transport: asyncio.Transport, tls: "Tls") -> None:
        """Make the TLS handshake, then begin to read requests."""
        try:
            encrypted = await self.loop.start_tls(transport, self, tls.context, server_side=True)
        except OSError:  # also what OpenSSL raises; such a client is of no interest
            self.shutdown()
            return
        if encrypted is not None and self in self.connections:
            self.is_forbidden = not tls.knows(encrypted.get_extra_info("ssl_object"))
            self._begin(encrypted)

    def _begin(self, transport: asyncio.Transport) -> None:
        """Begin to read requests from ``transport``."""
        transport.set_write_buffer_limits(high=_UNSENT)
        super().connection_made(transport)
        if self._early:
            self.data_received(self._early)

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        self._enter(None)
        super().connection_lost(exc)

    def eof_received(self) -> bool:  # type: ignore[override]  # asyncio's meaning of the result
        """Return whether the connection stays open, although the client has closed its side.

        It does for the answer to a request that is under way, without TLS: asyncio has no
        half-closed TLS connections.
        """
        self.is_last = self.is_busy and self.scheme != "https"
        return self.is_last

    def data_received(self, data: bytes) -> None:
        """Take received bytes.

        The first ones of a request start its deadline, later ones do not extend it.
        """
        if self.scheme is None:  # the handshake is not over
            self._early += data
            return
        if self._deadline is None:
            self._enter(self._owner.limits.header_seconds)
        super().data_received(data)

    def handle_events(self) -> None:
        """Begin the request, if its header is complete."""
        before = self.cycle
        super().handle_events()
        if self.cycle is not before:
            self._enter(self._owner.limits.response_seconds)
            # More requests may have been sent at once: one is answered, and the connection closes.
            self.is_last = self.is_last or bool(self.conn.trailing_data[0])

    def on_response_complete(self) -> None:
        """Wait for the next request.

        A response that ends the connection keeps its deadline: the client may not have read it.
        """
        if not self.transport.is_closing():
            self._enter(None)
        super().on_response_complete()

    def send_400_response(self, msg: str) -> None:
        """Refuse what is not HTTP; the malformed body of a request ends the connection."""
        if self.is_busy:
            self.shutdown()
        else:
            super().send_400_response(msg)

    def shutdown(self) -> None:
        """Close at once, without the rest of a response."""
        self.connections.discard(self)
        if self.cycle is not None:
            self.cycle.disconnected = True
        self.transport.abort()

    # uvicorn's would wait for a client that does not read its last response
    timeout_keep_alive_handler = shutdown

    def _enter(self, seconds: float | None) -> None:
        """Begin to wait, or to answer: for at most ``seconds``; None for no limit."""
        self.since = self.loop.time()
        if self._deadline is not None:
            self._deadline.cancel()
        self._deadline = None if seconds is None else self.loop.call_later(seconds, self.shutdown)
