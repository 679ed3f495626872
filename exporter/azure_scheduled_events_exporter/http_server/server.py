"""Listens, serves an application with uvicorn's protocol on the event loop of the caller, and stops at once.

Must not know what is served or who may read.
"""

import asyncio
import contextlib
import logging
import socket
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

import uvicorn

from azure_scheduled_events_exporter.errors import ExporterError

from .app import App, Handler
from .listen_address import ListenAddress, listen
from .protocol import Connection, Limits, State

if TYPE_CHECKING:
    from .access import WebAccess
if sys.platform != "win32":
    import resource

_BACKLOG = 4096  # connections that the kernel keeps
_ACCEPTED = 16  # at most so many are accepted before open connections get their turn
_SEND_BUFFER = 64 * 1024  # bytes that the kernel keeps of a response; it would take megabytes
_LARGEST_HEADER = 16 * 1024  # bytes; more than any scraper, proxy or browser sends
_LIMITS = Limits()


class Server:
    """Serves ``routes`` at ``address``. Call start, read ``port`` and call stop on one event loop.

    uvicorn's own server is not used: it has signal handlers, waits for connections at its end, and wakes the process
    ten times a second.

    Attributes:
        port: the bound port, after start.
    """

    def __init__(
        self,
        address: ListenAddress,
        routes: Mapping[str, Handler],
        limits: Limits = _LIMITS,
        *,
        access: "WebAccess | None" = None,
        log: logging.Logger,
    ) -> None:
        self._address = address
        self._access = access
        self._state = State(limits, lambda: access.tls if access else None, log)
        self._config = uvicorn.Config(
            cast("Any", App(routes, access, log)),
            http=Connection,
            ws="none",
            lifespan="off",
            interface="asgi3",
            log_config=None,
            log_level=logging.ERROR,  # what is wrong with a request is no news
            access_log=False,
            proxy_headers=False,
            timeout_keep_alive=limits.idle_seconds,
            h11_max_incomplete_event_size=_LARGEST_HEADER,
        )
        self._listening: asyncio.Server | None = None
        self._watching: asyncio.Task[None] | None = None
        self.port = address.port

    async def start(self) -> None:
        """Listen and serve.

        Raises:
            ExporterError: the address is in use, not of this machine, or not permitted.
        """
        if sys.platform != "win32":  # the usual limit of descriptors, 1024, is for programs that use select
            with contextlib.suppress(OSError, ValueError):  # macOS does not take "unlimited"
                resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
        try:
            listener = listen(self._address, _BACKLOG)
        except OSError as error:
            raise ExporterError(f"cannot listen on {self._address}: {error.strerror} (--web.listen-address)") from error
        self.port = int(listener.getsockname()[1])
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # inherited; without it an answer waits 40 ms
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SEND_BUFFER)
        self._listening = await asyncio.get_running_loop().create_server(
            lambda: Connection(self._config, self._state, {}), sock=listener, backlog=_ACCEPTED
        )
        listener.listen(_BACKLOG)  # asyncio has set it to the number that it accepts at once
        if self._access:
            self._watching = asyncio.create_task(self._access.watch(self._retire))

    async def stop(self) -> None:
        """Stop listening and close every connection at once, also in the middle of a response."""
        if self._listening:
            self._listening.close()
        for connection in list(self._state.open):
            connection.shutdown()
        if self._access:
            self._access.close()
        tasks = [*self._state.tasks, *([self._watching] if self._watching else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _retire(self) -> None:
        """Close each connection with its next response, so that clients connect with the new TLS settings."""
        for connection in self._state.open:
            connection.is_last = True
