"""Signals that end a command, as an exception, so that the command can clean up."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn

_NUMBERS = [
    getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)
]
"""The signals that end a command; Windows has no SIGHUP."""


class Interrupted(BaseException):
    """A signal stops this command. Not an Exception, so that no error handler catches it."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.exit_status = 128 + number


@contextmanager
def interruptible() -> Iterator[None]:
    """Raise :class:`Interrupted` in the block at the first of these signals.

    Later ones do not disturb the cleanup: they are ignored from then on, also after the block.
    """
    before = {number: signal.signal(number, _interrupt) for number in _NUMBERS}
    try:
        yield
    finally:
        for number, former in before.items():
            # A handler that Python has not set is None, and cannot be set again.
            if signal.getsignal(number) == _interrupt and former is not None:
                signal.signal(number, former)


def ignore_signals() -> None:
    """Ignore these signals until the process ends.

    A late one must not change the exit status of what is done.
    """
    for number in _NUMBERS:
        signal.signal(number, signal.SIG_IGN)


def _interrupt(number: int, _: FrameType | None) -> NoReturn:
    ignore_signals()
    raise Interrupted(number)
