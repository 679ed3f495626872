"""One connection: uvicorn's HTTP/1.1 protocol, with deadlines, a limit of connections, and TLS that can be replaced.

Must not know what is served, users or files.
"""

import asyncio
import logging
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from uvicorn.config import Config
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

if TYPE_CHECKING:
    from collections.abc import Callable

    from .tls import Tls

_UNSENT = 64 * 1024  # bytes that asyncio keeps for a client that does not read; under TLS it would keep 512 KiB
_REPEAT_SECONDS = 60.0  # in which the log says once that there are too many connections


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
        open: all connections; those first that have been idle, or busy, for longest.
    """

    def __init__(self, limits: Limits, tls: "Callable[[], Tls | None]", log: logging.Logger) -> None:
        super().__init__()
        self.limits = limits
        self.tls = tls
        self.open: dict[Connection, None] = {}
        self._log = log
        self._warned = float("-inf")

    def make_room(self) -> None:
        """Close a connection if there are too many: the one that is idle for longest, else busy for longest."""
        most = self.limits.connections
        if len(self.open) < most:
            return
        next((each for each in self.open if not each.is_busy), next(iter(self.open))).shutdown()
        if time.monotonic() - self._warned >= _REPEAT_SECONDS:
            self._warned = time.monotonic()
            self._log.warning("connection limit reached (%d): closing the connections that are idle for longest", most)


class Connection(H11Protocol):
    """A connection that is closed when it is too slow, or when it has been idle for longest and there are too many.

    Attributes:
        is_last: whether the connection ends with its next response.
        is_forbidden: whether the client's certificate has none of the allowed names.
    """

    is_last = False
    is_forbidden = False

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, {**app_state, "connection": self}, _loop)
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
        self.state.make_room()
        self._enter(self.state.limits.header_seconds)
        tls = self.state.tls()
        if tls is None:
            self._begin(transport)
        else:
            transport.pause_reading()
            self._handshake = self.loop.create_task(self._start_tls(transport, tls))

    async def _start_tls(self, transport: asyncio.Transport, tls: "Tls") -> None:
        try:
            encrypted = await self.loop.start_tls(
                transport, self, tls.context, server_side=True, ssl_shutdown_timeout=self.state.limits.header_seconds
            )
        except OSError:  # also what OpenSSL raises; such a client is of no interest
            self.shutdown()
            return
        if encrypted is not None and self in self.state.open:
            self.is_forbidden = not tls.knows(encrypted.get_extra_info("ssl_object"))
            self._begin(encrypted)

    def _begin(self, transport: asyncio.Transport) -> None:
        transport.set_write_buffer_limits(high=_UNSENT)
        super().connection_made(transport)
        self._has_begun = True
        if self._early:
            self.data_received(self._early)

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        self.state.open.pop(self, None)
        self._limit(None)
        super().connection_lost(exc)

    def eof_received(self) -> bool:  # type: ignore[override]  # asyncio's meaning of the result
        """Still answer a client that closes its side after its request; TLS has no half-closed connections."""
        if not self.is_busy or self.scheme == "https":
            return False
        self.is_last = True
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
            self._enter(self.state.limits.response_seconds)
            if self.conn.trailing_data[0]:  # more requests, sent at once: one is answered, and the connection closes
                self.is_last = True

    def on_response_complete(self) -> None:
        """Wait for the next request; a response that ends the connection keeps its deadline."""
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
        self.state.open.pop(self, None)
        if self.cycle is not None:
            self.cycle.disconnected = True
        self.transport.abort()

    timeout_keep_alive_handler = shutdown  # uvicorn's would wait for a client that does not read its last response

    def _enter(self, seconds: float | None) -> None:
        """Begin to wait, or to answer: for at most ``seconds``."""
        self.state.open.pop(self, None)
        self.state.open[self] = None
        self._limit(seconds)

    def _limit(self, seconds: float | None) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
        self._deadline = None if seconds is None else self.loop.call_later(seconds, self.shutdown)
