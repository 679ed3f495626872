"""Listen addresses: the text after --web.listen-address."""

import pytest

from azure_scheduled_events_exporter.http_server.listen_address import parse_listen_address


class TestListenAddress:
    """The text after --web.listen-address."""

    @pytest.mark.parametrize(
        ("text", "host", "port"),
        [
            (":10169", "", 10169),
            ("127.0.0.1:0", "127.0.0.1", 0),
            ("[::1]:10169", "::1", 10169),
            ("[fe80::1%eth0]:65535", "fe80::1%eth0", 65535),
            ("localhost:9090", "localhost", 9090),
        ],
    )
    def test_reads_and_writes(self, text: str, host: str, port: int) -> None:
        """An address as Prometheus writes it is understood, and shown again as it was written."""
        address = parse_listen_address(text)
        assert (address.host, address.port) == (host, port)
        assert str(address) == text

    @pytest.mark.parametrize(
        "text",
        [
            "",
            "10169",
            "::1:10169",
            "[]:1",
            "[web%1]:1",
            ":65536",
            ":http",
            "a b:1",
            ":1\n",
            "a..b:1",
            "a" * 64 + ":1",
        ],
    )
    def test_refuses(self, text: str) -> None:
        """An invalid address is refused with examples of valid ones."""
        with pytest.raises(ValueError, match=r"is no listen address: .* :10169 .* \[::1\]:10169"):
            parse_listen_address(text)
