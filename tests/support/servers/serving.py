"""The HTTP server on a thread of its own, and the bytes of requests and answers, for the tests on
the wire.
"""

import asyncio
import base64
import http.client
import logging
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import NamedTuple

from azure_scheduled_events_exporter.http_server.access import WebAccess
from azure_scheduled_events_exporter.http_server.app import App, Handler
from azure_scheduled_events_exporter.http_server.connection import Limits
from azure_scheduled_events_exporter.http_server.listen_address import ListenAddress
from azure_scheduled_events_exporter.http_server.messages import Request, Response
from azure_scheduled_events_exporter.http_server.server import Server

LOOPBACK = ListenAddress("127.0.0.1", 0)
PAGE = b"azure_scheduled_events_up 1\n"
BIG = b"0123456789abcdef" * 93_750  # 1.5 MB
MEDIUM = BIG[:120_000]  # more than the kernel takes; asyncio takes the rest
HUGE = BIG * 10  # more than the kernel takes for a client that does not read
LIMITS = Limits()
PATIENCE = 20.0  # seconds a test waits for what should come at once


def _page(request: Request) -> Response:
    assert request.headers["host"]
    return Response(200, PAGE, "text/plain")


def _big(_: Request) -> Response:
    return Response(200, BIG, "text/plain")


def _medium(_: Request) -> Response:
    return Response(200, MEDIUM, "text/plain")


def _huge(_: Request) -> Response:
    return Response(200, HUGE, "text/plain")


ROUTES: Mapping[str, Handler] = {
    "/metrics": _page,
    "/medium": _medium,
    "/big": _big,
    "/huge": _huge,
}


class _Records(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)


class Answer(NamedTuple):
    """The answer to a request, whose headers have their names as the server writes them."""

    status: int
    body: bytes
    headers: Mapping[str, str]


class Running:
    """A server on its own thread, and its log."""

    def __init__(self, server: Server, records: list[logging.LogRecord]) -> None:
        self.server = server
        self.records = records

    def connect(
        self, receive_buffer: int | None = None, source: str = "127.0.0.1"
    ) -> socket.socket:
        """Return a connected socket of the address ``source`` that gives up after PATIENCE."""
        client = socket.socket()
        client.bind((source, 0))
        if receive_buffer:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        client.settimeout(PATIENCE)
        client.connect(("127.0.0.1", self.server.port))
        return client

    def talk(self, *parts: bytes) -> bytes:
        """Send ``parts``, close our side, and return everything that comes back until the server
        closes.
        """
        with self.connect() as client:
            for part in parts:
                client.sendall(part)
            with suppress(OSError):  # the server has closed the connection already
                client.shutdown(socket.SHUT_WR)
            return read_all(client)

    def get(self, path: str = "/metrics", method: str = "GET", **headers: str) -> Answer:
        """Send one well-formed request and return its answer."""
        connection = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=PATIENCE)
        try:
            connection.request(method, path, headers=headers)
            answer = connection.getresponse()
            return Answer(answer.status, answer.read(), dict(answer.headers))
        finally:
            connection.close()


@contextmanager
def serving(
    routes: Mapping[str, Handler] = ROUTES,
    limits: Limits = LIMITS,
    address: ListenAddress = LOOPBACK,
    access: Callable[[logging.Logger], WebAccess] | None = None,
) -> Iterator[Running]:
    """Run a server for the length of the block; ``access`` is made for its log; an error of its
    loop fails the test.
    """
    records = _Records()
    log = logging.Logger("test")  # noqa: LOG001 - its own, so nothing of the test's logging reaches it
    log.addHandler(records)
    server = Server(address, App(routes, access(log) if access else None, log), log, limits)
    started = threading.Event()
    problems = list[object]()
    ends: list[Callable[[], object]] = []  # the one that ends the loop, once it runs

    async def serve() -> None:
        loop = asyncio.get_running_loop()
        stop = asyncio.Event()
        loop.set_exception_handler(lambda _, context: problems.append(context))
        ends.append(lambda: loop.call_soon_threadsafe(stop.set))
        await server.start()
        started.set()
        await stop.wait()
        await server.stop()

    # One that hangs ends with the tests.
    thread = threading.Thread(target=asyncio.run, args=(serve(),), daemon=True)
    thread.start()
    try:
        assert started.wait(PATIENCE)
        yield Running(server, records.records)
    finally:
        ends[0]()
        thread.join(PATIENCE)
        assert not thread.is_alive()
    assert not problems, problems


def read_all(client: socket.socket) -> bytes:
    """Return what comes until the server closes; a reset counts as an end."""
    received = bytearray()
    while True:
        try:
            piece = client.recv(65536)
        except ConnectionResetError:
            return bytes(received)
        if not piece:
            return bytes(received)
        received += piece


def read_answer(client: socket.socket) -> bytes:
    """Return one whole answer and leave the connection open."""
    answer = http.client.HTTPResponse(client)
    answer.begin()
    assert answer.status == 200
    return answer.read()


def request(
    path: str = "/metrics", method: str = "GET", version: str = "1.1", *headers: str
) -> bytes:
    """Return the bytes of a request."""
    lines = [f"{method} {path} HTTP/{version}", "Host: exporter", *headers]
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


def basic(user: str | bytes, password: str | bytes) -> str:
    """Return the value of an Authorization header."""
    parts = [part.encode() if isinstance(part, str) else part for part in (user, password)]
    return "Basic " + base64.b64encode(b":".join(parts)).decode()


def status(answer: bytes) -> int:
    """Return the status of a raw answer."""
    return int(answer.split(b" ", 2)[1])


def header(answer: bytes, name: str) -> str | None:
    """Return the header ``name`` of a raw answer."""
    for line in answer.partition(b"\r\n\r\n")[0].decode().split("\r\n")[1:]:
        if line.lower().startswith(f"{name.lower()}:"):
            return line.partition(":")[2].strip()
    return None
