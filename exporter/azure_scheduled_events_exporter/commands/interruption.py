"""Signals that end a command, as an exception, so that the command can clean up.

They are SIGINT, SIGTERM and SIGHUP, which Windows does not have. Only the main thread may call
these functions, because Python lets no other one set a handler.
"""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn

_SIGNALS = [
    getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)
]


class Interrupted(BaseException):
    """A signal stops this command. Not an Exception, so that no error handler catches it.

    Attributes:
        exit_status: what the command returns: 128 and the number of the signal.
    """

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.exit_status = 128 + number


@contextmanager
def interruptible() -> Iterator[None]:
    """Raise :class:`Interrupted` in the block at the first signal that ends a command.

    From then on, such signals are ignored, also after the block, so that they do not disturb the
    cleanup. Without a signal, the former handlers are set again at the end of the block.
    """
    before = {number: signal.signal(number, _interrupt) for number in _SIGNALS}
    try:
        yield
    finally:
        for number, former in before.items():
            was_no_signal = signal.getsignal(number) == _interrupt
            # A handler that Python has not set is None, and cannot be set again.
            if was_no_signal and former is not None:
                signal.signal(number, former)


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Let a signal that comes in the block take effect at its end.

    For steps that belong together, such as to start a process and to take note of it.
    """
    came: list[int] = []

    def note(number: int, _: FrameType | None) -> None:
        """Handle a signal by remembering it."""
        came.append(number)

    before = {number: signal.signal(number, note) for number in _SIGNALS}
    try:
        yield
    finally:
        for number, former in before.items():
            if former is not None:
                signal.signal(number, former)
        if came:
            signal.raise_signal(came[0])


def ignore_signals() -> None:
    """Ignore the signals that end a command until the process ends.

    A late one must not change the exit status of a command whose work is done.
    """
    for number in _SIGNALS:
        signal.signal(number, signal.SIG_IGN)


def _interrupt(number: int, _: FrameType | None) -> NoReturn:
    """Handle the first signal."""
    ignore_signals()
    raise Interrupted(number)
