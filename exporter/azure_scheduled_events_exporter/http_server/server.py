"""The exporter's HTTP/1.1 server: who is let in, who has to make room, and which path is answered by whom.

It knows nothing of metrics, IMDS or events: paths and their handlers are handed in, and the door, which knows TLS and
users. A handler runs on the event loop's thread, so it must be quick and must not block. One client is
``connection``'s; nobody else waits for its TLS handshake. One sweep over all connections ends those past their
deadline; at the cap the one that has waited longest for its request makes room: whoever sends a request is answered,
however many others do not.
"""

import asyncio
import errno
import socket
from collections.abc import Callable, Mapping
from contextlib import suppress
from logging import Logger
from typing import TYPE_CHECKING

import h11

from azure_scheduled_events_exporter.errors import ExporterError

from .connection import AccessControl, Connection, Limits, Phase, Request, Response, ServerState, head, plain
from .listen_address import ListenAddress, listen, why_not

if TYPE_CHECKING:
    from .tls import Tls

_INBOX = 16 * 1024  # bytes read at once; every connection reads into the same buffer
_ACCEPT_BURST = 16  # connections accepted before those already here get their turn
_ACCEPT_PAUSE = 0.1  # seconds until the next try after accept has failed
_EVICTION_PAUSE = 0.005  # the same after a connection was closed for its descriptor
_ACCEPT_SILENCE = 60.0  # seconds in which a failing accept is logged once
_LIMITS = Limits()
Handler = Callable[[Request], Response]


class AllowAll:
    """Plain HTTP for everybody, as without a web configuration."""

    tls: "Tls | None" = None
    headers: tuple[tuple[str, str], ...] = ()

    def admit(self, request: Request, client: str) -> None:
        """Let everybody in."""

    async def watch(self, retire: Callable[[], None]) -> None:
        """Nothing ever changes."""

    def close(self) -> None:
        """Nothing is held."""


class Server:
    """Serves ``routes`` (path to handler) at ``address``; start, use ``port``, stop, all on one event loop."""

    def __init__(
        self,
        address: ListenAddress,
        routes: Mapping[str, Handler],
        limits: Limits = _LIMITS,
        *,
        door: AccessControl | None = None,
        log: Logger,
    ) -> None:
        self._address = address
        self._routes = routes
        self._limits = limits
        self._door = door or AllowAll()
        self._log = log
        self._connections: set[Connection] = set()
        self._opening: set[asyncio.Task[object]] = set()
        self._broken: dict[str, type[Exception]] = {}  # paths whose handler failed when last asked
        self._listener: socket.socket | None = None
        self._acceptor: asyncio.Task[None] | None = None
        self._watcher: asyncio.Task[None] | None = None
        self._sweep: asyncio.TimerHandle | None = None
        self.port = address.port

    async def start(self) -> None:
        """Listen and serve; afterwards ``port`` is the port really bound.

        Raises:
            ExporterError: the address is in use, not of this machine, or not permitted.
        """
        try:
            listener = listen(self._address, self._limits.backlog)
        except OSError as error:
            raise ExporterError(f"cannot listen on {self._address}: {why_not(error)} (--web.listen-address)") from error
        listener.settimeout(0)  # asyncio wants it so
        self._listener = listener
        self.port = int(listener.getsockname()[1])
        loop = asyncio.get_running_loop()
        house = ServerState(
            self._limits,
            loop,
            memoryview(bytearray(_INBOX)),
            self._door,
            self._respond,
            self._connections.discard,
        )
        self._acceptor = loop.create_task(self._accept(listener, house))
        self._watcher = loop.create_task(self._door.watch(self._retire))

    async def stop(self) -> None:
        """Stop listening and close every connection at once, in the middle of an answer too."""
        if self._listener is None or self._acceptor is None or self._watcher is None:
            return
        with suppress(NotImplementedError):  # Windows' loop has no readers, and needs none removed
            asyncio.get_running_loop().remove_reader(self._listener)
        await asyncio.sleep(0)  # a connection just accepted reaches the acceptor, instead of being lost
        self._acceptor.cancel()
        self._watcher.cancel()
        await asyncio.wait([self._acceptor, self._watcher])
        self._listener.close()
        self._listener = None
        for connection in tuple(self._connections):
            connection.abort()
        if self._sweep is not None:
            self._sweep.cancel()
            self._sweep = None
        if self._opening:
            await asyncio.wait(self._opening)
        self._door.close()
        for _ in range(2):  # asyncio closes sockets a turn after abort, those under TLS two
            await asyncio.sleep(0)

    async def _accept(self, listener: socket.socket, house: ServerState) -> None:
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

    def _admit(self, client: socket.socket, house: ServerState) -> None:
        if len(self._connections) >= self._limits.connections:
            self._make_room()
        with suppress(OSError):  # asyncio sets it only on sockets that name TCP: without, a piece waits 40 ms
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        tls = self._door.tls
        connection = Connection(house, tls)
        timeout = self._limits.request_seconds if tls else None
        closing = self._limits.linger_seconds if tls else None
        opening: asyncio.Task[object] = house.loop.create_task(
            house.loop.connect_accepted_socket(
                lambda: connection,
                client,
                ssl=tls.context if tls else None,
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
        min(self._connections, key=lambda one: (one.phase in {Phase.CHECKING, Phase.WRITING}, one.since)).abort()
        return True

    def _retire(self) -> None:
        """Let every client come back, so that the TLS of now holds for it."""
        for connection in tuple(self._connections):
            connection.retire()

    def _sweep_seconds(self) -> float:
        limits = self._limits
        shortest = min(
            limits.request_seconds,
            limits.check_seconds,
            limits.write_seconds,
            limits.idle_seconds,
            limits.linger_seconds,
        )
        return max(0.01, min(1.0, shortest))  # a deadline is kept to a second: cheaper than a timer per request

    def _expire(self, loop: asyncio.AbstractEventLoop) -> None:
        now = loop.time()
        for connection in [one for one in self._connections if one.deadline <= now]:
            connection.expire()
        self._sweep = loop.call_later(self._sweep_seconds(), self._expire, loop) if self._connections else None

    def _respond(self, request: Request, refusal: Response | None) -> tuple[h11.Response, bytes]:
        """Return head and body for ``request``; whatever its handler does, there is an answer."""
        handler, extra = self._routes.get(request.path), self._door.headers
        if refusal is not None:
            response = refusal
        elif handler is None:
            response = plain(404)
        elif request.method not in {"GET", "HEAD"}:
            response = plain(405, ("Allow", "GET, HEAD"))
        else:
            try:
                response = handler(request)
                answer = head(response, extra)
            except Exception as error:  # noqa: BLE001 - the server outlives any handler
                self._tell_broken(request.path, error)
                response = plain(500)
            else:
                if self._broken.pop(request.path, None):
                    self._log.info("%s answers again", request.path)
                return answer, response.body
        return head(response, extra), response.body

    def _tell_broken(self, path: str, error: Exception) -> None:
        """Log a failing handler when it begins to fail, or fails in another way, not at every scrape."""
        if self._broken.get(path) is not type(error):
            self._log.error("answering %s failed: %r", path, error, exc_info=error)
        self._broken[path] = type(error)
