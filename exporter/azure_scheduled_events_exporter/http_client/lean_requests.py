"""The requests library, imported without two libraries that it does not need here, which take 4 MiB of memory.

- A guesser of text encodings, 3 MiB: nothing here reads text of unknown encoding, and requests supports running
  without one; its warning about that is suppressed.
- ``idna``, 0.9 MiB, for host names with letters outside ASCII: requests and urllib3 import it again when they meet such
  a name, and get it then.

This works only for the first import of requests in a process, which in the daemon is that of ``imds.client``.
"""

import sys
import warnings
from types import ModuleType

_LEFT_OUT = {
    name: module
    for name, module in {"chardet": None, "charset_normalizer": None, "idna": ModuleType("idna")}.items()
    if name not in sys.modules
}

sys.modules |= _LEFT_OUT  # type: ignore[arg-type]  # None means "not installed" to Python
try:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Unable to find acceptable character detection")
        import requests
finally:
    for _name in _LEFT_OUT:
        del sys.modules[_name]

__all__ = ["requests"]
