"""The container's HEALTHCHECK: ends with 0 when the exporter answers ``/-/healthy``, else with 1 and the reason.

It takes the address where the exporter takes it, from the environment and the configuration file; flags it cannot see.
It loads as little as it can: it runs every half minute beside a daemon that needs a thousandth of that.
"""  # noqa: INP001 - a program in the image, no package

import os
import socket
import sys

from azure_scheduled_events_exporter.http_server.listen_address import ListenAddress, parse_listen_address

_PREFIX = "AZURE_SCHEDULED_EVENTS_"
_SECONDS = 4.0
_REQUEST = b"GET /-/healthy HTTP/1.1\r\nHost: localhost\r\nUser-Agent: healthcheck\r\nConnection: close\r\n\r\n"
_ALIVE = (b"200", b"401", b"429")
"""Statuses of a living exporter: to ask for a certificate or for patience is an answer too."""


def settings() -> tuple[ListenAddress, str | None]:
    """Return where the exporter listens, and its web configuration file."""
    if os.environ.get(f"{_PREFIX}CONFIG_FILE"):
        from azure_scheduled_events_exporter.config import written  # noqa: PLC0415 - a tenth of a second

        # Only these two are parsed: an error in another setting does not stop a running exporter.
        texts = {setting.flag: text for setting, text, _ in written({}, os.environ)}
        address, web_config = texts["web.listen-address"], texts["web.config.file"]
    else:
        address = os.environ.get(f"{_PREFIX}WEB_LISTEN_ADDRESS", ":10169")
        web_config = os.environ.get(f"{_PREFIX}WEB_CONFIG_FILE", "")
    return parse_listen_address(address), web_config or None


def tls(web_config: str | None) -> str:
    """Return ``""`` for no TLS, ``"certificate"`` where clients need one of their own, else ``"server"``."""
    if web_config is None:
        return ""
    import yaml  # noqa: PLC0415 - few need it

    with open(web_config, encoding="utf-8") as file:  # noqa: PTH123 - pathlib takes longer to load than all the rest
        section = (yaml.safe_load(file) or {}).get("tls_server_config") or {}
    if not section:
        return ""
    return "certificate" if "Require" in section.get("client_auth_type", "") else "server"


def status(address: ListenAddress, secured: str) -> bytes:
    """Return the status code of the answer; 401 from a server that ends the talk for want of a client's certificate.

    Raises:
        OSError: there is no answer.
    """
    everywhere = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - it asks there, it does not listen
    host = everywhere.get(address.host, address.host)
    with socket.create_connection((host, address.port), _SECONDS) as plain:
        if not secured:
            return _ask(plain)
        import ssl  # noqa: PLC0415 - few need it

        context = ssl.create_default_context()
        context.check_hostname = False  # it asks itself; what matters is that there is an answer
        context.verify_mode = ssl.CERT_NONE
        try:
            with context.wrap_socket(plain) as connection:
                found = _ask(connection)
        except (ssl.SSLError, ConnectionError):
            if secured != "certificate":
                raise
            found = b""
        return found or (b"401" if secured == "certificate" else found)


def _ask(connection: socket.socket) -> bytes:
    connection.sendall(_REQUEST)
    return connection.recv(1024)[9:12]


def main() -> str | None:
    """Return what is wrong; None when all is well."""
    try:
        address, web_config = settings()
        found = status(address, tls(web_config))
    except Exception as error:  # noqa: BLE001 - whatever it is, it is not healthy
        return f"not healthy: {error}"
    return None if found in _ALIVE else f"not healthy: {address} answers {found.decode(errors='replace') or 'nothing'}"


if __name__ == "__main__":
    sys.exit(main())
