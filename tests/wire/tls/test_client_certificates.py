"""Certificates of clients: whose are accepted, and which names in them."""

import http.client
import logging
import ssl
from pathlib import Path

import pytest

from azure_scheduled_events_exporter.config.resolution import resolve
from azure_scheduled_events_exporter.doctor import exporter
from azure_scheduled_events_exporter.doctor.finding import Finding, Mark
from azure_scheduled_events_exporter.doctor.subject import Servers, subject_of
from support.programs import NOBODY
from support.servers.certificates import Authority, Pair
from support.servers.serving import Running, read_all, request, status
from support.servers.tls_serving import (
    ASKING,
    NAMES,
    REQUIRED,
    ask,
    encrypted,
    let_in,
    logged_at,
    trusting,
    wrapped,
)


def doctor_served(web_config: Path, address: str) -> Finding:
    """Return whether doctor without credentials finds that an exporter serves the address."""
    settings = {"web.config.file": str(web_config), "web.listen-address": address}
    none_named = Servers(
        exporter=None, prometheus=(), alertmanager=(), grafana=(), http_config_files={}
    )
    subject = subject_of(resolve(settings, {}), {}, none_named)
    return next(exporter.examine(subject))


class TestClientCertificates:
    """Who is let in by a certificate."""

    def test_required(self, web_config: Path, authority: Authority, tmp_path: Path) -> None:
        """Only a client's certificate that the CA has signed is let in."""
        web_config.write_text(REQUIRED)
        outsider = Authority(tmp_path, "elsewhere").client("outsider")
        of_a_server = authority.server("purpose")  # its purpose is not that of a client's
        with encrypted(web_config) as running:
            assert let_in(running, trusting(authority, authority.client()))
            assert not let_in(running, trusting(authority))
            assert not let_in(running, trusting(authority, outsider))
            assert not let_in(running, trusting(authority, of_a_server))
            assert logged_at(running, logging.ERROR) == []

    @pytest.mark.parametrize("version", ["TLS12", "TLS13"])
    def test_doctor_without_a_certificate(self, version: str, web_config: Path) -> None:
        """``doctor`` tells an exporter that requires a certificate from one that does not run."""
        web_config.write_text(REQUIRED.replace("}", f", max_version: {version}}}"))
        with encrypted(web_config) as running:
            found = doctor_served(web_config, f"127.0.0.1:{running.server.port}")
        assert found.mark is Mark.WARNING, found
        assert "requires a client certificate" in found.sentence
        for needed in ("cert_file", "key_file", "--exporter.http-config.file"):
            assert needed in found.hint
        assert found.link.endswith("doctor.md#an-exporter-with-tls-or-users")
        assert "No exporter answers" in doctor_served(web_config, NOBODY).sentence

    def test_if_given(self, web_config: Path, authority: Authority, tmp_path: Path) -> None:
        """VerifyClientCertIfGiven lets in a client without a certificate, and refuses one whose
        certificate is of another CA.
        """
        web_config.write_text(ASKING + "VerifyClientCertIfGiven}\n")
        outsider = Authority(tmp_path, "elsewhere").client("outsider")
        with encrypted(web_config) as running:
            assert let_in(running, trusting(authority))
            assert let_in(running, trusting(authority, authority.client()))
            assert not let_in(running, trusting(authority, outsider))

    def test_one_certificate_as_ca(self, web_config: Path, authority: Authority) -> None:
        """A client's own certificate may be the CA, as in Go: only it has access, and no other
        client of its CA.
        """
        web_config.write_text(REQUIRED.replace("ca.pem", "client.pem"))
        # The authority has signed both, and ``web_config`` lies beside them.
        mine, other = (
            Pair(web_config.parent / f"{name}.pem", web_config.parent / f"{name}.key")
            for name in ("client", "another")
        )
        with encrypted(web_config) as running:
            assert let_in(running, trusting(authority, mine))
            assert not let_in(running, trusting(authority, other))

    @pytest.mark.parametrize(
        ("allowed", "names"),
        [
            ("scraper.example", "DNS:other.example,DNS:scraper.example"),
            ("10.0.0.7", "IP:10.0.0.7"),
            ("'2001:DB8:0:0:0:0:0:1'", "IP:2001:db8::1"),
            ("team@scraper.example", "email:team@scraper.example"),
            ("'spiffe://example/ns/monitoring'", "URI:spiffe://example/ns/monitoring"),
            ("nobody.example, scraper.example", "DNS:scraper.example"),
        ],
    )
    def test_names(self, web_config: Path, authority: Authority, allowed: str, names: str) -> None:
        """A client whose certificate has an allowed name of whatever kind gets the page; any other
        gets 403.
        """
        web_config.write_text(NAMES % allowed)
        named = authority.client("named", names)
        another = authority.client()
        with encrypted(web_config) as running:
            for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
                assert self._statuses(running, trusting(authority, named), version) == (200, 200)
                assert self._statuses(running, trusting(authority, another), version) == (403, 403)

    @staticmethod
    def _statuses(
        running: Running, context: ssl.SSLContext, version: ssl.TLSVersion
    ) -> tuple[int, int]:
        """Return the status that a client gets, and the one in a session that it resumes: there it
        does not send its certificate again.
        """
        context.maximum_version = version
        with wrapped(running, context) as client:
            client.sendall(request())
            answer = http.client.HTTPResponse(client)
            answer.begin()
            answer.read()
            session = client.session
        with wrapped(running, context, session) as client:
            assert client.session_reused
            client.sendall(request("/metrics", "GET", "1.1", "Connection: close"))
            return answer.status, status(read_all(client))

    @pytest.mark.parametrize(
        "names",
        ["", "DNS:example", "DNS:*.example", "DNS:SCRAPER.example", "DNS:x.scraper.example"],
    )
    def test_names_match_exactly(self, web_config: Path, authority: Authority, names: str) -> None:
        """A name matches as a whole: no wildcard, no part, no other case, and no certificate
        without names.
        """
        web_config.write_text(NAMES % "scraper.example")
        with encrypted(web_config) as running:
            assert ask(running, trusting(authority, authority.client("almost", names))) == 403
