"""Waits for what another thread or process does."""

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

_Found = TypeVar("_Found")

_LOOK_SECONDS = 0.1
"""Time between two looks at what is waited for."""

_NOTICE_SECONDS = 5.0
"""Most waits take milliseconds. After this time, a person wants to know what the command does."""


def until(look: Callable[[], _Found], end: float) -> _Found:
    """Call ``look`` again and again; return its first true value.

    If there is none by the monotonic time ``end``, its last value is returned.
    """
    while not (found := look()) and time.monotonic() < end:
        time.sleep(_LOOK_SECONDS)
    return found


@contextmanager
def long_wait_noticed(text: str) -> Iterator[None]:
    """Print ``text`` to standard error once if the block takes longer than some seconds."""
    notice = threading.Timer(_NOTICE_SECONDS, print, [text], {"file": sys.stderr, "flush": True})
    notice.start()
    try:
        yield
    finally:
        notice.cancel()
