"""The limit on requests to IMDS that all parts of the process share.

Reads no clock: times are arguments, in seconds of the monotonic clock.

IMDS answers 429 to more than 5 requests a second from one VM, all its clients together.
"""

import threading
from collections import deque


class RateLimiter:
    """Allows at most ``limit`` requests in any ``window`` seconds, from all threads together.

    The defaults stay below the limit of IMDS. Thread-safe.
    """

    def __init__(self, limit: int = 4, window: float = 1.1) -> None:
        self._limit = limit
        self._window = window
        self._sent: deque[float] = deque(maxlen=limit)  # the last slots, the newest last
        self._lock = threading.Lock()

    @property
    def spacing(self) -> float:
        """The seconds between requests that are sent as often as possible at an even rate."""
        return self._window / self._limit

    def reserve(self, now: float) -> float:
        """Reserve the next free slot; return its time, ``now`` or later.

        The caller waits until then.
        """
        with self._lock:
            slot = max(now, self._sent[-1]) if self._sent else now
            if len(self._sent) == self._sent.maxlen:
                slot = max(slot, self._sent[0] + self._window)
            self._sent.append(slot)
            return slot

    def arrived(self, slot: float, now: float) -> None:
        """Move ``slot`` to ``now``, when its request has ended, and so has arrived for certain.

        IMDS counts arrivals: if a request is delayed on its way, it arrives together with requests
        that were sent long after it.
        """
        with self._lock:
            if slot in self._sent:  # not if as many later requests have come as are remembered
                self._sent.remove(slot)
                self._sent.append(max(slot, now))
                self._sent = deque(sorted(self._sent), self._sent.maxlen)
