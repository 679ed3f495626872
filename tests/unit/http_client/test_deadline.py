"""Connections that are not used again after they have been idle.

The deadlines are tested in tests/wire/imds.
"""

import pytest
import requests

from azure_scheduled_events_exporter.http_client.deadline import IDLE_SECONDS, DeadlineAdapter
from support.programs import PATIENCE
from support.servers.http_peer import Peer


@pytest.mark.parametrize(("idle_seconds", "connections"), [(0.0, 3), (60.0, 1)])
def test_idle_connection(idle_seconds: float, connections: int) -> None:
    """A connection that has been idle for too long is not used again: a load balancer may have
    forgotten it.
    """
    with Peer() as peer, requests.Session() as session:
        session.trust_env = False
        adapter = DeadlineAdapter(idle_seconds)
        session.mount("http://", adapter)
        for _ in range(3):
            adapter.begin(PATIENCE)
            assert session.get(peer.url, timeout=PATIENCE).status_code == 200
        assert len(peer.clients) == connections


def test_a_connection_is_given_up_before_an_agent_closes_it() -> None:
    """The Guest Proxy Agent closes a connection after 60 s."""
    assert IDLE_SECONDS < 60
