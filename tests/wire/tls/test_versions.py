"""Which versions and cipher suites of TLS the server speaks."""

import ssl
from pathlib import Path

from support.servers.certificates import Authority
from support.servers.tls_serving import PLAIN, encrypted, let_in, trusting, wrapped


class TestVersions:
    """Which TLS is spoken."""

    def test_least(self, file: Path, authority: Authority) -> None:
        """min_version refuses clients of TLS 1.2."""
        file.write_text(PLAIN.replace("}", ", min_version: TLS13}"))
        old = trusting(authority)
        old.maximum_version = ssl.TLSVersion.TLSv1_2
        with encrypted(file) as running:
            assert not let_in(running, old)
            assert let_in(running, trusting(authority))

    def test_suites(self, file: Path, authority: Authority) -> None:
        """max_version holds the server to TLS 1.2, and cipher_suites to a suite of it."""
        suite = "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384"
        file.write_text(PLAIN.replace("}", f", max_version: TLS12, cipher_suites: [{suite}]}}"))
        with encrypted(file) as running, wrapped(running, trusting(authority)) as client:
            assert client.cipher() == ("ECDHE-ECDSA-AES256-GCM-SHA384", "TLSv1.2", 256)
