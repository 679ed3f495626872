"""Targets: DHCP answers, which any machine of the network may send, and lease files, which are made of them."""

from collections.abc import Iterator
from ipaddress import IPv4Address

from azure_scheduled_events_exporter.imds.dhcp import (
    ENDPOINT_OPTION,
    build_discover,
    default_interface,
    endpoint_address,
    parse_answer,
)
from azure_scheduled_events_exporter.imds.leases import address_from_lease
from fuzz.target import Form, Target, one_line

_NOW = 1_650_000_000.0
_XID, _MAC = 0x1A2B3C4D, bytes.fromhex("000d3a112233")
_HEAD = b"\x02" + build_discover(_XID, _MAC)[1:240]
_OPTION = bytes((ENDPOINT_OPTION, 4, 168, 63, 129, 16))


def check_dhcp(data: bytes) -> None:
    """A datagram is read or refused in one line, and an address that it names could be a metadata service's."""
    message = data[1:] if data[:1] == b"0" else _HEAD + data[1:]
    try:
        options = parse_answer(message, xid=_XID, mac=_MAC)
    except ValueError as error:
        one_line(str(error))
        return
    assert sum(2 + len(value) for value in options.values()) <= len(message)
    _check_address(options)


def _check_address(options: dict[int, bytes]) -> None:
    try:
        address = endpoint_address(options)
    except ValueError as error:
        one_line(str(error))
        return
    assert isinstance(address, IPv4Address)
    assert address.packed == options[ENDPOINT_OPTION]
    assert not address.is_loopback
    assert not address.is_multicast
    assert not address.is_unspecified


def _datagrams() -> Iterator[bytes]:
    yield b"1" + bytes((53, 1, 2)) + _OPTION + b"\xff"
    yield b"1" + bytes((245, 2, 168, 63, 1, 1, 0, 245, 2, 129, 16, 255))
    yield b"0" + _HEAD[:44] + _OPTION + bytes(58) + _OPTION + bytes(122) + _HEAD[236:] + bytes((52, 1, 3, 255))
    yield b"0" + _HEAD + _OPTION


def check_lease(data: bytes) -> None:
    """A lease file or routing table, however damaged, is read without an error."""
    text = data.decode("latin-1")
    value = address_from_lease(text, _NOW)
    if value is not None:
        _check_address({ENDPOINT_OPTION: value})
    interface = default_interface(text)
    assert interface is None or interface in text


def _leases() -> Iterator[bytes]:
    yield b"ADDRESS=10.0.0.4\nOPTION_245=a83f8110\nLIFETIME=4294967295\n"
    yield (
        b'lease {\n  interface "eth0";\n  fixed-address 10.0.0.4;\n  option unknown-245 a8:3f:81:10;\n'
        b"  option dhcp-server-identifier 168.63.129.16;\n  expire never;\n}\n"
    )
    yield b'lease {\n  option unknown-245 "\\250?\\201\\020";\n  expire 6 2099/11/25 01:48:29; # a day\n}\n'
    yield b'lease {\n  option unknown-245 "a b";\n  expire epoch 4511574509;\n}\nlease { renew 1 2020/01/01 00:00:00;'
    yield (
        b"Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT\n"
        b"eth0\t00000000\t0100000A\t0003\t0\t0\t100\t00000000\t0\t0\t0\n"
        b"eth0\t0000000A\t00000000\t0001\t0\t0\t100\t00FFFFFF\t0\t0\t0\n"
    )


TARGETS = {
    "dhcp": Target(check_dhcp, _datagrams, Form.BYTES, (_OPTION, b"\x34\x01\x03", b"\xff", b"\xf5\x00"), 600),
    "lease": Target(
        check_lease,
        _leases,
        Form.LINES,
        (b"lease {", b"}", b"option unknown-245 ", b"expire ", b"epoch ", b"never;", b"OPTION_245=", b'"', b"\\", b"#"),
        2048,
    ),
}
