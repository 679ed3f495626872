"""Reads and checks the file of ``--web.config.file``, in the format of Prometheus' exporter-toolkit.

Reads the certificates that it names, and calls OpenSSL. Every error names the key, and none has a
hash. Must not depend on HTTP or decide when to reload (``access`` does).

Source: https://github.com/prometheus/exporter-toolkit/blob/master/docs/web-configuration.md
"""

import re
import ssl
from asyncio import sslproto
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from azure_scheduled_events_exporter import yaml_file
from azure_scheduled_events_exporter.errors import UsageError
from azure_scheduled_events_exporter.text_file import read
from azure_scheduled_events_exporter.yaml_file import Section

_HEADERS = (
    "Content-Security-Policy",
    "Strict-Transport-Security",
    "X-Content-Type-Options",
    "X-Frame-Options",
    "X-XSS-Protection",
)
_TOP = ("tls_server_config", "http_server_config", "basic_auth_users")
# The costs begin at bcrypt's least; at 14 a check takes a second, and each step doubles it. .Oeu:
# 128 bits of salt.
_HASH = re.compile(r"\$2[aby]\$(0[4-9]|1[0-4])\$[./A-Za-z0-9]{21}[.Oeu][./A-Za-z0-9]{31}")
_BUFFER = 16 * 1024  # bytes of one TLS record
_CLIENT_AUTH = {  # the toolkit's modes; those that verify nothing are refused
    "NoClientCert": ssl.CERT_NONE,
    "VerifyClientCertIfGiven": ssl.CERT_OPTIONAL,
    "RequireAndVerifyClientCert": ssl.CERT_REQUIRED,
}
_VERSIONS = {"TLS12": ssl.TLSVersion.TLSv1_2, "TLS13": ssl.TLSVersion.TLSv1_3}
_CIPHERS = (  # by Go's names, as the toolkit takes them, and by OpenSSL's
    ("AES_128_GCM_SHA256", "AES128-GCM-SHA256"),
    ("AES_256_GCM_SHA384", "AES256-GCM-SHA384"),
    ("CHACHA20_POLY1305_SHA256", "CHACHA20-POLY1305"),
)
_SUITES = {
    f"TLS_ECDHE_{key}_WITH_{go}": f"ECDHE-{key}-{name}"
    for key in ("ECDSA", "RSA")
    for go, name in _CIPHERS
}
_SUITES |= {
    f"TLS_{go}": "" for go, _ in _CIPHERS
}  # those of TLS 1.3 stay whatever is asked for, as in Go
_NO_CHECK_TIME = 0x200000  # X509_V_FLAG_NO_CHECK_TIME, for which Python has no name


@dataclass(frozen=True, slots=True)
class Tls:
    """What a connection needs to speak TLS.

    Attributes:
        context: for each connection.
        files: from which it was made; the certificate is first.
        client_names: certificate names that are accepted; if empty, every verified certificate is.
        ends: when the certificate expires, seconds since the epoch; None if unknown.
    """

    context: ssl.SSLContext
    files: tuple[Path, ...]
    client_names: frozenset[str]
    ends: float | None

    def knows(self, channel: ssl.SSLObject) -> bool:
        """Return whether the client's certificate contains one of the accepted names."""
        certificate: dict[str, Any] = {}
        with suppress(ValueError, ssl.SSLError):  # names that are no text
            certificate = channel.getpeercert() or {}
        names = {str(value).strip() for _, value in certificate.get("subjectAltName", ())}
        return not self.client_names or not names.isdisjoint(self.client_names)


@dataclass(frozen=True, slots=True)
class WebConfig:
    """The settings of a file; ``users`` has the bcrypt hash of each user name, both as bytes."""

    tls: Tls | None = None
    users: dict[bytes, bytes] = field(default_factory=dict, repr=False)
    headers: tuple[tuple[str, str], ...] = ()


def load(path: Path) -> WebConfig:
    """Read the file at ``path``, and the certificates that it names; their relative paths begin in its folder.

    Raises:
        UsageError: it, or a certificate, cannot be read, or it has unknown, unsafe or conflicting
            settings.
    """
    top = yaml_file.load(path)
    tls, http, users = (top.section(name) for name in _TOP)
    top.finish()
    if (
        tls is http is users is None
    ):  # a file that was emptied by accident must not disable authentication
        raise top.error(f"has no settings: write {', '.join(_TOP)}, or do without the file")
    if users is not None and not any(True for _ in users):
        raise users.error("is empty: fill it in, or remove it")
    return WebConfig(
        tls=None if tls is None else _tls(tls, path.parent),
        users=dict(_user(users, name) for name in users) if users else {},
        headers=_headers(http) if http else (),
    )


def _user(users: Section, name: str) -> tuple[bytes, bytes]:
    if (
        not name or ":" in name or not name.isprintable()
    ):  # RFC 7617: these end the name, or cannot be sent
        raise users.error(
            f"{name!r} is not a user name: it must not be empty, nor have ':' or control characters"
        )
    hashed = users.text(name)
    if not _HASH.fullmatch(hashed):
        raise users.error(
            "is no bcrypt hash with a cost from 4 to 14: make one by 'htpasswd -nBC 10 USER'", name
        )
    return name.encode(), hashed.encode()


def _headers(http: Section) -> tuple[tuple[str, str], ...]:
    http.flag("http2", default=True)  # both are fine: HTTP/2 is an offer that no client needs
    section = http.section("headers")
    http.finish()
    if section is None:
        return ()
    headers = [(name, section.text(name, "").strip()) for name in _HEADERS]
    section.finish()
    for name, value in headers:
        if not value.isascii() or not value.isprintable():
            raise section.error(
                "has a line break or a character that an HTTP header cannot contain", name
            )
    return tuple((name, value) for name, value in headers if value)


def _tls(section: Section, folder: Path) -> Tls:
    """Return the TLS settings in ``section``, with every certificate checked; paths are relative to ``folder``."""
    asked = _CLIENT_AUTH[section.choice("client_auth_type", tuple(_CLIENT_AUTH), "NoClientCert")]
    names = section.texts("client_allowed_sans", ())
    lowest = _VERSIONS[section.choice("min_version", tuple(_VERSIONS), "TLS12")]
    highest = _VERSIONS[section.choice("max_version", tuple(_VERSIONS), "TLS13")]
    ciphers = _ciphers(section, section.texts("cipher_suites", ()), lowest)
    section.flag("prefer_server_cipher_suites", default=True)  # without a meaning in Go, too
    keys = [key for key in ("cert_file", "key_file", "client_ca_file") if section.text(key, "")]
    section.finish()
    if keys[:2] != ["cert_file", "key_file"]:
        raise section.error("needs a certificate and its key: write cert_file and key_file")
    if lowest > highest:
        raise section.error("is newer than max_version: no version is left", "min_version")
    if ("client_ca_file" in keys) is (asked is ssl.CERT_NONE):
        raise section.error(
            "verifying clients needs both: client_ca_file, and client_auth_type", "client_auth_type"
        )
    if "client_allowed_sans" in section and not (
        names and all(names) and asked is ssl.CERT_REQUIRED
    ):
        raise section.error(
            "needs a name, and client_auth_type: RequireAndVerifyClientCert", "client_allowed_sans"
        )
    # asyncio gives every TLS connection a buffer of 256 KiB: 512 idle clients would cost 128 MiB.
    # It has no parameter.
    sslproto.SSLProtocol.max_size = _BUFFER
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version, context.maximum_version = lowest, highest
    if ciphers:
        context.set_ciphers(ciphers)
    context.options |= ssl.OP_NO_RENEGOTIATION  # costs the server more than the client
    context.set_alpn_protocols(["http/1.1"])
    ends = _load_pair(context, section, folder)
    if "client_ca_file" in keys:
        context.load_verify_locations(cadata=_certificates(section, "client_ca_file", folder))
        context.verify_mode = asked
        context.verify_flags |= (
            ssl.VERIFY_X509_PARTIAL_CHAIN
        )  # as in Go: each one in the file is trusted, root or not
    return Tls(context, tuple(folder / section.text(key) for key in keys), frozenset(names), ends)


def _ciphers(section: Section, suites: Sequence[str], lowest: ssl.TLSVersion) -> str:
    """Return OpenSSL's names of the suites of TLS 1.2."""
    for unknown in sorted({*suites} - {*_SUITES}):
        raise section.error(
            f"{unknown[:100]!r} is not supported: known are {', '.join(_SUITES)}", "cipher_suites"
        )
    named = [_SUITES[name] for name in suites if _SUITES[name]]
    if suites and not named and lowest == ssl.TLSVersion.TLSv1_2:
        raise section.error(
            "names no suite of TLS 1.2: name one, or write min_version: TLS13", "cipher_suites"
        )
    return ":".join(named)


def _load_pair(context: ssl.SSLContext, section: Section, folder: Path) -> float | None:
    """Load certificate and key; return when the certificate expires (Unix seconds), or None.

    The ssl module shows a certificate's fields to a client only, so this makes a handshake in
    memory. The client trusts each certificate of the chain, regardless of its issuer and dates.
    """
    chain = _certificates(section, "cert_file", folder)
    if "ENCRYPTED" in _read(section, "key_file", folder):
        raise section.error(
            "is encrypted, and nobody can enter the passphrase: store the key without one",
            "key_file",
        )
    try:
        context.load_cert_chain(
            folder / section.text("cert_file"), folder / section.text("key_file"), lambda: ""
        )
    except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
        reason = str(getattr(error, "reason", None) or "no private key").replace("_", " ").lower()
        raise section.error(
            f"cannot be used with cert_file (OpenSSL: {reason})", "key_file"
        ) from None
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client.check_hostname = False
    client.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN | _NO_CHECK_TIME
    client.load_verify_locations(cadata=chain)
    there, back = ssl.MemoryBIO(), ssl.MemoryBIO()
    sides = client.wrap_bio(back, there), context.wrap_bio(there, back, server_side=True)
    try:
        for side in sides * 3:  # enough for both to finish
            with suppress(ssl.SSLWantReadError):
                side.do_handshake()
        return float(ssl.cert_time_to_seconds(str((sides[0].getpeercert() or {})["notAfter"])))
    except (ssl.SSLError, ValueError, KeyError):  # a certificate that clients refuse at any time
        return None


def _certificates(section: Section, key: str, folder: Path) -> str:
    """Return the PEM text of certificates after checking that OpenSSL can decode each one."""
    text = _read(section, key, folder)
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_verify_locations(cadata=text)
    except (ssl.SSLError, ValueError):
        raise section.error(
            "holds no certificate in PEM form, or one that cannot be decoded", key
        ) from None
    return text


def _read(section: Section, key: str, folder: Path) -> str:
    try:
        return read(folder / section.text(key), what="PEM file").decode(
            "ascii", "ignore"
        )  # there may be comments
    except UsageError as error:
        raise section.error(str(error), key) from None
