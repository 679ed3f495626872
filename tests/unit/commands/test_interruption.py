"""Signals that end a command."""

import os
import signal
from collections.abc import Iterator

import pytest

from azure_scheduled_events_exporter.commands.interruption import Interrupted, interruptible

SIGNALS = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)


@pytest.fixture
def handlers_of_pytest() -> Iterator[None]:
    """Restore the handlers of signals after the test."""
    handlers = {number: signal.getsignal(number) for number in SIGNALS}
    yield
    for number, handler in handlers.items():
        signal.signal(number, handler)


@pytest.mark.usefixtures("handlers_of_pytest")
@pytest.mark.parametrize("number", SIGNALS)
def test_signals(number: int) -> None:
    """A signal ends the command with the status that a shell expects, and no later one disturbs its
    cleanup.
    """
    with interruptible(), pytest.raises(Interrupted) as caught:
        os.kill(os.getpid(), number)
    os.kill(os.getpid(), signal.SIGTERM)  # a later one, which is ignored
    assert caught.value.exit_status == 128 + number
