"""What the tests of commands share."""

from collections.abc import Iterator

import pytest

from azure_scheduled_events_exporter.simulator import Scenario, Simulator, VirtualMachine

QUIET = Scenario("quiet", "Nothing happens.", (VirtualMachine("vm_0"), VirtualMachine("vm_1")), ())


@pytest.fixture
def simulator() -> Iterator[Simulator]:
    """A simulator in which nothing happens by itself."""
    with Simulator(QUIET) as running:
        yield running
