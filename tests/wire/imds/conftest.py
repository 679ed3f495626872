"""Servers for the tests of the client of IMDS."""

import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from azure_scheduled_events_exporter.simulator import Scenario, Simulator, VirtualMachine
from support.servers.imds_peer import Peer, Serve

QUIET = Scenario("quiet", "Nothing happens.", (VirtualMachine("vm_0"),), ())


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
