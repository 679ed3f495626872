"""Clients as bad as they come, over HTTP and TLS, and fifty scrapers among them that are all answered in time."""

import contextlib
import http.client
import random
import resource
import socket
import ssl
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import quantiles

import psutil

from azure_scheduled_events_exporter.simulator import Simulator
from support.certificates import Authority
from support.programs import Exporter, eventually
from trials.trial import POLL, POLL_SECONDS, Crew, Order, Row, lives

IDLE, TRICKLING, UNREADING, SCRAPERS = 500, 50, 10, 50
PATIENCE_SECONDS = 20.0
PROMPT_SECONDS = 10.0  # Prometheus' own limit of a scrape by default
PAUSE_SECONDS = 1.0  # between two scrapes of one scraper, on average
DESCRIPTORS = 4096
_HEAD = b"GET /metrics HTTP/1.1\r\nHost: trial\r\n"
_HELLO = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"  # the first bytes of a ClientHello of 512

MALFORMED: Sequence[bytes] = (
    b"\r\n\r\n\r\n",
    b"GET\r\n\r\n",
    b"\x00\xff\xfe\r\n\r\n",
    b"GET /metrics HTTP/9.9\r\nHost: trial\r\n\r\n",
    b"GET /metrics HTTP/1.1\r\n\r\n",
    _HEAD + b"Host: another\r\n\r\n",
    _HEAD + b"Content-Length: -1\r\n\r\n",
    _HEAD + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
    _HEAD + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    _HEAD + b"Transfer-Encoding: chunked\r\n\r\nZZZ\r\n",
    _HEAD + b"Bad Header: 1\r\n\r\n",
    _HEAD + b"X: a\r\n b\r\n\r\n",
    b"GET /../../etc/passwd HTTP/1.1\r\nHost: trial\r\n\r\n",
    b"GET /%00%ff HTTP/1.1\r\nHost: trial\r\n\r\n",
    b"CONNECT 127.0.0.1:1 HTTP/1.1\r\nHost: trial\r\n\r\n",
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    b"GET /metrics HTTP/1.1\nHost: trial\n\n",
)
OVERSIZED: Sequence[bytes] = (
    b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\nHost: trial\r\n\r\n",
    _HEAD + b"X: " + b"a" * 1_000_000 + b"\r\n\r\n",
    _HEAD + b"X: y\r\n" * 50_000 + b"\r\n",
    b"POST /metrics HTTP/1.1\r\nHost: trial\r\nContent-Length: 10000000\r\n\r\n" + b"b" * 10_000_000,
    b"x" * 2_000_000,
)


@dataclass
class Scrapes:
    """What the scrapers had: the seconds of each answer, and what went wrong."""

    seconds: list[float] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)

    @property
    def p99(self) -> float:
        """The 99th percentile, in milliseconds."""
        return quantiles(self.seconds, n=100)[98] * 1000


class Target:
    """An exporter that is troubled; with ``tls``, what scrapers trust."""

    def __init__(self, exporter: Exporter, stack: ExitStack, tls: ssl.SSLContext | None) -> None:
        self.exporter = exporter
        self.tls = tls
        self._stack = stack
        self._ending = threading.Event()
        self.sent: Counter[str] = Counter()

    def connect(
        self, data: bytes = b"", receive_buffer: int | None = None, *, encrypted: bool = False
    ) -> socket.socket:
        """Return a connection that stays until the end, and send ``data`` over it."""
        plain = socket.socket()
        if receive_buffer:
            plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        plain.settimeout(PATIENCE_SECONDS)
        plain.connect(("127.0.0.1", self.exporter.port))
        client = self.tls.wrap_socket(plain, server_hostname="localhost") if encrypted and self.tls else plain
        self._stack.callback(client.close)
        client.sendall(data)
        return client

    def trouble(self, chance: random.Random) -> None:
        """Bring all that stays."""
        for _ in range(UNREADING):
            self.connect(_HEAD + b"\r\n", 4096, encrypted=True)
        slow: list[socket.socket] = []
        for number in range(TRICKLING):
            # Under TLS half of them trickle in the handshake, half of them in a request.
            encrypted = self.tls is not None and number % 2 == 0
            start = _HELLO if self.tls and not encrypted else _HEAD + b"X-Slow: "
            slow.append(self.connect(start, encrypted=encrypted))
        for _ in range(IDLE):
            self.connect()
        self._in_background(lambda: self._trickle(slow))
        self._in_background(lambda: self._misbehave(chance))

    def ends(self) -> None:
        """Stop sending."""
        self._ending.set()

    def _in_background(self, work: Callable[[], None]) -> None:
        thread = threading.Thread(target=work, daemon=True)
        thread.start()
        self._stack.callback(thread.join, PATIENCE_SECONDS)
        self._stack.callback(self._ending.set)

    def _trickle(self, clients: list[socket.socket]) -> None:
        while not self._ending.wait(0.05):
            for client in tuple(clients):
                try:
                    client.send(b"x")
                    self.sent["bytes"] += 1
                except OSError:
                    client.close()
                    clients.remove(client)
            if len(clients) < TRICKLING:  # those that were cut off come again
                with contextlib.suppress(OSError):
                    clients.append(self.connect(_HELLO if self.tls else _HEAD))

    def _misbehave(self, chance: random.Random) -> None:
        while not self._ending.wait(chance.uniform(0, 0.05)):
            kind, parts = chance.choice([("malformed", MALFORMED), ("malformed", MALFORMED), ("oversized", OVERSIZED)])
            try:
                with self._one(encrypted=chance.random() < 0.8) as client:
                    client.sendall(chance.choice(parts))
                    if chance.random() < 0.7:
                        client.recv(4096)
            except OSError:
                pass  # cut off, as it deserves
            self.sent[kind] += 1

    @contextmanager
    def _one(self, *, encrypted: bool) -> Iterator[socket.socket]:
        with socket.create_connection(("127.0.0.1", self.exporter.port), PATIENCE_SECONDS) as plain:
            if encrypted and self.tls:
                with self.tls.wrap_socket(plain, server_hostname="localhost") as client:
                    yield client
            else:
                yield plain

    def scrape(self, seconds: float, seed: int) -> Scrapes:
        """Scrape from many clients at once; every fourth scrape opens a connection of its own."""
        scrapes, until = Scrapes(), time.monotonic() + seconds

        def one(number: int) -> None:
            chance = random.Random(seed + number)
            connection: http.client.HTTPConnection | None = None
            while time.monotonic() < until:
                time.sleep(chance.uniform(0, 2 * PAUSE_SECONDS))
                connection = connection or self._connection()
                begun = time.monotonic()
                try:
                    connection.request("GET", "/metrics")
                    answer = connection.getresponse()
                    body = answer.read()
                    assert answer.status == 200, answer.status
                    assert b"azure_scheduled_events_up 1" in body, body[:200]
                except (OSError, http.client.HTTPException, AssertionError) as error:
                    scrapes.failures.append(repr(error))
                else:
                    scrapes.seconds.append(time.monotonic() - begun)
                if chance.random() < 0.25 or scrapes.failures:
                    connection.close()
                    connection = None
            if connection:
                connection.close()

        with ThreadPoolExecutor(SCRAPERS) as pool:
            for done in [pool.submit(one, number) for number in range(SCRAPERS)]:
                done.result()
        return scrapes

    def _connection(self) -> http.client.HTTPConnection:
        port = self.exporter.port
        if self.tls is None:
            return http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_SECONDS)
        return http.client.HTTPSConnection("localhost", port, timeout=PATIENCE_SECONDS, context=self.tls)

    def polled(self) -> float:
        """Return how often it has polled, which only a scraper that trusts it can see."""
        connection = self._connection()
        connection.request("GET", "/metrics")
        text = connection.getresponse().read().decode()
        connection.close()
        return polls_in(text)


def polls_in(text: str) -> float:
    """Return the polls of an exposition."""
    lines = [line for line in text.splitlines() if line.startswith("azure_scheduled_events_polls_total{")]
    return sum(float(line.rpartition(" ")[2]) for line in lines)


def encrypted(folder: Path) -> tuple[Path, ssl.SSLContext]:
    """Return a web configuration with a certificate of ours, and what trusts it."""
    authority = Authority(folder)
    authority.server()
    file = folder / "web.yml"
    file.write_text("tls_server_config: {cert_file: server.pem, key_file: server.key}\n")
    return file, ssl.create_default_context(cafile=str(authority.own.certificate))


def suffers(name: str, order: Order, seconds: float) -> tuple[Scrapes, Counter[str]]:
    """Trouble one exporter for so many seconds."""
    folder = order.folder / name
    folder.mkdir()
    flags: tuple[str, ...] = POLL
    tls = None
    if name == "TLS":
        file, tls = encrypted(folder)
        flags = (*POLL, "--web.config.file", str(file))
    with Simulator() as simulator, Crew(folder) as crew:
        exporter = crew.start(simulator.url, *flags)
        process = psutil.Process(exporter.process.pid)
        with ExitStack() as stack:
            target = Target(exporter, stack, tls)
            eventually(lambda: target.polled() > 1, "polls")
            descriptors = process.num_fds()
            target.trouble(order.chance)
            before, begun = target.polled(), time.monotonic()
            scrapes = target.scrape(seconds, order.seed)
            polled, lasted = target.polled() - before, time.monotonic() - begun
            target.ends()
        assert not scrapes.failures, f"{name}: {len(scrapes.failures)} scrapes failed: {scrapes.failures[:3]}"
        assert max(scrapes.seconds) < PROMPT_SECONDS, f"{name}: a scrape took {max(scrapes.seconds):.1f} s"
        assert polled > 0.3 * lasted / POLL_SECONDS, f"{name}: {polled} polls in {lasted:.0f} s"
        lives(exporter)
        eventually(lambda: process.num_fds() <= descriptors + 2, f"{name}: the clients' descriptors freed")
        assert exporter.terminate() == 0
    return scrapes, target.sent


def run(order: Order) -> Row:
    """Trouble one exporter over HTTP, then one over TLS."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(most, DESCRIPTORS) if most > 0 else DESCRIPTORS, most))
    seconds = order.pick(60.0, 3.0)
    figures = []
    sent: Counter[str] = Counter()
    for name in ("HTTP", "TLS"):
        scrapes, more = suffers(name, order, seconds)
        sent += more
        said = f"{name}: {len(scrapes.seconds)} scrapes, all answered, p99 {scrapes.p99:.0f} ms, longest "
        figures.append(said + f"{max(scrapes.seconds) * 1000:.0f} ms")
        order.say(figures[-1])
    return Row(
        "clients",
        f"{TRICKLING} trickling, {IDLE} idle and {UNREADING} clients that never read, {sent['malformed']} malformed "
        f"and {sent['oversized']} oversized requests, over HTTP and over TLS (there half of the tricklers and the idle "
        f"in mid handshake), {seconds:g} s each, seed {order.seed}",
        f"{SCRAPERS} scrapers among them: {'; '.join(figures)}; polling went on, no descriptor was left open",
    )
