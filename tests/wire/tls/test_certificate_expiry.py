"""Warnings about a certificate that has expired or does so within a week."""

import logging
import re
from pathlib import Path

import pytest

from support.programs import eventually
from support.servers.certificates import Authority
from support.servers.tls_serving import REQUIRED, TLS_ONLY, encrypted, install, logged_at, replace

SOON = "the TLS certificate expires soon"
EXPIRED = "the TLS certificate has expired: clients refuse it"


class TestEndOfCertificate:
    """A certificate that was not renewed in time."""

    @pytest.mark.parametrize(
        ("name", "warnings"),
        [("server", []), ("later", []), ("soon", [SOON]), ("expired", [EXPIRED])],
    )
    @pytest.mark.parametrize("text", [TLS_ONLY, REQUIRED], ids=["plain", "asking"])
    def test_at_start(self, web_config: Path, name: str, warnings: list[str], text: str) -> None:
        """A certificate that has expired or does so within a week is warned of with its end,
        whatever is asked of clients.
        """
        web_config.write_text(text)
        install(web_config, name)
        with encrypted(web_config) as running:
            assert logged_at(running, logging.WARNING) == warnings
            warned = [each for each in running.records if each.levelno == logging.WARNING]
        for record in warned:
            facts = getattr(record, "facts", {})
            assert facts["file"] == web_config.parent / "server.pem"
            assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", facts["expires"])

    def test_chain(self, web_config: Path, authority: Authority) -> None:
        """Of a chain, the end of the server's own certificate counts, not that of the CA's."""
        install(web_config, "soon")
        with (web_config.parent / "server.pem").open("a") as chain:
            chain.write(authority.own.certificate.read_text())
        with encrypted(web_config) as running:
            assert logged_at(running, logging.WARNING) == [SOON]

    def test_at_reload(self, web_config: Path) -> None:
        """The server warns once of each new certificate that ends soon or has ended, however often
        the configuration changes meanwhile. After a renewal, it warns no more.
        """
        with encrypted(web_config) as running:

            def reread(times: int) -> bool:
                """Return whether the configuration was read again so many times."""
                return logged_at(running, logging.INFO).count("web configuration reloaded") == times

            install(web_config, "soon")
            eventually(lambda: reread(1), "the certificate that ends soon")
            eventually(lambda: logged_at(running, logging.WARNING) == [SOON], "its warning")
            replace(web_config, TLS_ONLY + "http_server_config: {http2: true}\n")
            eventually(lambda: reread(2), "another setting beside the same certificate")
            install(web_config, "expired")
            eventually(lambda: reread(3), "the expired certificate")
            eventually(
                lambda: logged_at(running, logging.WARNING) == [SOON, EXPIRED], "its warning"
            )
            install(web_config, "renewed")
            eventually(lambda: reread(4), "the renewed certificate")
            replace(web_config, TLS_ONLY)
            eventually(lambda: reread(5), "the first setting again")
            assert logged_at(running, logging.WARNING) == [SOON, EXPIRED]
