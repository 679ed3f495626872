"""Measures how often a Prometheus scrapes this exporter, because its rules may still fire after the end of an event.

Thread-safe. Uses no socket: the HTTP handler reports each scrape.
"""

import threading
from collections import deque
from collections.abc import Mapping
from itertools import pairwise

SCRAPER_HEADER = "x-prometheus-scrape-timeout-seconds"
"""Prometheus, its agents and vmagent send it with every scrape; people and probes do not."""

_LONGEST_INTERVAL = 300.0  # tolerance within which Prometheus treats samples as one series
_LATE = 1.1  # no scraper is exactly in time
_UNKNOWN_INTERVAL = 60.0  # of a scraper that has come once: most installations have less
_ABSENCE_SECONDS = 240.0  # the alerts of a Prometheus that is down hold so long; when it is back, it posts them again
_KEPT = 6  # scrapes of one scraper
_SCRAPERS = 16
_SLACK_SECONDS = 10.0

_Scraper = tuple[str, str, str]  # its address, program and timeout: several may share an address


class Scrapes:
    """Remembers when each scraper came. ``expected`` is the interval that the last run of the exporter saw, 0: none."""

    def __init__(self, expected: float = 0.0, now: float = 0.0) -> None:
        self._lock = threading.Lock()
        self._expected = min(expected, _LONGEST_INTERVAL)
        self._began = now
        self._seen: dict[_Scraper, deque[float]] = {}

    def seen(self, client: str, headers: Mapping[str, str], now: float) -> None:
        """Record a request for metrics at monotonic time ``now``; its headers show whether it is a scrape."""
        if SCRAPER_HEADER not in headers:
            return
        scraper = client, headers.get("user-agent", ""), headers[SCRAPER_HEADER]
        with self._lock:
            times = self._seen.pop(scraper, None) or deque(maxlen=_KEPT)
            self._seen[scraper] = times
            times.append(now)
            if len(self._seen) > _SCRAPERS:
                del self._seen[next(iter(self._seen))]

    def interval(self, now: float) -> float:
        """Return the longest interval, in seconds, of the active scrapers; 0 if there is none."""
        with self._lock:
            if not self._seen:
                return self._awaited(now)
            return max(map(self._interval, self._active(now)), default=0.0)

    def seen_by_all(self, since: float, now: float) -> float | None:
        """Return the time at which every active scraper had seen a change of ``since``; None if one has not come yet.

        That is at the earliest one interval after ``since``, because a scraper that came sooner may not have waited for
        the answer. Without a scraper, it is ``since``. An exporter that was restarted has shown the change only since
        then.
        """
        with self._lock:
            awaited = self._awaited(now)
            if awaited and not self._seen:
                return None
            since = max(since, self._began)
            came = [since + awaited]
            for times in self._active(now):
                first = next((at for at in times if at > since), None)
                if first is None:
                    return None
                came += since + self._interval(times), first
            return max(came)

    def _active(self, now: float) -> list[deque[float]]:
        return [times for times in self._seen.values() if now - times[-1] <= _absence(self._interval(times))]

    def _awaited(self, now: float) -> float:
        """Return the scrape interval before the restart while those scrapers may still come back, else 0."""
        return self._expected if self._expected and now - self._began <= _absence(self._expected) else 0.0

    def _interval(self, times: deque[float]) -> float:
        gaps = (later - earlier for earlier, later in pairwise(times))
        known = (gap for gap in gaps if gap <= _LONGEST_INTERVAL * _LATE)
        return max(known, default=max(_UNKNOWN_INTERVAL, self._expected))


def _absence(interval: float) -> float:
    """Return the seconds without a scrape after which a scraper with this interval has gone."""
    return max(2 * interval + _SLACK_SECONDS, _ABSENCE_SECONDS)
