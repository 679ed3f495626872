"""Certificates for the tests of TLS, made by openssl: a CA, and whom it vouches for."""

import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

EC = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1")
RSA = ("-newkey", "rsa:2048")
_ISSUING = """\
[ca]
default_ca = own
[own]
database = {folder}/index.txt
new_certs_dir = {folder}
unique_subject = no
rand_serial = yes
default_md = sha256
policy = names
x509_extensions = server
[names]
commonName = supplied
[server]
basicConstraints = critical,CA:FALSE
extendedKeyUsage = serverAuth
subjectAltName = DNS:localhost,IP:127.0.0.1
"""


@dataclass(frozen=True)
class Pair:
    """A certificate and its key, both PEM files."""

    certificate: Path
    key: Path


def openssl(*arguments: str | Path) -> None:
    """Run openssl; its output is shown only if it fails."""
    subprocess.run(["openssl", *arguments], check=True, capture_output=True, timeout=60)


class Authority:
    """A CA in ``folder``; several in one folder need several names."""

    def __init__(self, folder: Path, name: str = "ca") -> None:
        self.folder = folder
        self._made: dict[str, tuple[object, ...]] = {}
        self.own = Pair(folder / f"{name}.pem", folder / f"{name}.key")
        # What strict verification demands of a CA, which Python's clients do since 3.13.
        self._make(self.own, name, EC, "-addext", "keyUsage=critical,keyCertSign,cRLSign")

    def vouch(
        self,
        name: str,
        names: str = "",
        algorithm: tuple[str, ...] = EC,
        purpose: str = "serverAuth",
    ) -> Pair:
        """Return a pair for ``name`` in files of that name; ``names`` as openssl writes
        subjectAltName.
        """
        pair = Pair(self.folder / f"{name}.pem", self.folder / f"{name}.key")
        wanted = (names, algorithm, purpose)
        if self._made.get(name) == wanted:
            return pair
        self._made[name] = wanted
        extensions = [
            "-addext",
            "basicConstraints=critical,CA:FALSE",
            "-addext",
            f"extendedKeyUsage={purpose}",
        ]
        if names:
            extensions += ["-addext", f"subjectAltName={names}"]
        self._make(
            pair, name, algorithm, *extensions, "-CA", self.own.certificate, "-CAkey", self.own.key
        )
        return pair

    def server(self, name: str = "server", algorithm: tuple[str, ...] = EC) -> Pair:
        """Return a pair for a server on this machine."""
        return self.vouch(name, "DNS:localhost,IP:127.0.0.1", algorithm)

    def client(self, name: str = "client", names: str = "DNS:prometheus.example") -> Pair:
        """Return a pair for a client."""
        return self.vouch(name, names, purpose="clientAuth")

    def ending(self, name: str, ends: float) -> Pair:
        """Return a new pair for a server on this machine that ends at ``ends``, seconds since the
        epoch.
        """
        pair = Pair(self.folder / f"{name}.pem", self.folder / f"{name}.key")
        request = self.folder / f"{name}.csr"
        settings = self.folder / "issuing.cnf"
        settings.write_text(_ISSUING.format(folder=self.folder))
        (self.folder / "index.txt").touch()
        openssl(
            "req",
            "-new",
            *EC,
            "-nodes",
            "-subj",
            f"/CN={name}",
            "-keyout",
            pair.key,
            "-out",
            request,
        )
        issuer = ("-config", settings, "-cert", self.own.certificate, "-keyfile", self.own.key)
        dates = (
            "-startdate",
            "20200101000000Z",
            "-enddate",
            time.strftime("%Y%m%d%H%M%SZ", time.gmtime(ends)),
        )
        openssl(
            "ca", "-batch", "-notext", *issuer, *dates, "-in", request, "-out", pair.certificate
        )
        return pair

    @staticmethod
    def _make(pair: Pair, name: str, algorithm: tuple[str, ...], *more: str | Path) -> None:
        common = ["req", "-x509", *algorithm, "-nodes", "-days", "30", "-subj", f"/CN={name}"]
        openssl(*common, "-keyout", pair.key, "-out", pair.certificate, *more)
