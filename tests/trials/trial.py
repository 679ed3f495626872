"""What all trials share: their parameters, their results, and the exporters under test."""

import random
import sys
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self, TypeVar

import pytest

from azure_scheduled_events_exporter.simulator import Scenario, VirtualMachine
from support.programs import PATIENCE, Exporter, Program, Scrape, eventually

FAILURES = (Exception, pytest.fail.Exception)
"""What ends a trial; the last is what waiting in vain raises."""

VMS = (VirtualMachine("vmss_0", scale_set="vmss"), VirtualMachine("vmss_1", scale_set="vmss"))
QUIET = Scenario("quiet", "Nothing happens by itself.", VMS, ())
POLL_SECONDS = 0.3
POLL = ("--poll.interval", "300ms")
"""The least that four requests a second allow."""

_Size = TypeVar("_Size", int, float)


@dataclass(frozen=True, slots=True)
class Row:
    """A trial as a row of docs/fault-injection.md: its name, what was done, and the result."""

    name: str
    what: str
    result: str

    def __str__(self) -> str:
        return f"| {self.name} | {self.what} | {self.result} |"


@dataclass(frozen=True, slots=True)
class Order:
    """How a trial is to run.

    Attributes:
        short: whether seconds must do, as in CI.
        minutes: how long a trial that lasts as long as one likes is to last.
        seed: of all that is left to chance.
        folder: for its files.
        say: prints progress for people.
    """

    short: bool
    minutes: float
    seed: int
    folder: Path
    say: Callable[[str], None]
    chance: random.Random = field(default_factory=random.Random)

    def pick(self, full: _Size, short: _Size) -> _Size:
        """Return the size of this run."""
        return short if self.short else full


class Crew:
    """Starts exporters that end with the trial, none of which may crash; a context manager.

    If the trial fails, it prints their warnings and errors, and the end of what they logged.
    """

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._stack = ExitStack()
        self._count = 0
        self._lock = threading.Lock()
        self._logs: list[Path] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._stack.close()
        for path in self._logs:
            log = path.read_text(errors="replace")
            if kind is not None:
                loud = [
                    line
                    for line in log.splitlines()
                    if "level=error" in line or "level=warning" in line
                ]
                print(
                    f"{path.name}:", *loud, "It ends with:", log[-4000:], sep="\n", file=sys.stderr
                )
            else:
                assert "Traceback" not in log, f"it failed in itself:\n{log[-4000:]}"

    def start(self, endpoint: str, *flags: str, **env: str) -> Exporter:
        """Start one, with its output in a file of its own."""
        with self._lock:
            self._count += 1
            path = self._folder / f"exporter-{self._count}.log"
            self._logs.append(path)
        exporter = Exporter(endpoint, path, *flags, **env)
        with self._lock:
            return self._stack.enter_context(exporter)


class Watch:
    """Scrapes an exporter again and again from a thread of its own; a context manager.

    Leaving it fails if a scrape was not answered, or if ``look``, called with the moment (monotonic
    clock, before the scrape) and the scrape, failed.
    """

    def __init__(
        self,
        exporter: Exporter,
        look: Callable[[float, Scrape], None] = lambda _at, _scrape: None,
        pause: float = 0.25,
    ) -> None:
        self._exporter = exporter
        self._look = look
        self._pause = pause
        self._ending = threading.Event()
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.answered = 0

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._ending.set()
        self._thread.join(2 * PATIENCE)
        if kind is None:
            self.check()

    def check(self) -> None:
        """Fail as leaving does."""
        if self._failure is not None:
            raise AssertionError(
                f"after {self.answered} scrapes: {self._failure}"
            ) from self._failure

    def _run(self) -> None:
        try:
            while not self._ending.wait(self._pause):
                at = time.monotonic()
                scrape = self._exporter.scrape()
                self.answered += 1
                self._look(at, scrape)
        except FAILURES as failure:
            self._failure = failure


def lives(program: Program) -> None:
    """Fail if the program has ended."""
    assert program.process.poll() is None, (
        f"it ended with {program.process.returncode}:\n{program.log[-4000:]}"
    )


def polls(scrape: Scrape) -> float:
    """Return how many polls there were, well or ill."""
    return scrape.total("polls_total")


def polls_on(exporter: Exporter, count: int) -> None:
    """Wait until it has polled so often again."""
    before = polls(exporter.scrape())
    exporter.shows(f"{count} more polls", lambda now: polls(now) >= before + count)


def passes(seconds: float) -> None:
    """Let time pass."""
    until = time.monotonic() + seconds
    eventually(lambda: time.monotonic() >= until, "the moment", seconds + PATIENCE)
