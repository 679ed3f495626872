"""Connections whose exchanges end by one deadline, and that another thread can end.

The time limit of a socket starts again with each byte, so a server that sends byte by byte never
meets it. Must not know what is requested, or what an answer means.
"""

import contextlib
import http.client
import io
import socket
import time
from collections.abc import Callable
from typing import Any

import requests

IDLE_SECONDS = 50.0
"""An idle connection is not used again after so long.

Load balancers and firewalls forget it without closing it, Azure's after four minutes: the next
request would then wait until its deadline. The Guest Proxy Agent in front of IMDS closes it after
60 s.
"""


class DeadlineAdapter(requests.adapters.HTTPAdapter):
    """A transport adapter with one connection, for one exchange at a time.

    Call :meth:`begin` before each request. The connection calls ``opens``, ``watch`` and
    ``received``.

    https://requests.readthedocs.io/en/latest/user/advanced/#transport-adapters

    Args:
        idle_seconds: how long a connection may have been idle to be used again.

    Attributes:
        stopped: whether :meth:`stop` was called.
        peer_closed: whether the server has closed the connection during this exchange.
    """

    def __init__(self, idle_seconds: float = IDLE_SECONDS) -> None:
        super().__init__(pool_connections=1, pool_maxsize=1)
        self.stopped = False
        self.peer_closed = False
        self._idle_seconds = idle_seconds
        self._used_at = time.monotonic()  # when the connection was last used
        self._ends_at = 0.0  # the deadline of this exchange
        self._connection: http.client.HTTPConnection | None = None
        self._socket: socket.socket | None = None
        self._is_reused = False  # whether this exchange uses a connection of an earlier one
        self._has_answer = False  # whether a byte of the answer has come
        self._before_sending: Callable[[], None] | None = None

    def begin(self, seconds: float, before_sending: Callable[[], None] | None = None) -> None:
        """Begin an exchange of at most so many seconds.

        A connection that has been idle for too long is not used for it.

        ``before_sending`` is called when this exchange has opened a connection of its own, just
        before the request is sent. What it raises ends the exchange, and nothing is sent.
        """
        now = time.monotonic()
        if now - self._used_at > self._idle_seconds:
            self.drop()
        self._used_at = now
        self._ends_at = now + seconds
        self.peer_closed = False
        self._has_answer = False
        self._is_reused = True  # until :meth:`opens` is called
        self._before_sending = before_sending
        if self._socket is not None:
            with contextlib.suppress(OSError):  # closed already
                # The limit for sending the request; the last read has left a shorter one.
                self._socket.settimeout(seconds)

    def remaining(self) -> float:
        """Return the seconds that are left.

        Raises TimeoutError if there are none, or after :meth:`stop`.
        """
        left = self._ends_at - time.monotonic()
        if self.stopped or left <= 0:
            raise TimeoutError("the exchange took too long")
        return left

    @property
    def met_a_closing_server(self) -> bool:
        """Whether this exchange used an open connection, and not a byte of an answer came.

        A server that closes an idle connection may do so while a request is on its way.
        """
        return self._is_reused and not self._has_answer

    def get_connection_with_tls_context(self, *args: Any, **kwargs: Any) -> Any:
        """Return the pool for a request, whose connections know this adapter."""
        pool: Any = super().get_connection_with_tls_context(*args, **kwargs)
        if pool.num_connections == 0:  # new, so its class is not replaced yet
            pool.ConnectionCls = _with_deadline(pool.ConnectionCls, self)
        return pool

    def opens(self) -> None:
        """Note that this exchange opens a connection of its own."""
        self._is_reused = False

    def watch(self, connection: http.client.HTTPConnection) -> None:
        """Remember the new connection, so that it can be closed.

        Raises whatever ``before_sending`` of :meth:`begin` raises.
        """
        self._connection = connection
        self._socket = connection.sock
        if self.stopped:  # while it was being opened
            self.stop()
        if self._before_sending is not None:
            self._before_sending()

    def received(self, count: int) -> None:
        """Note that the server has sent ``count`` bytes; 0: it has closed the connection."""
        self._used_at = time.monotonic()
        self.peer_closed = count == 0
        self._has_answer = self._has_answer or count > 0

    def drop(self) -> None:
        """Close the connection; the next exchange opens another."""
        if self._connection is not None:
            self._connection.close()

    def stop(self) -> None:
        """End the exchange that is under way, and every later one; any thread may call."""
        self.stopped = True
        if self._socket is not None:
            with contextlib.suppress(OSError):  # closed already
                # Not the method of a TLS socket, which changes what the other thread is reading.
                socket.socket.shutdown(self._socket, socket.SHUT_RDWR)


class _Received(io.RawIOBase):
    """What http.client gets for the socket of an answer; each read ends by the deadline.

    http.client calls only ``makefile`` of it, and reads the answer from the result. The socket
    stays open until this file is closed.
    """

    def __init__(self, opened: socket.socket, adapter: DeadlineAdapter) -> None:
        self._socket = opened
        self._raw: Any = opened.makefile("rb", 0)
        self._adapter = adapter

    def makefile(self, _: str) -> io.BufferedReader:
        """Return a buffered file over this one."""
        return io.BufferedReader(self)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        self._socket.settimeout(self._adapter.remaining())
        count: int = self._raw.readinto(buffer)
        self._adapter.received(count)
        if count == 0 and self._adapter.stopped:
            raise TimeoutError("stopped")  # this process closed the connection, not the server
        return count

    def close(self) -> None:
        self._raw.close()
        super().close()


def _with_deadline(connection_class: Any, adapter: DeadlineAdapter) -> Any:
    """Return a subclass of ``connection_class`` whose answers are read by ``adapter``'s deadline.

    ``connection_class``: ``http.client.HTTPConnection`` or a subclass.
    """

    class Connection(connection_class):  # type: ignore[misc]
        def connect(self) -> None:
            adapter.opens()
            super().connect()
            adapter.watch(self)

        # http.client has a class here, and makes an answer by calling it with the socket.
        def response_class(
            self, opened: Any, *args: Any, **kwargs: Any
        ) -> http.client.HTTPResponse:
            received: Any = _Received(opened, adapter)
            return http.client.HTTPResponse(received, *args, **kwargs)

    return Connection
