"""A relay in front of a server on loopback, which a test can cut and mend."""

import contextlib
import socket
import threading
from typing import Self

_LARGEST_DATAGRAM = 65_535


class Relay:
    """Passes TCP connections on to a port of 127.0.0.1, and datagrams too; a context manager.

    While it is cut, it closes every connection and drops every datagram.
    """

    def __init__(self, behind: int) -> None:
        self._behind = ("127.0.0.1", behind)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._datagrams = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._datagrams.bind(("127.0.0.1", self.port))
        self._is_cut = False
        self._open: set[socket.socket] = set()
        self._answering: dict[tuple[str, int], socket.socket] = {}

    def __enter__(self) -> Self:
        for work in (self._accept, self._pass_datagrams):
            threading.Thread(target=work, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.cut()
        for each in (self._listener, self._datagrams, *self._answering.values()):
            _close(each)

    def cut(self) -> None:
        """Pass nothing on from now on."""
        self._is_cut = True
        for each in tuple(self._open):
            _close(each)

    def mend(self) -> None:
        """Pass everything on again."""
        self._is_cut = False

    def _accept(self) -> None:
        with contextlib.suppress(OSError):  # the end of the relay
            while True:
                client, _ = self._listener.accept()
                threading.Thread(target=self._connect, args=(client,), daemon=True).start()

    def _connect(self, client: socket.socket) -> None:
        try:
            server = socket.create_connection(self._behind)
        except OSError:
            _close(client)
            return
        self._open |= {client, server}
        if self._is_cut:
            _close(client)
            _close(server)
        for source, target in ((client, server), (server, client)):
            threading.Thread(target=self._pump, args=(source, target), daemon=True).start()

    def _pump(self, source: socket.socket, target: socket.socket) -> None:
        with contextlib.suppress(OSError):  # either end was closed
            while data := source.recv(_LARGEST_DATAGRAM):
                target.sendall(data)
            target.shutdown(socket.SHUT_WR)
            return
        for each in (source, target):
            _close(each)
            self._open.discard(each)

    def _pass_datagrams(self) -> None:
        with contextlib.suppress(OSError):  # the end of the relay
            while True:
                data, sender = self._datagrams.recvfrom(_LARGEST_DATAGRAM)
                if self._is_cut:
                    continue
                with contextlib.suppress(ConnectionRefusedError):  # nobody listens yet
                    self._socket_of(sender).send(data)

    def _socket_of(self, sender: tuple[str, int]) -> socket.socket:
        """Return the socket that speaks to the server for ``sender``, and hears its answers."""
        if sender not in self._answering:
            speaking = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            speaking.connect(self._behind)
            self._answering[sender] = speaking
            work = (speaking, sender)
            threading.Thread(target=self._answer, args=work, daemon=True).start()
        return self._answering[sender]

    def _answer(self, speaking: socket.socket, sender: tuple[str, int]) -> None:
        with contextlib.suppress(OSError):  # the end of the relay
            while True:
                try:
                    data = speaking.recv(_LARGEST_DATAGRAM)
                except ConnectionRefusedError:
                    continue  # the server restarts
                if not self._is_cut:
                    self._datagrams.sendto(data, sender)


def _close(each: socket.socket) -> None:
    with contextlib.suppress(OSError):
        each.shutdown(socket.SHUT_RDWR)
    each.close()
