"""One connection: uvicorn's HTTP/1.1 protocol, with deadlines, a limit of connections, and TLS that can be replaced.

Must not know what is served, users or files.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from uvicorn.config import Config
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

if TYPE_CHECKING:
    from .tls import Tls

_UNSENT = 64 * 1024  # bytes that asyncio keeps for a client that does not read; under TLS it would keep 512 KiB


@dataclass(frozen=True, slots=True)
class Limits:
    """What clients may cost."""

    header_seconds: float = 10.0  # from accept to the end of the handshake, and to a complete request header
    response_seconds: float = 30.0  # from a complete header until the client has taken the response
    idle_seconds: int = 130  # between two requests: two scrapes, a minute apart
    connections: int = 512


class State(ServerState):
    """What all connections share: uvicorn's state, the limits, and the TLS settings of new connections.

    Attributes:
        idle: connections that wait for a handshake or a request, the longest first.
        busy: connections of which a request is being answered, the longest first.
    """

    def __init__(self, limits: Limits, tls: "Callable[[], Tls | None]", full: Callable[[], None]) -> None:
        super().__init__()
        self.limits = limits
        self.tls = tls
        self.full = full
        self.idle: dict[Connection, None] = {}
        self.busy: dict[Connection, None] = {}

    @property
    def open(self) -> tuple["Connection", ...]:
        """All connections."""
        return (*self.idle, *self.busy)

    def leave(self, connection: "Connection") -> None:
        """Forget a connection."""
        self.idle.pop(connection, None)
        self.busy.pop(connection, None)


class Connection(H11Protocol):
    """A connection that is closed when it is too slow, or when it has been idle for longest and there are too many."""

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, dict(app_state), _loop)
        self.state = cast("State", server_state)
        self._deadline: asyncio.TimerHandle | None = None
        self._has_begun = False
        self._early = b""  # arrives in the same read as the end of the handshake
        self._handshake: asyncio.Task[None] | None = None

    @property
    def is_busy(self) -> bool:
        """Whether a request is being answered."""
        return self.cycle is not None and not self.cycle.response_complete

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as in uvicorn
        """Make room for this connection, and begin the TLS handshake if TLS is on."""
        self.transport = transport
        if len(self.state.idle) + len(self.state.busy) >= self.state.limits.connections:
            self.state.full()
            next(iter(self.state.idle or self.state.busy)).abort()
        self.state.idle[self] = None
        self._limit(self.state.limits.header_seconds)
        tls = self.state.tls()
        if tls is None:
            self._begin(transport)
        else:
            transport.pause_reading()
            self._handshake = self.loop.create_task(self._start_tls(transport, tls))

    async def _start_tls(self, transport: asyncio.Transport, tls: "Tls") -> None:
        seconds = self.state.limits.header_seconds
        try:
            encrypted = await self.loop.start_tls(
                transport,
                self,
                tls.context,
                server_side=True,
                ssl_handshake_timeout=seconds,
                ssl_shutdown_timeout=seconds,
            )
        except OSError:  # also what OpenSSL raises; such a client is of no interest
            self.abort()
            return
        if encrypted is None or self not in self.state.idle:
            return
        if not tls.knows(encrypted.get_extra_info("ssl_object")):
            self.app_state["forbidden"] = True
        self._begin(encrypted)

    def _begin(self, transport: asyncio.Transport) -> None:
        transport.set_write_buffer_limits(high=_UNSENT)
        super().connection_made(transport)
        self._has_begun = True
        early, self._early = self._early, b""
        if early:
            self.data_received(early)

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        self.state.leave(self)
        self._unlimit()
        super().connection_lost(exc)

    def eof_received(self) -> bool:  # type: ignore[override]  # asyncio's meaning of the result
        """Still answer a client that closes its side after its request; TLS has no half-closed connections."""
        if not self.is_busy or self.scheme == "https":
            return False
        self.cycle.keep_alive = False
        return True

    def data_received(self, data: bytes) -> None:
        """Take received bytes; the first ones of a request start its deadline, later ones do not extend it."""
        if not self._has_begun:
            self._early += data
            return
        if self._deadline is None:
            self._limit(self.state.limits.header_seconds)
        super().data_received(data)

    def handle_events(self) -> None:
        """Begin the request, if its header is complete."""
        before = self.cycle
        super().handle_events()
        if self.cycle is not before:
            self.state.leave(self)
            self.state.busy[self] = None
            self._limit(self.state.limits.response_seconds)
            if self.conn.trailing_data[0]:  # more requests, sent at once: one is answered, and the connection closes
                self.scope["state"]["retired"] = True

    def on_response_complete(self) -> None:
        """Wait for the next request; a response that ends the connection keeps its deadline."""
        if self in self.state.busy:
            self.state.leave(self)
            self.state.idle[self] = None
        if not self.transport.is_closing():
            self._unlimit()
        super().on_response_complete()

    def send_400_response(self, msg: str) -> None:
        """Refuse what is not HTTP; the malformed body of a request ends the connection."""
        if self.is_busy:
            self.abort()
        else:
            super().send_400_response(msg)

    def timeout_keep_alive_handler(self) -> None:
        """Close without waiting for a client that has not read its last response."""
        self.abort()

    def shutdown(self) -> None:
        """Close at once: the server stops."""
        self.abort()

    def retire(self, *, distrust: bool) -> None:
        """Close with the next response that says so, so that the client connects with the new TLS settings.

        With ``distrust``, the client may no longer read: complete only a response in progress.
        """
        self.app_state["retired"] = True
        if self.is_busy:
            self.scope["state"]["retired"] = True
            self.cycle.keep_alive = not distrust
        elif distrust:
            self.abort()

    def abort(self) -> None:
        """Close at once, without the rest of a response."""
        self.state.leave(self)
        self.transport.abort()

    def _limit(self, seconds: float) -> None:
        self._unlimit()
        self._deadline = self.loop.call_later(seconds, self.abort)

    def _unlimit(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
