"""Asks Azure's DHCP server for the address of the metadata service: option 245 of its answer.

Broadcasts a DHCPDISCOVER, which only asks what the server would offer, so the VM's network settings
and its lease stay as they are.
"""

import contextlib
import errno
import logging
import os
import socket
import struct
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from ipaddress import IPv4Address
from pathlib import Path

from azure_scheduled_events_exporter.errors import ExporterError, Stopped
from azure_scheduled_events_exporter.logs import facts

ENDPOINT_OPTION = 245
# RFC 2131, section 2: the first 4 bytes, the transaction id (xid), seconds and flags, four IP
# addresses, the hardware address, two names; and the cookie that precedes the options.
_HEADER = struct.Struct("!4s I 2H 16s 16s 192s 4s")
# The first bytes: request or reply, Ethernet, the length of its addresses; in a request, no hops.
_REQUEST = bytes((1, 1, 6, 0))
_REPLY = bytes((2, 1, 6))
_COOKIE = b"\x63\x82\x53\x63"
_BROADCAST = 0x8000  # so that the answer reaches every socket on port 68, a DHCP client's and ours
# Options, each of code, length and value: the message is a DHCPDISCOVER (53); the answer is to have
# this one option (55); the end.
_WANTED = bytes((53, 1, 1, 55, 1, ENDPOINT_OPTION, 255))
_SMALLEST = 300  # relays drop shorter messages: BOOTP's fixed size, RFC 1542, section 2.1
_PAD = 0
_END = 255
_MAC_LENGTH = 6
_ADDRESS_LENGTH = 4
_SLICE_SECONDS = 0.2  # how often a wait for an answer checks whether to stop
_FLAG = "--imds.endpoint discover"
_ALTERNATIVE = "or give the address itself, such as --imds.endpoint http://168.63.129.16"


@dataclass(frozen=True, slots=True)
class Exchange:
    """How the DHCPDISCOVER is sent. The defaults are those of Microsoft's sample.

    Attributes:
        bind: address and port from which it is sent, and at which the answer arrives.
        destination: address and port to which it is sent.
        pauses: seconds to wait before each try; there are as many tries.
        answer_seconds: how long each try waits for an answer.
    """

    bind: tuple[str, int] = ("0.0.0.0", 68)  # noqa: S104 - a broadcast answer arrives nowhere else
    destination: tuple[str, int] = ("255.255.255.255", 67)
    pauses: tuple[float, ...] = (0.0, 10.0, 30.0, 60.0, 60.0)
    answer_seconds: float = 10.0


def build_discover(xid: int, mac: bytes) -> bytes:
    """Return a DHCPDISCOVER that asks for option 245 and for a broadcast answer."""
    header = _HEADER.pack(_REQUEST, xid, 0, _BROADCAST, b"", mac, b"", _COOKIE)
    return (header + _WANTED).ljust(_SMALLEST, b"\0")


def parse_answer(message: bytes, *, xid: int, mac: bytes) -> bytes | None:
    """Return option 245 of an answer to the request with this ``xid`` and ``mac``.

    None if the answer does not have it; the last one if it has several.

    Raises ValueError: ``message`` is no answer to that request, or is cut off.
    """
    if len(message) < _HEADER.size:
        raise ValueError("too short for a DHCP message")
    first, its_xid, _, _, _, hardware, _, cookie = _HEADER.unpack_from(message)
    is_dhcp_reply = first.startswith(_REPLY) and cookie == _COOKIE
    if not is_dhcp_reply or its_xid != xid or not hardware.startswith(mac):
        raise ValueError("not an answer to this request")
    found = None
    for code, value in _options(message[_HEADER.size :]):
        if code == ENDPOINT_OPTION:
            found = value
    return found


def _options(content: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield the code and the value of each option of a message.

    Raises ValueError: an option is cut off.
    """
    position = 0
    while position < len(content) and content[position] != _END:
        code = content[position]
        position += 1
        if code == _PAD:  # a single byte
            continue
        length_and_value = content[position:]
        if not length_and_value or len(length_and_value) <= length_and_value[0]:
            raise ValueError(f"option {code} is cut off")
        length = length_and_value[0]
        yield code, length_and_value[1 : 1 + length]
        position += 1 + length


def endpoint_address(value: bytes | None) -> IPv4Address:
    """Return the address of the metadata service that option 245 of an answer names.

    ``value``: the bytes of the option; None if the answer does not have it.

    Raises ValueError: it names no such address. The message continues the words "the answer".
    """
    if value is None:
        raise ValueError("has no option 245")
    if len(value) != _ADDRESS_LENGTH:
        raise ValueError(f"has {len(value)} bytes in option 245, not 4")
    address = IPv4Address(value)
    if value[0] == 0 or address.is_multicast or address.is_reserved or address.is_loopback:
        raise ValueError(f"names {address} in option 245, which is no address of another machine")
    return address


def _hardware_address() -> bytes:
    """Return the MAC address of the first network card on Linux, elsewhere that of any card."""
    for card in sorted(Path("/sys/class/net").glob("*/device")):  # virtual ones have no device
        with contextlib.suppress(OSError, ValueError):  # gone meanwhile, or of another kind
            mac = bytes.fromhex((card.parent / "address").read_text("ascii").replace(":", " "))
            if len(mac) == _MAC_LENGTH and any(mac):
                return mac
    node = uuid.getnode()
    if node >> 40 & 1:  # a random number instead of a MAC address (RFC 4122, section 4.5)
        raise ExporterError(
            f"{_FLAG}: this machine has no network interface with a MAC address, {_ALTERNATIVE}"
        )
    return node.to_bytes(_MAC_LENGTH, "big")


def ask_dhcp(
    wait: Callable[[float], bool], log: logging.Logger, exchange: Exchange, mac: bytes | None
) -> IPv4Address:
    """Return the address in option 245 of a DHCP server's answer to a DHCPDISCOVER from ``mac``.

    All tries use one transaction id, so that an answer to an earlier try still counts. ``wait``
    waits so many seconds, or until the exporter is to stop, and returns whether it is. If ``mac``
    is None, it is that of the first network card.

    Raises:
        Stopped: ``wait`` returned True.
        ExporterError: no server names an address; the message has the reason and what to do.
    """
    xid = int.from_bytes(os.urandom(4), "big")
    mac = mac or _hardware_address()
    reason = ""  # how the last try failed
    tries = len(exchange.pauses)
    with _bound(exchange.bind) as dhcp:
        for number, pause in enumerate(exchange.pauses, start=1):
            if wait(pause):
                raise Stopped
            log.info("DHCP option 245 requested", extra=facts(attempt=number, attempts=tries))
            try:
                dhcp.sendto(build_discover(xid, mac), exchange.destination)
                answer = _answer(dhcp, wait, xid, mac, exchange.answer_seconds)
            except OSError as error:  # the network may not be up yet: try again
                reason = (
                    f"no DHCP request could be sent to {exchange.destination[0]} ({error.strerror})"
                )
                continue
            if answer is not None:
                address, server = answer
                log.info(
                    "DHCP option 245 received", extra=facts(address=str(address), server=server)
                )
                return address
            reason = "no DHCP server answered"
    raise ExporterError(
        f"{_FLAG}: {reason} in {tries} tries: is this an Azure VM with its network up, and does its"
        f" firewall let UDP port {exchange.bind[1]} in? See to that, {_ALTERNATIVE}"
    )


def _answer(
    dhcp: socket.socket, wait: Callable[[float], bool], xid: int, mac: bytes, seconds: float
) -> tuple[IPv4Address, str] | None:
    """Return the address that a server names, and the server; None if none answered in time.

    An answer without a usable option does not end the wait, because another server may answer.

    Raises:
        ExporterError: there were only answers without a usable option, so another try is useless.
        OSError: the socket cannot receive.
        Stopped: ``wait`` returned True.
    """
    useless = ""  # what was wrong with the last answer without a usable option
    end = time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0:
        if wait(0):
            raise Stopped
        dhcp.settimeout(min(left, _SLICE_SECONDS))
        try:
            message, (server, _) = dhcp.recvfrom(65535)
            value = parse_answer(message, xid=xid, mac=mac)
        except (TimeoutError, ConnectionResetError, ValueError):
            # No message, or none for this request. A reset is how Windows reports a closed port.
            continue
        try:
            return endpoint_address(value), server
        except ValueError as error:
            useless = f"{_FLAG}: the answer of DHCP server {server} {error}"
    if useless:
        raise ExporterError(f"{useless}: is this an Azure VM? Leave out {_FLAG}, {_ALTERNATIVE}")
    return None


def _bound(address: tuple[str, int]) -> socket.socket:
    """Return a socket on ``address`` that may broadcast.

    It shares the port with a DHCP client that allows it.
    """
    dhcp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    try:
        for option in (socket.SO_BROADCAST, socket.SO_REUSEADDR):
            dhcp.setsockopt(socket.SOL_SOCKET, option, 1)
        with contextlib.suppress(OSError):
            dhcp.bind(address)
            return dhcp
        # The port is in use. SO_REUSEPORT is only the second try: of sockets that share the port in
        # that way, one may receive the packets of another.
        dhcp.setsockopt(socket.SOL_SOCKET, getattr(socket, "SO_REUSEPORT", socket.SO_REUSEADDR), 1)
        dhcp.bind(address)
    except OSError as error:
        dhcp.close()
        why = f"cannot be opened on {address[0]} ({error.strerror}): bring up the network"
        if isinstance(error, PermissionError):
            why = "may not be opened: run as root or with CAP_NET_BIND_SERVICE"
        elif error.errno == errno.EADDRINUSE:
            why = (
                "is held by another program, most likely the DHCP client: have it write a lease"
                " file"
            )
        raise ExporterError(f"{_FLAG}: UDP port {address[1]} {why}, {_ALTERNATIVE}") from error
    return dhcp
