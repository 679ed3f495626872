"""The container's HEALTHCHECK: ends with 0 if the exporter answers ``/-/healthy``, else with 1.

It finds the address in the environment, the environment file and the configuration file; it cannot
see flags.
"""  # noqa: INP001 - a program in the image, no package

import os
import socket
import ssl
import sys
from contextlib import suppress
from pathlib import Path

from azure_scheduled_events_exporter import environment_file
from azure_scheduled_events_exporter.config.resolution import texts_and_places
from azure_scheduled_events_exporter.http_server.listen_address import (
    ListenAddress,
    parse_listen_address,
)

_SECONDS = 2.0  # that an attempt may take: there are two, without TLS and with it
_REQUEST = (
    b"GET /-/healthy HTTP/1.1\r\nHost: localhost\r\nUser-Agent: healthcheck\r\nConnection:"
    b" close\r\n\r\n"
)
_ALIVE = (b"200", b"401", b"429")
"""Statuses of a living exporter: it may also demand a login, or refuse too many requests."""


def _address() -> ListenAddress:
    """Return where the exporter of this container listens.

    Only this setting is parsed: an error in another one does not stop a running exporter.
    """
    variables: dict[str, str] = {}
    if path := os.environ.get("AZURE_SCHEDULED_EVENTS_ENV_FILE"):
        for name, (text, _) in environment_file.load(Path(path)).items():
            variables[name] = text
    variables |= os.environ
    texts = {}
    for setting, text, _ in texts_and_places({}, variables):
        texts[setting.flag] = text
    return parse_listen_address(texts["web.listen-address"])


def _status(address: ListenAddress) -> bytes:
    """Return the status code of the answer; 401 if TLS demands a certificate of the client.

    Whether the exporter uses TLS is tried, and not read from its web configuration: it keeps the
    last valid one, whatever the file has become.

    Raises:
        OSError: there is no answer.
    """
    where = (address.local.host, address.port)
    # A server with TLS ends a connection without it at once: then TLS is tried below.
    with socket.create_connection(where, _SECONDS) as plain, suppress(ConnectionError):
        return _ask(plain)
    context = ssl.create_default_context()
    # Whose certificate it is does not matter: the address is that of this container.
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    with context.wrap_socket(
        socket.create_connection(where, _SECONDS), do_handshake_on_connect=False
    ) as connection:
        try:
            connection.do_handshake()
            return _ask(connection)
        except (ssl.SSLError, ConnectionError):
            # If a cipher was chosen, the server uses TLS and refuses a client without certificate.
            if connection.cipher() is None:
                raise
            return b"401"


def _ask(connection: socket.socket) -> bytes:
    """Return the status code that the server answers; ConnectionError if it is not HTTP."""
    connection.sendall(_REQUEST)
    found = connection.recv(1024)
    if not found.startswith(b"HTTP/"):
        raise ConnectionError("the answer is not HTTP")
    return found[9:12]  # the status in HTTP/1.1 200 OK


def main() -> str | None:
    """Return what is wrong; None when all is well."""
    try:
        address = _address()
        found = _status(address)
    except Exception as error:  # noqa: BLE001 - whatever it is, it is not healthy
        return f"not healthy: {error}"
    if found in _ALIVE:
        return None
    return f"not healthy: {address} answers {found.decode(errors='replace') or 'nothing'}"


if __name__ == "__main__":
    sys.exit(main())
