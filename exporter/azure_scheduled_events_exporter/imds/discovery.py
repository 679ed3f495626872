"""Find the metadata service of a VM without a virtual network: ``--imds.endpoint discover``.

Such a VM (cloud service, classic) does not have the service at the usual address; Azure's DHCP server names it
in option 245. Lease files of a DHCP client are read first; without a result, one DHCPDISCOVER is broadcast.

Must not use HTTP or decide when to look: it runs once per call. Nothing in a DHCP answer is signed;
docs/discovery.md describes what is trusted and why.
"""

import logging
import time
from collections.abc import Callable, Iterable
from ipaddress import IPv4Address

from .dhcp import ENDPOINT_OPTION, Exchange, ask_dhcp, endpoint_address
from .leases import DEFAULT_LEASE_FILES, address_from_lease, newest_first, read_end

_LOGGER = logging.getLogger("azure-scheduled-events-exporter")


def discover(
    wait: Callable[[float], bool],
    *,
    lease_files: Iterable[str] = DEFAULT_LEASE_FILES,
    exchange: Exchange | None = None,
    mac: bytes | None = None,
) -> str:
    """Return the base address of the metadata service, ``http://A.B.C.D``.

    ``wait(seconds)`` waits and returns True as soon as the exporter is to stop, as ``threading.Event.wait`` does.
    ``lease_files`` are glob patterns, ``mac`` is found when it is not given.

    Raises:
        Stopped: ``wait`` returned True.
        ExporterError: the address cannot be found; the message has the reason and what to do.
    """
    address = _on_disk(lease_files, time.time())
    if address is None:
        address = ask_dhcp(wait, exchange or Exchange(), mac)
    return f"http://{address}"


def _on_disk(lease_files: Iterable[str], now: float) -> IPv4Address | None:
    for path in newest_first(lease_files):
        try:
            value = address_from_lease(read_end(path), now)
            if value is None:
                continue
            address = endpoint_address({ENDPOINT_OPTION: value})
        except OSError as error:
            _LOGGER.warning("skipping lease file %s: %s", path, error.strerror)
        except ValueError as error:
            _LOGGER.warning("skipping lease file %s: it %s", path, error)
        else:
            _LOGGER.info("metadata service at %s, from DHCP option 245 in lease file %s", address, path)
            return address
    return None
