"""Two networks of a test's own, joined by a wire: what is lost on it disturbs no other test."""

import ctypes
import os
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from typing import Self

import pytest

HERE = "192.0.2.1"
THERE = "192.0.2.2"
"""Addresses that RFC 5737 keeps for examples."""

_CLONE_NEWNET = 0x40000000
_OWN = "/proc/thread-self/ns/net"
_SEND_SECONDS = 0.05


@dataclass(frozen=True)
class Network:
    """A network namespace, which lives as long as its descriptor is open."""

    descriptor: int

    @contextmanager
    def inside(self) -> Iterator[None]:
        """Let this thread be in it, and what the thread starts: sockets, threads and programs."""
        with _opened(_OWN) as before:
            _enter(self.descriptor)
            try:
                yield
            finally:
                _enter(before)

    def ip(self, *arguments: str) -> None:
        """Run iproute2's command in it."""
        with self.inside():
            subprocess.run(["ip", *arguments], check=True, capture_output=True)

    @contextmanager
    def without_answers(self) -> Iterator[None]:
        """Drop every packet to the network at the other end of the wire."""
        self.ip("route", "add", "blackhole", HERE)
        try:
            yield
        finally:
            self.ip("route", "delete", "blackhole", HERE)


@contextmanager
def wired() -> Iterator[tuple[Network, Network]]:
    """Return two networks that reach each other: the first is :data:`HERE`, the other is THERE.

    Skips the test where the kernel does not let us make them.
    """
    with _new_network() as here, _new_network() as there:
        far_end = f"/proc/{os.getpid()}/fd/{there.descriptor}"
        wire = ("link", "add", "near", "type", "veth", "peer", "name", "far", "netns", far_end)
        try:
            here.ip(*wire)
        except subprocess.CalledProcessError as error:
            pytest.skip(f"no virtual Ethernet: {error.stderr.decode().strip()}")
        for network, device, address in ((here, "near", HERE), (there, "far", THERE)):
            network.ip("address", "add", f"{address}/24", "dev", device)
            network.ip("link", "set", device, "up")
            network.ip("link", "set", "lo", "up")
        yield here, there


@dataclass(eq=False)
class Talk:
    """Sends a byte over each of its TCP connections every 50 ms."""

    clients: Sequence[socket.socket]

    def __post_init__(self) -> None:
        self.sent = 0
        self._ending = threading.Event()
        self._sender = threading.Thread(target=self._send)

    def __enter__(self) -> Self:
        self._sender.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ending.set()
        self._sender.join()

    def _send(self) -> None:
        while not self._ending.wait(_SEND_SECONDS):
            for client in self.clients:
                with suppress(BlockingIOError):
                    self.sent += client.send(b"x")


@contextmanager
def talking(here: Network, there: Network, count: int) -> Iterator[Talk]:
    """Send bytes over ``count`` TCP connections from here to there."""
    with ExitStack() as stack:
        with there.inside():
            server = stack.enter_context(socket.create_server((THERE, 0), backlog=count))
        clients = []
        for _ in range(count):
            with here.inside():
                client = stack.enter_context(socket.create_connection(server.getsockname()))
            client.settimeout(0)
            clients.append(client)
            peer, _ = server.accept()
            stack.enter_context(peer)
        with Talk(clients) as talk:
            yield talk


@contextmanager
def _new_network() -> Iterator[Network]:
    if sys.platform != "linux" or shutil.which("ip") is None:
        pytest.skip("no Linux with iproute2")
    with _opened(_OWN) as before:
        if _libc().unshare(_CLONE_NEWNET) != 0:
            pytest.skip(f"no network namespace: {os.strerror(ctypes.get_errno())}")
        try:
            new = os.open(_OWN, os.O_RDONLY)
        finally:
            _enter(before)
    try:
        yield Network(new)
    finally:
        os.close(new)


@contextmanager
def _opened(path: str) -> Iterator[int]:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _enter(network: int) -> None:
    if _libc().setns(network, _CLONE_NEWNET) != 0:
        raise OSError(ctypes.get_errno(), "setns")


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)
