"""The server under TLS with a web configuration file, and clients of it."""

import base64
import http.client
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from azure_scheduled_events_exporter.http_server.access import WebAccess
from azure_scheduled_events_exporter.http_server.connection import Limits
from support.servers.certificates import Authority, Pair
from support.servers.serving import LIMITS, Running, serving

TLS_ONLY = "tls_server_config: {cert_file: server.pem, key_file: server.key}\n"
ASKING = (
    "tls_server_config: {cert_file: server.pem, key_file: server.key, client_ca_file: ca.pem,"
    " client_auth_type: "
)
REQUIRED = ASKING + "RequireAndVerifyClientCert}\n"
NAMES = ASKING + "RequireAndVerifyClientCert, client_allowed_sans: [%s]}\n"
SECRET = "Basic " + base64.b64encode(b"scraper:secret").decode()


def replace(path: Path, text: str) -> None:
    """Put another text in the place of the file, at once, as careful programs do."""
    other = path.with_suffix(".new")
    other.write_text(text)
    other.rename(path)


def trusting(authority: Authority, pair: Pair | None = None) -> ssl.SSLContext:
    """Return a client that trusts the authority and shows ``pair``."""
    context = ssl.create_default_context(cafile=str(authority.own.certificate))
    if pair:
        context.load_cert_chain(pair.certificate, pair.key)
    return context


@contextmanager
def encrypted(file: Path, limits: Limits = LIMITS, pause: float = 0.03) -> Iterator[Running]:
    """Serve with the file, checking it every ``pause`` seconds."""
    with serving(
        limits=limits, access=lambda log: WebAccess(file, {"/-/healthy"}, pause=pause, log=log)
    ) as running:
        yield running


def wrapped(
    running: Running, context: ssl.SSLContext, session: ssl.SSLSession | None = None
) -> ssl.SSLSocket:
    """Return a connection after its handshake."""
    return context.wrap_socket(running.connect(), server_hostname="localhost", session=session)


def ask(running: Running, context: ssl.SSLContext | None, **headers: str) -> int:
    """Return the status of the page over a connection of its own; without a context in plain."""
    port = running.server.port
    connection = (
        http.client.HTTPSConnection("localhost", port, context=context, timeout=10)
        if context
        else http.client.HTTPConnection("localhost", port, timeout=10)
    )
    try:
        connection.request("GET", "/metrics", headers=headers)
        return connection.getresponse().status
    finally:
        connection.close()


def let_in(running: Running, context: ssl.SSLContext | None, **headers: str) -> bool:
    """Whether the page is served; False for any refusal."""
    try:
        return ask(running, context, **headers) == 200
    except (OSError, http.client.HTTPException):
        return False


def logged_at(running: Running, level: int) -> list[str]:
    """Return the messages that the server has logged at ``level``, in their order."""
    return [record.getMessage() for record in running.records if record.levelno == level]


def install(file: Path, name: str) -> None:
    """Put the pair ``name`` in the place of the one that is served."""
    replace(file.parent / "server.key", (file.parent / f"{name}.key").read_text())
    replace(file.parent / "server.pem", (file.parent / f"{name}.pem").read_text())
