"""The one check of an address of a server that somebody has written.

Pure: nothing is looked up or asked.
"""

import re
from urllib.parse import SplitResult, urlsplit

import requests

from azure_scheduled_events_exporter.errors import without_password

_PLAIN_HOST = re.compile(r"[0-9A-Za-z_-][0-9A-Za-z._-]*(:\d+)?", re.ASCII)
"""A host name or IPv4 address, with or without a port."""

_NEVER = " ?#\\"  # what no base address has: a path is appended to it


def checked(text: str, what: str, write: str, *, secure: bool = True) -> SplitResult:
    """Return the parts of the base address ``text``.

    Args:
        text: what was written.
        what: of which kind it is, completes "is not …" in the error.
        write: what to write instead, completes "write …".
        secure: whether https, and a user with a password, are possible.

    Raises:
        ValueError: it is not an address that requests, which every client here uses, can ask. Its
            message has no password.
    """
    schemes = {"http", "https"} if secure else {"http"}
    try:
        parts = urlsplit(text)
        host = parts.netloc.rpartition("@")[2]
        usable = (
            parts.scheme in schemes
            and bool(parts.hostname)
            and parts.port != 0
            and not host.endswith(":")
        )
        usable = (
            usable
            and ".." not in host
            and text.isprintable()
            and not any(c in text for c in _NEVER)
        )
        usable = usable and (secure or "@" not in parts.netloc)
        if usable and not _PLAIN_HOST.fullmatch(host):  # such as an IPv6 address, or not ASCII
            requests.Request("GET", text).prepare()  # raises a ValueError if it cannot be asked
    except ValueError:
        usable = False
    if not usable:
        raise ValueError(f"{without_password(text)!r} is not {what}: write {write}")
    return parts
