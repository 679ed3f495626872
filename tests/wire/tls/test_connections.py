"""The server under TLS: handshakes, versions, pages, and clients that do not speak TLS or stop in
the middle.
"""

import logging
import ssl
from asyncio import sslproto
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from azure_scheduled_events_exporter.http_server.connection import Limits
from support.programs import eventually
from support.servers.certificates import Authority
from support.servers.serving import PAGE, read_all, request
from support.servers.tls_serving import (
    TLS_ONLY,
    ask,
    encrypted,
    let_in,
    trusting,
    wrapped,
)


def test_protocol(web_config: Path, authority: Authority) -> None:
    """A client that offers HTTP/2 and HTTP/1.1, as Prometheus does, gets HTTP/1.1 and TLS 1.3."""
    web_config.write_text(TLS_ONLY + "http_server_config: {http2: true}\n")
    context = trusting(authority)
    context.set_alpn_protocols(["h2", "http/1.1"])
    with encrypted(web_config) as running, wrapped(running, context) as client:
        assert client.selected_alpn_protocol() == "http/1.1"
        assert client.version() == "TLSv1.3"


def test_memory_of_a_connection(web_config: Path) -> None:
    """A server with TLS makes asyncio keep a buffer of one TLS record (16 KiB) for each connection,
    and not its 256 KiB. With it, 512 idle clients cost 8 MiB.
    """
    with encrypted(web_config):
        assert sslproto.SSLProtocol.max_size == 16 * 1024


@pytest.mark.parametrize(
    "begun", [b"", b"\x16\x03\x01\x02\x00\x01"], ids=["nothing", "head of a ClientHello"]
)
def test_no_handshake(web_config: Path, authority: Authority, begun: bytes) -> None:
    """Clients that do not complete the handshake delay no other client, and are closed in time."""
    with encrypted(web_config, Limits(header_seconds=2.0)) as running, ExitStack() as stack:
        silent = [stack.enter_context(running.connect()) for _ in range(20)]
        for waiting in silent:
            waiting.sendall(begun)
        assert ask(running, trusting(authority)) == 200
        for waiting in silent:
            assert read_all(waiting) == b""
        eventually(lambda: not running.server.connections, "the end of every connection")


def test_handshakes_count(web_config: Path, authority: Authority) -> None:
    """Connections during the handshake count toward the limit, and the oldest make room for new
    ones, as other idle connections do.
    """
    with encrypted(web_config, Limits(connections=4)) as running, ExitStack() as stack:
        silent = [stack.enter_context(running.connect()) for _ in range(10)]
        assert ask(running, trusting(authority)) == 200
        surely_closed = silent[:5]  # of 11 connections, at most 4 are left: the newest
        for waiting in surely_closed:
            assert read_all(waiting) == b""


@pytest.mark.parametrize(
    "nonsense",
    [request(), b"\x00" * 1000, b"\x16\x03\x01\xff\xff" + b"\x01" * 70_000],
    ids=["plain HTTP", "zeros", "a TLS record that is too long"],
)
def test_what_is_not_tls_is_dropped(
    web_config: Path, authority: Authority, nonsense: bytes
) -> None:
    """Input that is not TLS is dropped without a log line above debug: the only one is that of the
    start.
    """
    with encrypted(web_config, Limits(header_seconds=2.0)) as running:
        with running.connect() as client:
            with suppress(ConnectionError):
                client.sendall(nonsense)
            assert PAGE not in read_all(client)
        assert ask(running, trusting(authority)) == 200
        logged = [each.getMessage() for each in running.records if each.levelno > logging.DEBUG]
        assert logged == ["web configuration loaded"]


def test_min_version(web_config: Path, authority: Authority) -> None:
    """With min_version TLS13, a client that speaks at most TLS 1.2 is refused."""
    web_config.write_text(TLS_ONLY.replace("}", ", min_version: TLS13}"))
    old = trusting(authority)
    old.maximum_version = ssl.TLSVersion.TLSv1_2
    with encrypted(web_config) as running:
        assert not let_in(running, old)
        assert let_in(running, trusting(authority))


def test_max_version_and_cipher_suites(web_config: Path, authority: Authority) -> None:
    """max_version keeps the server at TLS 1.2, and cipher_suites at the one suite that it names."""
    suite = "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384"
    web_config.write_text(
        TLS_ONLY.replace("}", f", max_version: TLS12, cipher_suites: [{suite}]}}")
    )
    with encrypted(web_config) as running, wrapped(running, trusting(authority)) as client:
        assert client.cipher() == ("ECDHE-ECDSA-AES256-GCM-SHA384", "TLSv1.2", 256)
