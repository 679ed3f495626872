"""Find the metadata service of a VM without a virtual network: ``--imds.endpoint discover``.

Such a VM (cloud service, classic) does not have the service at the usual address; Azure's DHCP
server names it in option 245. Lease files of a DHCP client are read first; without a result, one
DHCPDISCOVER is broadcast.

Must not use HTTP or decide when to look. Nothing in a DHCP answer is signed: docs/discovery.md has
what is trusted.
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
# Dhclient.leases(5), as dhclient writes it.
_LEASE = re.compile(r"^lease\s*\{\n((?:[ \t].*\n)*)\}", re.MULTILINE)
_OPTION = re.compile(
    r"^\s+option\s+unknown-245\s+([0-9a-fA-F]{1,2}(?::[0-9a-fA-F]{1,2}){3})\s*;", re.MULTILINE
)
# UTC.
_EXPIRY = re.compile(
    r"^\s+expire\s+(?:\d (\d{4}/\d\d/\d\d \d\d:\d\d:\d\d)|never)\s*;", re.MULTILINE
)


def discover(
    wait: Callable[[float], bool],
    log: logging.Logger,
    *,
    lease_files: Iterable[str] = DEFAULT_LEASE_FILES,
    exchange: Exchange | None = None,
    mac: bytes | None = None,
) -> str:
    """Return the base address of the metadata service, ``http://A.B.C.D``.

    ``wait(seconds)`` waits and returns True as soon as the exporter is to stop. ``lease_files`` are
    glob patterns.

    Raises:
        Stopped: ``wait`` returned True.
        ExporterError: the address cannot be found; the message has the reason and what to do.
    """
    found = chain.from_iterable(map(glob.iglob, lease_files))
    names = {name for name in found if Path(name).is_file()}
    for path in sorted(
        map(Path, names), key=lambda path: path.stat().st_mtime_ns, reverse=True
    ):  # the newest first
        try:
            value = address_from_lease(read(path).decode("latin-1"), time.time())
            address = None if value is None else endpoint_address(value)
        except (UsageError, ValueError) as error:
            log.warning("lease file skipped", extra=facts(path=path, error=str(error)))
            continue
        if address is not None:
            log.info(
                "DHCP option 245 found in a lease file",
                extra=facts(address=str(address), path=path),
            )
            return f"http://{address}"
    return f"http://{ask_dhcp(wait, log, exchange or Exchange(), mac)}"


def address_from_lease(text: str, now: float) -> bytes | None:
    """Return the bytes of option 245 in a lease file, None when it has none.

    A dhclient file holds every lease since the client's start: the last one that has the option and
    has not expired at ``now`` (Unix seconds) wins. systemd-networkd removes its file with the
    lease.
    """
    networkd = _NETWORKD_OPTION.findall(text)
    if networkd:
        return bytes.fromhex(networkd[-1])
    found = None
    moment = time.strftime("%Y/%m/%d %H:%M:%S", time.gmtime(now))
    for lease in _LEASE.findall(text):
        option = _OPTION.search(lease)
        expiry = _EXPIRY.search(lease)
        if option and expiry and (expiry[1] is None or expiry[1] > moment):
            found = bytes(int(part, 16) for part in option[1].split(":"))
    return found
