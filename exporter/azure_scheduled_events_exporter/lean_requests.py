"""The requests library, imported without the library that guesses text encodings, which takes 3 MiB of memory.

Nothing here reads text of unknown encoding, and requests supports running without a guesser; its warning about that
is suppressed. This works only for the first import of requests in a process, which in the daemon is that of
``imds.client``.
"""

import sys
import warnings

_GUESSERS = [name for name in ("chardet", "charset_normalizer") if name not in sys.modules]

sys.modules |= dict.fromkeys(_GUESSERS)  # type: ignore[arg-type]  # None means "not installed" to Python
try:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Unable to find acceptable character detection")
        import requests
finally:
    for _name in _GUESSERS:
        del sys.modules[_name]

__all__ = ["requests"]
