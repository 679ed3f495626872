"""A mail server with STARTTLS that keeps what it is sent."""

import email
import email.policy
import socketserver
import ssl
import threading
from collections.abc import Iterator
from email.message import EmailMessage
from typing import Self

from support.servers.certificates import Pair


class MailServer:
    """A server on a free port of localhost; a context manager."""

    def __init__(self, pair: Pair) -> None:
        self.mails: list[EmailMessage] = []
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(pair.certificate, pair.key)

        class Handler(_Handler):
            tls = context
            kept = self.mails

        self._server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.address = f"localhost:{self._server.server_address[1]}"

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()


class _Handler(socketserver.StreamRequestHandler):
    tls: ssl.SSLContext
    kept: list[EmailMessage]

    def handle(self) -> None:
        """Answer each command until QUIT."""
        self._say("220 ready")
        for command in self._lines():
            verb = command.split(" ")[0].upper()
            if verb == "QUIT":
                self._say("221 bye")
                return
            if verb == "EHLO":
                self._say("250-localhost")
                self._say("250 STARTTLS")
            elif verb == "STARTTLS":
                self._say("220 go ahead")
                self._encrypt()
            elif verb == "DATA":
                self._say("354 go ahead")
                self._keep()
                self._say("250 kept")
            else:
                self._say("250 fine")

    def finish(self) -> None:
        """Close the connection, also the encrypted one, which the server does not know."""
        super().finish()
        self.connection.close()

    def _lines(self) -> Iterator[str]:
        while line := self.rfile.readline():
            yield line.decode().rstrip("\r\n")

    def _say(self, text: str) -> None:
        self.wfile.write(f"{text}\r\n".encode())

    def _encrypt(self) -> None:
        self.connection = self.tls.wrap_socket(self.connection, server_side=True)
        self.rfile = self.connection.makefile("rb")
        self.wfile = self.connection.makefile("wb", buffering=0)

    def _keep(self) -> None:
        lines = []
        for line in self._lines():
            if line == ".":
                break
            lines.append(line.removeprefix(".") if line.startswith("..") else line)
        content = "\r\n".join(lines).encode()
        self.kept.append(email.message_from_bytes(content, policy=email.policy.default))
