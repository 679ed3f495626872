"""Puts together what one observation adds to the journal. Pure."""

from collections.abc import Callable, Sequence

from azure_scheduled_events_exporter.core.lifecycle import Change, Lifecycle, Lifecycles
from azure_scheduled_events_exporter.core.spans import finished, so_far
from azure_scheduled_events_exporter.journal.store import Entry


def journal_entry(
    before: Lifecycles, after: Lifecycles, changes: Sequence[Change], is_traced: Callable[[Lifecycle], bool]
) -> Entry:
    """Return what to store: ``changes``, each lifecycle that is new or different, and the spans that are complete.

    Args:
        before: the lifecycles that the journal has.
        after: the lifecycles now.
        changes: the transitions from one to the other.
        is_traced: whether this VM sends the spans of an event.
    """
    different = [life for life in after.current.values() if life != before.current.get(life.event_id)]
    ended = [change.lifecycle for change in changes if change.lifecycle.outcome]
    spans = [span for change in changes if is_traced(change.lifecycle) for span in finished(change)]
    # Spans that could not be sent while this VM's name was unknown.
    late = [
        span
        for event_id, life in (*after.ended.items(), *after.current.items())
        if event_id in before.current and is_traced(life) and not is_traced(before.current[event_id])
        for span in so_far(before.current[event_id], life)
    ]
    return Entry(changes, [*different, *ended], [*spans, *late])
