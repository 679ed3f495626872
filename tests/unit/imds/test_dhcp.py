"""DHCP messages with option 245, and which interface sends the request."""

import pytest

from azure_scheduled_events_exporter.imds.dhcp import (
    ENDPOINT_OPTION,
    build_discover,
    parse_answer,
)

XID = 0x1A2B3C4D
MAC = bytes.fromhex("000d3a112233")
COOKIE = bytes.fromhex("63825363")
ADDRESS = bytes((168, 63, 129, 16))
OPTION = bytes((ENDPOINT_OPTION, 4)) + ADDRESS


def answer(
    options: bytes,
    *,
    xid: int = XID,
    mac: bytes = MAC,
    cookie: bytes = COOKIE,
    operation: int = 2,
) -> bytes:
    """Return a DHCP message with these options, laid out by hand from RFC 2131."""
    head = bytes((operation, 1, 6, 0)) + xid.to_bytes(4, "big") + bytes(20)
    return head + mac.ljust(16, b"\0") + bytes(192) + cookie + options


def read(message: bytes) -> bytes | None:
    """Return what the answer ``message`` has in option 245."""
    return parse_answer(message, xid=XID, mac=MAC)


def test_the_request_is_a_dhcpdiscover_that_wants_option_245_broadcast_back() -> None:
    """What goes out is a DHCPDISCOVER with our id and MAC, asking for option 245 and a broadcast
    answer.
    """
    expected = (
        bytes.fromhex("01010600 1a2b3c4d 0000 8000")  # request, Ethernet, XID, broadcast
        + bytes(16)  # no address is known
        + MAC.ljust(16, b"\0")
        + bytes(192)  # neither a server's name nor a file
        + COOKIE
        + bytes((53, 1, 1))  # DHCPDISCOVER
        + bytes((55, 1, 245))  # asks for option 245
        + bytes((255,))  # the end of the options
    )
    assert build_discover(XID, MAC) == expected.ljust(300, b"\0"), "BOOTP's least length"


@pytest.mark.parametrize(
    ("message", "case"),
    [
        (answer(OPTION + b"\xff"), "the only option"),
        (answer(bytes((53, 1, 2)) + OPTION + b"\xff"), "after another option"),
        (answer(bytes(7) + OPTION + bytes(3) + b"\xff" + bytes(60)), "between padding"),
        (answer(OPTION), "without an end mark"),
        (
            answer(OPTION + b"\xff" + bytes((ENDPOINT_OPTION, 4, 9, 9, 9, 9))),
            "before the end mark, behind which nothing is an option",
        ),
    ],
)
def test_option_245_is_found_wherever_dhcp_allows_it(message: bytes, case: str) -> None:
    """Option 245 of a correct answer is found, in any order of options."""
    assert read(message) == ADDRESS, case


@pytest.mark.parametrize(
    ("message", "complaint"),
    [
        (b"", "too short"),
        (answer(OPTION)[:239], "too short"),
        (answer(OPTION, xid=XID + 1), "not an answer to this request"),
        (answer(OPTION, mac=bytes(6)), "not an answer to this request"),
        (answer(OPTION, cookie=b"\x63\x82\x53\x64"), "not an answer to this request"),
        (answer(OPTION, operation=1), "not an answer to this request"),
        (answer(OPTION[:-1]), "option 245 is cut off"),
        (answer(bytes((53,))), "option 53 is cut off"),
    ],
)
def test_what_is_no_answer_to_this_request_is_refused(message: bytes, complaint: str) -> None:
    """Messages to other clients, and damaged or truncated ones, are never read as the answer."""
    with pytest.raises(ValueError, match=complaint):
        read(message)
