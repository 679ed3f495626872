"""TLS of the server: reads certificates and keys, checks them with OpenSSL, and makes the context.

Every error names the key of the web configuration. Must not depend on HTTP.

Source: https://github.com/prometheus/exporter-toolkit/blob/master/docs/web-configuration.md
"""

import ssl
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from azure_scheduled_events_exporter.http_client.pem_files import certificates, load_pair
from azure_scheduled_events_exporter.yaml_file import Section

_CLIENT_AUTH = {  # the toolkit's modes; those that verify nothing are refused
    "NoClientCert": ssl.CERT_NONE,
    "VerifyClientCertIfGiven": ssl.CERT_OPTIONAL,
    "RequireAndVerifyClientCert": ssl.CERT_REQUIRED,
}
_VERSIONS = {"TLS12": ssl.TLSVersion.TLSv1_2, "TLS13": ssl.TLSVersion.TLSv1_3}
# The end of a suite's name as Go, and so the toolkit, writes it, and as OpenSSL does.
_CIPHERS = (
    ("AES_128_GCM_SHA256", "AES128-GCM-SHA256"),
    ("AES_256_GCM_SHA384", "AES256-GCM-SHA384"),
    ("CHACHA20_POLY1305_SHA256", "CHACHA20-POLY1305"),
)
# For Go's name of each suite of TLS 1.2 that this server can offer, OpenSSL's name, such as
# ECDHE-RSA-AES128-GCM-SHA256 for TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256.
_SUITES = {
    f"TLS_ECDHE_{key}_WITH_{go}": f"ECDHE-{key}-{openssl}"
    for key in ("ECDSA", "RSA")
    for go, openssl in _CIPHERS
}
# Suites of TLS 1.3 are accepted without effect: as in Go, they cannot be chosen.
_SUITES |= {f"TLS_{go}": "" for go, _ in _CIPHERS}
_NO_CHECK_TIME = 0x200000  # X509_V_FLAG_NO_CHECK_TIME, for which Python has no name


@dataclass(frozen=True, slots=True)
class Tls:
    """What a connection needs to speak TLS.

    Attributes:
        context: Python's, for all connections.
        files: from which it was made; the server's certificate is first.
        client_names: certificate names that are accepted; if empty, every verified certificate is.
        ends: when the server's certificate expires, Unix seconds; None if unknown.
    """

    context: ssl.SSLContext
    files: tuple[Path, ...]
    client_names: frozenset[str]
    ends: float | None

    def accepts(self, channel: ssl.SSLObject) -> bool:
        """Return whether the client may use the connection ``channel``, whose handshake is over.

        It may if its certificate has one of :attr:`client_names`, or if there are none.
        """
        if not self.client_names:
            return True
        certificate: dict[str, Any] = {}
        with suppress(ValueError, ssl.SSLError):  # names that are no text
            certificate = channel.getpeercert() or {}
        names = {str(value).strip() for _, value in certificate.get("subjectAltName", ())}
        return not names.isdisjoint(self.client_names)


def tls_of(section: Section, folder: Path) -> Tls:
    """Return the TLS settings in ``section``, with every certificate checked.

    Paths are relative to ``folder``.

    Raises:
        UsageError: a setting is impossible or unsafe, or a certificate cannot be used.
    """
    client_auth = section.choice("client_auth_type", tuple(_CLIENT_AUTH), "NoClientCert")
    verify_mode = _CLIENT_AUTH[client_auth]
    names = section.texts("client_allowed_sans", ())
    lowest = _VERSIONS[section.choice("min_version", tuple(_VERSIONS), "TLS12")]
    highest = _VERSIONS[section.choice("max_version", tuple(_VERSIONS), "TLS13")]
    suites = section.texts("cipher_suites", ())
    ciphers = _ciphers(section, suites, lowest)
    # Read only to be accepted: the toolkit has this key, and Go ignores it.
    section.flag("prefer_server_cipher_suites", default=True)
    keys = [key for key in ("cert_file", "key_file", "client_ca_file") if section.text(key, "")]
    section.finish()
    _check_together(section, keys, verify_mode, names)
    if lowest > highest:
        raise section.error("is newer than max_version: no version is left", "min_version")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = lowest
    context.maximum_version = highest
    if ciphers:
        _set_ciphers(context, section, ciphers)
    # A renegotiation costs the server more than the client.
    context.options |= ssl.OP_NO_RENEGOTIATION
    context.set_alpn_protocols(["http/1.1"])
    chain = load_pair(context, section, folder)
    # Before clients are verified: the client of this handshake has no certificate.
    ends = _expiry(context, chain)
    if "client_ca_file" in keys:
        context.load_verify_locations(cadata=certificates(section, "client_ca_file", folder))
        context.verify_mode = verify_mode
        # As in Go, each certificate in the file is trusted, root or not.
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    return Tls(
        context=context,
        files=tuple(folder / section.text(key) for key in keys),
        client_names=frozenset(names),
        ends=ends,
    )


def _check_together(
    section: Section, keys: Sequence[str], verify_mode: ssl.VerifyMode, names: Sequence[str]
) -> None:
    """Refuse settings of which one is useless, or unsafe, without another.

    ``keys`` are those of the files that are set, in the order of :func:`tls_of`.
    """
    if keys[:2] != ["cert_file", "key_file"]:
        raise section.error("needs a certificate and its key: write cert_file and key_file")
    has_authority = "client_ca_file" in keys
    verifies_clients = verify_mode is not ssl.CERT_NONE
    if has_authority != verifies_clients:
        raise section.error(
            "verifying clients needs both: client_ca_file, and client_auth_type", "client_auth_type"
        )
    has_names = bool(names) and all(names) and verify_mode is ssl.CERT_REQUIRED
    if "client_allowed_sans" in section and not has_names:
        raise section.error(
            "needs a name, and client_auth_type: RequireAndVerifyClientCert", "client_allowed_sans"
        )


def _set_ciphers(context: ssl.SSLContext, section: Section, ciphers: str) -> None:
    """Let ``context`` use only ``ciphers``, in OpenSSL's names."""
    try:
        context.set_ciphers(ciphers)
    except ssl.SSLError:
        raise section.error(
            "OpenSSL on this machine permits none of them (in FIPS mode, not CHACHA20)",
            "cipher_suites",
        ) from None


def _ciphers(section: Section, suites: Sequence[str], lowest: ssl.TLSVersion) -> str:
    """Return OpenSSL's names of the suites of TLS 1.2 among ``suites``, joined by colons."""
    unknown = sorted({*suites} - {*_SUITES})
    if unknown:
        raise section.error(
            f"{unknown[0][:100]!r} is not supported: known are {', '.join(_SUITES)}",
            "cipher_suites",
        )
    named = [_SUITES[name] for name in suites if _SUITES[name]]
    if suites and not named and lowest == ssl.TLSVersion.TLSv1_2:
        raise section.error(
            "names no suite of TLS 1.2: name one, or write min_version: TLS13", "cipher_suites"
        )
    return ":".join(named)


def _expiry(context: ssl.SSLContext, chain: str) -> float | None:
    """Return when the certificate of ``context`` expires, Unix seconds; None if unknown.

    The ssl module shows a certificate's fields to a client only, so this makes a handshake in
    memory. The client trusts each certificate of ``chain``, regardless of its issuer and dates.
    """
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client.check_hostname = False
    client.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN | _NO_CHECK_TIME
    client.load_verify_locations(cadata=chain)
    to_server = ssl.MemoryBIO()
    to_client = ssl.MemoryBIO()
    client_side = client.wrap_bio(to_client, to_server)
    server_side = context.wrap_bio(to_server, to_client, server_side=True)
    try:
        for _ in range(3):  # TLS 1.2, the longer handshake, is over at the client's third turn
            for side in (client_side, server_side):
                with suppress(ssl.SSLWantReadError):
                    side.do_handshake()
        certificate = client_side.getpeercert() or {}
        return float(ssl.cert_time_to_seconds(str(certificate["notAfter"])))
    except (ssl.SSLError, ValueError, KeyError):  # a certificate that clients refuse at any time
        return None
