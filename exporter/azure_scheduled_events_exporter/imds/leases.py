"""DHCP option 245 in the lease files of systemd-networkd and dhclient.

:func:`address_from_lease` is pure; the functions below it read files. Must not decide whether an address is valid.
"""

import contextlib
import glob
import re
import stat
from collections.abc import Iterable, Iterator
from datetime import datetime
from pathlib import Path

DEFAULT_LEASE_FILES = (
    "/run/systemd/netif/leases/*",  # systemd-networkd
    "/var/lib/dhcp/dhclient*.leases",  # dhclient on Debian and Ubuntu
    "/var/lib/dhclient/dhclient*.lease*",  # dhclient on Red Hat's family
    "/var/lib/NetworkManager/dhclient-*.lease",  # NetworkManager with dhclient; its own client keeps no options
)

_LEASE_TOKEN = re.compile(r'#[^\n]*|"(?:\\.|[^"\\\n])*"|[{};]|[^\s{};"#]+')
_HEXADECIMAL = re.compile(r"[0-9a-fA-F]{1,2}(?::[0-9a-fA-F]{1,2}){3}")
_ESCAPE = re.compile(r"\\(?:([0-7]{3})|(.))")
_NETWORKD_OPTION = re.compile(r"^OPTION_245=([0-9a-fA-F]{8})[ \t\r]*$", re.MULTILINE)
_LEASE_BYTES = 1024 * 1024  # of a longer file the end is read: dhclient appends
_ADDRESS_LENGTH = 4


def address_from_lease(text: str, now: float) -> bytes | None:
    """Return the bytes of option 245 in a lease file of systemd-networkd or dhclient, None when it has none.

    A dhclient file holds every lease since the client's start: the last one that has the option and has not
    expired at ``now`` (Unix seconds) wins. systemd-networkd removes its file with the lease. ``text`` holds
    one character per byte (Latin-1); malformed parts are skipped.
    """
    networkd = _NETWORKD_OPTION.findall(text)
    if networkd:
        return bytes.fromhex(networkd[-1])
    found = None
    for lease in _dhclient_leases(text):
        value = _dhclient_bytes(" ".join(lease.get("unknown-245", ())))
        if value is not None and _expiry(lease.get("expire", ["never"])) > now:
            found = value
    return found


def _dhclient_leases(text: str) -> Iterator[dict[str, list[str]]]:
    """Yield every complete ``lease { … }`` as its options and statements by name; dhclient.leases(5)."""
    depth = 0
    words: list[str] = []
    lease: dict[str, list[str]] | None = None
    for mark in _LEASE_TOKEN.findall(text):
        if mark == "{":
            if words[-1:] == ["lease"]:  # also if dhclient was killed while writing the previous one
                depth, lease = 0, {}
            depth, words = depth + 1, []
        elif mark == "}":
            if depth == 1 and lease is not None:
                yield lease
                lease = None
            depth, words = max(depth - 1, 0), []
        elif mark == ";":
            if depth == 1 and lease is not None and words:
                name, *values = words[1:] if words[0] == "option" and len(words) > 1 else words
                lease[name] = values
            words = []
        elif not mark.startswith("#"):
            words.append(mark)


def _dhclient_bytes(word: str) -> bytes | None:
    """Return the bytes that ``word`` writes: ``a8:3f:81:10``, or quoted text when all are printable.

    dhclient writes no leading zero (``a:0:0:1``), escapes as C does, and drops a NUL at the end of text.
    """
    if _HEXADECIMAL.fullmatch(word):
        return bytes(int(part, 16) for part in word.split(":"))
    if not word.startswith('"'):
        return None
    text = _ESCAPE.sub(lambda escape: escape[2] or chr(int(escape[1], 8) & 0xFF), word[1:-1])
    value = text.encode("latin-1", "replace")
    return value + b"\0" if len(value) == _ADDRESS_LENGTH - 1 else value


def _expiry(words: list[str]) -> float:
    """Return the Unix seconds of ``6 2017/11/25 01:48:29`` (UTC), ``epoch 1511574509`` or ``never``."""
    if words == ["never"]:
        return float("inf")
    try:
        if words[0] == "epoch":
            return int(words[1])
        return datetime.strptime(" ".join((*words[1:3], "+0000")), "%Y/%m/%d %H:%M:%S %z").timestamp()
    except (IndexError, ValueError):
        return float("-inf")  # a lease whose time cannot be read is not trusted


def newest_first(patterns: Iterable[str]) -> list[Path]:
    """Return the regular files that match the glob ``patterns``, the most recently changed first."""
    dated = []
    for path in {Path(name) for pattern in patterns for name in glob.iglob(pattern)}:  # noqa: PTH207 - absolute
        with contextlib.suppress(OSError):  # gone since it was listed
            status = path.stat()
            if stat.S_ISREG(status.st_mode):
                dated.append((status.st_mtime_ns, path))
    return [path for _, path in sorted(dated, reverse=True)]


def read_end(path: Path) -> str:
    """Return the last MiB of a file, one character per byte. Raises OSError."""
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - _LEASE_BYTES))
        return file.read(_LEASE_BYTES).decode("latin-1")
