"""HTTP servers that answer as a test wants it: the base of all of them, and one that keeps what it
was asked.
"""

import json
import ssl
import sys
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Self

from support.servers.certificates import Pair


@dataclass(frozen=True)
class Request:
    """A request; ``handler`` can send bytes that are no answer."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes
    client: tuple[str, int]
    handler: BaseHTTPRequestHandler


@dataclass(frozen=True)
class Response:
    """An answer; ``headers`` may say another length than that of ``body``."""

    status: int = 200
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)


class HttpServer:
    """A server on a free port of 127.0.0.1, the same after every :meth:`start`; over TLS with
    ``pair``.

    A context manager. Subclasses answer, each request in a thread of its own; ``ending`` is set
    when it ends.
    """

    protocol = "HTTP/1.1"

    def __init__(self, pair: Pair | None = None) -> None:
        self._server: _Server | None = None
        self.ending = threading.Event()
        self._pair = pair
        self.port = 0
        self._listen()
        self.url = f"https://localhost:{self.port}" if pair else f"http://127.0.0.1:{self.port}"

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def respond(self, request: Request) -> Response | None:
        """Return the answer; None ends the connection."""
        raise NotImplementedError

    def start(self) -> None:
        """Serve, perhaps again."""
        server = self._server or self._listen()
        pause = 0.02  # between looks whether to end
        threading.Thread(target=server.serve_forever, args=(pause,), daemon=True).start()

    def stop(self) -> None:
        """Refuse connections from now on."""
        server = self._server
        self._server = None
        if server:
            self.ending.set()
            server.shutdown()
            server.server_close()

    def _listen(self) -> "_Server":
        class Handler(_Handler):
            protocol_version = self.protocol
            answering = self

        self._server = _Server(("127.0.0.1", self.port), Handler)
        self.port = self._server.server_port
        self.ending.clear()
        if self._pair:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(self._pair.certificate, self._pair.key)
            self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        return self._server


class _Server(ThreadingHTTPServer):
    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing of clients that are gone."""
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)  # type: ignore[arg-type] # handed on as they come


class _Handler(BaseHTTPRequestHandler):
    answering: HttpServer

    def do_GET(self) -> None:
        """Answer as the server says."""
        body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
        asked = Request(
            self.command, self.path, dict(self.headers), body, self.client_address, self
        )
        response = self.answering.respond(asked)
        if response is None:
            self.close_connection = True
            return
        self.send_response_only(response.status)
        for name, value in {"Content-Length": str(len(response.body)), **response.headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(response.body)

    do_POST = do_GET  # noqa: N815 - the base class calls it so

    def log_message(self, *_: object) -> None:
        """Say nothing."""


class Peer(HttpServer):
    """Answers every GET and POST with ``status`` and ``headers``, and keeps it.

    ``clients`` has the addresses from which connections came.
    """

    def __init__(
        self,
        status: int = 200,
        headers: Mapping[str, str] | None = None,
        body: bytes = b"",
        pair: Pair | None = None,
    ) -> None:
        super().__init__(pair)
        self.status = status
        self._headers = headers or {}
        self._body = body
        self.requests: list[tuple[str, dict[str, str], bytes]] = []
        self.clients: set[tuple[str, int]] = set()

    def respond(self, request: Request) -> Response:
        """Keep the request."""
        self.requests.append((request.path, dict(request.headers), request.body))
        self.clients.add(request.client)
        return Response(self.status, self._body, self._headers)

    def alerts(self) -> list[dict[str, object]]:
        """Return all alerts that were posted; a question for alerts has no body."""
        return [alert for _, _, body in list(self.requests) if body for alert in json.loads(body)]
