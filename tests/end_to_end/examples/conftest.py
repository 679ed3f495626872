"""What the tests of the example scripts share."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from azure_scheduled_events_exporter.simulator import Simulator
from support.example_scripts import QUIET, Stage
from support.programs import Exporter


@pytest.fixture
def stage(tmp_path: Path, start_exporter: Callable[..., Exporter]) -> Iterator[Stage]:
    """Return a stage on which nothing happens yet."""
    with ExitStack() as stack:
        # Exporter and scripts poll four times as fast as in life, so four times as many requests are admitted.
        simulator = stack.enter_context(Simulator(QUIET, requests_per_second=20))
        yield Stage(stack, tmp_path, simulator, start_exporter)
