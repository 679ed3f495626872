"""One connection: uvicorn's HTTP/1.1 protocol, with deadlines and with TLS that can change.

Must not know what is served, users or files. Which connection makes room for another is decided by
``server``.
"""

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING

from uvicorn.protocols.http.h11_impl import H11Protocol

if TYPE_CHECKING:
    from .server import Server
    from .tls import Tls

UNSENT_BYTES = 64 * 1024
"""How much of a response the kernel keeps until the client takes it, and asyncio as well.

Without this limit, each would keep megabytes.
"""


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits for all clients together, and for each connection.

    Attributes:
        header_seconds: from accept to the first complete request header, a TLS handshake included;
            later from the first byte of a request to its complete header.
        response_seconds: from a complete header until the client has taken the response.
        idle_seconds: between two requests. A scraper that comes once a minute, and leaves out one
            scrape, keeps its connection.
        connections: how many are open at most.
    """

    header_seconds: float = 10.0
    response_seconds: float = 30.0
    idle_seconds: int = 130
    connections: int = 512


class Connection(H11Protocol):
    """A connection that is closed when it is too slow, or when there are too many.

    Attributes:
        since: when it began to be idle, or busy, in seconds of the event loop's clock.
        is_last: whether the connection ends with its next response, in which ``app`` says so.
        is_forbidden: whether the client's certificate has none of the allowed names. Then ``app``
            refuses every request.
    """

    since = 0.0
    is_last = False
    is_forbidden = False

    def __init__(self, owner: "Server") -> None:
        state = {"connection": self}  # ``scope["state"]`` of the application
        super().__init__(owner.config, owner, state)
        self._owner = owner
        self._deadline: asyncio.TimerHandle | None = None
        # The TLS handshake while it runs: asyncio keeps no task alive without a reference.
        self._handshake: asyncio.Task[None] | None = None
        self._early = b""  # what has arrived in the same read as the end of the TLS handshake

    @property
    def is_busy(self) -> bool:
        """Whether a request is being answered."""
        return self.cycle is not None and not self.cycle.response_complete

    def connection_made(
        self,
        transport: asyncio.Transport,  # type: ignore[override]  # as in uvicorn
    ) -> None:
        """Make room for this connection, and begin the TLS handshake if TLS is on."""
        self.transport = transport
        self._owner.make_room()
        self.connections.add(self)
        self._enter_phase(self._owner.limits.header_seconds)
        access = self._owner.app.access
        tls = None
        if access is not None:
            tls = access.config.tls
        if tls is None:
            self._begin(transport)
            return
        transport.pause_reading()  # until the task has begun the handshake
        self._handshake = self.loop.create_task(self._start_tls(transport, tls))

    async def _start_tls(self, transport: asyncio.Transport, tls: "Tls") -> None:
        """Make the TLS handshake, then begin to read requests."""
        try:
            encrypted = await self.loop.start_tls(transport, self, tls.context, server_side=True)
        except OSError:  # also what OpenSSL raises; such a client is of no interest
            self.shutdown()
            return
        if encrypted is None or self not in self.connections:
            return  # it was closed during the handshake
        self.is_forbidden = not tls.accepts(encrypted.get_extra_info("ssl_object"))
        self._begin(encrypted)

    def _begin(self, transport: asyncio.Transport) -> None:
        """Begin to read requests from ``transport``."""
        transport.set_write_buffer_limits(high=UNSENT_BYTES)
        super().connection_made(transport)
        if self._early:
            self.data_received(self._early)

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        self._enter_phase(None)  # ends the deadline
        super().connection_lost(exc)

    def eof_received(self) -> bool:  # type: ignore[override]  # asyncio's meaning of the result
        """Return whether the connection stays open, although the client has closed its side.

        It does for the answer to a request that is under way, which is then the last one. With TLS
        it does not: asyncio has no half-closed TLS connections.
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
            self._enter_phase(self._owner.limits.header_seconds)
        super().data_received(data)

    def handle_events(self) -> None:
        """Begin to answer a request, if its header is complete now."""
        before = self.cycle
        super().handle_events()
        if self.cycle is not before:  # uvicorn makes a cycle for each request
            self._enter_phase(self._owner.limits.response_seconds)
            # The client may have sent more requests without waiting for the answer: only this one
            # is answered.
            self.is_last = self.is_last or bool(self.conn.trailing_data[0])

    def on_response_complete(self) -> None:
        """Wait for the next request.

        A response that ends the connection keeps its deadline: the client may not have read it.
        """
        if not self.transport.is_closing():
            self._enter_phase(None)
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

    def _enter_phase(self, seconds: float | None) -> None:
        """Begin to wait or to answer, for at most ``seconds``; None for no limit.

        Idle connections have uvicorn's limit instead.
        """
        self.since = self.loop.time()
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
        if seconds is not None:
            self._deadline = self.loop.call_later(seconds, self.shutdown)
