"""Target: what several clients do to the server over time, step by step: requests, splits, aborts, waits, passwords.

Each input is a script, two bytes a step. Afterwards every deadline must still be kept, a good client answered at once,
nothing left in the log, no memory kept, and the server must stop at once.
"""

import asyncio
import base64
import gc
import itertools
import logging
import socket
import struct
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cache

import psutil

from azure_scheduled_events_exporter.http_server.basic_auth import BasicAuth, Refusal
from azure_scheduled_events_exporter.http_server.connection import Limits
from azure_scheduled_events_exporter.http_server.listen_address import ListenAddress
from azure_scheduled_events_exporter.http_server.messages import Request, Response
from azure_scheduled_events_exporter.http_server.server import Server
from azure_scheduled_events_exporter.http_server.tls import Tls
from fuzz.target import Form, Target

_LIMITS = Limits(
    request_seconds=0.1,
    write_seconds=0.15,
    idle_seconds=0.1,
    check_seconds=0.05,
    linger_seconds=0.05,
    grace_seconds=0.02,
    connections=6,
    unsent_bytes=4_000_000,
)
_CLIENTS = 8  # more than the server keeps
_STEPS = 60
_ANSWERED_SECONDS, _CLOSED_SECONDS, _STOPPED_SECONDS = 5.0, 5.0, 5.0  # on a busy machine; alone a fiftieth of it
_GROWN_BYTES = 60_000_000
_PAGES = {"/small": b"small page\n", "/large": bytes(2_000_000)}
_METHODS = (b"GET", b"HEAD", b"HEAD", b"POST", b"PUT", b"OPTIONS", b"CONNECT", b"BREW")
_PATHS = (b"/small", b"/large", b"/open", b"/missing", b"*", b"http://a/small", b"/%2e", b"/raises")
_VERSIONS = (b"1.1", b"1.1", b"1.1", b"1.0", b"2.0", b"0.9", b"1.9", b"x")
_FIELDS = (
    b"",
    b"Content-Length: 10\r\n",
    b"Transfer-Encoding: chunked\r\n",
    b"Expect: 100-continue\r\nContent-Length: 3\r\n",
    b"Connection: close\r\n",
    b"Upgrade: h2c\r\nConnection: Upgrade\r\n",
    b"X-Large: " + b"x" * 17_000 + b"\r\n",
    b"a:\r\n" * 200,
    b"Content-Length: x\r\n",
    b"Host: another\r\n",
)
_PASSWORDS = (None, b"right", b"right", b"wrong", b"slow", b"slow and wrong", b"fails", b"\xff")
_RESET = struct.pack("ii", 1, 0)


def _matches(password: bytes, stored: bytes) -> bool:
    """Compare; some passwords take longer than a check may, or fail."""
    if password.startswith(b"slow"):
        time.sleep(2 * _LIMITS.check_seconds)
    if password == b"fails":
        raise ZeroDivisionError
    return stored.endswith(password)


class _Access:
    """Plain HTTP with one user; /open needs no password."""

    tls: Tls | None = None
    headers = (("X-Frame-Options", "deny"),)

    def __init__(self, log: logging.Logger) -> None:
        self.retire: Callable[[bool], None] = lambda _: None
        self._pool = ThreadPoolExecutor(1)
        self._auth = BasicAuth([(b"user", b"$2b$04$right")], _matches, self._pool, log)

    def admit(self, request: Request, client: str) -> "Refusal | asyncio.Future[Refusal]":
        """Require the password."""
        return None if request.path == "/open" else self._auth.judge(request.headers.get("authorization", ""), client)

    async def watch(self, retire: Callable[[bool], None]) -> None:
        """Keep ``retire`` for the script."""
        self.retire = retire

    def close(self) -> None:
        """End the thread."""
        self._pool.shutdown(wait=False, cancel_futures=True)


_PROVOKED = ("internal error in a password check", "/raises", "connection limit reached")


class _Log(logging.Handler):
    """Keeps what is logged, except what a handler, a password and the small connection limit provoke on purpose."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        text = record.getMessage()
        if not any(expected in text for expected in _PROVOKED):
            self.lines.append(text)


class _World:
    """The server, its clients and the loop on which all of them run."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        handler = _Log()
        self.complaints = handler.lines
        self.log = logging.Logger("fuzz", logging.WARNING)  # noqa: LOG001 - its own
        self.log.addHandler(handler)
        logging.getLogger("asyncio").addHandler(handler)
        self.loop.set_exception_handler(lambda _, context: self.complaints.append(repr(context)))
        self.server = self.loop.run_until_complete(self._start())
        self.memory = 0
        self._sources = itertools.cycle(range(2, 255))

    async def _start(self) -> Server:
        def raises(_: Request) -> Response:
            raise ZeroDivisionError

        routes = {path: lambda _, body=body: Response(200, body, "text/plain") for path, body in _PAGES.items()}
        pages = {**routes, "/open": routes["/small"], "/raises": raises}
        self._access = _Access(self.log)
        server = Server(ListenAddress("127.0.0.1", 0), pages, _LIMITS, access=self._access, log=self.log)
        await server.start()
        return server

    async def play(self, script: bytes) -> None:
        """Do what the script says, then see whether the server still does what it must."""
        clients: list[socket.socket | None] = [None] * _CLIENTS
        pending = [b""] * _CLIENTS
        step = 0
        try:
            for step, argument in list(zip(script[::2], script[1::2], strict=False))[:_STEPS]:
                await self._step(clients, pending, step, argument)
            while not await self._answers():
                pass
        finally:
            for client in clients:
                if client is not None and step % 3:
                    client.close()
        await self._deadlines(clients)
        if script[:1] > b"\xe0":
            await self._restart()

    async def _step(  # noqa: C901 - a table of actions
        self, clients: list[socket.socket | None], pending: list[bytes], step: int, argument: int
    ) -> None:
        number, action = step % _CLIENTS, step // _CLIENTS % 12
        if action == 10:
            await asyncio.sleep(argument / 255 * 0.12)
            if not argument % 8:
                self._access.retire(argument % 16 == 0)
            return
        client = clients[number]
        if client is None:
            client = clients[number] = await self._connected()
        try:
            if action <= 3:
                pending[number] = _request(argument, action) * (1 + argument % 5 * (action == 3))
                await self._send(client, pending[number])
            elif action == 4:  # part of a request; the rest may come with action 5
                pending[number] = _request(argument, 0)
                cut = 1 + argument * 3 % len(pending[number])
                await self._send(client, pending[number][:cut])
                pending[number] = pending[number][cut:]
            elif action == 5:
                await self._send(client, pending[number])
            elif action == 6:
                await self._send(client, bytes([argument]) * (1 + argument))
            elif action == 7:
                client.shutdown(socket.SHUT_WR)
            elif action == 8:
                client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
                client.close()
                clients[number] = None
            elif action == 9:
                with suppress(BlockingIOError):
                    client.recv(1 << argument % 18)
            else:
                await self._send(client, b"\r\n" * (argument % 4) + b"\r" * (argument % 2))
        except OSError:  # closed by the server, as it may
            client.close()
            clients[number] = None

    async def _connected(self) -> socket.socket:
        client = socket.socket()
        client.setblocking(False)  # noqa: FBT003 - socket's signature
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        with suppress(OSError):  # Linux has all of 127/8: what was closed keeps its port busy for a minute
            client.bind((f"127.0.0.{next(self._sources)}", 0))
        await self.loop.sock_connect(client, ("127.0.0.1", self.server.port))
        return client

    async def _send(self, client: socket.socket, data: bytes) -> None:
        with suppress(BlockingIOError):
            client.send(data)
        await asyncio.sleep(0)

    async def _answers(self) -> bool:
        """A good client is answered at once; False if this process got no processor time until its deadline."""
        begun = time.monotonic()
        client = await self._connected()
        came = b""
        try:
            await self.loop.sock_sendall(client, b"GET /open HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
            async with asyncio.timeout(_ANSWERED_SECONDS):
                while piece := await self.loop.sock_recv(client, 65536):
                    came += piece
        except ConnectionResetError:
            if time.monotonic() - begun < _LIMITS.request_seconds:
                raise
            return False
        finally:
            client.close()
        assert came.startswith(b"HTTP/1.1 200 "), came
        assert came.endswith(b"small page\n"), came
        return True

    async def _deadlines(self, clients: list[socket.socket | None]) -> None:
        """A client that says nothing is closed in time, as are all others."""
        async with asyncio.timeout(_CLOSED_SECONDS):
            idle = await self._connected()
            with suppress(ConnectionResetError):
                assert await self.loop.sock_recv(idle, 1) == b""
            idle.close()
            while self.server._connections:  # noqa: ASYNC110 - nothing tells
                await asyncio.sleep(0.005)
        for client in clients:
            if client is not None:
                client.close()

    async def _restart(self) -> None:
        await self._connected()
        async with asyncio.timeout(_STOPPED_SECONDS):
            await self.server.stop()
        gc.collect()  # the socket above
        self.server = await self._start()

    def check(self) -> None:
        """Nothing was logged, and no memory is kept."""
        assert not self.complaints, self.complaints
        memory = psutil.Process().memory_info().rss
        self.memory = self.memory or memory
        assert memory - self.memory < _GROWN_BYTES, f"grown by {memory - self.memory} bytes"


def _request(argument: int, kind: int) -> bytes:
    """Return one sentence of the grammar; the other bits of ``kind`` and ``argument`` choose its parts."""
    method, path = _METHODS[argument % 8], _PATHS[argument // 8 % 8]
    version = _VERSIONS[argument // 64 + 4 * (kind == 1)]
    field = _FIELDS[(argument + 3 * kind) % len(_FIELDS)] if kind else b""
    password = _PASSWORDS[(argument // 4 + kind) % len(_PASSWORDS)]
    if password is not None:
        field += b"Authorization: Basic " + base64.b64encode(b"user:" + password) + b"\r\n"
    return method + b" " + path + b" HTTP/" + version + b"\r\nHost: a\r\n" + field + b"\r\n"


@cache
def _world() -> _World:
    return _World()


def check_sessions(data: bytes) -> None:
    """Whatever clients do, deadlines are kept, good clients answered, and nothing is logged or kept."""
    world = _world()
    if data:
        world.loop.run_until_complete(world.play(data))
        world.check()


def _scripts() -> Iterator[bytes]:
    def steps(*pairs: tuple[int, int, int]) -> bytes:
        return bytes(byte for client, action, argument in pairs for byte in (action * _CLIENTS + client, argument))

    for argument in range(0, 256, 5):
        yield steps((0, 0, argument), (1, 2, argument), (2, 3, argument), (0, 10, 200), (1, 9, 17), (2, 8, 0))
    yield steps(*((number % 8, 0, 8 * number + 1) for number in range(30)), (0, 10, 255))
    yield steps(*((number % 8, 1, 8 + number) for number in range(16)), *((number, 8, 0) for number in range(8)))
    yield steps((0, 4, 9), (1, 4, 1), (0, 10, 100), (0, 5, 0), (1, 7, 0), (2, 11, 3), (2, 0, 0), (3, 6, 22))
    yield b"\xff" + steps((0, 3, 8), (1, 3, 8))


TARGETS = {"http_sessions": Target(check_sessions, _scripts, Form.BYTES, (), 240)}
