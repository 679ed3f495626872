"""Which versions of TLS the server speaks."""

import ssl
from pathlib import Path

from support.servers.certificates import Authority
from support.servers.tls_serving import PLAIN, encrypted, let_in, trusting


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
