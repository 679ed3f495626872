"""Broadcasts a DHCPDISCOVER and reads option 245 of the answer.

:func:`build_discover`, :func:`parse_answer` and :func:`endpoint_address` are pure; the functions below them open a
socket.
Must not change the VM's network settings or its lease, or use HTTP.
"""

import contextlib
import errno
import logging
import os
import socket
import struct
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from ipaddress import IPv4Address
from pathlib import Path

from azure_scheduled_events_exporter.errors import ExporterError, Stopped
from azure_scheduled_events_exporter.logs import facts

ENDPOINT_OPTION = 245

_HEADER = struct.Struct("!4B I 2H 4s4s4s4s 16s 64s 128s 4s")  # RFC 2131, section 2, and the cookie after it
_COOKIE = b"\x63\x82\x53\x63"
_REQUEST, _REPLY, _ETHERNET, _DISCOVER = 1, 2, 1, 1
_MAC_LENGTH, _ADDRESS_LENGTH = 6, 4
_BROADCAST_ANSWER = 0x8000  # so that the answer reaches every socket on port 68, a DHCP client's and ours
_SMALLEST = 300  # relays drop shorter messages: BOOTP's fixed size, RFC 1542, section 2.1
_PAD, _OVERLOAD, _MESSAGE_TYPE, _PARAMETERS, _END = 0, 52, 53, 55, 255

_SLICE_SECONDS = 0.2  # how often a wait for an answer checks whether to stop
_FLAG = "--imds.endpoint discover"
_ALTERNATIVE = "or give the address itself, such as --imds.endpoint http://168.63.129.16"


@dataclass(frozen=True, slots=True)
class Exchange:
    """How the DHCPDISCOVER is sent and awaited; the defaults are those of Microsoft's sample.

    ``pauses`` are the seconds before each try (their number is the number of tries); ``answer_seconds`` is how
    long one try waits. The addresses are (host, port).
    """

    bind: tuple[str, int] = ("0.0.0.0", 68)  # noqa: S104 - a broadcast answer arrives nowhere else
    destination: tuple[str, int] = ("255.255.255.255", 67)
    pauses: tuple[float, ...] = (0.0, 10.0, 30.0, 60.0, 60.0)
    answer_seconds: float = 10.0


def build_discover(xid: int, mac: bytes) -> bytes:
    """Return a DHCPDISCOVER with this transaction id (32 bits) and hardware address (6 bytes).

    It asks for option 245 and for a broadcast answer.
    """
    header = _HEADER.pack(
        _REQUEST, _ETHERNET, len(mac), 0, xid, 0, _BROADCAST_ANSWER, b"", b"", b"", b"", mac, b"", b"", _COOKIE
    )
    options = bytes((_MESSAGE_TYPE, 1, _DISCOVER, _PARAMETERS, 1, ENDPOINT_OPTION, _END))
    return (header + options).ljust(_SMALLEST, bytes(1))


def parse_answer(message: bytes, *, xid: int, mac: bytes) -> dict[int, bytes]:
    """Return the options of a DHCP answer to the request with this ``xid`` and ``mac``, by code.

    An option given in parts is joined (RFC 3396); options that overflow into the file and server name fields
    (option 52) are included.

    Raises:
        ValueError: ``message`` is not a complete answer to that request; the error describes why.
    """
    if len(message) < _HEADER.size:
        raise ValueError("too short for a DHCP message")
    fields = _HEADER.unpack_from(message)
    operation, its_xid, hardware, sname, file, cookie = fields[0], fields[4], *fields[11:]
    if (operation, its_xid, hardware[: len(mac)], cookie) != (_REPLY, xid, mac, _COOKIE):
        raise ValueError("not an answer to this request")
    options: dict[int, bytes] = {}
    _join(options, message[_HEADER.size :])
    overload = int.from_bytes(options.get(_OVERLOAD, b""), "big")
    for bit, field in ((1, file), (2, sname)):  # RFC 2132, section 9.3
        if overload & bit:
            _join(options, field)
    return options


def _join(options: dict[int, bytes], field: bytes) -> None:
    at = 0
    while at < len(field) and field[at] != _END:
        code = field[at]
        at += 1
        if code == _PAD:
            continue
        length = field[at] if at < len(field) else 1
        value = field[at + 1 : at + 1 + length]
        if len(value) < length:
            raise ValueError(f"option {code} is cut off")
        options[code] = options.get(code, b"") + value
        at += 1 + length


def endpoint_address(options: Mapping[int, bytes]) -> IPv4Address:
    """Return the address that option 245 names.

    Raises:
        ValueError: it has none, or one that no metadata service can have; the error completes a sentence that begins
            with "the answer".
    """
    value = options.get(ENDPOINT_OPTION)
    if value is None:
        raise ValueError("has no option 245")
    if len(value) != _ADDRESS_LENGTH:
        raise ValueError(f"has {len(value)} bytes in option 245 where an IPv4 address has 4")
    address = IPv4Address(value)
    if value[0] == 0 or address.is_multicast or address.is_reserved:
        raise ValueError(f"names {address} in option 245, which is no address of a machine")
    if address.is_loopback:
        raise ValueError(f"names {address} in option 245, which is this machine itself")
    return address


def default_interface(route_table: str) -> str | None:
    """Return the interface of the default route with the lowest metric, given the text of /proc/net/route."""
    defaults = []
    for line in route_table.splitlines()[1:]:
        with contextlib.suppress(ValueError):  # a line of another shape
            name, destination, _, flags, _, _, metric, mask, *_ = line.split()
            if int(destination, 16) == int(mask, 16) == 0 and int(flags, 16) & 1:  # RTF_UP
                defaults.append((int(metric), name))
    return min(defaults)[1] if defaults else None


def hardware_address(route_table: Path = Path("/proc/net/route"), interfaces: Path = Path("/sys/class/net")) -> bytes:
    """Return the MAC address (6 bytes) of the interface with the default route on Linux; elsewhere any.

    Raises:
        ExporterError: this machine has no interface with a MAC address.
    """
    with contextlib.suppress(OSError, ValueError):  # not Linux, or an interface without a MAC address
        interface = default_interface(route_table.read_text(encoding="latin-1")) or ""
        mac = bytes.fromhex((interfaces / interface / "address").read_text("ascii").replace(":", " "))
        if len(mac) == _MAC_LENGTH and any(mac):
            return mac
    import uuid  # noqa: PLC0415 - rarely needed, and it may start programs to find out

    node = uuid.getnode()
    if node >> 40 & 1:  # a random number instead of a MAC address (RFC 4122, section 4.5)
        raise ExporterError(
            f"{_FLAG}: this machine has no network interface with a MAC address: connect one, {_ALTERNATIVE}"
        )
    return node.to_bytes(_MAC_LENGTH, "big")


def ask_dhcp(wait: Callable[[float], bool], log: logging.Logger, exchange: Exchange, mac: bytes | None) -> IPv4Address:
    """Return the address in option 245 of a DHCP server's answer to a DHCPDISCOVER from ``mac``.

    ``wait(seconds)`` waits and returns True as soon as the exporter is to stop.

    Raises:
        Stopped: ``wait`` said so.
        ExporterError: no server answered, or none with a usable option 245.
    """
    transaction_id = int.from_bytes(os.urandom(4), "big")
    return _Search(exchange, wait, log, transaction_id, mac or hardware_address()).run()


@dataclass(frozen=True, slots=True)
class _Search:
    """One run of the exchange; all tries use one ``xid``, so that a late answer still counts."""

    exchange: Exchange
    wait: Callable[[float], bool]
    log: logging.Logger
    xid: int
    mac: bytes

    def run(self) -> IPv4Address:
        reason = "no DHCP server answered"
        tries = len(self.exchange.pauses)
        with _bound(self.exchange.bind) as dhcp:
            for number, pause in enumerate(self.exchange.pauses, start=1):
                self._pause(pause)
                self.log.info("DHCP option 245 requested", extra=facts(attempt=number, attempts=tries))
                try:
                    dhcp.sendto(build_discover(self.xid, self.mac), self.exchange.destination)
                    address = self._answer(dhcp)
                except OSError as error:  # the network may not be up yet: try again
                    reason = f"no DHCP request could be sent to {self.exchange.destination[0]} ({error.strerror})"
                    continue
                if address is not None:
                    return address
        raise ExporterError(
            f"{_FLAG}: {reason} in {tries} tries: is this an Azure VM with its network up, and does its "
            f"firewall let UDP port {self.exchange.bind[1]} in? See to that, {_ALTERNATIVE}"
        )

    def _pause(self, seconds: float) -> None:
        if self.wait(seconds):
            raise Stopped

    def _answer(self, dhcp: socket.socket) -> IPv4Address | None:
        """Wait for the answer to one try; return None if no answer to this request came.

        An answer without a usable option 245 does not end the wait, because another server may answer; it does end the
        tries, because the same server would send the same answer again.
        """
        useless = None
        end = time.monotonic() + self.exchange.answer_seconds
        while (left := end - time.monotonic()) > 0:
            self._pause(0)
            dhcp.settimeout(min(left, _SLICE_SECONDS))
            try:
                message, (sender, _) = dhcp.recvfrom(65535)
                options = parse_answer(message, xid=self.xid, mac=self.mac)
            except (TimeoutError, ConnectionResetError, ValueError):  # a reset: Windows reports a closed port
                continue
            try:
                address = endpoint_address(options)
            except ValueError as error:
                useless = f"{_FLAG}: the answer of DHCP server {sender} {error}"
                continue
            self.log.info("DHCP option 245 received", extra=facts(address=str(address), server=sender))
            return address
        if useless is not None:
            raise ExporterError(f"{useless}: is this an Azure VM? Leave out {_FLAG}, {_ALTERNATIVE}")
        return None


def _bound(address: tuple[str, int]) -> socket.socket:
    """Return a socket on ``address`` that may broadcast; it shares the port with a DHCP client that allows it."""
    dhcp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    try:
        dhcp.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
        dhcp.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            dhcp.bind(address)
        except OSError as error:
            if error.errno != errno.EADDRINUSE or not hasattr(socket, "SO_REUSEPORT"):
                raise
            # Only as a second try: the port is shared with sockets that set the option too, and this one may receive
            # their packets.
            dhcp.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            dhcp.bind(address)
    except OSError as error:
        dhcp.close()
        raise ExporterError(f"{_FLAG}: {_refusal(error, address)}, {_ALTERNATIVE}") from error
    return dhcp


def _refusal(error: OSError, address: tuple[str, int]) -> str:
    if isinstance(error, PermissionError):
        return (
            f"UDP port {address[1]} may not be opened: run as root or with CAP_NET_BIND_SERVICE "
            "(systemd: AmbientCapabilities=CAP_NET_BIND_SERVICE)"
        )
    if error.errno == errno.EADDRINUSE:
        return (
            f"UDP port {address[1]} is held by another program that does not share it, most likely the DHCP "
            "client: let it keep a lease file (docs/discovery.md)"
        )
    return f"UDP port {address[1]} cannot be opened on {address[0]} ({error.strerror}): bring up the network"
