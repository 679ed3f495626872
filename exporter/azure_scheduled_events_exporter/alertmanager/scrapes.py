"""Measures how often a Prometheus scrapes this exporter, because its rules may still fire after the end of an event.

Thread-safe. Uses no socket: the HTTP handler reports each scrape.
"""

import threading
from collections import deque
from collections.abc import Mapping

SCRAPER_HEADER = "x-prometheus-scrape-timeout-seconds"
"""Prometheus, its agents and vmagent send it with every scrape; people and probes do not."""

_LONGEST_INTERVAL = 300.0  # tolerance within which Prometheus treats samples as one series
_UNKNOWN_INTERVAL = 60.0  # of a scraper that has come once: most installations have less
_GAPS = 5
_SCRAPERS = 16
_SLACK_SECONDS = 10.0


class Scrapes:
    """Remembers when each scraper came. ``expected`` is the interval that the last run of the exporter saw, 0: none."""

    def __init__(self, expected: float = 0.0, now: float = 0.0) -> None:
        self._lock = threading.Lock()
        self._expected = min(expected, _LONGEST_INTERVAL)
        self._began = now
        self._seen: dict[str, float] = {}
        self._gaps: dict[str, deque[float]] = {}

    def seen(self, client: str, headers: Mapping[str, str], now: float) -> None:
        """Record a request for metrics at monotonic time ``now``; its headers show whether it is a scrape."""
        if SCRAPER_HEADER not in headers:
            return
        with self._lock:
            last = self._seen.pop(client, None)
            self._seen[client] = now
            gaps = self._gaps.setdefault(client, deque(maxlen=_GAPS))
            if last is not None and now - last <= _LONGEST_INTERVAL:
                gaps.append(now - last)
            if len(self._seen) > _SCRAPERS:
                oldest = next(iter(self._seen))
                del self._seen[oldest], self._gaps[oldest]

    def interval(self, now: float) -> float:
        """Return the longest interval, in seconds, of the active scrapers; 0 if there is none."""
        with self._lock:
            current = [self._interval(client) for client in self._seen if not self._is_gone(client, now)]
            if not self._seen and now - self._began <= 2 * self._expected + _SLACK_SECONDS:
                return self._expected
            return max(current, default=0.0)

    def _interval(self, client: str) -> float:
        return max(self._gaps[client], default=max(_UNKNOWN_INTERVAL, self._expected))

    def _is_gone(self, client: str, now: float) -> bool:
        return now - self._seen[client] > 2 * self._interval(client) + _SLACK_SECONDS
