"""The client of IMDS over real sockets: its requests, its handling of each answer, and hostile servers."""

import gzip
import itertools
import socket
import struct
import threading
import time
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress

import pytest

from azure_scheduled_events_exporter import __version__
from azure_scheduled_events_exporter.errors import ImdsError, Outcome, Stopped
from azure_scheduled_events_exporter.imds.client import ImdsClient
from azure_scheduled_events_exporter.imds.rate_limiter import RateLimiter
from azure_scheduled_events_exporter.simulator import Scenario, Simulator, VirtualMachine
from support.paths import PAYLOADS
from support.programs import eventually, free_port

QUIET = Scenario("quiet", "Nothing happens.", (VirtualMachine("vm_0"),), ())
BODY = b'{"DocumentIncarnation":1,"Events":[]}'
MIB = 1 << 20
SHORT = 0.5  # seconds; the time limit of requests that are to run into it
LONG = 20.0  # the limit of those that are not
SLACK = 4.0  # how late a busy machine may be


class Peer:
    """A server of one test: ``talk(connection, request)`` answers each request with whatever bytes it likes."""

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
            thread.join(LONG)

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
        while not request.endswith(b"\r\n\r\n"):
            piece = connection.recv(65536)
            if not piece:
                return b""
            request += piece
        return request


Serve = Callable[[Callable[[socket.socket, bytes], None]], Peer]


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Start servers that end with the test."""
    with ExitStack() as stack:

        def start(talk: Callable[[socket.socket, bytes], None]) -> Peer:
            peer = Peer(talk)
            stack.callback(peer.end)
            return peer

        yield start


@pytest.fixture
def simulator() -> Iterator[Simulator]:
    """A simulator in which nothing happens by itself."""
    with Simulator(QUIET) as running:
        yield running


def answer(body: bytes = BODY, status: str = "200 OK", *headers: str) -> bytes:
    """Return a whole HTTP answer."""
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *headers]
    return "\r\n".join([*lines, "", ""]).encode() + body


def always(data: bytes) -> Callable[[socket.socket, bytes], None]:
    """Answer every request with ``data``."""
    return lambda connection, _: connection.sendall(data)


def client_of(url: str, api_version: str = "2020-07-01", budget: RateLimiter | None = None) -> ImdsClient:
    """Return a client that need not spare this server."""
    return ImdsClient(url, api_version, budget or RateLimiter(limit=1000), threading.Event().wait)


def failure(client: ImdsClient, timeout: float = LONG) -> ImdsError:
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


class TestRequest:
    """What goes over the wire."""

    def test_headers_and_version(self, serve: Serve) -> None:
        """IMDS is asked with its header and api-version, by name, and nothing that it refuses."""
        peer = serve(always(answer()))
        client_of(peer.url, "2019-08-01").scheduled_events(LONG)
        line, *headers = peer.requests[0].decode().strip().split("\r\n")
        sent = {name.lower(): value for name, _, value in (header.partition(": ") for header in headers)}
        assert line == "GET /metadata/scheduledevents?api-version=2019-08-01 HTTP/1.1"
        assert sent["metadata"] == "true"
        assert sent["user-agent"] == f"azure-scheduled-events-exporter/{__version__}"
        assert "x-forwarded-for" not in sent
        assert "cookie" not in sent
        assert sent["host"] == peer.url.removeprefix("http://")

    def test_instance(self, serve: Serve) -> None:
        """The VM's own metadata is asked for with its own api-version."""
        peer = serve(always(answer(b'{"compute":{}}')))
        assert client_of(peer.url).instance(LONG) == b'{"compute":{}}'
        assert peer.requests[0].startswith(b"GET /metadata/instance?api-version=2021-02-01 HTTP/1.1\r\n")
        assert b"\r\nMetadata: true\r\n" in peer.requests[0]

    def test_path_prefix_of_the_endpoint(self, simulator: Simulator) -> None:
        """An endpoint may have a path, as the simulator's other VMs have."""
        assert client_of(simulator.vm_url("vm_0") + "/").scheduled_events(LONG)
        assert simulator.requests[-1].path == "/metadata/scheduledevents"

    @pytest.mark.parametrize("host", ["[::1]", "[::ffff:127.0.0.1]"])
    def test_ipv6_without_a_port(self, host: str) -> None:
        """An IPv6 endpoint without a port means port 80; the end of its address is no port."""
        error = failure(client_of(f"http://{host}"))
        assert error.status or "Connection refused" in str(error)  # whether or not this machine serves something there

    @pytest.mark.parametrize("name", ["HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"])
    def test_proxy_of_the_environment(self, name: str, serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
        """A proxy in the environment never sees a request."""
        proxy, peer = serve(always(answer(b"proxied"))), serve(always(answer()))
        monkeypatch.setenv(name, proxy.url)
        for no_proxy in ("NO_PROXY", "no_proxy"):
            monkeypatch.delenv(no_proxy, raising=False)
        assert client_of(peer.url).scheduled_events(LONG) == BODY
        assert proxy.connections == 0

    @pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
    def test_redirect(self, status: int, serve: Serve) -> None:
        """A redirect is an error: it is not followed, and its 200 MiB are not read."""
        sent = 0

        def talk(connection: socket.socket, _: bytes) -> None:
            nonlocal sent
            location = f"Location: {elsewhere.url}/"
            head = f"HTTP/1.1 {status} Moved\r\n{location}\r\nContent-Length: {200 * MIB}\r\n\r\n"
            connection.sendall(head.encode())
            for _piece in range(200):
                connection.sendall(bytes(MIB))
                sent += 1

        elsewhere = serve(always(answer()))
        peer = serve(talk)
        with little_memory():
            error = failure(client_of(peer.url))
        assert error.outcome is Outcome.HTTP_ERROR
        assert str(error).startswith(f"{peer.url} answered {status}: ")
        assert "redirect" in str(error)
        assert_one_line(str(error))
        assert elsewhere.connections == 0
        assert sent < 30  # what the buffers of two sockets take

    def test_keep_alive(self, serve: Serve) -> None:
        """Twenty polls, also failed ones, use one TCP connection."""
        answers = itertools.cycle([answer(), answer(b"", "304 Not Modified"), answer(b"moving", "503 Unavailable")])
        peer = serve(lambda connection, _: connection.sendall(next(answers)))
        client = client_of(peer.url)
        for _ in range(20):
            with suppress(ImdsError):
                client.scheduled_events(LONG)
        assert len(peer.requests) == 20
        assert peer.connections == 1

    def test_server_that_closes_between_polls(self, serve: Serve) -> None:
        """A server that ends the connection after each answer costs no poll."""

        def talk(connection: socket.socket, _: bytes) -> None:
            connection.sendall(answer())
            connection.shutdown(socket.SHUT_RDWR)

        peer = serve(talk)
        client = client_of(peer.url)
        for count in range(1, 11):
            assert client.scheduled_events(LONG) == BODY
            assert eventually(lambda count=count: peer.connections == count, "a connection of its own")  # type: ignore[misc]
            time.sleep(0.02)  # for its end to arrive; a poll comes once a second
        assert len(peer.requests) == 10

    def test_close_after_each_answer(self, serve: Serve) -> None:
        """After an answer with Connection: close, the next request uses a new connection."""
        peer = serve(always(answer(BODY, "200 OK", "Connection: close")))
        client = client_of(peer.url)
        assert [client.scheduled_events(LONG) for _ in range(3)] == [BODY] * 3
        assert peer.connections == 3

    def test_cookies_are_not_kept(self, serve: Serve) -> None:
        """A cookie that a server sets is never sent back."""
        peer = serve(always(answer(BODY, "200 OK", "Set-Cookie: session=1; Path=/")))
        client = client_of(peer.url)
        for _ in range(2):
            client.scheduled_events(LONG)
        assert b"cookie" not in peer.requests[1].lower()


# Status and body as imds.md's error table has them, the outcome, and words that the message must hold.
ERRORS: dict[str, tuple[str, bytes, Outcome, tuple[str, ...]]] = {
    "no Metadata header": (
        "400 Bad Request",
        (PAYLOADS / "error_400_missing_metadata_header.json").read_bytes(),
        Outcome.HTTP_ERROR,
        ("Required metadata header not specified",),
    ),
    "api-version": (
        "400 Bad Request",
        (PAYLOADS / "error_400_api_version_msdocs.json").read_bytes(),
        Outcome.HTTP_ERROR,
        ("api-version is invalid", "--imds.api-version"),
    ),
    "X-Forwarded-For": ("400 Bad Request", b"", Outcome.HTTP_ERROR, ("X-Forwarded-For",)),
    "throttled": (
        "429 Too Many Requests",
        (PAYLOADS / "error_429_body.txt").read_bytes(),
        Outcome.THROTTLED,
        ("Throttle Result: Too Many Requests", "5 requests a second"),
    ),
    "guest proxy agent": ("403 Forbidden", b"denied", Outcome.HTTP_ERROR, ("denied", "guest proxy agent")),
    "not found, XML": (
        "404 Not Found",
        b'<?xml version="1.0"?>\r\n<Error>\r\n  <Code>ResourceNotFound</Code>\r\n</Error>',
        Outcome.HTTP_ERROR,
        ("ResourceNotFound", "--imds.endpoint"),
    ),
    "method": ("405 Method Not Allowed", b"", Outcome.HTTP_ERROR, ("moving",)),
    "gone": ("410 Gone", b"", Outcome.HTTP_ERROR, ("moving", "70 s")),
    "misdirected": ("421 Misdirected Request", b"", Outcome.HTTP_ERROR, ()),
    "server error": (
        "500 Internal Server Error",
        b'{"error": "Internal error"}',
        Outcome.HTTP_ERROR,
        ("Internal error",),
    ),
    "bad gateway": ("502 Bad Gateway", b"<html>\n<body>proxy</body></html>", Outcome.HTTP_ERROR, ("proxy",)),
    "unavailable": ("503 Service Unavailable", b"", Outcome.HTTP_ERROR, ()),
}


class TestErrors:
    """Every row of the error table has its outcome and its own short message."""

    @pytest.mark.parametrize("row", ERRORS)
    def test_row(self, row: str, serve: Serve) -> None:
        """An error answer becomes an outcome and one line with the answer and what to do."""
        status, body, outcome, words = ERRORS[row]
        peer = serve(always(answer(body, status)))
        error = failure(client_of(peer.url))
        assert error.outcome is outcome
        assert error.reason == f"{peer.url} answered {status[:3]}"
        assert str(error).startswith(error.reason)
        for word in words:
            assert word in str(error)
        assert_one_line(str(error))

    def test_messages_differ(self, serve: Serve) -> None:
        """No two rows share a message."""
        rows = iter(ERRORS.values())
        peer = serve(lambda connection, _: connection.sendall(answer(*(next(rows)[1::-1]))))
        client = client_of(peer.url)
        assert len({str(failure(client)) for _ in ERRORS}) == len(ERRORS)

    @pytest.mark.parametrize(
        ("fault", "outcome", "words"),
        [
            ("throttle", Outcome.THROTTLED, "answered 429"),
            ("400", Outcome.HTTP_ERROR, "answered 400"),
            ("404", Outcome.HTTP_ERROR, "answered 404"),
            ("405", Outcome.HTTP_ERROR, "answered 405"),
            ("410", Outcome.HTTP_ERROR, "answered 410"),
            ("500", Outcome.HTTP_ERROR, "answered 500"),
            ("503", Outcome.HTTP_ERROR, "answered 503"),
            ("timeout", Outcome.TIMEOUT, "no whole answer"),
            ("slow-drip", Outcome.TIMEOUT, "no whole answer"),
            ("reset", Outcome.CONNECTION_ERROR, "cannot talk to"),
            ("half-body", Outcome.CONNECTION_ERROR, "cannot talk to"),
            ("huge-body", Outcome.INVALID_DOCUMENT, "more than 1 MiB"),
        ],
    )
    def test_faults_of_the_simulator(self, fault: str, outcome: Outcome, words: str, simulator: Simulator) -> None:
        """Each fault has its outcome, and the next request after it is answered."""
        simulator.inject(fault)
        client = client_of(simulator.url)
        error = failure(client, SHORT if outcome is Outcome.TIMEOUT else LONG)
        assert error.outcome is outcome
        assert words in str(error)
        assert simulator.url in str(error)
        assert_one_line(str(error))
        simulator.heal()
        assert client.scheduled_events(LONG) is not None

    def test_the_simulator_knows_the_request(self, simulator: Simulator) -> None:
        """What IMDS checks of a request (header, api-version) is right."""
        for version in ("2017-03-01", "2017-08-01", "2017-11-01", "2019-01-01", "2019-04-01", "2020-07-01"):
            assert client_of(simulator.url, version).scheduled_events(LONG) is not None
            time.sleep(0.25)  # five requests a second
        assert client_of(simulator.url).instance(LONG)

    def test_wrong_api_version(self, simulator: Simulator) -> None:
        """IMDS' own error about the api-version is part of the message."""
        error = failure(client_of(simulator.url, "latest"))
        assert error.outcome is Outcome.HTTP_ERROR
        assert "api-version is invalid" in str(error)

    @pytest.mark.parametrize(
        "body",
        [
            b'{"error": {"code": 1}}',
            b'{"error": null}',
            b"[" * 100_000,
            b'{"error": "a\\n\\u001b[31mb\\ud800"}',
            b"\xff\xfe\x00\x01",
            b"x" * (3 * MIB),
        ],
        ids=["object", "null", "deep", "control characters", "no text", "large"],
    )
    def test_odd_error_body(self, body: bytes, serve: Serve) -> None:
        """For any body of an error, the message is one short line."""
        peer = serve(always(answer(body, "500 Internal Server Error")))
        error = failure(client_of(peer.url))
        assert error.outcome is Outcome.HTTP_ERROR
        assert_one_line(str(error))
        str(error).encode()

    def test_closed_port(self) -> None:
        """A port without a listener is a connection error that names the endpoint."""
        url = f"http://127.0.0.1:{free_port()}"
        error = failure(client_of(url))
        assert error.outcome is Outcome.CONNECTION_ERROR
        assert str(error) == f"cannot talk to {url}: Connection refused"

    @pytest.mark.parametrize(
        "said",
        [
            b"",
            b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n" + BODY,
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n10\r\n" + BODY[:8],
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
            b"HTTP/1.1 200 OK\r\nContent-",
            b"SSH-2.0-OpenSSH_9.2\r\n",
            b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Encoding: gzip\r\n\r\nplain",
            b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 5000 + b"\r\n",
            b"HTTP/1.1 200 OK\r\nX: " + b"y" * 100_000 + b"\r\n\r\n",
        ],
        ids=[
            "nothing",
            "half a body",
            "half a chunk",
            "no chunk",
            "half a head",
            "another protocol",
            "no gzip",
            "many headers",
            "long header",
        ],
    )
    def test_broken_off(self, said: bytes, serve: Serve) -> None:
        """An answer that ends early, or is no HTTP, is a connection error, never half a document."""

        def talk(connection: socket.socket, _: bytes) -> None:
            connection.sendall(said)
            connection.shutdown(socket.SHUT_RDWR)

        peer = serve(talk)
        error = failure(client_of(peer.url))
        assert error.outcome is Outcome.CONNECTION_ERROR
        assert_one_line(str(error))
        assert len(peer.requests) == 1  # the next poll asks again, not this one in a burst

    def test_reset_in_mid_body(self, serve: Serve) -> None:
        """A connection reset within the body is a connection error."""

        def talk(connection: socket.socket, _: bytes) -> None:
            connection.sendall(answer()[:-5])
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            connection.close()

        assert failure(client_of(serve(talk).url)).outcome is Outcome.CONNECTION_ERROR


class TestDeadline:
    """One deadline for all of a request."""

    @pytest.mark.parametrize("dripped", ["head", "body", "chunks"])
    def test_dripping_server(self, dripped: str, serve: Serve) -> None:
        """A server that sends a byte now and then cannot hold a poll beyond its time limit."""

        def talk(connection: socket.socket, _: bytes) -> None:
            whole, dripping = answer(bytes(100)), 0
            if dripped == "body":
                dripping = len(whole) - 100
            if dripped == "chunks":
                whole = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + b"1\r\n \r\n" * 100
                dripping = whole.index(b"1\r\n \r\n")
            connection.sendall(whole[:dripping])
            for byte in whole[dripping:]:
                connection.sendall(bytes((byte,)))
                if self_ending.wait(0.1):
                    return

        self_ending = threading.Event()
        peer = serve(talk)
        began = time.monotonic()
        error = failure(client_of(peer.url), SHORT)
        took = time.monotonic() - began
        self_ending.set()
        assert error.outcome is Outcome.TIMEOUT
        assert str(error) == f"no whole answer from {peer.url} within 0.5 s"
        assert SHORT <= took < SHORT + SLACK

    def test_endless_interim_answers(self, serve: Serve) -> None:
        """A server that sends 100 Continue forever is left at the time limit."""

        def talk(connection: socket.socket, _: bytes) -> None:
            while True:
                connection.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
                time.sleep(0.01)

        assert failure(client_of(serve(talk).url), SHORT).outcome is Outcome.TIMEOUT

    def test_next_request_after_a_timeout(self, serve: Serve) -> None:
        """A late answer is never taken for the answer to the next request."""
        late = threading.Event()

        def talk(connection: socket.socket, _: bytes) -> None:
            if len(peer.requests) == 1:
                late.wait(LONG)
                connection.sendall(answer(b"late"))
            else:
                connection.sendall(answer())

        peer = serve(talk)
        client = client_of(peer.url)
        assert failure(client, SHORT).outcome is Outcome.TIMEOUT
        late.set()
        assert client.scheduled_events(LONG) == BODY
        assert peer.connections == 2

    def test_next_request_after_an_interim_answer(self, serve: Serve) -> None:
        """What follows an answer that is only an interim one is never taken for the answer to the next request."""

        def talk(connection: socket.socket, _: bytes) -> None:
            if len(peer.requests) == 1:
                connection.sendall(b"HTTP/1.1 103 Early Hints\r\n\r\n")
            else:
                connection.sendall(answer(b"late") if peer.connections == 1 else answer())

        peer = serve(talk)
        client = client_of(peer.url)
        assert failure(client).status == 103
        assert client.scheduled_events(LONG) == BODY

    @pytest.mark.parametrize("fault", ["timeout", "slow-drip"])
    def test_stop(self, fault: str, simulator: Simulator) -> None:
        """Stopping ends a request that hangs, at once, and every later one."""
        simulator.inject(fault)
        client = client_of(simulator.url)
        ended: list[type[BaseException]] = []

        def ask() -> None:
            try:
                client.scheduled_events(LONG * 10)
            except (Stopped, ImdsError) as error:
                ended.append(type(error))

        thread = threading.Thread(target=ask)
        thread.start()
        eventually(lambda: simulator.requests, "the request")
        client.stop()
        thread.join(SLACK)
        assert ended == [Stopped]
        simulator.heal()
        with pytest.raises(Stopped):
            client.scheduled_events(LONG)

    @pytest.mark.parametrize(
        "begun", [b"HTTP/1.1 200 OK\r\nServer: x\r\n", b"HTTP/1.0 200 OK\r\n\r\n"], ids=["head", "body"]
    )
    def test_stop_is_no_end_of_an_answer(self, begun: bytes, serve: Serve) -> None:
        """A stop during an answer never returns a truncated body: an empty one would mean that all events are over."""

        def talk(connection: socket.socket, _: bytes) -> None:
            connection.sendall(begun)
            peer.ending.wait(LONG)

        def ask() -> None:
            try:
                ended.append(client.scheduled_events(LONG))
            except (Stopped, ImdsError) as error:
                ended.append(type(error))

        peer = serve(talk)
        client = client_of(peer.url)
        ended: list[object] = []
        thread = threading.Thread(target=ask)
        thread.start()
        eventually(lambda: peer.requests, "the request")
        time.sleep(0.2)  # for the beginning of the answer to arrive
        client.stop()
        thread.join(SLACK)
        assert ended == [Stopped]

    def test_stop_while_the_budget_waits(self, serve: Serve) -> None:
        """A request that waits for its turn gives up when the process is to end."""
        ending = threading.Event()
        client = ImdsClient(serve(always(answer())).url, "2020-07-01", RateLimiter(1, 3600.0), ending.wait)
        assert client.scheduled_events(LONG) == BODY
        ending.set()
        with pytest.raises(Stopped):
            client.scheduled_events(LONG)


class TestBodies:
    """What becomes of the body of an answer."""

    def test_unchanged(self, serve: Serve) -> None:
        """A 304 is distinguished from an empty body."""
        peer = serve(always(answer(b"", "304 Not Modified")))
        assert client_of(peer.url).scheduled_events(LONG) is None

    def test_unchanged_with_a_length(self, serve: Serve) -> None:
        """A 304 has no body, with any Content-Length, and the connection is reused."""
        peer = serve(always(b"HTTP/1.1 304 Not Modified\r\nContent-Length: 37\r\n\r\n"))
        client = client_of(peer.url)
        assert [client.scheduled_events(LONG) for _ in range(3)] == [None] * 3
        assert peer.connections == 1

    def test_unchanged_instance(self, serve: Serve) -> None:
        """A 304 to a first request is an error for the VM's own metadata."""
        peer = serve(always(answer(b"", "304 Not Modified")))
        with pytest.raises(ImdsError, match="304"):
            client_of(peer.url).instance(LONG)

    def test_empty(self, serve: Serve) -> None:
        """A 200 with an empty body is an answer."""
        assert client_of(serve(always(answer(b""))).url).scheduled_events(LONG) == b""

    def test_chunked(self, serve: Serve) -> None:
        """A chunked answer is put together."""
        chunks = b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in (BODY[:5], BODY[5:]))
        peer = serve(always(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + chunks + b"0\r\n\r\n"))
        client = client_of(peer.url)
        assert [client.scheduled_events(LONG) for _ in range(2)] == [BODY] * 2
        assert peer.connections == 1

    def test_without_a_length(self, serve: Serve) -> None:
        """An HTTP/1.0 answer ends with its connection."""

        def talk(connection: socket.socket, _: bytes) -> None:
            connection.sendall(b"HTTP/1.0 200 OK\r\n\r\n" + BODY)
            connection.shutdown(socket.SHUT_RDWR)

        assert client_of(serve(talk).url).scheduled_events(LONG) == BODY

    def test_of_exactly_one_mebibyte(self, serve: Serve) -> None:
        """A body of 1 MiB is read, one byte more is refused."""
        size = MIB
        peer = serve(lambda connection, _: connection.sendall(answer(b" " * size)))
        client = client_of(peer.url)
        body = client.scheduled_events(LONG)
        assert body is not None
        assert len(body) == MIB
        size += 1
        error = failure(client)
        assert error.outcome is Outcome.INVALID_DOCUMENT
        assert str(error) == f"{peer.url} sent more than 1 MiB"

    @pytest.mark.parametrize("chunked", [False, True])
    def test_large_body(self, chunked: bool, serve: Serve) -> None:  # noqa: FBT001 - a case, not a flag
        """64 MiB are not read to the end and cost little memory; the next poll is answered."""
        piece = b" " * MIB
        sent = 0

        def talk(connection: socket.socket, _: bytes) -> None:
            nonlocal sent
            if len(peer.requests) > 1:
                connection.sendall(answer())
                return
            length = "Transfer-Encoding: chunked" if chunked else f"Content-Length: {64 * MIB}"
            connection.sendall(f"HTTP/1.1 200 OK\r\n{length}\r\n\r\n".encode())
            for _piece in range(64):
                if chunked:
                    connection.sendall(b"%x\r\n" % MIB)
                connection.sendall(piece)
                if chunked:
                    connection.sendall(b"\r\n")
                sent += 1

        peer = serve(talk)
        client = client_of(peer.url)
        with little_memory():
            error = failure(client)
        assert error.outcome is Outcome.INVALID_DOCUMENT
        assert sent < 30  # what the buffers of two sockets take
        assert client.scheduled_events(LONG) == BODY

    @pytest.mark.parametrize("coding", ["gzip", "deflate", "gzip, gzip"])
    def test_compressed_bomb(self, coding: str, serve: Serve) -> None:
        """A small body that unpacks to 64 MiB is refused and costs little memory, although gzip was not requested."""
        bomb = gzip.compress(bytes(64 * MIB))
        if coding == "deflate":
            bomb = bomb[10:-8]
        if coding == "gzip, gzip":
            bomb = gzip.compress(bomb)
        peer = serve(always(answer(bomb, "200 OK", f"Content-Encoding: {coding}")))
        with little_memory():
            error = failure(client_of(peer.url))
        assert error.outcome is Outcome.INVALID_DOCUMENT
        assert_one_line(str(error))
        assert b"gzip" not in peer.requests[0]

    def test_compressed(self, serve: Serve) -> None:
        """A compressed document is read all the same."""
        peer = serve(always(answer(gzip.compress(BODY), "200 OK", "Content-Encoding: gzip")))
        assert client_of(peer.url).scheduled_events(LONG) == BODY

    @pytest.mark.parametrize("kept", [1, 5, 10])
    def test_compressed_and_cut(self, kept: int, serve: Serve) -> None:
        """A compressed document that was cut before its first byte is no empty answer, which means no events."""
        peer = serve(always(answer(gzip.compress(BODY)[:kept], "200 OK", "Content-Encoding: gzip")))
        assert failure(client_of(peer.url)).outcome is Outcome.CONNECTION_ERROR


class TestBudget:
    """All requests of a process together."""

    def test_two_clients(self, simulator: Simulator) -> None:
        """Two clients that ask as often as they can stay under five requests in any second, as the server sees it."""
        budget = RateLimiter()
        refused: list[ImdsError] = []
        until = time.monotonic() + 3.5

        def ask() -> None:
            client = client_of(simulator.url, budget=budget)
            while time.monotonic() < until:
                try:
                    client.scheduled_events(LONG)
                except ImdsError as error:
                    refused.append(error)

        threads = [threading.Thread(target=ask) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(LONG)
        assert not refused
        arrived = [seen.at for seen in simulator.requests]
        assert len(arrived) >= 9
        assert all(fifth - first > 0.99 for first, fifth in zip(arrived, arrived[4:], strict=False))
