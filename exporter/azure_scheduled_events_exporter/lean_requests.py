"""The requests library without the one that guesses encodings, which takes 2.8 MiB of a budget of 33.

Nothing here reads text whose encoding nobody names, and requests runs without a guesser by its own design; it then says
so in a warning, which would reach the user.
"""

import sys
import warnings

_GUESSERS = [name for name in ("chardet", "charset_normalizer") if name not in sys.modules]
sys.modules |= dict.fromkeys(_GUESSERS)  # type: ignore[arg-type]  # None is Python's word for "not installed"
try:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import requests
finally:
    for _name in _GUESSERS:
        del sys.modules[_name]

__all__ = ["requests"]
