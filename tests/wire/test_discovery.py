"""Discovery of the metadata service on loopback: answers of a DHCP server, and lease files of a
DHCP client.
"""

import logging
import os
import socket
import threading
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from azure_scheduled_events_exporter.errors import ExporterError, Stopped
from azure_scheduled_events_exporter.imds.dhcp import Exchange
from azure_scheduled_events_exporter.imds.discovery import discover
from azure_scheduled_events_exporter.service.endpoint import SHORT_SEARCH
from support.servers.dhcp_server import (
    MAC,
    PATIENCE_SECONDS,
    DhcpServer,
    Reply,
    offer,
    search,
    silent,
)


def test_the_address_that_the_dhcp_server_names_becomes_the_endpoint() -> None:
    """A right answer gives the endpoint at the first try. The request has our MAC, and each search
    a transaction id of its own.
    """
    with DhcpServer(lambda request: [offer(request)]) as server:
        assert search(server) == "http://168.63.129.16"
        assert search(server) == "http://168.63.129.16"
    first, second = server.requests
    transaction_id = slice(4, 8)
    mac = slice(28, 34)  # where RFC 2131 has them
    assert first[mac] == second[mac] == MAC
    assert first[transaction_id] != second[transaction_id]


@pytest.mark.parametrize(
    "wrong",
    [
        lambda _: b"garbage",
        lambda request: offer(request, xid=bytes(4)),
        lambda request: offer(request, b""),
    ],
    ids=["garbage", "to another request", "no option 245"],
)
def test_a_right_answer_counts_whatever_came_before_it(wrong: Callable[[bytes], bytes]) -> None:
    """Wrong answers are passed over while the right one may still come."""
    with DhcpServer(lambda request: [wrong(request), offer(request)]) as server:
        assert search(server) == "http://168.63.129.16"


@pytest.mark.parametrize(
    "reply", [silent, lambda request: [offer(request, xid=bytes(4))]], ids=["silent", "wrong"]
)
def test_no_answer_is_told_after_the_last_try(reply: Reply) -> None:
    """If no try gets an answer to this request, the message reports it and says what to do.

    The port in the message is that of the client: here 0, which means any.
    """
    with DhcpServer(reply) as server, pytest.raises(ExporterError) as caught:
        search(server, answer_seconds=0.05, pauses=(0.0, 0.01, 0.01))
    assert (
        str(caught.value)
        == "--imds.endpoint discover: no DHCP server answered in 3 tries: is this an Azure VM with"
        " its network up, and does its firewall let UDP port 0 in? See to that, or give the"
        " address itself, such as --imds.endpoint http://168.63.129.16"
    )
    assert len(server.requests) == 3


def test_no_answer_is_told_if_the_network_comes_up_between_two_tries() -> None:
    """The message reports how the last try failed: here, nobody answered what could be sent."""
    with DhcpServer(silent) as server:
        nothing_can_be_sent_there = ("127.0.0.1", 0)
        exchange = Exchange(
            bind=("127.0.0.1", 0),
            destination=nothing_can_be_sent_there,
            pauses=(0.0, 0.01),
            answer_seconds=0.05,
        )

        def wait(seconds: float) -> bool:
            """Let the network come up in the pause before the second try, and do not wait.

            With 0 s, it was only asked whether to stop: no.
            """
            if seconds > 0:
                # The exchange is frozen: nothing but this test changes its destination.
                object.__setattr__(exchange, "destination", server.address)
            return False

        with pytest.raises(ExporterError, match="no DHCP server answered in 2 tries"):
            discover(wait, logging.getLogger(), lease_files=(), exchange=exchange, mac=MAC)
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("options", "what"),
    [
        (b"", "has no option 245"),
        (bytes((245, 2, 168, 63)), "has 2 bytes in option 245, not 4"),
        (
            bytes((245, 4, 127, 0, 0, 1)),
            "names 127.0.0.1 in option 245, which is no address of another machine",
        ),
    ],
)
def test_an_answer_that_names_no_address_ends_the_search(options: bytes, what: str) -> None:
    """A DHCP server without the option is named. The search ends after the try that this server
    has answered, and does not use up the tries that are left.
    """
    tries = 20
    with (
        DhcpServer(lambda request: [offer(request, options)]) as server,
        pytest.raises(ExporterError) as caught,
    ):
        search(server, answer_seconds=0.3, pauses=(0.0,) * tries)
    assert (
        str(caught.value)
        == f"--imds.endpoint discover: the answer of DHCP server 127.0.0.1 {what}: is this an Azure"
        " VM? Leave out --imds.endpoint discover, or give the address itself, such as"
        " --imds.endpoint http://168.63.129.16"
    )
    # The try goes on for its whole time, as another server may answer: it asks more than once.
    assert len(server.requests) < tries


def test_the_pauses_between_tries_are_those_of_microsofts_sample() -> None:
    """By default five tries are made, after 0, 10, 30, 60 and 60 seconds."""
    pauses: list[float] = []

    def wait(seconds: float) -> bool:
        """Note the pause instead of waiting; with 0 s, it was only asked whether to stop: no."""
        if seconds > 0:
            pauses.append(seconds)
        return False

    with DhcpServer(silent) as server, pytest.raises(ExporterError, match="in 5 tries"):
        search(server, answer_seconds=0.01, pauses=Exchange().pauses, wait=wait)
    assert pauses == [10, 30, 60, 60]
    assert len(server.requests) == 5
    assert Exchange().answer_seconds == 10


def test_nobody_waits_for_a_dhcp_server_for_minutes() -> None:
    """The commands doctor and events ask more than once, and give up after five seconds at most."""
    assert len(SHORT_SEARCH.pauses) > 1
    assert sum(SHORT_SEARCH.pauses) + len(SHORT_SEARCH.pauses) * SHORT_SEARCH.answer_seconds <= 5
    assert SHORT_SEARCH.destination == Exchange().destination, "they ask as the exporter does"


@pytest.mark.parametrize(
    ("answer_seconds", "pauses"), [(600.0, (0.0,)), (0.05, (0.0, 600.0))], ids=["answer", "pause"]
)
def test_the_search_ends_at_once_when_the_exporter_is_stopped(
    answer_seconds: float, pauses: tuple[float]
) -> None:
    """Neither the wait for an answer nor a pause between tries holds up the end of the exporter."""
    stop = threading.Event()

    def stopping(_: bytes) -> list[bytes]:
        stop.set()
        return []

    began = time.monotonic()
    with DhcpServer(stopping) as server, pytest.raises(Stopped):
        search(server, answer_seconds=answer_seconds, pauses=pauses, wait=stop.wait)
    assert time.monotonic() - began < PATIENCE_SECONDS


def test_a_taken_port_is_told() -> None:
    """If the DHCP client's port is held by another program, the error says that this is most likely
    the DHCP client.
    """
    with (
        closing(socket.socket(socket.AF_INET, socket.SOCK_DGRAM)) as holder,
        DhcpServer(silent) as server,
    ):
        holder.bind(("127.0.0.1", 0))
        port = holder.getsockname()[1]
        with pytest.raises(ExporterError) as caught:
            search(server, bind=("127.0.0.1", port))
    assert (
        str(caught.value)
        == f"--imds.endpoint discover: UDP port {port} is held by another program, most likely the"
        " DHCP client: have it write a lease file, or give the address itself, such as"
        " --imds.endpoint http://168.63.129.16"
    )


def lease_file(path: Path, address: str, age_seconds: float) -> None:
    """Leave a dhclient lease that names ``address``, written ``age_seconds`` ago."""
    value = ":".join(f"{int(part):x}" for part in address.split("."))
    path.write_text(f"lease {{\n  option unknown-245 {value};\n  expire never;\n}}\n")
    written = time.time() - age_seconds
    os.utime(path, (written, written))


def test_the_newest_lease_file_with_an_address_is_taken_and_nobody_is_asked(tmp_path: Path) -> None:
    """Of lease files by several patterns the newest usable one wins, and no request leaves the
    machine.
    """
    lease_file(tmp_path / "a.leases", "10.0.0.1", 300)
    lease_file(tmp_path / "b.leases", "168.63.129.16", 200)
    lease_file(tmp_path / "c.lease", "224.0.0.1", 100)  # a multicast address
    # Newer ones that cannot be read: no text, a folder, a pipe and a link to nothing.
    (tmp_path / "d.lease").write_bytes(b"\xff\x00 no lease")
    (tmp_path / "e.lease").mkdir()
    os.mkfifo(tmp_path / "f.lease")
    (tmp_path / "g.lease").symlink_to(tmp_path / "gone")
    with DhcpServer(silent) as server:
        found = search(
            server,
            lease_files=(f"{tmp_path}/*.leases", f"{tmp_path}/*.lease", f"{tmp_path}/none/*"),
        )
    assert found == "http://168.63.129.16"
    assert server.requests == []


LOOPBACK = "names 127.0.0.1 in option 245, which is no address of another machine"


def test_without_a_usable_lease_the_dhcp_server_is_asked(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """If the address in a lease cannot be that of the service, a request is sent, and the log names
    the server that gave the address.
    """
    lease_file(tmp_path / "a.leases", "127.0.0.1", 0)
    caplog.set_level(logging.INFO)
    with DhcpServer(lambda request: [offer(request)]) as server:
        assert search(server, lease_files=(f"{tmp_path}/*",)) == "http://168.63.129.16"
    assert [(record.message, record.facts) for record in caplog.records] == [  # type: ignore[attr-defined]
        ("lease file skipped", {"path": tmp_path / "a.leases", "error": LOOPBACK}),
        ("DHCP option 245 requested", {"attempt": 1, "attempts": 1}),
        ("DHCP option 245 received", {"address": "168.63.129.16", "server": "127.0.0.1"}),
    ]
