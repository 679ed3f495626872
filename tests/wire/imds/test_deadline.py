"""The deadline of a whole request, and requests that are stopped."""

import socket
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack

import pytest

from azure_scheduled_events_exporter.errors import ImdsError, Outcome, Stopped
from support.programs import PATIENCE, Exporter, eventually
from support.servers.imds_peer import (
    BODY,
    CONNECT,
    LONG_LIMIT,
    SHORT_LIMIT,
    SLACK,
    Serve,
    answer,
    client_of,
    failure,
)


class TestDeadline:
    """One deadline for all of a request."""

    @pytest.mark.parametrize("dripped", ["head", "body", "chunks"])
    def test_dripping_server(self, dripped: str, serve: Serve) -> None:
        """A server that sends a byte now and then cannot hold a poll beyond its time limit."""
        over = threading.Event()

        def talk(connection: socket.socket, _: bytes) -> None:
            at_once, dripping = self._parts(dripped)
            connection.sendall(at_once)
            for byte in dripping:
                connection.sendall(bytes((byte,)))
                if over.wait(0.1):
                    return

        peer = serve(talk)
        began = time.monotonic()
        error = failure(client_of(peer.url), SHORT_LIMIT)
        took = time.monotonic() - began
        over.set()
        assert error.outcome is Outcome.TIMEOUT
        assert str(error) == f"no whole answer from {peer.url} within 0.5 s"
        assert SHORT_LIMIT <= took < SHORT_LIMIT + SLACK

    @staticmethod
    def _parts(dripped: str) -> tuple[bytes, bytes]:
        """Return what a server sends at once, and what it sends byte by byte."""
        body = bytes(100)
        head = answer(body).removesuffix(body)
        if dripped == "head":
            return b"", head + body
        if dripped == "body":
            return head, body
        chunk = b"1\r\n \r\n"
        return b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", chunk * 100

    def test_no_connection(self, start_exporter: Callable[..., Exporter]) -> None:
        """Connecting has a time limit of its own, however long the answer may take. In the exporter
        it is ``--imds.timeout``, and not the two minutes that the first answer may take.
        """
        with ExitStack() as stack:
            server = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=0))
            # Linux queues one more connection than the backlog, and then ignores new ones: more
            # than enough connections come first.
            for _ in range(4):
                waiting = stack.enter_context(socket.socket())
                waiting.settimeout(0)  # does not wait
                waiting.connect_ex(server.getsockname())
            host, port = server.getsockname()
            url = f"http://{host}:{port}"
            error = failure(client_of(url), timeout=2 * PATIENCE)
            start_exporter(url, "--imds.timeout", "1s").wait_for_line(
                f"poll failed.*no connection to {url} within 1 s"
            )
        assert str(error) == f"no connection to {url} within {CONNECT:g} s"
        assert error.outcome is Outcome.TIMEOUT
        assert not error.may_have_arrived

    def test_next_request_after_a_timeout(self, serve: Serve) -> None:
        """A late answer is never taken for the answer to the next request."""
        late = threading.Event()

        def talk(connection: socket.socket, _: bytes) -> None:
            if len(peer.requests) == 1:
                late.wait(LONG_LIMIT)
                connection.sendall(answer(b"late"))
            else:
                connection.sendall(answer())

        peer = serve(talk)
        client = client_of(peer.url)
        assert failure(client, SHORT_LIMIT).outcome is Outcome.TIMEOUT
        late.set()
        assert client.scheduled_events(LONG_LIMIT) == BODY
        assert peer.connections == 2

    @pytest.mark.parametrize(
        "begun",
        [b"HTTP/1.1 200 OK\r\nServer: x\r\n", b"HTTP/1.0 200 OK\r\n\r\n"],
        ids=["head", "body"],
    )
    def test_stop_is_no_end_of_an_answer(self, begun: bytes, serve: Serve) -> None:
        """A stop ends this request and every later one. What has come of an answer is not taken for
        the whole: an empty body would mean that all events are over.
        """

        def talk(connection: socket.socket, _: bytes) -> None:
            connection.sendall(begun)
            peer.ending.wait(LONG_LIMIT)

        def ask() -> None:
            try:
                ended.append(client.scheduled_events(LONG_LIMIT))
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
        with pytest.raises(Stopped):
            client.scheduled_events(LONG_LIMIT)
