"""Which versions and cipher suites of TLS the server speaks, and where its certificates come from."""

import ssl
from pathlib import Path

import pytest

from support.servers.certificates import Authority, Pair
from support.servers.tls_serving import PLAIN, encrypted, let_in, trusting, wrapped


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
