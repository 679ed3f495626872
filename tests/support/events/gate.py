"""A proxy in front of a simulator that refuses, loses or delays approvals on the command of a test."""

import json
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum, auto
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Self

from support.programs import PATIENCE


class Way(Enum):
    """What becomes of an approval, if it is not answered with a status instead of IMDS."""

    PASS = auto()
    LOSE = auto()  # IMDS hears it, its answer is lost
    LATE = auto()  # IMDS hears it, its answer never comes
    HANG = auto()  # IMDS never hears it, and no answer comes


Treatment = Way | int
Rule = Treatment | Callable[[Sequence[str]], Treatment]


@dataclass(frozen=True)
class Arrival:
    """A request: when it came (seconds of the monotonic clock), at which path, and which events it was to approve."""

    at: float
    method: str
    path: str
    event_ids: tuple[str, ...] = ()
    treated: Treatment = Way.PASS


class Gate:
    """Listens on a free port of 127.0.0.1 and forwards to ``target``; a context manager.

    The rules are for one approval each; the last one stays.
    """

    def __init__(self, target: str, *rules: Rule) -> None:
        self.target = target
        self.rules = list(rules or [Way.PASS])
        self.arrivals: list[Arrival] = []
        self.ending = threading.Event()
        self.lock = threading.Lock()
        self._server = _Server(self)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.ending.set()
        self._server.shutdown()
        self._server.server_close()

    def treat(self, *rules: Rule) -> None:
        """Treat the next approvals like this; the last rule stays."""
        with self.lock:
            self.rules = list(rules)

    @property
    def posts(self) -> list[Arrival]:
        """The approvals that came."""
        return [arrival for arrival in list(self.arrivals) if arrival.method == "POST"]

    def most_in_a_second(self) -> int:
        """Return how many requests came in the busiest second."""
        times = sorted(arrival.at for arrival in self.arrivals)
        return max(sum(begin <= at < begin + 1 for at in times) for begin in times)

    def take(self, method: str, path: str, body: bytes) -> Treatment:
        """Take note of a request and return how to treat it."""
        with self.lock:
            if method != "POST":
                self.arrivals.append(Arrival(time.monotonic(), method, path))
                return Way.PASS
            event_ids = tuple(entry["EventId"] for entry in json.loads(body)["StartRequests"])
            rule = self.rules[0] if len(self.rules) == 1 else self.rules.pop(0)
            treated = rule(event_ids) if callable(rule) else rule
            self.arrivals.append(Arrival(time.monotonic(), method, path, event_ids, treated))
            return treated


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, gate: Gate) -> None:
        self.gate = gate
        super().__init__(("127.0.0.1", 0), _Handler)

    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing of clients that were killed."""
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)  # type: ignore[arg-type] # handed on as they come


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        """Forward a request."""
        self._handle(b"")

    def do_POST(self) -> None:
        """Apply the gate's rule."""
        self._handle(self.rfile.read(int(self.headers["Content-Length"])))

    def _handle(self, body: bytes) -> None:
        gate = self.server.gate
        treated = gate.take(self.command, self.path, body)
        if isinstance(treated, int):
            self._answer(treated, b'{"error": "not today"}')
            return
        answer = (0, b"") if treated is Way.HANG else self._hand_on(body)
        if treated in {Way.HANG, Way.LATE}:
            gate.ending.wait(PATIENCE)
        if treated is Way.PASS:
            self._answer(*answer)
        else:
            self.close_connection = True

    def _hand_on(self, body: bytes) -> tuple[int, bytes]:
        url = self.server.gate.target + self.path
        headers = {"Metadata": "true", "Content-Type": "application/json"}
        request = urllib.request.Request(url, body or None, headers, method=self.command)  # noqa: S310 - http only
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            with opener.open(request, timeout=PATIENCE) as response:
                return response.status, response.read()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read()

    def _answer(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class calls it so
        """Say nothing."""


class Nameless(Gate):
    """An IMDS that does not answer a VM's name until it is ``named``."""

    named = False

    def take(self, method: str, path: str, body: bytes) -> Treatment:
        """Refuse what asks for the name."""
        treated = super().take(method, path, body)
        return treated if self.named or "/metadata/instance" not in path else 503


class HeldPolls(Gate):
    """An IMDS that can be made to answer no poll for a while."""

    def __init__(self, target: str, *rules: Rule) -> None:
        super().__init__(target, *rules)
        self._holds, self._go_on = threading.Event(), threading.Event()
        self._go_on.set()

    def take(self, method: str, path: str, body: bytes) -> Treatment:
        """Hold a poll back."""
        treated = super().take(method, path, body)
        if method == "GET" and "scheduledevents" in path and not self._go_on.is_set():
            self._holds.set()
            self._go_on.wait(PATIENCE)
        return treated

    @contextmanager
    def held(self) -> Iterator[None]:
        """Hold a poll of the exporter during the block: its document is the one at the end of the block."""
        self._holds.clear()
        self._go_on.clear()
        try:
            assert self._holds.wait(PATIENCE), "no poll"
            yield
        finally:
            self._go_on.set()
