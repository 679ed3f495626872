"""Servers for the tests of the client of IMDS."""

import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from support.servers.imds_peer import Peer, Serve


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Start servers that end with the test."""
    with ExitStack() as stack:

        def start(talk: Callable[[socket.socket, bytes], None]) -> Peer:
            peer = Peer(talk)
            stack.callback(peer.end)
            return peer

        yield start
