"""The one check of an address of a server that somebody has written.

Pure: nothing is looked up or asked.
"""

import re
from urllib.parse import SplitResult, urlsplit

import requests

_PLAIN_HOST = re.compile(r"[0-9A-Za-z_-][0-9A-Za-z._-]*(:\d+)?", re.ASCII)
"""A host name or IPv4 address, with or without a port."""

_NEVER = frozenset(" ?#\\")  # what no base address has: a path is appended to it


def checked(text: str, what: str, write: str, *, secure: bool = True) -> SplitResult:
    """Return the parts of the base address ``text``.

    Args:
        text: what was written.
        what: of which kind it is, completes "is not …" in the error.
        write: what to write instead, completes "write …".
        secure: whether https, and a user with a password, are permitted.

    Raises:
        ValueError: it is not an address that requests, which every client here uses, can ask. Its
            message has no part of ``text``: nobody knows where a password in it ends.
    """
    try:
        parts = urlsplit(text)
        is_usable = _is_usable(text, parts, secure=secure)
    except ValueError:
        is_usable = False
    if not is_usable:
        raise ValueError(f"is not {what}: write {write}")
    return parts


def _is_usable(text: str, parts: SplitResult, *, secure: bool) -> bool:
    """Return whether the address ``text``, with these ``parts``, can be asked.

    Raises ValueError, which means no too: the libraries refuse it.
    """
    if not text.isprintable() or not _NEVER.isdisjoint(text):
        return False
    schemes = {"http"}
    if secure:
        schemes.add("https")
    if parts.scheme not in schemes:
        return False
    if "@" in parts.netloc and not secure:
        return False
    host_and_port = parts.netloc.rpartition("@")[2]
    if not parts.hostname or ".." in host_and_port:
        return False
    if parts.port == 0 or host_and_port.endswith(":"):
        return False
    if not _PLAIN_HOST.fullmatch(host_and_port):  # such as an IPv6 address, or not ASCII
        requests.Request("GET", text).prepare()  # raises a ValueError if it cannot be asked
    return True
