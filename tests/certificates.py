"""Certificates for the tests of TLS, made by openssl: a CA, and whom it vouches for."""

import subprocess
from dataclasses import dataclass
from pathlib import Path

EC = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1")
RSA = ("-newkey", "rsa:2048")


@dataclass(frozen=True)
class Pair:
    """A certificate and its key, both PEM files."""

    certificate: Path
    key: Path


def openssl(*arguments: str | Path) -> None:
    """Run openssl; what it says is shown only if it fails."""
    subprocess.run(["openssl", *arguments], check=True, capture_output=True, timeout=60)


class Authority:
    """A CA in ``folder``; several in one folder need several names."""

    def __init__(self, folder: Path, name: str = "ca") -> None:
        self.folder = folder
        self.own = Pair(folder / f"{name}.pem", folder / f"{name}.key")
        self._make(self.own, name, EC)

    def vouch(self, name: str, names: str = "", algorithm: tuple[str, ...] = EC, purpose: str = "serverAuth") -> Pair:
        """Return a new pair for ``name`` in files of that name; ``names`` as openssl writes subjectAltName."""
        pair = Pair(self.folder / f"{name}.pem", self.folder / f"{name}.key")
        extensions = ["-addext", "basicConstraints=critical,CA:FALSE", "-addext", f"extendedKeyUsage={purpose}"]
        if names:
            extensions += ["-addext", f"subjectAltName={names}"]
        self._make(pair, name, algorithm, *extensions, "-CA", self.own.certificate, "-CAkey", self.own.key)
        return pair

    def server(self, name: str = "server", algorithm: tuple[str, ...] = EC) -> Pair:
        """Return a pair for a server on this machine."""
        return self.vouch(name, "DNS:localhost,IP:127.0.0.1", algorithm)

    def client(self, name: str = "client", names: str = "DNS:prometheus.example") -> Pair:
        """Return a pair for a client."""
        return self.vouch(name, names, purpose="clientAuth")

    @staticmethod
    def _make(pair: Pair, name: str, algorithm: tuple[str, ...], *more: str | Path) -> None:
        common = ["req", "-x509", *algorithm, "-nodes", "-days", "2", "-subj", f"/CN={name}"]
        openssl(*common, "-keyout", pair.key, "-out", pair.certificate, *more)
