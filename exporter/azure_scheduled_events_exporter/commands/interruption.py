"""Signals that end a command, as exceptions, so that the command can clean up."""

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any, NoReturn

_SIGNALS = ("SIGTERM", "SIGHUP")
"""Names of the signals that end a command, besides SIGINT (Ctrl-C). Windows has no SIGHUP."""


class Interrupted(BaseException):
    """A signal stops this command. Not an Exception, so that no error handler catches it."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.exit_status = 128 + number


@contextmanager
def interruptible() -> Iterator[None]:
    """Raise :class:`Interrupted` on signals that end a process."""

    def interrupt(number: int, _: FrameType | None) -> NoReturn:
        raise Interrupted(number)

    before = _handlers(interrupt)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Ignore these signals and Ctrl-C during a cleanup."""
    numbers = [getattr(signal, name) for name in (*_SIGNALS, "SIGINT") if hasattr(signal, name)]
    before = {number: signal.signal(number, signal.SIG_IGN) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            with suppress(TypeError):  # a handler that Python did not set
                signal.signal(number, handler)


def _handlers(handler: Callable[[int, FrameType | None], NoReturn]) -> dict[int, Any]:
    numbers = [getattr(signal, name) for name in _SIGNALS if hasattr(signal, name)]
    return {number: signal.signal(number, handler) for number in numbers}
