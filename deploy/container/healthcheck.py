"""The container's HEALTHCHECK: ends with 0 when the exporter answers ``/-/healthy``, else with 1 and the reason.

It takes the address where the exporter takes it, from the environment, the environment file and the configuration file;
flags it cannot see. It loads as little as it can: it runs every half minute beside a daemon that needs a thousandth of
that.
"""  # noqa: INP001 - a program in the image, no package

from __future__ import annotations

import os
import socket
import sys
from typing import TYPE_CHECKING

from azure_scheduled_events_exporter.http_server.listen_address import ListenAddress, parse_listen_address

if TYPE_CHECKING:
    from collections.abc import Mapping

_PREFIX = "AZURE_SCHEDULED_EVENTS_"
_SECONDS = 4.0
_REQUEST = b"GET /-/healthy HTTP/1.1\r\nHost: localhost\r\nUser-Agent: healthcheck\r\nConnection: close\r\n\r\n"
_ALIVE = (b"200", b"401", b"429")
"""Statuses of a living exporter: to ask for a certificate or for patience is an answer too."""


def variables() -> Mapping[str, str]:
    """Return the environment, with that of the environment file if one is named.

    Raises:
        UsageError: the file cannot be read.
    """
    path = os.environ.get(f"{_PREFIX}ENV_FILE")
    if not path:
        return os.environ
    from pathlib import Path  # noqa: PLC0415 - few need it

    from azure_scheduled_events_exporter import environment_file  # noqa: PLC0415 - few need it

    return {name: text for name, (text, _) in environment_file.load(Path(path)).items()} | dict(os.environ)


def settings() -> tuple[ListenAddress, str | None]:
    """Return where the exporter listens, and its web configuration file."""
    env = variables()
    if env.get(f"{_PREFIX}CONFIG_FILE"):
        from azure_scheduled_events_exporter.config import written  # noqa: PLC0415 - a tenth of a second

        # Only these two are parsed: an error in another setting does not stop a running exporter.
        texts = {setting.flag: text for setting, text, _ in written({}, env)}
        address, web_config = texts["web.listen-address"], texts["web.config.file"]
    else:
        address = env.get(f"{_PREFIX}WEB_LISTEN_ADDRESS", ":10169")
        web_config = env.get(f"{_PREFIX}WEB_CONFIG_FILE", "")
    return parse_listen_address(address), web_config or None


def has_tls(web_config: str | None) -> bool:
    """Return whether to try TLS first.

    The exporter may serve something else: it keeps its last valid settings when the file is changed, broken or removed.
    """
    if web_config is None:
        return False
    import yaml  # noqa: PLC0415 - few need it

    try:
        with open(web_config, encoding="utf-8") as file:  # noqa: PTH123 - pathlib takes longer to load than all the rest
            return bool(yaml.safe_load(file).get("tls_server_config"))
    except (OSError, ValueError, AttributeError, yaml.YAMLError):  # it cannot be read, or is no mapping
        return True


def status(address: ListenAddress, *, tls: bool) -> bytes:
    """Return the status code of the answer over TLS or plain HTTP, then over the other one.

    Raises:
        OSError: there is no answer.
    """
    try:
        return _attempt(address, tls=tls)
    except TimeoutError:  # a server that does not know the protocol ends the connection at once
        raise
    except OSError as first:
        try:
            return _attempt(address, tls=not tls)
        except OSError:
            raise first from None


def _attempt(address: ListenAddress, *, tls: bool) -> bytes:
    """Return the status code of the answer.

    It is 401 from a server that ends the connection after its own part of the TLS handshake: it wants a certificate of
    the client. asyncio may end it without the alert that says so.

    Raises:
        OSError: there is no answer.
    """
    everywhere = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - it asks there, it does not listen
    host = everywhere.get(address.host, address.host)
    with socket.create_connection((host, address.port), _SECONDS) as plain:
        if not tls:
            return _ask(plain)
        import ssl  # noqa: PLC0415 - few need it

        context = ssl.create_default_context()
        context.check_hostname = False  # it asks itself; what matters is that there is an answer
        context.verify_mode = ssl.CERT_NONE
        with context.wrap_socket(plain, do_handshake_on_connect=False) as connection:
            try:
                connection.do_handshake()
                return _ask(connection)
            except (ssl.SSLError, ConnectionError):
                if connection.cipher() is None:  # the server has not chosen one
                    raise
                return b"401"


def _ask(connection: socket.socket) -> bytes:
    connection.sendall(_REQUEST)
    found = connection.recv(1024)
    if not found.startswith(b"HTTP/"):
        raise ConnectionError("the answer is not HTTP")
    return found[9:12]


def main() -> str | None:
    """Return what is wrong; None when all is well."""
    try:
        address, web_config = settings()
        found = status(address, tls=has_tls(web_config))
    except Exception as error:  # noqa: BLE001 - whatever it is, it is not healthy
        return f"not healthy: {error}"
    return None if found in _ALIVE else f"not healthy: {address} answers {found.decode(errors='replace') or 'nothing'}"


if __name__ == "__main__":
    sys.exit(main())
