"""Decides when to believe an empty body of a 200. Pure: times are arguments.

Some nodes answer with an empty body if there are no events. But an empty body while events are current is more likely a
fault than their end.
"""

from dataclasses import dataclass

from azure_scheduled_events_exporter.core.timestamp import Timestamp

POLLS = 3
SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class EmptyBodies:
    """Counts consecutive empty bodies while events are current; failed polls in between are ignored."""

    count: int = 0
    since: Timestamp | None = None

    def plus(self, now: Timestamp) -> "EmptyBodies":
        """Return the count with one more empty body, at ``now``."""
        return EmptyBodies(self.count + 1, self.since or now)

    def are_believed(self, now: Timestamp) -> bool:
        """Return whether these empty bodies prove that the events are gone."""
        return self.count >= POLLS and self.since is not None and now.since(self.since) >= SECONDS
