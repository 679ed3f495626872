"""The HTTP server over real sockets: where it listens, each answer, and several requests on one
connection.
"""

import asyncio
import gzip
import logging
import socket
from collections.abc import Iterator

import pytest

from azure_scheduled_events_exporter.errors import ExporterError
from azure_scheduled_events_exporter.http_server.app import App
from azure_scheduled_events_exporter.http_server.listen_address import ListenAddress
from azure_scheduled_events_exporter.http_server.messages import Request, Response
from azure_scheduled_events_exporter.http_server.server import Server
from support.servers.serving import (
    BIG,
    PAGE,
    PATIENCE,
    Running,
    header,
    read_all,
    read_answer,
    request,
    serving,
    status,
)

SMUGGLED = b"0\r\n\r\n" + request("/nowhere")
"""The end of a chunked body, and what a server that ends the body there takes for a request."""


@pytest.fixture(name="server")
def _server() -> Iterator[Running]:
    with serving() as running:
        yield running


class TestListening:
    """Where the server can be reached."""

    def test_all_interfaces(self) -> None:
        """An address without a host serves IPv4, and IPv6 where the machine has it."""
        with serving(address=ListenAddress("", 0)) as running:
            assert running.get().status == 200
            if socket.has_dualstack_ipv6():
                with socket.create_connection(("::1", running.server.port), PATIENCE) as client:
                    client.sendall(request())
                    assert read_answer(client) == PAGE

    @pytest.mark.parametrize(
        ("host", "reason"),
        [
            ("127.0.0.1", "Address already in use"),
            ("192.0.2.1", "Cannot assign requested address"),
            ("name.invalid", "Name or service not known|No address|Temporary failure"),
        ],
    )
    def test_cannot(self, host: str, reason: str) -> None:
        """An address at which the server cannot listen is named with the reason, on one line.

        The reason is the system's, without the words that asyncio puts before it.
        """
        with socket.create_server(("127.0.0.1", 0)) as taken:
            taken_port = taken.getsockname()[1]
            address = ListenAddress(host, taken_port)
            log = logging.getLogger("test")
            server = Server(address, App({}, None, log), log)
            with pytest.raises(ExporterError, match=reason) as caught:
                asyncio.run(server.start())
        assert str(address) in str(caught.value)
        assert "\n" not in str(caught.value)
        assert "while attempting" not in str(caught.value)


class TestAnswers:
    """The responses to requests."""

    def test_page(self, server: Running) -> None:
        """A known path answers its page with date, length, type and nosniff."""
        code, body, headers = server.get()
        assert (code, body) == (200, PAGE)
        assert headers["content-length"] == str(len(PAGE))
        assert headers["content-type"] == "text/plain"
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["date"].endswith(" GMT")
        assert "server" not in headers

    def test_handler(self) -> None:
        """A handler gets the client's address, the decoded path without its query, and headers by
        lower-case names, repeated ones joined. The headers of its response are sent.
        """
        seen: list[Request] = []

        def keep(request: Request) -> Response:
            seen.append(request)
            return Response(200, b"", "text/plain", (("X-Own", "1"),))

        with serving({"/a b": keep}) as running:
            answer = running.talk(request("/a%20b?c=d", "GET", "1.1", "Accept: a/b", "ACCEPT: c/d"))
        assert (status(answer), header(answer, "x-own")) == (200, "1")
        (got,) = seen
        assert got.path == "/a b"
        assert got.headers["accept"] == "a/b, c/d"
        assert got.client == "127.0.0.1"

    def test_gzip(self, server: Running) -> None:
        """A page is compressed for a client that accepts gzip, and for no other one; a small page
        is not. This holds at each request, whatever the requests before it accepted.
        """
        for _ in range(2):
            _, body, headers = server.get("/medium", **{"Accept-Encoding": "deflate, gzip"})
            assert (headers["content-encoding"], headers["vary"]) == ("gzip", "Accept-Encoding")
            assert gzip.decompress(body) == server.get("/medium").body
            for refused in ("gzip;q=0", "gzip; q=0.0, deflate", "identity"):
                _, _, headers = server.get("/medium", **{"Accept-Encoding": refused})
                assert "content-encoding" not in headers
        _, _, headers = server.get("/metrics", **{"Accept-Encoding": "gzip"})
        assert "content-encoding" not in headers, "a page of some bytes"

    @pytest.mark.parametrize(
        ("path", "code"), [("/metrics", 200), ("/big", 200), ("/nowhere", 404)]
    )
    def test_head(self, server: Running, path: str, code: int) -> None:
        """HEAD answers the header of GET without its body, and the connection stays open."""
        length = server.get(path).headers["content-length"]
        with server.connect() as client:
            client.sendall(request(path, "HEAD"))
            received = b""
            while b"\r\n\r\n" not in received:
                received += client.recv(65536)
            assert (status(received), header(received, "content-length")) == (code, length)
            client.sendall(request())
            assert read_answer(client) == PAGE

    @pytest.mark.parametrize("method", ["GET", "POST", "BREW"])
    def test_unknown_path(self, server: Running, method: str) -> None:
        """An unknown path is 404 for any method, with a line of text."""
        assert server.get("/nowhere", method)[:2] == (404, b"nothing is served at this path\n")

    @pytest.mark.parametrize(
        "method", ["POST", "PUT", "DELETE", "OPTIONS", "TRACE", "PATCH", "BREW", "get"]
    )
    def test_other_method(self, server: Running, method: str) -> None:
        """A known path allows only GET and HEAD, with a header Allow."""
        code, body, headers = server.get(method=method)
        assert (code, body, headers["allow"]) == (
            405,
            b"only GET and HEAD are served here\n",
            "GET, HEAD",
        )

    @pytest.mark.parametrize(
        "nonsense",
        [
            b"nonsense\r\n\r\n",
            b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
            b"GET /metrics HTTP/1.1\r\n\r\n",  # without Host
            b"GET /metrics HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
            b"GET /metrics HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nx",
            b"GET /metrics HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\n",
            b"GET /metrics HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
            b"GET /metrics HTTP/1.1\r\nHost: a\r\nX : b\r\n\r\n",
            b"GET /metrics HTTP/1.1\r\nHost: a\r\nX: " + b"a" * 20_000,
        ],
    )
    def test_malformed(self, server: Running, nonsense: bytes) -> None:
        """Input that is not HTTP, or too large, is refused and ends the connection."""
        answer = server.talk(nonsense)
        assert answer == b"" or status(answer) in {400, 501}
        assert PAGE not in answer

    def test_raising_handler(self) -> None:
        """A handler that raises gives 500. Its traceback is logged, and not shown to the client."""

        def page(_: Request) -> Response:
            raise ValueError("secret")

        with serving({"/": page}) as running:
            assert running.get("/")[:2] == (500, b"answering failed; see the log\n")
            assert [record.getMessage() for record in running.records] == ["answering / failed"]
            assert running.records[0].exc_info


class TestConnections:
    """One connection, several requests."""

    def test_keep_alive(self, server: Running) -> None:
        """A connection serves one request after another, also with large answers, and although each
        request asks to change to another protocol.
        """
        with server.connect() as client:
            for path, body in (("/metrics", PAGE), ("/big", BIG), ("/metrics", PAGE)):
                client.sendall(request(path, "GET", "1.1", "Expect: 100-continue", "Upgrade: h2c"))
                assert read_answer(client) == body

    def test_pipeline(self, server: Running) -> None:
        """Of requests that are sent at once, the first is answered whole, and the connection
        closes.
        """
        with server.connect() as client:
            client.sendall(request("/big") + request() * 3)
            received = read_all(client)
        assert (received.count(b"HTTP/1.1 200"), header(received, "connection")) == (1, "close")
        assert received.endswith(BIG)

    @pytest.mark.parametrize(
        "framing",
        [
            (f"Content-Length: {len(SMUGGLED)}",),
            ("Transfer-Encoding: chunked",),
            # By the length, a body ends one byte later than by its chunks.
            ("Content-Length: 6", "Transfer-Encoding: chunked"),
        ],
    )
    def test_body(self, server: Running, framing: tuple[str, ...]) -> None:
        """A request with a body is answered once and ends the connection: nothing in it becomes a
        request.
        """
        with server.connect() as client:
            client.sendall(request("/metrics", "POST", "1.1", *framing) + SMUGGLED)
            answer = read_all(client)
        assert answer.count(b"HTTP/1.1") == 1
        assert (status(answer), header(answer, "connection")) == (405, "close")

    def test_malformed_body(self, server: Running) -> None:
        """A malformed body ends its connection, and nothing is logged. The server stays."""
        head = request("/metrics", "GET", "1.1", "Transfer-Encoding: chunked")
        body = b"x\r\n" * 10
        server.talk(head, body)  # which may come when the answer has been sent
        server.talk(head + body)
        assert server.get().status == 200
        assert server.records == []
