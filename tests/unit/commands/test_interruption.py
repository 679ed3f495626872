"""Signals that end a command."""

import os
import signal
from collections.abc import Iterator

import pytest

from azure_scheduled_events_exporter.commands.interruption import (
    Interrupted,
    interruptible,
    uninterrupted,
)

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
    """A signal ends the command with the status that a shell expects, 128 and the signal's number,
    and no later signal disturbs its cleanup.
    """
    with interruptible(), pytest.raises(Interrupted) as caught:
        os.kill(os.getpid(), number)
    os.kill(os.getpid(), signal.SIGTERM)  # is ignored, as the command has been interrupted
    assert caught.value.exit_status == 128 + number


@pytest.mark.usefixtures("handlers_of_pytest")
def test_steps_that_belong_together() -> None:
    """A signal between two steps that belong together ends the command after the second one."""
    done: list[str] = []
    with pytest.raises(Interrupted):
        interrupted_between_two_steps(done)
    assert done == ["first", "second"]


def interrupted_between_two_steps(done: list[str]) -> None:
    """Get a signal after the first of two steps that belong together; a third one would follow."""
    with interruptible():
        with uninterrupted():
            done.append("first")
            os.kill(os.getpid(), signal.SIGTERM)
            done.append("second")
        done.append("third")
