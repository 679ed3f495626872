"""Keeps every Python process of the tests away from the metadata address: any machine may have a
real one there.

Python imports this module by its name at start when its folder is on PYTHONPATH, so programs that
the tests start are guarded too.
"""

import sys

FORBIDDEN = "169.254.169.254"


def _guard(event: str, arguments: tuple[object, ...]) -> None:
    # The first two are the socket and the address, or the host's name and the port.
    if event in {"socket.connect", "socket.sendto", "socket.getaddrinfo"} and FORBIDDEN in repr(
        arguments[:2]
    ):
        raise PermissionError(f"a test tried to reach {FORBIDDEN}: name the simulator's endpoint")


sys.addaudithook(_guard)
