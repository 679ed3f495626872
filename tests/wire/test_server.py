"""The HTTP server over real sockets: where it listens, each answer, and several requests on one connection."""

import asyncio
import http.client
import logging
import socket
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from email.utils import parsedate_to_datetime

import pytest

from azure_scheduled_events_exporter.errors import ExporterError
from azure_scheduled_events_exporter.http_server.listen_address import ListenAddress
from azure_scheduled_events_exporter.http_server.messages import Request, Response
from azure_scheduled_events_exporter.http_server.server import Server
from support.servers.serving import (
    BIG,
    PAGE,
    PATIENCE,
    ROUTES,
    Running,
    header,
    read_all,
    read_answer,
    request,
    serving,
    status,
)


@pytest.fixture(name="server")
def _server() -> Iterator[Running]:
    with serving() as running:
        yield running


def in_turn(server: Running, *requests: bytes) -> list[bytes]:
    """Send each request over one connection after the answer to the one before; return the bodies."""
    bodies = []
    with server.connect() as client:
        for each in requests:
            client.sendall(each)
            bodies.append(read_answer(client))
    return bodies


class TestListening:
    """Where the server can be reached."""

    def test_all_interfaces(self) -> None:
        """An address without a host serves IPv4, and IPv6 where the machine has it."""
        with serving(address=ListenAddress("", 0)) as running:
            assert running.get()[0] == 200
            if socket.has_dualstack_ipv6():
                with socket.create_connection(("::1", running.server.port), PATIENCE) as client:
                    client.sendall(request())
                    assert read_answer(client) == PAGE

    def test_name(self) -> None:
        """A host name is resolved."""
        with serving(address=ListenAddress("localhost", 0)) as running:
            assert running.get()[0] == 200

    @pytest.mark.parametrize(
        ("host", "reason"),
        [
            ("127.0.0.1", "another process listens there"),
            ("192.0.2.1", "no address of this machine"),
            ("name.invalid", "does not resolve"),
        ],
    )
    def test_cannot(self, host: str, reason: str) -> None:
        """An address that cannot be had is named with the reason, on one line."""
        with socket.create_server(("127.0.0.1", 0)) as taken:
            address = ListenAddress(host, taken.getsockname()[1])
            server = Server(address, {}, log=logging.getLogger("test"))
            with pytest.raises(ExporterError, match=reason) as caught:
                asyncio.run(server.start())
        assert str(address) in str(caught.value)
        assert "\n" not in str(caught.value)

    def test_port_is_free_after_stop(self) -> None:
        """After stop the port is free at once for the next start, although clients were connected."""
        with serving() as first:
            client = first.connect()
            client.sendall(request())
            assert read_answer(client) == PAGE
        with serving(address=ListenAddress("127.0.0.1", first.server.port)) as second:
            assert second.get()[0] == 200
        client.close()


class TestAnswers:
    """The responses to requests."""

    def test_page(self, server: Running) -> None:
        """A known path answers its page with length, type and nosniff."""
        code, body, headers = server.get()
        assert (code, body) == (200, PAGE)
        assert headers["Content-Length"] == str(len(PAGE))
        assert headers["Content-Type"] == "text/plain"
        assert headers["X-Content-Type-Options"] == "nosniff"

    def test_handler_headers(self) -> None:
        """Headers of the handler are sent along."""
        routes = {"/": lambda _: Response(401, b"who?\n", "text/plain", (("WWW-Authenticate", "Basic"),))}
        with serving(routes) as running:
            code, body, headers = running.get("/")
        assert (code, body, headers["WWW-Authenticate"]) == (401, b"who?\n", "Basic")

    def test_handler_sees_headers(self) -> None:
        """A handler gets header names in lower case, and repeated headers joined."""
        seen: list[Mapping[str, str]] = []

        def keep(request: Request) -> Response:
            seen.append(request.headers)
            return Response(200, b"", "text/plain")

        with serving({"/": keep}) as running:
            answer = running.talk(request("/", "GET", "1.1", "Accept: a/b", "ACCEPT: c/d"))
        assert status(answer) == 200
        assert seen[0]["accept"] == "a/b, c/d"

    def test_head(self, server: Running) -> None:
        """HEAD answers the header of GET without its body, and the connection stays open."""
        with server.connect() as client:
            for _ in range(2):
                client.sendall(request(method="HEAD"))
                answer = http.client.HTTPResponse(client, method="HEAD")
                answer.begin()
                assert (answer.status, answer.headers["Content-Length"]) == (200, str(len(PAGE)))

    @pytest.mark.parametrize(
        ("asked", "code"),
        [
            (request("/missing", "HEAD"), 404),
            (request("/metrics", "HEAD", "1.1", "Cookie: " + "x" * 17_000), 431),
            (request("/metrics", "HEAD", "1.1", "Content-Length: x"), 400),
            (request("/metrics", "HEAD", "2.0"), 505),
            (b"HEAD /metrics HTTP/1.1\r\n\r\n", 400),
            (b"HEAD /metrics HTTP/1.1\r\nHost: a\r\n", 400),
        ],
    )
    def test_head_is_refused(self, server: Running, asked: bytes, code: int) -> None:
        """A refused HEAD is answered without a body, and nothing is logged."""
        answer = server.talk(asked)
        assert status(answer) == code
        assert answer.endswith(b"\r\n\r\n")
        assert answer.count(b"\r\n\r\n") == 1
        assert server.records == []

    def test_date(self, server: Running) -> None:
        """Every answer carries its Date (RFC 9110, 6.6.1)."""
        for answer in (server.talk(request()), server.talk(request("/missing")), server.talk(b"nonsense\r\n\r\n")):
            sent = parsedate_to_datetime(header(answer, "Date") or "").timestamp()
            assert abs(sent - time.time()) < 10

    @pytest.mark.parametrize("version", ["0.9", "2.0", "3.0", "9.9"])
    def test_other_version(self, server: Running, version: str) -> None:
        """A request of another major version is refused with 505."""
        assert status(server.talk(request("/metrics", "GET", version))) == 505

    def test_preface(self, server: Running) -> None:
        """The connection preface of HTTP/2 is refused with 505."""
        assert status(server.talk(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")) == 505

    def test_unknown_path(self, server: Running) -> None:
        """An unknown path is 404 for any method, with a line of text."""
        for method in ("GET", "HEAD", "POST", "BREW"):
            code, body, _ = server.get("/metrics/", method)
            assert code == 404
            assert body == (b"" if method == "HEAD" else b"nothing is served at this path\n")

    @pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "TRACE", "BREW"])
    def test_other_method(self, server: Running, method: str) -> None:
        """A known path allows only GET and HEAD, with a header Allow."""
        code, body, headers = server.get(method=method)
        assert (code, headers["Allow"]) == (405, "GET, HEAD")
        assert body == b"only GET and HEAD are served here\n"

    @pytest.mark.parametrize(
        ("target", "seen"),
        [
            ("/echo?a=1&b=%20", "/echo a=1&b=%20"),
            ("/%65cho", "/echo "),
            ("http://exporter:10169/echo?a", "/echo a"),
            ("HTTPS://exporter/echo", "/echo "),
        ],
    )
    def test_target(self, server: Running, target: str, seen: str) -> None:
        """A percent-encoded path and a whole URL lead to the path they mean; the query stays as sent."""
        answer = server.talk(request(target))
        assert status(answer) == 200
        assert answer.endswith(f"GET {seen}".encode())

    @pytest.mark.parametrize(
        "target", ["*", "exporter:10169", "http://exporter", "//echo", "echo", "/%FF", "ftp://exporter/echo"]
    )
    def test_strange_target(self, server: Running, target: str) -> None:
        """A target that means no path of ours is an unknown path."""
        assert status(server.talk(request(target))) == 404

    @pytest.mark.parametrize(
        "nonsense",
        [
            b"nonsense\r\n\r\n",
            b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",  # a TLS hello
            b"GET /metrics HTTP/1.1\r\n\r\n",  # no Host
            b"GET /metrics HTTP/1.1\r\nHost: a\r\nHost b\r\n\r\n",
            b"GET /metrics HTTP/1.1\r\nHost: a\r\nContent-Length: x\r\n\r\n",
            b"GET /metrics HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
            b"GET /m\xc3\xa4trics HTTP/1.1\r\nHost: a\r\n\r\n",
            b"\x00" * 100,
            b"\n" * 100,
        ],
    )
    def test_malformed(self, server: Running, nonsense: bytes) -> None:
        """Input that is not HTTP is answered 400 with a line of text, and the connection is closed."""
        answer = server.talk(nonsense)
        assert status(answer) == 400
        assert header(answer, "Connection") == "close"
        assert answer.endswith(b"\r\n\r\nthis is not a valid HTTP/1.1 request\n")
        assert server.get()[0] == 200

    def test_malformed_and_gone(self) -> None:
        """A client that is gone when the nonsense behind its request is to be answered leaves no error behind."""
        begun = threading.Semaphore(0)

        def slow(_: Request) -> Response:
            begun.release()
            time.sleep(0.3)  # the server answers nobody meanwhile
            return Response(200, PAGE, "text/plain")

        with serving({**ROUTES, "/slow": slow}) as running, ExitStack() as stack:
            client, *waiting = [stack.enter_context(running.connect()) for _ in range(3)]
            assert running.get()[0] == 200  # so all of them have been accepted
            waiting[0].sendall(request("/slow"))
            assert begun.acquire(timeout=PATIENCE)
            client.sendall(request() + b"GET\r\n\r\n")
            waiting[1].sendall(request("/slow"))
            assert begun.acquire(timeout=PATIENCE)
            assert read_answer(client) == PAGE
            client.close()
            assert [read_answer(each) for each in waiting] == [PAGE, PAGE]
            assert running.get()[0] == 200

    @pytest.mark.parametrize("end", [b"", b"\r\n\r\n"])
    @pytest.mark.parametrize("size", [17_000, 60_000])
    def test_header_too_large(self, server: Running, size: int, end: bytes) -> None:
        """A header over 16 KiB is answered 431, be it complete or still coming."""
        answer = server.talk(b"GET /metrics HTTP/1.1\r\nHost: a\r\nCookie: " + b"x" * size + end)
        assert status(answer) == 431

    def test_many_header_lines(self, server: Running) -> None:
        """A header of thousands of short lines, which would take long to parse, is answered 431."""
        assert status(server.talk(request("/metrics", "GET", "1.1", *["a:"] * 3000))) == 431

    def test_large_header(self, server: Running) -> None:
        """A header of 15 KiB is no problem."""
        assert server.get(cookie="x" * 15_000)[0] == 200

    def test_raising_handler(self) -> None:
        """A handler that raises gives 500; it is logged once with its traceback, and once when it works again."""
        problems: list[Exception] = [ZeroDivisionError("secret"), ZeroDivisionError("secret")]

        def failing(_: Request) -> Response:
            if problems:
                raise problems.pop()
            return Response(200, PAGE, "text/plain")

        with serving({"/": failing}) as running:
            for _ in range(2):
                assert running.get("/")[:2] == (500, b"answering failed; see the log\n")
            assert running.get("/")[:2] == (200, PAGE)
            assert [record.getMessage() for record in running.records] == [
                "answering / failed: ZeroDivisionError('secret')",
                "/ answers again",
            ]
            assert running.records[0].levelno == logging.ERROR
            assert running.records[0].exc_info

    @pytest.mark.parametrize(
        "response",
        [
            Response(200, b"", "text/plain", (("X-Split", "a\r\nb: c"),)),
            Response(200, b"", "text/plain\n"),
            Response(7, b"", "text/plain"),
            Response(100, b"", "text/plain"),
        ],
    )
    def test_impossible_response(self, response: Response) -> None:
        """A response that cannot be sent is the handler's failure, not the client's."""
        with serving({"/": lambda _: response}) as running:
            assert running.get("/")[0] == 500

    @pytest.mark.parametrize("code", [204, 304])
    def test_bodiless_status(self, code: int) -> None:
        """A status that has no body is sent without one."""
        with serving({"/": lambda _: Response(code, PAGE, "text/plain")}) as running:
            answer = running.talk(request("/"))
        assert status(answer) == code
        assert answer.endswith(b"\r\n\r\n")


class TestConnections:
    """One connection, several requests."""

    def test_keep_alive(self, server: Running) -> None:
        """A connection serves one request after another."""
        with server.connect() as client:
            for _ in range(3):
                client.sendall(request())
                assert read_answer(client) == PAGE

    @pytest.mark.parametrize("torn", [0, 10])
    def test_pipeline(self, server: Running, torn: int) -> None:
        """Of requests sent at once the first is answered whole, with the word that the connection closes."""
        data = request("/big") + request("/echo") * 700
        answer = server.talk(data[: len(data) - torn])
        assert answer.count(b"HTTP/1.1 200 OK") == 1
        assert header(answer, "Connection") == "close"
        assert answer.endswith(b"\r\n\r\n" + BIG)

    def test_byte_by_byte(self, server: Running) -> None:
        """A request that comes a byte at a time is answered when it is complete."""
        with server.connect() as client:
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            for byte in request():
                client.sendall(bytes([byte]))
            assert read_answer(client) == PAGE

    def test_http_1_0(self, server: Running) -> None:
        """HTTP/1.0 is answered and the connection closed."""
        with server.connect() as client:
            client.sendall(b"GET /echo?x HTTP/1.0\r\n\r\n")
            answer = read_all(client)
        assert answer.endswith(b"\r\n\r\nGET /echo x")

    def test_close(self, server: Running) -> None:
        """A client that asks for the end of the connection gets it after the whole page."""
        with server.connect() as client:
            client.sendall(request("/big", "GET", "1.1", "Connection: close"))
            answer = read_all(client)
        assert header(answer, "Connection") == "close"
        assert answer.endswith(b"\r\n\r\n" + BIG)

    def test_upgrade(self, server: Running) -> None:
        """An offer to change the protocol is passed over, and the connection stays open."""
        upgrade = request("/metrics", "GET", "1.1", "Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c")
        assert in_turn(server, upgrade, request()) == [PAGE, PAGE]

    def test_connect(self, server: Running) -> None:
        """CONNECT, as a proxy would get it, is no path."""
        assert status(server.talk(request("exporter:443", "CONNECT"), b"whatever")) == 404

    @pytest.mark.parametrize("expect", [(), ("Expect: 100-continue",)])
    @pytest.mark.parametrize("framing", ["Content-Length: 1000000", "Transfer-Encoding: chunked"])
    @pytest.mark.parametrize(("method", "code"), [("GET", 200), ("POST", 405)])
    def test_body(self, server: Running, method: str, code: int, framing: str, expect: tuple[str, ...]) -> None:
        """A request with a body is answered before the body comes, and the connection ends."""
        with server.connect() as client:
            client.sendall(request("/metrics", method, "1.1", framing, *expect))
            answer = read_all(client)
        assert status(answer) == code
        assert header(answer, "Connection") == "close"

    def test_sent_body(self, server: Running) -> None:
        """A client that sends its whole large body first still reads the answer."""
        with server.connect() as client:
            client.sendall(request("/metrics", "POST", "1.1", "Content-Length: 9000000") + bytes(9_000_000))
            client.shutdown(socket.SHUT_WR)
            assert status(read_all(client)) == 405

    def test_expect_without_body(self, server: Running) -> None:
        """A GET that expects 100-continue without a body is answered, and the connection stays open."""
        hopeful = request("/metrics", "GET", "1.1", "Expect: 100-continue")
        assert in_turn(server, hopeful, hopeful) == [PAGE, PAGE]

    @pytest.mark.parametrize("empty", [b"\r\n", b"\r\n\r\n", b"\r"])
    def test_empty_lines(self, server: Running, empty: bytes) -> None:
        """Empty lines before a request are ignored (RFC 9112, 2.2)."""
        with server.connect() as client:
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            client.sendall(empty)
            time.sleep(0.05)
            client.sendall((b"\n" if empty == b"\r" else b"") + request())
            assert read_answer(client) == PAGE
            client.sendall(b"\r\n" + request())
            assert read_answer(client) == PAGE
