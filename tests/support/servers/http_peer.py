"""Somebody whom the exporter posts to, and who answers as a test wants it."""

import json
import ssl
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Self

from support.servers.certificates import Pair


class Peer:
    """An HTTP server that answers and keeps every GET and POST, with ``status`` and ``headers``; a context manager.

    With ``pair``, it serves TLS. While ``answers_get`` is not set, a GET waits. ``clients`` has the addresses from
    which connections came.
    """

    def __init__(
        self, status: int = 200, headers: dict[str, str] | None = None, body: bytes = b"", pair: Pair | None = None
    ) -> None:
        self.status = status
        self.answers_get = threading.Event()
        self.answers_get.set()
        self.requests: list[tuple[str, dict[str, str], bytes]] = []
        self.clients: set[tuple[str, int]] = set()
        peer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                sent = self.rfile.read(int(self.headers.get("Content-Length", "0")))
                peer.requests.append((self.path, dict(self.headers), sent))
                peer.clients.add(self.client_address)
                self.send_response_only(peer.status)
                for name, value in {"Content-Length": str(len(body)), **(headers or {})}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(body)

            def do_GET(self) -> None:
                peer.answers_get.wait()
                self.do_POST()

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name of the base class
                """Say nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        if pair:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(pair.certificate, pair.key)
            self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
            self.url = f"https://localhost:{self._server.server_port}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def alerts(self) -> list[dict[str, object]]:
        """Return all alerts that were posted; a question for alerts has no body."""
        return [alert for _, _, body in list(self.requests) if body for alert in json.loads(body)]
