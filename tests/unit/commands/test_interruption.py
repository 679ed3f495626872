"""Signals that end a command."""

import os
import signal

import pytest

from azure_scheduled_events_exporter.commands.interruption import Interrupted, interruptible


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_signals(number: int) -> None:
    """A signal ends the command with the status that a shell expects, and no later one disturbs its
    cleanup.
    """
    handlers = {
        each: signal.getsignal(each) for each in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)
    }
    with interruptible(), pytest.raises(Interrupted) as caught:
        os.kill(os.getpid(), number)
    os.kill(os.getpid(), signal.SIGTERM)  # a later one, which is ignored
    for each, handler in handlers.items():
        signal.signal(each, handler)
    assert caught.value.exit_status == 128 + number
