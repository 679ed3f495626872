"""Connections to one endpoint that enforce a deadline for a whole request, and that another thread can end.

A plain socket's timeout starts again with each byte, so a server that sends byte by byte never meets it. Must not know
what is requested, or what an answer means.
"""

import contextlib
import socket
import time
from typing import Any

import requests


class Deadline:
    """The time by which the current request must end, and a way to end it from another thread."""

    def __init__(self) -> None:
        self.stopped = False
        self.peer_closed = False  # whether the server has closed the connection during this request
        self._at = 0.0
        self._socket: socket.socket | None = None

    def set(self, seconds: float) -> None:
        """Begin a request, which has so many seconds."""
        self._at = time.monotonic() + seconds
        self.peer_closed = False

    def remaining(self) -> float:
        """Return the seconds that are left. Raises TimeoutError if there are none, or after :meth:`stop`."""
        left = self._at - time.monotonic()
        if self.stopped or left <= 0:
            raise TimeoutError("the request took too long")
        return left

    def watch(self, opened: socket.socket) -> None:
        """Remember the socket in use, so that it can be closed."""
        self._socket = opened
        if self.stopped:
            self.stop()

    def stop(self) -> None:
        """End the current request, and every later one."""
        self.stopped = True
        if self._socket is not None:
            with contextlib.suppress(OSError):  # closed already
                self._socket.shutdown(socket.SHUT_RDWR)


class _DeadlineSocket(socket.socket):
    """A socket whose receives end by the deadline."""

    def __init__(self, plain: socket.socket, deadline: Deadline) -> None:
        super().__init__(plain.family, plain.type, plain.proto, fileno=plain.detach())
        self._deadline = deadline
        deadline.watch(self)

    def recv_into(self, *args: Any, **kwargs: Any) -> int:  # noqa: ANN401 - passed on unchanged
        self.settimeout(self._deadline.remaining())
        count = super().recv_into(*args, **kwargs)
        self._deadline.peer_closed = count == 0
        if count == 0 and self._deadline.stopped:
            raise TimeoutError("stopped")  # this process closed the connection, not the server
        return count


class DeadlineAdapter(requests.adapters.HTTPAdapter):
    """A requests transport adapter to one endpoint, whose connections enforce the deadline for the whole request."""

    def __init__(self, deadline: Deadline) -> None:
        super().__init__(pool_connections=1, pool_maxsize=1)
        self._deadline = deadline
        self._pool: Any = None

    def get_connection_with_tls_context(self, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - passed on unchanged
        """Return the pool for a request."""
        if self._pool is None:
            self._pool = super().get_connection_with_tls_context(*args, **kwargs)
            self._pool.ConnectionCls = _with_deadline(self._pool.ConnectionCls, self._deadline)
        return self._pool


def _with_deadline(connection_class: Any, deadline: Deadline) -> Any:  # noqa: ANN401 - a class that requests chose
    """Return ``connection_class``, a kind of ``http.client.HTTPConnection``, whose sockets enforce ``deadline``."""

    class Connection(connection_class):  # type: ignore[misc]
        def connect(self) -> None:
            super().connect()
            self.sock: socket.socket = _DeadlineSocket(self.sock, deadline)

    return Connection
