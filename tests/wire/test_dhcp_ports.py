"""Discovery on the real ports: a user who may not open them, and real broadcasts between two network namespaces."""

import json
import secrets
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from support.servers import dhcp_server
from support.servers.dhcp_server import DhcpServer, silent

_UNPRIVILEGED = """
import logging, os, sys, threading
from azure_scheduled_events_exporter.imds.dhcp import Exchange
from azure_scheduled_events_exporter.imds.discovery import discover
from azure_scheduled_events_exporter.errors import ExporterError
if os.geteuid() == 0:
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
exchange = Exchange(("127.0.0.1", 68), ("127.0.0.1", int(sys.argv[1])), (0.0,), 0.05)
try:
    discover(threading.Event().wait, logging.getLogger(), lease_files=(), exchange=exchange, mac=bytes(6))
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
import logging, socket, threading
from azure_scheduled_events_exporter.imds.dhcp import Exchange
from azure_scheduled_events_exporter.imds.discovery import discover
client = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
client.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
client.bind(("0.0.0.0", 68))
client.settimeout(30)
exchange = Exchange(pauses=(0.0, 1.0, 2.0, 4.0))
print(discover(threading.Event().wait, logging.getLogger(), lease_files=(), exchange=exchange))
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
        program = ["ip", "netns", "exec", host, sys.executable, dhcp_server.__file__]
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
