"""A server that answers the client of IMDS with any bytes.

Also what the tests of that client share.
"""

import re
import socket
import threading
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from email.utils import formatdate

import pytest

from azure_scheduled_events_exporter.errors import ImdsError
from azure_scheduled_events_exporter.http_client.deadline import IDLE_SECONDS
from azure_scheduled_events_exporter.imds.api_versions import event_versions
from azure_scheduled_events_exporter.imds.client import ImdsClient
from azure_scheduled_events_exporter.imds.rate_limiter import RateLimiter
from support.paths import PAYLOADS

CASES = PAYLOADS.parent / "cases"
BODY = b'{"DocumentIncarnation":1,"Events":[]}'
MIB = 1 << 20
SHORT_LIMIT = 0.5  # seconds that a whole request may take, if it is to take longer
LONG_LIMIT = 20.0  # seconds that a whole request may take, if it is to be done in time
CONNECT = 2.0  # the limit of a connection
SLACK = 4.0  # how late a busy machine may be


class Peer:
    """A server of one test: ``talk(connection, request)`` answers each request with whatever bytes
    it likes.
    """

    def __init__(self, talk: Callable[[socket.socket, bytes], None]) -> None:
        self._talk = talk
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._open: list[socket.socket] = []
        self._threads = [threading.Thread(target=self._accept)]
        self.connections = 0
        self.requests: list[bytes] = []
        self.ending = threading.Event()
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self._threads[0].start()

    def end(self) -> None:
        """End every connection and thread."""
        self.ending.set()
        for each in (self._listener, *self._open):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()
        for thread in self._threads:
            thread.join(LONG_LIMIT)

    def _accept(self) -> None:
        while not self.ending.is_set():
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self.connections += 1
            self._open.append(connection)
            thread = threading.Thread(target=self._serve, args=(connection,))
            self._threads.append(thread)
            thread.start()

    def _serve(self, connection: socket.socket) -> None:
        with suppress(OSError), connection:
            while request := self._request(connection):
                self.requests.append(request)
                self._talk(connection, request)

    @staticmethod
    def _request(connection: socket.socket) -> bytes:
        request = b""
        left = 1
        while left > 0:
            piece = connection.recv(65536)
            if not piece:
                return b""
            request += piece
            head, ended, body = request.partition(b"\r\n\r\n")
            length = re.search(rb"(?i)\r\ncontent-length: *(\d+)", head)
            left = 1
            if ended:
                left = int(length[1]) - len(body) if length else 0
        return request


Serve = Callable[[Callable[[socket.socket, bytes], None]], Peer]


def answer(body: bytes = BODY, status: str = "200 OK", *headers: str) -> bytes:
    """Return a whole HTTP answer."""
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *headers]
    return "\r\n".join([*lines, "", ""]).encode() + body


def always(data: bytes) -> Callable[[socket.socket, bytes], None]:
    """Answer every request with ``data``."""
    return lambda connection, _: connection.sendall(data)


def http_case(name: str) -> bytes:
    """Return a whole HTTP answer that a server gave in the wild."""
    content = (CASES / f"{name}.http").read_bytes()
    head, _, body = content.replace(b"\r\n", b"\n").partition(b"\n\n")
    head = head.replace(b"{{LEN}}", str(len(body)).encode())
    head = head.replace(b"{{DATE}}", formatdate(usegmt=True).encode())
    lines = head.split(b"\n")
    return b"\r\n".join([*lines, b"", body])


def client_of(
    url: str, api_version: str = "2020-07-01", *, idle_seconds: float = IDLE_SECONDS
) -> ImdsClient:
    """Return a client that need not spare this server."""
    return ImdsClient(
        url,
        event_versions(api_version),
        RateLimiter(limit=1000),
        threading.Event().wait,
        CONNECT,
        idle_seconds,
    )


def new_document() -> float:
    """Return the age of a document that was asked for just now."""
    return 0.0


def failure(client: ImdsClient, timeout: float = LONG_LIMIT) -> ImdsError:
    """Return how a request fails."""
    with pytest.raises(ImdsError) as caught:
        client.scheduled_events(timeout)
    return caught.value


def assert_one_line(message: str) -> None:
    """A message that a log and a terminal take."""
    assert message.isprintable(), message
    assert len(message) < 400, message


@contextmanager
def little_memory(limit: int = 8 * MIB) -> Iterator[None]:
    """No more than ``limit`` bytes are held at any moment."""
    tracemalloc.start()
    try:
        yield
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < limit, f"{peak / MIB:.1f} MiB"
