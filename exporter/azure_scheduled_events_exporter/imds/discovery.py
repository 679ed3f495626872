"""Find the metadata service of a VM without a virtual network: ``--imds.endpoint discover``.

Such a VM (cloud service, classic) does not have the service at the usual address; Azure's DHCP server names it
in option 245. Lease files that a DHCP client has left are read first; otherwise one DHCPDISCOVER is broadcast.
Above :func:`hardware_address` everything is pure; below, files are read and a socket is owned.

It must not speak HTTP, change the VM's network settings or lease, or decide when to look: it answers one call.
Nothing in a DHCP answer is signed; docs/discovery.md says what is trusted and why.
"""

import contextlib
import errno
import glob
import logging
import os
import re
import socket
import stat
import struct
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from ipaddress import IPv4Address
from pathlib import Path

from azure_scheduled_events_exporter.errors import ExporterError

ENDPOINT_OPTION = 245

DEFAULT_LEASE_FILES = (
    "/run/systemd/netif/leases/*",  # systemd-networkd
    "/var/lib/dhcp/dhclient*.leases",  # dhclient on Debian and Ubuntu
    "/var/lib/dhclient/dhclient*.lease*",  # dhclient on Red Hat's family
    "/var/lib/NetworkManager/dhclient-*.lease",  # NetworkManager with dhclient; its own client keeps no options
)

_LOGGER = logging.getLogger("azure-scheduled-events-exporter")

_HEADER = struct.Struct("!4B I 2H 4s4s4s4s 16s 64s 128s 4s")  # RFC 2131, section 2, and the cookie after it
_COOKIE = b"\x63\x82\x53\x63"
_REQUEST, _REPLY, _ETHERNET, _DISCOVER = 1, 2, 1, 1
_MAC_LENGTH, _ADDRESS_LENGTH = 6, 4
_BROADCAST_ANSWER = 0x8000  # so that the answer reaches every socket on port 68, a DHCP client's and ours
_SMALLEST = 300  # relays drop shorter messages: BOOTP's fixed size, RFC 1542, section 2.1
_PAD, _OVERLOAD, _MESSAGE_TYPE, _PARAMETERS, _END = 0, 52, 53, 55, 255

_LEASE_TOKEN = re.compile(r'#[^\n]*|"(?:\\.|[^"\\\n])*"|[{};]|[^\s{};"#]+')
_HEXADECIMAL = re.compile(r"[0-9a-fA-F]{1,2}(?::[0-9a-fA-F]{1,2}){3}")
_ESCAPE = re.compile(r"\\(?:([0-7]{3})|(.))")
_NETWORKD_OPTION = re.compile(r"^OPTION_245=([0-9a-fA-F]{8})[ \t\r]*$", re.MULTILINE)
_LEASE_BYTES = 1024 * 1024  # of a longer file the end is read: dhclient appends

_SLICE_SECONDS = 0.2  # how soon a wait for an answer notices that it should end
_WHAT = "--imds.endpoint discover"
_ALTERNATIVE = "or give the address itself, such as --imds.endpoint http://168.63.129.16"


class DiscoveryInterruptedError(ExporterError):
    """The exporter is being stopped while it still looks for the metadata service."""


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
        ValueError: ``message`` is not a whole answer to that request; the message says what is wrong with it.
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


def endpoint_address(options: Mapping[int, bytes], *, allow_loopback: bool = False) -> IPv4Address:
    """Return the address that option 245 names.

    Raises:
        ValueError: it names none, or one that no metadata service can have; the message completes a sentence
            that begins with the answer.
    """
    value = options.get(ENDPOINT_OPTION)
    if value is None:
        raise ValueError("has no option 245")
    if len(value) != _ADDRESS_LENGTH:
        raise ValueError(f"has {len(value)} bytes in option 245 where an IPv4 address has 4")
    address = IPv4Address(value)
    if value[0] == 0 or address.is_multicast or address.is_reserved:
        raise ValueError(f"names {address} in option 245, which is no address of a machine")
    if address.is_loopback and not allow_loopback:
        raise ValueError(f"names {address} in option 245, which is this machine itself")
    return address


def address_from_lease(text: str, now: float) -> bytes | None:
    """Return the bytes of option 245 in a lease file of systemd-networkd or dhclient, None when it has none.

    A dhclient file holds every lease since the client's start: the last one that has the option and has not
    expired at ``now`` (Unix seconds) wins. systemd-networkd removes its file with the lease. ``text`` holds
    one character per byte (Latin-1); what is malformed is passed over.
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
            if words[-1:] == ["lease"]:  # also where dhclient was ended in the middle of the one before
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
        return float("-inf")  # a time that cannot be read is no reason to trust the lease


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
    """Return the MAC address (6 bytes) of the interface with the default route, where Linux tells; else any.

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
    if node >> 40 & 1:  # made up at random for want of a real one (RFC 4122, section 4.5)
        raise ExporterError(
            f"{_WHAT}: this machine has no network interface with a MAC address: connect one, {_ALTERNATIVE}"
        )
    return node.to_bytes(_MAC_LENGTH, "big")


def discover(
    wait: Callable[[float], bool],
    *,
    lease_files: Iterable[str] = DEFAULT_LEASE_FILES,
    exchange: Exchange | None = None,
    mac: bytes | None = None,
    now: Callable[[], float] = time.time,
    allow_loopback: bool = False,
) -> str:
    """Return the base address of the metadata service, ``http://A.B.C.D``.

    ``wait(seconds)`` waits and returns True as soon as the exporter is to stop, as ``threading.Event.wait`` does.
    ``lease_files`` are glob patterns, ``mac`` is found when it is not given, ``now`` gives Unix seconds.

    Raises:
        DiscoveryInterruptedError: ``wait`` said so.
        ExporterError: the address cannot be found; the message says why and what to do.
    """
    address = _on_disk(lease_files, now(), allow_loopback=allow_loopback)
    if address is None:
        xid = int.from_bytes(os.urandom(4), "big")
        address = _Search(exchange or Exchange(), wait, xid, mac or hardware_address(), allow_loopback).run()
    return f"http://{address}"


def _on_disk(lease_files: Iterable[str], now: float, *, allow_loopback: bool) -> IPv4Address | None:
    for path in _newest_first(lease_files):
        try:
            value = address_from_lease(_tail(path), now)
            if value is None:
                continue
            address = endpoint_address({ENDPOINT_OPTION: value}, allow_loopback=allow_loopback)
        except OSError as error:
            _LOGGER.warning("passing over lease file %s: %s", path, error.strerror)
        except ValueError as error:
            _LOGGER.warning("passing over lease file %s: it %s", path, error)
        else:
            _LOGGER.info("metadata service at %s, from DHCP option 245 in %s", address, path)
            return address
    return None


def _newest_first(patterns: Iterable[str]) -> list[Path]:
    dated = []
    for path in {Path(name) for pattern in patterns for name in glob.iglob(pattern)}:  # noqa: PTH207 - absolute
        with contextlib.suppress(OSError):  # gone since it was listed
            status = path.stat()
            if stat.S_ISREG(status.st_mode):
                dated.append((status.st_mtime_ns, path))
    return [path for _, path in sorted(dated, reverse=True)]


def _tail(path: Path) -> str:
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - _LEASE_BYTES))
        return file.read(_LEASE_BYTES).decode("latin-1")


@dataclass(frozen=True, slots=True)
class _Search:
    """One run of the exchange; one ``xid`` for all tries, so that a late answer still counts."""

    exchange: Exchange
    wait: Callable[[float], bool]
    xid: int
    mac: bytes
    allow_loopback: bool

    def run(self) -> IPv4Address:
        reason = "no DHCP server answered"
        tries = len(self.exchange.pauses)
        with _bound(self.exchange.bind) as dhcp:
            for number, pause in enumerate(self.exchange.pauses, start=1):
                self._pause(pause)
                _LOGGER.info("asking for DHCP option 245, try %d of %d", number, tries)
                try:
                    dhcp.sendto(build_discover(self.xid, self.mac), self.exchange.destination)
                    address = self._answer(dhcp)
                except OSError as error:  # the network may only be coming up: the next try tells
                    reason = f"no DHCP request could be sent to {self.exchange.destination[0]} ({error.strerror})"
                    continue
                if address is not None:
                    return address
        raise ExporterError(
            f"{_WHAT}: {reason} in {tries} tries: is this an Azure VM with its network up, and does its "
            f"firewall let UDP port {self.exchange.bind[1]} in? See to that, {_ALTERNATIVE}"
        )

    def _pause(self, seconds: float) -> None:
        if self.wait(seconds):
            raise DiscoveryInterruptedError(f"{_WHAT}: stopped before an answer came")

    def _answer(self, dhcp: socket.socket) -> IPv4Address | None:
        """Wait for one try's answer; None when nothing came that answers our request.

        An answer without a usable option 245 does not end the wait, since another server's may follow; it
        does end the tries, since the same server would say the same again.
        """
        useless = None
        end = time.monotonic() + self.exchange.answer_seconds
        while (left := end - time.monotonic()) > 0:
            self._pause(0)
            dhcp.settimeout(min(left, _SLICE_SECONDS))
            try:
                message, (sender, _) = dhcp.recvfrom(65535)
                options = parse_answer(message, xid=self.xid, mac=self.mac)
            except (TimeoutError, ConnectionResetError, ValueError):  # a reset: Windows tells of a closed port
                continue
            try:
                address = endpoint_address(options, allow_loopback=self.allow_loopback)
            except ValueError as error:
                useless = f"{_WHAT}: the answer of DHCP server {sender} {error}"
                continue
            _LOGGER.info("metadata service at %s, from DHCP option 245 of server %s", address, sender)
            return address
        if useless is not None:
            raise ExporterError(f"{useless}: is this an Azure VM? Leave out {_WHAT}, {_ALTERNATIVE}")
        return None


def _bound(address: tuple[str, int]) -> socket.socket:
    """Return a socket on ``address`` that may broadcast, shared with a DHCP client where the client agrees."""
    dhcp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    try:
        dhcp.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
        dhcp.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            dhcp.bind(address)
        except OSError as error:
            if error.errno != errno.EADDRINUSE or not hasattr(socket, "SO_REUSEPORT"):
                raise
            # Only now: it shares among sockets that all set it, and may take what was meant for the other one.
            dhcp.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            dhcp.bind(address)
    except OSError as error:
        dhcp.close()
        raise ExporterError(f"{_WHAT}: {_refusal(error, address)}, {_ALTERNATIVE}") from error
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
