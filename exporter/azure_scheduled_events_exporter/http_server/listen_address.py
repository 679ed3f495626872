"""Parses the listen address as Prometheus and Go write it, and opens its socket."""

import errno
import re
import socket
from dataclasses import dataclass
from ipaddress import IPv6Address

_HIGHEST_PORT = 65535
_LABEL = "[0-9A-Za-z_-]{1,63}"
_ADDRESS = re.compile(
    rf"(?:\[(?P<ipv6>[0-9A-Za-z_.~@:%-]+)\]|(?P<host>(?:{_LABEL}(?:\.{_LABEL})*\.?)?)):(?P<port>\d{{1,5}})", re.ASCII
)


@dataclass(frozen=True, slots=True)
class ListenAddress:
    """A listen address; an empty host means all interfaces, port 0 any free port."""

    host: str
    port: int

    def __str__(self) -> str:
        """Return the text that :func:`parse_listen_address` reads."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_listen_address(text: str) -> ListenAddress:
    """Read ``host:port`` as Prometheus and Go write it; IPv6 in brackets, no host for all interfaces.

    Raises:
        ValueError: ``text`` is no such address; the message says what one looks like.
    """
    found = _ADDRESS.fullmatch(text)
    if not found or not _is_possible(found["ipv6"], int(found["port"])):
        raise ValueError(
            f"{text[:100]!r} is no listen address: write host:port with a port from 0 to 65535, such as"
            " :10169 (all interfaces), 127.0.0.1:10169 or [::1]:10169"
        )
    return ListenAddress(found["ipv6"] or found["host"], int(found["port"]))


def _is_possible(ipv6: str | None, port: int) -> bool:
    try:
        return port <= _HIGHEST_PORT and (ipv6 is None or bool(IPv6Address(ipv6)))
    except ValueError:
        return False


def listen(address: ListenAddress, backlog: int) -> socket.socket:
    """Return one listening socket, as Go does: dual-stack for all interfaces, else IPv4 before IPv6."""
    host = address.host or ("::" if socket.has_dualstack_ipv6() else None)
    found = socket.getaddrinfo(host, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    family, _, _, _, where = min(found, key=lambda info: info[0] != socket.AF_INET)
    both = host == "::" and socket.has_dualstack_ipv6()
    return socket.create_server(where, family=family, backlog=backlog, dualstack_ipv6=both)


def why_not(error: OSError) -> str:
    """Return why listening failed, and what to do."""
    if isinstance(error, socket.gaierror):
        return "this host name does not resolve; write an address of this machine, or none for all"
    return {
        errno.EADDRINUSE: "another process listens there; end it, or choose another port",
        errno.EADDRNOTAVAIL: "this is no address of this machine; write one that is, or none for all",
        errno.EACCES: "permission denied; ports below 1024 need CAP_NET_BIND_SERVICE, or choose a higher one",
    }.get(error.errno or 0, error.strerror or str(error))
