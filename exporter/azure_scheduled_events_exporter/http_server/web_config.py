"""Read and check the file of ``--web.config.file``, in the format of Prometheus' exporter-toolkit.

This module checks keys, values and their combinations. ``tls`` opens certificates, and ``access`` authenticates
clients. Error messages contain no hash and no inline key.

Source: https://github.com/prometheus/exporter-toolkit/blob/master/docs/web-configuration.md
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path

from azure_scheduled_events_exporter import yaml_file
from azure_scheduled_events_exporter.errors import closest
from azure_scheduled_events_exporter.yaml_file import Section

# Go's names, as the toolkit takes them, and OpenSSL's for the same.
TLS12_SUITES = {
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA": "ECDHE-ECDSA-AES128-SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA": "ECDHE-ECDSA-AES256-SHA",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA": "ECDHE-RSA-AES128-SHA",
    "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA": "ECDHE-RSA-AES256-SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256": "ECDHE-ECDSA-AES128-GCM-SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384": "ECDHE-ECDSA-AES256-GCM-SHA384",
    "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256": "ECDHE-RSA-AES128-GCM-SHA256",
    "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384": "ECDHE-RSA-AES256-GCM-SHA384",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-ECDSA-CHACHA20-POLY1305",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-RSA-CHACHA20-POLY1305",
}
TLS13_SUITES = ("TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256")
CURVES = {"X25519": "X25519", "CurveP256": "prime256v1", "CurveP384": "secp384r1", "CurveP521": "secp521r1"}
HEADERS = (
    "Content-Security-Policy",
    "Strict-Transport-Security",
    "X-Content-Type-Options",
    "X-Frame-Options",
    "X-XSS-Protection",
)
_ENUMERATED = {"X-Content-Type-Options": ("nosniff",), "X-Frame-Options": ("deny", "sameorigin")}
_VERSIONS = ("TLS12", "TLS13")
_OLD_VERSIONS = ("TLS10", "TLS11")
_HASH = re.compile(r"\$2[aby]\$(\d\d)\$[./A-Za-z0-9]{21}[.Oeu][./A-Za-z0-9]{31}", re.ASCII)  # .Oeu: 128 bits of salt
_COST_LEAST, _COST_MOST = 4, 31  # the range of bcrypt
_COST_SLOW = 14  # one check takes a second; each step doubles it
_TOP = ("tls_server_config", "http_server_config", "basic_auth_users", "rate_limit")
_TLS = (
    "cert",
    "cert_file",
    "key",
    "key_file",
    "client_auth_type",
    "client_ca",
    "client_ca_file",
    "client_allowed_sans",
    "min_version",
    "max_version",
    "cipher_suites",
    "prefer_server_cipher_suites",
    "curve_preferences",
)


class ClientAuth(Enum):
    """Which client certificates are required, by the toolkit's names. The unsafe modes are refused and not listed."""

    NONE = "NoClientCert"
    IF_GIVEN = "VerifyClientCertIfGiven"
    REQUIRED = "RequireAndVerifyClientCert"


_UNVERIFIED = ("RequestClientCert", "RequireAnyClientCert", "RequireClientCert")


@dataclass(frozen=True, slots=True)
class Pem:
    """Where certificates or a key are: in a file, or inline.

    Attributes:
        place: file, line and key, for error messages.
        path: the file; None if it is inline.
        text: the inline PEM text.
    """

    place: str = field(compare=False)
    path: Path | None
    text: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True)
class TlsSettings:
    """The section ``tls_server_config``; suites and curves under OpenSSL's names, an empty tuple is its own choice."""

    place: str = field(compare=False)
    certificate: Pem
    key: Pem
    client_auth: ClientAuth = ClientAuth.NONE
    client_ca: Pem | None = None
    client_names: tuple[str, ...] = ()
    min_version: str = "TLS12"
    max_version: str = "TLS13"
    cipher_suites: tuple[str, ...] = ()
    prefer_server_cipher_suites: bool = True
    curves: tuple[str, ...] = ()

    @property
    def files(self) -> tuple[Path, ...]:
        """The files that the section names."""
        parts = (self.certificate, self.key, self.client_ca)
        return tuple(part.path for part in parts if part is not None and part.path is not None)


@dataclass(frozen=True, slots=True)
class RateLimit:
    """One request every ``interval`` seconds, after ``burst`` at once."""

    interval: float
    burst: int


@dataclass(frozen=True, slots=True)
class WebConfig:
    """The settings of a file; ``users`` are pairs of a name and its bcrypt hash, both as bytes."""

    tls: TlsSettings | None = None
    users: tuple[tuple[bytes, bytes], ...] = field(default=(), repr=False)
    headers: tuple[tuple[str, str], ...] = ()
    rate_limit: RateLimit | None = None


def load(path: Path) -> WebConfig:
    """Read the file at ``path``; relative paths in it are relative to its folder.

    Raises:
        UsageError: it cannot be read, or has unknown, unsafe or conflicting settings.
    """
    top = yaml_file.load(path)
    _only(top, _TOP)
    if not any(True for _ in top):
        # A file that was emptied by accident must not disable authentication.
        raise top.error(f"has no settings: write {', '.join(_TOP[:-1])} or {_TOP[-1]}, or do without the file")
    tls = _section(top, "tls_server_config", "names no certificate: write cert_file and key_file, or remove it")
    http = top.section("http_server_config")
    users = _section(top, "basic_auth_users", "names nobody: write 'user: bcrypt hash', or remove it")
    rate = top.section("rate_limit")
    return WebConfig(
        tls=_tls(tls, path.parent) if tls else None,
        users=_users(users) if users else (),
        headers=_headers(http) if http else (),
        rate_limit=_rate_limit(rate) if rate else None,
    )


def _only(section: Section, known: Iterable[str]) -> None:
    """Refuse the first key that is not ``known``; suggest the one that was probably meant."""
    known = tuple(known)
    for key in section:
        if key not in known:
            meant = closest(key, known)
            hint = f"did you mean '{meant}'?" if meant else f"known here are {', '.join(known)}"
            raise section.error(f"unknown key: {hint}", key)


def _one_of(section: Section, key: str, text: str, known: Iterable[str]) -> str:
    known = tuple(known)
    if text not in known:
        meant = closest(text, known)
        hint = f"did you mean '{meant}'?" if meant else f"known are {', '.join(known)}"
        raise section.error(f"'{text}' is unknown: {hint}", key)
    return text


def _section(top: Section, key: str, if_empty: str) -> Section | None:
    """Return the section at ``key``; refuse an empty one, which would disable the intended protection."""
    if top.is_text(key) and not top.text(key):
        raise top.error(if_empty, key)
    section = top.section(key)
    if section is not None and not any(True for _ in section):
        raise top.error(if_empty, key)
    return section


def _tls(section: Section, folder: Path) -> TlsSettings:
    _only(section, _TLS)
    certificate = _pem(section, "cert", folder)
    key = _pem(section, "key", folder)
    if certificate is None:
        raise section.error("has no certificate: write cert_file, or cert with the PEM text")
    if key is None:
        raise section.error("has a certificate but no key for it: write key_file, or key with the PEM text")
    client_ca = _pem(section, "client_ca", folder)
    client_auth = _client_auth(section, client_ca)
    names = section.texts("client_allowed_sans", ())
    if "client_allowed_sans" in section:
        if not all(names) or not names:
            raise section.error(
                "is empty, so nobody would be let in: name somebody, or remove it", "client_allowed_sans"
            )
        if client_auth is not ClientAuth.REQUIRED:
            message = "needs a certificate of every client: write client_auth_type: RequireAndVerifyClientCert"
            raise section.error(message, "client_allowed_sans")
    low, high = _version(section, "min_version", "TLS12"), _version(section, "max_version", "TLS13")
    if low > high:
        raise section.error(f"is {low} and max_version {high}: no version is left", "min_version")
    return TlsSettings(
        place=f"{section.source}:{section.line}: {section.name}",
        certificate=certificate,
        key=key,
        client_auth=client_auth,
        client_ca=client_ca,
        client_names=names,
        min_version=low,
        max_version=high,
        cipher_suites=_cipher_suites(section, low),
        prefer_server_cipher_suites=section.flag("prefer_server_cipher_suites", default=True),
        curves=tuple(
            CURVES[_one_of(section, "curve_preferences", name, CURVES)] for name in _list(section, "curve_preferences")
        ),
    )


def _pem(section: Section, key: str, folder: Path) -> Pem | None:
    """Return the PEM text of ``key`` or the file of ``key_file``; blank counts as absent, as in the toolkit."""
    inline, file = section.text(key, ""), section.text(f"{key}_file", "")
    if inline and file:
        raise section.error(f"is set together with {key}_file: keep one", key)
    if not inline and not file:
        return None
    if "\0" in file or not _is_encodable(file):
        raise section.error(f"{file!a} is not a file name", f"{key}_file")
    place = str(section.error("", key if inline else f"{key}_file")).removesuffix(": ")
    return Pem(place, None, inline) if inline else Pem(place, folder / file)


def _is_encodable(text: str) -> bool:
    """Return whether ``text`` has no lone surrogates, which YAML can escape but no file name contains."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _client_auth(section: Section, client_ca: Pem | None) -> ClientAuth:
    key = "client_auth_type"
    text = section.text(key, "") or ClientAuth.NONE.value
    if text in _UNVERIFIED:
        message = (
            f"{text} would take any certificate unverified, which protects nothing: "
            "write RequireAndVerifyClientCert and client_ca_file"
        )
        raise section.error(message, key)
    wanted = ClientAuth(_one_of(section, key, text, [each.value for each in ClientAuth]))
    if client_ca is None and wanted is not ClientAuth.NONE:
        raise section.error(f"{text} needs the CA that signs client certificates: write client_ca_file", key)
    if client_ca is not None and wanted is ClientAuth.NONE:
        message = (
            "is set, but clients are not asked for a certificate: write client_auth_type: RequireAndVerifyClientCert"
        )
        raise section.error(message, "client_ca" if section.text("client_ca", "") else "client_ca_file")
    return wanted


def _version(section: Section, key: str, default: str) -> str:
    text = section.text(key, "") or default
    if text in _OLD_VERSIONS:
        raise section.error(f"{text} is insecure and not supported: write TLS12 or TLS13", key)
    return _one_of(section, key, text, _VERSIONS)


def _list(section: Section, key: str) -> tuple[str, ...]:
    names = section.texts(key, ())
    if key in section and not names:
        raise section.error("is empty: name some, or remove it", key)
    return names


def _cipher_suites(section: Section, low: str) -> tuple[str, ...]:
    """Return OpenSSL's names of the cipher suites for TLS 1.2. Those of TLS 1.3 cannot be chosen, as in Go."""
    key = "cipher_suites"
    names = _list(section, key)
    for name in names:
        _one_of(section, key, name, (*TLS12_SUITES, *TLS13_SUITES))
    chosen = tuple(TLS12_SUITES[name] for name in names if name in TLS12_SUITES)
    if names and not chosen and low == "TLS12":
        raise section.error("names no cipher suite of TLS 1.2: name one, or write min_version: TLS13", key)
    return chosen


def _users(section: Section) -> tuple[tuple[bytes, bytes], ...]:
    users = []
    for name in section:
        if not name or ":" in name or not name.isprintable():  # RFC 7617: these end the name, or cannot be sent
            raise section.error(
                f"{name!r} is not a valid user name: it must not be empty, nor have ':' or control characters"
            )
        hashed = section.text(name)
        found = _HASH.fullmatch(hashed)
        if not found:
            raise section.error(
                "is not a bcrypt hash: make one with 'htpasswd -nBC 10 USER'; passwords are refused", name
            )
        cost = int(found[1])
        if not _COST_LEAST <= cost <= _COST_MOST:
            raise section.error(f"bcrypt knows no cost of {cost}: 10 is usual", name)
        if cost > _COST_SLOW:
            message = f"a cost of {cost} makes one check take seconds: {_COST_SLOW} at most, 10 is usual"
            raise section.error(message, name)
        users.append((name.encode(), hashed.encode()))
    return tuple(users)


def _headers(http: Section) -> tuple[tuple[str, str], ...]:
    _only(http, ("http2", "headers"))
    http.flag("http2", default=True)  # both are fine: HTTP/2 is an offer that no client needs
    section = http.section("headers")
    if section is None:
        return ()
    _only(section, HEADERS)
    headers = []
    for name in section:
        value = section.text(name)
        allowed = _ENUMERATED.get(name)
        if allowed and value and value not in allowed:
            raise section.error(f"must be {' or '.join(allowed)}, not {value!r}", name)
        if not value.isascii() or not value.isprintable():
            raise section.error("has a line break or a character that an HTTP header cannot contain", name)
        if value.strip():
            headers.append((name, value.strip()))
    return tuple(headers)


def _rate_limit(section: Section) -> RateLimit | None:
    _only(section, ("interval", "burst"))
    interval, burst = section.duration("interval", 0.0), section.number("burst", 0)
    if not interval:
        return None
    if burst < 1 or burst != int(burst):
        raise section.error("must be a whole number from 1 on, or no request would ever be answered", "burst")
    return RateLimit(interval, int(burst))
