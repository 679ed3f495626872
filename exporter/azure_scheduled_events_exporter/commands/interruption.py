"""Signals that end a command, as exceptions, so that the command can clean up."""

import signal
from collections.abc import Callable, Iterator, Mapping
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
    """Raise :class:`Interrupted` on signals that end a process, until :func:`ignore_signals` is called."""

    def interrupt(number: int, _: FrameType | None) -> NoReturn:
        raise Interrupted(number)

    before = _handlers(interrupt)
    try:
        yield
    finally:
        for number, handler in before.items():
            if signal.getsignal(number) is interrupt:
                signal.signal(number, handler)


@contextmanager
def interrupted_afterwards() -> Iterator[None]:
    """Delay these signals and Ctrl-C until the block ends, so that the command knows whether it did its work.

    If the block fails, its error ends the command, and signals that came are forgotten.
    """
    held: list[int] = []
    before = {number: signal.signal(number, lambda number, _: held.append(number)) for number in _numbers()}
    try:
        yield
    finally:
        _restore(before)
    for number in held:  # the first one that is not ignored ends this
        signal.raise_signal(number)


def ignore_signals() -> dict[int, Any]:
    """Ignore these signals and Ctrl-C; return the handlers that were set.

    A command whose result is final calls this, so that its exit status reports that result and no late signal.
    """
    return {number: signal.signal(number, signal.SIG_IGN) for number in _numbers()}


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Ignore these signals and Ctrl-C during a cleanup."""
    before = ignore_signals()
    try:
        yield
    finally:
        _restore(before)


def _numbers() -> list[int]:
    return [getattr(signal, name) for name in (*_SIGNALS, "SIGINT") if hasattr(signal, name)]


def _restore(handlers: Mapping[int, Any]) -> None:
    for number, handler in handlers.items():
        with suppress(TypeError):  # a handler that Python did not set
            signal.signal(number, handler)


def _handlers(handler: Callable[[int, FrameType | None], NoReturn]) -> dict[int, Any]:
    numbers = [getattr(signal, name) for name in _SIGNALS if hasattr(signal, name)]
    return {number: signal.signal(number, handler) for number in numbers}
