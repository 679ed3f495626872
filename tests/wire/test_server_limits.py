"""The limits of the HTTP server over real sockets: deadlines, the cap of connections, memory, and the end."""

import logging
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress

import pytest

from azure_scheduled_events_exporter.http_server.connection import Connection, Limits
from azure_scheduled_events_exporter.http_server.messages import Request, Response
from support.programs import eventually
from support.servers.serving import (
    HUGE,
    PAGE,
    PATIENCE,
    ROUTES,
    Running,
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


class TestLimits:
    """What slow, idle and greedy clients get."""

    @pytest.mark.parametrize("served", [0, 1])
    def test_trickled_header(self, served: int) -> None:
        """A first or later header that takes too long in all is answered 408, though a byte came every moment."""
        with serving(limits=Limits(request_seconds=2.0)) as running, running.connect() as client:
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            for _ in range(served):
                client.sendall(request())
                assert read_answer(client) == PAGE
            client.sendall(b"GET /metrics HTTP/1.1\r\nX-Slow: ")
            client.settimeout(0.02)
            end = time.monotonic() + PATIENCE
            answer = b""
            while not answer and time.monotonic() < end:
                client.sendall(b"x")
                with suppress(TimeoutError):
                    answer = client.recv(1000)
        assert status(answer) == 408

    def test_silent(self) -> None:
        """A connection that never sends a byte is closed without a word when a request is due."""
        with serving(limits=Limits(request_seconds=0.2)) as running, running.connect() as client:
            assert read_all(client) == b""

    def test_idle(self) -> None:
        """A kept-alive connection stays longer than a request may take, and is closed when idle too long."""
        limits = Limits(request_seconds=2.0, idle_seconds=5.0)
        with serving(limits=limits) as running, running.connect() as client:
            client.sendall(request())
            assert read_answer(client) == PAGE
            begin = time.monotonic()
            assert read_all(client) == b""
            assert time.monotonic() - begin > 4.0

    def test_never_reads(self) -> None:
        """A client that never reads its page is cut off, and does not keep others waiting."""
        with (
            serving(limits=Limits(write_seconds=0.4)) as running,
            running.connect(receive_buffer=4096) as client,
        ):
            client.sendall(request("/huge"))
            assert running.get()[0] == 200
            begin = time.monotonic()
            while running.server._connections:
                assert time.monotonic() - begin < PATIENCE
                time.sleep(0.01)
            assert len(read_all(client)) < len(HUGE)

    def test_slow_reader(self, server: Running) -> None:
        """A client that reads slowly, but in time, gets every byte of a huge page."""
        with server.connect(receive_buffer=4096) as client:
            client.sendall(request("/huge"))
            assert server.get()[0] == 200
            assert read_answer(client) == HUGE

    def test_flooding_pipeline(self) -> None:
        """A client that sends requests for ever and reads nothing stops being read."""
        enough = 60_000_000  # far more than the kernel keeps
        with serving() as running, running.connect(receive_buffer=4096) as client:
            client.settimeout(0.5)
            flood, sent = request("/huge") * 10_000, 0
            with suppress(TimeoutError):
                while sent < enough:
                    sent += client.send(flood)
            assert sent < enough
            assert running.get()[0] == 200

    def test_cap_spares_answers(self) -> None:
        """At the limit, a response in progress is not closed while there are idle connections."""
        with serving(limits=Limits(connections=2)) as running, running.connect(receive_buffer=4096) as reader:
            reader.sendall(request("/huge"))
            assert reader.recv(1, socket.MSG_PEEK)  # its answer has begun
            with running.connect() as idle:
                assert running.get()[0] == 200
                assert read_all(idle) == b""
            assert read_answer(reader) == HUGE

    def test_cap_closes_longest_waiting(self) -> None:
        """At the cap the connection that has waited longest for its request makes room for the new one."""
        with serving(limits=Limits(connections=3)) as running:
            served, old, young = running.connect(), running.connect(), running.connect()
            for client in (old, young):
                client.sendall(request())
                assert read_answer(client) == PAGE
            old.sendall(b"GET /metr")  # trickling does not make it younger
            served.sendall(request())
            assert read_answer(served) == PAGE
            assert running.get()[0] == 200
            assert read_all(old) == b""
            for client in (served, young):
                client.sendall(request())
                assert read_answer(client) == PAGE
            for client in (served, old, young):
                client.close()

    def test_cap_is_logged(self) -> None:
        """Nothing is logged below the cap, and one warning a minute at it, however many clients are closed."""
        with serving(limits=Limits(connections=2)) as running, ExitStack() as stack:
            idle = [stack.enter_context(running.connect())]
            assert running.get()[0] == 200
            assert running.records == []
            idle += [stack.enter_context(running.connect()) for _ in range(5)]
            assert running.get()[0] == 200
            assert [read_all(client) for client in idle[:4]] == [b""] * 4
            logged = [record for record in running.records if record.levelno > logging.DEBUG]
            assert [(record.levelno, record.getMessage()) for record in logged] == [
                (logging.WARNING, "connection limit reached (2): closing idle connections")
            ]

    def test_cap_spares_requests_not_yet_read(self) -> None:
        """At the cap, a client that has sent its request is not closed only because the server was busy."""
        held, free = threading.Event(), threading.Event()

        def hold(_: Request) -> Response:
            held.set()
            assert free.wait(PATIENCE)
            return Response(200, PAGE, "text/plain")

        with serving(routes={**ROUTES, "/hold": hold}, limits=Limits(connections=2)) as running, ExitStack() as stack:
            stack.enter_context(running.connect()).sendall(request("/hold"))
            assert held.wait(PATIENCE)
            prompt = stack.enter_context(running.connect())
            prompt.sendall(request())
            for _ in range(5):
                stack.enter_context(running.connect())  # sends nothing
            free.set()
            assert read_answer(prompt) == PAGE

    def test_cap_of_readers(self) -> None:
        """When all connections are being answered and none reads, a new one is still served."""
        with serving(limits=Limits(connections=5)) as running:
            greedy = [running.connect(receive_buffer=4096) for _ in range(8)]
            for client in greedy:
                client.sendall(request("/huge"))
            assert running.get()[0] == 200
            for client in greedy:
                client.close()

    def test_cap_of_clients_that_never_read(self) -> None:
        """A client that sends its request late is answered, although all others never read and more keep coming."""
        limits = Limits(connections=20, grace_seconds=0.05, unsent_bytes=1 << 30)
        with serving(limits=limits) as running, ExitStack() as stack:

            def greedy() -> None:
                client = stack.enter_context(running.connect(receive_buffer=4096))
                client.sendall(request("/huge"))

            def busy() -> set[Connection]:
                return {one for one in tuple(running.server._connections) if one.is_busy}

            for _ in range(20):
                greedy()
            eventually(lambda: len(busy()) == 20, "all are answered")
            first = busy()
            eventually(lambda: max(one.progress for one in first) < time.monotonic() - 0.1, "nobody reads on")
            late = stack.enter_context(running.connect())
            eventually(lambda: len(busy()) == 19, "room for the late one")
            for _ in range(10):
                greedy()
            eventually(lambda: len(busy() - first) == 10, "room for the others")
            late.sendall(request())
            assert read_answer(late) == PAGE

    def test_unsent_responses_are_bounded(self) -> None:
        """Of responses that nobody reads, only so many bytes are kept; a client that reads gets its own."""
        bodies = [bytes([65 + number]) * 3_000_000 for number in range(6)]

        def one(request: Request) -> Response:
            return Response(200, bodies[int(request.query)], "text/plain")

        with (
            serving({"/": one}, limits=Limits(unsent_bytes=8_000_000, grace_seconds=0.0)) as running,
            ExitStack() as stack,
        ):
            clients = [stack.enter_context(running.connect(receive_buffer=4096)) for _ in bodies]
            for number, client in enumerate(clients):
                client.sendall(request(f"/?{number}"))
                assert client.recv(1, socket.MSG_PEEK)
            assert read_answer(clients[-1]) == bodies[-1]
            assert sum(len(one.body) for one in running.server._connections) <= 8_000_000

    def test_stop_closes_at_once(self) -> None:
        """Stop does not wait: idle, slow and never-reading clients are closed immediately."""
        with serving() as running:
            clients = [running.connect(receive_buffer=4096) for _ in range(3)]
            clients[0].sendall(b"GET /metr")
            clients[1].sendall(request("/huge"))
            assert running.get()[0] == 200
            begin = time.monotonic()
        assert time.monotonic() - begin < 9.0  # the shortest of their deadlines is 10 s
        for client in clients:
            read_all(client)
            client.close()
