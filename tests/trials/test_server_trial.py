"""The trial of the HTTP server: hundreds of idle, trickling and never-reading clients, and scrapers among them.

The server runs in a process of its own, with the usual limit of 1024 descriptors.
"""

import http.client
import json
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest

SERVER = """
import asyncio, json, logging, os, resource, sys, time
from azure_scheduled_events_exporter.http_server.listen_address import parse_listen_address
from azure_scheduled_events_exporter.http_server.connection import Limits
from azure_scheduled_events_exporter.http_server.messages import Response
from azure_scheduled_events_exporter.http_server.server import Server

def descriptors():
    return len(os.listdir("/proc/self/fd"))

def peak():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmHWM"))

async def main(options):
    resource.setrlimit(resource.RLIMIT_NOFILE, (options["descriptors"],) * 2)
    big, huge, page = b"b" * 1_500_000, b"h" * 15_000_000, b"p" * 200_000
    routes = {
        "/big": lambda _: Response(200, big, "text/plain"),
        "/huge": lambda _: Response(200, huge, "text/plain"),
        "/page": lambda _: Response(200, page, "text/plain"),
    }
    messages, hog = [], []
    def release():
        while hog:
            os.close(hog.pop())
    class Keep(logging.Handler):
        def emit(self, record):
            messages.append(record.getMessage())
            if hog:  # only now does the server miss them, however late its first client comes
                loop.call_later(options["hog_seconds"], release)
    log = logging.getLogger("trial")
    log.addHandler(Keep())
    loop, stop = asyncio.get_running_loop(), asyncio.Event()
    loop.add_reader(sys.stdin, stop.set)
    before, small = descriptors(), peak()
    server = Server(parse_listen_address("127.0.0.1:0"), routes, Limits(**options["limits"]), log=log)
    await server.start()
    while options["hog_seconds"]:
        try:
            hog.append(os.open("/dev/null", os.O_RDONLY))
        except OSError:
            break
    cpu = time.process_time()
    print(server.port, flush=True)
    await stop.wait()
    cpu, begin = time.process_time() - cpu, time.monotonic()
    held = descriptors() - before
    await server.stop()
    print(json.dumps({
        "held": held, "left": descriptors() - before, "messages": messages,
        "grown_kib": peak() - small, "cpu_seconds": cpu, "stop_seconds": time.monotonic() - begin,
    }))

asyncio.run(main(json.loads(sys.argv[1])))
"""
PAGE_BYTES = 200_000
PATIENCE = 20.0  # seconds after which the trial itself has failed
PROMPT = 5.0  # seconds within which every scrape is answered


class Trial:
    """The server under trial, and the clients that trouble it."""

    def __init__(self, port: int, stack: ExitStack) -> None:
        self.port = port
        self.report: dict[str, Any] = {}
        self._stack = stack

    def connect(self, data: bytes = b"", receive_buffer: int | None = None) -> socket.socket:
        """Open a connection that stays until the end of the trial, and send ``data``."""
        client = self._stack.enter_context(socket.socket())
        if receive_buffer:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        client.settimeout(PATIENCE)
        client.connect(("127.0.0.1", self.port))
        client.sendall(data)
        return client

    def idle(self, number: int) -> None:
        """Open connections that send nothing."""
        for _ in range(number):
            self.connect()

    def never_read(self, number: int, path: str = "/big") -> None:
        """Request a large page and read none of it."""
        for _ in range(number):
            self.connect(f"GET {path} HTTP/1.1\r\nHost: trial\r\n\r\n".encode(), receive_buffer=4096)

    def trickle(self, number: int) -> None:
        """Send a byte of a header, or of a body, on each of ``number`` connections again and again."""
        header = b"GET /page HTTP/1.1\r\nHost: trial\r\n"
        starts = [header + b"X-Slow: ", header + b"Content-Length: 100000\r\n\r\n"]
        clients = [self.connect(starts[index % 2]) for index in range(number)]
        end = threading.Event()

        def send() -> None:
            while not end.wait(0.02):
                for client in tuple(clients):
                    try:
                        client.send(b"x")
                    except OSError:
                        clients.remove(client)

        thread = threading.Thread(target=send)
        thread.start()
        self._stack.callback(thread.join, PATIENCE)
        self._stack.callback(end.set)

    def scrape(self, scrapers: int, times: int) -> list[float]:
        """Scrape from ``scrapers`` clients at once, each kept alive; return the seconds each scrape took."""
        together = threading.Barrier(scrapers)

        def one() -> list[float]:
            connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
            together.wait(PATIENCE)
            took = []
            for _ in range(times):
                begin = time.monotonic()
                connection.request("GET", "/page")
                answer = connection.getresponse()
                body = answer.read()
                took.append(time.monotonic() - begin)
                assert (answer.status, len(body)) == (200, PAGE_BYTES)
            connection.close()
            return took

        with ThreadPoolExecutor(scrapers) as pool:
            return [seconds for done in [pool.submit(one) for _ in range(scrapers)] for seconds in done.result()]


@contextmanager
def trial(descriptors: int = 1024, hog_seconds: float = 0, **limits: float) -> Iterator[Trial]:
    """Run the server for the length of the block; afterwards the trial has its report."""
    options = json.dumps({"descriptors": descriptors, "hog_seconds": hog_seconds, "limits": limits})
    with (
        subprocess.Popen(
            [sys.executable, "-c", SERVER, options],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        ) as process,
        ExitStack() as stack,
    ):
        stack.callback(process.kill)
        assert process.stdout is not None
        running = Trial(int(process.stdout.readline()), stack)
        yield running
        report, _ = process.communicate("stop\n", timeout=PATIENCE)
        running.report = json.loads(report)


@pytest.mark.parametrize("cap", [512, 100])
def test_scrapers_among_idle_clients(cap: int) -> None:
    """50 scrapers are answered at once beside 500 idle, 50 trickling and 10 never-reading clients."""
    with trial(connections=cap) as running:
        running.never_read(10)
        running.trickle(50)
        running.idle(500)
        took = running.scrape(50, 5)
        assert len(took) == 250
        assert max(took) < PROMPT
    assert running.report["messages"] == [f"connection limit reached ({cap}): closing idle connections"]
    assert running.report["held"] <= cap + 1  # the connections and the listening socket
    assert running.report["left"] == 0
    assert running.report["stop_seconds"] < PROMPT


def test_idle_clients_leave_nothing() -> None:
    """After stop no descriptor of 500 idle clients is left."""
    with trial() as running:
        running.idle(500)
        assert max(running.scrape(1, 1)) < PROMPT
    assert running.report["held"] >= 501  # 500 idle and the listening socket
    assert running.report["left"] == 0


def test_never_readers_cost_little_memory() -> None:
    """10 clients that never read 15 MB cost a piece of it each, not 150 MB."""
    with trial() as running:
        running.never_read(10, "/huge")
        assert max(running.scrape(1, 1)) < PROMPT
    assert running.report["grown_kib"] < 15_000


@pytest.mark.parametrize("descriptors", [64, 256])
def test_few_descriptors(descriptors: int) -> None:
    """With few descriptors, idle clients leave enough of them to the rest of the process, and scrapers are answered."""
    with trial(descriptors=descriptors) as running:
        running.idle(2 * descriptors)
        for _ in range(5):
            assert max(running.scrape(1, 1)) < PROMPT
    limit = descriptors - min(64, descriptors // 2)
    assert running.report["messages"] == [f"connection limit reached ({limit}): closing idle connections"]
    assert running.report["held"] <= limit + 1  # and the listening socket
    assert running.report["left"] == 0


def test_descriptors_used_up_by_others() -> None:
    """While the rest of the process holds all descriptors the server waits idly, then answers."""
    with trial(descriptors=64, hog_seconds=2) as running:
        assert len(running.scrape(1, 1)) == 1
    assert running.report["messages"] == ["cannot accept connections: Too many open files"]
    assert running.report["cpu_seconds"] < 0.5
