"""What the tests share whose exporter is polled by hand."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from azure_scheduled_events_exporter.simulator import Simulator
from support.events.machine import Machine


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    """A VM that has not started its exporter yet."""
    with ExitStack() as stack:
        yield Machine(
            stack.enter_context(Simulator(requests_per_second=1000)), tmp_path / "state", stack
        )
