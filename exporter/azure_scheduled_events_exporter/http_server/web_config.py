"""Reads and checks the file of ``--web.config.file``, in the format of Prometheus' exporter-toolkit.

``tls`` opens certificates, and ``access`` decides about clients. Error messages contain no hash and no inline key.

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
    f"TLS_ECDHE_{key}_WITH_{go}": f"ECDHE-{key}-{openssl}"
    for key in ("ECDSA", "RSA")
    for go, openssl in (
        ("AES_128_CBC_SHA", "AES128-SHA"),
        ("AES_256_CBC_SHA", "AES256-SHA"),
        ("AES_128_GCM_SHA256", "AES128-GCM-SHA256"),
        ("AES_256_GCM_SHA384", "AES256-GCM-SHA384"),
        ("CHACHA20_POLY1305_SHA256", "CHACHA20-POLY1305"),
    )
}
TLS13_SUITES = ("TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256")
CURVES = {"X25519": "X25519", "CurveP256": "prime256v1", "CurveP384": "secp384r1", "CurveP521": "secp521r1"}
HEADERS: dict[str, tuple[str, ...]] = {
    "Content-Security-Policy": (),
    "Strict-Transport-Security": (),
    "X-Content-Type-Options": ("nosniff",),
    "X-Frame-Options": ("deny", "sameorigin"),
    "X-XSS-Protection": (),
}
"""The headers that may be set, and their values if these are enumerated."""

_VERSIONS = ("TLS12", "TLS13")
_HASH = re.compile(r"\$2[aby]\$(\d\d)\$[./A-Za-z0-9]{21}[.Oeu][./A-Za-z0-9]{31}", re.ASCII)  # .Oeu: 128 bits of salt
_COSTS = range(4, 15)  # bcrypt's least; at 14 a check takes a second, and each step doubles it
_TOP = ("tls_server_config", "http_server_config", "basic_auth_users", "rate_limit")
_TLS = (
    *("cert", "cert_file", "key", "key_file", "client_auth_type", "client_ca", "client_ca_file", "client_allowed_sans"),
    *("min_version", "max_version", "cipher_suites", "prefer_server_cipher_suites", "curve_preferences"),
)


class ClientAuth(Enum):
    """Which client certificates are required, by the toolkit's names. The modes that verify nothing are refused."""

    NONE = "NoClientCert"
    IF_GIVEN = "VerifyClientCertIfGiven"
    REQUIRED = "RequireAndVerifyClientCert"


@dataclass(frozen=True, slots=True)
class Pem:
    """Where certificates or a key are: in the file at ``path``, else inline; ``place`` is file, line and key."""

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
    top = _only(yaml_file.load(path), _TOP)
    if not any(True for _ in top):  # a file that was emptied by accident must not disable authentication
        raise top.error(f"has no settings: write {', '.join(_TOP[:-1])} or {_TOP[-1]}, or do without the file")
    tls = _section(top, "tls_server_config", "names no certificate: write cert_file and key_file, or remove it")
    http = top.section("http_server_config")
    users = _section(top, "basic_auth_users", "names nobody: write 'user: bcrypt hash', or remove it")
    rate = top.section("rate_limit")
    return WebConfig(
        tls=_tls(_only(tls, _TLS), path.parent) if tls else None,
        users=tuple(_user(users, name) for name in users) if users else (),
        headers=_headers(http) if http else (),
        rate_limit=_rate_limit(_only(rate, ("interval", "burst"))) if rate else None,
    )


def _only(section: Section, known: Iterable[str]) -> Section:
    """Refuse a key that is not ``known``."""
    for key in section:
        _known(section, key, key, known, "unknown key")
    return section


def _known(section: Section, key: str, text: str, known: Iterable[str], what: str) -> str:
    """Return ``text``, which must be ``known``; suggest the one that was probably meant."""
    known = tuple(known)
    if text not in known:
        meant = closest(text, known)
        hint = f"did you mean '{meant}'?" if meant else f"known are {', '.join(known)}"
        raise section.error(f"{what}: {hint}", key)
    return text


def _choice(section: Section, key: str, known: Iterable[str], default: str) -> str:
    text = section.text(key, "") or default
    return _known(section, key, text, known, f"'{text}' is not supported")


def _choices(section: Section, key: str, known: Iterable[str]) -> tuple[str, ...]:
    names, known = section.texts(key, ()), tuple(known)
    if key in section and not names:
        raise section.error("is empty: name some, or remove it", key)
    return tuple(_known(section, key, name, known, f"'{name}' is not supported") for name in names)


def _section(top: Section, key: str, if_empty: str) -> Section | None:
    """Return the section at ``key``; refuse an empty one, which would disable the intended protection."""
    section = None if top.is_text(key) and not top.text(key) else top.section(key)
    if key in top and (section is None or not any(True for _ in section)):
        raise top.error(if_empty, key)
    return section


def _tls(section: Section, folder: Path) -> TlsSettings:
    certificate, key = _pem(section, "cert", folder), _pem(section, "key", folder)
    if certificate is None or key is None:
        raise section.error("needs a certificate and its key: write cert_file and key_file, or the PEM text itself")
    client_ca = _pem(section, "client_ca", folder)
    client_auth = ClientAuth(_choice(section, "client_auth_type", [each.value for each in ClientAuth], "NoClientCert"))
    if (client_ca is None) is not (client_auth is ClientAuth.NONE):
        raise section.error("verifying clients needs both: client_ca_file, and client_auth_type", "client_auth_type")
    names = section.texts("client_allowed_sans", ())
    if "client_allowed_sans" in section and (not names or not all(names) or client_auth is not ClientAuth.REQUIRED):
        message = "must name somebody, and needs client_auth_type: RequireAndVerifyClientCert"
        raise section.error(message, "client_allowed_sans")
    low, high = (_choice(section, f"{end}_version", _VERSIONS, _VERSIONS[end == "max"]) for end in ("min", "max"))
    if low > high:
        raise section.error(f"is {low} and max_version {high}: no version is left", "min_version")
    suites = _choices(section, "cipher_suites", (*TLS12_SUITES, *TLS13_SUITES))  # those of TLS 1.3 stay, as in Go
    if suites and low == "TLS12" and not TLS12_SUITES.keys() & set(suites):
        raise section.error("names no cipher suite of TLS 1.2: name one, or write min_version: TLS13", "cipher_suites")
    return TlsSettings(
        place=f"{section.source}:{section.line}: {section.name}",
        certificate=certificate,
        key=key,
        client_auth=client_auth,
        client_ca=client_ca,
        client_names=names,
        min_version=low,
        max_version=high,
        cipher_suites=tuple(TLS12_SUITES[name] for name in suites if name in TLS12_SUITES),
        prefer_server_cipher_suites=section.flag("prefer_server_cipher_suites", default=True),
        curves=tuple(CURVES[name] for name in _choices(section, "curve_preferences", CURVES)),
    )


def _pem(section: Section, key: str, folder: Path) -> Pem | None:
    """Return the PEM text of ``key`` or the file of ``key_file``; blank counts as absent, as in the toolkit."""
    inline, file = section.text(key, ""), section.text(f"{key}_file", "")
    if inline and file:
        raise section.error(f"is set together with {key}_file: keep one", key)
    if not inline and not file:
        return None
    if not file.isprintable():  # such as NUL, or half of a surrogate pair, which YAML can escape
        raise section.error(f"{file!a} is not a file name", f"{key}_file")
    place = str(section.error("", key if inline else f"{key}_file")).removesuffix(": ")
    return Pem(place, None, inline) if inline else Pem(place, folder / file)


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
    _only(http, ("http2", "headers"))
    http.flag("http2", default=True)  # both are fine: HTTP/2 is an offer that no client needs
    section = http.section("headers")
    if section is None:
        return ()
    headers = [(name, _header(section, name)) for name in _only(section, HEADERS)]
    return tuple((name, value) for name, value in headers if value)


def _header(section: Section, name: str) -> str:
    value, allowed = section.text(name).strip(), HEADERS[name]
    if value and allowed and value not in allowed:
        raise section.error(f"must be {' or '.join(allowed)}, not {value!r}", name)
    if not value.isascii() or not value.isprintable():
        raise section.error("has a line break or a character that an HTTP header cannot contain", name)
    return value


def _rate_limit(section: Section) -> RateLimit | None:
    interval, burst = section.duration("interval", 0.0), section.number("burst", 0)
    if not interval:
        return None
    if burst < 1 or burst != int(burst):
        raise section.error("must be a whole number from 1 on, or no request would ever be answered", "burst")
    return RateLimit(interval, int(burst))
