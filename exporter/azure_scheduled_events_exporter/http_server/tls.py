"""Makes the server's SSLContext from settings; every error names the key that caused it.

Reads certificates and calls OpenSSL. Must not depend on HTTP or decide when to reload (``access`` does).
"""

import os
import socket
import ssl
import sys
import tempfile
from asyncio import sslproto
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from azure_scheduled_events_exporter.errors import UsageError
from azure_scheduled_events_exporter.text_file import read

from .web_config import CURVES, ClientAuth, Pem, TlsSettings

_VERSIONS = {"TLS12": ssl.TLSVersion.TLSv1_2, "TLS13": ssl.TLSVersion.TLSv1_3}
_BUFFER = 16 * 1024  # bytes of one TLS record
_KINDS = ("DNS", "email", "IP Address", "URI")  # of names, those that the toolkit compares
_NO_CHECK_TIME = 0x200000  # X509_V_FLAG_NO_CHECK_TIME, for which Python has no name
_REASONS = {
    "KEY_VALUES_MISMATCH": "does not belong to the certificate: they must be a pair",
    "KEY_TYPE_MISMATCH": "does not belong to the certificate: they must be a pair",
    "NO_CERTIFICATE_ASSIGNED": "does not belong to the certificate: they must be a pair",
    "EE_KEY_TOO_SMALL": "is of a certificate that is too weak for OpenSSL: make one with a longer key",
    "CA_MD_TOO_WEAK": "is of a certificate that is too weak for OpenSSL: make one with a newer hash",
}


@dataclass(frozen=True, slots=True)
class Tls:
    """What a connection needs to speak TLS.

    Attributes:
        context: for each connection.
        client_names: certificate names that are accepted; if empty, every verified certificate is.
        ends: when the certificate expires, seconds since the epoch; None if unknown.
    """

    context: ssl.SSLContext
    client_names: frozenset[str] = frozenset()
    ends: float | None = None

    def knows(self, channel: ssl.SSLObject) -> bool:
        """Return whether the client's certificate contains one of the accepted names."""
        certificate: dict[str, Any] = {}
        with suppress(ValueError, ssl.SSLError):  # names that are no text
            certificate = channel.getpeercert() or {}
        names = {_canonical(value) for kind, value in certificate.get("subjectAltName", ()) if kind in _KINDS}
        return not self.client_names or not names.isdisjoint(self.client_names)


def server_tls(settings: TlsSettings) -> Tls:
    """Return the TLS objects for ``settings``, after checking every certificate.

    Raises:
        UsageError: a file cannot be read or used, or OpenSSL does not support a setting.
    """
    # asyncio gives every TLS connection a buffer of 256 KiB: 512 idle clients would cost 128 MiB. It has no parameter.
    sslproto.SSLProtocol.max_size = _BUFFER
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version, context.maximum_version = _VERSIONS[settings.min_version], _VERSIONS[settings.max_version]
    context.options |= ssl.OP_NO_RENEGOTIATION  # costs the server more than the client
    if not settings.prefer_server_cipher_suites:
        context.options &= ~ssl.OP_CIPHER_SERVER_PREFERENCE
    context.set_alpn_protocols(["http/1.1"])
    ends = _end_of(context, _load_certificate(context, settings))  # while it asks no client for a certificate
    if settings.client_ca is not None:
        context.load_verify_locations(cadata=_certificates(settings.client_ca))
        is_required = settings.client_auth is ClientAuth.REQUIRED
        context.verify_mode = ssl.CERT_REQUIRED if is_required else ssl.CERT_OPTIONAL
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN  # as in Go: each one in the file is trusted, root or not
    _choose_curve(context, settings)
    if settings.cipher_suites:
        try:
            context.set_ciphers(":".join(settings.cipher_suites))
        except ssl.SSLError:
            raise UsageError(f"{settings.place}.cipher_suites: this machine's OpenSSL allows none of them") from None
    return Tls(context, frozenset(_canonical(name) for name in settings.client_names), ends)


def _load_certificate(context: ssl.SSLContext, settings: TlsSettings) -> str:
    """Load the pair; return the PEM text of the certificate and its chain."""
    certificate, key = settings.certificate, settings.key
    chain, text = _certificates(certificate), _read(key)
    if "PRIVATE KEY-----" not in text:
        raise UsageError(f"{_name(key)} holds no private key in PEM form")
    if "ENCRYPTED" in text:
        raise UsageError(f"{_name(key)} is encrypted, and nobody can enter the passphrase: store the key without one")
    with _file(chain) as certificate_file, _file(text) as key_file:
        try:
            context.load_cert_chain(certificate_file, key_file, password=lambda: "")
        except ssl.SSLError as error:
            reason = _REASONS.get(error.reason or "", "holds a key that cannot be decoded")
            raise UsageError(f"{_name(key)} {reason}") from None
    return chain


def _end_of(context: ssl.SSLContext, chain: str) -> float | None:
    """Return when the certificate of ``context`` expires (Unix seconds), or None.

    The ssl module shows a certificate's fields to a client only, so this makes a handshake in memory. The client
    trusts each certificate of ``chain``, regardless of its issuer and dates.
    """
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


def _choose_curve(context: ssl.SSLContext, settings: TlsSettings) -> None:
    """Restrict TLS to one curve. Python before 3.15 cannot set several, and 3.11.2 not X25519."""
    if not settings.curves:
        return
    try:
        (curve,) = settings.curves
        context.set_ecdh_curve(curve)
    except (ValueError, ssl.SSLError):
        names = ", ".join(name for name, openssl in CURVES.items() if openssl in settings.curves)
        python = "Python " + ".".join(str(part) for part in sys.version_info[:3])
        message = f"{python} cannot restrict TLS to {names}: name one curve, such as CurveP256, or remove it"
        raise UsageError(f"{settings.place}.curve_preferences: {message}") from None


def _certificates(pem: Pem) -> str:
    """Return the PEM text of certificates after checking that OpenSSL can decode each one."""
    text = _read(pem)
    if "-----BEGIN CERTIFICATE-----" not in text:
        raise UsageError(f"{_name(pem)} holds no certificate in PEM form")
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_verify_locations(cadata=text)
    except (ssl.SSLError, ValueError):
        raise UsageError(f"{_name(pem)} holds a certificate that cannot be decoded") from None
    return text


def _read(pem: Pem) -> str:
    if pem.path is None:
        return pem.text.encode("ascii", "ignore").decode()
    try:
        data = read(pem.path, what="PEM file")
    except UsageError as error:
        raise UsageError(f"{pem.place}: {error}") from None
    return data.decode("ascii", "ignore")  # people write comments between certificates


def _name(pem: Pem) -> str:
    return f"{pem.place}: {pem.path or 'the text'}"


@contextmanager
def _file(text: str) -> Iterator[str]:
    """Yield the path of a file with ``text``, because Python loads keys only from files.

    On Linux this is memory, elsewhere a temporary file that only this user can read.
    """
    if sys.platform == "linux":
        with os.fdopen(os.memfd_create("pem"), "w") as memory:
            memory.write(text)
            memory.flush()
            yield f"/proc/self/fd/{memory.fileno()}"
    else:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "pem"
            path.touch(mode=0o600)
            path.write_text(text)
            yield str(path)


def _canonical(name: str) -> str:
    """Return an IP address in canonical form, so that ``::1`` equals ``0:0:0:0:0:0:0:1``; other names unchanged."""
    for family in (socket.AF_INET, socket.AF_INET6):
        with suppress(OSError, ValueError):
            return socket.inet_ntop(family, socket.inet_pton(family, name.strip()))
    return name
