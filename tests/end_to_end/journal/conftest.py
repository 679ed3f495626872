"""What the tests of a running exporter's journal share: a simulator, exporters and followers on one
journal.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from azure_scheduled_events_exporter.simulator import Simulator
from support.events.follower import FAST, Follower
from support.events.journal_contents import vm
from support.programs import Exporter


@pytest.fixture
def simulator() -> Iterator[Simulator]:
    """Return a simulator whose events are placed by hand."""
    with Simulator(vm()) as simulator:
        yield simulator


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """Return the folder of the journal."""
    return tmp_path / "state"


@pytest.fixture
def run(
    state: Path, simulator: Simulator, start_exporter: Callable[..., Exporter]
) -> Callable[..., Exporter]:
    """Start exporters that keep a journal, and wait until each has polled."""

    def start(*flags: str, url: str = "", path: Path = state, **env: str) -> Exporter:
        exporter = start_exporter(
            url or simulator.url, *FAST, "--journal.path", str(path), *flags, **env
        )
        exporter.shows("a poll", lambda scrape: scrape.value("up"))
        return exporter

    return start


@pytest.fixture
def follow(simulator: Simulator, state: Path, tmp_path: Path) -> Iterator[Callable[..., Follower]]:
    """Start followers, ``follow(*flags)``, that end with the test."""
    with ExitStack() as stack:
        count = 0

        def start(*flags: str) -> Follower:
            nonlocal count
            count += 1
            return stack.enter_context(
                Follower(simulator.url, state, tmp_path / f"follower-{count}", *flags)
            )

        yield start
