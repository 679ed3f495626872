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

from azure_scheduled_events_exporter.logs import facts

from .dhcp import ENDPOINT_OPTION, Exchange, ask_dhcp, endpoint_address
from .leases import DEFAULT_LEASE_FILES, address_from_lease, newest_first, read_end


def discover(
    wait: Callable[[float], bool],
    log: logging.Logger,
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
    address = _on_disk(lease_files, time.time(), log)
    if address is None:
        address = ask_dhcp(wait, log, exchange or Exchange(), mac)
    return f"http://{address}"


def _on_disk(lease_files: Iterable[str], now: float, log: logging.Logger) -> IPv4Address | None:
    for path in newest_first(lease_files):
        try:
            value = address_from_lease(read_end(path), now)
            if value is None:
                continue
            address = endpoint_address({ENDPOINT_OPTION: value})
        except OSError as error:
            log.warning("lease file skipped", extra=facts(path=path, error=error.strerror))
        except ValueError as error:
            log.warning("lease file skipped", extra=facts(path=path, error=f"it {error}"))
        else:
            log.info("DHCP option 245 found in a lease file", extra=facts(address=str(address), path=path))
            return address
    return None
