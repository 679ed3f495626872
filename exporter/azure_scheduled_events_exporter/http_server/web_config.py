"""Reads and checks the file of ``--web.config.file``, in the format of Prometheus' exporter-toolkit.

``tls`` opens certificates, and ``access`` decides about clients. Error messages contain no hash.

Source: https://github.com/prometheus/exporter-toolkit/blob/master/docs/web-configuration.md
"""

import re
import ssl
from dataclasses import dataclass, field
from pathlib import Path

from azure_scheduled_events_exporter import yaml_file
from azure_scheduled_events_exporter.yaml_file import Section

HEADERS = (
    "Content-Security-Policy",
    "Strict-Transport-Security",
    "X-Content-Type-Options",
    "X-Frame-Options",
    "X-XSS-Protection",
)
"""The headers that may be set."""

_TOP = ("tls_server_config", "http_server_config", "basic_auth_users")
_CLIENT_AUTH = {  # the toolkit's modes; those that verify nothing are refused
    "NoClientCert": ssl.CERT_NONE,
    "VerifyClientCertIfGiven": ssl.CERT_OPTIONAL,
    "RequireAndVerifyClientCert": ssl.CERT_REQUIRED,
}
_VERSIONS = {"TLS12": ssl.TLSVersion.TLSv1_2, "TLS13": ssl.TLSVersion.TLSv1_3}
_UNSUPPORTED = {
    "cert": "write the PEM text to a file, and cert_file",
    "key": "write the PEM text to a file, and key_file",
    "client_ca": "write the PEM text to a file, and client_ca_file",
    "cipher_suites": "OpenSSL's own choice holds; min_version: TLS13 leaves the newest suites only",
    "curve_preferences": "OpenSSL's own choice holds",
    "rate_limit": "limit requests in front of the exporter",
}
_HASH = re.compile(r"\$2[aby]\$(\d\d)\$[./A-Za-z0-9]{21}[.Oeu][./A-Za-z0-9]{31}", re.ASCII)  # .Oeu: 128 bits of salt
_COSTS = range(4, 15)  # bcrypt's least; at 14 a check takes a second, and each step doubles it


@dataclass(frozen=True, slots=True)
class TlsSettings:
    """The section ``tls_server_config``; ``place`` is file, line and name of the section."""

    place: str = field(compare=False)
    certificate: Path
    key: Path
    client_auth: ssl.VerifyMode = ssl.CERT_NONE
    client_ca: Path | None = None
    client_names: frozenset[str] = frozenset()
    min_version: ssl.TLSVersion = ssl.TLSVersion.TLSv1_2
    max_version: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3

    @property
    def files(self) -> tuple[Path, ...]:
        """The files that the section names."""
        return self.certificate, self.key, *([self.client_ca] if self.client_ca else [])


@dataclass(frozen=True, slots=True)
class WebConfig:
    """The settings of a file; ``users`` are pairs of a name and its bcrypt hash, both as bytes."""

    tls: TlsSettings | None = None
    users: tuple[tuple[bytes, bytes], ...] = field(default=(), repr=False)
    headers: tuple[tuple[str, str], ...] = ()


def load(path: Path) -> WebConfig:
    """Read the file at ``path``; relative paths in it are relative to its folder.

    Raises:
        UsageError: it cannot be read, or has unknown, unsafe or conflicting settings.
    """
    top = _supported(yaml_file.load(path))
    tls, http, users = (top.section(name) for name in _TOP)
    top.finish()
    if tls is http is users is None:  # a file that was emptied by accident must not disable authentication
        raise top.error(f"has no settings: write {', '.join(_TOP)}, or do without the file")
    for section in (tls, users):
        if section is not None and not any(True for _ in section):
            raise section.error("is empty: fill it in, or remove it")
    return WebConfig(
        tls=_tls(_supported(tls), path.parent) if tls else None,
        users=tuple(_user(users, name) for name in users) if users else (),
        headers=_headers(http) if http else (),
    )


def _supported(section: Section) -> Section:
    """Refuse what the toolkit has and this exporter has not."""
    for key, instead in _UNSUPPORTED.items():
        if key in section:
            raise section.error(f"is not supported: {instead}", key)
    return section


def _tls(section: Section, folder: Path) -> TlsSettings:
    names = [section.text(key, "") for key in ("cert_file", "key_file", "client_ca_file")]
    certificate, key, client_ca = (folder / name if name else None for name in names)
    client_auth = _CLIENT_AUTH[section.choice("client_auth_type", tuple(_CLIENT_AUTH), "NoClientCert")]
    client_names = section.texts("client_allowed_sans", ())
    low, high = (
        section.choice(f"{end}_version", tuple(_VERSIONS), text)
        for end, text in zip(("min", "max"), _VERSIONS, strict=True)
    )
    section.flag("prefer_server_cipher_suites", default=True)  # without a meaning in Go, too
    section.finish()
    if certificate is None or key is None:
        raise section.error("needs a certificate and its key: write cert_file and key_file")
    if (client_ca is None) is not (client_auth is ssl.CERT_NONE):
        raise section.error("verifying clients needs both: client_ca_file, and client_auth_type", "client_auth_type")
    if "client_allowed_sans" in section and not (
        all(client_names) and client_names and client_auth is ssl.CERT_REQUIRED
    ):
        message = "must name somebody, and needs client_auth_type: RequireAndVerifyClientCert"
        raise section.error(message, "client_allowed_sans")
    if low > high:
        raise section.error(f"is {low} and max_version {high}: no version is left", "min_version")
    place = f"{section.source}:{section.line}: {section.name}"
    versions = _VERSIONS[low], _VERSIONS[high]
    return TlsSettings(place, certificate, key, client_auth, client_ca, frozenset(client_names), *versions)


def _user(users: Section, name: str) -> tuple[bytes, bytes]:
    if not name or ":" in name or not name.isprintable():  # RFC 7617: these end the name, or cannot be sent
        raise users.error(f"{name!r} is not a user name: it must not be empty, nor have ':' or control characters")
    hashed = users.text(name)
    found = _HASH.fullmatch(hashed)
    if not found:
        raise users.error("is not a bcrypt hash: make one with 'htpasswd -nBC 10 USER'; passwords are refused", name)
    if int(found[1]) not in _COSTS:
        raise users.error(f"a cost of {int(found[1])} is not supported: 4 to 14, 10 is usual", name)
    return name.encode(), hashed.encode()


def _headers(http: Section) -> tuple[tuple[str, str], ...]:
    http.flag("http2", default=True)  # both are fine: HTTP/2 is an offer that no client needs
    section = http.section("headers")
    http.finish()
    if section is None:
        return ()
    headers = [(name, section.text(name, "").strip()) for name in HEADERS]
    section.finish()
    for name, value in headers:
        if not value.isascii() or not value.isprintable():
            raise section.error("has a line break or a character that an HTTP header cannot contain", name)
    return tuple((name, value) for name, value in headers if value)
