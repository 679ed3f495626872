"""Reads credentials for Prometheus, Alertmanager and Grafana, in the format of Prometheus' HTTP client configuration.

Reads ``basic_auth``, ``authorization`` and ``tls_config``; sends nothing. Error messages contain no secrets.

Source: https://prometheus.io/docs/prometheus/latest/configuration/configuration/#http_config
"""

from dataclasses import dataclass, field
from pathlib import Path

from azure_scheduled_events_exporter import yaml_file
from azure_scheduled_events_exporter.yaml_file import Section


@dataclass(frozen=True, slots=True)
class HttpConfig:
    """How a client authenticates, and which certificates it trusts.

    Attributes:
        user: user and password for basic authentication.
        authorization: the whole header ``Authorization``.
        ca_file: the trusted certificate authorities; ``""`` for the system's.
        insecure: whether any certificate of the server is accepted.
        certificate: files of the client's certificate and key.
    """

    user: tuple[str, str] | None = field(default=None, repr=False)
    authorization: str = field(default="", repr=False)
    ca_file: str = ""
    insecure: bool = False
    certificate: tuple[str, str] | None = None


def load(path: Path) -> HttpConfig:
    """Read the file at ``path``; relative paths in it are relative to its folder.

    Raises:
        UsageError: it cannot be read, or has an unknown key.
    """
    top = yaml_file.load(path)
    basic, authorization, tls = (top.section(name) for name in ("basic_auth", "authorization", "tls_config"))
    top.finish()
    user = None
    if basic:
        user = (basic.text("username"), _secret(basic, "password", path.parent))
        basic.finish()
    header = ""
    if authorization:
        kind = authorization.text("type", "Bearer")
        header = f"{kind} {_secret(authorization, 'credentials', path.parent)}"
        authorization.finish()
    if tls is None:
        return HttpConfig(user, header)
    names = ("ca_file", "cert_file", "key_file")
    ca_file, certificate, key = (_file(tls.text(name, ""), path.parent) for name in names)
    insecure = tls.flag("insecure_skip_verify", default=False)
    tls.finish()
    if bool(certificate) != bool(key):
        raise tls.error("cert_file and key_file belong together: write both")
    return HttpConfig(user, header, ca_file, insecure, (certificate, key) if certificate else None)


def _secret(section: Section, key: str, folder: Path) -> str:
    """Return the text at ``key``, or the content of the file at ``<key>_file``."""
    name = section.text(f"{key}_file", "")
    if not name:
        return section.text(key)
    try:
        return Path(_file(name, folder)).read_text("utf-8").strip()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
        raise section.error(f"{name}: cannot be read: {reason}", f"{key}_file") from None


def _file(name: str, folder: Path) -> str:
    return str(folder / name) if name else ""
