"""Option 245 in the lease files of DHCP clients."""

from datetime import UTC, datetime
from ipaddress import IPv4Address

import pytest

from azure_scheduled_events_exporter.imds.discovery import address_from_lease

NOW = datetime(2026, 1, 1, tzinfo=UTC).timestamp()


def dhclient_lease(option: str, expire: str = "4 2162/01/01 00:00:00") -> str:
    """Return a lease as dhclient writes it, with the line ``option`` among the others."""
    return f"""lease {{
  interface "eth0";
  fixed-address 10.1.0.4;
  server-name "RD0003FF;}}{{";
  option subnet-mask 255.255.255.0;
  option dhcp-lease-time 4294967295;
  {option}
  option domain-name "xyz.internal.cloudapp.net";
  renew 4 2162/01/01 00:00:00;
  expire {expire};
}}
"""


def packed(address: str | None) -> bytes | None:
    """Return the four bytes of an address."""
    return IPv4Address(address).packed if address else None


AZURE = dhclient_lease("option unknown-245 a8:3f:81:10;")
OLDER = dhclient_lease("option unknown-245 a:0:0:1;")
EXPIRED = dhclient_lease("option unknown-245 a:0:0:2;", "4 2025/12/31 23:59:59")
UNTIL_LATER = dhclient_lease("option unknown-245 a8:3f:81:10;", "4 2026/01/01 00:00:01")


@pytest.mark.parametrize(
    ("text", "address"),
    [
        pytest.param(OLDER, "10.0.0.1", id="one"),
        pytest.param(OLDER + AZURE, "168.63.129.16", id="two"),
        pytest.param(AZURE + EXPIRED, "168.63.129.16", id="the last one has expired"),
        pytest.param(EXPIRED, None, id="the only one has expired"),
        pytest.param(OLDER + UNTIL_LATER, "168.63.129.16", id="the last one expires in 1 s"),
        pytest.param(
            AZURE + dhclient_lease("bootp;"), "168.63.129.16", id="the last one lacks the option"
        ),
        pytest.param(
            AZURE + dhclient_lease("option unknown-245;"),
            "168.63.129.16",
            id="the option of the last one is empty",
        ),
        pytest.param(
            dhclient_lease("option unknown-245 a8:3f:81:10;", "never"),
            "168.63.129.16",
            id="it never expires",
        ),
        pytest.param(
            dhclient_lease("option unknown-245 a8:3f:81:10;", "some day"),
            None,
            id="nobody knows when it expires",
        ),
        pytest.param(dhclient_lease("# option unknown-245 a8:3f:81:10;"), None, id="a comment"),
        pytest.param(dhclient_lease("option unknown-245 a8:3f:81;"), None, id="three bytes"),
        pytest.param(
            dhclient_lease("option unknown-245 168.63.129.16;"), None, id="no hexadecimal bytes"
        ),
        pytest.param(AZURE.replace("lease {", "lease6 {"), None, id="of DHCPv6"),
        pytest.param(
            AZURE.replace("lease {", "lease{"), "168.63.129.16", id="without a space in it"
        ),
        pytest.param("", None, id="none"),
    ],
)
def test_the_last_lease_in_force_wins(text: str, address: str | None) -> None:
    """Of several leases, the last one counts that has the option with four bytes and that has not
    expired. AZURE has the address 168.63.129.16, and OLDER has 10.0.0.1.
    """
    assert address_from_lease(text, NOW) == packed(address)


@pytest.mark.parametrize(
    ("lines", "address"),
    [
        ("OPTION_245=a83f8110\n", "168.63.129.16"),
        ("OPTION_245=0a000001\nOPTION_245=a83f8110\n", "168.63.129.16"),
        ("OPTION_245=a83f81\n", None),
        ("OPTION_245=\n", None),
        ("OPTION_224=a83f8110\n", None),
        ("#OPTION_245=a83f8110\n", None),
    ],
)
def test_a_networkd_lease_gives_the_address(lines: str, address: str | None) -> None:
    """systemd-networkd keeps private options as hexadecimal text under their number."""
    text = f"# This is private data. Do not parse.\nADDRESS=10.1.0.4\nLIFETIME=4294967295\n{lines}"
    assert address_from_lease(text, NOW) == packed(address)
