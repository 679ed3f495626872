"""Hostile clients, over HTTP and TLS, with and without users, and scrapers among them that are
answered in time.
"""

import base64
import gzip
import http.client
import json
import resource
import signal
import ssl
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median, quantiles

import bcrypt
import psutil

from azure_scheduled_events_exporter.simulator import Simulator
from support.events.imds_bodies import entry
from support.paths import TESTS
from support.programs import PATIENCE, Exporter, environment, eventually
from support.servers.certificates import Authority
from trials.trial import POLL, POLL_SECONDS, QUIET, Crew, Order, Row, lives

FULL = {
    "idle": 400,
    "slow": 200,
    "unread": 200,
    "pipelining": 100,
    "aborting": 50,
    "malformed": 50,
    "resetting": 5,
}
SHORT = {kind: max(1, count // 4) for kind, count in FULL.items()}
SCRAPERS = 10
PAUSE_SECONDS = 0.5
EVENTS = 100
PROMPT_SECONDS = 10.0  # Prometheus' default scrape timeout
P99_SECONDS = 1.0
ANSWERED = 0.99
LOG_BYTES = 10_000
STOP_SECONDS = 2.0
MEMORY_MIB = 100
TLS_MEMORY_MIB = 200
DESCRIPTORS = 4096
USER = "scraper"
PASSWORD = "secret"  # noqa: S105 - of a user that the trial makes
COMBINATIONS = ("HTTP", "HTTP with users", "TLS", "TLS with users")


@dataclass
class Scrapes:
    """What the scrapers got: the seconds of each answer, and what went wrong."""

    seconds: list[float] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)

    @property
    def p99(self) -> float:
        """The 99th percentile, in seconds."""
        return quantiles(self.seconds, n=100)[98]

    @property
    def answered(self) -> float:
        """The share of scrapes that were answered."""
        return len(self.seconds) / (len(self.seconds) + len(self.failures))


class Target:
    """An exporter under attack, and what a scraper needs to know of it."""

    def __init__(self, exporter: Exporter, name: str, authority: Path | None) -> None:
        self.exporter = exporter
        self.authority = authority
        self.user = USER if "users" in name else ""
        self._tls = ssl.create_default_context(cafile=str(authority)) if authority else None
        token = base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
        self._headers = {
            "Accept-Encoding": "gzip",
            **({"Authorization": f"Basic {token}"} if self.user else {}),
        }

    def scrape(self, *, path: str = "/metrics") -> bytes:
        """Return one body, over a connection of its own."""
        port = self.exporter.port
        connection = (
            http.client.HTTPSConnection("localhost", port, timeout=PATIENCE, context=self._tls)
            if self._tls
            else http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
        )
        try:
            connection.request("GET", path, headers=self._headers)
            answer = connection.getresponse()
            body = answer.read()
            assert answer.status == 200, answer.status
            return gzip.decompress(body) if answer.headers["content-encoding"] == "gzip" else body
        finally:
            connection.close()

    def polled(self) -> float:
        """Return how often it has polled."""
        outcomes = json.loads(self.scrape(path="/api/v1/events"))["polls"]["outcomes"]
        return float(sum(outcomes.values()))

    def scrapes(self, seconds: float) -> Scrapes:
        """Scrape from several clients at once."""
        scrapes = Scrapes()
        until = time.monotonic() + seconds
        ended = threading.Event()

        def one(number: int) -> None:
            ended.wait(number * PAUSE_SECONDS / SCRAPERS)
            while time.monotonic() < until:
                begun = time.monotonic()
                try:
                    self.scrape()
                except (OSError, http.client.HTTPException, AssertionError) as error:
                    scrapes.failures.append(repr(error))
                else:
                    scrapes.seconds.append(time.monotonic() - begun)
                ended.wait(PAUSE_SECONDS)

        with ThreadPoolExecutor(SCRAPERS) as pool:
            for done in [pool.submit(one, number) for number in range(SCRAPERS)]:
                done.result()
        return scrapes


@contextmanager
def crowd(target: Target, counts: dict[str, int], seed: int) -> Iterator[Counter[str]]:
    """Let hostile clients come, each kind again and again; afterwards the counter has their
    connections.
    """
    authority = str(target.authority or "")
    port = target.exporter.port
    user = target.user
    options = {"port": port, "authority": authority, "user": user, "seed": seed, "counts": counts}
    command = [sys.executable, "-m", "trials.load.crowd", json.dumps(options)]
    made: Counter[str] = Counter()
    pipe = subprocess.PIPE
    env = environment(PYTHONPATH=str(TESTS))
    with subprocess.Popen(
        command, stdin=pipe, stdout=pipe, cwd=TESTS, env=env, text=True
    ) as process:
        try:
            yield made
            made.update(json.loads(process.communicate("end\n", timeout=PATIENCE)[0]))
        finally:
            process.kill()


def configuration(folder: Path, name: str) -> tuple[tuple[str, ...], Path | None]:
    """Return the flags of the combination ``name``, and the authority that its scrapers trust."""
    text = ""
    authority = None
    if "TLS" in name:
        own = Authority(folder)
        own.server()
        authority = own.own.certificate
        text += "tls_server_config: {cert_file: server.pem, key_file: server.key}\n"
    if "users" in name:
        hashed = bcrypt.hashpw(PASSWORD.encode(), bcrypt.gensalt(10)).decode()
        text += f"basic_auth_users: {{{USER}: {hashed}}}\n"
    if not text:
        return POLL, None
    (folder / "web.yml").write_text(text)
    return (*POLL, "--web.config.file", str(folder / "web.yml")), authority


def events() -> list[dict[str, object]]:
    """Return the current events, which make the answers long."""
    due = "Mon, 19 Sep 2050 18:00:14 GMT"
    ids = (f"C7061BAC-AFDC-4513-B24B-{number:012X}" for number in range(EVENTS))
    return [
        entry(EventId=each, EventType="Freeze", Resources=["vmss_0"], NotBefore=due) for each in ids
    ]


def peak(exporter: Exporter) -> float:
    """Return the most memory that it has ever had resident, in MiB."""
    status = Path(f"/proc/{exporter.process.pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in status if line.startswith("VmHWM")) / 1024


def attack(
    name: str, order: Order, counts: dict[str, int], seconds: float
) -> tuple[str, Counter[str]]:
    """Attack one exporter for so many seconds; return its figures, and the connections of the
    crowd.
    """
    folder = order.folder / name.replace(" ", "-")
    folder.mkdir()
    flags, authority = configuration(folder, name)
    with Simulator(QUIET) as simulator, Crew(folder) as crew:
        simulator.set_document(events())
        exporter = crew.start(simulator.url, *flags)
        target = Target(exporter, name, authority)
        eventually(
            lambda: len(json.loads(target.scrape(path="/api/v1/events"))["events"]) == EVENTS,
            "the events",
        )
        before = target.polled()
        logged = len(exporter.log)
        begun = time.monotonic()
        with crowd(target, counts, order.seed) as made:
            scrapes = target.scrapes(seconds)
            memory = peak(exporter)
            polled = target.polled() - before
            lasted = time.monotonic() - begun
            lives(exporter)
            written = len(exporter.log) - logged
            busy = sum(psutil.Process(exporter.process.pid).cpu_times()[:2]) / (
                time.monotonic() - begun
            )
            exporter.process.send_signal(signal.SIGTERM)
            ending = time.monotonic()
            status = exporter.process.wait(PATIENCE)
            ending = time.monotonic() - ending
    figures = (
        f"{name}: {scrapes.answered:.1%} of {len(scrapes.seconds) + len(scrapes.failures)} scrapes"
        f" answered, p50 {median(scrapes.seconds) * 1000:.0f} ms, p99 {scrapes.p99 * 1000:.0f} ms,"
        f" longest {max(scrapes.seconds) * 1000:.0f} ms, at most {memory:.0f} MiB, {written} bytes"
        f" of log, SIGTERM {ending:.1f} s"
    )
    order.say(
        f"{figures}; {polled:.0f} polls in {lasted:.0f} s, {busy:.0%} of a processor; {dict(made)}"
    )
    assert status == 0, f"exit status {status}"
    assert scrapes.answered >= ANSWERED, (
        f"{len(scrapes.failures)} scrapes failed: {scrapes.failures[:3]}"
    )
    assert scrapes.p99 < P99_SECONDS or order.short, "scrapes were slow"
    assert max(scrapes.seconds) < PROMPT_SECONDS, "a scrape was too slow for Prometheus"
    assert polled > order.pick(0.3, 0.1) * lasted / POLL_SECONDS, "polls were delayed"
    assert memory < (TLS_MEMORY_MIB if authority else MEMORY_MIB), "it took too much memory"
    assert written < LOG_BYTES * max(1.0, lasted / 60), "it logged too much"
    assert ending < STOP_SECONDS or order.short, "SIGTERM took too long"
    return figures, made


def run(order: Order) -> Row:
    """Attack one exporter after another, each with another combination of TLS and users."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(
        resource.RLIMIT_NOFILE, (min(most, DESCRIPTORS) if most > 0 else DESCRIPTORS, most)
    )
    counts, seconds = (SHORT, 3.0) if order.short else (FULL, 20.0)
    figures = []
    connections: Counter[str] = Counter()
    for name in COMBINATIONS if not order.short else COMBINATIONS[::3]:
        said, made = attack(name, order, counts, seconds)
        connections += made
        figures.append(said)
    crowd_of = ", ".join(f"{count} {kind}" for kind, count in counts.items())
    return Row(
        "clients",
        f"{EVENTS} current events; {crowd_of} clients at a time, which connect again 1 to 10 s"
        f" after they are closed ({connections.total():,} connections), over HTTP and TLS, with and"
        f" without users, {seconds:g} s each, seed {order.seed}",
        f"{SCRAPERS} scrapers among them, a new connection for each scrape: {'; '.join(figures)}",
    )
