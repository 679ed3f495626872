"""What hostile clients cost the others, through the wire, on the running exporter."""

import base64
import json
import signal
import socket
import ssl
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import bcrypt
import psutil
import pytest

from azure_scheduled_events_exporter.simulator import Scenario, Simulator, VirtualMachine
from support.programs import Exporter, fetch
from support.servers.certificates import Authority

POLL = ("--poll.interval", "250ms", "--instance.name", "vmss_0")
QUIET = Scenario("quiet", "Nothing happens.", (VirtualMachine("vmss_0"),), ())
RESET = struct.pack("ii", 1, 0)
REQUEST_SECONDS = 10.0
"""In which a client has to send a request."""


@pytest.fixture
def simulator() -> Iterator[Simulator]:
    """Return a simulator of a VM to which nothing happens."""
    with Simulator(QUIET) as simulator:
        yield simulator


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    """Return a stack of what is to end with the test."""
    with ExitStack() as stack:
        yield stack


def connected(stack: ExitStack, exporter: Exporter, data: bytes = b"", source: str = "127.0.0.1") -> socket.socket:
    """Return a connection from ``source`` that has sent ``data``."""
    client = stack.enter_context(socket.create_connection(("127.0.0.1", exporter.port), source_address=(source, 0)))
    client.sendall(data)
    return client


def test_slow_password_checks_end_no_deadline(
    simulator: Simulator, stack: ExitStack, start_exporter: Callable[..., Exporter], tmp_path: Path
) -> None:
    """While HEAD requests with wrong passwords wait for bcrypt at cost 14, silent clients are closed in time."""
    config = tmp_path / "web.yml"
    hashed = (
        bcrypt.hashpw(b"secret", bcrypt.gensalt(4)).decode().replace("$2b$04$", "$2b$14$")
    )  # nobody needs to know it
    config.write_text(f"basic_auth_users: {{scraper: {hashed}}}\n")
    exporter = start_exporter(simulator.url, *POLL, "--web.config.file", str(config))
    heads = []
    for number in range(32):
        wrong = base64.b64encode(f"scraper:{number}".encode()).decode()
        request = f"HEAD /metrics HTTP/1.1\r\nHost: a\r\nAuthorization: Basic {wrong}\r\n\r\n"
        heads.append(connected(stack, exporter, request.encode(), f"127.0.0.{2 + number % 8}"))
    begun = time.monotonic()
    while time.monotonic() < begun + 2:
        assert fetch(f"{exporter.url}/-/healthy").status == 200
    silent = connected(stack, exporter)
    silent.settimeout(3 * REQUEST_SECONDS)
    connected_at = time.monotonic()
    assert silent.recv(1) == b""
    assert time.monotonic() - connected_at < 2 * REQUEST_SECONDS
    for client in heads:
        client.settimeout(3 * REQUEST_SECONDS)
        status, _, rest = client.recv(65536).partition(b"\r\n")
        assert status.split()[1] in {b"401", b"503"}
        assert rest.endswith(b"\r\n\r\n"), "a body for HEAD"
    assert "Traceback" not in exporter.log


def test_pages_are_rendered_once_a_second(simulator: Simulator, start_exporter: Callable[..., Exporter]) -> None:
    """With any number of clients and polls, the events as JSON are rendered at most once a second."""
    exporter = start_exporter(simulator.url, *POLL)
    exporter.shows("polls", lambda scrape: scrape.total("polls_total") > 2)
    began = time.monotonic()
    seen = set()
    while time.monotonic() < began + 3:
        seen.add(json.dumps(json.loads(fetch(f"{exporter.url}/api/v1/events").body)["polls"]))
    assert 2 <= len(seen) <= 1 + (time.monotonic() - began)


def processor_time(exporter: Exporter) -> float:
    """Return how many seconds of processor time the exporter has used."""
    times = psutil.Process(exporter.process.pid).cpu_times()
    return float(times.user + times.system)


def test_clients_that_reset_at_once(simulator: Simulator, start_exporter: Callable[..., Exporter]) -> None:
    """A flood of clients that connect and reset costs so little that a scrape behind 2,000 of them is soon answered."""
    exporter = start_exporter(simulator.url, "--instance.name", "vmss_0")
    exporter.shows("a poll", lambda scrape: scrape.value("up") == 1)
    before = processor_time(exporter)
    for _ in range(200):
        assert fetch(f"{exporter.url}/-/healthy").status == 200
    requests = processor_time(exporter) - before
    exporter.process.send_signal(signal.SIGSTOP)
    for number in range(2000):
        source = (f"127.0.{number // 200}.2", 0)
        with socket.create_connection(("127.0.0.1", exporter.port), source_address=source) as client:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
    before = processor_time(exporter)
    exporter.process.send_signal(signal.SIGCONT)
    assert fetch(f"{exporter.url}/metrics").status == 200
    used = processor_time(exporter) - before
    # A third of it; twice as much when each became a connection first.
    assert used < requests, f"{used:.2f} s of processor time, and 200 requests {requests:.2f} s"
    assert exporter.terminate() == 0


def test_tls_clients_that_send_and_never_read(
    simulator: Simulator, stack: ExitStack, start_exporter: Callable[..., Exporter], tmp_path: Path
) -> None:
    """What TLS clients send while they do not read their answers stays in the kernel, not in the exporter's memory."""
    authority, config, clients = Authority(tmp_path), tmp_path / "web.yml", []
    pair = authority.server()
    config.write_text(f"tls_server_config: {{cert_file: {pair.certificate}, key_file: {pair.key}}}\n")
    exporter = start_exporter(simulator.url, *POLL, "--web.config.file", str(config))
    trusting = ssl.create_default_context(cafile=str(authority.own.certificate))
    for _ in range(20):
        plain = stack.enter_context(socket.socket())
        plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        plain.connect(("127.0.0.1", exporter.port))
        clients.append(stack.enter_context(trusting.wrap_socket(plain, server_hostname="127.0.0.1")))
    for _ in range(25):  # one by one, so that answers fill the way back before the flood
        for client in clients:
            with suppress(OSError):  # on a busy machine, the exporter may have given it up
                client.send(b"GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n")
        time.sleep(0.04)
    process = psutil.Process(exporter.process.pid)
    before = process.memory_info().rss
    for client in clients:
        client.settimeout(0)
    for _ in range(40):
        for client in clients:
            with suppress(ssl.SSLWantWriteError, OSError):
                client.send(bytes(16_384))
        time.sleep(0.02)
    assert (process.memory_info().rss - before) / len(clients) < 128 * 1024
