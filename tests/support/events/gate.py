"""A proxy in front of a simulator: it refuses, loses or delays approvals as a test says."""

import json
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum, auto

from support.programs import PATIENCE, fetch
from support.servers.http_peer import HttpServer, Request, Response


class Way(Enum):
    """What becomes of an approval, if it is not answered with a status instead of IMDS."""

    PASS = auto()
    LOSE = auto()  # IMDS hears it, its answer is lost
    LATE = auto()  # IMDS hears it, its answer never comes
    HANG = auto()  # IMDS never hears it, and no answer comes


Treatment = Way | int
Rule = Treatment | Callable[[Sequence[str]], Treatment]
"""A callable decides by the EventIds of the approval."""


@dataclass(frozen=True)
class Arrival:
    """A request: when it came (seconds of the monotonic clock), at which path, and which events it
    was to approve.
    """

    at: float
    method: str
    path: str
    event_ids: tuple[str, ...] = ()
    treated: Treatment = Way.PASS


class Gate(HttpServer):
    """Forwards all requests to the simulator at ``target``, but for approvals, which it treats by
    the rules: one rule for each approval in turn; the last one stays.
    """

    def __init__(self, target: str, *rules: Rule) -> None:
        super().__init__()
        self.target = target
        self.rules = list(rules or [Way.PASS])
        self.arrivals: list[Arrival] = []
        self.lock = threading.Lock()

    def respond(self, request: Request) -> Response | None:
        """Apply the rule, and forward."""
        treated = self.take(request.method, request.path, request.body)
        if isinstance(treated, int):
            return Response(treated, b'{"error": "not today"}')
        answer = None
        if treated is not Way.HANG:
            headers = {"Metadata": "true", "Content_Type": "application/json"}
            answer = fetch(
                self.target + request.path, request.method, request.body or None, **headers
            )
        if treated in {Way.HANG, Way.LATE}:
            self.ending.wait(PATIENCE)
        return Response(answer.status, answer.body) if answer and treated is Way.PASS else None

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


class Nameless(Gate):
    """An IMDS that does not answer questions about the VM, and so not its name, until ``named`` is
    set.
    """

    named = False

    def take(self, method: str, path: str, body: bytes) -> Treatment:
        """Refuse what asks for the name."""
        treated = super().take(method, path, body)
        return treated if self.named or "/metadata/instance" not in path else 503


class HeldPolls(Gate):
    """An IMDS that can be made to answer no poll for a while."""

    def __init__(self, target: str, *rules: Rule) -> None:
        super().__init__(target, *rules)
        self._holds = threading.Event()
        self._go_on = threading.Event()
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
        """Hold a poll of the exporter during the block: its document is the one at the end of the
        block.
        """
        self._holds.clear()
        self._go_on.clear()
        try:
            assert self._holds.wait(PATIENCE), "no poll"
            yield
        finally:
            self._go_on.set()
