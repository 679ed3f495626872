"""How many requests a VM may send: five in any second, as IMDS has it. Pure: the moment is handed in."""

from collections import deque
from typing import Final

REQUESTS_PER_SECOND: Final = 5
REFUSAL: Final = b"Throttle Result: Too Many Requests"


class Throttle:
    """The requests admitted for one VM during the last second, up to ``limit``; refused ones do not count."""

    __slots__ = ("_admitted",)

    def __init__(self, limit: int = REQUESTS_PER_SECOND) -> None:
        self._admitted: deque[float] = deque(maxlen=limit)

    def admits(self, now: float) -> bool:
        """Return whether a request at ``now`` (seconds) is answered, and count it when it is."""
        if len(self._admitted) == self._admitted.maxlen and now - self._admitted[0] < 1:
            return False
        self._admitted.append(now)
        return True
