"""The server under TLS: handshakes, pages, and clients that do not speak TLS or stop in the middle."""

import gc
import logging
import socket
import struct
from asyncio.sslproto import SSLProtocol
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest

from azure_scheduled_events_exporter.http_server.connection import Limits, Phase
from support.programs import eventually
from support.servers.certificates import Authority
from support.servers.serving import BIG, MEDIUM, PAGE, read_all, read_answer, request, status
from support.servers.tls_serving import PLAIN, ask, encrypted, said, trusting, wrapped


@contextmanager
def collections_off() -> Iterator[None]:
    """Let the garbage collector rest: what a cycle of references holds, stays."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def states_of_tls() -> int:
    """Return how many connections asyncio keeps the state of TLS for."""
    return sum(isinstance(each, SSLProtocol) for each in gc.get_objects())


class TestTls:
    """Pages over TLS, and clients that do not speak it well."""

    def test_page(self, file: Path, authority: Authority) -> None:
        """Pages small and large come whole, one after another on one connection."""
        with encrypted(file) as running, wrapped(running, trusting(authority)) as client:
            for path, page in (("/metrics", PAGE), ("/big", BIG), ("/metrics", PAGE)):
                client.sendall(request(path))
                assert read_answer(client) == page

    def test_protocol(self, file: Path, authority: Authority) -> None:
        """A client that offers HTTP/2 and HTTP/1.1, as Prometheus does, gets HTTP/1.1 and TLS 1.3."""
        file.write_text(PLAIN + "http_server_config: {http2: true}\n")
        context = trusting(authority)
        context.set_alpn_protocols(["h2", "http/1.1"])
        with encrypted(file) as running, wrapped(running, context) as client:
            assert client.selected_alpn_protocol() == "http/1.1"
            assert client.version() == "TLSv1.3"

    def test_body(self, file: Path, authority: Authority) -> None:
        """A request with a body is answered, and the connection ends."""
        with encrypted(file, Limits(linger_seconds=0.2)) as running, wrapped(running, trusting(authority)) as client:
            client.sendall(request("/metrics", "POST", "1.1", "Content-Length: 1000"))
            assert status(read_all(client)) == 405

    def test_no_handshake(self, file: Path, authority: Authority) -> None:
        """Clients that never begin the handshake delay no other client, and are closed in time."""
        with encrypted(file, Limits(request_seconds=2.0)) as running:
            silent = [running.connect() for _ in range(20)]
            with wrapped(running, trusting(authority)) as client:
                client.sendall(request())
                assert read_answer(client) == PAGE
            for waiting in silent:
                assert read_all(waiting) == b""
                waiting.close()

    def test_cap_counts_handshakes(self, file: Path, authority: Authority) -> None:
        """Connections during the handshake count, and are closed like other idle ones if necessary."""
        with encrypted(file, Limits(connections=4)) as running:
            silent = [running.connect() for _ in range(10)]
            assert ask(running, trusting(authority)) == 200
            for waiting in silent[:5]:
                assert read_all(waiting) == b""
            for waiting in silent:
                waiting.close()

    @pytest.mark.parametrize(
        "nonsense", [request(), b"\x16\x03\x01\x02\x00\x01", b"\x00" * 1000, b"\x16\x03\x01\xff\xff" + b"\x01" * 70_000]
    )
    def test_no_tls(self, file: Path, authority: Authority, nonsense: bytes) -> None:
        """Input that is not TLS, such as plain HTTP, is dropped without a log line above debug."""
        with encrypted(file, Limits(request_seconds=2.0)) as running:
            with running.connect() as client:
                with suppress(ConnectionResetError):  # a busy machine may send it after its time is up
                    client.sendall(nonsense)
                assert PAGE not in read_all(client)
            assert ask(running, trusting(authority)) == 200
            assert {record.levelno for record in running.records} <= {logging.DEBUG, logging.INFO}
            assert said(running, logging.INFO) == ["web configuration loaded"]

    def test_reset(self, file: Path, authority: Authority, caplog: pytest.LogCaptureFixture) -> None:
        """Clients that reset the connection in the middle of a large page leave nothing in the log."""
        context = trusting(authority)
        with encrypted(file) as running:
            for path in ("/big", "/huge"):
                for _ in range(20):
                    client = wrapped(running, context)
                    client.sendall(request(path))
                    client.recv(1000)
                    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                    client.close()
            assert ask(running, context) == 200
            assert {record.levelno for record in running.records} <= {logging.DEBUG, logging.INFO}
        assert caplog.text == ""  # asyncio has its own logger

    def test_never_reads(self, file: Path, authority: Authority) -> None:
        """A client that never reads its large page is cut off."""
        with (
            encrypted(file, Limits(write_seconds=0.4)) as running,
            trusting(authority).wrap_socket(
                running.connect(receive_buffer=4096), server_hostname="localhost"
            ) as client,
        ):
            client.sendall(request("/huge"))
            eventually(lambda: running.server._connections, "the connection")
            eventually(lambda: not running.server._connections, "the end of the connection")

    def test_last_bytes_of_a_slow_client(self, file: Path, authority: Authority) -> None:
        """A client that reads its last page late still gets all of it."""
        context = trusting(authority)
        with (
            encrypted(file, Limits(linger_seconds=0.1)) as running,
            context.wrap_socket(running.connect(receive_buffer=4096), server_hostname="localhost") as client,
        ):
            client.sendall(request("/medium", "GET", "1.1", "Connection: close"))
            (connection,) = running.server._connections
            eventually(lambda: connection.phase is Phase.CLOSING, "the end of the answer")
            for _ in range(3):  # each is closed after linger_seconds
                with wrapped(running, context) as another:
                    another.sendall(request("/metrics", "POST", "1.1", "Content-Length: 1000"))
                    read_all(another)
            assert read_all(client).partition(b"\r\n\r\n")[2] == MEDIUM

    def test_closed_connections_are_freed(self, file: Path, authority: Authority) -> None:
        """A closed connection gives its memory back at once, instead of at the next garbage collection."""
        context = trusting(authority)
        with encrypted(file, Limits(request_seconds=3.0)) as running, collections_off(), ExitStack() as stack:
            silent = [stack.enter_context(running.connect()) for _ in range(10)]
            for _ in range(10):
                assert ask(running, context) == 200
            assert [read_all(each) for each in silent] == [b""] * 10
            eventually(lambda: not states_of_tls(), "the end of every connection")

    def test_crowd(self, file: Path, authority: Authority) -> None:
        """A page is answered amid 400 silent clients and 50 under TLS that are idle, trickle or talk nonsense."""
        context = trusting(authority)
        with encrypted(file) as running, ExitStack() as stack:
            for number in range(400):
                silent = stack.enter_context(running.connect())
                if number % 10 == 0:
                    silent.sendall(b"\x16\x03\x01")
                elif number % 10 == 1:
                    silent.sendall(request())
            idle = [stack.enter_context(wrapped(running, context)) for _ in range(50)]
            for number, client in enumerate(idle):
                client.sendall((b"GET /metr", request(), b"G" * 15_000, b"nonsense\r\n\r\n")[number % 4])
            assert ask(running, context) == 200
            assert said(running, logging.ERROR) == []
