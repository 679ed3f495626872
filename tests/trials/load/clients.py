"""Hostile clients, over HTTP and TLS, with and without users, and scrapers among them that are
answered in time.
"""

import base64
import gzip
import http.client
import json
import resource
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
LOG_BYTES = 10_000  # in a minute
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

        def scrape_again_and_again(number: int) -> None:
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
            list(pool.map(scrape_again_and_again, range(SCRAPERS)))
        return scrapes


@contextmanager
def crowd(target: Target, counts: dict[str, int], seed: int) -> Iterator[Counter[str]]:
    """Let hostile clients come during the block, each kind again and again; after the block, the
    counter has how many connections each kind made.
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


@dataclass(frozen=True)
class Attacked:
    """What was measured of an exporter under attack.

    Attributes:
        scrapes: what its scrapers got.
        lasted: for how many seconds it was measured.
        polled: how many polls it made meanwhile.
        memory: the most memory that it had resident, in MiB.
        log_bytes: how much it logged.
        busy: the share of a processor that it used.
        exit_status: its status after SIGTERM, which comes while the clients still attack.
        stop_seconds: how long it took to end.
    """

    scrapes: Scrapes
    lasted: float
    polled: float
    memory: float
    log_bytes: int
    busy: float
    exit_status: int
    stop_seconds: float


def measure(target: Target, seconds: float) -> Attacked:
    """Scrape for so many seconds, and then end the exporter."""
    exporter = target.exporter
    polled_before = target.polled()
    logged_before = len(exporter.log)
    began = time.monotonic()
    scrapes = target.scrapes(seconds)
    memory = peak(exporter)
    polled = target.polled() - polled_before
    lasted = time.monotonic() - began
    lives(exporter)
    log_bytes = len(exporter.log) - logged_before
    times = psutil.Process(exporter.process.pid).cpu_times()
    busy = (times.user + times.system) / (time.monotonic() - began)
    stopping = time.monotonic()
    status = exporter.terminate()
    stopped = time.monotonic() - stopping
    return Attacked(scrapes, lasted, polled, memory, log_bytes, busy, status, stopped)


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
        target = Target(crew.start(simulator.url, *flags), name, authority)
        eventually(
            lambda: len(json.loads(target.scrape(path="/api/v1/events"))["events"]) == EVENTS,
            "the events",
        )
        with crowd(target, counts, order.seed) as connections:
            found = measure(target, seconds)
    figures = f"{name}: {figures_of(found)}"
    order.say(
        f"{figures}; {found.polled:.0f} polls in {found.lasted:.0f} s, {found.busy:.0%} of a"
        f" processor; {dict(connections)}"
    )
    check(found, order, TLS_MEMORY_MIB if authority else MEMORY_MIB)
    return figures, connections


def figures_of(found: Attacked) -> str:
    """Return what was measured, for people."""
    scrapes = found.scrapes
    return (
        f"{scrapes.answered:.1%} of {len(scrapes.seconds) + len(scrapes.failures)} scrapes"
        f" answered, p50 {median(scrapes.seconds) * 1000:.0f} ms, p99 {scrapes.p99 * 1000:.0f} ms,"
        f" longest {max(scrapes.seconds) * 1000:.0f} ms, at most {found.memory:.0f} MiB,"
        f" {found.log_bytes} bytes of log, SIGTERM {found.stop_seconds:.1f} s"
    )


def check(found: Attacked, order: Order, most_memory: int) -> None:
    """Scrapers were answered in time, polls went on, and memory and log stayed small."""
    scrapes = found.scrapes
    assert found.exit_status == 0, f"exit status {found.exit_status}"
    assert scrapes.answered >= ANSWERED, (
        f"{len(scrapes.failures)} scrapes failed: {scrapes.failures[:3]}"
    )
    assert scrapes.p99 < P99_SECONDS or order.short, "scrapes were slow"
    assert max(scrapes.seconds) < PROMPT_SECONDS, "a scrape was too slow for Prometheus"
    polls_in_time = order.pick(0.3, 0.1) * found.lasted / POLL_SECONDS
    assert found.polled > polls_in_time, "polls were delayed"
    assert found.memory < most_memory, "it took too much memory"
    assert found.log_bytes < LOG_BYTES * max(1.0, found.lasted / 60), "it logged too much"
    assert found.stop_seconds < STOP_SECONDS or order.short, "SIGTERM took too long"


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
