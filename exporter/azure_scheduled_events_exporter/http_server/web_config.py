"""Reads and checks the file of ``--web.config.file``, in the format of Prometheus' exporter-toolkit.

``tls`` reads its section about TLS, and ``access`` decides about clients. Error messages contain no hash.

Source: https://github.com/prometheus/exporter-toolkit/blob/master/docs/web-configuration.md
"""

import re
from dataclasses import dataclass, field
from pathlib import Path

from azure_scheduled_events_exporter import yaml_file
from azure_scheduled_events_exporter.yaml_file import Section

from .tls import Tls, server_tls

HEADERS = (
    "Content-Security-Policy",
    "Strict-Transport-Security",
    "X-Content-Type-Options",
    "X-Frame-Options",
    "X-XSS-Protection",
)
"""The headers that may be set."""

_TOP = ("tls_server_config", "http_server_config", "basic_auth_users")
_HASH = re.compile(r"\$2[aby]\$(\d\d)\$[./A-Za-z0-9]{21}[.Oeu][./A-Za-z0-9]{31}", re.ASCII)  # .Oeu: 128 bits of salt
_COSTS = range(4, 15)  # bcrypt's least; at 14 a check takes a second, and each step doubles it


@dataclass(frozen=True, slots=True)
class WebConfig:
    """The settings of a file; ``users`` has the bcrypt hash of each user name, both as bytes."""

    tls: Tls | None = None
    users: dict[bytes, bytes] = field(default_factory=dict, repr=False)
    headers: tuple[tuple[str, str], ...] = ()


def load(path: Path) -> WebConfig:
    """Read the file at ``path``, and the certificates that it names; their relative paths begin in its folder.

    Raises:
        UsageError: it, or a certificate, cannot be read, or it has unknown, unsafe or conflicting settings.
    """
    top = yaml_file.load(path)
    tls, http, users = (top.section(name) for name in _TOP)
    top.finish()
    if tls is http is users is None:  # a file that was emptied by accident must not disable authentication
        raise top.error(f"has no settings: write {', '.join(_TOP)}, or do without the file")
    if users is not None and not any(True for _ in users):
        raise users.error("is empty: fill it in, or remove it")
    return WebConfig(
        tls=None if tls is None else server_tls(tls, path.parent),
        users=dict(_user(users, name) for name in users) if users else {},
        headers=_headers(http) if http else (),
    )


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
