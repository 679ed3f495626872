"""The server under TLS: handshakes, versions, client certificates, and a configuration that changes."""

import base64
import gc
import http.client
import json
import logging
import os
import re
import shutil
import socket
import ssl
import struct
import time
from asyncio.sslproto import SSLProtocol
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import bcrypt
import pytest

from azure_scheduled_events_exporter.http_server.access import WebAccess
from azure_scheduled_events_exporter.http_server.connection import Limits
from support.certificates import Authority, Pair
from support.programs import eventually
from support.serving import BIG, LIMITS, PAGE, Running, read_all, read_answer, request, serving, status

PLAIN = "tls_server_config: {cert_file: server.pem, key_file: server.key}\n"
ASKING = "tls_server_config: {cert_file: server.pem, key_file: server.key, client_ca_file: ca.pem, client_auth_type: "
REQUIRED = ASKING + "RequireAndVerifyClientCert}\n"
NAMES = ASKING + "RequireAndVerifyClientCert, client_allowed_sans: [%s]}\n"
SECRET = "Basic " + base64.b64encode(b"scraper:secret").decode()


@pytest.fixture(name="authority", scope="module")
def _authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    authority = Authority(tmp_path_factory.mktemp("tls"))
    authority.server()
    authority.server("renewed")
    authority.ending("soon", time.time() + 6 * 86400)
    authority.ending("later", time.time() + 8 * 86400)
    authority.ending("expired", time.time() - 60)
    authority.client()
    authority.client("another")
    return authority


@pytest.fixture(name="file")
def _file(authority: Authority, tmp_path: Path) -> Path:
    """A web configuration beside certificates of its own, which a test may change."""
    for source in authority.folder.iterdir():
        shutil.copy(source, tmp_path)
    path = tmp_path / "web.yml"
    path.write_text(PLAIN)
    return path


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
    with serving(limits=limits, access=lambda log: WebAccess(file, {"/-/healthy"}, pause=pause, log=log)) as running:
        yield running


def wrapped(running: Running, context: ssl.SSLContext, session: ssl.SSLSession | None = None) -> ssl.SSLSocket:
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


def resumes(running: Running, context: ssl.SSLContext, session: ssl.SSLSession | None) -> bool:
    """Whether a page is given over a session of before."""
    try:
        with wrapped(running, context, session) as client:
            client.sendall(request())
            return read_answer(client) == PAGE
    except (OSError, http.client.HTTPException):
        return False


def said(running: Running, level: int) -> list[str]:
    """Return what was logged at ``level``."""
    return [record.getMessage() for record in running.records if record.levelno == level]


@contextmanager
def collections_off() -> Iterator[None]:
    """Let the garbage collector rest: what a cycle of references holds, stays."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def states_of_tls() -> int:
    """Return how many connections asyncio keeps the state of TLS for."""
    return sum(isinstance(each, SSLProtocol) for each in gc.get_objects())


class TestTls:
    """Pages over TLS, and clients that do not speak it well."""

    def test_page(self, file: Path, authority: Authority) -> None:
        """Pages small and large come whole, one after another on one connection."""
        with encrypted(file) as running, wrapped(running, trusting(authority)) as client:
            for path, page in (("/metrics", PAGE), ("/big", BIG), ("/metrics", PAGE)):
                client.sendall(request(path))
                assert read_answer(client) == page

    def test_protocol(self, file: Path, authority: Authority) -> None:
        """A client that offers HTTP/2 and HTTP/1.1, as Prometheus does, gets HTTP/1.1 and TLS 1.3."""
        file.write_text(PLAIN + "http_server_config: {http2: true}\n")
        context = trusting(authority)
        context.set_alpn_protocols(["h2", "http/1.1"])
        with encrypted(file) as running, wrapped(running, context) as client:
            assert client.selected_alpn_protocol() == "http/1.1"
            assert client.version() == "TLSv1.3"

    def test_body(self, file: Path, authority: Authority) -> None:
        """A request with a body is answered, and the connection ends."""
        with encrypted(file, Limits(linger_seconds=0.2)) as running, wrapped(running, trusting(authority)) as client:
            client.sendall(request("/metrics", "POST", "1.1", "Content-Length: 1000"))
            assert status(read_all(client)) == 405

    def test_no_handshake(self, file: Path, authority: Authority) -> None:
        """Clients that never begin the handshake delay no other client, and are closed in time."""
        with encrypted(file, Limits(request_seconds=0.5)) as running:
            silent = [running.connect() for _ in range(20)]
            with wrapped(running, trusting(authority)) as client:
                client.sendall(request())
                assert read_answer(client) == PAGE
            for waiting in silent:
                assert read_all(waiting) == b""
                waiting.close()

    def test_cap_counts_handshakes(self, file: Path, authority: Authority) -> None:
        """Connections during the handshake count, and are closed like other idle ones if necessary."""
        with encrypted(file, Limits(connections=4)) as running:
            silent = [running.connect() for _ in range(10)]
            assert ask(running, trusting(authority)) == 200
            for waiting in silent[:5]:
                assert read_all(waiting) == b""
            for waiting in silent:
                waiting.close()

    @pytest.mark.parametrize(
        "nonsense", [request(), b"\x16\x03\x01\x02\x00\x01", b"\x00" * 1000, b"\x16\x03\x01\xff\xff" + b"\x01" * 70_000]
    )
    def test_no_tls(self, file: Path, authority: Authority, nonsense: bytes) -> None:
        """Input that is not TLS, such as plain HTTP, is dropped without a log line above debug."""
        with encrypted(file, Limits(request_seconds=0.3)) as running:
            with running.connect() as client:
                client.sendall(nonsense)
                assert PAGE not in read_all(client)
            assert ask(running, trusting(authority)) == 200
            assert {record.levelno for record in running.records} <= {logging.DEBUG, logging.INFO}
            assert said(running, logging.INFO) == ["web configuration loaded"]

    def test_reset(self, file: Path, authority: Authority, caplog: pytest.LogCaptureFixture) -> None:
        """Clients that reset the connection in the middle of a large page leave nothing in the log."""
        context = trusting(authority)
        with encrypted(file) as running:
            for path in ("/big", "/huge"):
                for _ in range(20):
                    client = wrapped(running, context)
                    client.sendall(request(path))
                    client.recv(1000)
                    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                    client.close()
            assert ask(running, context) == 200
            assert {record.levelno for record in running.records} <= {logging.DEBUG, logging.INFO}
        assert caplog.text == ""  # asyncio has its own logger

    def test_never_reads(self, file: Path, authority: Authority) -> None:
        """A client that never reads its large page is cut off."""
        with (
            encrypted(file, Limits(write_seconds=0.4)) as running,
            trusting(authority).wrap_socket(
                running.connect(receive_buffer=4096), server_hostname="localhost"
            ) as client,
        ):
            client.sendall(request("/huge"))
            eventually(lambda: running.server._connections, "the connection")
            eventually(lambda: not running.server._connections, "the end of the connection")

    def test_closed_connections_are_freed(self, file: Path, authority: Authority) -> None:
        """A closed connection gives its memory back at once, instead of at the next garbage collection."""
        context = trusting(authority)
        with encrypted(file, Limits(request_seconds=0.3)) as running, collections_off():
            for number in range(20):
                if number % 2:
                    with running.connect() as silent:
                        assert read_all(silent) == b""
                else:
                    assert ask(running, context) == 200
            eventually(lambda: not states_of_tls(), "the end of every connection")

    def test_crowd(self, file: Path, authority: Authority) -> None:
        """A page is answered amid 400 silent clients and 50 under TLS that are idle, trickle or talk nonsense."""
        context = trusting(authority)
        with encrypted(file) as running, ExitStack() as stack:
            for number in range(400):
                silent = stack.enter_context(running.connect())
                if number % 10 == 0:
                    silent.sendall(b"\x16\x03\x01")
                elif number % 10 == 1:
                    silent.sendall(request())
            idle = [stack.enter_context(wrapped(running, context)) for _ in range(50)]
            for number, client in enumerate(idle):
                client.sendall((b"GET /metr", request(), b"G" * 15_000, b"nonsense\r\n\r\n")[number % 4])
            assert ask(running, context) == 200
            assert said(running, logging.ERROR) == []


class TestVersions:
    """Which TLS is spoken."""

    def test_highest(self, file: Path, authority: Authority) -> None:
        """max_version holds the server to TLS 1.2."""
        file.write_text(PLAIN.replace("}", ", max_version: TLS12}"))
        with encrypted(file) as running, wrapped(running, trusting(authority)) as client:
            assert client.version() == "TLSv1.2"

    def test_least(self, file: Path, authority: Authority) -> None:
        """min_version refuses clients of TLS 1.2."""
        file.write_text(PLAIN.replace("}", ", min_version: TLS13}"))
        old = trusting(authority)
        old.maximum_version = ssl.TLSVersion.TLSv1_2
        with encrypted(file) as running:
            assert not let_in(running, old)
            assert let_in(running, trusting(authority))

    @pytest.mark.parametrize("own", ["true", "false"])
    def test_preference(self, file: Path, authority: Authority, own: str) -> None:
        """Of the chosen suites the server's first one is taken, or the client's if the file sets that."""
        suites = [f"TLS_ECDHE_ECDSA_WITH_{cipher}" for cipher in ("AES_256_GCM_SHA384", "CHACHA20_POLY1305_SHA256")]
        more = f", max_version: TLS12, cipher_suites: [{', '.join(suites)}], prefer_server_cipher_suites: {own}}}"
        file.write_text(PLAIN.replace("}", more))
        client = trusting(authority)
        client.set_ciphers("ECDHE-ECDSA-CHACHA20-POLY1305:ECDHE-ECDSA-AES256-GCM-SHA384:ECDHE-ECDSA-AES128-GCM-SHA256")
        with encrypted(file) as running, wrapped(running, client) as connection:
            cipher = connection.cipher()
        assert cipher
        assert cipher[0] == f"ECDHE-ECDSA-{'AES256-GCM-SHA384' if own == 'true' else 'CHACHA20-POLY1305'}"

    def test_inline(self, file: Path, authority: Authority) -> None:
        """Certificate, key and CA may be inline in the file."""
        parts = {"cert": "server.pem", "key": "server.key", "client_ca": "ca.pem"}
        lines = [
            f"  {key}: |\n    " + (file.parent / name).read_text().replace("\n", "\n    ")
            for key, name in parts.items()
        ]
        file.write_text(
            "tls_server_config:\n" + "\n".join(lines) + "\n  client_auth_type: RequireAndVerifyClientCert\n"
        )
        client = Pair(authority.folder / "client.pem", authority.folder / "client.key")
        with encrypted(file) as running:
            assert let_in(running, trusting(authority, client))
            assert not let_in(running, trusting(authority))


class TestClientCertificates:
    """Who is let in by a certificate."""

    def test_required(self, file: Path, authority: Authority, tmp_path: Path) -> None:
        """Only a client's certificate that the CA has signed is let in."""
        file.write_text(REQUIRED)
        stranger = Authority(tmp_path, "elsewhere").client("stranger")
        with encrypted(file) as running:
            assert let_in(running, trusting(authority, authority.client()))
            assert not let_in(running, trusting(authority))
            assert not let_in(running, trusting(authority, stranger))
            assert not let_in(running, trusting(authority, authority.server("purpose")))
            assert said(running, logging.ERROR) == []

    def test_if_given(self, file: Path, authority: Authority, tmp_path: Path) -> None:
        """VerifyClientCertIfGiven lets in who shows none, and refuses who shows a wrong one."""
        file.write_text(ASKING + "VerifyClientCertIfGiven}\n")
        stranger = Authority(tmp_path, "elsewhere").client("stranger")
        with encrypted(file) as running:
            assert let_in(running, trusting(authority))
            assert let_in(running, trusting(authority, authority.client()))
            assert not let_in(running, trusting(authority, stranger))

    def test_one_certificate_as_ca(self, file: Path, authority: Authority) -> None:
        """A client's own certificate may be the CA, as in Go: only it has access, and no other client of its CA."""
        file.write_text(REQUIRED.replace("ca.pem", "client.pem"))
        mine, other = (Pair(file.parent / f"{name}.pem", file.parent / f"{name}.key") for name in ("client", "another"))
        with encrypted(file) as running:
            assert let_in(running, trusting(authority, mine))
            assert not let_in(running, trusting(authority, other))

    @pytest.mark.parametrize(
        ("allowed", "names"),
        [
            ("scraper.example", "DNS:other.example,DNS:scraper.example"),
            ("10.0.0.7", "IP:10.0.0.7"),
            ("'2001:db8:0::1'", "IP:2001:DB8:0:0:0:0:0:1"),
            ("team@scraper.example", "email:team@scraper.example"),
            ("'spiffe://example/ns/monitoring'", "URI:spiffe://example/ns/monitoring"),
            ("nobody.example, scraper.example", "DNS:scraper.example"),
        ],
    )
    @pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
    def test_names(self, file: Path, authority: Authority, allowed: str, names: str, version: ssl.TLSVersion) -> None:
        """A client whose certificate has an allowed name of whatever kind gets the page; any other gets 403."""
        file.write_text(NAMES % allowed)
        with encrypted(file) as running:
            for who, code in ((authority.client("named", names), 200), (authority.client(), 403)):
                context = trusting(authority, who)
                context.maximum_version = version
                with wrapped(running, context) as client:
                    client.sendall(request())
                    answer = http.client.HTTPResponse(client)
                    answer.begin()
                    assert answer.status == code
                    answer.read()
                    session = client.session
                with wrapped(running, context, session) as client:  # resumed: no certificate is sent again
                    assert client.session_reused
                    client.sendall(request("/metrics", "GET", "1.1", "Connection: close"))
                    assert status(read_all(client)) == code

    @pytest.mark.parametrize(
        "names", ["", "DNS:example", "DNS:*.example", "DNS:SCRAPER.example", "DNS:x.scraper.example"]
    )
    def test_names_match_exactly(self, file: Path, authority: Authority, names: str) -> None:
        """A name matches as a whole: no wildcard, no part, no other case, and no certificate without names."""
        file.write_text(NAMES % "scraper.example")
        with encrypted(file) as running:
            assert ask(running, trusting(authority, authority.client("almost", names))) == 403


class TestChange:
    """The file, or a certificate, changes while the server runs."""

    def test_renewed_certificate(self, file: Path, authority: Authority) -> None:
        """New connections get a renewed certificate, and open ones end after their answer or when idle."""
        context = trusting(authority)
        with encrypted(file) as running, ExitStack() as stack:
            served, fresh = (stack.enter_context(wrapped(running, context)) for _ in range(2))
            served.sendall(request())
            assert read_answer(served) == PAGE
            before = served.getpeercert(binary_form=True)
            replace(file.parent / "server.key", (file.parent / "renewed.key").read_text())
            replace(file.parent / "server.pem", (file.parent / "renewed.pem").read_text())

            def renewed() -> bool:
                with wrapped(running, context) as client:
                    return client.getpeercert(binary_form=True) != before

            eventually(renewed, "the renewed certificate")
            assert read_all(served) == b""
            fresh.sendall(request())
            answer = read_all(fresh)
            assert answer.endswith(PAGE)
            assert b"\r\nConnection: close\r\n" in answer
            assert said(running, logging.ERROR) == []

    def test_key_follows_certificate(self, file: Path, authority: Authority) -> None:
        """A key that comes a moment after its certificate is no error: files in the middle of a change are not read."""
        context = trusting(authority)
        with encrypted(file, pause=1.0) as running:
            door, certificate = vars(running.server._access), file.parent / "server.pem"
            replace(certificate, (file.parent / "renewed.pem").read_text())
            changed = certificate.stat().st_mtime_ns
            eventually(lambda: (door["_settling"].get(certificate) or [0])[0] == changed, "the change to be seen")
            replace(file.parent / "server.key", (file.parent / "renewed.key").read_text())
            eventually(lambda: len(said(running, logging.INFO)) > 1, "the renewed certificate")
            assert let_in(running, context)
            assert said(running, logging.ERROR) == []

    def test_half_renewed(self, file: Path, authority: Authority) -> None:
        """A certificate without its key changes nothing and is logged once; with its key it is used, and logged."""
        context = trusting(authority)
        with encrypted(file) as running:
            replace(file.parent / "server.pem", (file.parent / "renewed.pem").read_text())
            eventually(lambda: said(running, logging.ERROR), "an error in the log")
            assert let_in(running, context)
            door = vars(running.server._access)
            for _ in range(2):  # read again, and as wrong as before
                os.utime(file)
                stamp = file.stat().st_mtime_ns
                eventually(lambda: door["_seen"][file][0] == stamp, "a second reading")  # noqa: B023 - at once
            assert let_in(running, context)
            replace(file.parent / "server.key", (file.parent / "renewed.key").read_text())
            eventually(lambda: len(said(running, logging.INFO)) > 1, "the end of the error in the log")
            assert let_in(running, context)
            assert said(running, logging.ERROR) == ["invalid web configuration, the last valid one stays in effect"]
            assert said(running, logging.INFO) == ["web configuration loaded", "web configuration reloaded"]

    def test_lasting_failure(self, file: Path, authority: Authority) -> None:
        """If no check of the file can be run for long, that is logged once, and pages are still served."""
        with encrypted(file, Limits(request_seconds=0.4)) as running:
            vars(running.server._access)["_pool"].shutdown()
            eventually(lambda: said(running, logging.ERROR), "an error in the log")
            with running.connect() as silent:  # closed after a dozen checks
                read_all(silent)
            assert said(running, logging.ERROR) == [
                "cannot read the web configuration, the last valid one stays in effect"
            ]
            assert let_in(running, trusting(authority))

    @pytest.mark.parametrize(
        "text", ["", "basic_auth_users:\n", "basic_auth_users: {scraper: secret}\n", "tls_server_config: {\n", None]
    )
    def test_wrong(self, file: Path, authority: Authority, text: str | None) -> None:
        """A file that is emptied, cut short, wrong or gone opens nothing: what held before holds until it is good."""
        good = PLAIN + f"basic_auth_users: {{scraper: {bcrypt.hashpw(b'secret', bcrypt.gensalt(4)).decode()}}}\n"
        file.write_text(good)
        context = trusting(authority)
        with encrypted(file) as running:
            file.unlink() if text is None else replace(file, text)
            eventually(lambda: said(running, logging.ERROR), "an error in the log")
            assert not let_in(running, None)
            assert ask(running, context) == 401
            assert ask(running, context, Authorization=SECRET) == 200
            facts = [getattr(record, "facts", {}) for record in running.records if record.levelno == logging.ERROR]
            assert str(facts[0]["error"]).startswith(str(file))
            replace(file, good)
            eventually(lambda: said(running, logging.INFO)[1:], "the end of the error in the log")
            assert said(running, logging.INFO)[1:] == ["web configuration is valid again"]
            assert len(said(running, logging.ERROR)) == 1

    def test_on_and_off(self, file: Path, authority: Authority) -> None:
        """TLS and users are turned on and off without a restart; disabling protection logs a warning."""
        context = trusting(authority)
        users = f"basic_auth_users: {{scraper: {bcrypt.hashpw(b'secret', bcrypt.gensalt(4)).decode()}}}\n"
        nothing = "http_server_config: {http2: true}\n"
        file.write_text(nothing)
        with encrypted(file) as running:
            assert let_in(running, None)
            replace(file, users)
            eventually(lambda: ask(running, None) == 401, "users in plain")
            assert let_in(running, None, Authorization=SECRET)
            replace(file, PLAIN + users)
            eventually(lambda: let_in(running, context, Authorization=SECRET), "users under TLS")
            assert not let_in(running, None, Authorization=SECRET)
            assert not let_in(running, context)
            assert said(running, logging.WARNING) == []
            replace(file, PLAIN)
            eventually(lambda: let_in(running, context), "nobody asked under TLS")
            replace(file, nothing)
            eventually(lambda: let_in(running, None), "plain again")
            assert (
                said(running, logging.WARNING)
                == ["TLS or authentication was disabled by the reloaded web configuration"] * 2
            )
            off = [getattr(record, "facts", {}).get("disabled") for record in running.records]
            assert [what for what in off if what] == ["authentication", "TLS"]

    def test_users_of_an_open_connection(self, file: Path) -> None:
        """A user that is taken out is refused at the next request, on an open connection too."""
        hashed = bcrypt.hashpw(b"secret", bcrypt.gensalt(4)).decode()
        file.write_text(f"basic_auth_users: {{scraper: {hashed}}}\n")
        with encrypted(file) as running:
            connection = http.client.HTTPConnection("localhost", running.server.port, timeout=10)

            def asked() -> int:
                connection.request("GET", "/metrics", headers={"Authorization": SECRET})
                with connection.getresponse() as answer:
                    answer.read()
                    return answer.status

            assert asked() == 200
            replace(file, f"basic_auth_users: {{somebody: {hashed}}}\n")
            eventually(lambda: asked() == 401, "the refusal")
            connection.close()

    def test_new_certificate_authority(self, file: Path, authority: Authority, tmp_path: Path) -> None:
        """When the CA of the clients is replaced, the old ones are let in no more, not even by a resumed session."""
        file.write_text(REQUIRED)
        old = trusting(authority, Pair(tmp_path / "client.pem", tmp_path / "client.key"))
        new = trusting(authority, Authority(tmp_path, "next").client("next client"))
        with encrypted(file) as running:
            with wrapped(running, old) as client:
                client.sendall(request("/metrics", "GET", "1.1", "Connection: close"))
                assert status(read_all(client)) == 200
                session = client.session
            assert resumes(running, old, session)
            assert not let_in(running, new)
            replace(tmp_path / "ca.pem", (tmp_path / "next.pem").read_text())
            eventually(lambda: let_in(running, new), "the new CA")
            assert not let_in(running, old)
            assert not resumes(running, old, session)

    @pytest.mark.parametrize("begun", [b"", request()[:20]])
    def test_revoked_client(self, file: Path, authority: Authority, tmp_path: Path, begun: bytes) -> None:
        """A client whose CA is no longer trusted gets no page over a connection that it opened before."""
        file.write_text(REQUIRED)
        old = trusting(authority, Pair(tmp_path / "client.pem", tmp_path / "client.key"))
        new = trusting(authority, Authority(tmp_path, "next").client("next client"))
        with encrypted(file) as running, wrapped(running, old) as client:
            client.sendall(begun)
            assert ask(running, old) == 200
            replace(tmp_path / "ca.pem", (tmp_path / "next.pem").read_text())
            eventually(lambda: let_in(running, new), "the new CA")
            with suppress(OSError):
                client.sendall(request()[len(begun) :])
            assert read_all(client) == b""


SOON = "the TLS certificate expires soon"
EXPIRED = "the TLS certificate has expired: clients refuse it"
TLS12 = "tls_server_config: {cert_file: server.pem, key_file: server.key, max_version: TLS12, cipher_suites: [%s]}\n"


def install(file: Path, name: str) -> None:
    """Put the pair ``name`` in the place of the one that is served."""
    replace(file.parent / "server.key", (file.parent / f"{name}.key").read_text())
    replace(file.parent / "server.pem", (file.parent / f"{name}.pem").read_text())


class TestEndOfCertificate:
    """A certificate that was not renewed in time."""

    @pytest.mark.parametrize(
        ("name", "warnings"), [("server", []), ("later", []), ("soon", [SOON]), ("expired", [EXPIRED])]
    )
    @pytest.mark.parametrize(
        "text", [PLAIN, REQUIRED, TLS12 % "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256"], ids=["plain", "asking", "old"]
    )
    def test_at_start(self, file: Path, name: str, warnings: list[str], text: str) -> None:
        """One that has expired or does so within a week is warned of with its end, whatever is asked of clients."""
        file.write_text(text)
        install(file, name)
        with encrypted(file) as running:
            assert said(running, logging.WARNING) == warnings
            told = [getattr(record, "facts", {}) for record in running.records if record.levelno == logging.WARNING]
        assert [one["file"] for one in told] == [str(file.parent / "server.pem")] * len(warnings)
        assert all(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", one["expires"]) for one in told)

    def test_chain(self, file: Path, authority: Authority) -> None:
        """It is the server's own end that counts, not that of the CA's certificate behind it."""
        install(file, "soon")
        with (file.parent / "server.pem").open("a") as chain:
            chain.write(authority.own.certificate.read_text())
        with encrypted(file) as running:
            assert said(running, logging.WARNING) == [SOON]

    def test_inline(self, file: Path) -> None:
        """A warning about an inline certificate names the file."""
        pem = {key: (file.parent / f"soon.{end}").read_text() for key, end in (("cert", "pem"), ("key", "key"))}
        file.write_text(json.dumps({"tls_server_config": pem}))
        with encrypted(file) as running:
            assert said(running, logging.WARNING) == [SOON]
            assert getattr(running.records[-1], "facts", {})["file"] == str(file)

    def test_at_reload(self, file: Path) -> None:
        """Each is warned of once when it comes, however often the file changes, and one that is renewed no more."""
        with encrypted(file) as running:

            def reread(times: int) -> bool:
                return said(running, logging.INFO).count("web configuration reloaded") == times

            install(file, "soon")
            eventually(lambda: reread(1), "the first certificate")
            eventually(lambda: said(running, logging.WARNING) == [SOON], "its warning")
            replace(file, PLAIN + "rate_limit: {interval: 1ms, burst: 1000}\n")
            eventually(lambda: reread(2), "a change of something else")
            install(file, "expired")
            eventually(lambda: reread(3), "the second certificate")
            eventually(lambda: said(running, logging.WARNING) == [SOON, EXPIRED], "its warning")
            install(file, "renewed")
            eventually(lambda: reread(4), "the third certificate")
            replace(file, PLAIN)
            eventually(lambda: reread(5), "the end of the rate limit")
            assert said(running, logging.WARNING) == [SOON, EXPIRED]
