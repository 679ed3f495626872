"""What the client of IMDS sends: headers, connections, the rate limit; no redirect, proxy or
cookie.
"""

import socket
from contextlib import suppress

import pytest

from azure_scheduled_events_exporter import __version__
from azure_scheduled_events_exporter.errors import ImdsError, Outcome, OutdatedError
from azure_scheduled_events_exporter.imds.client import OLDEST_DOCUMENT_SECONDS
from azure_scheduled_events_exporter.simulator import Simulator
from support.programs import eventually
from support.servers.imds_peer import (
    BODY,
    LONG_LIMIT,
    MIB,
    Peer,
    Serve,
    always,
    answer,
    assert_one_line,
    client_of,
    failure,
    little_memory,
    new_document,
)


class TestRequest:
    """What goes over the wire."""

    def test_headers_and_version(self, serve: Serve) -> None:
        """A request has the header that IMDS requires, the api-version, and the exporter's name and
        version as User-Agent. It has no header of a proxy, which IMDS refuses, and no cookie.
        """
        peer = serve(always(answer()))
        client_of(peer.url, "2019-08-01").scheduled_events(LONG_LIMIT)
        line, *headers = peer.requests[0].decode().strip().split("\r\n")
        sent = {
            name.lower(): value for name, _, value in (header.partition(": ") for header in headers)
        }
        assert line == "GET /metadata/scheduledevents?api-version=2019-08-01 HTTP/1.1"
        assert sent["metadata"] == "true"
        assert sent["user-agent"] == f"azure-scheduled-events-exporter/{__version__}"
        assert "x-forwarded-for" not in sent
        assert "cookie" not in sent
        assert sent["host"] == peer.url.removeprefix("http://")

    def test_instance(self, serve: Serve) -> None:
        """The VM's own metadata is asked for with its own api-version."""
        peer = serve(always(answer(b'{"compute":{}}')))
        assert client_of(peer.url).instance(LONG_LIMIT) == b'{"compute":{}}'
        assert peer.requests[0].startswith(
            b"GET /metadata/instance?api-version=2021-02-01 HTTP/1.1\r\n"
        )
        assert b"\r\nMetadata: true\r\n" in peer.requests[0]

    def test_path_prefix_of_the_endpoint(self, simulator: Simulator) -> None:
        """An endpoint may have a path, as the simulator's other VMs have."""
        assert client_of(simulator.vm_url("vm_0") + "/").scheduled_events(LONG_LIMIT)
        assert simulator.requests[-1].path == "/metadata/scheduledevents"

    @pytest.mark.parametrize("name", ["HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"])
    def test_proxy_of_the_environment(
        self, name: str, serve: Serve, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A proxy in the environment never sees a request, also if nothing exempts the address."""
        proxy = serve(always(answer(b"proxied")))
        peer = serve(always(answer()))
        monkeypatch.setenv(name, proxy.url)
        for no_proxy in ("NO_PROXY", "no_proxy"):
            monkeypatch.delenv(no_proxy, raising=False)
        assert client_of(peer.url).scheduled_events(LONG_LIMIT) == BODY
        assert proxy.connections == 0

    @pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
    def test_redirect(self, status: int, serve: Serve) -> None:
        """A redirect is an error: it is not followed, and its 200 MiB are not read."""
        sent = 0  # MiB

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
        assert sent < 30, "the buffers of two sockets take some, although nobody reads"

    def test_keep_alive(self, serve: Serve) -> None:
        """Twenty polls use one TCP connection."""
        peer = serve(always(answer()))
        client = client_of(peer.url)
        for _ in range(20):
            client.scheduled_events(LONG_LIMIT)
        assert len(peer.requests) == 20
        assert peer.connections == 1

    @pytest.mark.parametrize("status", ["304 Not Modified", "400 Bad Request", "503 Unavailable"])
    def test_new_connection_after_any_other_answer(self, status: str, serve: Serve) -> None:
        """After any answer but 200 the next request opens a connection.

        The Guest Proxy Agent sees only connections that were opened while it runs.
        """
        statuses = iter(["200 OK", status, "200 OK"])
        peer = serve(lambda connection, _: connection.sendall(answer(BODY, next(statuses))))
        client = client_of(peer.url)
        for connections in (1, 1, 2):
            with suppress(ImdsError):
                client.scheduled_events(LONG_LIMIT)
            assert peer.connections == connections

    def test_new_connection_for_an_approval(self, serve: Serve) -> None:
        """An approval opens a connection of its own: the server may be closing an older one."""
        peer = serve(always(answer()))
        client = client_of(peer.url)
        client.scheduled_events(LONG_LIMIT)
        client.approve(["an-id"], LONG_LIMIT, new_document)
        assert peer.connections == 2

    def test_approval_on_an_old_document(self, serve: Serve) -> None:
        """An approval is not sent if its document is over 3 s old. The age is asked for when the
        connection is open, because to open it may take seconds.
        """
        peer = serve(always(answer()))

        def too_old() -> float:
            eventually(lambda: peer.connections == 1, "the connection, before the age is asked for")
            return OLDEST_DOCUMENT_SECONDS + 0.1

        client = client_of(peer.url)
        with pytest.raises(OutdatedError) as caught:
            client.approve(["an-id"], LONG_LIMIT, too_old)
        assert str(caught.value) == "its document is too old: 3.1 s, and the limit is 3 s"
        assert not caught.value.may_have_arrived
        client.approve(["an-id"], LONG_LIMIT, lambda: OLDEST_DOCUMENT_SECONDS)
        assert len(peer.requests) == 1, "the second approval alone"

    def test_idle_connection(self, serve: Serve) -> None:
        """A connection that has been idle for too long is not used again."""
        peer = serve(always(answer()))
        client = client_of(peer.url, idle_seconds=0.0)
        for _ in range(3):
            client.scheduled_events(LONG_LIMIT)
        assert peer.connections == 3


class TestClosingServer:
    """A request that meets a server which closes the idle connection at that moment."""

    @staticmethod
    def _closing(last_bytes: bytes, serve: Serve) -> Peer:
        """Start a server that answers each request but the second one.

        To the second request, which comes over the connection of the first, it sends
        ``last_bytes`` and closes the connection.
        """
        requests = 0

        def talk(connection: socket.socket, _: bytes) -> None:
            nonlocal requests
            requests += 1
            if requests == 2:
                connection.sendall(last_bytes)
                connection.shutdown(socket.SHUT_RDWR)
                return
            connection.sendall(answer())

        return serve(talk)

    def test_asks_again(self, serve: Serve) -> None:
        """A request that got no byte of an answer is sent once more, over a new connection."""
        peer = self._closing(b"", serve)
        client = client_of(peer.url)
        assert [client.scheduled_events(LONG_LIMIT) for _ in range(2)] == [BODY, BODY]
        assert len(peer.requests) == 3, "the second request was sent twice"
        assert peer.connections == 2

    def test_answer_that_has_begun(self, serve: Serve) -> None:
        """An answer that breaks off is a failure, and the request is not sent again: IMDS has seen
        it.
        """
        peer = self._closing(b"HTTP/1.1 200 OK\r\n", serve)
        client = client_of(peer.url)
        client.scheduled_events(LONG_LIMIT)
        assert failure(client).outcome is Outcome.CONNECTION_ERROR
        assert len(peer.requests) == 2
