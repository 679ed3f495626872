"""Makes the server's SSLContext from settings; every error names the section and the file.

Reads certificates and calls OpenSSL. Must not depend on HTTP or decide when to reload (``access`` does).
"""

import ssl
from asyncio import sslproto
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from azure_scheduled_events_exporter.errors import UsageError
from azure_scheduled_events_exporter.text_file import read

from .web_config import TlsSettings

_BUFFER = 16 * 1024  # bytes of one TLS record
_NO_CHECK_TIME = 0x200000  # X509_V_FLAG_NO_CHECK_TIME, for which Python has no name
_NO_PAIR = "does not belong to the certificate: they must be a pair"
_REASONS: Mapping[str | None, str] = {
    "KEY_VALUES_MISMATCH": _NO_PAIR,
    "KEY_TYPE_MISMATCH": _NO_PAIR,
    "NO_CERTIFICATE_ASSIGNED": _NO_PAIR,
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
        names = {str(value).strip() for _, value in certificate.get("subjectAltName", ())}
        return not self.client_names or not names.isdisjoint(self.client_names)


def server_tls(settings: TlsSettings) -> Tls:
    """Return the TLS objects for ``settings``, after checking every certificate.

    Raises:
        UsageError: a file cannot be read or used.
    """
    # asyncio gives every TLS connection a buffer of 256 KiB: 512 idle clients would cost 128 MiB. It has no parameter.
    sslproto.SSLProtocol.max_size = _BUFFER
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version, context.maximum_version = settings.min_version, settings.max_version
    context.options |= ssl.OP_NO_RENEGOTIATION  # costs the server more than the client
    context.set_alpn_protocols(["http/1.1"])
    chain, key = _certificates(settings, settings.certificate), settings.key
    if "ENCRYPTED" in _read(settings, key):
        raise _error(settings, key, "is encrypted, and nobody can enter the passphrase: store the key without one")
    try:
        context.load_cert_chain(settings.certificate, key, password=lambda: "")
    except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
        reason = getattr(error, "reason", None)
        raise _error(settings, key, _REASONS.get(reason, "holds no private key that can be decoded")) from None
    ends = _end_of(context, chain)  # while it asks no client for a certificate
    if settings.client_ca is not None:
        context.load_verify_locations(cadata=_certificates(settings, settings.client_ca))
        context.verify_mode = settings.client_auth
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN  # as in Go: each one in the file is trusted, root or not
    return Tls(context, settings.client_names, ends)


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


def _certificates(settings: TlsSettings, path: Path) -> str:
    """Return the PEM text of certificates after checking that OpenSSL can decode each one."""
    text = _read(settings, path)
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_verify_locations(cadata=text)
    except (ssl.SSLError, ValueError):
        raise _error(settings, path, "holds no certificate in PEM form, or one that cannot be decoded") from None
    return text


def _read(settings: TlsSettings, path: Path) -> str:
    try:
        return read(path, what="PEM file").decode("ascii", "ignore")  # people write comments between certificates
    except UsageError as error:
        raise UsageError(f"{settings.place}: {error}") from None


def _error(settings: TlsSettings, path: Path, message: str) -> UsageError:
    return UsageError(f"{settings.place}: {path} {message}")
