"""Make the server's SSLContext from settings; every error names the key that caused it.

This module reads certificates and calls OpenSSL. Must not depend on HTTP or decide when to reload (``access`` does).
"""

import os
import socket
import ssl
import sys
import tempfile
from asyncio import sslproto
from collections.abc import Iterator, Mapping
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
_ROUNDS = 3  # enough for client and server to finish a handshake


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
        if not self.client_names:
            return True
        try:
            certificate: Mapping[str, Any] = channel.getpeercert() or {}
        except (ValueError, ssl.SSLError):  # names that are no text
            return False
        names = {_canonical(value) for kind, value in certificate.get("subjectAltName", ()) if kind in _KINDS}
        return not names.isdisjoint(self.client_names)


def server_tls(settings: TlsSettings) -> Tls:
    """Return the TLS objects for ``settings``, after checking every certificate.

    Raises:
        UsageError: a file cannot be read or used, or OpenSSL does not support a setting.
    """
    # asyncio gives every TLS connection a buffer of 256 KiB: 512 idle clients would cost 128 MiB. It has no parameter.
    sslproto.SSLProtocol.max_size = _BUFFER
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = _VERSIONS[settings.min_version]
    context.maximum_version = _VERSIONS[settings.max_version]
    context.options |= ssl.OP_NO_RENEGOTIATION  # costs the server more than the client
    if settings.prefer_server_cipher_suites:
        context.options |= ssl.OP_CIPHER_SERVER_PREFERENCE
    else:
        context.options &= ~ssl.OP_CIPHER_SERVER_PREFERENCE
    context.set_alpn_protocols(["http/1.1"])
    ends = _end_of(context, _load_certificate(context, settings.certificate, settings.key))  # while it asks nothing yet
    if settings.client_ca is not None:
        _load_client_ca(context, settings.client_ca, settings.client_auth)
    _choose_curves(context, settings)
    _choose_suites(context, settings)
    return Tls(context, frozenset(_canonical(name) for name in settings.client_names), ends)


def _load_certificate(context: ssl.SSLContext, certificate: Pem, key: Pem) -> str:
    """Load the pair; return the PEM text of the certificate and its chain."""
    chain = _certificates(certificate)
    text = _read(key)
    if "PRIVATE KEY-----" not in text:
        raise UsageError(f"{_name(key)} holds no private key in PEM form")
    if "ENCRYPTED" in text:
        raise UsageError(f"{_name(key)} is encrypted, and nobody can enter the passphrase: store the key without one")
    with _file(certificate) as certificate_file, _file(key) as key_file:
        try:
            context.load_cert_chain(certificate_file, key_file, password=lambda: "")
        except ssl.SSLError as error:
            if error.reason in {"KEY_VALUES_MISMATCH", "KEY_TYPE_MISMATCH", "NO_CERTIFICATE_ASSIGNED"}:
                raise UsageError(f"{_name(key)} does not belong to the certificate: they must be a pair") from None
            if error.reason in {"EE_KEY_TOO_SMALL", "CA_MD_TOO_WEAK"}:
                raise UsageError(f"{_name(certificate)} is too weak for OpenSSL: make one with a longer key") from None
            raise UsageError(f"{_name(key)} holds a key that cannot be decoded") from None
        except OSError as error:
            raise UsageError(f"{_name(key)} cannot be read: {error.strerror or error}") from None
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
    server = context.wrap_bio(there, back, server_side=True)
    asking = client.wrap_bio(back, there)
    try:
        for side in (asking, server) * _ROUNDS:
            with suppress(ssl.SSLWantReadError):
                side.do_handshake()
        return float(ssl.cert_time_to_seconds(str((asking.getpeercert() or {})["notAfter"])))
    except (ssl.SSLError, ValueError, KeyError):  # a certificate that clients refuse at any time
        return None


def _load_client_ca(context: ssl.SSLContext, client_ca: Pem, wanted: ClientAuth) -> None:
    context.load_verify_locations(cadata=_certificates(client_ca))
    context.verify_mode = ssl.CERT_REQUIRED if wanted is ClientAuth.REQUIRED else ssl.CERT_OPTIONAL
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN  # as in Go: each one in the file is trusted, root or not


def _choose_curves(context: ssl.SSLContext, settings: TlsSettings) -> None:
    if not settings.curves:
        return
    place = f"{settings.place}.curve_preferences"
    python = "Python " + ".".join(str(part) for part in sys.version_info[:3])
    set_groups = getattr(context, "set_groups", None)  # Python 3.15
    try:
        if set_groups is not None:
            set_groups(":".join(settings.curves))
        elif len(settings.curves) == 1:
            context.set_ecdh_curve(settings.curves[0])
        else:
            raise UsageError(f"{place}: {python} can restrict TLS to one curve only: name one, or remove it")
    except (ValueError, ssl.SSLError):
        # Debian 12's Python 3.11.2 asks OpenSSL for X25519 by a call that does not know it.
        names = ", ".join(name for name, openssl in CURVES.items() if openssl in settings.curves)
        library = f"{python} with {ssl.OPENSSL_VERSION}"
        raise UsageError(
            f"{place}: {library} cannot restrict TLS to {names}: name another curve, or remove it"
        ) from None


def _choose_suites(context: ssl.SSLContext, settings: TlsSettings) -> None:
    if not settings.cipher_suites:
        return
    place = f"{settings.place}.cipher_suites"
    wanted = ":".join(settings.cipher_suites)
    try:
        context.set_ciphers(wanted)
    except ssl.SSLError:
        raise UsageError(f"{place}: OpenSSL knows none of them as it is set up on this machine") from None
    if settings.min_version == "TLS12" and not _agrees(context, wanted):
        raise UsageError(f"{place}: none fits the certificate's key: ECDSA suites go with EC keys, RSA with RSA")


def _agrees(context: ssl.SSLContext, suites: str) -> bool:
    """Return whether a TLS 1.2 client that offers ``suites`` can connect, by a handshake in memory."""
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client.check_hostname, client.verify_mode = False, ssl.CERT_NONE  # no secret is sent: the handshake ends before
    client.maximum_version = ssl.TLSVersion.TLSv1_2
    client.set_ciphers(suites)
    there, back = ssl.MemoryBIO(), ssl.MemoryBIO()
    with suppress(ssl.SSLWantReadError):
        client.wrap_bio(back, there).do_handshake()
    try:
        context.wrap_bio(there, back, server_side=True).do_handshake()
    except ssl.SSLWantReadError:
        return True
    except ssl.SSLError as error:
        return error.reason != "NO_SHARED_CIPHER"
    return True


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
def _file(pem: Pem) -> Iterator[str]:
    """Yield a path of the PEM text, because Python loads keys only from files.

    An inline key is written to an anonymous memory file on Linux, elsewhere to a temporary file that only this user can
    read.
    """
    if pem.path is not None:
        yield str(pem.path)
    elif sys.platform == "linux":
        descriptor = os.memfd_create("pem")
        try:
            os.write(descriptor, pem.text.encode())
            yield f"/proc/self/fd/{descriptor}"
        finally:
            os.close(descriptor)
    else:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "pem"
            path.touch(mode=0o600)
            path.write_text(pem.text)
            yield str(path)


def _canonical(name: str) -> str:
    """Return an IP address in canonical form, so that ``::1`` equals ``0:0:0:0:0:0:0:1``; other names unchanged."""
    for family in (socket.AF_INET, socket.AF_INET6):
        with suppress(OSError, ValueError):
            return socket.inet_ntop(family, socket.inet_pton(family, name.strip()))
    return name
