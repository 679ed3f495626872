"""A port for a program that must be told its port before it starts."""

import contextlib
import random
import socket

_FIRST = 12_000
_LAST = 32_000
"""Below the ports that Linux gives to outgoing connections, which start at 32,768.

Such a port might be taken again before the program starts.
"""
_given: set[int] = set()
"""The ports that this process has asked for. Their programs may not have started yet."""


def free_port() -> int:
    """Return a random port of 127.0.0.1 on which nothing listens, another one at each call."""
    while True:
        port = random.randint(_FIRST, _LAST)  # noqa: S311 - no secret
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            if port not in _given:
                _given.add(port)
                return port
