"""The exporter's HTTP/1.1 server: accepts connections, enforces limits across them, and routes requests to handlers.

Paths, handlers and access control are arguments; must not depend on metrics, IMDS or events. A handler runs on the
event loop's thread, so it must not block. ``connection`` handles one connection; none waits for the TLS handshake of
another. One sweep closes connections past their deadline. At the limit of connections, the one without progress for
longest is closed, so a client that sends a request gets an answer, even if many others send nothing.
"""

import asyncio
import errno
import itertools
import logging
import socket
import sys
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

import h11

from azure_scheduled_events_exporter.errors import ExporterError

from .connection import AccessControl, Connection, Limits, ServerState
from .listen_address import ListenAddress, listen, why_not
from .messages import Request, Response, head, plain

if TYPE_CHECKING:
    from .tls import Tls

_INBOX = 16 * 1024  # bytes read at once; every connection reads into the same buffer
_SEND_BUFFER = 64 * 1024  # bytes that the kernel keeps of a response; it would take megabytes
_ACCEPT_SHARE = 8  # at most 1/8 of the connection limit is accepted before open connections get their turn
_ACCEPT_PAUSE = 0.1  # seconds until the next try after accept has failed
_EVICTION_PAUSE = 0.005  # the same after a connection was closed for its descriptor
_REPEAT_SECONDS = 60.0  # in which the same message is logged once
_RESERVED_DESCRIPTORS = 64  # for IMDS, journal, collector and Alertmanager
_NETWORK_NAME_DELETED = 64  # Windows: the client has reset the connection before accept
_LIMITS = Limits()
Handler = Callable[[Request], Response]


class AllowAll:
    """Plain HTTP without authentication, used without a web configuration."""

    tls: "Tls | None" = None
    headers: tuple[tuple[str, str], ...] = ()

    def admit(self, request: Request, client: str) -> None:
        """Allow every request."""

    async def watch(self, retire: Callable[[bool], None]) -> None:
        """Return: nothing ever changes."""

    def close(self) -> None:
        """Do nothing: no resources are held."""


class Server:
    """Serves ``routes`` (path to handler) at ``address``.

    Call start, read ``port`` and call stop on one event loop.
    """

    def __init__(
        self,
        address: ListenAddress,
        routes: Mapping[str, Handler],
        limits: Limits = _LIMITS,
        *,
        access: AccessControl | None = None,
        log: logging.Logger,
    ) -> None:
        self._address = address
        self._routes = routes
        self._limits = limits
        self._most = connection_limit(limits.connections)
        self._access = access or AllowAll()
        self._log = log
        self._connections: dict[Connection, socket.socket] = {}  # by last progress, the oldest first
        self._opening: set[asyncio.Task[object]] = set()
        self._failing: dict[str, type[Exception]] = {}  # paths whose handler failed when last asked
        self._logged: dict[str, float] = {}  # messages, and until when they are not logged again
        self._listener: socket.socket | None = None
        self._acceptor: asyncio.Task[None] | None = None
        self._watcher: asyncio.Task[None] | None = None
        self._sweep: asyncio.TimerHandle | None = None
        self.port = address.port

    async def start(self) -> None:
        """Listen and serve; afterwards ``port`` is the bound port.

        Raises:
            ExporterError: the address is in use, not of this machine, or not permitted.
        """
        try:
            listener = listen(self._address, self._limits.backlog)
        except OSError as error:
            raise ExporterError(f"cannot listen on {self._address}: {why_not(error)} (--web.listen-address)") from error
        listener.settimeout(0)  # asyncio requires it
        self._listener = listener
        self.port = int(listener.getsockname()[1])
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(partial(_log_failed_callback, loop.get_exception_handler()))
        state = ServerState(
            limits=self._limits,
            loop=loop,
            inbox=memoryview(bytearray(_INBOX)),
            access=self._access,
            respond=self._respond,
            unread=self._limit_unsent,
            moved=self._moved,
            leave=self._left,
            failed=self._log_failure,
        )
        self._acceptor = loop.create_task(self._accept(listener, state))
        self._watcher = loop.create_task(self._access.watch(self._retire))

    async def stop(self) -> None:
        """Stop listening and close every connection at once, also in the middle of a response."""
        if self._listener is None or self._acceptor is None or self._watcher is None:
            return
        with suppress(NotImplementedError):  # Windows' loop has no readers
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
        self._access.close()
        for _ in range(2):  # asyncio closes sockets a turn after abort, those under TLS two
            await asyncio.sleep(0)

    async def _accept(self, listener: socket.socket, state: ServerState) -> None:
        """Accept connections until cancelled. After a failed accept, wait and retry."""
        while True:
            for _ in range(max(1, self._most // _ACCEPT_SHARE)):
                try:
                    client, _ = await state.loop.sock_accept(listener)
                except OSError as error:
                    if client_left(error):
                        continue
                    self._log_once("cannot accept connections", error.strerror or str(error))
                    full = error.errno in {errno.EMFILE, errno.ENFILE} and self._make_room()
                    await asyncio.sleep(_EVICTION_PAUSE if full else _ACCEPT_PAUSE)
                else:
                    await self._admit(client, state)
            await asyncio.sleep(0)

    async def _admit(self, client: socket.socket, state: ServerState) -> None:
        """Open a connection for an accepted client, after making room for it."""
        try:
            if not is_connected(client):
                client.close()
                return
            while len(self._connections) >= self._most:
                if self._make_room():
                    full = f"connection limit reached ({self._most}): closing idle connections"
                    self._log_once(full, level=logging.WARNING)
                    break
                await asyncio.sleep(0)  # a turn reads requests
            self._open(client, state)
        except Exception as error:  # noqa: BLE001 - one client must not end the acceptor
            self._log_failure(error)
            client.close()
        except asyncio.CancelledError:
            client.close()
            raise

    def _open(self, client: socket.socket, state: ServerState) -> None:
        with suppress(OSError):  # asyncio sets it only on sockets created with IPPROTO_TCP; else a piece waits 40 ms
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            client.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SEND_BUFFER)
        tls = self._access.tls
        connection = Connection(state, tls)
        opening: asyncio.Task[object] = state.loop.create_task(
            state.loop.connect_accepted_socket(
                lambda: connection,
                client,
                ssl=tls.context if tls else None,
                ssl_handshake_timeout=self._limits.request_seconds if tls else None,
                ssl_shutdown_timeout=self._limits.write_seconds if tls else None,  # its deadline may be earlier
            )
        )

        def opened(task: asyncio.Task[object]) -> None:
            self._opening.discard(task)
            connection.opening = None
            error: BaseException | None
            try:
                error = task.exception()
            except asyncio.CancelledError as cancelled:
                error = cancelled
            if error is not None:
                self._log.debug("an incoming connection could not be accepted: %r", task)
                error.__traceback__ = None  # its frames refer to it: 65 kB of TLS would stay until a collection
                client.close()
                self._left(connection)

        connection.opening = opening
        self._connections[connection] = client
        self._opening.add(opening)
        opening.add_done_callback(opened)
        if self._sweep is None:
            self._sweep = state.loop.call_later(self._sweep_seconds(), self._expire, state.loop)

    def _make_room(self) -> bool:
        """Close the connection that has made no progress for longest; return False if none may be closed now.

        A client whose request is being answered, or whose bytes are unread, is kept until ``grace_seconds`` after its
        last progress.
        """
        oldest = next(iter(self._connections), None)
        if oldest is None:
            return False
        latest = oldest.progress + self._limits.grace_seconds
        younger = itertools.takewhile(lambda item: item[0].progress < latest, self._connections.items())
        idle = next((one for one, client in younger if not (one.is_busy or has_unread(client))), None)
        if idle is None and not oldest.is_busy and asyncio.get_running_loop().time() < latest:
            return False
        (idle or oldest).abort()
        return True

    def _moved(self, connection: Connection) -> None:
        """Move a connection that has made progress to the end of the order."""
        client = self._connections.pop(connection, None)
        if client is not None:
            self._connections[connection] = client

    def _left(self, connection: Connection) -> None:
        self._connections.pop(connection, None)

    def _limit_unsent(self) -> None:
        """Enforce the limit of unread responses: close the connections that have made no progress for longest."""
        held = [one for one in self._connections if one.body]
        readers = Counter(id(one.body) for one in held)
        total = sum({id(one.body): len(one.body) for one in held}.values())
        latest = asyncio.get_running_loop().time() - self._limits.grace_seconds
        for one in held[:-1]:
            if total <= self._limits.unsent_bytes or one.progress > latest:
                return
            body = one.body
            readers[id(body)] -= 1
            if not readers[id(body)]:
                total -= len(body)
            one.abort()

    def _retire(self, distrust: bool) -> None:  # noqa: FBT001 - AccessControl's signature
        """Make every client reconnect, so that the current TLS settings apply to it."""
        for connection in tuple(self._connections):
            connection.retire(distrust)

    def _sweep_seconds(self) -> float:
        limits = self._limits
        shortest = min(
            limits.request_seconds,
            limits.check_seconds,
            limits.write_seconds,
            limits.idle_seconds,
            limits.linger_seconds,
        )
        return max(0.01, min(1.0, shortest))  # deadlines are kept to a second: cheaper than a timer per request

    def _expire(self, loop: asyncio.AbstractEventLoop) -> None:
        now = loop.time()
        for connection in [one for one in self._connections if one.deadline <= now]:
            connection.expire()
        self._limit_unsent()
        self._sweep = loop.call_later(self._sweep_seconds(), self._expire, loop) if self._connections else None

    def _respond(self, request: Request, refusal: Response | None, close: bool) -> tuple[h11.Response, bytes]:  # noqa: FBT001 - ServerState's signature
        """Return head and body for ``request``, also if its handler fails."""
        handler, extra = self._routes.get(request.path), self._access.headers
        if refusal is not None:
            response = refusal
        elif handler is None:
            response = plain(404)
        elif request.method not in {"GET", "HEAD"}:
            response = plain(405, ("Allow", "GET, HEAD"))
        else:
            try:
                response = handler(request)
                answer = head(response, extra, close=close)
            except Exception as error:  # noqa: BLE001 - the server outlives any handler
                self._log_handler(request.path, error)
                response = plain(500)
            else:
                if self._failing.pop(request.path, None):
                    self._log.info("%s answers again", request.path)
                return answer, response.body
        return head(response, extra, close=close), response.body

    def _log_handler(self, path: str, error: Exception) -> None:
        """Log a failing handler when it begins to fail or the error changes, not at every request."""
        if self._failing.get(path) is not type(error):
            self._log.error("answering %s failed: %r", path, error, exc_info=error)
        self._failing[path] = type(error)

    def _log_failure(self, error: Exception) -> None:
        self._log_once(f"connection closed after an internal error: {type(error).__name__}", error=error)

    def _log_once(
        self, message: str, reason: str = "", error: Exception | None = None, level: int = logging.ERROR
    ) -> None:
        """Log an error or a warning at most once a minute, because clients may be able to repeat it."""
        now = asyncio.get_running_loop().time()
        if now >= self._logged.get(message, 0.0):
            self._logged[message] = now + _REPEAT_SECONDS
            self._log.log(level, f"{message}: {reason}" if reason else message, exc_info=error)


def connection_limit(wanted: int) -> int:
    """Return how many connections the limit of descriptors (RLIMIT_NOFILE) allows, at most ``wanted``."""
    if sys.platform == "win32":
        return wanted
    import resource  # noqa: PLC0415 - not on Windows

    descriptors, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if descriptors == resource.RLIM_INFINITY:
        return wanted
    return max(1, min(wanted, descriptors - min(_RESERVED_DESCRIPTORS, descriptors // 2)))


def is_connected(client: socket.socket) -> bool:
    """Return whether the client has not reset the connection yet: a flood of those costs a fraction of an open one."""
    try:
        client.getpeername()
    except OSError:
        return False
    return True


def has_unread(client: socket.socket) -> bool:
    """Return whether the client has sent bytes that have not been read yet."""
    try:
        return bool(client.recv(1, socket.MSG_PEEK))
    except OSError:
        return False


def _log_failed_callback(
    log: Callable[[asyncio.AbstractEventLoop, dict[str, Any]], object] | None,
    loop: asyncio.AbstractEventLoop,
    context: dict[str, Any],
) -> None:
    """Log an error of a callback of ``loop`` with ``log`` or as asyncio does, except one that a client's reset causes.

    Until https://github.com/python/cpython/issues/156512 was fixed, asyncio ended a connection twice if writing failed
    in ``resume_writing``, as in TLS. The second end fails and changes nothing.
    """
    if isinstance(context.get("exception"), AttributeError) and "_call_connection_lost" in str(context["message"]):
        return
    if log is not None:
        log(loop, context)
    else:
        loop.default_exception_handler(context)


def client_left(error: OSError) -> bool:
    """Return whether accept failed because the client had already closed; then the next accept must not wait."""
    return isinstance(error, ConnectionError) or getattr(error, "winerror", None) == _NETWORK_NAME_DELETED
