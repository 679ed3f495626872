"""A host at its limit of tasks."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def no_more_threads() -> Iterator[None]:
    """Within the block this process starts no thread, as at the limit of tasks: there is no space
    for the stack of one.
    """
    before = threading.stack_size(1 << 47)
    try:
        yield
    finally:
        threading.stack_size(before)
