"""Signals that come during a step that must be whole."""

import os
import signal

import pytest

from azure_scheduled_events_exporter.commands.interruption import Interrupted, interrupted_afterwards, interruptible


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_signal_during_a_step(number: int) -> None:
    """A signal ends the command after the step, whose result is known then."""
    result = ""
    with interruptible(), pytest.raises(Interrupted), interrupted_afterwards():  # noqa: PT012 - it goes on after the signal
        os.kill(os.getpid(), number)
        result = "written"
    assert result == "written"


def test_step_without_a_signal() -> None:
    """After the step, signals end the command at once, as before."""
    with interruptible():
        with interrupted_afterwards():
            pass
        with pytest.raises(Interrupted) as caught:
            os.kill(os.getpid(), signal.SIGTERM)
    assert caught.value.exit_status == 143
