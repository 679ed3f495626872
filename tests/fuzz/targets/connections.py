"""Targets: bytes on a connection to the exporter's own server, open to everybody or guarded by a password."""

import asyncio
import base64
import itertools
import json
import logging
import socket
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from functools import cache, partial
from pathlib import Path

import bcrypt
import h11

from azure_scheduled_events_exporter.config import resolve
from azure_scheduled_events_exporter.http_server.access import WebAccess
from azure_scheduled_events_exporter.http_server.listen_address import ListenAddress
from azure_scheduled_events_exporter.http_server.protocol import Limits
from azure_scheduled_events_exporter.http_server.server import Server
from azure_scheduled_events_exporter.service.daemon import Exporter
from azure_scheduled_events_exporter.service.routes import routes
from fuzz.target import Form, Target
from support.events.status_scene import BUSY

_STATUSES = {200, 400, 401, 404, 405, 429}
_OPEN_PATHS = ("/-/healthy", "/-/ready")
_OPEN_BODIES = (b"alive\n", b"ready: IMDS has been read\n")
_USER, _PASSWORD = "prometheus", "open sesame"
_TOKEN = base64.b64encode(f"{_USER}:{_PASSWORD}".encode())
_PATIENCE = 20.0


class _Complaints(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())


class _Running:
    """The exporter's own server with its own routes, on a loop that runs only while an input is tried."""

    def __init__(self, *, guarded: bool) -> None:
        self.loop = asyncio.new_event_loop()
        self._sources = itertools.cycle(range(2, 255))
        handler = _Complaints()
        self.complaints = handler.lines
        log = logging.Logger("fuzz", logging.WARNING)  # noqa: LOG001 - its own
        log.addHandler(handler)
        logging.getLogger("asyncio").addHandler(handler)
        self.loop.set_exception_handler(lambda _, context: self.complaints.append(repr(context)))
        exporter = Exporter(resolve({"journal.path": "memory", "imds.endpoint": "http://127.0.0.1:9"}, {}), log)
        exporter.poller.snapshot = BUSY
        access = WebAccess(_guard_file(), _OPEN_PATHS, log=log) if guarded else None
        self.server = Server(
            ListenAddress("127.0.0.1", 0),
            routes(lambda: exporter.poller.snapshot, "/metrics"),
            Limits(),
            access=access,
            log=log,
        )
        self.loop.run_until_complete(self.server.start())

    def talk(self, data: bytes, piece: int, *, hears: bool = True) -> bytes:
        """Send ``data`` in pieces, close our side, and return all that comes back; or go away without hearing it."""
        return self.loop.run_until_complete(asyncio.wait_for(self._talk(data, piece, hears=hears), _PATIENCE))

    async def _talk(self, data: bytes, piece: int, *, hears: bool) -> bytes:
        with socket.socket() as client:
            client.setblocking(False)  # noqa: FBT003 - socket's signature
            with suppress(OSError):  # Linux has all of 127/8: what was closed keeps its port busy for a minute
                client.bind((f"127.0.0.{next(self._sources)}", 0))
            await self.loop.sock_connect(client, ("127.0.0.1", self.server.port))
            with suppress(OSError):  # the answer is given, and the server has closed both sides
                for start in range(0, len(data), piece):
                    await self.loop.sock_sendall(client, data[start : start + piece])
                    await asyncio.sleep(0)
                    await asyncio.sleep(0)
                client.shutdown(socket.SHUT_WR)
            came = bytearray()
            if not hears:  # the answer then meets a socket that is closed
                return b""
            with suppress(ConnectionResetError):  # the same, for who sends on after a request that was the last
                while chunk := await self.loop.sock_recv(client, 1 << 16):
                    came += chunk
        return bytes(came)


def _guard_file() -> Path:
    path = Path(tempfile.mkdtemp()) / "web.yaml"
    hashed = bcrypt.hashpw(_PASSWORD.encode(), bcrypt.gensalt(4)).decode()
    path.write_text(
        f"basic_auth_users:\n  {_USER}: {hashed}\nhttp_server_config:\n  headers:\n    X-Frame-Options: deny\n"
    )
    return path


@cache
def _running(*, guarded: bool) -> _Running:
    return _Running(guarded=guarded)


_GOOD = b"GET /-/healthy HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"


def check_http(data: bytes, *, guarded: bool = False) -> None:
    """Bytes on a connection are answered in valid HTTP or not at all; then a good request is answered."""
    running = _running(guarded=guarded)
    how, data = (data[0], data[1:]) if data else (0, b"")
    piece = (1 << 20, 1, 2, 7, 64, 1000)[how % 6]
    came = running.talk(data, piece if len(data) < 100 * piece else 1 << 20, hears=how not in b"ABCDEF")
    headless = data.count(b"HEAD")
    while came:
        head, body, came = _taken(came)
        if not body:
            headless -= 1
            continue
        assert head.status_code in _STATUSES, f"status {head.status_code}: {body!r}"
        if guarded and head.status_code == 200 and body not in _OPEN_BODIES:
            assert _TOKEN[:-4] in data, f"let in without the password: {data!r}"
        if dict(head.headers)[b"content-type"] == b"application/json":
            json.loads(body)
    assert headless >= 0, "half an answer"
    head, body, rest = _taken(running.talk(_GOOD, 1 << 20))
    assert (head.status_code, body, rest) == (200, b"alive\n", b"")
    assert not running.complaints, running.complaints


def _taken(came: bytes) -> tuple[h11.Response, bytes, bytes]:
    """Take one answer off what came, read by a client's strict reader; return its head and body, and the rest.

    Every body here has bytes, and none looks like a head; so what has none is the answer to a HEAD.
    """
    head, _, after = came.partition(b"\r\n\r\n")
    bodiless = not after or after.startswith(b"HTTP/1.1 ")
    client = h11.Connection(h11.CLIENT)
    client.send(h11.Request(method="HEAD" if bodiless else "GET", target="/", headers=[("Host", "a")]))
    client.send(h11.EndOfMessage())
    client.receive_data(came)
    response = client.next_event()
    assert isinstance(response, h11.Response), f"no answer: {response!r} in {came!r}"
    body = bytearray()
    while isinstance(event := client.next_event(), h11.Data):
        body += event.data
    assert isinstance(event, h11.EndOfMessage), f"half an answer: {event!r}"
    return response, bytes(body), came[len(head) + 4 + len(body) :]


def _requests() -> Iterator[bytes]:
    end = b"Host: a\r\n\r\n"
    for path in (b"/", b"/metrics", b"/api/v1/events", b"/-/healthy", b"/-/ready", b"/%2d/ready", b"/x?y=%ff", b"*"):
        yield b"0GET " + path + b" HTTP/1.1\r\n" + end
    yield b"1HEAD / HTTP/1.1\r\n" + end
    yield b"0" + (b"GET /-/ready HTTP/1.1\r\n" + end) * 3
    yield b"3GET http://a/metrics HTTP/1.0\r\nConnection: keep-alive\r\n" + end
    yield b"0POST / HTTP/1.1\r\nContent-Length: 5\r\n" + end + b"hello"
    yield b"4GET /metrics HTTP/1.1\r\nTransfer-Encoding: chunked\r\n" + end + b"5\r\nhello\r\n0\r\n\r\n"
    yield b"0GET /metrics HTTP/1.1\r\nAccept: application/openmetrics-text\r\nAccept-Encoding: gzip;q=0, *\r\n" + end
    yield b"0GET / HTTP/1.1\r\nExpect: 100-continue\r\nUpgrade: h2c\r\nConnection: Upgrade\r\n" + end
    yield b"2CONNECT a:1 HTTP/1.1\r\n" + end
    yield b"0OPTIONS * HTTP/1.1\r\nCookie: " + b"a" * 20000 + b"\r\n" + end
    yield b"BGET /metrics HTTP/1.1\r\n" + end
    yield b"CGET / HTTP/1.1\r\n" + end + b"GET /metrics HTTP/1.0\r\n" + end
    yield b"EBAD\r\n\r\n"
    for token in (_TOKEN, b"", b"!", _TOKEN[:-3], base64.b64encode(b"prometheus:" + b"a" * 100)):
        yield b"0GET /metrics HTTP/1.1\r\nAuthorization: Basic " + token + b"\r\n" + end
    yield b"0\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"


_HTTP = (
    *(b"\r\n", b"\r\n\r\n", b"GET ", b"HEAD ", b"POST ", b" HTTP/1.1", b" HTTP/1.0", b" HTTP/2.0", b"Host: a", b"\r"),
    *(b"Content-Length: 0", b"Content-Length: 1", b"Transfer-Encoding: chunked", b"Connection: close", b"http://"),
    *(b"Connection: keep-alive", b"Expect: 100-continue", b"Accept-Encoding: gzip", b"%00", b"%2f", b"/metrics"),
    *(b"Authorization: ", b"Basic ", b"basic\t", _TOKEN),
)

TARGETS = {
    "http": Target(check_http, _requests, Form.LINES, _HTTP, 30000),
    "http_guarded": Target(partial(check_http, guarded=True), _requests, Form.LINES, _HTTP, 30000),
}
