"""Connections of requests that can be cut off: by a deadline for a whole exchange, or because the process is to end.

The time limits of sockets start again with each byte, so a server that sends byte by byte meets none of them.
"""

import contextlib
import socket
import threading
import time
from collections.abc import Callable
from typing import Any

import requests

IDLE_SECONDS = 60.0
"""An idle connection is not used again after so long: load balancers and firewalls forget it without closing it,
Azure's after four minutes. The next request would then wait until its deadline."""


class CutOffAdapter(requests.adapters.HTTPAdapter):
    """A transport adapter with one connection, which any thread may cut off.

    https://requests.readthedocs.io/en/latest/user/advanced/#transport-adapters

    Args:
        idle_seconds: how long a connection may have been idle to be used again.
    """

    def __init__(self, idle_seconds: float = IDLE_SECONDS) -> None:
        super().__init__(pool_connections=1, pool_maxsize=1)
        self._connection: Any = None
        self._idle_seconds = idle_seconds
        self._used_at = time.monotonic()
        self.is_cut_off = False
        """Whether the exchange is to end, also if its connection is still being made."""

    def send(self, *args: Any, **kwargs: Any) -> requests.Response:  # noqa: ANN401 - passed on unchanged
        """Begin a new exchange."""
        self.is_cut_off = False
        if time.monotonic() - self._used_at > self._idle_seconds:
            self.close()
        try:
            return super().send(*args, **kwargs)
        finally:
            self._used_at = time.monotonic()

    def get_connection_with_tls_context(self, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - passed on unchanged
        """Return the pool for a request, with connections that can be cut off."""
        pool: Any = super().get_connection_with_tls_context(*args, **kwargs)
        if pool.num_connections == 0:
            pool.ConnectionCls = _watched(pool.ConnectionCls, self)
        return pool

    def watch(self, connection: object) -> None:
        """Remember the connection in use, so that it can be closed at the deadline."""
        self._connection = connection

    def cut_off(self) -> None:
        """End the exchange, whatever it waits for, also in the middle of a TLS handshake."""
        self.is_cut_off = True
        opened = getattr(self._connection, "sock", None)
        if opened is not None:
            with contextlib.suppress(OSError):
                socket.socket.shutdown(opened, socket.SHUT_RDWR)


def _watched(connection_class: Any, adapter: CutOffAdapter) -> Any:  # noqa: ANN401 - a class that requests chose
    """Return ``connection_class``, a kind of ``http.client.HTTPConnection``, that reports itself to ``adapter``."""

    class Connection(connection_class):  # type: ignore[misc]
        def connect(self) -> None:
            adapter.watch(self)
            super().connect()
            if adapter.is_cut_off:  # there was no socket yet that could be closed
                raise TimeoutError("cut off while connecting")

    return Connection


class Deadline:
    """Calls ``cut_off`` after so many seconds, unless the block has ended by then; None: never."""

    def __init__(self, seconds: float | None, cut_off: Callable[[], None]) -> None:
        self.passed = False
        self._cut_off = cut_off
        self._timer = None if seconds is None else threading.Timer(seconds, self._pass)

    def __enter__(self) -> None:
        if self._timer is not None:
            self._timer.daemon = True
            self._timer.start()

    def __exit__(self, *_: object) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _pass(self) -> None:
        self.passed = True
        self._cut_off()
