"""Listens for connections, limits their number, and closes them at the end.

``connection`` speaks HTTP. Must not know what is served, users or files.
"""

import asyncio
import logging
import os
import socket
from asyncio import sslproto
from typing import Any, cast

import uvicorn
from uvicorn.server import ServerState

from azure_scheduled_events_exporter.errors import ExporterError

from .app import App
from .connection import UNSENT_BYTES, Connection, Limits
from .listen_address import ListenAddress

_USUAL_LIMITS = Limits()
_BACKLOG = 4096  # connections that wait in the kernel until they are accepted
_ACCEPTED = 16  # at most so many are accepted before open connections get their turn
_TLS_RECORD = 16 * 1024  # bytes of one TLS record
_REPEAT_SECONDS = 60.0  # in which the log says once that there are too many connections


class Server(ServerState):
    """Serves ``app`` at ``address``. Call :meth:`start` and :meth:`stop` on one event loop.

    uvicorn's own server is not used: it has signal handlers, refuses connections beyond its limit,
    waits for the others at its end, and wakes the process ten times a second. Its
    :class:`ServerState` is what its protocol needs of a server.

    Attributes:
        port: the port of the address; after :meth:`start`, the one that is bound.
        connections: the open ones, also during their TLS handshake.
        app: the application.
        limits: for all connections.
        config: uvicorn's settings, for the connections.
    """

    def __init__(
        self, address: ListenAddress, app: App, log: logging.Logger, limits: Limits = _USUAL_LIMITS
    ) -> None:
        super().__init__()
        # The set that uvicorn's protocol uses; here it has only objects of the class Connection.
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
        # For asyncio, ``backlog`` is both the number that it accepts at once and the length of the
        # kernel's queue. Listening again makes only the queue longer.
        listener.listen(_BACKLOG)
        if self.app.access:  # it has the users and the TLS settings, and reads their files again
            _limit_tls_buffers()
            watch = loop.create_task(self.app.access.watch(self._retire))
            self.tasks.add(watch)  # stop() ends it

    async def stop(self) -> None:
        """Stop listening, and close every connection at once, also in the middle of a response."""
        if self._listening:
            self._listening.close()
        for connection in list(self.connections):
            connection.shutdown()
        tasks = list(self.tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def make_room(self) -> None:
        """Close a connection if one more would exceed the limit.

        The one that has been idle for longest is closed; if none is idle, the one that has been
        busy for longest.
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
        """Return one listening socket.

        Its address is the one that a program in Go, such as another exporter, would choose.
        For all interfaces, it takes IPv4 and IPv6. If a name has several addresses, the first IPv4
        address is taken, or the first IPv6 address if there is no other.
        """
        is_dual = socket.has_dualstack_ipv6()
        host: str | None = self._address.host
        if not host:  # all interfaces
            host = None
            if is_dual:
                host = "::"
        found = socket.getaddrinfo(
            host, self._address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        ipv4 = [info for info in found if info[0] == socket.AF_INET]
        family, _, _, _, where = (ipv4 or found)[0]
        takes_ipv4_too = host == "::" and is_dual
        listener = socket.create_server(where, family=family, dualstack_ipv6=takes_ipv4_too)
        # Accepted connections inherit both options. Without the first, an answer waits 40 ms.
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, UNSENT_BYTES)
        return listener

    def _retire(self) -> None:
        """Let each connection end with its next response.

        Clients then connect again, with the new TLS settings.
        """
        for connection in self.connections:
            connection.is_last = True


def _limit_tls_buffers() -> None:
    """Limit what asyncio keeps for each TLS connection, for this whole process.

    asyncio gives each a buffer of 256 KiB: 512 idle clients would cost 128 MiB. The attribute of
    its class is the only way to change that.
    """
    sslproto.SSLProtocol.max_size = _TLS_RECORD
