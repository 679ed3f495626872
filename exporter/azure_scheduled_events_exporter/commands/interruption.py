"""Signals that end a command, as an exception, so that the command can clean up."""

import signal
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from types import FrameType
from typing import NoReturn

_NUMBERS = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]
"""The signals that end a command; Windows has no SIGHUP."""


class Interrupted(BaseException):
    """A signal stops this command. Not an Exception, so that no error handler catches it."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.exit_status = 128 + number


def interruptible() -> AbstractContextManager[None]:
    """Raise :class:`Interrupted` on signals that end a process, until :func:`ignore_signals` is called."""

    def interrupt(number: int, _: FrameType | None) -> NoReturn:
        raise Interrupted(number)

    return _handled(interrupt)


def ignore_signals() -> None:
    """Ignore these signals until the process ends: a late one must not change the exit status of what is done."""
    for number in _NUMBERS:
        signal.signal(number, signal.SIG_IGN)


def uninterrupted() -> AbstractContextManager[None]:
    """Ignore these signals during a cleanup."""
    return _handled(signal.SIG_IGN)


@contextmanager
def _handled(handler: Callable[[int, FrameType | None], object] | signal.Handlers) -> Iterator[None]:
    """Handle these signals by ``handler`` in the block; afterwards as before, unless they are ignored meanwhile."""
    before = {number: signal.signal(number, handler) for number in _NUMBERS}
    try:
        yield
    finally:
        for number, former in before.items():
            if signal.getsignal(number) == handler and former is not None:  # None: not set by Python
                signal.signal(number, former)
