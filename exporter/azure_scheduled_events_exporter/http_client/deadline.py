"""Connections of requests whose exchanges end by a deadline in total, and that another thread can end.

The time limit of a socket starts again with each byte, so a server that sends byte by byte never
meets it. Must not know what is requested, or what an answer means.
"""

import contextlib
import http.client
import io
import socket
import time
from typing import Any

import requests

IDLE_SECONDS = 60.0
"""An idle connection is not used again after so long: load balancers and firewalls forget it without closing it,
Azure's after four minutes. The next request would then wait until its deadline."""


class DeadlineAdapter(requests.adapters.HTTPAdapter):
    """A transport adapter with one connection, for one exchange at a time.

    https://requests.readthedocs.io/en/latest/user/advanced/#transport-adapters

    Args:
        idle_seconds: how long a connection may have been idle to be used again.
    """

    def __init__(self, idle_seconds: float = IDLE_SECONDS) -> None:
        super().__init__(pool_connections=1, pool_maxsize=1)
        self.stopped = False
        self.peer_closed = False
        """Whether the server has closed the connection during this exchange."""
        self._idle_seconds = idle_seconds
        self._used_at = time.monotonic()
        self._ends_at = 0.0
        self._socket: socket.socket | None = None

    def begin(self, seconds: float) -> None:
        """Set the time limit of the next exchange, in seconds from now."""
        self._ends_at = time.monotonic() + seconds
        self.peer_closed = False
        if self._socket is not None:
            with contextlib.suppress(OSError):  # closed already
                self._socket.settimeout(
                    seconds
                )  # of what is sent; the last read has left it shorter

    def remaining(self) -> float:
        """Return the seconds that are left.

        Raises TimeoutError if there are none, or after :meth:`stop`.
        """
        left = self._ends_at - time.monotonic()
        if self.stopped or left <= 0:
            raise TimeoutError("the exchange took too long")
        return left

    def send(self, *args: Any, **kwargs: Any) -> requests.Response:
        """Send a request, over a new connection if the last one has been idle for long."""
        if time.monotonic() - self._used_at > self._idle_seconds:
            self.close()
        try:
            return super().send(*args, **kwargs)
        finally:
            self._used_at = time.monotonic()

    def get_connection_with_tls_context(self, *args: Any, **kwargs: Any) -> Any:
        """Return the pool for a request, whose connections know this adapter."""
        pool: Any = super().get_connection_with_tls_context(*args, **kwargs)
        if pool.num_connections == 0:
            pool.ConnectionCls = _connection(pool.ConnectionCls, self)
        return pool

    def watch(self, opened: socket.socket) -> None:
        """Remember the socket in use, so that it can be closed."""
        self._socket = opened
        if self.stopped:
            self.stop()

    def stop(self) -> None:
        """End the exchange that is under way, and every later one; any thread may call."""
        self.stopped = True
        if self._socket is not None:
            with contextlib.suppress(OSError):  # closed already
                socket.socket.shutdown(self._socket, socket.SHUT_RDWR)


class _Received(io.RawIOBase):
    """What the server sends; each read ends by the deadline.

    ``opened`` stays open until this is closed.
    """

    def __init__(self, opened: socket.socket, adapter: DeadlineAdapter) -> None:
        self._socket = opened
        self._raw: Any = opened.makefile("rb", 0)
        self._adapter = adapter

    def makefile(self, _: str) -> io.BufferedReader:
        """Return the file that http.client reads."""
        return io.BufferedReader(self)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        self._socket.settimeout(self._adapter.remaining())
        count: int = self._raw.readinto(buffer)
        self._adapter.peer_closed = count == 0
        if count == 0 and self._adapter.stopped:
            raise TimeoutError("stopped")  # this process closed the connection, not the server
        return count

    def close(self) -> None:
        self._raw.close()
        super().close()


def _connection(connection_class: Any, adapter: DeadlineAdapter) -> Any:
    """Return ``connection_class``, a kind of ``http.client.HTTPConnection``, that keeps the deadline of ``adapter``."""

    class Connection(connection_class):  # type: ignore[misc]
        def connect(self) -> None:
            super().connect()
            adapter.watch(self.sock)

        def response_class(
            self, opened: Any, *args: Any, **kwargs: Any
        ) -> http.client.HTTPResponse:
            return http.client.HTTPResponse(_Received(opened, adapter), *args, **kwargs)  # type: ignore[arg-type]

    return Connection
