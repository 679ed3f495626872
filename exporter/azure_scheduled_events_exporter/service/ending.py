"""What signals do: end the process, within two seconds whatever hangs.

Knows no part of the exporter, and must not log: the log may be what hangs.
"""

import asyncio
import contextlib
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from queue import SimpleQueue
from types import FrameType

LONGEST_SECONDS = 1.9
"""The process exits at most so long after a signal, even if one of its threads hangs."""

_ENDING = ("SIGTERM", "SIGINT", "SIGBREAK")  # the last one ends a service on Windows
_WITHOUT_EFFECT = ("SIGUSR1", "SIGUSR2")  # by default, they kill a process

Handler = Callable[[int, FrameType | None], None]


class Ending:
    """Handles the signals: SIGTERM and SIGINT end the process, SIGHUP calls ``hung_up``.

    SIGHUP ends the process too if it comes because the terminal of the process is gone.

    The handlers are installed with Python's ``signal``, so they work from the start on, before an
    event loop runs, and also while a callback blocks the loop. Without a handler, the first process
    of a container would not end by a signal at all: the kernel has no default action for it.

    Attributes:
        status: the exit status of the process.
        hung_up: answers SIGHUP; runs in the event loop.
    """

    def __init__(self) -> None:
        self.status = 0
        self.hung_up: Callable[[], None] = lambda: None
        self._has_terminal = os.isatty(0)  # at the start
        self._loop: asyncio.AbstractEventLoop | None = None
        self._begun: asyncio.Event | None = None
        # Has an item once the end has begun. A signal may come while another one is handled, and
        # this queue allows that.
        self._begins: SimpleQueue[None] = SimpleQueue()

    @contextlib.contextmanager
    def on_signals(self) -> Iterator[None]:
        """During the block, a signal ends the process.

        Before :meth:`attach`, a signal raises SystemExit in the main thread; after it, a signal
        ends :meth:`wait`.
        """
        handlers: dict[str, Handler] = dict.fromkeys(_ENDING, self._signalled)
        # Not SIG_IGN: programs that this process starts would inherit it.
        handlers |= dict.fromkeys(_WITHOUT_EFFECT, lambda *_: None)
        handlers["SIGHUP"] = self._hung_up
        before = {}
        for name, handler in handlers.items():
            number = getattr(signal, name, None)
            if number is not None:  # each platform lacks some of them
                before[number] = signal.signal(number, handler)
        try:
            yield
        finally:
            for number, earlier in before.items():
                signal.signal(number, earlier)

    def attach(self) -> None:
        """From now on, a signal ends :meth:`wait` in the running event loop.

        Raises:
            RuntimeError: the system does not allow another thread.
        """
        # Started now, because at the limit of the unit's tasks, no thread could be started later.
        threading.Thread(target=self._exit_when_late, name="ending", daemon=True).start()
        self._begun = asyncio.Event()
        self._loop = asyncio.get_running_loop()

    async def wait(self) -> None:
        """Wait until a signal or :meth:`fail` begins the end. Call :meth:`attach` first."""
        assert self._begun is not None  # noqa: S101 - attached
        await self._begun.wait()

    def fail(self) -> None:
        """Begin the end, with status 1. Any thread may call."""
        self.status = 1
        self.begin()

    def begin(self) -> None:
        """Begin the end: from now on the process has :data:`LONGEST_SECONDS`.

        Any thread may call. Call :meth:`attach` first.
        """
        self._begins.put(None)
        if self._loop is not None and self._begun is not None:
            with contextlib.suppress(RuntimeError):  # the loop is closed: the end is nearly over
                self._loop.call_soon_threadsafe(self._begun.set)

    def _exit_when_late(self) -> None:
        """Exit :data:`LONGEST_SECONDS` after the end has begun. A thread runs this.

        Nothing cancels it, because a thread can delay the exit of the interpreter.
        """
        self._begins.get()
        time.sleep(LONGEST_SECONDS)
        os._exit(self.status)

    def _signalled(self, _number: int, _frame: FrameType | None) -> None:
        """End the process: at once if no event loop runs yet, otherwise in its loop."""
        if self._loop is None:
            sys.exit(self.status)
        self.begin()

    def _hung_up(self, number: int, frame: FrameType | None) -> None:
        """End the process if its terminal is gone, else let the event loop call ``hung_up``."""
        if self._has_terminal and not os.isatty(0):  # the terminal is gone
            self._signalled(number, frame)
        elif self._loop is not None:
            with contextlib.suppress(RuntimeError):  # the loop is closed: the end is nearly over
                self._loop.call_soon_threadsafe(self.hung_up)
