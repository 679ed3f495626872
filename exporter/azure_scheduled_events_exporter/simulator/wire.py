"""HTTP/1.1 for the simulator: reads requests, and sends answers in the manner of their faults.

``service`` decides what is answered. Only a request whose body has an unknown length, or 100 kB and
more, is refused here. The standard library's server is enough for a drill.
"""

import contextlib
import os
import re
import socket
import socketserver
import struct
import sys
import threading
from collections.abc import Callable
from email.utils import formatdate
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from typing import Any, Final

from .document import to_json
from .exchange import Answer, Request
from .faults import Fault

HUGE: Final = 8 << 20
"""Bytes of a huge body."""

_CHUNK: Final = 64 << 10  # bytes that are read at once
_SHORTEST_ANNOUNCED: Final = 64  # bytes of a body of which half is sent
_DRIP_SECONDS: Final = 0.2  # between two bytes
_IDLE_SECONDS: Final = 300  # without a request, after which a connection is closed
_DOCUMENT: Final = b'{"DocumentIncarnation":1,"Events":[]}'
"""What is made huge if the answer has no body."""

Respond = Callable[[Request], Answer]


class Server(socketserver.ThreadingTCPServer):
    """A server that answers with ``respond``; :meth:`end` closes it with all connections.

    It keeps the sockets of its connections, so that it can also end those that hang.
    """

    daemon_threads = True
    request_queue_size = 128
    # On Windows the option would let two simulators share one port.
    allow_reuse_address = os.name == "posix"

    def __init__(
        self, address: tuple[str, int], respond: Respond, clock: Callable[[], float]
    ) -> None:
        self.respond = respond
        self.clock = clock
        self.stopping = threading.Event()
        self._connections: set[socket.socket] = set()
        if ":" in address[0]:
            self.address_family = socket.AF_INET6
        super().__init__(address, Handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Serve a connection in a thread of its own, and remember it."""
        self._connections.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        """Close a connection and forget it."""
        self._connections.discard(request)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Print nothing if a client disconnects: clients of a faulty service do that."""
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)

    def end(self) -> None:
        """Stop accepting, and close every connection."""
        self.stopping.set()
        self.shutdown()
        self.server_close()
        for connection in list(self._connections):
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)


class Handler(BaseHTTPRequestHandler):
    """Reads the requests of one connection, and answers them, with a fault if one is active."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    timeout = _IDLE_SECONDS
    server: Server

    def setup(self) -> None:
        """Note when the connection was made."""
        self._connected_at = self.server.clock()
        super().setup()

    def _respond(self) -> None:
        """Read the body of a request, and send the answer to it."""
        length = self.headers.get("Content-Length", "0")
        if "Transfer-Encoding" in self.headers or not re.fullmatch("[0-9]{1,5}", length):
            self.close_connection = True
            message = (
                "Bad request. Content-Length must say how long the body is: at most 99999 bytes are"
                " read"
            )
            self._send(Answer(HTTPStatus.BAD_REQUEST, to_json({"error": message})))
            return
        request = Request(
            method=self.command,
            target=self.path,
            headers={name.lower(): value for name, value in self.headers.items()},
            body=self.rfile.read(int(length)),
            connected_at=self._connected_at,
        )
        self._send(self.server.respond(request))

    # The names are those of http.server.
    do_GET = do_POST = do_HEAD = do_PUT = do_PATCH = do_DELETE = do_OPTIONS = _respond  # noqa: N815

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Print nothing: output has a line for each happening, and none for a request."""

    def _send(self, answer: Answer) -> None:
        """Send an answer in the manner of its fault.

        Whether the connection is closed afterwards is decided before the head is written, which
        announces it. A slow answer is the exception: it closes without an announcement.
        """
        if not answer.is_from_imds:  # the Guest Proxy Agent closes the connection
            self.close_connection = True
        match answer.fault:
            case Fault.SLOW_DRIP:
                self._drip(self._whole(answer))
            case Fault.HALF_BODY:
                self.close_connection = True
                half = answer.body[: len(answer.body) // 2]
                # More is announced than is sent, also of an empty body.
                announced = max(len(answer.body), _SHORTEST_ANNOUNCED)
                self.wfile.write(self._head(answer, announced) + half)
            case Fault.HUGE_BODY:
                self._huge(answer)
            case Fault.TIMEOUT:
                self._hang()
            case Fault.RESET:
                self._reset()
            case _:
                self.wfile.write(self._whole(answer))

    def _head(self, answer: Answer, length: int) -> bytes:
        """Return the status line and headers that announce a body of ``length`` bytes."""
        lines = [f"HTTP/1.1 {answer.status} {HTTPStatus(answer.status).phrase}"]
        if answer.is_from_imds:
            lines += [f"Content-Type: {answer.content_type}", "Server: IMDS-simulator"]
        now = formatdate(self.server.clock(), usegmt=True)
        lines += [f"Date: {now}", f"Content-Length: {length}"]
        if self.close_connection:
            lines.append("Connection: close")
        return "\r\n".join([*lines, "", ""]).encode("latin-1")

    def _whole(self, answer: Answer) -> bytes:
        """Return the bytes of an answer; to HEAD, those are its head alone."""
        head = self._head(answer, len(answer.body))
        if self.command == "HEAD":
            return head
        return head + answer.body

    def _drip(self, data: bytes) -> None:
        """Send ``data`` byte by byte, then close the connection."""
        self.close_connection = True
        for byte in data:
            self.wfile.write(bytes((byte,)))
            if self.server.stopping.wait(_DRIP_SECONDS):
                break

    def _huge(self, answer: Answer) -> None:
        """Send a document that is valid except for its size."""
        body = answer.body or _DOCUMENT
        # White space before the last brace does not change what the JSON means.
        padding = b" " * (HUGE - len(body))
        self.wfile.write(self._head(answer, HUGE) + body[:-1] + padding + body[-1:])

    def _hang(self) -> None:
        """Answer nothing until the client or the simulator ends the connection."""
        self.close_connection = True
        self.connection.settimeout(None)
        while self.connection.recv(_CHUNK):  # ends when the other side, or end(), closes
            pass

    def _reset(self) -> None:
        """Close with a linger time of zero, which sends RST instead of FIN."""
        self.close_connection = True
        # The struct linger of C: on, and zero seconds. Its two numbers are shorter on Windows.
        form = "ii" if os.name == "posix" else "hh"
        on_and_zero = struct.pack(form, 1, 0)
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, on_and_zero)
        self.connection.close()
