"""The program on a host in FIPS mode: ``python fips_mode.py COMMAND [ARGUMENT…]``.

Hashes that such a host's OpenSSL refuses raise what they raise there (RHEL 9: ``blake2b``,
``blake2s``, ``md5`` and ``sha1``), and TLS has no ChaCha20. The standard library's own copies of
these hashes are refused too, as in RHEL's Python.
"""

import hashlib
import hmac
import ssl
import sys
from collections.abc import Callable
from typing import Any, NoReturn

REFUSED = ("blake2b", "blake2s", "md5", "sha1")


def _refuse(*_: object, **__: object) -> NoReturn:
    raise ValueError("[digital envelope routines: EVP_DigestInit_ex] disabled for FIPS")


def _by_name(known: Callable[..., Any]) -> Callable[..., Any]:
    """Return ``known``, which is given a hash by its name, as such a host has it."""

    def function(*arguments: Any, **more: Any) -> Any:
        for each in (*arguments, *more.values()):
            if isinstance(each, str) and each.lower() in REFUSED:
                _refuse()
        return known(*arguments, **more)

    return function


def enter() -> None:
    """Make this process one of such a host."""
    for name in REFUSED:
        setattr(hashlib, name, _refuse)
    hashlib.new = _by_name(hashlib.new)
    hmac.new = _by_name(hmac.new)
    hmac.digest = _by_name(hmac.digest)
    usual = ssl.SSLContext.set_ciphers

    def set_ciphers(context: ssl.SSLContext, names: str) -> None:
        permitted = [name for name in names.split(":") if "CHACHA20" not in name]
        if not permitted:
            raise ssl.SSLError("No cipher can be selected.")
        usual(context, ":".join(permitted))

    ssl.SSLContext.set_ciphers = set_ciphers  # type: ignore[method-assign]


if __name__ == "__main__":
    enter()
    from azure_scheduled_events_exporter.commands.cli import main

    sys.exit(main(sys.argv[1:]))
