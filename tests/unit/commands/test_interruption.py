"""Signals that end a command."""

import os
import signal

import pytest

from azure_scheduled_events_exporter.commands.interruption import Interrupted, interruptible, uninterrupted


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_signals(number: int) -> None:
    """A signal ends the command with the status that a shell expects, but not during its cleanup."""
    with interruptible():
        with uninterrupted():
            os.kill(os.getpid(), number)
        with pytest.raises(Interrupted) as caught:
            os.kill(os.getpid(), number)
    assert caught.value.exit_status == 128 + number
