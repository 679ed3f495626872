"""What the tests of the command ``approve`` share."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from azure_scheduled_events_exporter.simulator import Simulator
from support.events.approve_command import group


@pytest.fixture
def simulator() -> Iterator[Simulator]:
    """Return a simulator of the group; nothing begins for an hour after its approval."""
    with Simulator(group()) as simulator:
        yield simulator


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """Return the folder of the journal."""
    return tmp_path / "state"
