"""Connections that end by a deadline, and those that are not used again after they have been idle."""

import socket
import threading

import pytest
import requests

from azure_scheduled_events_exporter.http_client.deadline import DeadlineAdapter
from support.programs import PATIENCE, eventually
from support.servers.http_peer import Peer


@pytest.mark.parametrize(("idle_seconds", "connections"), [(0.0, 3), (60.0, 1)])
def test_idle_connection(idle_seconds: float, connections: int) -> None:
    """A connection that has been idle for too long is not used again: a load balancer may have forgotten it."""
    with Peer() as peer, requests.Session() as session:
        session.trust_env = False
        adapter = DeadlineAdapter(idle_seconds)
        session.mount("http://", adapter)
        for _ in range(3):
            adapter.begin(PATIENCE)
            assert session.get(peer.url, timeout=PATIENCE).status_code == 200
        assert len(peer.clients) == connections


def test_a_deadline_that_passes_while_the_connection_is_made() -> None:
    """An exchange whose server accepts too late is over, and its answer is not waited for."""
    adapter = DeadlineAdapter()
    adapter.begin(0.3)
    with socket.create_server(("127.0.0.1", 0), backlog=0) as server, requests.Session() as session:
        address = "{}:{}".format(*server.getsockname())

        def is_late() -> bool:
            try:
                return adapter.remaining() < 0
            except TimeoutError:
                return True

        def accept_late() -> None:
            eventually(is_late, "the deadline")
            server.settimeout(PATIENCE)
            for _ in range(2):
                connection, _ = server.accept()
                with connection:
                    connection.recv(1 << 16)
                    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")

        with socket.create_connection(server.getsockname()) as other:  # the only one that fits into the backlog
            other.sendall(b"x")
            thread = threading.Thread(target=accept_late)
            thread.start()
            session.trust_env = False
            session.mount("http://", adapter)
            with pytest.raises(requests.Timeout):
                session.get(f"http://{address}/", timeout=PATIENCE)
            thread.join()
