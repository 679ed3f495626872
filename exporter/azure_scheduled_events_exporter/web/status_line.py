"""Writes the line that ``systemctl status`` shows. Pure.

It contains times, not ages, because it is not updated while nothing changes.
"""

from azure_scheduled_events_exporter.snapshot.snapshot import Snapshot
from azure_scheduled_events_exporter.times import iso_time

from .overview import headline, is_starting, outlook


def status_line(snapshot: Snapshot) -> str:
    """Return whether IMDS answers, since when and why not, and the most important event."""
    polls = snapshot.polls
    why = ""
    if not polls.up and is_starting(polls):
        why = " (the first answer may take two minutes)"
    elif not polls.up:
        why = f" ({polls.failure})"
        if polls.last_success is not None:
            why = f" since {iso_time(polls.last_success)}{why}"
    line = f"{headline(polls, is_fresh=polls.up)}{why}, {outlook(snapshot, is_fresh=polls.up)}"
    if snapshot.journal.up:
        return line
    return f"{line}; journal in memory only"
