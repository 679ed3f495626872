"""Tells whether an event can have started unseen: polls may have failed, or this VM may have been suspended."""

from azure_scheduled_events_exporter.core.observation import WATCHED_WITHIN_SECONDS
from azure_scheduled_events_exporter.core.timestamp import Timestamp

from .clock import Clock


class DocumentGaps:
    """When documents arrived, believed or not, and whether there was a gap. Before the first one, there is a gap."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.last: Timestamp | None = None
        """When the last document arrived."""
        self._last_since_boot = 0.0  # the same by the clock that counts suspended time, in seconds
        self._has_gap = True

    def has_gap(self, now: Timestamp) -> bool:
        """Return whether an event can have started unseen since the last document that was observed."""
        if self._has_gap or self.last is None:
            return True
        # The clock since boot too, because the monotonic clock stands still while the VM is suspended.
        since_boot = self._clock.reading().since_boot - self._last_since_boot
        return max(now.since(self.last), since_boot) > WATCHED_WITHIN_SECONDS

    def document_came(self, now: Timestamp, *, has_gap: bool) -> None:
        """Take note of a document; ``has_gap``: a gap before it still counts, since it was not observed as a whole."""
        self.last, self._last_since_boot, self._has_gap = now, self._clock.reading().since_boot, has_gap
