"""Finds the metadata service of a VM without a virtual network: ``--imds.endpoint discover``.

Such a VM (cloud service, classic) does not have the service at the usual address; Azure's DHCP
server names it in option 245. The lease files of DHCP clients are read first. If none has the
option, a DHCPDISCOVER is broadcast (``imds.dhcp``), several times within some minutes.

Nothing in a DHCP answer is signed: docs/discovery.md has what is trusted.
"""

import glob
import logging
import re
import time
from collections.abc import Callable, Iterable
from itertools import chain
from pathlib import Path

from azure_scheduled_events_exporter.errors import UsageError
from azure_scheduled_events_exporter.logs import facts
from azure_scheduled_events_exporter.text_file import read

from .dhcp import Exchange, ask_dhcp, endpoint_address

DEFAULT_LEASE_FILES = (
    "/run/systemd/netif/leases/*",  # systemd-networkd
    "/var/lib/dhcp/dhclient*.leases",  # dhclient on Debian and Ubuntu
    "/var/lib/dhclient/dhclient*.lease*",  # dhclient on Red Hat's family
    # NetworkManager with dhclient; its own client keeps no options
    "/var/lib/NetworkManager/dhclient-*.lease",
)
_NETWORKD_OPTION = re.compile(r"^OPTION_245=([0-9a-fA-F]{8})[ \t\r]*$", re.MULTILINE)
"""``OPTION_245=a83f8110`` in a file of systemd-networkd."""

# The three expressions below are for the files of dhclient; see its man page dhclient.leases(5).
_LEASE = re.compile(r"^lease\s*\{\n((?:[ \t].*\n)*)\}", re.MULTILINE)
"""``lease {``, indented lines, and ``}``."""

_DHCLIENT_OPTION = re.compile(
    r"^\s+option\s+unknown-245\s+([0-9a-fA-F]{1,2}(?::[0-9a-fA-F]{1,2}){3})\s*;", re.MULTILINE
)
"""``option unknown-245 a8:3f:81:10;``."""

_EXPIRY = re.compile(
    r"^\s+expire\s+(?:\d (\d{4}/\d\d/\d\d \d\d:\d\d:\d\d)|never)\s*;", re.MULTILINE
)
"""``expire 2 2026/05/19 08:00:00;`` (day of the week, then UTC) or ``expire never;``."""


def discover(
    wait: Callable[[float], bool],
    log: logging.Logger,
    *,
    lease_files: Iterable[str] = DEFAULT_LEASE_FILES,
    exchange: Exchange | None = None,
    mac: bytes | None = None,
) -> str:
    """Return the base address of the metadata service, ``http://A.B.C.D``.

    Args:
        wait: waits so many seconds, or until the exporter is to stop; returns whether it is.
        log: where the address and its origin are logged.
        lease_files: glob patterns.
        exchange: how DHCP is asked; None for the default.
        mac: the address to ask from; None for that of the first network card.

    Raises:
        Stopped: ``wait`` returned True.
        ExporterError: the address cannot be found; the message has the reason and what to do.
    """
    for path in _newest_first(lease_files):
        try:
            text = read(path).decode("latin-1")  # which takes any bytes
            value = address_from_lease(text, time.time())
            if value is None:
                continue
            address = endpoint_address(value)
        except (UsageError, ValueError) as error:
            log.warning("lease file skipped", extra=facts(path=path, error=str(error)))
            continue
        log.info(
            "DHCP option 245 found in a lease file",
            extra=facts(address=str(address), path=path),
        )
        return f"http://{address}"
    return f"http://{ask_dhcp(wait, log, exchange or Exchange(), mac)}"


def _newest_first(patterns: Iterable[str]) -> list[Path]:
    """Return the files that match one of these glob patterns, the newest first."""
    names = set(chain.from_iterable(map(glob.iglob, patterns)))
    files = [path for path in map(Path, names) if path.is_file()]
    return sorted(files, key=lambda path: path.stat().st_mtime_ns, reverse=True)


def address_from_lease(text: str, now: float) -> bytes | None:
    """Return the bytes of option 245 in a lease file, None when it has none.

    A file of dhclient holds every lease since the client's start, the newest last. Of these, the
    last one counts that has the option and has not expired at ``now`` (Unix seconds). A file of
    systemd-networkd holds one lease, and is removed with it.
    """
    networkd = _NETWORKD_OPTION.findall(text)
    if networkd:
        return bytes.fromhex(networkd[-1])
    found = None
    moment = time.strftime("%Y/%m/%d %H:%M:%S", time.gmtime(now))  # as text, as a lease has it
    for lease in _LEASE.findall(text):
        option = _DHCLIENT_OPTION.search(lease)
        expiry = _EXPIRY.search(lease)
        if option is None or expiry is None:
            continue
        expires_at = expiry[1]  # None if it never does
        if expires_at is None or expires_at > moment:
            found = bytes(int(part, 16) for part in option[1].split(":"))
    return found
