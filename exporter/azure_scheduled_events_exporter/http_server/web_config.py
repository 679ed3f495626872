"""Reads and checks the file of ``--web.config.file``, in the format of exporter-toolkit.

Every error names the key, and none has a hash. ``tls`` reads the certificates. Must not depend on
HTTP or decide when to reload (``access`` does).

Source: https://github.com/prometheus/exporter-toolkit/blob/master/docs/web-configuration.md
"""

import re
import ssl
from dataclasses import dataclass, field, replace
from pathlib import Path

from azure_scheduled_events_exporter import yaml_file
from azure_scheduled_events_exporter.times import iso_time
from azure_scheduled_events_exporter.yaml_file import Section

from .tls import Tls, tls_of
from .users import try_out

_HEADERS = (
    "Content-Security-Policy",
    "Strict-Transport-Security",
    "X-Content-Type-Options",
    "X-Frame-Options",
    "X-XSS-Protection",
)
# After the version comes the cost, from bcrypt's least; at 14 a check takes a second, and each step
# doubles it. Then come 22 characters of salt and 31 of hash. Of the salt's 132 bits, 128 are used,
# so its last character has four possible values.
_HASH = re.compile(r"\$2[aby]\$(0[4-9]|1[0-4])\$[./A-Za-z0-9]{21}[.Oeu][./A-Za-z0-9]{31}")


@dataclass(frozen=True, slots=True)
class WebConfig:
    """The settings of a file.

    Attributes:
        tls: None for plain HTTP.
        users: the bcrypt hash of each user name, both as bytes; empty if everybody may read.
        headers: what each response gets, as pairs of name and value.
    """

    tls: Tls | None = None
    users: dict[bytes, bytes] = field(default_factory=dict, repr=False)
    headers: tuple[tuple[str, str], ...] = ()

    @property
    def summary(self) -> str:
        """What this configuration turns on, in words for people; it contains no secret."""
        users = "no users"
        if self.users:
            names = ", ".join(name.decode() for name in self.users)
            users = f"users: {names} (a password was checked as a test)"
        return f"{_tls_summary(self.tls)}; {users}"


def load(path: Path) -> WebConfig:
    """Read the file at ``path``, and the certificates that it names.

    Their relative paths begin in its folder.

    Raises:
        UsageError: it, or a certificate, cannot be read, or it has unknown, unsafe or conflicting
            settings, or this machine cannot check passwords.
    """
    top = yaml_file.load(path)
    tls_section = top.section("tls_server_config")
    http_section = top.section("http_server_config")
    users_section = top.section("basic_auth_users")
    top.finish()
    if tls_section is None and http_section is None and users_section is None:
        # A file that was emptied by accident must not disable authentication.
        raise top.error(
            "has no settings: write tls_server_config, http_server_config, basic_auth_users, or do"
            " without the file"
        )
    config = WebConfig()
    if tls_section is not None:
        config = replace(config, tls=tls_of(tls_section, path.parent))
    if users_section is not None:
        config = replace(config, users=_users(users_section))
    if http_section is not None:
        config = replace(config, headers=_headers(http_section))
    return config


def _tls_summary(tls: Tls | None) -> str:
    """Return what TLS does, for people."""
    if tls is None:
        return "plain HTTP"
    parts = ["TLS"]
    if tls.ends is not None:
        parts = [f"TLS, the certificate is valid until {iso_time(tls.ends)}"]
    if tls.context.verify_mode is ssl.CERT_REQUIRED:
        parts.append("client certificates are required")
    return "; ".join(parts)


def _users(section: Section) -> dict[bytes, bytes]:
    """Return the bcrypt hash of each user name; try whether this machine can check passwords."""
    names = list(section)
    if not names:
        raise section.error("is empty: fill it in, or remove it")
    users = dict(_user(section, name) for name in names)
    try:
        try_out()
    except ValueError as error:
        raise section.error(
            f"passwords cannot be checked on this machine ({error}): is it in FIPS mode?"
        ) from None
    return users


def _user(users: Section, name: str) -> tuple[bytes, bytes]:
    """Return a user name and its bcrypt hash."""
    # By RFC 7617, a colon ends the name, and control characters cannot be sent.
    if not name or ":" in name or not name.isprintable():
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
    """Return the headers that each response gets: some of those that the toolkit permits."""
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
