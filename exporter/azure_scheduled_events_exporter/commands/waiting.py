"""Waits for what another thread or process does."""

import time
from collections.abc import Callable
from typing import TypeVar

_LOOK_SECONDS = 0.1
_Found = TypeVar("_Found")


def until(look: Callable[[], _Found], end: float) -> _Found:
    """Return the first true value of ``look``, or its last value at monotonic time ``end``."""
    while not (found := look()) and time.monotonic() < end:
        time.sleep(_LOOK_SECONDS)
    return found
