"""Reads certificates and keys of a configuration file, and tries them with OpenSSL.

What a connection will use is tried when the configuration is read, so that a file that cannot be
used is refused then. Every error names the key of the configuration.
"""

import ssl
from pathlib import Path

from azure_scheduled_events_exporter.errors import UsageError
from azure_scheduled_events_exporter.text_file import read
from azure_scheduled_events_exporter.yaml_file import Section


def certificates(section: Section, key: str, folder: Path) -> str:
    """Return the PEM text of certificates after checking that OpenSSL can decode each one.

    Raises UsageError: the file at ``key`` cannot be read, or has no certificate.
    """
    text = _read(section, key, folder)
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_verify_locations(cadata=text)
    except (ssl.SSLError, ValueError):
        raise section.error(
            "holds no certificate in PEM form, or one that cannot be decoded", key
        ) from None
    return text


def load_pair(context: ssl.SSLContext, section: Section, folder: Path) -> str:
    """Load ``cert_file`` and ``key_file`` into ``context``; return the PEM text of the first.

    Raises UsageError: one cannot be used, or they do not belong together.
    """
    chain = certificates(section, "cert_file", folder)
    if "ENCRYPTED" in _read(section, "key_file", folder):
        raise section.error(
            "is encrypted, and nobody can enter the passphrase: store the key without one",
            "key_file",
        )
    try:
        certificate = folder / section.text("cert_file")
        key = folder / section.text("key_file")
        # Without a function for the passphrase, OpenSSL would ask for it at the terminal.
        context.load_cert_chain(certificate, key, lambda: "")
    except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
        reason = str(getattr(error, "reason", None) or "no private key").replace("_", " ").lower()
        raise section.error(
            f"cannot be used with cert_file (OpenSSL: {reason})", "key_file"
        ) from None
    return chain


def _read(section: Section, key: str, folder: Path) -> str:
    """Return the ASCII text of the file at ``key``, a path relative to ``folder``."""
    try:
        content = read(folder / section.text(key), what="PEM file")
    except UsageError as error:
        raise section.error(str(error), key) from None
    return content.decode("ascii", "ignore")  # comments may be in any language
