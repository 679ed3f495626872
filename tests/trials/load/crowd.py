"""Hostile clients of one HTTP server, in a process of their own: ``python -m trials.load.crowd
OPTIONS`` (JSON).

Each client connects again whenever it has been closed, until the process is ended. When anything
arrives on standard input it prints the number of connections of each kind, and ends.
"""

import asyncio
import base64
import json
import random
import socket
import ssl
import struct
import sys
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress

PAGES = (b"/", b"/metrics", b"/api/v1/events", b"/-/ready", b"/missing")
_HEAD = b"GET /metrics HTTP/1.1\r\nHost: trial\r\n"
MALFORMED = (
    b"\r\n\r\n\r\n",
    b"GET\r\n\r\n",
    b"\x00\xff\xfe\r\n\r\n",
    b"GET /metrics HTTP/9.9\r\nHost: trial\r\n\r\n",
    b"GET /metrics HTTP/1.1\r\n\r\n",
    _HEAD + b"Host: another\r\n\r\n",
    _HEAD + b"Content-Length: -1\r\n\r\n",
    _HEAD + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
    _HEAD + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    _HEAD + b"Transfer-Encoding: chunked\r\n\r\nZZZ\r\n",
    _HEAD + b"Bad Header: 1\r\n\r\n",
    _HEAD + b"X: a\r\n b\r\n\r\n",
    b"HEAD /metrics HTTP/1.1\r\nHost: trial\r\nX: " + b"a" * 17_000 + b"\r\n\r\n",
    b"GET /../../etc/passwd HTTP/1.1\r\nHost: trial\r\n\r\n",
    b"GET /%00%ff HTTP/1.1\r\nHost: trial\r\n\r\n",
    b"CONNECT 127.0.0.1:1 HTTP/1.1\r\nHost: trial\r\n\r\n",
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    b"GET /metrics HTTP/1.1\nHost: trial\n\n",
    b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\nHost: trial\r\n\r\n",
    _HEAD + b"X: y\r\n" * 50_000 + b"\r\n",
    b"POST /metrics HTTP/1.1\r\nHost: trial\r\nContent-Length: 1000000\r\n\r\n" + b"b" * 1_000_000,
    b"g" * 10_000_000,
)
_RESET = struct.pack("ii", 1, 0)
_SHORTEST = 1.0
_LONGEST = 10.0  # seconds until a client that was closed connects again


class Crowd:
    """Clients of ``port``; with ``authority`` over TLS, with ``user`` half of them with a wrong
    password.
    """

    def __init__(self, port: int, authority: str, user: str, seed: int) -> None:
        self._port = port
        self._tls = ssl.create_default_context(cafile=authority) if authority else None
        self._user = user
        self._chance = random.Random(seed)
        self.made: Counter[str] = Counter()

    def request(self, path: bytes, method: bytes = b"GET") -> bytes:
        """Return a request, in half of the cases with a wrong password."""
        head = method + b" " + path + b" HTTP/1.1\r\nHost: trial\r\n"
        if self._user and self._chance.random() < 0.5:
            wrong = f"{self._user}:{self._chance.random()}".encode()
            head += b"Authorization: Basic " + base64.b64encode(wrong) + b"\r\n"
        return head + b"\r\n"

    async def connect(
        self, kind: str, *, tls: bool = True
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Return a connection whose client reads nothing by itself."""
        plain = socket.socket()
        plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        plain.setblocking(False)  # noqa: FBT003 - socket's signature
        try:
            await asyncio.get_running_loop().sock_connect(plain, ("127.0.0.1", self._port))
            context = self._tls if tls else None
            name = "localhost" if context else None
            streams = await asyncio.open_connection(
                sock=plain, ssl=context, server_hostname=name, limit=1
            )
        except BaseException:
            plain.close()
            raise
        self.made[kind] += 1
        return streams

    async def idle(self) -> None:
        """Say nothing; under TLS not even a handshake."""
        reader, writer = await self.connect("idle", tls=False)
        await _closed(reader, writer)

    async def slow(self) -> None:
        """Send a header a byte at a time."""
        reader, writer = await self.connect("slow")
        writer.write(b"GET /metrics HTTP/1.1\r\nHost: trial\r\nX-Slow: ")
        while not reader.at_eof():
            writer.write(b"x")
            await writer.drain()
            await asyncio.sleep(self._chance.uniform(0.2, 1.0))
            if writer.transport.is_closing():
                break
        writer.close()

    async def pipelining(self) -> None:
        """Send a hundred requests at once and read what comes."""
        reader, writer = await self.connect("pipelining")
        writer.write(self.request(self._chance.choice(PAGES)) * 100)
        while await reader.read(65536):
            pass
        writer.close()

    async def unread(self) -> None:
        """Ask for a large page and never read it."""
        reader, writer = await self.connect("unread")
        writer.transport.pause_reading()  # type: ignore[attr-defined]  # a TCP transport
        writer.write(self.request(b"/metrics"))
        with suppress(TimeoutError):
            await asyncio.wait_for(_closed(reader, writer), 60)

    async def aborting(self) -> None:
        """Reset the connection somewhere: in the handshake, the header, the answer."""
        _, writer = await self.connect("aborting", tls=self._chance.random() < 0.8)
        asked = self.request(
            self._chance.choice(PAGES), self._chance.choice([b"GET", b"HEAD", b"POST"])
        )
        writer.write(asked[: self._chance.randrange(len(asked) * 2)])
        await asyncio.sleep(self._chance.uniform(0, 0.05))
        known = writer.get_extra_info("socket")
        with suppress(OSError):
            known.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        writer.transport.abort()

    async def resetting(self) -> None:
        """Connect and reset at once, a hundred times."""
        for _ in range(100):
            _, writer = await self.connect("resetting", tls=False)
            writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
            writer.transport.abort()

    async def malformed(self) -> None:
        """Send what is no request, or too large a one, and read what comes."""
        reader, writer = await self.connect("malformed", tls=self._chance.random() < 0.8)
        writer.write(self._chance.choice(MALFORMED))
        with suppress(TimeoutError):
            await asyncio.wait_for(reader.read(4096), 5)
        writer.close()

    async def again(self, one: Callable[[], Awaitable[None]]) -> None:
        """Be such a client for ever."""
        await asyncio.sleep(self._chance.uniform(0, _SHORTEST))
        while True:
            with suppress(OSError, asyncio.IncompleteReadError, ValueError):
                await one()
            await asyncio.sleep(self._chance.uniform(_SHORTEST, _LONGEST))


async def _closed(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while not writer.transport.is_closing() and not reader.at_eof():  # noqa: ASYNC110 - nothing reads, so nothing tells
        await asyncio.sleep(0.5)
    writer.close()


async def main(options: dict[str, object]) -> None:
    """Let the crowd come, and leave with the process."""
    loop = asyncio.get_running_loop()
    # What happens to them is no concern of theirs.
    loop.set_exception_handler(lambda _loop, _context: None)
    crowd = Crowd(
        int(str(options["port"])),
        str(options["authority"]),
        str(options["user"]),
        int(str(options["seed"])),
    )
    end = asyncio.Event()
    counts = options["counts"]
    assert isinstance(counts, dict)
    tasks = [
        loop.create_task(crowd.again(getattr(crowd, kind)))
        for kind, count in counts.items()
        for _ in range(count)
    ]
    loop.add_reader(sys.stdin, end.set)
    await end.wait()
    print(json.dumps(crowd.made), flush=True)
    for task in tasks:
        task.cancel()


if __name__ == "__main__":
    asyncio.run(main(json.loads(sys.argv[1])))
