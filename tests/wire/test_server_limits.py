"""The limits of the HTTP server over real sockets: deadlines, the number of connections, and the
end.
"""

import socket
from contextlib import ExitStack, suppress
from pathlib import Path

import psutil
import pytest

from azure_scheduled_events_exporter.http_server.connection import Limits
from azure_scheduled_events_exporter.simulator import Simulator
from support.programs import COMMAND, Exporter, eventually
from support.servers.serving import HUGE, PAGE, Running, read_all, read_answer, request, serving


@pytest.mark.parametrize("served", [0, 1])
def test_slow_header(served: int) -> None:
    """A header that takes too long ends the connection, although bytes keep coming: the header of
    the first request on it, and that of a later one.

    ``served`` is how many requests were answered on the connection before.
    """
    with serving(limits=Limits(header_seconds=0.5)) as running, running.connect() as client:
        for _ in range(served):
            client.sendall(request())
            assert read_answer(client) == PAGE
        client.sendall(b"GET /metrics HTTP/1.1\r\nHost: a\r\nX: ")
        client.settimeout(0.02)

        def is_over() -> bool:
            with suppress(TimeoutError):
                client.sendall(b"x")
                return client.recv(1) == b""
            return False

        with suppress(ConnectionError):  # the end may be a reset, too
            eventually(is_over, "the end of the connection")


def test_silent_and_idle() -> None:
    """A client that sends nothing is closed when a request is due; one that was served may be idle
    for longer.
    """
    with (
        serving(limits=Limits(header_seconds=0.5, idle_seconds=2)) as running,
        running.connect() as idle,
        running.connect() as silent,
    ):
        idle.sendall(request())
        assert read_answer(idle) == PAGE
        assert read_all(silent) == b"", "closed without an answer"
        # By now, the idle one has waited for longer than a silent one may.
        idle.sendall(request())
        assert read_answer(idle) == PAGE
        assert read_all(idle) == b"", "closed at last"


@pytest.mark.parametrize(
    "headers", [(), ("Connection: close",)], ids=["keep-alive", "last request"]
)
def test_never_reads(headers: tuple[str, ...]) -> None:
    """A client that never reads its page is cut off in time, and does not keep others waiting."""
    with (
        serving(limits=Limits(response_seconds=0.5)) as running,
        running.connect(receive_buffer=4096) as client,
    ):
        client.sendall(request("/huge", "GET", "1.1", *headers))
        eventually(lambda: running.server.connections, "the connection")
        assert running.get().status == 200
        eventually(lambda: not running.server.connections, "the end of the connection")
        assert len(read_all(client)) < len(HUGE)


def connect_one_by_one(running: Running, stack: ExitStack, number: int) -> list[socket.socket]:
    """Open connections that ``stack`` closes; each is known to the server when the next begins."""
    clients = []
    for _ in range(number):
        before = set(running.server.connections)
        clients.append(stack.enter_context(running.connect()))
        eventually(lambda: set(running.server.connections) - before, "the connection")  # noqa: B023 - at once
    return clients


def test_the_longest_idle_makes_room() -> None:
    """At the limit, a new connection closes the one that is idle for longest, and none that is
    being answered.
    """
    with serving(limits=Limits(connections=4)) as running, ExitStack() as stack:
        reader = stack.enter_context(running.connect(receive_buffer=4096))
        reader.sendall(request("/huge", "GET", "1.1", "Connection: close"))
        eventually(
            lambda: any(each.is_busy for each in running.server.connections), "the answer to begin"
        )
        first, second, third = connect_one_by_one(running, stack, 3)
        first.sendall(request())
        assert read_answer(first) == PAGE
        assert running.get().status == 200
        assert read_all(second) == b"", "closed: the first one had a request after it came"
        for client in (first, third):
            client.sendall(request())
            assert read_answer(client) == PAGE
        assert read_all(reader).endswith(HUGE)
        warnings = [record.getMessage() for record in running.records]
        assert warnings == [
            "connection limit reached (4): closing the connections that are idle for longest"
        ]


def test_clients_that_never_read_make_room() -> None:
    """When every connection is being answered and none reads, a new client is served."""
    with serving(limits=Limits(connections=4)) as running, ExitStack() as stack:
        for _ in range(8):  # twice as many as are kept
            client = stack.enter_context(running.connect(receive_buffer=4096))
            client.sendall(request("/huge"))
        assert running.get()[:2] == (200, PAGE)


def test_stop_closes_at_once() -> None:
    """Stop does not wait: idle, slow and never-reading clients are closed immediately."""
    with ExitStack() as stack:
        with serving() as running:
            clients = [stack.enter_context(running.connect(receive_buffer=4096)) for _ in range(3)]
            for client, data in zip(clients, (b"", b"GET /metr", request("/huge")), strict=True):
                client.sendall(data)
            assert running.get().status == 200
        for client in clients:
            assert len(read_all(client)) < len(HUGE)


def test_descriptors(simulator: Simulator, tmp_path: Path) -> None:
    """An exporter may open as many files as the system lets it: 512 connections need more than some
    soft limits.
    """
    lowered = ("sh", "-c", 'ulimit -Sn 256; exec "$0" "$@"', COMMAND)
    with Exporter(simulator.url, tmp_path / "log", command=lowered) as exporter:
        soft, hard = psutil.Process(exporter.process.pid).rlimit(psutil.RLIMIT_NOFILE)
        assert soft == hard
