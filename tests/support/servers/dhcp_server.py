"""A small DHCP server on loopback, and the search of the metadata service's address by it."""

import logging
import socket
import threading
from collections.abc import Callable
from typing import Self

from azure_scheduled_events_exporter.imds.dhcp import Exchange
from azure_scheduled_events_exporter.imds.discovery import discover

MAC = bytes.fromhex("000d3a112233")
ADDRESS = bytes((168, 63, 129, 16))
# Options: a code, the length of the value, and the value.
OFFER = bytes((53, 1, 2))  # what kind of message this is
WIRE_SERVER = bytes((245, len(ADDRESS))) + ADDRESS  # Azure's own
PATIENCE_SECONDS = 30  # for what must happen; reached only when it does not

Reply = Callable[[bytes], list[bytes]]


def offer(request: bytes, options: bytes = WIRE_SERVER, *, xid: bytes | None = None) -> bytes:
    """Return a DHCPOFFER to ``request``, laid out by hand from RFC 2131; ``xid`` is the id of
    another request.
    """
    reply_over_ethernet = b"\x02\x01\x06\x00"
    own_xid = request[4:8]
    times_and_addresses = bytes(20)
    hardware_address = request[28:34]
    server_and_boot_file = bytes(192)
    cookie = b"\x63\x82\x53\x63"
    end = b"\xff"
    return (
        reply_over_ethernet
        + (own_xid if xid is None else xid)
        + times_and_addresses
        + hardware_address.ljust(16, b"\0")
        + server_and_boot_file
        + cookie
        + OFFER
        + options
        + end
    )


class DhcpServer:
    """A DHCP server on a free port of loopback that sends what ``reply`` makes of each request."""

    def __init__(self, reply: Reply) -> None:
        self.requests: list[bytes] = []
        self._reply = reply
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.bind(("127.0.0.1", 0))
        self.address: tuple[str, int] = self._socket.getsockname()
        self._thread = threading.Thread(target=self._serve)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as end:
            end.sendto(b"", self.address)
        self._thread.join(PATIENCE_SECONDS)
        self._socket.close()

    def _serve(self) -> None:
        while True:
            request, client = self._socket.recvfrom(2048)
            if not request:
                return
            self.requests.append(request)
            for message in self._reply(request):
                self._socket.sendto(message, client)


def search(
    server: DhcpServer,
    *,
    answer_seconds: float = PATIENCE_SECONDS,
    pauses: tuple[float, ...] = (0.0,),
    wait: Callable[[float], bool] | None = None,
    lease_files: tuple[str, ...] = (),
    bind: tuple[str, int] = ("127.0.0.1", 0),
) -> str:
    """Discover through ``server`` only, without this machine's leases or network."""
    exchange = Exchange(bind, server.address, pauses, answer_seconds)
    stop = wait or threading.Event().wait
    return discover(stop, logging.getLogger(), lease_files=lease_files, exchange=exchange, mac=MAC)


def silent(_: bytes) -> list[bytes]:
    """Answer nothing."""
    return []
