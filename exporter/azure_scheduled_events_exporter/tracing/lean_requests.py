"""The requests library without the one that guesses encodings, which takes 2.8 MiB of a budget of 38.

OpenTelemetry's exporter brings requests. Nothing here reads text whose encoding nobody names, and requests runs without
a guesser by its own design; it then says so in a warning, which would reach the user.
"""

import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def no_guessers() -> Iterator[None]:
    """Let what is imported here find no guesser of encodings. Not for threads that import at the same time."""
    names = [name for name in ("chardet", "charset_normalizer") if name not in sys.modules]
    sys.modules |= dict.fromkeys(names)  # type: ignore[arg-type]  # None is Python's word for "not installed"
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Unable to find acceptable character detection")
            yield
    finally:
        for name in names:
            del sys.modules[name]
