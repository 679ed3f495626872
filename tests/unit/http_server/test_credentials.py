"""The header Authorization, the hash that unknown users are compared with, and which addresses are one client."""

import bcrypt
import pytest

from azure_scheduled_events_exporter.http_server.basic_auth import credentials, network, unguessable_hash
from support.servers.serving import basic


class TestCredentials:
    """Parsing of the Authorization header."""

    @pytest.mark.parametrize(
        ("text", "given"),
        [
            (basic("a", "b"), (b"a", b"b")),
            (basic("a", "b").replace("Basic", "bAsIC  "), (b"a", b"b")),
            (basic("a", "b:c:"), (b"a", b"b:c:")),
            (basic("", ""), (b"", b"")),
            (basic("Jürgen", "pässword"), ("Jürgen".encode(), "pässword".encode())),
        ],
    )
    def test_given(self, text: str, given: tuple[bytes, bytes]) -> None:
        """User and password are read as RFC 7617 has them: the first colon parts them."""
        assert credentials(text) == given

    @pytest.mark.parametrize(
        "text",
        [
            "",
            "Basic",
            "Basic ",
            "Basic YQ==",
            "Basic YTpi!",
            "Basic YTpi YTpi",
            "Basic YTpi, Basic YTpi",
            "Basic ä",
            "Bearer YTpi",
            "YTpi",
            basic("a\0", "b"),
            basic("a", "b\0c"),
        ],
    )
    def test_none(self, text: str) -> None:
        """A header that is not a user and password, or contains NUL, counts as absent."""
        assert credentials(text) is None

    def test_neighbors(self) -> None:
        """One host is one client: an IPv4 address in either form, or all addresses of an IPv6 /64."""
        assert network("::ffff:10.0.0.1") == network("10.0.0.1") != network("10.0.0.2")
        assert network("2001:db8::1") == network("2001:db8::ffff:1%eth0") != network("2001:db8:0:1::1")

    def test_unguessable_hash(self) -> None:
        """The hash that unknown users are compared with is one for bcrypt, of the cost that was asked for."""
        for cost in (4, 5):
            made = unguessable_hash(cost)
            assert made.startswith(f"$2b${cost:02d}$".encode())
            assert not bcrypt.checkpw(b"secret", made)
        assert unguessable_hash(4) != unguessable_hash(4)
