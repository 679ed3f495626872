"""Discovery on the wire: a small DHCP server on loopback, and real broadcasts between two network namespaces.

Run as a program this file is that server on the real ports, for a namespace of its own.
"""

import json
import logging
import os
import secrets
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Self

import pytest

from azure_scheduled_events_exporter.errors import ExporterError, Stopped
from azure_scheduled_events_exporter.imds.dhcp import Exchange
from azure_scheduled_events_exporter.imds.discovery import discover

MAC = bytes.fromhex("000d3a112233")
ADDRESS = bytes((168, 63, 129, 16))
OFFER = bytes((53, 1, 2))
PATIENCE_SECONDS = 30  # for what must happen; reached only when it does not

Reply = Callable[[bytes], list[bytes]]


def offer(
    request: bytes,
    options: bytes = bytes((245, 4)) + ADDRESS,
    *,
    xid: bytes | None = None,
    mac: bytes | None = None,
    cookie: bytes = b"\x63\x82\x53\x63",
) -> bytes:
    """Return a DHCPOFFER to ``request``, laid out by hand from RFC 2131."""
    head = b"\x02\x01\x06\x00" + (request[4:8] if xid is None else xid) + bytes(20)
    hardware = (request[28:34] if mac is None else mac).ljust(16, b"\0")
    return head + hardware + bytes(192) + cookie + OFFER + options + b"\xff"


class DhcpServer:
    """A DHCP server on a free port of loopback that sends what ``reply`` makes of each request."""

    def __init__(self, reply: Reply) -> None:
        self.requests: list[bytes] = []
        self._reply = reply
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.bind(("127.0.0.1", 0))
        self.address: tuple[str, int] = self._socket.getsockname()
        self._thread = threading.Thread(target=self._serve)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as end:
            end.sendto(b"", self.address)
        self._thread.join(PATIENCE_SECONDS)
        self._socket.close()

    def _serve(self) -> None:
        while True:
            request, client = self._socket.recvfrom(2048)
            if not request:
                return
            self.requests.append(request)
            for message in self._reply(request):
                self._socket.sendto(message, client)


def search(
    server: DhcpServer,
    *,
    answer_seconds: float = PATIENCE_SECONDS,
    pauses: tuple[float, ...] = (0.0,),
    wait: Callable[[float], bool] | None = None,
    lease_files: tuple[str, ...] = (),
    bind: tuple[str, int] = ("127.0.0.1", 0),
) -> str:
    """Discover through ``server`` alone: nothing of this machine's leases, nothing beyond loopback."""
    exchange = Exchange(bind, server.address, pauses, answer_seconds)
    stop = wait or threading.Event().wait
    return discover(stop, lease_files=lease_files, exchange=exchange, mac=MAC)


def silent(_: bytes) -> list[bytes]:
    """Answer nothing."""
    return []


def test_the_address_that_the_dhcp_server_names_becomes_the_endpoint() -> None:
    """A right answer gives the endpoint at the first try; our MAC is asked for, under an id of each run's own."""
    with DhcpServer(lambda request: [offer(request)]) as server:
        assert search(server) == "http://168.63.129.16"
        assert search(server) == "http://168.63.129.16"
    assert [request[28:34] for request in server.requests] == [MAC, MAC]
    assert server.requests[0][4:8] != server.requests[1][4:8]


@pytest.mark.parametrize(
    "wrong",
    [
        lambda request: b"garbage",  # noqa: ARG005 - what it asks does not matter
        lambda request: offer(request)[:242],
        lambda request: offer(request, xid=bytes(4)),
        lambda request: offer(request, mac=b"\x02\x02\x02\x02\x02\x02"),
        lambda request: offer(request, cookie=b"\x63\x53\x82\x63"),
        lambda request: request,
        lambda request: offer(request, b""),
        lambda request: offer(request, bytes((245, 4, 224, 0, 0, 1))),
    ],
    ids=["garbage", "cut", "xid", "mac", "cookie", "echo", "no-option-245", "multicast"],
)
def test_a_right_answer_counts_whatever_came_before_it(wrong: Callable[[bytes], bytes]) -> None:
    """Wrong answers are passed over while the right one may still come."""
    with DhcpServer(lambda request: [wrong(request), offer(request)]) as server:
        assert search(server) == "http://168.63.129.16"


@pytest.mark.parametrize("reply", [silent, lambda request: [offer(request, xid=bytes(4))]], ids=["silent", "wrong"])
def test_no_answer_is_told_after_the_last_try(reply: Reply) -> None:
    """If no try gets an answer to this request, the message reports it and says what to do."""
    with DhcpServer(reply) as server, pytest.raises(ExporterError) as caught:
        search(server, answer_seconds=0.05, pauses=(0.0, 0.01, 0.01))
    assert str(caught.value) == (
        "--imds.endpoint discover: no DHCP server answered in 3 tries: is this an Azure VM with its network up, and "
        "does its firewall let UDP port 0 in? See to that, or give the address itself, such as --imds.endpoint "
        "http://168.63.129.16"
    )
    assert len(server.requests) == 3


@pytest.mark.parametrize(
    ("options", "what"),
    [
        (b"", "has no option 245"),
        (bytes((245, 2, 168, 63)), "has 2 bytes in option 245 where an IPv4 address has 4"),
        (bytes((245, 4, 127, 0, 0, 1)), "names 127.0.0.1 in option 245, which is this machine itself"),
    ],
)
def test_an_answer_that_names_no_address_ends_the_search(options: bytes, what: str) -> None:
    """A DHCP server without the option is named, and not asked until all tries are used up."""
    with DhcpServer(lambda request: [offer(request, options)]) as server, pytest.raises(ExporterError) as caught:
        search(server, answer_seconds=0.3, pauses=(0.0,) * 20)
    assert str(caught.value) == (
        f"--imds.endpoint discover: the answer of DHCP server 127.0.0.1 {what}: is this an Azure VM? Leave out "
        "--imds.endpoint discover, or give the address itself, such as --imds.endpoint http://168.63.129.16"
    )
    assert len(server.requests) < 20


def test_a_late_answer_still_counts() -> None:
    """An answer to the first request that comes after its try is taken by the next."""
    held: list[bytes] = []

    def late(request: bytes) -> list[bytes]:
        held.append(request)
        return [offer(held[0])] if len(held) == 2 else []

    with DhcpServer(late) as server:
        assert search(server, answer_seconds=0.3, pauses=(0.0,) * 20) == "http://168.63.129.16"


def test_the_pauses_between_tries_are_those_of_microsofts_sample() -> None:
    """By default five tries are made, after 0, 10, 30, 60 and 60 seconds."""
    pauses: list[float] = []

    def wait(seconds: float) -> bool:
        if seconds:
            pauses.append(seconds)
        return False

    with DhcpServer(silent) as server, pytest.raises(ExporterError, match="in 5 tries"):
        search(server, answer_seconds=0.01, pauses=Exchange().pauses, wait=wait)
    assert pauses == [10, 30, 60, 60]
    assert len(server.requests) == 5
    assert Exchange().answer_seconds == 10


@pytest.mark.parametrize(("answer_seconds", "pauses"), [(600.0, (0.0,)), (0.05, (0.0, 600.0))], ids=["answer", "pause"])
def test_the_search_ends_at_once_when_the_exporter_is_stopped(answer_seconds: float, pauses: tuple[float]) -> None:
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
    """A program that keeps the port to itself is named as the likely DHCP client."""
    with closing(socket.socket(socket.AF_INET, socket.SOCK_DGRAM)) as holder, DhcpServer(silent) as server:
        holder.bind(("127.0.0.1", 0))
        port = holder.getsockname()[1]
        with pytest.raises(ExporterError) as caught:
            search(server, bind=("127.0.0.1", port))
    assert str(caught.value) == (
        f"--imds.endpoint discover: UDP port {port} is held by another program that does not share it, most likely "
        "the DHCP client: let it keep a lease file (docs/discovery.md), or give the address itself, such as "
        "--imds.endpoint http://168.63.129.16"
    )


@pytest.mark.parametrize("option", ["SO_REUSEADDR", "SO_REUSEPORT"])
def test_a_port_that_its_holder_shares_is_shared(option: str) -> None:
    """A DHCP client that shares its port, in either way, does not keep us from asking."""
    with closing(socket.socket(socket.AF_INET, socket.SOCK_DGRAM)) as holder, DhcpServer(silent) as server:
        holder.setsockopt(socket.SOL_SOCKET, getattr(socket, option), 1)
        holder.bind(("127.0.0.1", 0))
        with pytest.raises(ExporterError, match="no DHCP server answered"):
            search(server, bind=holder.getsockname(), answer_seconds=0.05)
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("bind", "destination", "what"),
    [
        (("192.0.2.1", 0), ("127.0.0.1", 67), r"UDP port 0 cannot be opened on 192\.0\.2\.1 \(.+\)"),
        (("127.0.0.1", 0), ("127.0.0.1", 0), r"no DHCP request could be sent to 127\.0\.0\.1 \(.+\) in 2 tries"),
    ],
)
def test_a_network_that_is_down_is_told(bind: tuple[str, int], destination: tuple[str, int], what: str) -> None:
    """A port that cannot be opened ends the search; a request that cannot be sent is tried again."""
    with pytest.raises(ExporterError, match=what):
        discover(threading.Event().wait, lease_files=(), exchange=Exchange(bind, destination, (0.0, 0.0)), mac=MAC)


def lease_file(path: Path, address: str, age_seconds: float) -> None:
    """Leave a dhclient lease that names ``address``, written ``age_seconds`` ago."""
    value = ":".join(f"{int(part):x}" for part in address.split("."))
    path.write_text(f"lease {{\n  option unknown-245 {value};\n  expire never;\n}}\n")
    written = time.time() - age_seconds
    os.utime(path, (written, written))


def test_the_newest_lease_file_with_an_address_is_taken_and_nobody_is_asked(tmp_path: Path) -> None:
    """Of lease files by several patterns the newest usable one wins, and no request leaves the machine."""
    lease_file(tmp_path / "a.leases", "10.0.0.1", 300)
    lease_file(tmp_path / "b.leases", "168.63.129.16", 200)
    lease_file(tmp_path / "c.lease", "224.0.0.1", 100)
    (tmp_path / "d.lease").write_bytes(b"\xff\x00 no lease")
    (tmp_path / "e.lease").mkdir()
    os.mkfifo(tmp_path / "f.lease")
    (tmp_path / "g.lease").symlink_to(tmp_path / "gone")
    with DhcpServer(silent) as server:
        found = search(server, lease_files=(f"{tmp_path}/*.leases", f"{tmp_path}/*.lease", f"{tmp_path}/none/*"))
    assert found == "http://168.63.129.16"
    assert server.requests == []


def test_the_end_of_a_long_lease_file_is_read(tmp_path: Path) -> None:
    """A lease file that has grown for years is read where dhclient appends."""
    path = tmp_path / "dhclient.leases"
    lease_file(path, "168.63.129.16", 0)
    path.write_text("lease {\n  option unknown-245 a:0:0:1;\n}\n" * 40_000 + path.read_text())
    with DhcpServer(silent) as server:
        assert search(server, lease_files=(str(path),)) == "http://168.63.129.16"


def test_without_a_usable_lease_the_dhcp_server_is_asked(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """If a lease has no address, a request is sent, and the log has the source of the address."""
    lease_file(tmp_path / "a.leases", "127.0.0.1", 0)
    with (
        caplog.at_level(logging.INFO, "azure-scheduled-events-exporter"),
        DhcpServer(lambda request: [offer(request)]) as server,
    ):
        assert search(server, lease_files=(f"{tmp_path}/*",)) == "http://168.63.129.16"
    assert caplog.messages == [
        f"skipping lease file {tmp_path}/a.leases: it names 127.0.0.1 in option 245, which is this machine itself",
        "asking for DHCP option 245, try 1 of 1",
        "metadata service at 168.63.129.16, from DHCP option 245 of DHCP server 127.0.0.1",
    ]


_UNPRIVILEGED = """
import os, sys, threading
from azure_scheduled_events_exporter.imds.dhcp import Exchange
from azure_scheduled_events_exporter.imds.discovery import discover
from azure_scheduled_events_exporter.errors import ExporterError
if os.geteuid() == 0:
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
exchange = Exchange(("127.0.0.1", 68), ("127.0.0.1", int(sys.argv[1])), (0.0,), 0.05)
try:
    discover(threading.Event().wait, lease_files=(), exchange=exchange, mac=bytes(6))
except ExporterError as error:
    print(error)
"""


def assert_missing_permission_is_told() -> None:
    """Without root, discover reports what is missing; if port 68 needs no privilege, that no server answered."""
    with DhcpServer(silent) as server:
        told = _output(sys.executable, "-c", _UNPRIVILEGED, str(server.address[1]))
    limit = Path("/proc/sys/net/ipv4/ip_unprivileged_port_start")
    if limit.exists() and int(limit.read_text()) <= 68:
        assert "no DHCP server answered in 1 tries" in told
        return
    assert told == (
        "--imds.endpoint discover: UDP port 68 may not be opened: run as root or with CAP_NET_BIND_SERVICE (systemd: "
        "AmbientCapabilities=CAP_NET_BIND_SERVICE), or give the address itself, such as --imds.endpoint "
        "http://168.63.129.16\n"
    )


def test_a_missing_permission_is_told() -> None:
    """If a user may not open port 68, the error says how to allow it, and the alternative."""
    assert_missing_permission_is_told()


_ON_THE_REAL_PORTS = """
import socket, threading
from azure_scheduled_events_exporter.imds.dhcp import Exchange
from azure_scheduled_events_exporter.imds.discovery import discover
client = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
client.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
client.bind(("0.0.0.0", 68))
client.settimeout(30)
print(discover(threading.Event().wait, lease_files=(), exchange=Exchange(pauses=(0.0, 1.0, 2.0, 4.0))))
print(client.recv(2048)[:1].hex())
"""


def _output(*command: str) -> str:
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, timeout=120).stdout


@contextmanager
def two_machines() -> Iterator[tuple[str, str] | None]:
    """Two namespaces joined by a cable: a VM whose default route leads to the other. None where not allowed."""
    tag = secrets.token_hex(4)
    vm, host = f"asee-vm-{tag}", f"asee-host-{tag}"
    try:
        try:
            for name in (vm, host):
                _output("ip", "netns", "add", name)
            _output("ip", "-n", vm, "link", "add", "nic0", "type", "veth", "peer", "name", "nic0", "netns", host)
            for name, address in ((vm, "192.0.2.2/24"), (host, "192.0.2.1/24")):
                _output("ip", "-n", name, "address", "add", address, "dev", "nic0")
                _output("ip", "-n", name, "link", "set", "nic0", "up")
                _output("ip", "-n", name, "route", "add", "default", "dev", "nic0")
            _output("ip", "netns", "exec", vm, "true")
        except (OSError, subprocess.CalledProcessError):
            yield None
        else:
            yield vm, host
    finally:
        for name in (vm, host):
            if Path("/run/netns", name).exists():
                _output("ip", "netns", "delete", name)


def test_the_real_broadcast_between_two_machines() -> None:
    """On the real ports, beside a DHCP client, the broadcast is answered; where that is not allowed, it is reported."""
    with two_machines() as machines:
        if machines is None:
            assert_missing_permission_is_told()
            return
        vm, host = machines
        program = ["ip", "netns", "exec", host, sys.executable, __file__]
        with subprocess.Popen(program, stdout=subprocess.PIPE, text=True) as server:
            assert server.stdout is not None
            try:
                assert server.stdout.readline() == "ready\n"
                found = _output("ip", "netns", "exec", vm, sys.executable, "-c", _ON_THE_REAL_PORTS)
            finally:
                server.kill()
            heard = json.loads(server.stdout.readline())
        mac = _output("ip", "netns", "exec", vm, "cat", "/sys/class/net/nic0/address")
    assert found == "http://168.63.129.16\n02\n"
    assert heard == {"from_port": 68, "mac": mac.strip().replace(":", ""), "flags": 0x8000}


def serve() -> None:
    """Answer the first DHCPDISCOVERs of this namespace on the real ports, by broadcast, and report each."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as dhcp:
        dhcp.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
        dhcp.bind(("0.0.0.0", 67))  # noqa: S104 - a namespace with nobody else in it
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        while True:
            request, (_, port) = dhcp.recvfrom(2048)
            (flags,) = struct.unpack_from("!H", request, 10)
            heard = {"from_port": port, "mac": request[28:34].hex(), "flags": flags}
            sys.stdout.write(json.dumps(heard) + "\n")
            sys.stdout.flush()
            dhcp.sendto(offer(request), ("255.255.255.255", 68))


if __name__ == "__main__":
    serve()
