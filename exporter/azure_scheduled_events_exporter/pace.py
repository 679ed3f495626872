"""When to ask IMDS next: the rhythm of polls, and the budget of requests that all parts of the process share.

Pure: times are handed in, in seconds of the monotonic clock.

IMDS answers 429 to more than 5 requests a second from one VM, all its clients together.
"""

import math
import threading
from collections import deque

SLOWEST_SECONDS = 5.0
"""However throttled, ask at least this often: a Spot VM has 30 s."""


class Pace:
    """The rhythm of polling at a fixed rate, slower while IMDS throttles. A late poll is not repeated."""

    def __init__(self, interval: float, start: float) -> None:
        self._interval = interval
        self._due = start
        self._factor = 1

    @property
    def due(self) -> float:
        """When the next poll is to begin."""
        return self._due

    def polled(self, now: float, *, throttled: bool) -> None:
        """Take note of a poll that ended at ``now``: each 429 doubles the interval, each other answer halves it."""
        slowest = max(1, math.floor(SLOWEST_SECONDS / self._interval))
        self._factor = min(self._factor * 2, slowest) if throttled else max(1, self._factor // 2)
        step = self._interval * self._factor
        self._due += step
        if self._due <= now:  # keep the beat, drop what was missed
            self._due += math.ceil((now - self._due) / self._interval) * self._interval

    def at_once(self, now: float) -> None:
        """Poll next at ``now``, and from there on."""
        self._due = now


class Budget:
    """At most ``limit`` requests in any ``window`` seconds, whoever sends them. Thread-safe."""

    def __init__(self, limit: int = 4, window: float = 1.1) -> None:
        self._window = window
        self._sent: deque[float] = deque(maxlen=limit)
        self._lock = threading.Lock()

    def reserve(self, now: float) -> float:
        """Take the next free place; return when it is, ``now`` or later. The caller waits until then."""
        with self._lock:
            place = max(now, self._sent[-1]) if self._sent else now
            if len(self._sent) == self._sent.maxlen:
                place = max(place, self._sent[0] + self._window)
            self._sent.append(place)
            return place

    def arrived(self, place: float, now: float) -> None:
        """Count the request of ``place`` from ``now`` on, when it has surely arrived.

        IMDS counts arrivals: of two requests sent a second apart, the first may have been held up on its way.
        """
        with self._lock:
            if place in self._sent:
                self._sent.remove(place)
                self._sent.append(max(place, now))
                self._sent = deque(sorted(self._sent), self._sent.maxlen)
