"""Parses the address on which the server listens, as Prometheus and Go write it."""

import re
from dataclasses import dataclass

_LABEL = "[0-9A-Za-z_-]{1,63}"  # what is between two dots of a DNS name
_HOST = rf"(?:{_LABEL}(?:\.{_LABEL})*\.?)?"  # a name or an IPv4 address; empty: all interfaces
# In brackets: with a colon somewhere, and perhaps a zone such as %eth0.
_IPV6 = r"(?=[^\]]*:)[0-9A-Za-z_.~@:%-]+"
_ADDRESS = re.compile(rf"(?:\[(?P<ipv6>{_IPV6})\]|(?P<host>{_HOST})):(?P<port>\d{{1,5}})", re.ASCII)


@dataclass(frozen=True, slots=True)
class ListenAddress:
    """A listen address; an empty host means all interfaces, port 0 any free port."""

    host: str
    port: int

    def __str__(self) -> str:
        """Return the text that :func:`parse_listen_address` reads."""
        if ":" in self.host:  # IPv6
            return f"[{self.host}]:{self.port}"
        return f"{self.host}:{self.port}"

    @property
    def local(self) -> "ListenAddress":
        """The address at which programs of this machine reach a server that listens here."""
        hosts = {
            "": "127.0.0.1",
            "0.0.0.0": "127.0.0.1",  # noqa: S104 - to ask there, not to listen
            "::": "::1",
        }
        return ListenAddress(hosts.get(self.host, self.host), self.port)


def parse_listen_address(text: str) -> ListenAddress:
    """Read ``host:port`` as Go writes it: IPv6 in brackets, no host for all interfaces.

    Raises:
        ValueError: ``text`` is no such address; the message says what one looks like.
    """
    found = _ADDRESS.fullmatch(text)
    if not found or int(found["port"]) >= 1 << 16:
        raise ValueError(
            f"{text[:100]!r} is no listen address: write host:port with a port from 0 to 65535,"
            " such as :10169 (all interfaces), 127.0.0.1:10169 or [::1]:10169"
        )
    return ListenAddress(found["ipv6"] or found["host"], int(found["port"]))
