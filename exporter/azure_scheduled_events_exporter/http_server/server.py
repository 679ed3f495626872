"""Runs uvicorn on the event loop of the caller: listens, serves an application, and stops at once.

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


class _Uvicorn(uvicorn.Server):
    """uvicorn without its signal handlers and without its timer, which would wake the process ten times a second."""

    def __init__(self, config: uvicorn.Config, state: State) -> None:
        super().__init__(config)
        self.server_state = state
        self.force_exit = True  # stop waits for no connection
        self.stopping = asyncio.Event()

    def capture_signals(self) -> contextlib.AbstractContextManager[None]:  # type: ignore[override]
        return contextlib.nullcontext()

    async def main_loop(self) -> None:
        await self.stopping.wait()


class Server:
    """Serves ``routes`` at ``address``. Call start, read ``port`` and call stop on one event loop.

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
        self._app = App(routes, access, log)
        self._tasks: list[asyncio.Task[None]] = []
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
        config = uvicorn.Config(
            cast("Any", self._app),
            http=Connection,
            ws="none",
            lifespan="off",
            interface="asgi3",
            log_config=None,
            log_level=logging.ERROR,  # what is wrong with a request is no news
            access_log=False,
            proxy_headers=False,
            server_header=False,
            date_header=False,
            backlog=_ACCEPTED,
            timeout_keep_alive=self._state.limits.idle_seconds,
            h11_max_incomplete_event_size=_LARGEST_HEADER,
        )
        self._uvicorn = _Uvicorn(config, self._state)
        self._tasks = [asyncio.create_task(self._uvicorn.serve([listener]))]
        while not self._uvicorn.started and not self._tasks[0].done():  # noqa: ASYNC110 - uvicorn has no event for it
            await asyncio.sleep(0)
        listener.listen(_BACKLOG)  # asyncio has set it to the number that it accepts at once
        if self._access:
            self._tasks.append(asyncio.create_task(self._access.watch(self._retire)))

    async def stop(self) -> None:
        """Stop listening and close every connection at once, also in the middle of a response."""
        if not self._tasks:
            return
        serving, *watching = self._tasks
        for task in watching:
            task.cancel()
        for connection in list(self._state.open):
            connection.shutdown()
        self._uvicorn.stopping.set()
        await asyncio.gather(serving, *watching, return_exceptions=True)
        if self._access:
            self._access.close()

    def _retire(self) -> None:
        """Close each connection with its next response, so that clients connect with the new TLS settings."""
        for connection in self._state.open:
            connection.is_last = True
