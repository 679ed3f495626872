"""The limit on requests to IMDS that all parts of the process share.

IMDS answers 429 to more than 5 requests a second from one VM, all its clients together. Reads no
clock: times are arguments, in seconds of the monotonic clock.
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
        # The times of the last `limit` requests, the newest last. The time of a request that still
        # waits is in the future.
        self._slots: deque[float] = deque(maxlen=limit)
        self._lock = threading.Lock()

    @property
    def spacing(self) -> float:
        """The shortest time between requests, in seconds, at which none has to wait."""
        return self._window / self._limit

    def reserve(self, now: float) -> float:
        """Reserve the next free slot: the time of a request, ``now`` or later.

        The caller waits until then before it sends the request.
        """
        with self._lock:
            slot = now
            if self._slots:
                slot = max(slot, self._slots[-1])  # requests are sent in the order of their calls
            if len(self._slots) == self._slots.maxlen:
                slot = max(slot, self._slots[0] + self._window)
            self._slots.append(slot)
            return slot

    def arrived(self, slot: float, now: float) -> None:
        """Move ``slot`` to ``now``, because its request has just ended.

        IMDS counts arrivals. A request that is delayed on its way may arrive together with requests
        that were sent long after it. When it has ended, it has arrived for certain.
        """
        with self._lock:
            if slot not in self._slots:  # later requests have pushed it out
                return
            self._slots.remove(slot)
            self._slots.append(max(slot, now))
            self._slots = deque(sorted(self._slots), self._slots.maxlen)
